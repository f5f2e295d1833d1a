//! Datagrams under construction, laid out for segmentation offload: reserve, fill, commit.

use std::net::{IpAddr, SocketAddr};

use psmc_wire::ip::Ecn;

/// The most datagrams that the kernel takes in one batch (`UDP_MAX_SEGMENTS` of older kernels).
pub const MAX_SEGMENTS: usize = 64;

/// The most bytes that the kernel takes in one batch: an IP packet's 65,535 less the headers of IPv6 and UDP.
pub const MAX_BATCH_BYTES: usize = 65_535 - 40 - 8;

/// Which of the driver's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// Where the datagrams of a path go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathAddress {
    /// The socket they leave through.
    pub socket: SocketId,
    /// The source address, where the socket has several.
    pub local_ip: Option<IpAddr>,
    /// The peer's, or its NAT's.
    pub remote: SocketAddr,
}

impl PathAddress {
    /// Whether datagrams take the same way to the same place, whatever their source.
    pub(crate) fn leads_to(self, other: Self) -> bool {
        (self.socket, self.remote) == (other.socket, other.remote)
    }
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The socket to send from.
    pub socket: SocketId,
    /// The destination.
    pub remote: SocketAddr,
    /// The source address to send from, where the socket has several.
    pub local_ip: Option<IpAddr>,
    /// The ECN codepoint of its datagrams.
    pub ecn: Ecn,
    /// Bytes of every datagram of the batch but the last, which may be shorter.
    pub segment_size: usize,
    /// How many datagrams.
    pub segments: usize,
    /// Whether each has to be given to the kernel by itself: somebody below loses what it is to cut.
    pub apart: bool,
}

/// The bytes of a batch. One is enough for a driver: it is filled, sent and filled again.
#[derive(Debug)]
pub struct Batch {
    bytes: Box<[u8]>,
    len: usize,
    segment_size: usize,
    segments: usize,
    max_segments: usize,
    ecn: Ecn,
    closed: bool,
    apart: bool,
}

impl Batch {
    /// An empty batch of up to `max_segments` datagrams; 1 where the kernel has no segmentation offload.
    #[must_use]
    pub fn new(max_segments: usize) -> Self {
        Self {
            bytes: vec![0; MAX_BATCH_BYTES].into_boxed_slice(),
            len: 0,
            segment_size: 0,
            segments: 0,
            max_segments: max_segments.clamp(1, MAX_SEGMENTS),
            ecn: Ecn::NotEct,
            closed: false,
            apart: false,
        }
    }

    /// The datagrams, one behind the other.
    #[must_use]
    pub fn contents(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Bytes of every datagram but the last.
    #[must_use]
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// How many datagrams there are.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// The ECN codepoint of its datagrams.
    pub(crate) fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Whether a datagram with this ECN codepoint may be added: all of a batch have that of the first.
    pub(crate) fn takes(&mut self, ecn: Ecn) -> bool {
        if self.segments == 0 {
            self.ecn = ecn;
        }
        self.ecn == ecn
    }

    /// Whether its datagrams have to leave one by one.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Sets that its datagrams leave one by one.
    pub(crate) fn part(&mut self) {
        self.apart = true;
    }

    /// Empties the batch.
    pub(crate) fn clear(&mut self) {
        (self.len, self.segment_size, self.segments) = (0, 0, 0);
        (self.closed, self.apart) = (false, false);
    }

    /// Room for the next datagram, of at most `max` bytes, or `None` if the batch is complete. Without a
    /// [`commit`](Self::commit) the reservation is without effect.
    pub(crate) fn reserve(&mut self, max: usize) -> Option<&mut [u8]> {
        let limit = if self.segments == 0 { max } else { max.min(self.segment_size) };
        let end = self.len + limit;
        let open = !self.closed && self.segments < self.max_segments && end <= self.bytes.len();
        open.then(|| &mut self.bytes[self.len..end])
    }

    /// Says that the first `len` bytes of the last reservation are a datagram.
    pub(crate) fn commit(&mut self, len: usize) {
        if self.segments == 0 {
            self.segment_size = len;
        }
        // A datagram shorter than the others can only be the last one.
        self.closed = len < self.segment_size;
        self.segments += 1;
        self.len += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_datagram_closes_the_batch_and_a_longer_one_has_no_room() {
        let mut batch = Batch::new(64);
        assert_eq!(batch.reserve(1400).map(|room| room.len()), Some(1400));
        batch.commit(1000);
        assert_eq!(batch.reserve(1400).map(|room| room.len()), Some(1000));
        batch.commit(1000);
        batch.commit(400);
        assert!(batch.reserve(1400).is_none());
        assert_eq!((batch.segments(), batch.contents().len()), (3, 2400));
        batch.clear();
        assert_eq!(batch.reserve(1400).map(|room| room.len()), Some(1400));
    }

    #[test]
    fn the_first_datagram_decides_the_codepoint() {
        let mut batch = Batch::new(64);
        assert!(batch.takes(Ecn::NotEct) && batch.takes(Ecn::Ect0));
        batch.reserve(100);
        batch.commit(100);
        assert!(batch.takes(Ecn::Ect0) && !batch.takes(Ecn::NotEct));
        batch.clear();
        assert!(batch.takes(Ecn::NotEct));
    }

    #[test]
    fn a_batch_never_exceeds_what_the_kernel_takes() {
        let mut batch = Batch::new(1000);
        while let Some(room) = batch.reserve(1472) {
            let len = room.len();
            batch.commit(len);
        }
        assert!(batch.segments() <= MAX_SEGMENTS && batch.contents().len() <= MAX_BATCH_BYTES);
        assert!(batch.contents().len() > MAX_BATCH_BYTES - 1472);
    }
}
