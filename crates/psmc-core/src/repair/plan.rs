//! How many repairs a group of packets needs.

use std::time::Duration;

use psmc_wire::PathId;

use super::trial::News;

/// The most packets of a group. Longer ones save little: at a loss of 2 % their overhead falls from 8 to 7 %, and
/// what they repair waits twice as long.
pub(super) const MAX_GROUP: usize = 48;

/// The most repairs of a group: a third as many as packets, for paths that lose a tenth.
pub(super) const MAX_REPAIRS: usize = 16;

/// The share of packets that may stay lost: half of what is promised, since losses are an estimate.
const TARGET: f64 = 0.0005;

/// What is taken for the loss of a path that nothing is known of: 2 in 100 datagrams.
const ASSUMED: (f64, f64) = (2.0, 100.0);

/// Losses are counted over so many datagrams, then older ones count half.
const MEMORY: f64 = 4000.0;

/// One may be an accident.
const NOTABLE_LOSSES: f64 = 2.0;

/// At 10 Mb/s a flow waits for three packets each second. Queues that overflow now and then lose less.
const NOTABLE_SHARE: f64 = 0.003;

/// What is lost while the round trip is longer than usual by more than this part of it was lost in a queue that overflowed: flows
/// fill them, and give way.
const LONG_PART: u32 = 8;

/// Chance takes packets from short queues as often as from long ones: more than this part of what it takes, while the round trip is
/// no longer than usual. Of what flows lose to each other in a queue of some tens of packets it is a twenty-fifth.
const SHORT_PART: f64 = 0.125;

/// Round trips of the last few seconds are the usual ones, looked at ten times a second.
const USUAL_GAIN: u32 = 16;

/// The sizes of groups and their repairs, for losses as they are.
#[derive(Debug)]
pub(super) struct Plan {
    /// Repairs for a group, by its packets.
    needed: [u8; MAX_GROUP + 1],
}

impl Plan {
    /// For packets lost with probability `packets`, and repairs with probability `repairs`, each by itself.
    pub(super) fn new(packets: f64, repairs: f64) -> Self {
        let mut needed = [0; MAX_GROUP + 1];
        // How many of a packet's companions are lost: the probabilities of each count that may still be repaired.
        let mut lost = [0.0; MAX_REPAIRS];
        lost[0] = 1.0;
        for slot in needed.iter_mut().skip(1) {
            *slot = repairs_for(lost, packets, repairs);
            add_trial(&mut lost, packets);
        }
        Self { needed }
    }

    /// How many repairs a group of so many packets needs.
    pub(super) fn repairs(&self, packets: usize) -> u8 {
        self.needed[packets.min(MAX_GROUP)]
    }

    /// The size with the least overhead of all that `reach` allows.
    pub(super) fn group_size(&self, reach: usize) -> usize {
        let overhead = |size: usize| f64::from(self.repairs(size)) / size as f64;
        let sizes = 1..=reach.clamp(1, MAX_GROUP);
        sizes.min_by(|&a, &b| overhead(a).total_cmp(&overhead(b))).unwrap_or(1)
    }
}

/// The least number of repairs with which a packet stays lost rarely enough: it does if it is lost, and with it as many
/// of its companions and of the repairs as there are repairs, or more.
fn repairs_for(companions: [f64; MAX_REPAIRS], packets: f64, repairs: f64) -> u8 {
    let mut lost = companions;
    for count in 1..MAX_REPAIRS {
        add_trial(&mut lost, repairs);
        let repaired: f64 = lost[..count].iter().sum();
        if packets * (1.0 - repaired) <= TARGET {
            return u8::try_from(count).unwrap_or(u8::MAX);
        }
    }
    u8::try_from(MAX_REPAIRS).unwrap_or(u8::MAX)
}

/// One more that is lost with this probability.
fn add_trial(lost: &mut [f64; MAX_REPAIRS], probability: f64) {
    for count in (0..MAX_REPAIRS).rev() {
        let fewer = if count > 0 { lost[count - 1] } else { 0.0 };
        lost[count] = lost[count] * (1.0 - probability) + fewer * probability;
    }
}

/// What the paths of a session lose, from their acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Losses {
    paths: Vec<PathLoss>,
    /// Those that lose much: this is asked for with every packet.
    lossy: Vec<PathId>,
}

