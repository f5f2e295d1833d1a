//! Whether a path through a relay is merely bad, and so bad for so long that another relay should have it.
//!
//! A path is compared with the peer's other paths: what all of them suffer from is not the relay's fault. One look is no
//! verdict. A long way or a low rate must have been found by every look for a while, and one look that does not find it
//! acquits. Losses are chance: of few datagrams, a look finds none now and then however bad the path is. So what is lost beyond what is bearable adds
//! up over looks, and what is lost less is taken off again (a cumulative sum: Page, "Continuous Inspection
//! Schemes", 1954).

use std::time::Duration;

use psmc_service::clock::Backoff;
use tokio::time::Instant;

/// A fault but for losses is one when it has been there for this long.
const BAD_FOR: Duration = Duration::from_secs(10);

/// So many looks at least must have found it.
const BAD_LOOKS: u32 = 4;

/// A path that loses less is not worth a move: congestion control alone makes a path lose some per cent.
const BAD_LOSS: f64 = 0.15;

/// It must also lose so many times what the others lose.
const TIMES_LOSS: f64 = 3.0;

/// So many datagrams of a look count at most, as their share: where a path is full a thousand are lost to one burst.
const MAX_COUNTED: f64 = 50.0;

/// So many datagrams beyond what is bearable may a look add or take off, ...
const MAX_EXCESS: f64 = 3.0;

/// ... and with so many a path is bad: after five looks at the least. One of 50 datagrams a second that loses 22 % takes
/// seven on average; one that loses 8 % is not taken for it in years.
const BAD_EXCESS: f64 = 15.0;

/// What was known of the others' losses counts for so much less with each look.
const OTHERS_KEPT: f64 = 0.95;

/// The delay of a bad path is so many times that of the others, ...
const TIMES_RTT: u32 = 3;

/// ... and longer by this, which people notice.
const MORE_RTT: Duration = Duration::from_millis(100);

/// A bad path has less than one part in so many of the others' rate (PSMC ch. IV, path management).
const RATE_PARTS: u64 = 10;

/// The wait between two moves of a path for faults; doubled by each, ...
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// ... up to this. A relay that was left for a fault is not taken again for as long.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(16 * 60);

/// What a path, or several together, did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::daemon) struct Measured {
    /// Datagrams of either direction of which it is known by now whether they have arrived.
    pub(in crate::daemon) settled: u64,
    /// Those of them that have not.
    pub(in crate::daemon) lost: u64,
    /// The smallest round trip of late; of several paths their mean.
    pub(in crate::daemon) rtt: Option<Duration>,
    /// Bits per second that it delivers at its best; of several paths their mean. Only where packets had to wait, so
    /// that each path was given all that it takes.
    pub(in crate::daemon) rate: Option<u64>,
}

/// A path beside the peer's others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::daemon) struct Comparison {
    pub(in crate::daemon) own: Measured,
    pub(in crate::daemon) others: Measured,
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Loss,
    Delay,
    Rate,
}

impl Fault {
    /// In words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loss => "loses much more than the others",
            Self::Delay => "has a much longer round-trip time than the others",
            Self::Rate => "carries much less than the others",
        }
    }
}

/// Since when a fault is found, and how often it was.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    since: Option<Instant>,
    looks: u32,
}

/// The losses of a path beyond what is bearable, in datagrams, and those of the others of late.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    excess: f64,
    others_settled: f64,
    others_lost: f64,
}

/// The judge of one path at one relay.
#[derive(Debug)]
pub(super) struct Judge {
    /// Of delay and rate.
    streaks: [Streak; 2],
    losses: Losses,
    not_before: Option<Instant>,
    waits: Backoff,
}

impl Default for Judge {
    fn default() -> Self {
        let waits = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        Self { streaks: Default::default(), losses: Losses::default(), not_before: None, waits }
    }
}

