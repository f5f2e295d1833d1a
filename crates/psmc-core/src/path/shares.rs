//! What a path has carried of each class, while somebody exports it.

use crate::classify::{ClassId, MAX_CLASSES};

/// Inner packets of a class that a path has carried, with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassShare {
    /// Packets given to the path: each time that one is sent again, and each copy.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets of the peer that have come on the path, or were computed from what has.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
}

/// The shares of all classes, by their numbers; made with the first packet.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    of: Option<Box<[ClassShare; MAX_CLASSES]>>,
}

impl Shares {
    /// A packet of `len` bytes is given to the path, or a part of one, which may be the first.
    pub(crate) fn on_sent(&mut self, class: ClassId, is_first: bool, len: usize) {
        let share = self.share(class);
        share.sent_packets += u64::from(is_first);
        share.sent_bytes += len as u64;
    }

    /// A packet of `len` bytes has come.
    pub(crate) fn on_received(&mut self, class: ClassId, len: usize) {
        let share = self.share(class);
        share.received_packets += 1;
        share.received_bytes += len as u64;
    }

    /// Classes are others from now on.
    pub(crate) fn clear(&mut self) {
        self.of = None;
    }

    /// All of them; none before the first packet.
    pub(crate) fn all(&self) -> &[ClassShare] {
        self.of.as_ref().map_or(&[], |shares| shares.as_slice())
    }

    fn share(&mut self, class: ClassId) -> &mut ClassShare {
        let shares = self.of.get_or_insert_with(Box::default);
        // Classes are fewer than that.
        &mut shares[class.index() % MAX_CLASSES]
    }
}
