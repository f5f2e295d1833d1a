//! What fills a segment that breaks a promise: the heavy aggregates that cross it, where they enter, and whether one looks like an
//! attack or like a crowd.
//!
//! High loss on a link, and aggregates on it that have one destination prefix in common, are "either a DoS attack or a flash crowd"
//! (Habib, Fahmy and Bhargava, "On Monitoring and Controlling QoS Network Domains", §3.3, after ACC). What can be told beyond that
//! without asking the destination is little, and is told as such by [`Cause`]:
//!
//! - whether it is *new*: it alone carries a multiple of what everything together carried before;
//! - whether it is *answered*: packets come back from the prefix. A crowd of visitors gets answers. A flood gets none, nor does a
//!   stream that only flows one way; and one that the destination answers looks like a crowd.
//!
//! ```
//! use std::time::Duration;
//!
//! use psmc_tomography::aggregates::Ingress;
//! use psmc_tomography::survey::{Cause, Survey};
//!
//! let mut survey = Survey::new();
//! for _tick in 0..8 {
//!     for host in 0..200 {
//!         let source = std::net::Ipv4Addr::new(198, 51, 100, host).into();
//!         survey.cross(source, "203.0.113.80".parse().unwrap(), Ingress(1), 1000);
//!     }
//!     survey.advance(Duration::from_millis(250));
//! }
//! // 6.4 Mbit/s to one host, where all together had 1 Mbit/s before, and nothing comes back.
//! let found = survey.found(Some(1e6));
//! assert_eq!((found[0].prefix.to_string().as_str(), found[0].cause), ("203.0.113.80/32", Cause::Attack));
//! assert_eq!(found[0].sources, 200);
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::aggregates::{Aggregate, Aggregates, Ingress};

/// The share of what crosses a segment beyond which a prefix is told of, 0 to 1: up to four by themselves.
pub const SHARE: f64 = 0.2;

/// So many times what all together carried before is new: more than two, so that what has merely doubled is not.
pub const RISEN: f64 = 2.5;

/// Fewer answers than one in so many packets are none: receivers of bulk acknowledge more, and hosts answer floods with a few errors.
pub const UNANSWERED: u64 = 50;

/// Nothing is told of fewer packets to a prefix: of a hundred, one answer in fifty would be missed once in eight times.
pub const NEEDED: u64 = 200;

/// Sources of a prefix that are told apart; of more it is only known that there are more.
pub const MAX_SOURCES: usize = 256;

/// So many sources are worth being named.
pub const FEW: usize = 8;

/// After this time everything that was counted counts half: of what has ended a thousandth is left after half a minute.
const HALVE_AFTER: Duration = Duration::from_secs(3);

/// What an aggregate looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Too little was counted, or what was usual is not known.
    CannotBeTold,
    /// It is no more than all together carried before, by [`RISEN`].
    Usual,
    /// It is new, and answered.
    Crowd,
    /// It is new, and hardly answered.
    Attack,
}

/// An aggregate that carries more than [`SHARE`] of what crosses a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its destinations.
    pub prefix: IpNet,
    /// The share of what crosses the segment, 0 to 1.
    pub share: f64,
    /// Bits in a second.
    pub rate: f64,
    /// The share of the aggregate that enters by each ingress, 0 to 1, most first.
    pub ingresses: Vec<(Ingress, f64)>,
    /// Sources that were told apart, up to [`MAX_SOURCES`].
    pub sources: usize,
    /// Those, if they are no more than [`FEW`].
    pub few_sources: Vec<IpAddr>,
    /// Packets that came back for each that was sent there.
    pub answered: f64,
    /// How many times what all together carried before; `None` if that is not known.
    pub risen: Option<f64>,
    /// What it looks like.
    pub cause: Cause,
}

/// Counts what crosses one segment.
///
/// Tell it of samples by [`cross`](Self::cross) and [`answer`](Self::answer), and by [`advance`](Self::advance) that time has passed,
/// some four times in a second. Ask for what was [`found`](Self::found) whenever you like. Memory is bounded by constants.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    aggregates: Aggregates,
    heavy: Vec<Aggregate>,
    followed: BTreeMap<IpNet, Followed>,
    /// In which the bytes were counted.
    time: Duration,
    since_halved: Duration,
}

/// What is counted of a prefix since it is heavy.
#[derive(Clone, Debug, Default)]
struct Followed {
    packets: u64,
    answers: u64,
    sources: BTreeSet<IpAddr>,
}

impl Survey {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Packets of so many bytes together, from a source to a destination, have crossed the segment.
    pub fn cross(&mut self, source: IpAddr, destination: IpAddr, ingress: Ingress, bytes: u64) {
        self.aggregates.add(destination, ingress, bytes);
        for followed in self.of(destination) {
            followed.packets += 1;
            if followed.sources.len() < MAX_SOURCES {
                followed.sources.insert(source);
            }
        }
    }

