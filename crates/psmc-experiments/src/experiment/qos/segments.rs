//! Three relays in a row behind two uplinks, of which one segment is bad.
//!
//! ```text
//!         ┌─ uplink 1 ─┐
//!   site ─┤            ├─ relay 1 ── relay 2 ── relay 3 ── hub
//!         └─ uplink 2 ─┘
//! ```

use std::time::{Duration, Instant};

use psmc_sim::link::{Jitter, Link, LinkConfig, Loss, PacketInfo, Probability};
use psmc_tomography::Unknown;
use psmc_tomography::blame::{Promise, Verdict};
use psmc_tomography::counted::{Count, Tally, losses};
use psmc_tomography::delay::Delays;

use crate::dice::Dice;
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "sla-segments",
    what: "one bad segment of five, over two uplinks and three relays: whether it is named",
    seed: "none; QoS §3 infers by stripes which links lose packets, and §7.1 needs 10 s for it",
    how: "simulated; a site with two uplinks, three relays in a row and a hub, each segment 10 ms with jitter of ±2 ms. For a second \
          nothing is wrong; in the next one a segment loses 5 % of its packets, or takes 20 ms more. 100 packets/s on each \
          uplink, Poisson; site, relays and hub count and time them, by clocks up to an hour apart that drift by 50 ppm. \
          Judged are the packets of the bad second alone: 0.5 % may be lost, and 5 % later than 10 ms above the minimum. Named is \
          who has more than that, proven who has so much more that luck explains it in one of 10,000 counts. Seeds 1 to 20",
    criterion: "the bad segment and no other in 20 of 20; nothing where nothing is wrong; of two bad ones, none that is not",
    runs: 1,
    measure,
}];

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Loss,
    Delay,
}

fn measure(_: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (fault, words) in [(Fault::Loss, "5 % lost"), (Fault::Delay, "20 ms more")] {
        for (bad, segment) in SEGMENTS.into_iter().enumerate() {
            let right = |seed: &u64| named(&[(bad, fault)], *seed) == [bad];
            rows.push(of_seeds(format!("{words} on {segment}: named, and no other"), right).at_least(RUNS));
            let sure = |seed: &u64| proven(&[(bad, fault)], *seed) == [bad];
            rows.push(of_seeds(format!("{words} on {segment}: proven"), sure).shown());
        }
    }
    let quiet = |seed: &u64| named(&[], *seed).is_empty();
    rows.push(of_seeds("nothing wrong: nothing named".to_owned(), quiet).at_least(RUNS));
    for bad in [[0, 1], [0, 3], [2, 4]] {
        let both = |seed: &u64| named(&bad.map(|segment| (segment, Fault::Loss)), *seed);
        let words = format!("5 % lost on {} and {}", SEGMENTS[bad[0]], SEGMENTS[bad[1]]);
        rows.push(of_seeds(format!("{words}: both named"), |seed| both(seed) == bad).shown());
        let no_other = |seed: &u64| both(seed).iter().all(|segment| bad.contains(segment));
        rows.push(of_seeds(format!("{words}: no other named"), no_other).at_least(RUNS));
    }
    rows
}

fn of_seeds(label: String, holds: impl Fn(&u64) -> bool) -> Figure {
    let seeds = (1..=20).filter(holds).count();
    Figure::new(label, "of 20", Some(seeds as f64))
}

/// The segments that are named, in ascending order.
fn named(bad: &[(usize, Fault)], seed: u64) -> Vec<usize> {
    segments(bad, seed, Verdict::is_blame)
}

/// Those of them that are not only suspected.
fn proven(bad: &[(usize, Fault)], seed: u64) -> Vec<usize> {
    segments(bad, seed, |verdict| matches!(verdict, Verdict::Proven { .. }))
}

/// The segments of which this holds for their loss or their delay.
fn segments(bad: &[(usize, Fault)], seed: u64, holds: fn(Verdict) -> bool) -> Vec<usize> {
    let seen = witness(bad, seed);
    let is_one = |&segment: &usize| {
        let lost = together(segment, |path, place| seen[path].lost(place));
        let late = together(segment, |path, place| seen[path].late(place));
        [KEPT.judge(lost), PUNCTUAL.judge(late)].into_iter().any(holds)
    };
    (0..SEGMENTS.len()).filter(is_one).collect()
}

/// What the paths that cross a segment tell of it together. Each is asked for the how many-th of its segments that is.
fn together(
    segment: usize,
    count: impl Fn(usize, usize) -> Result<Count, Unknown>,
) -> Result<Count, Unknown> {
    let crossing = PATHS.iter().enumerate();
    let mut crossing =
        crossing.filter_map(|(path, way)| Some((path, way.iter().position(|&at| at == segment)?)));
    crossing.try_fold(Count::default(), |sum, (path, place)| Ok(sum + count(path, place)?))
}

/// What the witnesses of a path have seen.
struct Seen {
    /// Of packets that were sent while something is wrong.
    tallies: [Tally; WITNESSES],
    delays: Delays,
}

impl Seen {
    fn new() -> Self {
        Self { tallies: [Tally::default(); WITNESSES], delays: Delays::new(WITNESSES) }
    }

    /// A witness, by its clock, has seen a packet.
    fn observe(&mut self, witness: usize, packet: Packet, at: Duration, clock: Clock) {
        self.delays.observe(witness, packet.number, clock.reads(at));
        if packet.sent >= WRONG_FROM {
            self.tallies[witness].received += 1;
            self.tallies[witness].handed_on += 1;
        }
    }

    fn lost(&self, place: usize) -> Result<Count, Unknown> {
        losses(&self.tallies.map(Some)).segments[place]
    }

