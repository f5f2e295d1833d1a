//! The transport checksum of an inner packet, which may be left to the kernel at the far end.
//!
//! A kernel leaves the checksums of what it sends to its device (`CHECKSUM_PARTIAL` in Linux): the field then holds the
//! sum of the pseudo-header alone. On its way through the tunnel the AEAD protects the packet, so nobody needs to add up
//! its bytes: it stays partial until it leaves the far kernel, or for ever if it ends there.

use super::checksum;

/// What is in the checksum field of a TCP segment or UDP datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// What its sender has put there.
    #[default]
    Complete,
    /// The one's complement sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1), not inverted.
    Partial,
}

/// Where in an IP packet the checksum of its transport is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumPlace {
    /// The first byte under it, which is the first of the transport header.
    pub start: usize,
    /// Where in the transport header it stands.
    pub offset: usize,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bytes of the fixed IPv6 header (RFC 8200 §3).
const IPV6_HEADER: usize = 40;

impl ChecksumPlace {
    /// Finds it in a packet that is no fragment, of IPv4, or of IPv6 without extension headers.
    #[must_use]
    pub fn find(packet: &[u8]) -> Option<Self> {
        let (start, protocol) = match packet.first()? >> 4 {
            4 if word(packet, 6)? & 0x3fff == 0 => (usize::from(packet[0] & 0x0f) * 4, *packet.get(9)?),
            6 => (IPV6_HEADER, *packet.get(6)?),
            _ => return None,
        };
        let offset = match protocol {
            TCP => 16,
            UDP => 6,
            _ => return None,
        };
        let place = Self { start, offset };
        (start >= 20 && place.field() + 2 <= packet.len()).then_some(place)
    }

    /// Where in the packet it stands.
    #[must_use]
    pub fn field(self) -> usize {
        self.start + self.offset
    }

    /// Completes the checksum, which is partial, of a packet in which this place was found.
    ///
    /// A result of zero is written as all ones (RFC 768): of UDP zero says that there is none, and to TCP they are the
    /// same.
    pub fn complete(self, packet: &mut [u8]) {
        let Some(covered) = packet.get(self.start..) else { return };
        let sum = checksum::of(&[covered]);
        let sum = if sum == 0 { u16::MAX } else { sum };
        if let Some(field) = packet.get_mut(self.field()..self.field() + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_whole_tcp_and_udp_has_a_place() {
        let mut packet = [0; 60];
        packet[0] = 0x46;
        packet[9] = TCP;
        assert_eq!(ChecksumPlace::find(&packet), Some(ChecksumPlace { start: 24, offset: 16 }));
        assert_eq!(ChecksumPlace::find(&packet[..41]), None, "cut off");
        packet[6] = 0x20;
        assert_eq!(ChecksumPlace::find(&packet), None, "a fragment");
        packet[6] = 0x40;
        packet[9] = 1;
        assert_eq!(ChecksumPlace::find(&packet), None, "ICMP");
        packet[0] = 0x44;
        packet[9] = UDP;
        assert_eq!(ChecksumPlace::find(&packet), None, "a header of 16 bytes");
        packet[0] = 0x60;
        packet[6] = UDP;
        assert_eq!(ChecksumPlace::find(&packet), Some(ChecksumPlace { start: 40, offset: 6 }));
        assert_eq!(ChecksumPlace::find(&[]), None);
    }

    proptest! {
        #[test]
        fn a_completed_checksum_is_right(mut packet in proptest::collection::vec(any::<u8>(), 28..200)) {
            packet[0] = 0x45;
            packet[6..8].fill(0);
            packet[9] = UDP;
            let place = ChecksumPlace::find(&packet).expect("UDP");
            // Whatever is added to the sum beforehand, all of it together is all ones afterwards.
            let pseudo = [packet[26], packet[27]];
            place.complete(&mut packet);
            prop_assert_eq!(checksum::of(&[&packet[20..], &pseudo]), 0);
        }

        #[test]
        fn it_never_panics(packet in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(place) = ChecksumPlace::find(&packet) {
                place.complete(&mut packet.clone());
            }
        }
    }
}
