//! Three segments in a row, a second of traffic at 100 packets/s, and a promise of 0.5 %: who is named.

use proptest::prelude::*;
use psmc_tomography::blame::{Promise, Verdict, at_fault};
use psmc_tomography::counted::{Tally, losses};
use psmc_tomography::delay::Delays;

use super::dice::Dice;

const PACKETS: u64 = 100;
const PROMISE: Promise = Promise { share: 0.005, error: 1e-4 };

/// What the witnesses at the ends of segments with these loss rates count.
fn tallies(rates: &[f64], packets: u64, dice: &mut Dice) -> Vec<Option<Tally>> {
    let mut here = packets;
    let mut tallies = vec![Some(Tally { received: here, handed_on: here })];
    for &rate in rates {
        here -= dice.hits(here, rate);
        tallies.push(Some(Tally { received: here, handed_on: here }));
    }
    tallies
}

fn verdicts(tallies: &[Option<Tally>]) -> Vec<Verdict> {
    losses(tallies).segments.into_iter().map(|count| PROMISE.judge(count)).collect()
}

fn named(rates: &[f64], seed: u64) -> Vec<usize> {
    at_fault(&verdicts(&tallies(rates, PACKETS, &mut Dice::new(seed))))
}

#[test]
fn five_percent_on_any_of_three_segments_is_named() {
    for bad in 0..3 {
        let mut rates = [0.0; 3];
        rates[bad] = 0.05;
        for seed in 0..20 {
            assert_eq!(named(&rates, seed), [bad], "segment {bad}, seed {seed}");
        }
    }
}

/// In 0.6 % of all seconds, nothing is lost on the bad segment either: nobody could name it then.
#[test]
fn no_other_is_ever_named() {
    let mut found = 0;
    for seed in 0..10_000 {
        let bad = usize::try_from(seed % 3).unwrap();
        let mut rates = [0.0; 3];
        rates[bad] = 0.05;
        let named = named(&rates, seed);
        assert!(named.iter().all(|&at| at == bad), "segment {bad}, seed {seed}: {named:?}");
        found += named.len();
    }
    let expected = 10_000.0 * (1.0 - 0.95_f64.powi(100));
    assert!((found as f64 - expected).abs() < 40.0, "{found}, expected {expected}");
}

#[test]
fn two_that_are_bad_at_once_are_both_named() {
    for seed in 0..1000 {
        let named = named(&[0.3, 0.0, 0.3], seed);
        assert!(named.len() == 2 && !named.contains(&1), "seed {seed}: {named:?}");
    }
}

/// Segments that lose a little less than they may: suspected now and then, but proven in no more than one of 10,000 counts.
#[test]
fn what_keeps_its_promise_is_hardly_ever_proven_guilty() {
    let mut proven = 0;
    for seed in 0..10_000 {
        let verdicts = verdicts(&tallies(&[0.0049], 200, &mut Dice::new(seed)));
        proven += usize::from(matches!(verdicts[0], Verdict::Proven { .. }));
    }
    // Of a Poisson distribution of mean 1, more than 5 has a chance of 0.06 %.
    assert!(proven <= 5, "{proven}");
}

/// At most 5 % of packets may be later than 10 ms above the minimum.
const PUNCTUAL: Promise = Promise { share: 0.05, error: 1e-4 };
const LIMIT: u32 = 10_000;

/// A clock of a witness: hours away from the true one, and drifting by up to 200 ppm.
#[derive(Clone, Copy)]
struct Clock {
    offset: i64,
    ppm: i64,
}

impl Clock {
    fn by_chance(dice: &mut Dice) -> Self {
        Self { offset: dice.below(7_200_000_000) - 3_600_000_000, ppm: dice.below(200) - 100 }
    }

    fn reads(self, at: i64) -> i64 {
        at + self.offset + at * self.ppm / 1_000_000
    }
}

/// Two seconds at 100 packets/s, each segment with a delay of its own and jitter; in the second one, some segments take 20 ms more.
fn late_verdicts(bad: &[usize], seed: u64) -> Vec<Verdict> {
    let mut dice = Dice::new(seed);
    let clocks: Vec<_> = (0..4).map(|_| Clock::by_chance(&mut dice)).collect();
    let mut delays = Delays::new(4);
    for packet in 0_u64..200 {
        let mut at = 10_000 * packet.cast_signed();
        delays.observe(0, packet, clocks[0].reads(at));
        for segment in 0..3 {
            let more = if bad.contains(&segment) && packet >= 100 { 20_000 } else { 0 };
            at += 3000 + dice.exponential(1000.0) + more;
            delays.observe(segment + 1, packet, clocks[segment + 1].reads(at));
        }
    }
    delays.segments().map(|segment| PUNCTUAL.judge(segment.late(LIMIT, 100))).collect()
}

#[test]
fn twenty_milliseconds_on_any_of_three_segments_are_proven() {
    for bad in 0..3 {
        for seed in 0..20 {
            let verdicts = late_verdicts(&[bad], seed);
            assert_eq!(at_fault(&verdicts), [bad], "segment {bad}, seed {seed}");
            assert!(matches!(verdicts[bad], Verdict::Proven { .. }));
        }
    }
}

