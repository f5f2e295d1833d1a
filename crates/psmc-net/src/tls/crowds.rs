//! Which handshakes may go on when there are too many, and which are answered.
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
/// Room for a new one is made at the cost of those that have not [proved](super::proof) to know whom they call, and among these of the
/// source that has most, of which the oldest goes. So a flood from a few sources takes its own places only, however fast it is, and one
/// from more sources than there are places shortens the time that each has.
/// A search looks at every entry, which for this many costs less than the system call that accepts a connection.
#[derive(Debug)]
pub(super) struct HalfOpen<T> {
    entries: VecDeque<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    source: IpAddr,
    has_proved: bool,
    handshake: T,
}

impl<T> HalfOpen<T> {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new() }
    }

    /// Adds one from `ip`, and yields the one that has to go for it.
    pub(super) fn add(&mut self, ip: IpAddr, has_proved: bool, handshake: T) -> Option<T> {
        let source = source_of(ip);
        let victim = self.victim(source).and_then(|index| self.entries.remove(index));
        self.entries.push_back(Entry { source, has_proved, handshake });
        victim.map(|entry| entry.handshake)
    }

    /// Forgets the one that is over; nothing happens if it was evicted before.
    pub(super) fn remove(&mut self, is_over: impl Fn(&T) -> bool) {
        if let Some(index) = self.entries.iter().position(|entry| is_over(&entry.handshake)) {
            self.entries.remove(index);
        }
    }

    /// Where the one is that must make room for another one from `source`.
    fn victim(&self, source: IpAddr) -> Option<usize> {
        let same = || self.entries.iter().enumerate().filter(|(_, entry)| entry.source == source);
        if same().count() >= MAX_PER_SOURCE {
            return same().min_by_key(|(index, entry)| (entry.has_proved, *index)).map(|(index, _)| index);
        }
        (self.entries.len() >= MAX_IN_ALL).then(|| self.oldest_of_largest()).flatten()
    }

    /// The oldest handshake of the source that has most; of several such sources that which has been there longest.
    fn oldest_of_largest(&self) -> Option<usize> {
        let all_have_proved = self.entries.iter().all(|entry| entry.has_proved);
        let mut sources: HashMap<IpAddr, (usize, Reverse<usize>)> = HashMap::new();
        let entries = self.entries.iter().enumerate();
        for (index, entry) in entries.filter(|(_, entry)| entry.has_proved == all_have_proved) {
            sources.entry(entry.source).or_insert((0, Reverse(index))).0 += 1;
        }
        sources.into_values().max().map(|(_, Reverse(oldest))| oldest)
    }
}

/// Handshakes that are answered from one source: so many at once, and so many in a second after that. Who has
/// [proved](super::proof) to know whom it calls may be one of many sites behind an address translator, or behind a relay.
const PROVED_FROM_ONE: Pace = Pace { at_once: 100, in_a_second: 50 };

/// Others are peers of an older version, and strangers.
const UNPROVED_FROM_ONE: Pace = Pace { at_once: 20, in_a_second: 10 };

/// The same from all sources: at 300 µs each, a tenth of a processor. Twenty sources can't use it up.
const UNPROVED_IN_ALL: Pace = Pace { at_once: 500, in_a_second: 300 };

/// The same: a third of a processor. Whoever floods by them has learned the site's key.
const PROVED_IN_ALL: Pace = Pace { at_once: 1000, in_a_second: 1000 };

/// Sources that are remembered; when more than these call within a few seconds, the others have the bounds in all only.
const MAX_SOURCES: usize = 4096;

/// How many at once, and how many in a second in the long run.
#[derive(Clone, Copy, Debug)]
struct Pace {
    at_once: u16,
    in_a_second: u16,
}

/// What is left of a pace.
#[derive(Clone, Copy, Debug)]
struct Left {
    count: f64,
    at: Instant,
}

impl Pace {
    fn full(self, now: Instant) -> Left {
        Left { count: self.at_once.into(), at: now }
    }

    /// What is left by now.
    fn refill(self, left: Left, now: Instant) -> Left {
        let grown = now.saturating_duration_since(left.at).as_secs_f64() * f64::from(self.in_a_second);
        Left { count: (left.count + grown).min(self.at_once.into()), at: now }
    }

    /// Takes one, if there is one left.
    fn take(self, left: &mut Left, now: Instant) -> bool {
        *left = self.refill(*left, now);
        let is_left = left.count >= 1.0;
        if is_left {
            left.count -= 1.0;
        }
        is_left
    }
}

/// How many handshakes are answered, which costs several operations on curves each.
#[derive(Debug)]
pub(super) struct Answering {
    proved: Answered,
    unproved: Answered,
}

#[derive(Debug)]
struct Answered {
    from_one: Pace,
    in_all: Pace,
    sources: HashMap<IpAddr, Left>,
    left: Left,
}

impl Answering {
    pub(super) fn new(now: Instant) -> Self {
        let new = |from_one, in_all: Pace| Answered {
            from_one,
            in_all,
            sources: HashMap::new(),
            left: in_all.full(now),
        };
        Self {
            proved: new(PROVED_FROM_ONE, PROVED_IN_ALL),
            unproved: new(UNPROVED_FROM_ONE, UNPROVED_IN_ALL),
        }
    }

