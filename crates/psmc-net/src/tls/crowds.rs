//! Which handshakes may go on when there are too many.
//!
//! Keys that were refused: which of them to speak of, when anybody can show any number of them.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::keys::PublicKey;
use crate::listen::source_of;

/// Handshakes in progress at most, in all. Each holds up to 64 KiB of unfinished message, so 32 MiB together.
pub(super) const MAX_IN_ALL: usize = 512;

/// Handshakes in progress at most from one source: sites behind one address translator share it.
pub(super) const MAX_PER_SOURCE: usize = 32;

/// The handshakes in progress, oldest first; `T` stands for one of them.
///
/// Room for a new one is made at the cost of the source that has most, of which the oldest goes. So a flood from a few sources takes
/// its own places only, however fast it is, and one from more sources than there are places shortens the time that each has.
/// A search looks at every entry, which for this many costs less than the system call that accepts a connection.
#[derive(Debug)]
pub(super) struct HalfOpen<T> {
    entries: VecDeque<(IpAddr, T)>,
}

impl<T> HalfOpen<T> {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new() }
    }

    /// Adds one from `ip`, and yields the one that has to go for it.
    pub(super) fn add(&mut self, ip: IpAddr, handshake: T) -> Option<T> {
        let source = source_of(ip);
        let victim = self.victim(source).and_then(|index| self.entries.remove(index));
        self.entries.push_back((source, handshake));
        victim.map(|(_, handshake)| handshake)
    }

    /// Forgets the one that is over; nothing happens if it was evicted before.
    pub(super) fn remove(&mut self, is_over: impl Fn(&T) -> bool) {
        if let Some(index) = self.entries.iter().position(|(_, handshake)| is_over(handshake)) {
            self.entries.remove(index);
        }
    }

    /// Where the one is that must make room for another one from `source`.
    fn victim(&self, source: IpAddr) -> Option<usize> {
        let mut same = self.entries.iter().enumerate().filter(|(_, (other, _))| *other == source);
        let oldest = same.next().map(|(index, _)| index);
        if same.count() + 1 >= MAX_PER_SOURCE {
            return oldest;
        }
        (self.entries.len() >= MAX_IN_ALL).then(|| self.oldest_of_largest()).flatten()
    }

    /// The oldest handshake of the source that has most; of several such sources that which has been there longest.
    fn oldest_of_largest(&self) -> Option<usize> {
        let mut sources: HashMap<IpAddr, (usize, Reverse<usize>)> = HashMap::new();
        for (index, (source, _)) in self.entries.iter().enumerate() {
            sources.entry(*source).or_insert((0, Reverse(index))).0 += 1;
        }
        sources.into_values().max().map(|(_, Reverse(oldest))| oldest)
    }
}

/// Keys that are remembered.
const MAX_KNOWN: usize = 32;

/// The same key is spoken of again after this time.
const AGAIN: Duration = Duration::from_secs(600);

/// Another key is spoken of after this time.
const PAUSE: Duration = Duration::from_secs(5);

/// The keys that were refused last.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// The one that was refused last at the end.
    known: Vec<Stranger>,
    spoken_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Stranger {
    key: PublicKey,
    spoken_at: Option<Instant>,
    /// How often it was refused since it was spoken of.
    times: u64,
}

impl Strangers {
    /// A key was refused. If it is to be spoken of, returns how often that was since the last time.
    pub(super) fn note(&mut self, key: PublicKey, now: Instant) -> Option<u64> {
        let known = self.known.iter().position(|known| known.key == key).map(|at| self.known.remove(at));
        let mut stranger = known.unwrap_or(Stranger { key, spoken_at: None, times: 0 });
        stranger.times += 1;
        let is_due = stranger.spoken_at.is_none_or(|at| at + AGAIN <= now)
            && self.spoken_at.is_none_or(|at| at + PAUSE <= now);
        let times = is_due.then(|| {
            self.spoken_at = Some(now);
            stranger.spoken_at = Some(now);
            std::mem::take(&mut stranger.times)
        });
        if self.known.len() >= MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push(stranger);
        times
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_source_loses_its_own_oldest() {
        let mut half_open = HalfOpen::new();
        assert_eq!(half_open.add(ip("192.0.2.1"), 1000), None);
        for n in 0..MAX_PER_SOURCE {
            assert_eq!(half_open.add(ip("192.0.2.2"), n), None);
        }
        assert_eq!(half_open.add(ip("192.0.2.2"), 2000), Some(0));
        assert_eq!(half_open.add(ip("::ffff:192.0.2.2"), 2001), Some(1));
    }

    #[test]
    fn a_flood_from_twenty_sources_costs_nobody_else_a_place() {
        let mut half_open = HalfOpen::new();
        let mut flood = (0..).map(|n: u32| (IpAddr::from([198, 51, 100, (n % 20) as u8]), n));
        let mut add = |half_open: &mut HalfOpen<u32>| {
            let (from, n) = flood.next().expect("it goes on");
            half_open.add(from, n)
        };
        let mut evicted: Vec<_> = (0..1000).filter_map(|_| add(&mut half_open)).collect();
        assert_eq!(evicted.len(), 1000 - MAX_IN_ALL);
        let peer = u32::MAX;
        evicted.extend(half_open.add(ip("192.0.2.1"), peer));
        // 3,000 a second for the ten seconds of two handshakes.
        evicted.extend((0..30_000).filter_map(|_| add(&mut half_open)));
        assert!(!evicted.contains(&peer));
        assert_eq!(half_open.entries.len(), MAX_IN_ALL);
    }

    #[test]
    fn when_all_is_full_the_oldest_goes() {
        let mut half_open = HalfOpen::new();
        for n in 0..MAX_IN_ALL {
            let address = Ipv6Addr::from_bits((n as u128) << 64);
            assert_eq!(half_open.add(address.into(), n), None);
        }
        assert_eq!(half_open.add(ip("2001:db8::1"), 2000), Some(0));
        assert_eq!(half_open.entries.len(), MAX_IN_ALL);
    }

    #[test]
    fn what_is_over_makes_room() {
        let mut half_open = HalfOpen::new();
        for n in 0..MAX_PER_SOURCE {
            half_open.add(ip("192.0.2.2"), n);
        }
        half_open.remove(|n| *n == 7);
        half_open.remove(|n| *n == 7);
        assert_eq!(half_open.add(ip("192.0.2.2"), 1000), None);
    }

    #[test]
    fn an_ipv6_prefix_is_one_source() {
        assert_eq!(source_of(ip("2001:db8::1")), source_of(ip("2001:db8::ffff:ffff:ffff:ffff")));
        assert_ne!(source_of(ip("2001:db8::1")), source_of(ip("2001:db8:0:1::1")));
        assert_ne!(source_of(ip("192.0.2.1")), source_of(ip("192.0.2.2")));
    }

    #[test]
    fn a_key_is_spoken_of_once_and_then_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = |number| PublicKey::from_bytes([number; 32]);
        let mut strangers = Strangers::default();
        assert_eq!(strangers.note(key(1), at(0)), Some(1));
        for second in 1..10 {
            assert_eq!(strangers.note(key(1), at(second)), None);
        }
        assert_eq!(strangers.note(key(2), at(10)), Some(1));
        assert_eq!(strangers.note(key(3), at(11)), None, "another one was spoken of a moment ago");
        assert_eq!(strangers.note(key(3), at(15)), Some(2));
        assert_eq!(strangers.note(key(1), at(600)), Some(10));
        for number in 0..255 {
            strangers.note(key(number), at(601));
        }
        assert_eq!(strangers.known.len(), MAX_KNOWN);
    }
}
