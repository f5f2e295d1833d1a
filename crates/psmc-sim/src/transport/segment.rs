//! What a TCP header says.
//!
//! What smoltcp takes for a network device: a packet in, packets out.

use std::collections::VecDeque;

use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpOption, TcpPacket};

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) ack: Option<u32>,
    pub(super) window: u16,
    /// Bytes of payload.
    pub(super) len: u64,
    /// Ranges that have arrived behind a gap (RFC 2018).
    pub(super) sacked: [Option<(u32, u32)>; 3],
    /// The longest segment that the sender takes, told in a SYN.
    pub(super) mss: Option<u16>,
    /// The time stamp of the segment that it answers (RFC 7323).
    pub(super) echo: Option<u32>,
    /// What it says of marks.
    pub(super) flags: Flags,
    pub(super) is_syn: bool,
    pub(super) is_reset: bool,
    /// Whether it only acknowledges.
    pub(super) is_plain: bool,
}

impl Segment {
    /// Reads the header of the segment in an IP packet.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let tcp = TcpPacket::new_checked(packet.get(ip_header_len(packet)?..)?).ok()?;
        let len = tcp.payload().len() as u64;
        let options = Options::parse(tcp.options());
        let plain = !tcp.syn() && !tcp.fin() && !tcp.rst();
        Some(Self {
            sequence: number(tcp.seq_number()),
            ack: tcp.ack().then(|| number(tcp.ack_number())),
            window: tcp.window_len(),
            len,
            sacked: tcp.selective_ack_ranges().unwrap_or_default(),
            mss: options.mss.filter(|_| tcp.syn()),
            echo: options.echo.filter(|_| tcp.ack()),
            flags: Flags { echo: tcp.ece(), reduced: tcp.cwr() },
            is_syn: tcp.syn(),
            is_reset: tcp.rst(),
            is_plain: plain && len == 0,
        })
    }

    /// Tells in the header of a segment what is true now: what is acknowledged, the window, and the time.
    pub(super) fn renew(packet: &mut [u8], (ack, window): (u32, u16), time: u32) {
        Self::stamp(packet, time);
        if let Some(start) = ip_header_len(packet)
            && let Ok(mut tcp) = TcpPacket::new_checked(&mut packet[start..])
        {
            tcp.set_ack_number(smoltcp::wire::TcpSeqNumber(ack.cast_signed()));
            tcp.set_window_len(window);
        }
    }

    /// Writes the time into the header of a segment, if it has a place for it.
    pub(super) fn stamp(packet: &mut [u8], time: u32) {
        if let Some(start) = ip_header_len(packet)
            && let Ok(mut tcp) = TcpPacket::new_checked(&mut packet[start..])
            && let Some(place) = Options::parse(tcp.options_mut()).stamp_at
        {
            tcp.options_mut()[place..place + 4].copy_from_slice(&time.to_be_bytes());
        }
    }
}

/// The flags of explicit congestion notification (RFC 3168 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    /// ECE: the sender has received a marked packet.
    pub(super) echo: bool,
    /// CWR: the sender has reduced its window.
    pub(super) reduced: bool,
}

impl Flags {
    /// Writes them into the header of the segment in an IP packet.
    pub(super) fn write(self, packet: &mut [u8]) {
        if let Some(start) = ip_header_len(packet)
            && let Ok(mut tcp) = TcpPacket::new_checked(&mut packet[start..])
        {
            tcp.set_ece(self.echo);
            tcp.set_cwr(self.reduced);
        }
    }
}

/// What the options of a segment say.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    mss: Option<u16>,
    echo: Option<u32>,
    /// Where the time stamp is, from the first option on.
    stamp_at: Option<usize>,
}

impl Options {
    fn parse(all: &[u8]) -> Self {
        let (mut options, mut rest) = (Self::default(), all);
        while let Ok((after, option)) = TcpOption::parse(rest)
            && !rest.is_empty()
        {
            match option {
                TcpOption::MaxSegmentSize(mss) => options.mss = Some(mss),
                TcpOption::TimeStamp { tsecr, .. } => {
                    options.echo = Some(tsecr);
                    // Behind kind and length.
                    options.stamp_at = Some(all.len() - rest.len() + 2);
                }
                TcpOption::EndOfList => return options,
                TcpOption::NoOperation
                | TcpOption::WindowScale(_)
                | TcpOption::SackPermitted
                | TcpOption::SackRange(_)
                | TcpOption::Unknown { .. } => {}
            }
            rest = after;
        }
        options
    }
}

fn ip_header_len(packet: &[u8]) -> Option<usize> {
    let (header, protocol) = match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            (usize::from(ip.header_len()), ip.next_header())
        }
        IpVersion::Ipv6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            (ip.header_len(), ip.next_header())
        }
    };
    (protocol == IpProtocol::Tcp).then_some(header)
}

fn number(sequence: smoltcp::wire::TcpSeqNumber) -> u32 {
    sequence.0.cast_unsigned()
}

/// How far a sequence number is beyond a place in the stream, given the number of the first byte. The place is near.
pub(super) fn distance(sequence: u32, first: u32, place: u64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap at 32 bits")]
    let distance = sequence.wrapping_sub(first).wrapping_sub(place as u32).cast_signed();
    distance.into()
}

/// A device of one connection.
#[derive(Debug)]
pub(super) struct Port {
    mtu: usize,
    /// What is to be received next.
    pub(super) incoming: Option<Vec<u8>>,
    /// What was sent.
    pub(super) outgoing: VecDeque<Vec<u8>>,
}

impl Port {
    /// A device that carries packets of up to `mtu` bytes.
    pub(super) fn new(mtu: usize) -> Self {
        Self { mtu, incoming: None, outgoing: VecDeque::new() }
    }
}

impl Device for Port {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Room<'_>)> {
        let packet = self.incoming.take()?;
        Some((Received(packet), Room(&mut self.outgoing)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Room<'_>> {
        Some(Room(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // A packet that was damaged on its way bears a mark instead.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

/// A packet that has arrived.
pub(super) struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Room for a packet to be sent.
pub(super) struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_right_where_numbers_wrap() {
        let first = u32::MAX - 10;
        assert_eq!(distance(first, first, 0), 0);
        assert_eq!(distance(first.wrapping_sub(1), first, 0), -1);
        assert_eq!(distance(first.wrapping_add(100), first, 0), 100);
        let far = 3 * (1u64 << 32) + 77;
        assert_eq!(distance(first.wrapping_add(77), first, far), 0);
        assert_eq!(distance(first.wrapping_add(70), first, far), -7);
    }
}