    /// Whether one more from `ip` is to be answered.
    pub(super) fn admits(&mut self, ip: IpAddr, has_proved: bool, now: Instant) -> bool {
        let kind = if has_proved { &mut self.proved } else { &mut self.unproved };
        kind.admits(source_of(ip), now)
    }
}

impl Answered {
    /// What a source has used up takes nothing from the others.
    fn admits(&mut self, source: IpAddr, now: Instant) -> bool {
        let Self { from_one, in_all, sources, left } = self;
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&source) {
            sources.retain(|_, left| from_one.refill(*left, now).count < f64::from(from_one.at_once));
        }
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&source) {
            return in_all.take(left, now);
        }
        let of_source = sources.entry(source).or_insert_with(|| from_one.full(now));
        from_one.take(of_source, now) && in_all.take(left, now)
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
        assert_eq!(half_open.add(ip("192.0.2.1"), false, 1000), None);
        for n in 0..MAX_PER_SOURCE {
            assert_eq!(half_open.add(ip("192.0.2.2"), false, n), None);
        }
        assert_eq!(half_open.add(ip("192.0.2.2"), false, 2000), Some(0));
        assert_eq!(half_open.add(ip("::ffff:192.0.2.2"), false, 2001), Some(1));
    }

    #[test]
    fn a_flood_from_twenty_sources_costs_nobody_else_a_place() {
        let mut half_open = HalfOpen::new();
        let mut flood = (0..).map(|n: u32| (IpAddr::from([198, 51, 100, (n % 20) as u8]), n));
        let mut add = |half_open: &mut HalfOpen<u32>| {
            let (from, n) = flood.next().expect("it goes on");
            half_open.add(from, false, n)
        };
        let mut evicted: Vec<_> = (0..1000).filter_map(|_| add(&mut half_open)).collect();
        assert_eq!(evicted.len(), 1000 - MAX_IN_ALL);
        let peer = u32::MAX;
        evicted.extend(half_open.add(ip("192.0.2.1"), false, peer));
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
            assert_eq!(half_open.add(address.into(), false, n), None);
        }
        assert_eq!(half_open.add(ip("2001:db8::1"), false, 2000), Some(0));
        assert_eq!(half_open.entries.len(), MAX_IN_ALL);
    }

    #[test]
    fn who_has_proved_something_stays_whoever_comes() {
        let mut half_open = HalfOpen::new();
        half_open.add(ip("192.0.2.1"), true, usize::MAX);
        let evicted: Vec<_> = (0..3 * MAX_IN_ALL)
            .filter_map(|n| half_open.add(Ipv6Addr::from_bits((n as u128) << 64).into(), false, n))
            .collect();
        assert!(!evicted.contains(&usize::MAX));
        // From its own address, too.
        let evicted: Vec<_> =
            (0..3 * MAX_PER_SOURCE).filter_map(|n| half_open.add(ip("192.0.2.1"), false, n)).collect();
        assert!(!evicted.contains(&usize::MAX));
    }

    #[test]
    fn a_source_is_answered_at_a_pace_and_takes_nothing_from_others() {
        let start = Instant::now();
        let mut answering = Answering::new(start);
        let mut count = |from: &str, has_proved, at: u64| {
            let now = start + Duration::from_secs(at);
            (0..5000).filter(|_| answering.admits(ip(from), has_proved, now)).count()
        };
        assert_eq!(count("2001:db8::1", false, 0), 20);
        assert_eq!(count("2001:db8::2", false, 0), 0, "the same /64");
        assert_eq!(count("2001:db8::2", true, 0), 100, "who has proved something has a pace of its own");
        assert_eq!(count("192.0.2.1", false, 0), 20);
        assert_eq!(count("192.0.2.1", false, 1), 10);
        assert_eq!(count("192.0.2.1", true, 1), 100);
        assert_eq!(count("192.0.2.1", true, 2), 50);
    }

    #[test]
    fn twenty_sources_leave_some_for_an_older_peer() {
        let start = Instant::now();
        let mut answering = Answering::new(start);
        let mut peer = 0;
        for number in 0..30_000_u32 {
            let now = start + Duration::from_secs(10) * number / 30_000;
            answering.admits(IpAddr::from([198, 51, 100, (number % 20) as u8]), false, now);
            if number % 3000 == 1500 {
                peer += u32::from(answering.admits(ip("192.0.2.1"), false, now));
            }
        }
        assert!(peer >= 9, "{peer} of 10 times");
    }

    #[test]
    fn more_sources_than_are_remembered_have_the_bound_in_all() {
        let now = Instant::now();
        let mut answering = Answering::new(now);
        let source = |number: u32| Ipv6Addr::from_bits(u128::from(number) << 64).into();
        let answered = (0..10_000).filter(|number| answering.admits(source(*number), false, now)).count();
        assert_eq!(answered, 500);
        assert_eq!(answering.unproved.sources.len(), MAX_SOURCES);
        assert!(answering.admits(source(9_999), true, now));
        let later = now + Duration::from_secs(60);
        assert!(answering.admits(source(9_999), false, later));
        assert!(answering.unproved.sources.len() < MAX_SOURCES);
    }

    #[test]
    fn what_is_over_makes_room() {
        let mut half_open = HalfOpen::new();
        for n in 0..MAX_PER_SOURCE {
            half_open.add(ip("192.0.2.2"), false, n);
        }
        half_open.remove(|n| *n == 7);
        half_open.remove(|n| *n == 7);
        assert_eq!(half_open.add(ip("192.0.2.2"), false, 1000), None);
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
