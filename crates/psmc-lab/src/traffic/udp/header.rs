//! What a datagram says of itself.

use std::time::Duration;

/// Bytes at the beginning of a datagram.
pub(super) const HEADER: usize = 16;

/// What a datagram says of itself: its number and when it was sent, each in eight bytes, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    pub(super) sent_at: Duration,
}

impl Header {
    /// That of a datagram; `None` if it is too short.
    pub(super) fn read(datagram: &[u8]) -> Option<Self> {
        let (number, rest) = datagram.split_first_chunk()?;
        let (nanos, _) = rest.split_first_chunk()?;
        let sent_at = Duration::from_nanos(u64::from_be_bytes(*nanos));
        Some(Self { number: u64::from_be_bytes(*number), sent_at })
    }

    pub(super) fn bytes(self) -> [u8; HEADER] {
        let nanos = u64::try_from(self.sent_at.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [0; HEADER];
        let (number, sent_at) = bytes.split_at_mut(HEADER / 2);
        number.copy_from_slice(&self.number.to_be_bytes());
        sent_at.copy_from_slice(&nanos.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        let header = Header { number: 7 << 40, sent_at: Duration::from_nanos(123_456_789_012) };
        let mut datagram = header.bytes().to_vec();
        datagram.push(9);
        assert_eq!(Header::read(&datagram), Some(header));
        assert_eq!(Header::read(&datagram[..HEADER]), Some(header));
        assert_eq!(Header::read(&datagram[..HEADER - 1]), None);
    }
}
