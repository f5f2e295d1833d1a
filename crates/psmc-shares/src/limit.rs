//! How many requests a server takes at once.
//!
//! More than it has processors or workers for only wait inside it, where nobody can put them in order. Fewer leave it idle. As TCP Vegas
//! tells a queue by the round trip above its least (Brakmo and Peterson 1995), and Netflix's concurrency-limits and Envoy's adaptive
//! concurrency after it, requests that wait inside are told by how much longer they take than at fewer at once.

use std::time::Duration;

/// A limit that is measured.
///
/// Say of each request that was answered how long the server took, and how many were there at once
/// ([`answered`](Self::answered)); and when the server has failed one ([`failed`](Self::failed)). It is never below [`LEAST`] nor above [`MOST`].
///
/// Requests differ, so it is medians of some hundred of them that are compared: of those that were let in as the last that might be, and of
/// those for which half as many were there or fewer. What lies between says nothing: at moderate load a limit far too high is reached now
/// and then, and most requests do not wait all the same. While the server never has so few, fewer are let in on purpose, in one of
/// [`PROBE_EVERY`] rounds.
///
/// At first the limit grows by a half in each of some short rounds, as a window of TCP does in its slow start, until requests take so much
/// longer that they wait inside. How much longer says how many the server can do.
#[derive(Clone, Debug)]
pub struct Adaptive {
    limit: f64,
    /// Seconds: the median without a queue.
    base: Option<f64>,
    /// Seconds: the median of those that were let in as the last, smoothed over rounds.
    full: Option<f64>,
    /// Seconds: what those took of late that were let in as the last, ...
    last: Vec<f64>,
    /// ... and those that had no queue before them.
    early: Vec<f64>,
    outcomes: Outcomes,
    /// The limit when the base was last measured.
    limit_of_base: f64,
    /// Rounds since the base was last measured.
    since_base: u32,
    is_probing: bool,
    /// Rounds in a row of the start in which requests have waited inside; `None` once it is over.
    start: Option<u32>,
}

/// What became of some requests one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    answered: u32,
    failed: u32,
}

/// Whatever is measured, one request at a time is let in, or nothing could be measured.
pub const LEAST: u32 = 1;

/// More at once than this no server has processors, workers or disks for.
pub const MOST: u32 = 10_000;

/// Where it begins: more than one, so that a server of some processors is not left idle, and little enough for the first median to be
/// nearly that without a queue.
const FIRST: f64 = 4.0;

/// Rounds from one probe to the next: a probe leaves up to a half of a server idle, so of all time two hundredths and a half.
pub const PROBE_EVERY: u32 = 20;

/// The fewest requests of which it is seen whether too many fail.
const OUTCOMES: u32 = 200;

/// The fewest requests of a round: the median of exponential times is good to a fourteenth then.
const LEAST_ROUND: usize = 200;

/// The most requests of a round, beyond which it only takes longer: their median is good to a thirtieth.
const MOST_ROUND: usize = 1000;

/// Requests of a round for each that is there at once: most of them have come after the limit was changed then.
const ROUND_OF_LIMIT: f64 = 4.0;

/// Of the limit: fewer than this waiting inside are too few, ...
const TOO_FEW: f64 = 0.15;

/// ... and twice as many are too many. Both are at least [`LEAST_QUEUE`] and its double.
const TOO_MANY: f64 = 0.3;

/// Half a request that waits inside is there when the server has one more of them half of the time: it is never idle between two.
const LEAST_QUEUE: f64 = 0.5;

/// The fewest requests of a round of the start, whose medians are good to a seventh: it lasts for a second or two then where each takes 50 ms.
const LEAST_START_ROUND: usize = 50;

/// How much larger the limit is after a round of the start.
const START_GROWTH: f64 = 1.5;

/// How much longer than the base requests take that wait inside in the start: three times what chance makes of two such medians, ...
const START_OVER: f64 = 1.5;

/// ... in so many rounds in a row.
const START_ROUNDS_OVER: u32 = 2;

/// How much of the limit is added in a round in which too few waited inside.
const GROWTH: f64 = 0.125;

/// What is left of the limit after [`OUTCOMES`] of which a tenth failed.
const RETREAT: f64 = 0.8;

/// One of so many requests may fail for reasons of its own.
const TOLERATED_FAILURES: u32 = 10;

