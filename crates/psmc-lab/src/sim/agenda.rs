//! What happens when.

use std::time::Duration;

use psmc_core::PeerError;
use psmc_sim::link::LinkConfig;
use psmc_sim::{HostId, LinkId, TrafficKind, TrafficSetup, World};

use super::sampler::Sampler;
use super::tunnels::Tunnels;
use crate::results::EventResult;
use crate::scenario::{Action, Event, Scenario};

/// The events of a scenario, of which some have happened.
#[derive(Debug)]
pub(super) struct Agenda {
    /// The last one is the next.
    pending: Vec<Event>,
    happened: Vec<EventResult>,
}

impl Agenda {
    /// Nothing has happened yet.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut pending = scenario.events.clone();
        pending.reverse();
        Self { pending, happened: Vec::new() }
    }

    /// When something happens, or is to be looked at.
    pub(super) fn next(&self, sampler: &Sampler) -> Option<Duration> {
        let event = self.pending.last().map(|event| event.at);
        [event, sampler.next()].into_iter().flatten().min()
    }

    /// Carries out what happens at this time.
    pub(super) fn act(
        &mut self,
        at: Duration,
        scenario: &Scenario,
        tunnels: &Tunnels,
        world: &mut World,
        warnings: &mut Vec<String>,
    ) {
        while let Some(event) = self.pending.pop_if(|event| event.at <= at) {
            let what = scenario.action_in_words(&event.action);
            if let Err(error) = act(&event.action, scenario, tunnels, world) {
                warnings.push(format!("{what}: {error}"));
            }
            let at_s = event.at.as_secs_f64();
            self.happened.push(EventResult { at_s, happened_s: at_s, what });
        }
    }

    /// What has happened.
    pub(super) fn events(self) -> Vec<EventResult> {
        self.happened
    }
}

fn act(action: &Action, scenario: &Scenario, tunnels: &Tunnels, world: &mut World) -> Result<(), PeerError> {
    match action {
        Action::Cut(link) => world.set_link_up(LinkId(link.0), false),
        Action::BlackHole(link, directions) => {
            let mut configs = world.link_config(LinkId(link.0)).map(Clone::clone);
            let plan = &scenario.links[link.0].directions;
            for (index, config) in configs.iter_mut().enumerate().filter(|(index, _)| directions[*index]) {
                *config = LinkConfig { black_hole: true, ..plan[index].clone() };
            }
            world.change_link(LinkId(link.0), configs);
        }
        Action::Restore(link) => {
            world.change_link(LinkId(link.0), scenario.links[link.0].directions.clone());
            world.set_link_up(LinkId(link.0), true);
        }
        Action::Change(link, directions) => world.change_link(LinkId(link.0), *directions.clone()),
        // Scenarios with programs are not simulated.
        Action::Kill(_) | Action::Restart(_) => {}
        Action::KillSite(tunnel, end) => world.kill_site(tunnels.site(*tunnel, *end)),
        Action::RestartSite(tunnel, end) => world.start_site(tunnels.site(*tunnel, *end))?,
        Action::Roam(host, link, addresses) => {
            world.readdress(HostId(host.0), LinkId(link.0), addresses.clone());
        }
        Action::Flood { from, to, rate, payload, duration } => {
            let kind = TrafficKind::Udp { rate: *rate, payload: *payload };
            let (start, stop) = (world.now(), world.now() + *duration);
            // Nobody takes it where it arrives.
            let (from, address) = (HostId(from.0), *to);
            world.add_traffic(TrafficSetup { kind, from, to: from, address, start, stop });
        }
    }
    Ok(())
}
