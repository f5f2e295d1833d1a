//! Files that Wireshark reads: the few blocks of pcapng that are needed (draft-ietf-opsawg-pcapng, sections 4.1 to 4.3), with an
//! interface for each path.

use std::io::{self, Write};

use psmc_api::CapturedPacket;

/// Types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// What tells a reader the order of bytes.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// The length of a section that is not known when it begins.
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// Packets that begin with an IP header (LINKTYPE_RAW).
const RAW_IP: u16 = 101;

/// Options, by block: the interface's name, and the fraction of a second in which its times count, here 10^-9; the packet's flags.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const NANOSECONDS: u8 = 9;
const EPB_FLAGS: u16 = 2;
const END_OF_OPTIONS: u16 = 0;

/// The directions in [`EPB_FLAGS`].
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes a capture.
pub(super) struct Writer<W> {
    out: W,
    /// The names of the interfaces, in the order of their numbers.
    interfaces: Vec<String>,
}

impl<W: Write> Writer<W> {
    /// Begins one.
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        let mut body = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend(UNKNOWN_LENGTH.to_le_bytes());
        write_block(&mut out, SECTION_HEADER, &body)?;
        out.flush()?;
        Ok(Self { out, interfaces: Vec::new() })
    }

    /// Writes a packet, behind its interface if that is new.
    pub(super) fn packet(&mut self, captured: &CapturedPacket) -> io::Result<()> {
        let interface = self.interface(&format!("{}/{}", captured.peer, captured.path))?;
        let CapturedPacket { unix_ns, sent, packet, .. } = captured;
        let length = u32::try_from(packet.len()).map_err(io::Error::other)?;
        let mut body = interface.to_le_bytes().to_vec();
        let [low, high] = [unix_ns & u64::from(u32::MAX), unix_ns >> u32::BITS];
        for half in [high, low] {
            body.extend(&half.to_le_bytes()[..4]);
        }
        // What is kept of it, and what there was.
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(packet);
        pad(&mut body);
        push_option(&mut body, EPB_FLAGS, &(if *sent { OUTBOUND } else { INBOUND }).to_le_bytes());
        push_option(&mut body, END_OF_OPTIONS, &[]);
        write_block(&mut self.out, ENHANCED_PACKET, &body)
    }

    /// Has everything arrive that was written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The number of an interface.
    fn interface(&mut self, name: &str) -> io::Result<u32> {
        let known = self.interfaces.iter().position(|known| known == name);
        let number = known.unwrap_or(self.interfaces.len());
        if known.is_none() {
            self.interfaces.push(name.to_owned());
            let mut body = RAW_IP.to_le_bytes().to_vec();
            // Reserved, and no limit on what is kept of a packet.
            body.extend([0; 2 + 4]);
            push_option(&mut body, IF_NAME, name.as_bytes());
            push_option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
            push_option(&mut body, END_OF_OPTIONS, &[]);
            write_block(&mut self.out, INTERFACE_DESCRIPTION, &body)?;
        }
        u32::try_from(number).map_err(io::Error::other)
    }
}

fn push_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    // Names are short.
    body.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A block: its type, its length, what is in it, and its length once more.
fn write_block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 3 * size_of::<u32>()).map_err(io::Error::other)?.to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length)?;
    out.write_all(body)?;
    out.write_all(&length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_the_specification() {
        let packet = |path: &str, sent, packet: &[u8]| CapturedPacket {
            unix_ns: 0x1_0000_0002,
            peer: "hq".to_owned(),
            path: path.to_owned(),
            sent,
            packet: packet.to_vec(),
        };
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out).unwrap();
        writer.packet(&packet("a", true, &[0x45])).unwrap();
        writer.packet(&packet("a", false, &[0x45, 1, 2, 3])).unwrap();
        let words: Vec<_> = out.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let [name, named] = [b"hq/a", &[9, 0, 0, 0]].map(|bytes| u32::from_le_bytes(*bytes));
        let expected = [
            vec![SECTION_HEADER, 28, BYTE_ORDER_MAGIC, 1, u32::MAX, u32::MAX, 28],
            vec![1, 40, 101, 0, 4 << 16 | 2, name, 1 << 16 | 9, named, 0, 40],
            vec![6, 48, 0, 1, 2, 1, 1, 0x45, 4 << 16 | 2, OUTBOUND, 0, 48],
            vec![6, 48, 0, 1, 2, 4, 4, 0x0302_0145, 4 << 16 | 2, INBOUND, 0, 48],
        ];
        assert_eq!(words, expected.concat());
    }
}
