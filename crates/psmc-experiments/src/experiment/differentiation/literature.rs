//! The seed's front: each class has processes of its own, and takes its requests in turn.

use std::collections::VecDeque;
use std::time::Duration;

use psmc_shares::allocate::{Feedback, adaptive, fixed, rates};
use psmc_sim::farm::{Decision, Front, RequestId};

use super::load::{CAPACITY, PERIOD, SERVICE};

/// How the seed divides processes among classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Allocation {
    /// All of them, by the predicted load.
    Fixed,
    /// Eq. 6.4 to the letter: each class has a server of its own, as fast as that says by the predicted load.
    Rates,
    /// Algorithm 6.1, by the predicted load.
    Theory,
    /// Eq. 6.7, with one gain for the first class and one for all others.
    Feedback(f64, f64),
}

/// Its processes, as Apache has them.
const PROCESSES: u32 = 32;

/// Algorithm 6.1's H, of which the seed says that it is small.
const THRESHOLD: u32 = 1;

/// Allocation periods of algorithm 6.1 in a sampling period; the seed does not say how long they are.
const ALLOCATIONS: u32 = 100;

/// The predicted load is the mean of that of so many sampling periods.
const PREDICTED_BY: usize = 5;

/// Such a front before one server.
pub(super) struct Pools {
    allocation: Allocation,
    deltas: Vec<f64>,
    classes: Vec<Pool>,
    decided: VecDeque<Decision>,
    next_allocation: Duration,
    allocations: u32,
}

struct Pool {
    waiting: VecDeque<(RequestId, Duration)>,
    in_service: Vec<(RequestId, Duration)>,
    limit: u32,
    arrivals: u32,
    /// Of the last sampling periods, as shares of the server.
    loads: VecDeque<f64>,
    /// Seconds, and of how many.
    responses: (f64, u32),
    feedback: Option<Feedback>,
}

impl Pools {
    pub(super) fn new(allocation: Allocation, deltas: &[f64]) -> Self {
        let pool = |_: &f64| Pool {
            waiting: VecDeque::new(),
            in_service: Vec::new(),
            limit: if allocation == Allocation::Rates { 1 } else { PROCESSES },
            arrivals: 0,
            loads: VecDeque::new(),
            responses: (0.0, 0),
            feedback: None,
        };
        Self {
            allocation,
            deltas: deltas.to_owned(),
            classes: deltas.iter().map(pool).collect(),
            decided: VecDeque::new(),
            next_allocation: PERIOD / ALLOCATIONS,
            allocations: 0,
        }
    }

    fn serve(&mut self) {
        for (class, pool) in self.classes.iter_mut().enumerate() {
            let server = if self.allocation == Allocation::Rates { class } else { 0 };
            while u32::try_from(pool.in_service.len()).is_ok_and(|busy| busy < pool.limit)
                && let Some(request) = pool.waiting.pop_front()
            {
                pool.in_service.push(request);
                self.decided.push_back(Decision::Serve(request.0, server));
            }
        }
    }

    /// By eq. 6.4; what has come, if that is more than can be done.
    fn rates(&self) -> Vec<f64> {
        let loads: Vec<f64> = self.classes.iter().map(Pool::load).collect();
        rates(&loads, &self.deltas).unwrap_or(loads)
    }

    fn allocate(&mut self) {
        let rates = self.rates();
        let active: Vec<u32> = self
            .classes
            .iter()
            .map(|pool| u32::try_from(pool.in_service.len()).unwrap_or(PROCESSES))
            .collect();
        for (pool, limit) in self.classes.iter_mut().zip(adaptive(&active, &rates, THRESHOLD)) {
            pool.limit = limit.unwrap_or(PROCESSES);
        }
    }

    fn end_period(&mut self) {
        for pool in &mut self.classes {
            pool.loads.push_back(f64::from(pool.arrivals) / PERIOD.as_secs_f64() / CAPACITY);
            pool.arrivals = 0;
            if pool.loads.len() > PREDICTED_BY {
                pool.loads.pop_front();
            }
        }
        let rates = self.rates();
        match self.allocation {
            Allocation::Theory => {}
            Allocation::Rates => {
                let speeds = rates.iter().enumerate().map(|(class, &rate)| Decision::Speed(class, rate));
                self.decided.extend(speeds);
            }
            Allocation::Fixed => {
                for (pool, limit) in self.classes.iter_mut().zip(fixed(PROCESSES, &rates)) {
                    pool.limit = limit;
                }
            }
            Allocation::Feedback(first, other) => self.feed_back(&rates, first, other),
        }
        for pool in &mut self.classes {
            pool.responses = (0.0, 0);
        }
    }

    /// The target of a class: its part, by δ, of what all have had. In mean service times, that the gains have no unit.
    fn feed_back(&mut self, rates: &[f64], first: f64, other: f64) {
        let times: Vec<Option<f64>> = self.classes.iter().map(Pool::response).collect();
        let Some(times) = times.into_iter().collect::<Option<Vec<f64>>>() else { return };
        let part = times.iter().sum::<f64>() / self.deltas.iter().sum::<f64>();
        let initial = fixed(PROCESSES, rates);
        for (class, pool) in self.classes.iter_mut().enumerate() {
            let gain = if class == 0 { first } else { other };
            let feedback =
                pool.feedback.get_or_insert_with(|| Feedback::new(f64::from(initial[class]), gain));
            let processes = feedback.update((times[class] - part * self.deltas[class]) / SERVICE);
            pool.limit = (1..=PROCESSES).rev().find(|&limit| f64::from(limit) <= processes).unwrap_or(1);
        }
    }
}

impl Front for Pools {
    fn arrive(&mut self, request: RequestId, class: usize, now: Duration) {
        self.classes[class].arrivals += 1;
        self.classes[class].waiting.push_back((request, now));
        self.serve();
    }

    fn answered(&mut self, request: RequestId, now: Duration) {
        for pool in &mut self.classes {
            if let Some(place) = pool.in_service.iter().position(|(id, _)| *id == request) {
                let (_, arrived) = pool.in_service.swap_remove(place);
                pool.responses.0 += (now - arrived).as_secs_f64();
                pool.responses.1 += 1;
            }
        }
        self.serve();
    }

    fn tick(&mut self, now: Duration) {
        if now < self.next_allocation {
            return;
        }
        self.next_allocation += PERIOD / ALLOCATIONS;
        self.allocations += 1;
        if self.allocations.is_multiple_of(ALLOCATIONS) {
            self.end_period();
        }
        if self.allocation == Allocation::Theory {
            self.allocate();
        }
        self.serve();
    }

    fn next_tick(&self) -> Option<Duration> {
        Some(self.next_allocation)
    }

    fn poll(&mut self) -> Option<Decision> {
        self.decided.pop_front()
    }
}

impl Pool {
    /// As a share of the server.
    fn load(&self) -> f64 {
        self.loads.iter().sum::<f64>() / self.loads.len().max(1) as f64
    }

    fn response(&self) -> Option<f64> {
        let (sum, samples) = self.responses;
        (samples > 0).then(|| sum / f64::from(samples))
    }
}