impl Losses {
    fn look(&mut self, Comparison { own, others }: Comparison) {
        self.others_settled = self.others_settled * OTHERS_KEPT + others.settled as f64;
        self.others_lost = self.others_lost * OTHERS_KEPT + others.lost as f64;
        if own.settled == 0 {
            return;
        }
        let of_others = self.others_lost / self.others_settled.max(1.0);
        let bearable = BAD_LOSS.max(TIMES_LOSS * of_others);
        let share = own.lost as f64 / own.settled as f64;
        let excess = (share - bearable) * (own.settled as f64).min(MAX_COUNTED);
        let sum = self.excess + excess.clamp(-MAX_EXCESS, MAX_EXCESS);
        self.excess = sum.clamp(0.0, BAD_EXCESS);
    }
}

impl Judge {
    /// Looks at the path, and says for which fault it should be moved by now.
    pub(super) fn look(&mut self, seen: Comparison, now: Instant) -> Option<Fault> {
        let Comparison { own, others } = seen;
        self.losses.look(seen);
        let [delay, rate] = &mut self.streaks;
        if let (Some(own), Some(others)) = (own.rtt, others.rtt) {
            delay.note(own > TIMES_RTT * others && own > others + MORE_RTT, now);
        }
        if let (Some(own), Some(others)) = (own.rate, others.rate) {
            rate.note(own < others / RATE_PARTS, now);
        }
        self.verdict(now)
    }

    /// The path is silent, or works again: how long and how wide it was before is of another time. What it loses is not:
    /// a path that loses much is silent by chance now and then.
    pub(super) fn interrupt(&mut self) {
        self.streaks = Default::default();
    }

    /// The path was moved for a fault, or nothing better was found.
    pub(super) fn on_tried(&mut self, now: Instant) {
        // A fault that comes after a good while is another one.
        if self.not_before.is_some_and(|before| now > before + LONGEST_WAIT) {
            self.waits.reset();
        }
        self.not_before = Some(now + self.waits.wait());
        self.interrupt();
        self.losses = Losses::default();
    }

    fn verdict(&self, now: Instant) -> Option<Fault> {
        if self.not_before.is_some_and(|before| now < before) {
            return None;
        }
        if self.losses.excess >= BAD_EXCESS {
            return Some(Fault::Loss);
        }
        let faults = [Fault::Delay, Fault::Rate].into_iter().zip(self.streaks);
        faults.into_iter().find_map(|(fault, streak)| streak.is_long(now).then_some(fault))
    }
}

impl Streak {
    fn note(&mut self, is_found: bool, now: Instant) {
        if is_found {
            self.since.get_or_insert(now);
            self.looks += 1;
        } else {
            *self = Self::default();
        }
    }