    /// A packet from this source has come the other way.
    pub fn answer(&mut self, source: IpAddr) {
        self.of(source).for_each(|followed| followed.answers += 1);
    }

    fn of(&mut self, address: IpAddr) -> impl Iterator<Item = &mut Followed> {
        let holds = move |(prefix, followed): (&IpNet, _)| prefix.contains(&address).then_some(followed);
        self.followed.iter_mut().filter_map(holds)
    }

    /// Time has passed.
    pub fn advance(&mut self, elapsed: Duration) {
        self.time = self.time.saturating_add(elapsed);
        self.since_halved = self.since_halved.saturating_add(elapsed);
        self.heavy = self.aggregates.heavy(SHARE);
        let mut before = std::mem::take(&mut self.followed);
        let prefixes = self.heavy.iter().map(|aggregate| aggregate.prefix);
        self.followed = prefixes.map(|prefix| (prefix, before.remove(&prefix).unwrap_or_default())).collect();
        if self.since_halved >= HALVE_AFTER {
            self.since_halved = Duration::ZERO;
            self.aggregates.halve();
            self.time /= 2;
            self.followed.values_mut().for_each(Followed::halve);
        }
    }

    /// The aggregates that are heavy, the heaviest first. `usual` is what all together carried before, in bit/s.
    #[must_use]
    pub fn found(&self, usual: Option<f64>) -> Vec<Found> {
        let (total, seconds) = (self.aggregates.total() as f64, self.time.as_secs_f64());
        if total <= 0.0 || seconds <= 0.0 {
            return Vec::new();
        }
        self.heavy.iter().map(|aggregate| self.judge(aggregate, total, seconds, usual)).collect()
    }

    fn judge(&self, aggregate: &Aggregate, total: f64, seconds: f64, usual: Option<f64>) -> Found {
        let Aggregate { prefix, bytes, ref ingresses, .. } = *aggregate;
        let none = Followed::default();
        let followed = self.followed.get(&prefix).unwrap_or(&none);
        let bytes = bytes as f64;
        let rate = bytes * 8.0 / seconds;
        let risen = usual.map(|usual| rate / usual.max(LEAST_USUAL));
        let entered: u64 =
            ingresses.iter().map(|(_, bytes)| bytes).fold(0, |sum, bytes| sum.saturating_add(*bytes));
        let part = |bytes: u64| bytes as f64 / entered.max(1) as f64;
        Found {
            prefix,
            share: (bytes / total).min(1.0),
            rate,
            ingresses: ingresses.iter().map(|&(ingress, bytes)| (ingress, part(bytes))).collect(),
            sources: followed.sources.len(),
            few_sources: Some(&followed.sources)
                .filter(|all| all.len() <= FEW)
                .into_iter()
                .flatten()
                .copied()
                .collect(),
            answered: followed.answers as f64 / followed.packets.max(1) as f64,
            risen,
            cause: followed.cause(risen),
        }
    }
}

/// What was usual is taken for no less than this, in bit/s: a tunnel that rests carries as much by itself, and three times nothing is
/// no flood.
const LEAST_USUAL: f64 = 100_000.0;

impl Followed {
    fn cause(&self, risen: Option<f64>) -> Cause {
        match risen {
            Some(risen) if risen < RISEN => Cause::Usual,
            Some(_) if self.packets >= NEEDED => {
                let is_answered = self.answers.saturating_mul(UNANSWERED) >= self.packets;
                if is_answered { Cause::Crowd } else { Cause::Attack }
            }
            Some(_) | None => Cause::CannotBeTold,
        }
    }

    fn halve(&mut self) {
        (self.packets, self.answers) = (self.packets / 2, self.answers / 2);
        self.sources.clear();
    }
}

/// What is usual: the most that was carried in any five seconds of the last minute, but for the newest of them, in which what is judged
/// by it may have begun.
///
/// Call [`note`](Self::note) at regular times as long as all is well, and [`pause`](Self::pause) otherwise.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    /// Rates in bit/s, the oldest first.
    rates: VecDeque<f64>,
    /// When the present part began, and what had been carried by then.
    began: Option<(Duration, u64)>,
}

/// A part of the time of which what was carried is remembered.
const PART: Duration = Duration::from_secs(5);

/// Parts of a minute, and the one that does not count.
const PARTS: usize = 13;

impl Usual {
    /// So many bytes have been carried by `now` since some beginning.
    pub fn note(&mut self, now: Duration, bytes: u64) {
        let Some((began, before)) = self.began else {
            self.began = Some((now, bytes));
            return;
        };
        let elapsed = now.saturating_sub(began);
        if elapsed < PART {
            return;
        }
        if self.rates.len() == PARTS {
            self.rates.pop_front();
        }
        self.rates.push_back(bytes.saturating_sub(before) as f64 * 8.0 / elapsed.as_secs_f64());
        self.began = Some((now, bytes));
    }

    /// What comes is not usual.
    pub fn pause(&mut self) {
        self.began = None;
    }