/// How much a round counts in a smoothed median: with less noise than that of one, no limit sinks below what a server can do.
const SMOOTHING: f64 = 0.25;

/// Once so much is left of the limit by which the base was measured, it is the base that is doubted: where half as many requests take hardly
/// less, none of them has waited inside, and all have come to take longer.
const DOUBTFUL: f64 = 0.6;

/// How much lower a median must be than the base to be taken for it at once: it is a queue then that has made it too high. Half of a queue
/// takes much less in the same sense.
const MUCH_LOWER: f64 = 0.7;

/// What is let in during a probe, of a limit up to [`SMALL`] and beyond: a large server is left idle as little as it may.
const PROBE_SMALL: f64 = 0.5;
const PROBE_LARGE: f64 = 0.75;
const SMALL: f64 = 16.0;

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            limit: FIRST,
            base: None,
            full: None,
            limit_of_base: FIRST,
            last: Vec::new(),
            early: Vec::new(),
            outcomes: Outcomes::default(),
            since_base: 0,
            is_probing: false,
            start: Some(0),
        }
    }
}

impl Adaptive {
    /// How many may be there at once.
    #[must_use]
    pub fn limit(&self) -> u32 {
        whole(if self.is_probing { self.probe() } else { self.limit })
    }

    /// The median of what the server takes for a request without a queue, if it is known.
    #[must_use]
    pub fn base(&self) -> Option<Duration> {
        self.base.map(Duration::from_secs_f64)
    }

    /// A request was answered after this; when it was let in there were `at_once`, itself included.
    pub fn answered(&mut self, service: Duration, at_once: u32) {
        self.outcomes.answered += 1;
        self.judge_outcomes();
        let service = service.as_secs_f64();
        let most_early = if self.is_probing { whole(self.probe()) } else { whole_below(self.limit / 2.0) };
        if at_once <= most_early {
            self.early.push(service);
            if self.early.len() >= self.round(LEAST_ROUND) {
                let mut early = std::mem::take(&mut self.early);
                self.rebase(median(&mut early));
            }
        } else if at_once >= self.limit() && !self.is_probing {
            self.last.push(service);
            // What waits inside shows in few; what does not is measured well.
            let is_short = self.start.is_some() && self.base.is_some();
            if self.last.len() >= self.round(if is_short { LEAST_START_ROUND } else { LEAST_ROUND }) {
                let mut last = std::mem::take(&mut self.last);
                self.measured(median(&mut last));
            }
        }
        self.limit = self.limit.clamp(f64::from(LEAST), f64::from(MOST));
    }

    /// The server has failed a request: refused the connection, closed it, did not answer in time, or said that it is overloaded.
    pub fn failed(&mut self) {
        self.outcomes.failed += 1;
        self.judge_outcomes();
    }

    fn judge_outcomes(&mut self) {
        let Outcomes { answered, failed } = self.outcomes;
        if answered + failed < OUTCOMES {
            return;
        }
        self.outcomes = Outcomes::default();
        if failed * TOLERATED_FAILURES > answered {
            self.limit = (self.limit * RETREAT).max(f64::from(LEAST));
            self.start = None;
            self.last.clear();
        }
    }

    /// Requests of a round, of which there are so many at least.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped to what fits")]
    fn round(&self, least: usize) -> usize {
        (self.limit * ROUND_OF_LIMIT).clamp(least as f64, MOST_ROUND as f64) as usize
    }

    /// The last that were let in took so long.
    fn measured(&mut self, median: f64) {
        let Some(base) = self.base else {
            self.rebase(median);
            return;
        };
        if let Some(rounds) = self.start {
            self.go_on_with_start(median / base.max(f64::MIN_POSITIVE), rounds);
            return;
        }
        self.since_base += 1;
        if self.since_base >= PROBE_EVERY {
            self.begin_probe();
        }
        let full = self.full.map_or(median, |full| full + SMOOTHING * (median - full));
        self.full = Some(full);
        let queue = self.limit * (1.0 - base / full.max(f64::MIN_POSITIVE));
        if queue < (self.limit * TOO_FEW).max(LEAST_QUEUE) {
            self.limit += (self.limit * GROWTH).max(LEAST_QUEUE);
        } else if queue > (self.limit * TOO_MANY).max(2.0 * LEAST_QUEUE) {
            self.limit -= (queue / 4.0).max(LEAST_QUEUE);
            if self.is_doubtful() {
                self.begin_probe();
            }
        }
    }

