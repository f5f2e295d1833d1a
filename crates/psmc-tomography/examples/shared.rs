//! How long it takes to tell the segments of 64 paths over 16 relays: `cargo run --release -p psmc-tomography --example shared`.

use std::time::Instant;

use psmc_tomography::shared::{Path, solve};

const UPLINKS: usize = 4;
const RELAYS: usize = 16;
const ROUNDS: u32 = 100;

/// Each uplink by each relay, over one access line; with segments between uplinks and relays, if they are wanted.
fn paths(with_between: bool) -> (usize, Vec<Path>) {
    let access = UPLINKS + RELAYS;
    let mut paths = Vec::new();
    for uplink in 0..UPLINKS {
        for relay in 0..RELAYS {
            let mut segments = vec![uplink, UPLINKS + relay, access];
            if with_between {
                segments.push(access + 1 + uplink * RELAYS + relay);
            }
            let lost = if uplink == 1 { 50 } else { 0 };
            paths.push(Path::of_loss(segments, 1000, lost).expect("packets were sent"));
        }
    }
    (access + 1 + if with_between { UPLINKS * RELAYS } else { 0 }, paths)
}

fn main() {
    for with_between in [false, true] {
        let (segments, paths) = paths(with_between);
        let mut times: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                let solution = solve(segments, &paths).expect("segments are numbered");
                assert_eq!(solution.segments.len(), segments);
                start.elapsed()
            })
            .collect();
        times.sort();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{} paths, {segments} segments: median {median:.1?}, worst {worst:.1?}", paths.len());
    }
}
