//! Three segments in a row, a second of traffic at 100 packets/s, and a promise of 0.5 %: who is named.

use proptest::prelude::*;
use psmc_tomography::blame::{Promise, Verdict, at_fault};
use psmc_tomography::counted::{Tally, losses};

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

proptest! {
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