    fn is_long(self, now: Instant) -> bool {
        self.looks >= BAD_LOOKS && self.since.is_some_and(|since| now >= since + BAD_FOR)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_core::Rng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seen(own_loss: u64, other_loss: u64) -> Comparison {
        let measured = |lost, rtt| Measured { settled: 100, lost, rtt: Some(rtt), rate: None };
        let rtt = Duration::from_millis(40);
        Comparison { own: measured(own_loss, rtt), others: measured(other_loss, rtt) }
    }

    fn delayed(ms: u64) -> Comparison {
        let mut seen = seen(0, 0);
        seen.own.rtt = Some(Duration::from_millis(ms));
        seen
    }

    /// The seconds at which a judge who sees that would move the path, which is as bad at each relay.
    fn moves(seconds: u64, mut look: impl FnMut(u64) -> Comparison) -> Vec<(u64, Fault)> {
        let (start, mut judge, mut moves) = (Instant::now(), Judge::default(), Vec::new());
        for second in 0..seconds {
            let now = start + u32::try_from(second).unwrap() * SECOND;
            if let Some(fault) = judge.look(look(second), now) {
                moves.push((second, fault));
                judge.on_tried(now);
            }
        }
        moves
    }

    #[test]
    fn a_fault_must_last_and_be_the_relays_own() {
        assert_eq!(moves(30, |_| seen(30, 1)), [(4, Fault::Loss)]);
        assert_eq!(moves(30, |_| delayed(200)), [(10, Fault::Delay)]);
        assert_eq!(moves(3000, |_| seen(30, 20)), [], "all lose");
        assert_eq!(moves(3000, |_| seen(10, 0)), [], "it loses a little");
        assert_eq!(moves(3000, |_| delayed(130)), [], "it is longer, as paths are");
        assert_eq!(
            moves(3000, |second| seen(if second % 2 == 0 { 0 } else { 40 }, 0)),
            [],
            "it is good as often as not"
        );
        assert_eq!(moves(3000, |second| seen(if second % 9 == 0 { 100 } else { 5 }, 0)), [], "bursts");
    }

    #[test]
    fn a_rate_counts_where_all_paths_were_full() {
        let full = |own| {
            let mut seen = seen(0, 0);
            (seen.own.rate, seen.others.rate) = (Some(own), Some(20_000_000));
            seen
        };
        assert_eq!(moves(20, |_| full(1_000_000)), [(10, Fault::Rate)]);
        assert_eq!(moves(20, |_| full(3_000_000)), []);
        assert_eq!(
            moves(20, |_| Comparison { others: Measured { rate: None, ..full(1).others }, ..full(1) }),
            []
        );
    }

    /// Looks at paths that lose datagrams by chance: the share of theirs, and of the others'.
    fn by_chance(seed: u64, per_look: u64, [own, others]: [f64; 2]) -> impl FnMut(u64) -> Comparison {
        let mut rng = Pcg64Mcg::new(u128::from(seed));
        let mut measured = move |share: f64| {
            let is_lost = |rng: &mut Pcg64Mcg| f64::from(rng.next_u32()) < share * f64::from(u32::MAX);
            let lost = (0..per_look).filter(|_| is_lost(&mut rng)).count();
            Measured { settled: per_look, lost: lost.try_into().unwrap(), ..Measured::default() }
        };
        move |_| Comparison { own: measured(own), others: measured(others) }
    }

    #[test]
    fn losses_are_found_in_seconds_however_they_fall() {
        for (per_look, share, seconds) in
            [(200, 0.22, 12), (50, 0.22, 25), (20, 0.22, 30), (50, 0.4, 9), (8, 0.4, 20)]
        {
            let mut found: Vec<_> = (0..200)
                .map(|seed| {
                    moves(90, by_chance(seed, per_look, [share, 0.01])).first().map_or(90, |(at, _)| *at)
                })
                .collect();
            found.sort_unstable();
            assert!(
                found[195] <= seconds,
                "{per_look} datagrams, {share}: {:?} {:?}",
                found[100],
                &found[190..]
            );
        }
    }

    #[test]
    fn bearable_losses_and_those_of_all_paths_are_no_fault() {
        for (per_look, own, others) in
            [(200, 0.12, 0.0), (50, 0.08, 0.0), (8, 0.05, 0.0), (50, 0.2, 0.1), (8, 0.2, 0.15)]
        {
            let moved =
                (0..5).filter(|seed| !moves(3600, by_chance(*seed, per_look, [own, others])).is_empty());
            assert_eq!(moved.count(), 0, "{per_look} datagrams, {own} beside {others}");
        }
    }

    #[test]
    fn a_path_that_is_bad_everywhere_is_moved_ever_more_seldom() {
        let times: Vec<_> = moves(4000, |_| seen(50, 0)).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [4, 64, 184, 424, 904, 1864, 2824, 3784]);
    }

    proptest! {
        /// However the paths behave: moves are a minute apart at least, and there are ten in an hour at most.
        #[test]
        fn a_path_never_flaps(looks in prop::collection::vec((0u64..100, 0u64..100, 1u64..2000), 3600)) {
            let times = moves(3600, |second| {
                let (own, other, ms) = looks[usize::try_from(second / 17 * 17).unwrap()];
                Comparison { own: Measured { rtt: delayed(ms).own.rtt, ..seen(own, other).own }, ..seen(own, other) }
            });
            prop_assert!(times.len() <= 10, "{times:?}");
            prop_assert!(times.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 60), "{times:?}");
        }
    }
}
