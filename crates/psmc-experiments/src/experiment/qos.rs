//! The document on monitoring and controlling QoS network domains, figures 5 to 7: who sees an attack, and when; and what finds the
//! segment that is bad. All in virtual time.
//!
//! | module | what it has |
//! |---|---|
//! | `topology`, `domain` | the seed's network, and what is sent in it |
//! | `real` | what really happened |
//! | `literature` | the seed's monitor |
//! | `ours` | counts, delays above the minimum, and stripes with intervals |
//! | `segments` | one bad segment of several over relays |
//! | `stripes` | how good the estimator of stripes can be, and is |

mod domain;
mod literature;
mod ours;
mod real;
mod segments;
mod stripes;
mod topology;

use psmc_tomography::blame::Verdict;

use self::domain::{ATTACK, Attack, Course, END, Kind, play};
use self::real::{Met, delays_ms, mean, quantile};
use self::topology::Way;
use super::{Experiment, Figure, Row, Setup};

pub(super) const FAMILIES: &[&[Experiment]] = &[FIGURES, segments::EXPERIMENTS, stripes::EXPERIMENTS];

const FIGURES: &[Experiment] = &[
    Experiment {
        name: "qos-fig-5",
        what: "one-way delay through a domain without an attack, and with one",
        seed: "QoS figure 5, whose points are not printed: without an attack delays are close to those of the links; ns-2",
        how: DOMAIN,
        criterion: "without an attack medians within a tenth of the links' delay, and the 90th percentile of E1–E6 within 20 ms of it; \
                    our median above the minimum, by clocks hours apart, within 1 ms of the real one",
        runs: 5,
        measure: figure_5,
    },
    Experiment {
        name: "qos-fig-6",
        what: "delay during an attack, and when it is flagged",
        seed: "QoS figure 6 and §7.1: the average delay from E1 to E6 increases from 100 to about 180 ms from 15 to 45 s; ns-2",
        how: DOMAIN,
        criterion: "delays within a tenth of the seed's; ours names C4–E6 within 1 s, no other segment, and nothing without an attack",
        runs: 5,
        measure: figure_6,
    },
    Experiment {
        name: "qos-fig-7",
        what: "loss during an attack, real and as monitors have it",
        seed: "QoS figure 7 and §7.1: 15 to 25 % in attack 1, more than 35 % in attack 2; inferred loss takes about 10 s to converge, \
               with 20 stripes a second; ns-2",
        how: DOMAIN,
        criterion: "the seed's loss; what C4 and E6 count as lost is what the simulator has dropped; our intervals hold the real loss in 90 % of all cases \
                    at least",
        runs: 5,
        measure: figure_7,
    },
];

const DOMAIN: &str = "\
simulated; the seed's seven edge and five core routers. Of links it prints only that E1–E6 and E1–E7 take 100 ms, and E5–E4 160 ms, \
and that those between core routers are faster. Chosen: 50 Mb/s there, 20 Mb/s elsewhere, but 2.5 Mb/s from C4 to E6, where the \
queue at which the seed's RED for three colours (§6) drops all reds takes 80 ms, and 60 packets fit; Poisson traffic in packets of \
1024 bytes, from each of E1, E2 and E3 to E6 22 % of the bottleneck, from E1 to E7 and E5 to E4 25 %; from 15 to 45 s in attack 1 \
30 % more from each of E2 and E3, in attack 2 33 % more from each of E2, E3 and E4; ingress routers mark green up to 15 % and \
yellow up to 20 % (TSW3CM). The seed's monitor: a probe follows one packet in ten, EWMA of 0.2, a guarantee of 140 ms, and while it \
is exceeded 20 stripes a second from E1 to E6 and E7. Ours: E1, C4 and E6 count and time the data from E1, by clocks hours apart; no \
more than 5 % of 20 packets may be 40 ms later than the fastest, and 0.5 % be lost";

/// Each attack, with what it is called.
const ATTACKS: [(Attack, &str); 3] =
    [(Attack::None, "no attack"), (Attack::First, "attack 1"), (Attack::Second, "attack 2")];

/// Rows of the attacks that are asked for.
fn of_attacks(setup: &Setup<'_>, rows: fn(Attack, &str, &Course) -> Vec<Row>) -> Vec<Row> {
    let seed = u64::from(setup.run.0);
    ATTACKS.into_iter().flat_map(|(attack, name)| rows(attack, name, &play(attack, seed))).collect()
}

fn figure_5(setup: &mut Setup<'_>) -> Vec<Row> {
    of_attacks(setup, |attack, name, course| match attack {
        Attack::None => calm_delays(name, course),
        Attack::First | Attack::Second => {
            let delays = delays_ms(course, Way::E1ToE6, Kind::Probe, under_attack());
            let of = |(share, label)| {
                Figure::new(format!("{name}, E1–E6, {label}"), "ms", quantile(&delays, share))
            };
            QUANTILES.map(of).map(Figure::shown).into()
        }
    })
}

