//! What classes would see: from how many requests come and how long servers take, which ratios can be held, and from which load on.
//!
//! Places are those of all servers together, requests come at random (Poisson), and times of service are exponentially distributed. Waiting
//! without an order is Erlang's C formula. Orders that let no place idle only exchange waiting between classes: the sum over classes of
//! load times waiting stays the same (Kleinrock's conservation law, exact where all classes have the same mean), and no set of classes waits
//! less than if it came first (Coffman and Mitrani 1980). What ratios ask for can be had if it meets both.

/// What a class asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Requests per second.
    pub arrivals: f64,
    /// Seconds: what servers take for one on average, without waiting.
    pub service: f64,
    /// Its response times are to those of another class as these numbers are (the seed's δ).
    pub ratio: f64,
}

/// What a class would see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Seconds: the mean response time; `None` where more comes than can be served.
    pub response: Option<f64>,
    /// The share of requests that has to be refused: that of later classes first.
    pub refused: f64,
}

/// What all would see.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Of all places, those that are in use on average; 1 and more is more than can be served.
    pub load: f64,
    /// Whether the ratios can be held.
    pub is_feasible: bool,
    /// From which load on they can, if as much more comes of each class; `None` if at none below 1.
    pub feasible_from: Option<f64>,
    /// The classes, in their order. Where ratios cannot be held, with the order that comes nearest: who should wait least comes first.
    pub classes: Vec<Outlook>,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing is known of any class.
    #[error("no requests come, so there is nothing to plan")]
    Nothing,
    /// A rate below 0, a time or a ratio not above it, or one that is no number.
    #[error("the numbers of class {0} are none that can be")]
    Number(usize),
}

/// Steps of load in which it is looked for one that is large enough.
const STEPS: u32 = 1000;

/// What rounding may make of what is equal.
const SAME: f64 = 1e-9;

/// Plans for servers that take `places` requests at a time, at least one, and for these classes.
///
/// # Errors
/// [`PlanError`].
pub fn plan(places: u32, demands: &[Demand]) -> Result<Plan, PlanError> {
    let is_number = |demand: &Demand| {
        demand.arrivals.is_finite()
            && demand.arrivals >= 0.0
            && [demand.service, demand.ratio].iter().all(|number| number.is_finite() && *number > 0.0)
    };
    if let Some(wrong) = demands.iter().position(|demand| !is_number(demand)) {
        return Err(PlanError::Number(wrong));
    }
    let farm = Farm { places: places.max(1), demands };
    let load = farm.load();
    if load <= 0.0 {
        return Err(PlanError::Nothing);
    }
    if load >= 1.0 {
        return Ok(Plan {
            load,
            is_feasible: false,
            feasible_from: farm.feasible_from(),
            classes: farm.refused(),
        });
    }
    let waits = farm.waits(1.0);
    let is_feasible = farm.is_feasible(&waits, 1.0);
    let waits = if is_feasible { waits } else { farm.precedence(&waits) };
    let outlook =
        |(demand, wait): (&Demand, f64)| Outlook { response: Some(demand.service + wait), refused: 0.0 };
    let classes = demands.iter().zip(waits).map(outlook).collect();
    Ok(Plan { load, is_feasible, feasible_from: farm.feasible_from(), classes })
}

struct Farm<'a> {
    places: u32,
    demands: &'a [Demand],
}

impl Farm<'_> {
    /// Of a class, if `scale` times as much comes.
    fn load_of(&self, demand: &Demand, scale: f64) -> f64 {
        scale * demand.arrivals * demand.service / f64::from(self.places)
    }

    fn load(&self) -> f64 {
        self.demands.iter().map(|demand| self.load_of(demand, 1.0)).sum()
    }

    /// Seconds until a place is free for one that comes first, on average over all that come.
    fn first_wait(&self, scale: f64) -> f64 {
        let arrivals: f64 = self.demands.iter().map(|demand| demand.arrivals).sum();
        let load = scale * self.load();
        let mean = self.load() * f64::from(self.places) / arrivals;
        all_busy(self.places, load * f64::from(self.places)) * mean / f64::from(self.places)
    }

    /// What each would have to wait, so that response times have their ratios, and all together wait as long as without an order.
    fn waits(&self, scale: f64) -> Vec<f64> {
        let load = scale * self.load();
        let loads = || self.demands.iter().map(|demand| (demand, self.load_of(demand, scale)));
        let all = load * self.first_wait(scale) / (1.0 - load);
        let service: f64 = loads().map(|(demand, load)| load * demand.service).sum();
        let weight: f64 = loads().map(|(demand, load)| load * demand.ratio).sum();
        let response = (all + service) / weight;
        self.demands.iter().map(|demand| demand.ratio * response - demand.service).collect()
    }

    /// Classes, by who should wait least.
    fn order(waits: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..waits.len()).collect();
        order.sort_by(|one, other| waits[*one].total_cmp(&waits[*other]));
        order
    }

    fn is_feasible(&self, waits: &[f64], scale: f64) -> bool {
        let first = self.first_wait(scale);
        let (mut load, mut wait) = (0.0, 0.0);
        Self::order(waits).into_iter().all(|class| {
            let own = self.load_of(&self.demands[class], scale);
            load += own;
            wait += own * waits[class];
            wait >= load * first / (1.0 - load) - SAME
        })
    }

    /// What each waits if who should wait least comes first (Cobham 1954).
    fn precedence(&self, waits: &[f64]) -> Vec<f64> {
        let first = self.first_wait(1.0);
        let (mut before, mut all) = (0.0, vec![0.0; waits.len()]);
        for class in Self::order(waits) {
            let with = before + self.load_of(&self.demands[class], 1.0);
            all[class] = first / ((1.0 - before) * (1.0 - with));
            before = with;
        }
        all
    }

    /// The least load from which on ratios can be held at each that is larger.
    fn feasible_from(&self) -> Option<f64> {
        let loads = (1..STEPS).rev().map(|step| f64::from(step) / f64::from(STEPS));
        let is_feasible = |load: &f64| {
            let scale = load / self.load();
            self.is_feasible(&self.waits(scale), scale)
        };
        loads.take_while(is_feasible).last()
    }

    /// Who is refused if all places are for the classes in their order.
    fn refused(&self) -> Vec<Outlook> {
        let mut left = 1.0_f64;
        let refused = self.demands.iter().map(|demand| {
            let load = self.load_of(demand, 1.0);
            let served = load.min(left);
            left -= served;
            Outlook { response: None, refused: if load > 0.0 { 1.0 - served / load } else { 0.0 } }
        });
        refused.collect()
    }
}

