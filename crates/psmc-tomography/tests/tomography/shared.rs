//! Paths that share uplinks and relays whose losses are known.

use psmc_tomography::Unknown;
use psmc_tomography::blame::{Promise, at_fault};
use psmc_tomography::shared::{Path, as_loss, solve};

use super::dice::Dice;

const RUNS: u64 = 1000;
const PACKETS: u64 = 2000;

/// Segments 0 and 1 are uplinks, 2 to 4 relays, 5 is the access line at the other end, over which the first uplink's paths go only:
/// the second one has an access line of its own that loses nothing and is no segment. A relay answers probes itself.
const PATHS: [&[usize]; 8] = [&[0, 2, 5], &[0, 3, 5], &[0, 4, 5], &[1, 2], &[1, 3], &[1, 4], &[0, 2], &[1]];

const LOSS: [f64; 6] = [0.02, 0.05, 0.01, 0.03, 0.02, 0.04];

fn measured(loss: &[f64; 6], seed: u64) -> Vec<Path> {
    let mut dice = Dice::new(seed);
    let paths = PATHS.iter().map(|path| {
        let passed: f64 = path.iter().map(|&segment| 1.0 - loss[segment]).product();
        Path::of_loss(path.to_vec(), PACKETS, dice.hits(PACKETS, 1.0 - passed)).expect("packets were sent")
    });
    paths.collect()
}

#[test]
fn intervals_of_segments_cover_as_often_as_they_say() {
    let (mut covered, mut contradictions) = ([0_u64; 6], 0_u64);
    for seed in 0..RUNS {
        let solution = solve(6, &measured(&LOSS, seed)).unwrap();
        for (segment, &answer) in solution.segments.iter().enumerate() {
            match as_loss(answer) {
                Ok(estimate) => covered[segment] += u64::from(estimate.covers(LOSS[segment])),
                Err(unknown) => {
                    assert_eq!(unknown, Unknown::PathsContradict);
                    contradictions += 1;
                }
            }
        }
    }
    println!("covered {covered:?}, contradictions {contradictions}");
    assert!(covered.iter().all(|covered| (930..=970).contains(covered)), "{covered:?}");
    assert!(contradictions <= 6, "{contradictions}");
}

/// By intervals that are widened to one error in 10,000, 5 % are named and nothing else is.
#[test]
fn a_segment_that_loses_is_named_and_no_other() {
    let promise = Promise { share: 0.01, error: 1e-4 };
    for seed in 0..RUNS {
        let bad = usize::try_from(seed % 6).unwrap();
        let mut loss = [0.0; 6];
        loss[bad] = 0.05;
        let solution = solve(6, &measured(&loss, seed)).unwrap();
        let verdicts = solution.segments.into_iter().map(|sum| promise.judge_estimate(as_loss(sum)));
        assert_eq!(at_fault(&verdicts.collect::<Vec<_>>()), [bad], "seed {seed}");
    }
}