    fn begin_probe(&mut self) {
        self.is_probing = true;
        // Of before, when there may have been more.
        self.early.clear();
    }

    /// They take so many times as long as those before which there is no queue.
    fn go_on_with_start(&mut self, longer: f64, rounds: u32) {
        if longer <= START_OVER {
            self.limit *= START_GROWTH;
            self.start = Some(0);
        } else if rounds + 1 < START_ROUNDS_OVER {
            self.start = Some(rounds + 1);
        } else {
            // What is inside is served at the rate of those for which there is no queue (Little's law).
            self.limit /= longer;
            self.start = None;
        }
    }

    fn rebase(&mut self, median: f64) {
        let smoothed = |base: f64| base + SMOOTHING * (median - base);
        let is_no_queue = self.is_doubtful() && self.full.is_some_and(|full| median > MUCH_LOWER * full);
        let known = self.base.filter(|base| median > MUCH_LOWER * base && !is_no_queue);
        self.base = Some(known.map_or(median, smoothed));
        self.limit_of_base = self.limit;
        self.since_base = 0;
        self.is_probing = false;
    }

    fn is_doubtful(&self) -> bool {
        self.limit < self.limit_of_base * DOUBTFUL
    }

    fn probe(&self) -> f64 {
        self.limit * if self.limit > SMALL && !self.is_doubtful() { PROBE_LARGE } else { PROBE_SMALL }
    }
}

/// The nearest whole number of requests that may be.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped to what fits")]
fn whole(limit: f64) -> u32 {
    limit.round().clamp(f64::from(LEAST), f64::from(MOST)) as u32
}

/// The largest whole number that is no more, none if that is 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a half of what fits")]
fn whole_below(half: f64) -> u32 {
    half.floor() as u32
}