#[derive(Debug)]
struct PathLoss {
    path: PathId,
    /// The path's counters when they were last looked at.
    seen: (u64, u64),
    settled: f64,
    lost: f64,
    /// Those lost while the round trip was about what it usually is: by chance, rather than in a queue that overflowed.
    lost_by_chance: f64,
    /// Those of them that were lost while it was no longer than that.
    lost_while_short: f64,
    usual_round_trip: Duration,
    news: News,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathReport {
    pub(crate) path: PathId,
    /// Datagrams lost so far, and those of which it is known whether they were.
    pub(crate) lost: u64,
    pub(crate) settled: u64,
    /// As it is just now.
    pub(crate) round_trip: Duration,
}

impl PathLoss {
    fn is_notable(&self) -> bool {
        let is_much =
            self.lost_by_chance >= NOTABLE_LOSSES && self.lost_by_chance > NOTABLE_SHARE * self.settled;
        // The first few, which tell nothing yet, count for chance.
        is_much && self.lost_while_short + 1.0 >= SHORT_PART * self.lost
    }

    fn new(report: &PathReport) -> Self {
        let PathReport { path, round_trip, .. } = *report;
        Self {
            path,
            seen: (0, 0),
            settled: 0.0,
            lost: 0.0,
            lost_by_chance: 0.0,
            lost_while_short: 0.0,
            usual_round_trip: round_trip,
            news: News { path, settled: 0, lost: 0, round_trip },
        }
    }

    /// Takes over what has been lost since the last time.
    fn update(&mut self, report: &PathReport) {
        self.news = News {
            path: report.path,
            settled: report.settled.saturating_sub(self.seen.1),
            lost: report.lost.saturating_sub(self.seen.0),
            round_trip: report.round_trip,
        };
        let lost = self.news.lost as f64;
        let usual = self.usual_round_trip;
        self.lost += lost;
        if report.round_trip <= usual + usual / LONG_PART {
            self.lost_by_chance += lost;
        }
        if report.round_trip <= usual {
            self.lost_while_short += lost;
        }
        self.settled += self.news.settled as f64;
        self.seen = (report.lost, report.settled);
        self.usual_round_trip = (usual * (USUAL_GAIN - 1) + report.round_trip) / USUAL_GAIN;
        if self.settled > MEMORY {
            for count in
                [&mut self.lost, &mut self.lost_by_chance, &mut self.lost_while_short, &mut self.settled]
            {
                *count /= 2.0;
            }
        }
    }
}

impl Losses {
    /// Takes over what is known of `paths`; others are forgotten.
    pub(super) fn update(&mut self, paths: impl Iterator<Item = PathReport>) {
        let mut known = std::mem::take(&mut self.paths);
        for report in paths {
            let found = known.iter().position(|loss| loss.path == report.path);
            let mut loss = found.map_or_else(|| PathLoss::new(&report), |index| known.swap_remove(index));
            loss.update(&report);
            self.paths.push(loss);
        }
        self.lossy.clear();
        self.lossy.extend(self.paths.iter().filter(|loss| loss.is_notable()).map(|loss| loss.path));
    }

    /// The share that is lost of what is sent as it was of late.
    pub(super) fn of_packets(&self) -> f64 {
        let (lost, settled) = self
            .paths
            .iter()
            .fold(ASSUMED, |(lost, settled), path| (lost + path.lost, settled + path.settled));
        (lost / settled).min(1.0)
    }

    /// What the last [`update`](Self::update) has told of each path.
    pub(super) fn news(&self) -> impl Iterator<Item = News> + Clone {
        self.paths.iter().map(|path| path.news)
    }

    /// Whether a path loses so much that flows often wait for what is sent again.
    pub(super) fn is_lossy(&self, path: PathId) -> bool {
        self.lossy.contains(&path)
    }

    /// Whether any path does.
    pub(super) fn is_any_lossy(&self) -> bool {
        !self.lossy.is_empty()
    }

