//! A correction of each class's standing, from the response times of a sampling period.
//!
//! What is controlled are the N − 1 independent log-ratios of what N classes experience, each divided by its class's δ (eq. 6.1): logarithms,
//! since 1 : 4 instead of 1 : 2 is as wrong as 1 : 1, and since the gain then has no unit. The seed's controller (eq. 6.7) has a loop with
//! three gains for each class, though classes share one sum, and accumulates errors that nothing can undo.

/// What a sampling period says of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// The mean of what is held in ratios; `None` if too few requests were answered yet.
    pub mean: Option<f64>,
    /// Decisions on who is next in which it waited and another class as well.
    pub contests: u64,
    /// Those of them that it won.
    pub won: u64,
}

/// How a class stands beside the first one that it competes with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// Its ratio can be held. It is the mean of the last periods, if anything was measured in one.
    Held {
        /// What is measured of it over what is measured of the first class.
        ratio: Option<f64>,
    },
    /// It cannot be held, and who is next is decided as if it could: nobody has to wait without need.
    Infeasible {
        /// What there is instead.
        ratio: Option<f64>,
        /// Why.
        reason: Infeasible,
    },
}

/// Why a ratio cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Infeasible {
    /// In [`MOST_SILENT`] sampling periods too few requests of the class, or of the first one, were answered.
    #[error("too few requests of one of the classes were answered")]
    TooFewSamples,
    /// The other class has precedence wherever both wait, or nearly, and still this one is not that much slower.
    #[error("so little waits that precedence alone does not make such a difference")]
    LightLoad,
    /// It has precedence wherever both wait, or nearly, and is too slow still: because of what its requests ask for.
    #[error("requests of the class take the server so long that precedence alone does not make up for it")]
    LongService,
    /// It is the first of those that it competes with: no server is for it and for a class before it.
    #[error("no server is for it and for a class above it")]
    Apart,
}

/// Corrections of classes, in velocity form: a period changes them by the gain times its errors.
///
/// A correction that would change no decision any more is not increased: the class has won, or lost, nearly all of its contests. So
/// after hours of light load, in which no ratio can be held, corrections are no further off than after a minute.
#[derive(Clone, Debug)]
pub struct Ratios {
    gain: f64,
    classes: Vec<Class>,
}

#[derive(Clone, Debug)]
struct Class {
    delta: f64,
    /// The first of those that it competes with, which may be itself.
    first: usize,
    correction: f64,
    /// Of the ratio to the first class, over what it should be, smoothed.
    log_ratio: Option<f64>,
    /// Periods since both were last known.
    silent: u32,
    /// Periods for which that ratio has been off.
    off: u32,
    state: State,
}

/// A gain that settles within a few sampling periods, and leaves most of one period's noise out.
pub const GAIN: f64 = 0.3;

/// No correction is beyond this, up or down: e⁴ is 55 times another class's standing, more than ratios that people ask for.
pub const MOST: f64 = 4.0;

/// Sampling periods within which a ratio that can be held is reached after a change.
const SETTLING: u32 = 10;

/// Sampling periods without enough answers after which what was measured before says nothing any more.
pub const MOST_SILENT: u32 = 10;

/// A class that wins this share of its contests has precedence, and one that loses as many has none.
const PRECEDENCE: f64 = 0.95;

/// The weight of a period in the ratio that is told: a period's own is as noisy as its samples are few.
const SMOOTHING: f64 = 0.2;

/// A ratio that is off by less, as a logarithm (a tenth), is held: noise of some hundred samples is as much.
const TOLERANCE: f64 = 0.1;

impl Ratios {
    /// For classes of these δ, the seed's differentiation parameters; they are positive. A gain beyond 0 to 1 is taken for [`GAIN`].
    #[must_use]
    pub fn new(deltas: &[f64], gain: f64) -> Self {
        let gain = if gain > 0.0 && gain <= 1.0 { gain } else { GAIN };
        let class = |&delta: &f64| Class {
            delta,
            first: 0,
            correction: 0.0,
            log_ratio: None,
            silent: 0,
            off: 0,
            state: State::Infeasible { ratio: None, reason: Infeasible::TooFewSamples },
        };
        Self { gain, classes: deltas.iter().map(class).collect() }
    }

    /// The same, where not all classes compete with each other: of each, the first one of those that do.
    #[must_use]
    pub fn among(mut self, firsts: &[usize]) -> Self {
        for (class, first) in self.classes.iter_mut().zip(firsts) {
            class.first = *first;
        }
        self
    }

    /// A period is over. `seen` has an entry for each class.
    pub fn update(&mut self, seen: &[Seen]) {
        let logs: Vec<Option<f64>> =
            self.classes.iter().zip(seen).map(|(class, seen)| class.log(seen)).collect();
        for first in 0..self.classes.len() {
            self.correct(first, seen, &logs);
        }
        self.tell(seen, &logs);
    }