fn calm_delays(name: &str, course: &Course) -> Vec<Row> {
    let whole = 0.0..END as f64;
    let mut rows = Vec::new();
    for (way, label) in [(Way::E1ToE6, "E1–E6"), (Way::E1ToE7, "E1–E7"), (Way::E5ToE4, "E5–E4")] {
        let link = way.delay_ms() as f64;
        let median = quantile(&delays_ms(course, way, Kind::Probe, whole.clone()), 0.5);
        rows.push(Figure::new(format!("{name}, {label}, median"), "ms", median).seed(link).near(link, 0.1));
    }
    let delays = delays_ms(course, Way::E1ToE6, Kind::Probe, whole.clone());
    let figure = |share: f64, label: &str| {
        Figure::new(format!("{name}, E1–E6, {label}"), "ms", quantile(&delays, share)).seed(100.0)
    };
    let [ten, _, ninety, most] = QUANTILES;
    rows.push(figure(ten.0, ten.1).shown());
    rows.push(figure(ninety.0, ninety.1).at_most(Way::E1ToE6.delay_ms() as f64 + 20.0));
    rows.push(figure(most.0, most.1).shown());
    let data = delays_ms(course, Way::E1ToE6, Kind::Data, whole);
    let real = quantile(&data, 0.5).zip(data.first()).map(|(median, least)| median - least);
    let label = format!("{name}, E1–E6, our median above the minimum");
    rows.push(Figure::new(label, "ms", ours::median_above_minimum(course)).beside(real, 1.0));
    rows
}

fn figure_6(setup: &mut Setup<'_>) -> Vec<Row> {
    of_attacks(setup, |attack, name, course| {
        let delay = |label, when| {
            let mean = mean(&delays_ms(course, Way::E1ToE6, Kind::Probe, when));
            Figure::new(format!("{name}, delay {label}"), "ms", mean)
        };
        let is_attack = attack != Attack::None;
        let attacked = if is_attack { 180.0 } else { 100.0 };
        let mut rows = vec![
            delay("before 15 s", 0.0..ATTACK.0 as f64).seed(100.0).near(100.0, 0.1),
            delay("from 20 to 45 s", under_attack()).seed(attacked).near(attacked, 0.1),
            delay("from 50 s on", 50.0..END as f64).seed(100.0).near(100.0, 0.1),
        ];
        let named = ours::named_by_delay(course);
        if is_attack {
            let flagged = literature::flagged_after(course);
            rows.push(
                Figure::new(format!("{name}, the seed's average flags it after"), "s", flagged).shown(),
            );
            rows.push(Figure::new(format!("{name}, ours names C4–E6 after"), "s", named.after).at_most(1.0));
        }
        let count =
            |label, count: u32| Figure::new(format!("{name}, {label}"), "times", Some(f64::from(count)));
        rows.push(count("ours names it without an attack", named.false_alarms).at_most(0.0));
        rows.push(count("ours names another segment", named.others).at_most(0.0));
        rows
    })
}

fn figure_7(setup: &mut Setup<'_>) -> Vec<Row> {
    of_attacks(setup, |attack, name, course| {
        let percent = |label: &str, loss: Option<f64>| {
            Figure::new(format!("{name}, {label}"), "%", loss.map(|loss| loss * 100.0))
        };
        let real = Met::of(course, under_attack()).loss();
        let of_all = percent("real loss from 20 to 45 s", Some(real));
        let label = format!("{name}, lost by counts of C4 and E6, less by the simulator's");
        let exact = Figure::new(label, "packets", ours::beyond_the_simulators(course)).beside(0.0, 0.0);
        match attack {
            Attack::None => vec![of_all.at_most(1.0), exact],
            Attack::First => {
                [vec![of_all.seed(20.0).beside(20.0, 5.0), exact], monitors(name, course, real)].concat()
            }
            Attack::Second => {
                [vec![of_all.seed(35.0).at_least(35.0), exact], monitors(name, course, real)].concat()
            }
        }
    })
}

/// What both monitors make of an attack.
fn monitors(name: &str, course: &Course, real: f64) -> Vec<Row> {
    let figure = |label: &str, unit, value| Figure::new(format!("{name}, {label}"), unit, value);
    let sent = literature::stripes(course);
    let inferred = literature::Inferred::of(&sent, ATTACK.0 as f64..ATTACK.1 as f64);
    let of = |loss: fn(&literature::Inferred) -> Option<f64>| {
        inferred.as_ref().and_then(loss).map(|loss| (loss - real) * 100.0)
    };
    let passive = ours::passive_coverage(course);
    let stripes = ours::stripe_coverage(course, &sent);
    vec![
        figure("the seed's equation 2, less the real loss", "points", of(literature::Inferred::class_loss))
            .shown(),
        figure(
            "that divided by the sum of its weights, less it",
            "points",
            of(literature::Inferred::weighted),
        )
        .shown(),
        figure("weighted by how much there is of each colour, near it after", "s", {
            literature::converged_after(course, &sent, real)
        })
        .seed(10.0)
        .shown(),
        figure(
            "real loss of the data from E1",
            "%",
            Some(ours::loss_of_data(course, under_attack()) * 100.0),
        )
        .shown(),
        figure(
            "counts of a second of them suspect C4–E6 after",
            "s",
            ours::judged_after(course, Verdict::is_blame),
        )
        .shown(),
        figure("counts of a second of them prove it after", "s", ours::judged_after(course, is_proof))
            .shown(),
        figure(
            "intervals by counts of a second hold the real loss",
            "%",
            passive.map(|(covered, _)| covered),
        )
        .at_least(90.0),
        figure("width of intervals by counts", "points", passive.map(|(_, width)| width)).shown(),
        figure(
            "intervals by stripes of ten seconds hold the real loss",
            "%",
            stripes.map(|(covered, _)| covered),
        )
        .at_least(90.0),
        figure("width of intervals by stripes", "points", stripes.map(|(_, width)| width)).shown(),
    ]
}

fn is_proof(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Proven { .. })
}

/// Five seconds after it began, by when the queue has settled, until its end.
fn under_attack() -> std::ops::Range<f64> {
    ATTACK.0 as f64 + 5.0..ATTACK.1 as f64
}

const QUANTILES: [(f64, &str); 4] =
    [(0.1, "10th percentile"), (0.5, "median"), (0.9, "90th percentile"), (0.99, "99th percentile")];
