//! A scenario in virtual time: the same links and the same engine, and a world of hosts around them.
//!
//! | module | what it has |
//! |---|---|
//! | `support` | what can't be simulated, said before anything is done |
//! | `build` | from the scenario to the world |
//! | `tunnels` | the sites of tunnels: what `psmcd` would be told |
//! | `traffic` | streams, and what is seen of them |
//! | `agenda` | what happens when |
//! | `sampler` | what links and paths do over time |

mod agenda;
mod build;
mod error;
mod sampler;
mod support;
mod traffic;
mod tunnels;

use std::time::{Duration, Instant};

use crate::checks;
use crate::results::{Mode, Results};
use crate::scenario::Scenario;
use agenda::Agenda;
use sampler::Sampler;
use traffic::Streams;
use tunnels::Tunnels;

pub use error::SimError;

/// How long after its stop a stream waits for what is on its way, as in a real run.
const LINGER: Duration = Duration::from_secs(2);

/// Simulates a scenario to its end. The same scenario always gives the same results.
///
/// # Errors
/// [`SimError`]; not if a check does not hold.
pub fn simulate(scenario: &Scenario) -> Result<Results, SimError> {
    let kinds = support::kinds(scenario)?;
    // The world doesn't care which time it is.
    let mut world = build::world(scenario, Instant::now());
    let tunnels = Tunnels::open(scenario, &mut world)?;
    let start = world.now();
    let mut streams = Streams::start(scenario, kinds, &mut world);
    let mut sampler = Sampler::start(scenario, &tunnels, &world);
    let mut agenda = Agenda::new(scenario);
    let mut warnings = support::warnings(scenario);
    while let Some(at) = agenda.next(&sampler) {
        world.run_until(start + at);
        streams.observe(&mut world);
        agenda.act(at, scenario, &tunnels, &mut world, &mut warnings);
        sampler.look(at, &tunnels, &world);
    }
    world.run_until(start + scenario.duration + LINGER);
    streams.observe(&mut world);
    let (links, paths) = sampler.results(scenario);
    let mut results = Results {
        scenario: scenario.name.clone(),
        mode: Mode::Simulated,
        seed: scenario.seed,
        duration_s: scenario.duration.as_secs_f64(),
        traffic: streams.results(scenario),
        links,
        paths,
        programs: Vec::new(),
        events: agenda.events(),
        checks: Vec::new(),
        stalls: None,
        warnings,
    };
    results.checks = checks::evaluate(scenario, &results);
    Ok(results)
}