    /// Corrects those of which this class is the first.
    fn correct(&mut self, first: usize, seen: &[Seen], logs: &[Option<f64>]) {
        let of_first = |class: &Class| class.first == first;
        let known: Vec<f64> = self
            .classes
            .iter()
            .zip(logs)
            .filter(|(class, _)| of_first(class))
            .filter_map(|(_, log)| *log)
            .collect();
        if known.len() < 2 {
            return;
        }
        let middle = known.iter().sum::<f64>() / known.len() as f64;
        for ((class, seen), log) in
            self.classes.iter_mut().zip(seen).zip(logs).filter(|((class, _), _)| of_first(class))
        {
            let error = log.map_or(0.0, |log| log - middle);
            if !seen.is_settled(error) {
                class.correction += self.gain * error;
            }
        }
        self.centre(first);
    }

    /// What is added to the logarithm of each class's standing. The sum of those that compete is about 0: only differences matter.
    pub fn corrections(&self) -> impl Iterator<Item = f64> + '_ {
        self.classes.iter().map(|class| class.correction)
    }

    /// The weights of fair queues that begin with these, such as the classes' loads: positive, and their sum is 1.
    #[must_use]
    pub fn weights(&self, base: &[f64]) -> Vec<f64> {
        let weight = |(class, base): (&Class, &f64)| base.max(LEAST_WEIGHT) * class.correction.exp();
        let weights: Vec<f64> = self.classes.iter().zip(base).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// How each class but the first stands beside the first that it competes with.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.classes.iter().skip(1).map(|class| class.state)
    }

    fn centre(&mut self, first: usize) {
        let of_first = || self.classes.iter().filter(|class| class.first == first);
        let mean = of_first().map(|class| class.correction).sum::<f64>() / of_first().count() as f64;
        for class in self.classes.iter_mut().filter(|class| class.first == first) {
            class.correction = (class.correction - mean).clamp(-MOST, MOST);
        }
    }

    fn tell(&mut self, seen: &[Seen], logs: &[Option<f64>]) {
        let firsts: Vec<_> =
            self.classes.iter().map(|class| (class.first, self.classes[class.first].delta)).collect();
        for (place, (first, delta)) in firsts.into_iter().enumerate() {
            let (Some(own), Some(of_first)) = (seen.get(place), seen.get(first)) else { continue };
            let class = &mut self.classes[place];
            if place == first {
                class.state = State::Infeasible { ratio: None, reason: Infeasible::Apart };
                continue;
            }
            let both = logs.get(place).copied().flatten().zip(logs.get(first).copied().flatten());
            class.tell(both.map(|(log, first)| log - first), own, of_first, delta);
        }
    }
}

/// The least weight of a class, beside 1 for all: one of which nothing has come yet must not wait for ever once it does.
const LEAST_WEIGHT: f64 = 1e-3;

impl Class {
    /// The logarithm of what is measured, as a multiple of what it should be beside the others.
    fn log(&self, seen: &Seen) -> Option<f64> {
        seen.mean.filter(|mean| mean.is_finite() && *mean > 0.0).map(|mean| (mean / self.delta).ln())
    }

    /// What it says of itself after a period with this error beside a first class of this δ.
    fn tell(&mut self, error: Option<f64>, seen: &Seen, seen_first: &Seen, delta_of_first: f64) {
        let Some(error) = error else {
            self.silent += 1;
            if self.silent >= MOST_SILENT {
                let ratio = self.ratio(delta_of_first);
                self.state = State::Infeasible { ratio, reason: Infeasible::TooFewSamples };
            }
            return;
        };
        self.silent = 0;
        let smoothed = self.log_ratio.map_or(error, |old| old + SMOOTHING * (error - old));
        self.log_ratio = Some(smoothed);
        let ratio = self.ratio(delta_of_first);
        self.off = if smoothed.abs() > TOLERANCE { self.off + 1 } else { 0 };
        let can_no_more = seen.is_settled(smoothed) || seen_first.is_settled(-smoothed);
        self.state = if self.off > 0 && (can_no_more || self.off > SETTLING) {
            let reason = if smoothed < 0.0 { Infeasible::LightLoad } else { Infeasible::LongService };
            State::Infeasible { ratio, reason }
        } else {
            State::Held { ratio }
        };
    }

    fn ratio(&self, first: f64) -> Option<f64> {
        self.log_ratio.map(|log| log.exp() * self.delta / first)
    }
}