    fn late(&self, place: usize) -> Result<Count, Unknown> {
        let newest = usize::try_from(self.tallies[place + 1].received).unwrap_or(usize::MAX);
        self.delays.segment(place).map_or(Err(Unknown::Silent(place)), |segment| segment.late(LATE, newest))
    }
}

/// Sends packets over both paths; what was seen of each path.
fn witness(bad: &[(usize, Fault)], seed: u64) -> Vec<Seen> {
    let mut dice = Dice::new(seed);
    let clocks: [Clock; WITNESSES] = std::array::from_fn(|_| Clock::by_chance(&mut dice));
    let mut seen: Vec<_> = PATHS.iter().map(|_| Seen::new()).collect();
    let mut packets = sent(&mut dice);
    for (witness, clock) in clocks.into_iter().enumerate() {
        if witness > 0 {
            packets = cross(&packets, witness - 1, bad, seed);
        }
        for &(at, packet) in &packets {
            seen[packet.path].observe(witness, packet, at, clock);
        }
    }
    seen
}

/// All packets, and when they were sent, in that order.
fn sent(dice: &mut Dice) -> Vec<(Duration, Packet)> {
    let mut packets = Vec::new();
    for path in 0..PATHS.len() {
        let mut at = dice.exponential(GAP);
        for number in 0.. {
            if at >= END {
                break;
            }
            packets.push((at, Packet { path, number, sent: at }));
            at += dice.exponential(GAP);
        }
    }
    packets.sort_by_key(|&(at, _)| at);
    packets
}

/// Those that arrive behind the how many-th segment of their paths, and when, in that order.
fn cross(
    packets: &[(Duration, Packet)],
    place: usize,
    bad: &[(usize, Fault)],
    seed: u64,
) -> Vec<(Duration, Packet)> {
    let start = Instant::now();
    let mut segments: Vec<_> = PATHS.iter().map(|way| way[place]).collect();
    segments.dedup();
    let mut arrived = Vec::new();
    for segment in segments {
        let faults = bad.iter().filter(|(at, _)| *at == segment).map(|&(_, fault)| fault);
        let wrong = faults.fold(ordinary(), with);
        let mut link = Link::new(ordinary(), seed * 100 + segment as u64, start);
        let crossing = packets.iter().filter(|(_, packet)| PATHS[packet.path][place] == segment);
        for &(at, packet) in crossing {
            if at >= WRONG_FROM && *link.config() != wrong {
                link.reconfigure(wrong.clone(), start + at);
            }
            link.handle_packet(packet, PacketInfo::new(BYTES), start + at);
        }
        let arrivals = std::iter::from_fn(|| link.poll_packet(start + 10 * END));
        arrived.extend(arrivals.map(|arrival| (arrival.at - start, arrival.packet)));
    }
    arrived.sort_by_key(|&(at, packet)| (at, packet.path));
    arrived
}

fn ordinary() -> LinkConfig {
    let config = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
    config.with_jitter(Jitter::Uniform(Duration::from_millis(2)))
}

fn with(config: LinkConfig, fault: Fault) -> LinkConfig {
    match fault {
        Fault::Loss => config.with_loss(Loss::Random(Probability::new(0.05).unwrap_or(Probability::ZERO))),
        Fault::Delay => LinkConfig { delay: config.delay + Duration::from_millis(20), ..config },
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    path: usize,
    number: u64,
    sent: Duration,
}

/// Of a witness: by how many microseconds it is ahead, and how much it gains, in parts per million.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead: i64,
    ppm: i64,
}

impl Clock {
    fn by_chance(dice: &mut Dice) -> Self {
        let mut from_to =
            |half: usize| i64::try_from(dice.below(2 * half)).unwrap_or(0) - i64::try_from(half).unwrap_or(0);
        Self { ahead: from_to(HOUR), ppm: from_to(50) }
    }

    fn reads(self, at: Duration) -> i64 {
        let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        micros + self.ahead + micros * self.ppm / 1_000_000
    }
}

const SEGMENTS: [&str; 5] = ["uplink 1", "uplink 2", "relay 1–2", "relay 2–3", "relay 3–hub"];

/// Which segments each path crosses.
const PATHS: [[usize; WITNESSES - 1]; 2] = [[0, 2, 3, 4], [1, 2, 3, 4]];

/// The site, three relays and the hub.
const WITNESSES: usize = 5;

/// The seeds 1 to 20.
const RUNS: f64 = 20.0;

/// Between packets of a path, on average.
const GAP: Duration = Duration::from_millis(10);

const BYTES: usize = 1000;

const WRONG_FROM: Duration = Duration::from_secs(1);
const END: Duration = Duration::from_secs(2);

/// In microseconds.
const HOUR: usize = 3_600_000_000;

/// 0.5 % may be lost ...
const KEPT: Promise = Promise { share: 0.005, error: 1e-4 };

/// ... and 5 % later than this many microseconds above the minimum.
const PUNCTUAL: Promise = Promise { share: 0.05, error: 1e-4 };
const LATE: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_where_they_were_put() {
        let seen = witness(&[(3, Fault::Loss), (0, Fault::Delay)], 1);
        let lost = |path: usize| [0, 1, 2, 3].map(|place| seen[path].lost(place).unwrap().lost() > 0);
        assert_eq!([lost(0), lost(1)], [[false, false, true, false]; 2]);
        let late = |path: usize| [0, 1, 2, 3].map(|place| seen[path].late(place).unwrap().share() > 0.5);
        assert_eq!([late(0), late(1)], [[true, false, false, false], [false; 4]]);
    }

    #[test]
    fn paths_that_share_a_segment_tell_of_it_together() {
        let seen = witness(&[], 2);
        let all = |segment| together(segment, |path, place| seen[path].lost(place)).unwrap().sent();
        assert_eq!(all(4), all(0) + all(1));
    }
}
