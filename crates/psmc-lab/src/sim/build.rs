//! From the scenario to the world. Hosts and links have the same numbers in both.

use std::time::Instant;

use psmc_sim::{HostId, LinkEnd, LinkId, LinkSetup, NatKind, World};

use crate::scenario::{self, Link, Scenario};

/// A world with the hosts and links of a scenario, and nothing that moves.
pub(super) fn world(scenario: &Scenario, now: Instant) -> World {
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
