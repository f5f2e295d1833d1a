//! A scenario in virtual time: the same links and the same engine, and a world of hosts around them, with the same numbers in both.
//!
//! | module | what it has |
//! |---|---|
//! | `support` | what can't be simulated, said before anything is done |
//! | `tunnels` | the sites of tunnels: what `psmcd` would be told |
//! | `traffic` | streams, and what is seen of them |
//! | `agenda` | what happens when |
//! | `sampler` | what links and paths do over time |

mod agenda;
mod sampler;
mod support;
mod traffic;
mod tunnels;

use std::time::{Duration, Instant};

use psmc_core::PeerError;
use psmc_sim::{HostId, LinkEnd, LinkId, LinkSetup, NatKind, World};
use psmcd::config::ConfigError;

use crate::checks;
use crate::results::{Mode, Results};
use crate::scenario::{self, Link, Scenario};
use agenda::Agenda;
use sampler::Sampler;
use traffic::Streams;
use tunnels::Tunnels;

/// How long after its stop a stream waits for what is on its way, as in a real run.
const LINGER: Duration = Duration::from_secs(2);

/// Simulates a scenario to its end. The same scenario always gives the same results.
///
/// # Errors
/// [`SimError`]; not if a check does not hold.
pub fn simulate(scenario: &Scenario) -> Result<Results, SimError> {
    let kinds = support::kinds(scenario)?;
    // The world doesn't care which time it is.
    let mut world = world(scenario, Instant::now());
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
        sites: Vec::new(),
        programs: Vec::new(),
        events: agenda.events(),
        checks: Vec::new(),
        stalls: None,
        warnings,
    };
    results.checks = checks::evaluate(scenario, &results);
    Ok(results)
}

/// A world with the hosts and links of a scenario, and nothing that moves.
fn world(scenario: &Scenario, now: Instant) -> World {
    let mut world = World::new(scenario.seed, now);
    for _ in &scenario.hosts {
        world.add_host();
    }
    for link in &scenario.links {
        world.add_link(setup(link));
    }
    for scenario::HostId(id) in scenario.forwarders() {
        world.set_forwarding(HostId(id));
    }
    for (id, host) in scenario.hosts.iter().enumerate() {
        for route in &host.routes {
            let is_on_link = world.add_route(HostId(id), route.to, route.via);
            debug_assert!(is_on_link, "{}: {} via {}", host.name, route.to, route.via);
        }
        if let Some(nat) = &host.nat {
            world.set_nat(HostId(id), nat_kind(nat.kind), LinkId(nat.outside.0));
        }
    }
    for router in &scenario.routers {
        let ports: Vec<_> = router.links.iter().map(|link| LinkId(link.0)).collect();
        let is_set = world.set_router(HostId(router.host.0), router.config.clone(), &ports);
        debug_assert!(is_set, "{}: a port has a link to itself", scenario.hosts[router.host.0].name);
    }
    world
}

fn setup(link: &Link) -> LinkSetup {
    let ends = link.ends.clone().map(|end| LinkEnd { host: HostId(end.host.0), addresses: end.addresses });
    LinkSetup { ends, directions: link.directions.clone() }
}

fn nat_kind(kind: scenario::NatKind) -> NatKind {
    match kind {
        scenario::NatKind::EndpointIndependent => NatKind::EndpointIndependent,
        scenario::NatKind::Symmetric => NatKind::Symmetric,
    }
}

/// Why a scenario could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Something in it is beyond the simulator.
    #[error("{}", list(.0))]
    Unsupported(Vec<String>),
    /// `psmcd` would not take what the scenario says of a tunnel.
    #[error("psmcd rejects the settings of tunnel \"{tunnel}\"")]
    Settings {
        /// The tunnel.
        tunnel: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// An engine does not take what it is told.
    #[error("a site of tunnel \"{tunnel}\" cannot start")]
    Site {
        /// The tunnel.
        tunnel: String,
        /// What is wrong.
        source: PeerError,
    },
    /// A tunnel has not come up.
    #[error(
        "tunnel \"{tunnel}\" is not up after {} s of simulated time: {state}; do its links carry anything?",
        waited.as_secs()
    )]
    NotUp {
        /// The tunnel.
        tunnel: String,
        /// How long it was waited for.
        waited: Duration,
        /// How its paths are.
        state: String,
    },
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("\n  - {item}")).collect();
    format!("this scenario cannot be simulated; `psmc-lab run` takes it as it is{items}")
}
