use std::collections::VecDeque;

use super::*;

/// Who lets so many in at once, in their order.
struct InTurn {
    limit: usize,
    in_service: usize,
    waiting: VecDeque<RequestId>,
    decided: VecDeque<Decision>,
}

impl InTurn {
    fn new(limit: usize) -> Self {
        Self { limit, in_service: 0, waiting: VecDeque::new(), decided: VecDeque::new() }
    }

    fn serve(&mut self) {
        while self.in_service < self.limit
            && let Some(id) = self.waiting.pop_front()
        {
            self.in_service += 1;
            self.decided.push_back(Decision::Serve(id, 0));
        }
    }
}

impl Front for InTurn {
    fn arrive(&mut self, request: RequestId, _: usize, _: Duration) {
        self.waiting.push_back(request);
        self.serve();
    }

    fn answered(&mut self, _: RequestId, _: Duration) {
        self.in_service -= 1;
        self.serve();
    }

    fn tick(&mut self, _: Duration) {}

    fn next_tick(&self) -> Option<Duration> {
        None
    }

    fn poll(&mut self) -> Option<Decision> {
        self.decided.pop_front()
    }
}

fn mean_response(work: Work, arrivals: Arrivals, load: f64, limit: usize) -> f64 {
    let class = ClassSetup { rate: load, arrivals, work };
    let servers = vec![ServerSetup { processors: 1.0, speed: 1.0 }];
    let mut farm = Farm::new(&FarmSetup { servers, classes: vec![class], steps: Vec::new() }, 1);
    let over = farm.run(&mut InTurn::new(limit), Duration::from_secs(200_000));
    let sum: f64 = over.iter().map(|over| (over.ended - over.arrived).as_secs_f64()).sum();
    sum / over.len() as f64
}

#[test]
fn queues_are_as_long_as_theory_says() {
    let exponential = Work::Exponential(1.0);
    let mean = mean_response(exponential, Arrivals::Poisson, 0.7, 1);
    assert!((mean - 1.0 / 0.3).abs() < 0.2, "M/M/1: {mean}");
    let mean = mean_response(Work::Constant(1.0), Arrivals::Poisson, 0.7, 1);
    assert!((mean - (1.0 + 0.7 / 0.6)).abs() < 0.1, "M/D/1: {mean}");
    // Where all share a processor only the mean of what is asked for counts.
    let heavy = Work::HeavyTailed { mean: 1.0, shape: 1.5, range: 1000.0 };
    for work in [exponential, Work::Constant(1.0), heavy] {
        let mean = mean_response(work, Arrivals::Poisson, 0.7, usize::MAX);
        assert!((mean - 1.0 / 0.3).abs() < 0.25, "M/G/1 of shared processors: {mean}");
    }
    let bursty = Arrivals::Bursty { swing: 0.5, mean: Duration::from_secs(50) };
    let mean = mean_response(exponential, bursty, 0.7, 1);
    assert!(mean > 5.0, "bursts make queues: {mean}");
}

#[test]
fn steps_change_what_comes() {
    let class = ClassSetup { rate: 10.0, arrivals: Arrivals::Poisson, work: Work::Constant(0.001) };
    let servers = vec![ServerSetup { processors: 1.0, speed: 1.0 }];
    let steps = vec![(Duration::from_secs(100), 3.0)];
    let mut farm = Farm::new(&FarmSetup { servers, classes: vec![class], steps }, 1);
    let mut front = InTurn::new(1);
    let [before, after] = [100, 200].map(|end| farm.run(&mut front, Duration::from_secs(end)).len());
    assert!((900..1100).contains(&before) && (2800..3200).contains(&after), "{before} and {after}");
}
