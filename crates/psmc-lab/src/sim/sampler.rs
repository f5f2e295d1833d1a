//! What links and paths do over time.

use std::time::Duration;

use psmc_core::PathStatus;
use psmc_sim::World;
use psmc_sim::link::LinkCounters;

use super::tunnels::Tunnels;
use crate::measure::{Carried, PathCounts, PathSeries, ms};
use crate::results::{LinkResult, PathResult};
use crate::scenario::{LinkId, Scenario, TunnelId};

/// What all links and paths have carried, looked at at the end of each interval.
#[derive(Debug)]
pub(super) struct Sampler {
    interval: Duration,
    duration: Duration,
    next: Option<Duration>,
    links: Vec<[Carried; 2]>,
    paths: Vec<Vec<PathSeries>>,
}

impl Sampler {
    /// The run begins.
    pub(super) fn start(scenario: &Scenario, tunnels: &Tunnels, world: &World) -> Self {
        let carried = |counters: &LinkCounters| Carried::new(counters.clone(), scenario);
        let counters = |id| world.link_counters(psmc_sim::LinkId(id)).map(carried);
        let mut sampler = Self {
            interval: scenario.sample_interval,
            duration: scenario.duration,
            next: Some(Duration::ZERO),
            links: (0..scenario.links.len()).map(counters).collect(),
            paths: scenario.tunnels.iter().map(|tunnel| PathSeries::of_tunnel(tunnel).collect()).collect(),
        };
        sampler.look_at_paths(Duration::ZERO, tunnels, world);
        sampler.advance();
        sampler
    }

    /// When to look next.
    pub(super) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Looks, if it is time to.
    pub(super) fn look(&mut self, at: Duration, tunnels: &Tunnels, world: &World) {
        if self.next != Some(at) {
            return;
        }
        for (id, directions) in self.links.iter_mut().enumerate() {
            for (carried, counters) in directions.iter_mut().zip(world.link_counters(psmc_sim::LinkId(id))) {
                carried.add(at, at, counters.clone());
            }
        }
        self.look_at_paths(at, tunnels, world);
        self.advance();
    }

    /// The results, in the order of the scenario.
    pub(super) fn results(self, scenario: &Scenario) -> (Vec<LinkResult>, Vec<PathResult>) {
        let links = self.links.into_iter().enumerate();
        let links = links.flat_map(|(id, directions)| Carried::results(directions, scenario, LinkId(id)));
        let paths = self.paths.into_iter().flatten().map(PathSeries::into_result);
        (links.collect(), paths.collect())
    }

    fn look_at_paths(&mut self, at: Duration, tunnels: &Tunnels, world: &World) {
        for (id, paths) in self.paths.iter_mut().enumerate() {
            let status = world.site_status(tunnels.site(TunnelId(id), 0), 0);
            let statuses = status.map(|status| status.paths).unwrap_or_default();
            for series in paths {
                if let Some(status) = statuses.iter().find(|status| status.name == series.path()) {
                    series.add(counts(status), at, at);
                }
            }
        }
    }

    fn advance(&mut self) {
        self.next =
            self.next.filter(|at| *at < self.duration).map(|at| (at + self.interval).min(self.duration));
    }
}

fn counts(status: &PathStatus) -> PathCounts {
    PathCounts {
        sent: status.counters.tx_bytes,
        received: status.received.bytes,
        rtt_ms: status.rtt.map(|(smoothed, _)| ms(smoothed)),
    }
}
