//! What links, paths and limits do over time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use psmc_api::{PathStatus, PeerStatus};
use tokio::task::spawn_blocking;

use super::stage::Stage;
use super::{aside, tunnels};
use crate::measure::{Carried, PathCounts, PathSeries};
use crate::results::{LinkResult, PathResult, Sample, SiteResult};
use crate::scenario::{LinkId, Scenario};
use crate::traffic::Clock;

/// The ends of all intervals of a run.
fn ticks(clock: Clock, duration: Duration) -> impl Iterator<Item = Duration> {
    let next = move |at: &Duration| (*at < duration).then(|| (*at + clock.interval()).min(duration));
    std::iter::successors(Some(Duration::ZERO), next).skip(1)
}

/// What all links have carried, direction by direction.
#[derive(Debug)]
pub(in crate::run) struct Links(Vec<[Carried; 2]>);

impl Links {
    /// Looks at the end of each interval of the run.
    pub(in crate::run) async fn sample(stage: &Stage, clock: Clock) -> Self {
        let scenario = stage.scenario();
        let counters = |id: usize| stage.counters(LinkId(id));
        clock.sleep_until(Duration::ZERO).await;
        let mut links: Vec<_> = (0..scenario.links.len())
            .map(|id| counters(id).map(|counters| Carried::new(counters, scenario)))
            .collect();
        for at in ticks(clock, scenario.duration) {
            clock.sleep_until(at).await;
            for (id, directions) in links.iter_mut().enumerate() {
                let now = clock.now();
                directions.iter_mut().zip(counters(id)).for_each(|(it, counters)| it.add(at, now, counters));
            }
        }
        Self(links)
    }

    /// The results, in the order of the scenario.
    pub(in crate::run) fn results(self, scenario: &Scenario) -> Vec<LinkResult> {
        let links = self.0.into_iter().enumerate();
        links.flat_map(|(id, directions)| Carried::results(directions, scenario, LinkId(id))).collect()
    }
}

/// What the first sites of all tunnels tell of their only peers.
#[derive(Debug)]
pub(in crate::run) struct Tellings {
    /// What the paths have carried.
    paths: Vec<PathSeries>,
    /// To what flows are held down, tunnel by tunnel.
    limits: Vec<Vec<Sample>>,
}

impl Tellings {
    /// Asks the first site of each tunnel at the end of each interval of the run.
    pub(in crate::run) async fn sample(stage: &Arc<Stage>, clock: Clock) -> Self {
        let scenario = stage.scenario();
        let mut tellings = Self {
            paths: scenario.tunnels.iter().flat_map(PathSeries::of_tunnel).collect(),
            limits: vec![Vec::new(); scenario.tunnels.len()],
        };
        if tellings.paths.is_empty() {
            return tellings;
        }
        let sockets: Arc<[PathBuf]> = aside(stage, |stage| stage.sockets()).await.into();
        clock.sleep_until(Duration::ZERO).await;
        for at in std::iter::once(Duration::ZERO).chain(ticks(clock, scenario.duration)) {
            clock.sleep_until(at).await;
            let sockets = Arc::clone(&sockets);
            // A daemon that hangs is waited for, on another thread.
            let asked = spawn_blocking(move || sockets.iter().map(|socket| ask(socket)).collect::<Vec<_>>());
            let answers = asked.await.unwrap_or_default();
            tellings.add(scenario, &answers, at, clock.now());
        }
        tellings
    }

    /// The results of all paths, in the order of the scenario; and the limits are added to those of the sites.
    pub(in crate::run) fn results(self, scenario: &Scenario, sites: &mut [SiteResult]) -> Vec<PathResult> {
        for (tunnel, limits) in scenario.tunnels.iter().zip(self.limits) {
            let first = &scenario.hosts[tunnel.ends[0].host.0].name;
            let site = sites.iter_mut().find(|site| site.tunnel == tunnel.name && site.host == *first);
            site.into_iter().for_each(|site| site.limit_series_mbps.clone_from(&limits));
        }
        self.paths.into_iter().map(PathSeries::into_result).collect()
    }

    fn add(&mut self, scenario: &Scenario, answers: &[Option<PeerStatus>], at: Duration, now: Duration) {
        for ((tunnel, peer), limits) in scenario.tunnels.iter().zip(answers).zip(&mut self.limits) {
            let Some(peer) = peer else { continue };
            for series in self.paths.iter_mut().filter(|series| series.tunnel() == tunnel.name) {
                if let Some(status) = peer.paths.iter().find(|status| status.name == series.path()) {
                    series.add(counts(status), at, now);
                }
            }
            let limit = peer.unresponsive.get("held_bits_per_second").filter(|limit| **limit > 0);
            limits.extend(limit.map(|bits| Sample { at_s: at.as_secs_f64(), value: *bits as f64 / 1e6 }));
        }
    }
}

fn counts(status: &PathStatus) -> PathCounts {
    PathCounts { sent: status.tx_bytes, received: status.rx_bytes, rtt_ms: status.rtt_ms }
}

/// The only peer of a daemon; none if it does not run.
fn ask(socket: &Path) -> Option<PeerStatus> {
    tunnels::status(socket).ok()?.peers.into_iter().next()
}