/// How likely all places are in use, of a load of so many of them on average: Erlang's C formula, from his B formula by its recursion.
fn all_busy(places: u32, load: f64) -> f64 {
    let blocked =
        (1..=places).fold(1.0, |blocked, place| load * blocked / (f64::from(place) + load * blocked));
    let share = load / f64::from(places);
    blocked / (1.0 - share * (1.0 - blocked))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(arrivals: f64, ratio: f64) -> Demand {
        Demand { arrivals, service: 0.01, ratio }
    }

    #[test]
    fn one_place_is_as_queueing_theory_has_it() {
        assert!((all_busy(1, 0.8) - 0.8).abs() < 1e-12);
        // Table of Erlang C: 2 places with a load of 1.
        assert!((all_busy(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
        let alone = plan(1, &[class(80.0, 1.0)]).unwrap();
        assert!((alone.load - 0.8).abs() < 1e-12 && alone.is_feasible);
        assert!((alone.classes[0].response.unwrap() - 0.05).abs() < 1e-9, "{alone:?}");
    }

    /// By hand: precedence has 1.78 at 60 % load, and 1.98 and 2.04 at 64 and 65 %.
    #[test]
    fn ratios_can_be_held_from_the_load_on_from_which_precedence_reaches_them() {
        let of = |load: f64| plan(1, &[class(75.0 * load, 1.0), class(25.0 * load, 2.0)]).unwrap();
        let light = of(0.6);
        assert!(!light.is_feasible);
        let responses = light.classes.iter().map(|class| class.response.unwrap()).collect::<Vec<_>>();
        assert!((1.77..1.79).contains(&(responses[1] / responses[0])), "{responses:?}");
        assert!(light.feasible_from.is_some_and(|load| (0.64..0.65).contains(&load)), "{light:?}");
        let full = of(0.9);
        let responses = full.classes.iter().map(|class| class.response.unwrap()).collect::<Vec<_>>();
        assert!(full.is_feasible && (responses[1] / responses[0] - 2.0).abs() < 1e-9, "{responses:?}");
    }

    #[test]
    fn what_is_too_much_is_refused_from_the_last_class_on() {
        let plan = plan(2, &[class(100.0, 1.0), class(300.0, 3.0)]).unwrap();
        assert!((plan.load - 2.0).abs() < 1e-12 && !plan.is_feasible);
        let refused = plan.classes.iter().map(|class| class.refused).collect::<Vec<_>>();
        assert!(refused[0].abs() < 1e-12 && (refused[1] - 2.0 / 3.0).abs() < 1e-12, "{refused:?}");
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert_eq!(plan(1, &[]), Err(PlanError::Nothing));
        assert_eq!(plan(1, &[class(0.0, 1.0)]), Err(PlanError::Nothing));
        assert_eq!(plan(1, &[class(1.0, 1.0), class(f64::NAN, 1.0)]), Err(PlanError::Number(1)));
        assert_eq!(plan(1, &[class(1.0, 0.0)]), Err(PlanError::Number(0)));
    }

    proptest! {
        /// Whatever is held, waiting is only exchanged.
        #[test]
        fn no_waiting_is_lost(
            places in 1..100_u32,
            load in 0.01..0.99_f64,
            classes in proptest::collection::vec((0.1..1.0_f64, 0.1..10.0_f64), 1..5),
        ) {
            let all: f64 = classes.iter().map(|(share, _)| share).sum();
            let rate = load * f64::from(places) / 0.01;
            let demands: Vec<_> = classes.iter().map(|(share, ratio)| class(rate * share / all, *ratio)).collect();
            let one = plan(places, &[class(rate, 1.0)]).unwrap().classes[0].response.unwrap();
            let plan = plan(places, &demands).unwrap();
            let responses = plan.classes.iter().zip(&demands);
            let mean: f64 = responses.map(|(seen, class)| seen.response.unwrap() * class.arrivals).sum::<f64>() / rate;
            prop_assert!((mean / one - 1.0).abs() < 1e-6, "{mean} and {one}");
        }
    }
}
