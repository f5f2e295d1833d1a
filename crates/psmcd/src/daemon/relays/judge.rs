//! Whether a path through a relay is merely bad, and so bad for so long that another relay should have it.
//!
//! A path is compared with the peer's other paths: what all of them suffer from is not the relay's fault. One look is no
//! verdict: only a fault that every look has found for a while is, and one look that does not find it acquits.

use std::time::Duration;

use tokio::time::Instant;

/// A fault is one when it has been there for this long.
const BAD_FOR: Duration = Duration::from_secs(10);

/// So many looks at least must have found it.
const BAD_LOOKS: u32 = 4;

/// A path that loses less is not worth a move: congestion control alone makes a path lose some per cent.
const BAD_LOSS: f64 = 0.15;

/// It must also lose so many times what the others lose.
const TIMES_LOSS: f64 = 3.0;

/// Datagrams that a share is made of: with fewer, two that are lost by chance would be a fault.
const LOOK_AT: u64 = 30;

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
    const ALL: [Self; 3] = [Self::Loss, Self::Delay, Self::Rate];

    /// In words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loss => "loses much more than the others",
            Self::Delay => "takes much longer than the others",
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

/// The judge of one path at one relay.
#[derive(Debug)]
pub(super) struct Judge {
    streaks: [Streak; 3],
    /// What is known of losses since the last look at them.
    losses: Comparison,
    not_before: Option<Instant>,
    wait: Duration,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            streaks: Default::default(),
            losses: Comparison::default(),
            not_before: None,
            wait: FIRST_WAIT,
        }
    }
}

impl Judge {
    /// Looks at the path, and says for which fault it should be moved by now.
    pub(super) fn look(&mut self, seen: Comparison, now: Instant) -> Option<Fault> {
        let Comparison { own, others } = seen;
        for (sum, new) in [(&mut self.losses.own, own), (&mut self.losses.others, others)] {
            sum.settled += new.settled;
            sum.lost += new.lost;
        }
        if self.losses.own.settled >= LOOK_AT {
            let Comparison { own, others } = std::mem::take(&mut self.losses);
            self.note(Fault::Loss, share(own) > BAD_LOSS.max(TIMES_LOSS * share(others)), now);
        }
        if let (Some(own), Some(others)) = (own.rtt, others.rtt) {
            self.note(Fault::Delay, own > TIMES_RTT * others && own > others + MORE_RTT, now);
        }
        if let (Some(own), Some(others)) = (own.rate, others.rate) {
            self.note(Fault::Rate, own < others / RATE_PARTS, now);
        }
        self.verdict(now)
    }

    /// The path is silent, or works again: what was found before is of another time.
    pub(super) fn forget(&mut self) {
        self.streaks = Default::default();
        self.losses = Comparison::default();
    }

    /// The path was moved for a fault, or nothing better was found.
    pub(super) fn on_tried(&mut self, now: Instant) {
        // A fault that comes after a good while is another one.
        let calm = self.not_before.is_some_and(|before| now > before + LONGEST_WAIT);
        self.wait = if calm { FIRST_WAIT } else { self.wait };
        self.not_before = Some(now + self.wait);
        self.wait = (2 * self.wait).min(LONGEST_WAIT);
        self.forget();
    }

    fn note(&mut self, fault: Fault, is_found: bool, now: Instant) {
        let streak = &mut self.streaks[fault as usize];
        if is_found {
            streak.since.get_or_insert(now);
            streak.looks += 1;
        } else {
            *streak = Streak::default();
        }
    }

    fn verdict(&self, now: Instant) -> Option<Fault> {
        if self.not_before.is_some_and(|before| now < before) {
            return None;
        }
        Fault::ALL.into_iter().find(|&fault| {
            let Streak { since, looks } = self.streaks[fault as usize];
            looks >= BAD_LOOKS && since.is_some_and(|since| now >= since + BAD_FOR)
        })
    }
}

fn share(measured: Measured) -> f64 {
    measured.lost as f64 / measured.settled.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        assert_eq!(moves(30, |_| seen(30, 1)), [(10, Fault::Loss)]);
        assert_eq!(moves(30, |_| delayed(200)), [(10, Fault::Delay)]);
        assert_eq!(moves(3000, |_| seen(30, 20)), [], "all lose");
        assert_eq!(moves(3000, |_| seen(10, 0)), [], "it loses a little");
        assert_eq!(moves(3000, |_| delayed(130)), [], "it is longer, as paths are");
        assert_eq!(
            moves(3000, |second| seen(if second % 9 == 0 { 0 } else { 40 }, 0)),
            [],
            "now and then it is good"
        );
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

    #[test]
    fn few_datagrams_are_looked_at_together() {
        let few = |_| {
            let measured = |lost| Measured { settled: 5, lost, ..Measured::default() };
            Comparison { own: measured(2), others: measured(0) }
        };
        // Every sixth second there is a look: at 5, 11, 17, 23 s.
        assert_eq!(moves(40, few), [(23, Fault::Loss)]);
    }

    #[test]
    fn a_path_that_is_bad_everywhere_is_moved_ever_more_seldom() {
        let times: Vec<_> = moves(4000, |_| seen(50, 0)).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [10, 70, 190, 430, 910, 1870, 2830, 3790]);
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
