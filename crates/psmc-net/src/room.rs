//! How many connections a server serves at a time, in all and of one source.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::listen::source_of;

/// Places for connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Room {
    in_all: usize,
    per_source: usize,
    taken: Arc<Mutex<Taken>>,
}

/// How many places are taken, by source.
#[derive(Debug, Default)]
struct Taken {
    in_all: usize,
    sources: HashMap<IpAddr, usize>,
}

/// One place, which is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    source: IpAddr,
    taken: Arc<Mutex<Taken>>,
}

impl Room {
    /// So many places, and so many for one source, an IPv4 address or an IPv6 /64.
    #[must_use]
    pub fn new(in_all: usize, per_source: usize) -> Self {
        Self { in_all, per_source, taken: Arc::default() }
    }

    /// A place for a connection from `ip`, if there is one.
    #[must_use]
    pub fn take(&self, ip: IpAddr) -> Option<Place> {
        let source = source_of(ip);
        let mut taken = lock(&self.taken);
        let of_source = taken.sources.get(&source).copied().unwrap_or_default();
        if taken.in_all >= self.in_all || of_source >= self.per_source {
            return None;
        }
        taken.in_all += 1;
        taken.sources.insert(source, of_source + 1);
        Some(Place { source, taken: self.taken.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.in_all -= 1;
        if let Some(left) = taken.sources.get_mut(&self.source) {
            *left -= 1;
            if *left == 0 {
                taken.sources.remove(&self.source);
            }
        }
    }
}

/// Nothing is left half done where the lock is held.
fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_places_and_all_have_theirs() {
        let room = Room::new(3, 2);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = room.take(ip("2001:db8::1"));
        let second = room.take(ip("2001:db8::2"));
        assert!(first.is_some() && second.is_some());
        assert!(room.take(ip("2001:db8::3")).is_none(), "one source");
        let third = room.take(ip("2001:db8:0:1::1"));
        assert!(third.is_some());
        assert!(room.take(ip("192.0.2.1")).is_none(), "all are taken");
        drop(first);
        assert!(room.take(ip("2001:db8::4")).is_some());
        drop((second, third));
        assert!(lock(&room.taken).sources.is_empty());
    }
}
