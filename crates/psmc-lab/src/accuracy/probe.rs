//! Frames that measure a link: UDP from nobody to nobody, each with its number and the time it was sent.

use std::time::{Duration, SystemTime};

use psmc_net::packet::ETHERNET_HEADER;

const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const PAYLOAD: usize = ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER;
const ADDRESSES: usize = ETHERNET_HEADER + 12;

/// From 192.0.2.1 to 192.0.2.2.
const NOBODY: [u16; 4] = [0xc000, 0x0201, 0xc000, 0x0202];

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Which series of probes it belongs to.
    pub(super) series: u32,
    /// Its number, from 0.
    pub(super) number: u32,
    /// When it was sent.
    pub(super) sent_at: SystemTime,
}

/// The shortest packet that has room for a probe, in bytes from the IP header on.
pub(super) const SHORTEST: usize = IPV4_HEADER + UDP_HEADER + 16;

/// The bytes of a frame with a packet of `length` bytes, but for the probe. No stack answers it: the addresses are
/// nobody's (RFC 5737).
pub(super) fn template(length: usize) -> Vec<u8> {
    let length = length.max(SHORTEST);
    let mut frame = vec![0; ETHERNET_HEADER + length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let (ip, udp) = frame[ETHERNET_HEADER..].split_at_mut(IPV4_HEADER);
    ip.copy_from_slice(&ipv4_header(length));
    let udp_length = u16::try_from(length - IPV4_HEADER).unwrap_or(0);
    // From port 9 to port 9, discard (RFC 863); a checksum of zero is none.
    udp[..6].copy_from_slice(&words::<3, 6>([9, 9, udp_length]));
    frame
}

impl Probe {
    pub(super) fn write(&self, frame: &mut [u8]) {
        let nanos = self.sent_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let payload = &mut frame[PAYLOAD..PAYLOAD + 16];
        payload[..4].copy_from_slice(&self.series.to_be_bytes());
        payload[4..8].copy_from_slice(&self.number.to_be_bytes());
        // Good until the year 2554.
        payload[8..].copy_from_slice(&u64::try_from(nanos).unwrap_or(0).to_be_bytes());
    }

    /// `None` if the frame is none of ours.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let payload: &[u8; 16] = frame.get(PAYLOAD..PAYLOAD + 16)?.try_into().ok()?;
        let [series, number] = [0, 4].map(|at| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| payload[at + i]);
            u32::from_be_bytes([a, b, c, d])
        });
        let nanos = payload[8..].iter().fold(0, |nanos, byte| nanos << 8 | u64::from(*byte));
        let sent_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        let is_ours = frame[ADDRESSES..ADDRESSES + 8] == words::<4, 8>(NOBODY);
        is_ours.then_some(Self { series, number, sent_at })
    }
}

fn ipv4_header(length: usize) -> [u8; IPV4_HEADER] {
    let total = u16::try_from(length).unwrap_or(u16::MAX);
    let [a, b, c, d] = NOBODY;
    // Version and length of the header, no fragments, time to live and UDP, the checksum, the addresses.
    let mut fields = [0x4500, total, 0, 0x4000, 0x4011, 0, a, b, c, d];
    let sum: u32 = fields.iter().map(|field| u32::from(*field)).sum();
    fields[5] = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(0);
    words(fields)
}

fn words<const WORDS: usize, const BYTES: usize>(values: [u16; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (chunk, value) in bytes.chunks_exact_mut(2).zip(values) {
        chunk.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_as_it_was_written() {
        let sent_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let probe = Probe { series: 7, number: 70_000, sent_at };
        let mut frame = template(64);
        probe.write(&mut frame);
        assert_eq!(Probe::read(&frame), Some(probe));
    }

    #[test]
    fn other_frames_are_none() {
        assert_eq!(Probe::read(&[2, 0, 0, 0, 0, 2]), None);
        assert_eq!(Probe::read(&[0xff; 100]), None);
    }

    #[test]
    fn a_template_is_as_long_as_asked_and_has_a_right_checksum() {
        for length in [0, SHORTEST, 64, 1500] {
            let frame = template(length);
            assert_eq!(frame.len(), ETHERNET_HEADER + length.max(SHORTEST));
            let header = &frame[ETHERNET_HEADER..ETHERNET_HEADER + IPV4_HEADER];
            let sum: u32 =
                header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }
}
