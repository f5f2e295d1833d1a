//! The packets: UDP over IPv4 to the port that discards, with their numbers.

use std::net::Ipv4Addr;

/// The port of the discard protocol (RFC 863).
pub(super) const PORT: u16 = 9;

/// What tells our packets from others.
const MAGIC: [u8; 4] = *b"psmp";

const ETHERNET: usize = 14;
const PAYLOAD: usize = ETHERNET + 20 + 8;
const NUMBER: usize = PAYLOAD + 10;

/// Hops that a packet may pass: a few, so that loops end.
const HOPS: u8 = 16;

/// Which packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) trial: u32,
    pub(super) stream: u16,
    pub(super) number: u32,
}

/// An end of the way of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) hardware: [u8; 6],
    pub(super) ip: Ipv4Addr,
}

/// A frame whose IP packet has `len` bytes, at least 42.
pub(super) fn template(from: Address, to: Address, len: usize, probe: Probe) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET + len.max(NUMBER + 4 - ETHERNET)];
    let length = u16::try_from(frame.len() - ETHERNET).unwrap_or(u16::MAX);
    frame[..6].copy_from_slice(&to.hardware);
    frame[6..12].copy_from_slice(&from.hardware);
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip = &mut frame[ETHERNET..ETHERNET + 20];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[8..10].copy_from_slice(&[HOPS, 17]);
    ip[12..16].copy_from_slice(&from.ip.octets());
    ip[16..20].copy_from_slice(&to.ip.octets());
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = &mut frame[ETHERNET + 20..PAYLOAD];
    udp[..2].copy_from_slice(&PORT.to_be_bytes());
    udp[2..4].copy_from_slice(&PORT.to_be_bytes());
    udp[4..6].copy_from_slice(&length.saturating_sub(20).to_be_bytes());
    // No checksum, which IPv4 allows (RFC 768).
    frame[PAYLOAD..PAYLOAD + 4].copy_from_slice(&MAGIC);
    frame[PAYLOAD + 4..PAYLOAD + 8].copy_from_slice(&probe.trial.to_be_bytes());
    frame[PAYLOAD + 8..NUMBER].copy_from_slice(&probe.stream.to_be_bytes());
    number(&mut frame, probe.number);
    frame
}

/// Gives a frame another number.
pub(super) fn number(frame: &mut [u8], number: u32) {
    frame[NUMBER..NUMBER + 4].copy_from_slice(&number.to_be_bytes());
}

/// Which of ours a frame is, if it is.
pub(super) fn read(frame: &[u8]) -> Option<Probe> {
    let payload = frame.get(PAYLOAD..NUMBER + 4)?;
    if payload[..4] != MAGIC {
        return None;
    }
    Some(Probe {
        trial: u32::from_be_bytes(payload[4..8].try_into().ok()?),
        stream: u16::from_be_bytes(payload[8..10].try_into().ok()?),
        number: u32::from_be_bytes(payload[10..14].try_into().ok()?),
    })
}

/// That of IP (RFC 1071) over a header that has none yet.
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}

/// A request for who has an address (RFC 826).
pub(super) fn arp_request(from: Address, wanted: Ipv4Addr) -> Vec<u8> {
    let head = [&[0xff; 6][..], &from.hardware, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    let mut frame = [&head[..], &from.hardware, &from.ip.octets(), &[0; 6], &wanted.octets()].concat();
    frame.resize(60, 0);
    frame
}

/// The hardware address in an answer from `wanted`.
pub(super) fn arp_answer(frame: &[u8], wanted: Ipv4Addr) -> Option<[u8; 6]> {
    let is_answer = frame.get(12..22)? == [8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
    let is_of_wanted = frame.get(28..32)? == wanted.octets();
    (is_answer && is_of_wanted).then(|| frame.get(22..28)?.try_into().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_which_it_is() {
        let address = |last| Address { hardware: [2, 0, 0, 0, 0, last], ip: [10, 0, last, 2].into() };
        let probe = Probe { trial: 7, stream: 3, number: 1 };
        let mut frame = template(address(1), address(2), 46, probe);
        assert_eq!(frame.len(), 60);
        number(&mut frame, 70_000);
        assert_eq!(read(&frame), Some(Probe { number: 70_000, ..probe }));
        assert_eq!(read(&frame[..55]), None);
        assert_eq!(checksum(&frame[14..34]), 0, "the checksum holds");
    }

    #[test]
    fn arp_is_answered_by_whom_was_asked() {
        let from = Address { hardware: [2; 6], ip: [10, 0, 0, 2].into() };
        let wanted = Ipv4Addr::new(10, 0, 0, 1);
        let mut answer = arp_request(Address { hardware: [4; 6], ip: wanted }, from.ip);
        assert_eq!(arp_answer(&answer, wanted), None);
        answer[21] = 2;
        assert_eq!(arp_answer(&answer, wanted), Some([4; 6]));
        assert_eq!(arp_answer(&answer, from.ip), None);
    }
}