#[test]
fn no_punctual_segment_is_ever_named() {
    for seed in 0..10_000 {
        let bad = usize::try_from(seed % 3).unwrap();
        assert_eq!(at_fault(&late_verdicts(&[bad], seed)), [bad], "segment {bad}, seed {seed}");
    }
}

#[test]
fn two_that_are_late_at_once_are_both_named() {
    for seed in 0..100 {
        let mut named = at_fault(&late_verdicts(&[0, 2], seed));
        named.sort_unstable();
        assert_eq!(named, [0, 2], "seed {seed}");
    }
}

/// What a witness may say instead of the time at which it saw a packet.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Late(i64),
    By(i64),
    Nonsense,
    Backwards,
    Twice,
    OfOthers,
    Nothing,
}

fn lies() -> impl Strategy<Value = Lie> {
    prop_oneof![
        (0_i64..1_000_000).prop_map(Lie::Late),
        any::<i64>().prop_map(Lie::By),
        Just(Lie::Nonsense),
        Just(Lie::Backwards),
        Just(Lie::Twice),
        Just(Lie::OfOthers),
        Just(Lie::Nothing),
    ]
}

impl Lie {
    /// What is reported of a packet that was seen at a time: packets and times.
    fn reports(self, packet: u64, at: i64, dice: &mut Dice) -> Vec<(u64, i64)> {
        match self {
            Self::Late(by) => vec![(packet, at + dice.below(by.max(1)))],
            Self::By(by) => vec![(packet, at.wrapping_add(if packet < 100 { 0 } else { by }))],
            Self::Nonsense => vec![(packet, dice.below(i64::MAX).wrapping_mul(2))],
            Self::Backwards => vec![(packet, -at)],
            Self::Twice => vec![(packet, at), (packet, at + 50_000), (packet + 1, at)],
            Self::OfOthers => vec![(packet ^ 0x55, at), (dice.below(i64::MAX).cast_unsigned(), at)],
            Self::Nothing => Vec::new(),
        }
    }
}

proptest! {
    /// One witness of a chain lies about times in any way: the segments that it is no end of are judged as if it did not.
    #[test]
    fn a_bad_clock_moves_the_blame_to_nobody_else(
        witnesses in 2_usize..=6,
        bad in any::<prop::sample::Index>(),
        liar in any::<prop::sample::Index>(),
        lie in lies(),
        seed in any::<u64>(),
    ) {
        let (bad, liar) = (bad.index(witnesses - 1), liar.index(witnesses));
        let mut dice = Dice::new(seed);
        let mut delays = Delays::new(witnesses);
        for packet in 0_u64..200 {
            let mut at = 10_000 * packet.cast_signed();
            for witness in 0..witnesses {
                let reports = if witness == liar { lie.reports(packet, at, &mut dice) } else { vec![(packet, at)] };
                for (packet, at) in reports {
                    delays.observe(witness, packet, at);
                }
                at += if witness == bad && packet >= 100 { 25_000 } else { 5000 };
            }
        }
        for (segment, delay) in delays.segments().enumerate() {
            let is_beside = segment == liar || segment + 1 == liar;
            let verdict = PUNCTUAL.judge(delay.late(LIMIT, 100));
            let is_right = if segment == bad { verdict.is_blame() } else { verdict == Verdict::Kept };
            prop_assert!(is_beside || is_right, "segment {}: {:?}", segment, verdict);
        }
    }

    /// One witness of a chain says whatever it likes, or nothing. Of the segments that it is no end of, those that lose nothing are
    /// found to keep their promise, and the one that loses is named all the same.
    #[test]
    fn a_lie_moves_the_blame_to_nobody_else(
        witnesses in 2_usize..=6,
        bad in any::<prop::sample::Index>(),
        liar in any::<prop::sample::Index>(),
        lie in any::<Option<(u64, u64)>>(),
        near in any::<Option<(i8, i8)>>(),
    ) {
        let (bad, liar) = (bad.index(witnesses - 1), liar.index(witnesses));
        let here = |witness: usize| if witness > bad { 900 } else { 1000 };
        let honest = |witness| Some(Tally { received: here(witness), handed_on: here(witness) });
        let mut tallies: Vec<_> = (0..witnesses).map(honest).collect();
        let add = |number: i8| here(liar).saturating_add_signed(number.into());
        let near = near.map(|(received, handed_on)| (add(received), add(handed_on)));
        tallies[liar] = near.or(lie).map(|(received, handed_on)| Tally { received, handed_on });
        for (segment, verdict) in verdicts(&tallies).into_iter().enumerate() {
            let is_beside = segment == liar || segment + 1 == liar;
            let is_right = if segment == bad { verdict.is_blame() } else { verdict == Verdict::Kept };
            prop_assert!(is_beside || is_right, "segment {}: {:?}", segment, verdict);
        }
    }
}