/// Of some: there are as many as a round has.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    *median
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_core::SeedableRng as _;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// A server of so many processors that is always full: requests share them, and take a second of one.
    fn run(limit: &mut Adaptive, processors: u32, answers: u32) {
        for _ in 0..answers {
            let at_once = limit.limit();
            let seconds = (f64::from(at_once) / f64::from(processors)).max(1.0);
            limit.answered(Duration::from_secs_f64(seconds), at_once);
        }
    }

    #[test]
    fn it_finds_how_many_a_server_can_do() {
        for processors in [1, 2, 8, 32, 200] {
            let mut limit = Adaptive::default();
            run(&mut limit, processors, 400_000);
            let found = limit.limit.round();
            let least = f64::from(processors);
            assert!((least..=1.5 * least + 2.0).contains(&found), "{found} of {processors}");
        }
    }

    /// As exponentially distributed times are, from evenly distributed numbers that Weyl's sequence yields.
    #[test]
    fn noise_does_not_let_it_sink_below_what_a_server_can_do() {
        let mut limit = Adaptive::default();
        let mut even = 0.0_f64;
        let mut least = f64::INFINITY;
        for answer in 0..400_000 {
            even = (even + 0.618_033_988_749_895) % 1.0;
            let at_once = limit.limit();
            let mean = (f64::from(at_once) / 8.0).max(1.0);
            limit.answered(Duration::from_secs_f64(-mean * (1.0 - even).ln()), at_once);
            least = if answer > 100_000 { least.min(limit.limit) } else { least };
        }
        assert!((8.0..=12.0).contains(&least), "{least}");
    }

    #[test]
    fn it_begins_with_what_a_server_can_do_within_two_thousand_answers() {
        for processors in [4, 16, 64] {
            let mut limit = Adaptive::default();
            run(&mut limit, processors, 2000);
            let (found, least) = (limit.limit, f64::from(processors));
            assert!((0.9 * least..=1.5 * least + 2.0).contains(&found), "{found} of {processors}");
        }
    }

    /// A server of so many processes, each with one request at a time, of exponentially distributed times of a second on average, to which
    /// requests come at random at such a load; and the mean of what is let in at once, after half of that.
    fn run_at(limit: &mut Adaptive, processes: u32, load: f64, requests: u32) -> f64 {
        let mut dice = Pcg64Mcg::seed_from_u64(1);
        let mut exponential =
            |mean: f64| -mean * ((f64::from(dice.next_u32()) + 1.0) / 2.0_f64.powi(32)).ln();
        // Until when each process is busy; when those inside end, how long they took and how many they were; and who waits outside.
        let mut busy = vec![0.0_f64; usize::try_from(processes).unwrap()];
        let mut inside: Vec<(f64, f64, u32)> = Vec::new();
        let (mut outside, mut arrival, mut sum) = (0_u32, 0.0, 0.0);
        for number in 0..2 * requests {
            let next =
                inside.iter().enumerate().min_by(|(_, (one, ..)), (_, (other, ..))| one.total_cmp(other));
            let now = match next {
                Some((index, (end, ..))) if *end <= arrival => {
                    let (end, took, at_once) = inside.swap_remove(index);
                    limit.answered(Duration::from_secs_f64(took), at_once);
                    end
                }
                _ => {
                    let now = arrival;
                    arrival += exponential(1.0 / (load * f64::from(processes)));
                    outside += 1;
                    now
                }
            };
            while outside > 0 && inside.len() < usize::try_from(limit.limit()).unwrap() {
                outside -= 1;
                let free = busy.iter_mut().min_by(|one, other| one.total_cmp(other)).unwrap();
                *free = free.max(now) + exponential(1.0);
                inside.push((*free, *free - now, u32::try_from(inside.len()).unwrap() + 1));
            }
            sum += if number >= requests { f64::from(limit.limit()) } else { 0.0 };
        }
        sum / f64::from(requests)
    }

    /// A limit that is too high is reached now and then, by requests that wait inside, where nobody can put them in order.
    #[test]
    fn load_that_comes_and_goes_does_not_raise_it_above_what_a_server_can_do() {
        for (processes, load) in
            [4, 16].into_iter().flat_map(|it| [0.5, 0.8, 0.9, 0.95].map(|load| (it, load)))
        {
            let mut limit = Adaptive::default();
            let mean = run_at(&mut limit, processes, load, 100_000);
            let least = f64::from(processes);
            assert!((0.9 * least..=1.5 * least + 1.0).contains(&mean), "{mean} of {processes} at {load}");
        }
    }

    #[test]
    fn it_follows_a_server_that_becomes_smaller_and_larger() {
        let mut limit = Adaptive::default();
        run(&mut limit, 32, 200_000);
        run(&mut limit, 8, 200_000);
        let small = limit.limit;
        assert!((8.0..=14.0).contains(&small), "{small}");
        run(&mut limit, 32, 200_000);
        assert!(limit.limit >= 32.0, "{}", limit.limit);
    }

    /// A database behind the server is slow, say: that is no queue.
    #[test]
    fn it_does_not_sink_where_all_requests_come_to_take_longer() {
        let mut limit = Adaptive::default();
        run(&mut limit, 16, 20_000);
        let mut least = f64::INFINITY;
        for answer in 0..100_000 {
            let at_once = limit.limit();
            limit.answered(Duration::from_secs_f64(3.0 * (f64::from(at_once) / 16.0).max(1.0)), at_once);
            least = if answer > 20_000 { least.min(limit.limit) } else { least };
        }
        assert!(least >= 14.0, "{least}");
    }

    #[test]
    fn failures_lower_it_and_light_load_does_not_raise_it() {
        let mut limit = Adaptive::default();
        for _ in 0..10_000 {
            limit.failed();
        }
        assert_eq!(limit.limit(), LEAST);
        let mut limit = Adaptive::default();
        for _ in 0..10_000 {
            limit.answered(Duration::from_millis(1), 2);
        }
        assert!((limit.limit - FIRST).abs() < f64::EPSILON);
        assert_eq!(limit.base(), Some(Duration::from_millis(1)));
    }

    proptest! {
        #[test]
        fn it_is_bounded(steps in proptest::collection::vec((0..10_000_000u64, 0..20_000u32, any::<bool>()), 0..3000)) {
            let mut limit = Adaptive::default();
            for (nanoseconds, at_once, is_answered) in steps {
                if is_answered {
                    limit.answered(Duration::from_nanos(nanoseconds), at_once);
                } else {
                    limit.failed();
                }
                prop_assert!((LEAST..=MOST).contains(&limit.limit()));
            }
        }
    }
}
