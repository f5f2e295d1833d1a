//! Mirrors in virtual time, and a driver of the plan that checks it after each step.

use std::ops::Range;
use std::time::Duration;

use super::super::{Order, Plan, Ranges, Serves, SourceId, Why};

const STEP: Duration = Duration::from_millis(10);

/// No run of these tests takes longer unless it does not end.
const FOREVER: Duration = Duration::from_secs(3600);

/// A mirror with one connection.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    /// In bytes per second.
    pub(super) rate: u64,
    /// From a request to the first byte.
    pub(super) latency: Duration,
    pub(super) temper: Temper,
}

/// What is wrong with a mirror.
#[derive(Clone, Copy, Debug)]
pub(super) enum Temper {
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

pub(super) struct World {
    plan: Plan,
    length: u64,
    mirrors: Vec<Mirror>,
    requests: Vec<Option<Request>>,
    idle_since: Vec<Option<Duration>>,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) at: Duration,
    pub(super) is_complete: bool,
    pub(super) longest_idle: Duration,
}

impl World {
    pub(super) fn new(length: u64, mirrors: Vec<Mirror>) -> Self {
        let mut plan = Plan::new(length, Ranges::default());
        for mirror in &mirrors {
            plan.add(mirror.serves());
        }
        let requests = mirrors.iter().map(|_| None).collect();
        let idle_since = mirrors.iter().map(|_| Some(Duration::ZERO)).collect();
        Self { plan, length, mirrors, requests, idle_since }
    }

    pub(super) fn run(mut self) -> End {
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
