//! What comes to a server, and what became of it.

use std::time::Duration;

use psmc_shares::admission::{ClassConfig, Config, Discipline, Measure, ServerConfig, Snapshot};
use psmc_sim::farm::{Arrivals, ClassSetup, Farm, FarmSetup, Front, Over, ServerSetup, Work};

use super::literature::{Allocation, Pools};
use super::ours::Ours;

/// The mean of what a request asks for, in seconds.
pub(super) const SERVICE: f64 = 0.01;

/// Requests that a server of one processor can answer in a second.
pub(super) const CAPACITY: f64 = 1.0 / SERVICE;

/// A sampling period: what a thousand requests take, as in the seed.
pub(super) const PERIOD: Duration = Duration::from_secs(10);

/// The seed's, before it measures.
pub(super) const WARM_UP: usize = 100;

/// What comes.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    /// All classes together, as a share of what servers can do.
    pub(super) load: f64,
    /// Of each class, beside each other.
    pub(super) shares: Vec<f64>,
    /// What requests of each class ask for, as multiples of [`SERVICE`].
    pub(super) longer: Vec<f64>,
    pub(super) is_bursty: bool,
    pub(super) is_heavy: bool,
    pub(super) steps: Vec<(Duration, f64)>,
    pub(super) servers: Vec<ServerSetup>,
}

/// Who decides.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Method {
    Seed(Allocation),
    /// The first class first.
    Precedence,
    Ours {
        discipline: Discipline,
        idling: bool,
    },
}

/// What became of it, by sampling periods from the first that counts.
pub(super) struct Course {
    periods: Vec<Vec<Over>>,
    pub(super) snapshots: Vec<Snapshot>,
    /// What ratios are of.
    measure: Measure,
}

impl Traffic {
    /// The seed's: a server of one processor, three requests of the first class for each of the second.
    pub(super) fn seed(load: f64) -> Self {
        Self {
            load,
            shares: vec![3.0, 1.0],
            longer: vec![1.0; 3],
            is_bursty: false,
            is_heavy: false,
            steps: Vec::new(),
            servers: vec![ServerSetup { processors: 1.0, speed: 1.0 }],
        }
    }

    fn setup(&self) -> FarmSetup {
        let capacity: f64 =
            self.servers.iter().map(|server| server.processors * server.speed).sum::<f64>() * CAPACITY;
        let all: f64 = self.shares.iter().zip(&self.longer).map(|(share, longer)| share * longer).sum();
        let arrivals = if self.is_bursty {
            Arrivals::Bursty { swing: 0.5, mean: Duration::from_secs_f64(50.0 / capacity) }
        } else {
            Arrivals::Poisson
        };
        let work = |mean| {
            if self.is_heavy {
                Work::HeavyTailed { mean, shape: 1.5, range: 1000.0 }
            } else {
                Work::Exponential(mean)
            }
        };
        let class = |(share, longer): (&f64, &f64)| ClassSetup {
            rate: self.load * capacity * share / all,
            arrivals,
            work: work(SERVICE * longer),
        };
        FarmSetup {
            servers: self.servers.clone(),
            classes: self.shares.iter().zip(&self.longer).map(class).collect(),
            steps: self.steps.clone(),
        }
    }

    pub(super) fn config(&self, deltas: &[f64]) -> Config {
        let class = |&ratio: &f64| ClassConfig { ratio, max_waiting: usize::MAX, ..ClassConfig::default() };
        Config {
            classes: deltas.iter().map(class).collect(),
            servers: vec![ServerConfig::default(); self.servers.len()],
            period: self.period(),
            ..Config::default()
        }
    }

    /// That of one processor, for so many.
    pub(super) fn period(&self) -> Duration {
        PERIOD.div_f64(self.servers.iter().map(|server| server.processors * server.speed).sum())
    }

    /// Plays so many sampling periods after those that do not count.
    pub(super) fn play(&self, method: &Method, deltas: &[f64], periods: usize, seed: u64) -> Course {
        match method {
            Method::Seed(allocation) => {
                let mut pools = Pools::new(*allocation, deltas);
                let mut setup = self.setup();
                if *allocation == Allocation::Rates {
                    let speed = 1.0 / deltas.len() as f64;
                    setup.servers = vec![ServerSetup { processors: 1.0, speed }; deltas.len()];
                }
                self.course(&setup, &mut pools, WARM_UP, periods, seed, |_, _| None)
            }
            Method::Precedence => {
                let mut config = self.config(deltas);
                for class in &mut config.classes {
                    class.objective = Some(Duration::from_nanos(1));
                }
                self.play_ours(config, WARM_UP, periods, seed)
            }
            Method::Ours { discipline, idling } => {
                let config = Config { discipline: *discipline, idling: *idling, ..self.config(deltas) };
                self.play_ours(config, WARM_UP, periods, seed)
            }
        }
    }