    /// In bit/s; `None` before ten seconds were noted.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        let counted = self.rates.len().checked_sub(1).filter(|parts| *parts > 0)?;
        Some(self.rates.iter().take(counted).copied().fold(0.0, f64::max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    fn host(number: u32) -> IpAddr {
        IpAddr::V4((0xC633_6400 + number).into())
    }

    /// Two seconds in which 1,000 packets/s of 1,000 bytes go to one host, and so many of a hundred of them are answered.
    fn flood(answers: u32) -> Survey {
        let mut survey = Survey::new();
        let victim: IpAddr = "203.0.113.80".parse().unwrap();
        for _ in 0..8 {
            for number in 0..250 {
                survey.cross(host(number), victim, Ingress(number % 4), 1000);
                survey.cross(host(1), host(number), Ingress(9), 100);
                if number % 100 < answers {
                    survey.answer(victim);
                }
            }
            survey.advance(TICK);
        }
        survey
    }

    #[test]
    fn a_flood_is_told_from_a_crowd_by_its_answers() {
        for (answers, usual, cause) in [
            (0, Some(1e6), Cause::Attack),
            (1, Some(1e6), Cause::Attack),
            (30, Some(1e6), Cause::Crowd),
            (0, Some(4e6), Cause::Usual),
            (0, None, Cause::CannotBeTold),
        ] {
            let found = flood(answers).found(usual);
            assert_eq!(found.len(), 1, "{found:?}");
            let found = &found[0];
            assert_eq!(
                (found.prefix.to_string().as_str(), found.cause),
                ("203.0.113.80/32", cause),
                "{found:?}"
            );
            assert!(
                (found.rate / 8e6 - 1.0).abs() < 0.01 && (found.share - 10.0 / 11.0).abs() < 0.01,
                "{found:?}"
            );
            assert_eq!((found.sources, found.ingresses.len()), (250, 4));
            assert!(found.ingresses.iter().all(|(_, share)| (share - 0.25).abs() < 0.01), "{found:?}");
        }
    }

    #[test]
    fn few_packets_tell_nothing_and_none_less() {
        let mut survey = Survey::new();
        survey.advance(TICK);
        assert_eq!(survey.found(Some(1.0)), []);
        for _ in 0..4 {
            (0..40).for_each(|_| survey.cross(host(1), host(2), Ingress(0), 1_000_000));
            survey.advance(TICK);
        }
        assert_eq!(survey.found(Some(1.0))[0].cause, Cause::CannotBeTold);
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let mut survey = flood(0);
        for tick in 0..4 * 60 {
            (0..10)
                .for_each(|number| survey.cross(host(1), host(number + 20 * (tick % 10)), Ingress(0), 100));
            survey.advance(TICK);
        }
        let victim: IpAddr = "203.0.113.80".parse().unwrap();
        assert!(survey.found(Some(1e6)).iter().all(|found| found.prefix.addr() != victim));
    }

    #[test]
    fn what_is_usual_is_the_most_of_the_minute_before() {
        let mut usual = Usual::default();
        let mut bytes = 0;
        let mut run = |usual: &mut Usual, seconds: std::ops::Range<u64>, rate| {
            for second in seconds {
                usual.note(Duration::from_secs(second), bytes);
                bytes += rate;
            }
        };
        run(&mut usual, 0..10, 1000);
        assert_eq!(usual.get(), None);
        run(&mut usual, 10..21, 1000);
        assert_eq!(usual.get(), Some(8000.0));
        // What begins is not usual before five seconds have passed that were whole.
        run(&mut usual, 21..26, 9000);
        assert_eq!(usual.get(), Some(8000.0));
        usual.pause();
        run(&mut usual, 30..36, 1_000_000);
        run(&mut usual, 36..110, 500);
        assert_eq!(usual.get(), Some(4000.0));
    }

    proptest! {
        /// Whatever crosses: nothing is an attack or a crowd that is not new, nothing panics, and shares are shares.
        #[test]
        fn nothing_is_told_that_was_not_counted(
            seen in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u64>(), any::<bool>(), 0..3000_u64), 0..300),
            usual in prop::option::of(any::<f64>()),
        ) {
            let mut survey = Survey::new();
            for (source, destination, bytes, is_answer, ms) in seen {
                if is_answer {
                    survey.answer(IpAddr::V4(source.into()));
                } else {
                    survey.cross(IpAddr::V4(source.into()), IpAddr::V4((destination % 4).into()), Ingress(source % 9), bytes);
                }
                survey.advance(Duration::from_millis(ms));
                for found in survey.found(usual) {
                    prop_assert!((0.0..=1.0).contains(&found.share) && found.rate >= 0.0 && found.sources <= MAX_SOURCES);
                    let is_new = found.risen.is_some_and(|risen| risen >= RISEN);
                    prop_assert!(is_new || found.cause <= Cause::Usual);
                }
            }
        }
    }
}
