//! The plan beside mirrors in virtual time, and a driver of the plan that checks it after each step.

use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;

use super::source::Serves;
use super::{LEAST_BLOCK, Order, Plan, Ranges, SourceId, Taken, Why, fair_cut};

const SECOND: Duration = Duration::from_secs(1);

fn temper() -> impl Strategy<Value = Temper> {
    let moment = || (0u64..20_000).prop_map(Duration::from_millis);
    prop_oneof![
        Just(Temper::Steady),
        moment().prop_map(Temper::SilentFrom),
        moment().prop_map(Temper::RefusesFrom),
        (1u64..4_000_000).prop_map(Temper::BreaksOffAfter),
        (1u64..4_000_000).prop_map(Temper::FallsShortAfter),
        Just(Temper::OnlyWhole),
    ]
}

fn mirror() -> impl Strategy<Value = Mirror> {
    (50_000u64..20_000_000, 1u64..300, temper()).prop_map(|(rate, latency, temper)| Mirror {
        rate,
        latency: Duration::from_millis(latency),
        temper,
    })
}

fn steady_mirror() -> impl Strategy<Value = Mirror> {
    (200_000u64..10_000_000, 1u64..60).prop_map(|(rate, latency)| Mirror {
        rate,
        latency: Duration::from_millis(latency),
        temper: Temper::Steady,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The world checks after each step that every byte has arrived, or is free, or belongs to one source.
    #[test]
    fn it_ends_whatever_mirrors_do_as_long_as_one_works(
        mut mirrors in prop::collection::vec(mirror(), 0..5),
        works in steady_mirror(),
        place in any::<prop::sample::Index>(),
        length in 0u64..30_000_000,
    ) {
        let alone = length as f64 / works.rate as f64;
        mirrors.insert(place.index(mirrors.len() + 1), works);
        let end = World::new(length, mirrors).run();
        // Blocks that others hold until they count as stalled, and a tenth for round trips.
        prop_assert!(end.is_complete);
        prop_assert!(end.at.as_secs_f64() < alone * 1.1 + 30.0, "{end:?}, alone {alone} s");
    }

    #[test]
    fn nobody_idles_for_more_than_a_block_while_others_work(
        mirrors in prop::collection::vec(steady_mirror(), 1..6),
        seconds in 5u64..30,
    ) {
        let sum: u64 = mirrors.iter().map(|mirror| mirror.rate).sum();
        let end = World::new(sum * seconds, mirrors).run();
        prop_assert!(end.longest_idle <= SECOND + SECOND / 10, "{end:?}");
    }

    #[test]
    fn a_cut_makes_both_ready_at_once(
        left in 1u64..1_000_000_000,
        owner in 1.0f64..1e8,
        thief in 1.0f64..1e8,
        latency in 0.0f64..1.0,
    ) {
        let alone = left as f64 / owner;
        if let Some(kept) = fair_cut(left, owner, thief, latency) {
            prop_assert!(kept <= left);
            let (one, other) = (kept as f64 / owner, latency + (left - kept) as f64 / thief);
            // To a byte.
            prop_assert!((one - other).abs() <= 1.0 / owner + 1.0 / thief + alone * 1e-9, "{one} {other}");
            prop_assert!(alone - one >= 0.0999);
        }
    }
}

#[test]
fn four_mirrors_together_carry_the_sum_of_their_rates() {
    let rates = [5_000_000, 2_500_000, 1_250_000, 625_000];
    let mirrors =
        rates.map(|rate| Mirror { rate, latency: Duration::from_millis(2), temper: Temper::Steady });
    let end = World::new(rates.iter().sum::<u64>() * 20, mirrors.to_vec()).run();
    assert!(end.at.as_secs_f64() < 20.0 * 1.03, "{end:?}");
}

#[test]
fn a_mirror_that_dies_costs_its_share() {
    let mirror = |temper| Mirror { rate: 2_000_000, latency: Duration::from_millis(2), temper };
    let died = Temper::RefusesFrom(SECOND * 10);
    let mirrors = vec![mirror(Temper::Steady), mirror(Temper::Steady), mirror(died)];
    // Three for 10 s, and two for another 10 s.
    let end = World::new(100_000_000, mirrors).run();
    assert!(end.at.as_secs_f64() < 20.0 * 1.03, "{end:?}");
}

#[test]
fn nothing_is_fetched_twice_after_a_pause() {
    let mut done = Ranges::default();
    done.insert(0..100);
    done.insert(200..300);
    let mut plan = Plan::new(300, done);
    let id = plan.add(Serves::Parts);
    assert_eq!(plan.poll(Duration::ZERO), Some(Order::Fetch(id, 100..200)));
    assert_eq!(plan.take(id, 1000, SECOND), Taken { range: 100..200, is_last: true });
    assert!(plan.is_complete() && plan.poll(SECOND).is_none());
}

#[test]
fn a_silent_source_is_stopped_and_its_bytes_go_elsewhere() {
    let mut plan = Plan::new(LEAST_BLOCK, Ranges::default());
    let (one, other) = (plan.add(Serves::Parts), plan.add(Serves::Parts));
    let silent = match plan.poll(Duration::ZERO) {
        Some(Order::Fetch(id, range)) if range == (0..LEAST_BLOCK) => id,
        order => panic!("{order:?}"),
    };
    assert_eq!(plan.poll(Duration::ZERO), None);
    assert_eq!(plan.poll(SECOND * 5), Some(Order::Stop(silent, Why::Stalled)));
    let heir = if silent == one { other } else { one };
    assert_eq!(plan.poll(SECOND * 5), Some(Order::Fetch(heir, 0..LEAST_BLOCK)));
}

#[test]
fn a_source_that_always_fails_is_given_up() {
    let mut plan = Plan::new(1000, Ranges::default());
    let id = plan.add(Serves::Parts);
    let mut now = Duration::ZERO;
    for _ in 0..8 {
        assert!(matches!(plan.poll(now), Some(Order::Fetch(..))), "at {now:?}");
        plan.fail(id, None, now);
        assert_eq!(plan.poll(now), None);
        now = plan.poll_timeout(now).unwrap_or(now);
    }
    assert!(plan.is_retired(id) && plan.poll_timeout(now).is_none());
}

#[test]
fn what_serves_no_parts_waits_until_nothing_else_is_left() {
    let mut plan = Plan::new(1 << 30, Ranges::default());
    let (whole, parts) = (plan.add(Serves::Whole), plan.add(Serves::Parts));
    assert!(matches!(plan.poll(Duration::ZERO), Some(Order::Fetch(id, _)) if id == parts));
    assert_eq!(plan.poll(Duration::ZERO), None);
    plan.retire(parts, SECOND);
    assert_eq!(plan.poll(SECOND), Some(Order::Fetch(whole, 0..1 << 30)));
}

const STEP: Duration = Duration::from_millis(10);

/// No run of these tests takes longer unless it does not end.
const FOREVER: Duration = Duration::from_secs(3600);

/// A mirror with one connection.
#[derive(Clone, Debug)]
struct Mirror {
    /// In bytes per second.
    rate: u64,
    /// From a request to the first byte.
    latency: Duration,
    temper: Temper,
}

/// What is wrong with a mirror.
#[derive(Clone, Copy, Debug)]
enum Temper {
    Steady,
    /// It sends nothing any more.
    SilentFrom(Duration),
    /// It closes connections.
    RefusesFrom(Duration),
    /// It closes the connection in the middle of an answer.
    BreaksOffAfter(u64),
    /// Its answers are correct, and shorter than was asked for.
    FallsShortAfter(u64),
    /// It knows no ranges.
    OnlyWhole,
}

impl Mirror {
    fn serves(&self) -> Serves {
        if matches!(self.temper, Temper::OnlyWhole) { Serves::Whole } else { Serves::Parts }
    }
}

/// A connection with a request on it.
#[derive(Debug)]
struct Request {
    begins: Duration,
    left: u64,
    sent: u64,
    /// What is to be thrown away before.
    skip: u64,
}

struct World {
    plan: Plan,
    length: u64,
    mirrors: Vec<Mirror>,
    requests: Vec<Option<Request>>,
    idle_since: Vec<Option<Duration>>,
}

/// How it ended.
#[derive(Debug)]
struct End {
    at: Duration,
    is_complete: bool,
    longest_idle: Duration,
}

impl World {
    fn new(length: u64, mirrors: Vec<Mirror>) -> Self {
        let mut plan = Plan::new(length, Ranges::default());
        for mirror in &mirrors {
            plan.add(mirror.serves());
        }
        let requests = mirrors.iter().map(|_| None).collect();
        let idle_since = mirrors.iter().map(|_| Some(Duration::ZERO)).collect();
        Self { plan, length, mirrors, requests, idle_since }
    }

    fn run(mut self) -> End {
        let mut now = Duration::ZERO;
        let mut longest_idle = Duration::ZERO;
        loop {
            self.obey(now);
            self.check();
            if self.plan.is_complete() || now > FOREVER {
                return End { at: now, is_complete: self.plan.is_complete(), longest_idle };
            }
            let timeout = self.plan.poll_timeout(now);
            assert!(timeout.is_some(), "nobody would do anything any more: {:?}", self.plan);
            now += STEP;
            for index in 0..self.mirrors.len() {
                self.serve(index, now);
                longest_idle = longest_idle.max(self.idles(index, now));
            }
        }
    }

    fn obey(&mut self, now: Duration) {
        while let Some(order) = self.plan.poll(now) {
            match order {
                Order::Fetch(SourceId(index), Range { start, end }) => {
                    assert!(start < end && self.requests[index].is_none());
                    let skip = match self.mirrors[index].serves() {
                        Serves::Whole => start,
                        Serves::Parts => 0,
                    };
                    let begins = now + self.mirrors[index].latency;
                    self.requests[index] = Some(Request { begins, left: end - start, sent: 0, skip });
                }
                Order::Stop(SourceId(index), Why::Stalled | Why::Robbed) => self.requests[index] = None,
            }
        }
    }

    /// A step of a mirror.
    fn serve(&mut self, index: usize, now: Duration) {
        let Mirror { rate, temper, .. } = self.mirrors[index];
        let Some(request) = &mut self.requests[index] else { return };
        let id = SourceId(index);
        let most = match temper {
            Temper::SilentFrom(at) if now >= at => return,
            Temper::RefusesFrom(at) if now >= at => {
                self.requests[index] = None;
                return self.plan.fail(id, None, now);
            }
            Temper::BreaksOffAfter(most) | Temper::FallsShortAfter(most) => most,
            Temper::Steady | Temper::SilentFrom(_) | Temper::RefusesFrom(_) | Temper::OnlyWhole => u64::MAX,
        };
        if now < request.begins {
            return;
        }
        let bytes = rate / 100;
        let skipped = bytes.min(request.skip);
        request.skip -= skipped;
        let bytes = (bytes - skipped).min(request.left).min(most - request.sent);
        request.left -= bytes;
        request.sent += bytes;
        let is_over = request.sent == most;
        let taken = self.plan.take(id, bytes, now);
        if taken.is_last {
            self.requests[index] = None;
        } else if is_over {
            self.requests[index] = None;
            if matches!(temper, Temper::FallsShortAfter(_)) {
                self.plan.fall_short(id, now);
            } else {
                self.plan.fail(id, None, now);
            }
        }
    }

    fn idles(&mut self, index: usize, now: Duration) -> Duration {
        let since = &mut self.idle_since[index];
        match &self.requests[index] {
            Some(_) => *since = None,
            None => _ = since.get_or_insert(now),
        }
        since.map_or(Duration::ZERO, |since| now - since)
    }

    /// Every byte has arrived, or is free, or belongs to one source.
    fn check(&self) {
        let holds = self.plan.sources.iter().filter_map(|source| Some(source.hold()?.rest.clone()));
        let parts = self.plan.done.iter().chain(self.plan.free.iter()).chain(holds);
        let mut parts: Vec<_> = parts.filter(|range| !range.is_empty()).collect();
        parts.sort_unstable_by_key(|range| range.start);
        let mut end = 0;
        for part in parts {
            assert_eq!(part.start, end, "a byte belongs to nobody or to two: {:?}", self.plan);
            end = part.end;
        }
        assert_eq!(end, self.length);
    }
}