impl Seen {
    /// Whether a correction against this error would change nothing: the class is too slow and wins already, or the opposite.
    fn is_settled(&self, error: f64) -> bool {
        let won = self.won as f64;
        let all = self.contests as f64;
        if error > 0.0 { won >= PRECEDENCE * all } else { won <= (1.0 - PRECEDENCE) * all }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(mean: f64, contests: u64, won: u64) -> Seen {
        Seen { mean: Some(mean), contests, won }
    }

    #[test]
    fn who_is_too_slow_is_corrected_up_until_the_ratio_is_held() {
        let mut ratios = Ratios::new(&[1.0, 2.0], GAIN);
        ratios.update(&[seen(1.0, 100, 60), seen(1.0, 100, 40)]);
        let corrections: Vec<f64> = ratios.corrections().collect();
        let half = GAIN * 2.0_f64.ln() / 2.0;
        assert!((corrections[0] - half).abs() < 1e-9 && (corrections[1] + half).abs() < 1e-9);
        assert_eq!(ratios.states().next(), Some(State::Held { ratio: Some(1.0) }));
        for _ in 0..50 {
            ratios.update(&[seen(1.0, 100, 60), seen(2.0, 100, 40)]);
        }
        assert!(matches!(ratios.states().next(), Some(State::Held { ratio: Some(ratio) }) if ratio > 1.99));
    }

    #[test]
    fn what_no_precedence_can_do_is_told_and_winds_nothing_up() {
        let mut ratios = Ratios::new(&[1.0, 3.0], GAIN);
        for _ in 0..1000 {
            ratios.update(&[seen(1.0, 100, 97), seen(1.5, 100, 3)]);
        }
        let reason = Infeasible::LightLoad;
        assert!(
            matches!(ratios.states().next(), Some(State::Infeasible { reason: told, .. }) if told == reason)
        );
        assert_eq!(ratios.corrections().collect::<Vec<_>>(), [0.0, 0.0]);
        // The other way round: it wins, and its requests are long.
        for _ in 0..100 {
            ratios.update(&[seen(1.0, 100, 0), seen(9.0, 100, 100)]);
        }
        let reason = Infeasible::LongService;
        assert!(
            matches!(ratios.states().next(), Some(State::Infeasible { reason: told, .. }) if told == reason)
        );
    }

    #[test]
    fn a_class_without_requests_changes_nothing_and_others_go_on() {
        let mut ratios = Ratios::new(&[1.0, 2.0, 4.0], GAIN);
        for _ in 0..MOST_SILENT {
            ratios.update(&[Seen::default(), seen(1.0, 10, 5), seen(1.0, 10, 5)]);
        }
        assert!(ratios.states().all(|state| {
            matches!(state, State::Infeasible { reason: Infeasible::TooFewSamples, ratio: None })
        }));
        let corrections: Vec<f64> = ratios.corrections().collect();
        assert!(corrections[1] > corrections[2]);
        let before = corrections;
        ratios.update(&[Seen::default(), Seen::default(), seen(1.0, 10, 5)]);
        assert_eq!(ratios.corrections().collect::<Vec<_>>(), before);
    }

    /// Two of them here and two there: what one pair does is nothing to the other.
    #[test]
    fn classes_that_do_not_compete_are_corrected_apart() {
        let mut ratios = Ratios::new(&[1.0, 2.0, 1.0, 3.0], GAIN).among(&[0, 0, 2, 2]);
        for _ in 0..1000 {
            ratios.update(&[seen(1.0, 10, 5), seen(2.0, 10, 5), seen(50.0, 10, 5), seen(100.0, 10, 5)]);
        }
        let corrections: Vec<f64> = ratios.corrections().collect();
        assert!(corrections[0].abs() < 1e-9 && corrections[1].abs() < 1e-9, "{corrections:?}");
        assert!(corrections[2] > corrections[3] && corrections[2] <= MOST, "{corrections:?}");
        let states: Vec<State> = ratios.states().collect();
        assert!(matches!(states[0], State::Held { ratio: Some(ratio) } if (ratio - 2.0).abs() < 1e-9));
        assert_eq!(states[1], State::Infeasible { ratio: None, reason: Infeasible::Apart });
        assert!(
            matches!(states[2], State::Infeasible { ratio: Some(ratio), .. } if (ratio - 2.0).abs() < 1e-9)
        );
    }

    proptest! {
        #[test]
        fn corrections_are_bounded_and_weights_are_shares(
            periods in proptest::collection::vec(proptest::collection::vec((0.0..1e9_f64, 0..50u64, 0..50u64), 3), 0..60),
            base in proptest::collection::vec(0.0..1e6_f64, 3),
        ) {
            let mut ratios = Ratios::new(&[1.0, 2.0, 3.0], 1.0);
            for period in periods {
                let period: Vec<Seen> = period.iter().map(|&(mean, a, b)| seen(mean, a.max(b), a.min(b))).collect();
                ratios.update(&period);
                prop_assert!(ratios.corrections().all(|correction| correction.abs() <= MOST));
                let weights = ratios.weights(&base);
                prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!(weights.iter().all(|weight| *weight > 0.0));
            }
        }
    }
}