    /// As [`play`](Self::play), with ratios of something else.
    pub(super) fn play_measuring(
        &self,
        method: &Method,
        measure: Measure,
        deltas: &[f64],
        periods: usize,
        seed: u64,
    ) -> Course {
        let Method::Ours { discipline, idling } = *method else {
            return self.play(method, deltas, periods, seed);
        };
        let config = Config { discipline, idling, measure, ..self.config(deltas) };
        Course { measure, ..self.play_ours(config, WARM_UP, periods, seed) }
    }

    pub(super) fn play_ours(&self, config: Config, warm_up: usize, periods: usize, seed: u64) -> Course {
        match Ours::new(config) {
            Some(mut ours) => self.course(&self.setup(), &mut ours, warm_up, periods, seed, |ours, now| {
                Some(ours.snapshot(now))
            }),
            None => Course { periods: Vec::new(), snapshots: Vec::new(), measure: Measure::ResponseTime },
        }
    }

    fn course<F: Front>(
        &self,
        setup: &FarmSetup,
        front: &mut F,
        warm_up: usize,
        periods: usize,
        seed: u64,
        snapshot: impl Fn(&F, Duration) -> Option<Snapshot>,
    ) -> Course {
        let mut farm = Farm::new(setup, seed);
        let mut course =
            Course { periods: Vec::new(), snapshots: Vec::new(), measure: Measure::ResponseTime };
        for (period, number) in (0..warm_up + periods).zip(1_u32..) {
            let now = self.period() * number;
            let over = farm.run(front, now);
            if period >= warm_up {
                course.periods.push(over);
                course.snapshots.extend(snapshot(front, now));
            }
        }
        course
    }
}

impl Course {
    /// The same with so many periods taken for one.
    pub(super) fn together(&self, periods: usize) -> Self {
        let periods = self.periods.chunks_exact(periods).map(<[_]>::concat).collect();
        Self { periods, snapshots: Vec::new(), measure: self.measure }
    }

    /// What is measured of one class over that of the first one, in each sampling period in which both had answers.
    pub(super) fn ratios(&self, class: usize) -> Vec<f64> {
        let of = |period: &Vec<Over>| {
            let [first, other] = [0, class].map(|class| self.measured(period, class));
            Some(other? / first?)
        };
        self.periods.iter().filter_map(of).collect()
    }

    fn measured(&self, period: &[Over], class: usize) -> Option<f64> {
        let mean_of = |of: fn(&Over) -> Option<Duration>| {
            mean(
                period
                    .iter()
                    .filter(|over| over.class == class)
                    .filter_map(of)
                    .map(|time| time.as_secs_f64()),
            )
        };
        let response = mean_of(response);
        match self.measure {
            Measure::ResponseTime => response,
            Measure::Slowdown => Some(response? / mean_of(|over| over.ended.checked_sub(over.started?))?),
        }
    }

    /// A percentile of the response times of a class, in seconds.
    pub(super) fn percentile(&self, class: usize, share: f64) -> Option<f64> {
        let of_class = self.periods.iter().flatten().filter(|over| over.class == class);
        percentile(of_class.filter_map(response).map(|time| time.as_secs_f64()).collect(), share)
    }

    /// Answers in a second of sampling periods of this length.
    pub(super) fn goodput(&self, period: Duration) -> f64 {
        let answers = self.periods.iter().flatten().filter(|over| over.started.is_some()).count();
        answers as f64 / (period.as_secs_f64() * self.periods.len() as f64)
    }

    /// The share of a class's requests that were refused.
    pub(super) fn refused(&self, class: usize) -> Option<f64> {
        mean(
            self.periods
                .iter()
                .flatten()
                .filter(|over| over.class == class)
                .map(|over| f64::from(u8::from(over.started.is_none()))),
        )
    }
}

/// Unless it was refused.
fn response(over: &Over) -> Option<Duration> {
    over.started?;
    over.ended.checked_sub(over.arrived)
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

pub(super) fn percentile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of values"
    )]
    values.get((share * last as f64).round() as usize).copied()
}
