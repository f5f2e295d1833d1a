//! Flows that stay on one path for a while, whatever the scheduler says: those that find out what the path carries.

use std::time::Instant;

use psmc_wire::{Bucket, PathId};

/// How many there may be at a time: a test of each path in both directions by each of several clients. The oldest gives way.
const MAX_PINS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Pin {
    bucket: Bucket,
    path: PathId,
    until: Instant,
}

/// Which flows stay on which path. Almost always none does.
#[derive(Debug, Default)]
pub(super) struct Pins(Vec<Pin>);

impl Pins {
    /// Has the flows of a bucket stay on a path until then.
    pub(super) fn insert(&mut self, bucket: Bucket, path: PathId, until: Instant, now: Instant) {
        self.0.retain(|pin| pin.bucket != bucket && pin.until > now);
        if self.0.len() >= MAX_PINS {
            self.0.remove(0);
        }
        self.0.push(Pin { bucket, path, until });
    }

    /// The path on which the flows of a bucket stay.
    pub(super) fn path_of(&self, bucket: Bucket, now: Instant) -> Option<PathId> {
        self.0.iter().find(|pin| pin.bucket == bucket && now < pin.until).map(|pin| pin.path)
    }
}