    /// The share that is lost of what is spread over the paths evenly.
    pub(super) fn of_repairs(&self) -> f64 {
        let share = |path: &PathLoss| ((path.lost + ASSUMED.0) / (path.settled + ASSUMED.1)).min(1.0);
        let sum: f64 = self.paths.iter().map(share).sum();
        if self.paths.is_empty() { self.of_packets() } else { sum / self.paths.len() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: PathId, lost: u64, settled: u64) -> PathReport {
        PathReport { path, lost, settled, round_trip: Duration::from_millis(40) }
    }

    #[test]
    fn groups_are_as_large_as_they_may_and_need_few_repairs() {
        let plan = Plan::new(0.02, 0.02);
        assert_eq!(plan.repairs(10), 2);
        assert_eq!(plan.group_size(10), 10);
        let size = plan.group_size(MAX_GROUP);
        let overhead = f64::from(plan.repairs(size)) / size as f64;
        assert!(size > 40 && overhead < 0.09, "{size} packets, {overhead}");
    }

    #[test]
    fn more_loss_needs_more_repairs() {
        let mut before = [0; MAX_GROUP + 1];
        for loss in [0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0] {
            let plan = Plan::new(loss, loss);
            for (size, before) in before.iter_mut().enumerate().skip(1) {
                assert!(plan.repairs(size) >= (*before).max(1), "loss {loss}, {size} packets");
                assert!(size == 1 || plan.repairs(size) >= plan.repairs(size - 1));
                *before = plan.repairs(size);
            }
        }
    }

    #[test]
    fn what_stays_lost_by_the_plan_stays_lost_in_a_trial() {
        for loss in [0.01, 0.02, 0.05] {
            let plan = Plan::new(loss, loss);
            for size in [5, 10, 48] {
                let repairs = usize::from(plan.repairs(size));
                let mut random = 0x9e37_79b9_7f4a_7c15_u64;
                let mut draws = || {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random >> 11) as f64 / (1u64 << 53) as f64
                };
                let (groups, mut missing) = (20_000, 0);
                for _ in 0..groups {
                    let packets = (0..size).filter(|_| draws() < loss).count();
                    let lost_repairs = (0..repairs).filter(|_| draws() < loss).count();
                    missing += if packets + lost_repairs > repairs { packets } else { 0 };
                }
                let share = missing as f64 / (groups * size) as f64;
                assert!(share < 1.4 * TARGET, "{share} of {size} packets at a loss of {loss}");
            }
        }
    }

    #[test]
    fn losses_are_those_of_late() {
        let mut losses = Losses::default();
        assert!((losses.of_packets() - 0.02).abs() < 1e-9);
        let (near, far) = (PathId(0), PathId(1));
        losses.update([report(near, 1000, 10_000), report(far, 0, 0)].into_iter());
        assert!((losses.of_packets() - 0.1).abs() < 0.01, "{}", losses.of_packets());
        assert!((losses.of_repairs() - 0.06).abs() < 0.01, "{}", losses.of_repairs());
        for settled in (11_000..60_000).step_by(1000) {
            losses.update([report(near, 1000, settled), report(far, 0, 0)].into_iter());
        }
        assert!(losses.of_packets() < 0.002, "{}", losses.of_packets());
    }

    /// What a path reports ten times a second: of a hundred datagrams `lost`, at this round trip.
    fn reported(reports: impl Iterator<Item = (u64, u64)>) -> Losses {
        let (mut losses, mut lost, mut settled) = (Losses::default(), 0, 0);
        for (more, round_trip_ms) in reports {
            (lost, settled) = (lost + more, settled + 100);
            let round_trip = Duration::from_millis(round_trip_ms);
            losses.update([PathReport { round_trip, ..report(PathId(1), lost, settled) }].into_iter());
        }
        losses
    }

    #[test]
    fn losses_count_for_chance_unless_the_round_trip_is_long() {
        let round_trip = |n: u64| 40 + n % 3;
        assert!(reported((0..100).map(|n| (n % 2, round_trip(n)))).is_lossy(PathId(1)), "0.5 %");
        assert!(!reported((0..100).map(|n| (u64::from(n == 7), round_trip(n)))).is_any_lossy(), "one");
        // A queue fills, overflows, and runs empty.
        let sawtooth = |n: u64| if n % 10 == 9 { (5, 80) } else { (0, 40 + 4 * (n % 10)) };
        assert!(!reported((0..100).map(sawtooth)).is_any_lossy(), "0.5 %, all at once");
        // One that others fill as well is seldom empty, and overflows when it is a little longer than usual.
        let shared = |n: u64| if n % 10 == 9 { (5, 43) } else { (0, 40 + n % 3) };
        assert!(!reported((0..100).map(shared)).is_any_lossy(), "0.5 %, none of them while it was short");
    }
}
