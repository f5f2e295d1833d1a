//! What links and paths do over time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use psmc_api::PathStatus;
use tokio::task::spawn_blocking;

use super::stage::Stage;
use super::{aside, tunnels};
use crate::measure::{Carried, PathCounts, PathSeries};
use crate::results::{LinkResult, PathResult};
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

/// What the paths of all tunnels have carried.
#[derive(Debug)]
pub(in crate::run) struct Paths(Vec<PathSeries>);

impl Paths {
    /// Asks the first site of each tunnel at the end of each interval of the run.
    pub(in crate::run) async fn sample(stage: &Arc<Stage>, clock: Clock) -> Self {
        let scenario = stage.scenario();
        let mut paths = Self(scenario.tunnels.iter().flat_map(PathSeries::of_tunnel).collect());
        if paths.0.is_empty() {
            return paths;
        }
        let sockets: Arc<[PathBuf]> = aside(stage, |stage| stage.sockets()).await.into();
        clock.sleep_until(Duration::ZERO).await;
        for at in std::iter::once(Duration::ZERO).chain(ticks(clock, scenario.duration)) {
            clock.sleep_until(at).await;
            let sockets = Arc::clone(&sockets);
            // A daemon that hangs is waited for, on another thread.
            let asked = spawn_blocking(move || sockets.iter().map(|socket| ask(socket)).collect::<Vec<_>>());
            let answers = asked.await.unwrap_or_default();
            paths.add(scenario, &answers, at, clock.now());
        }
        paths
    }

    /// The results, in the order of the scenario.
    pub(in crate::run) fn results(self) -> Vec<PathResult> {
        self.0.into_iter().map(PathSeries::into_result).collect()
    }

    fn add(&mut self, scenario: &Scenario, answers: &[Vec<PathStatus>], at: Duration, now: Duration) {
        for (tunnel, statuses) in scenario.tunnels.iter().zip(answers) {
            for series in self.0.iter_mut().filter(|series| series.tunnel() == tunnel.name) {
                if let Some(status) = statuses.iter().find(|status| status.name == series.path()) {
                    series.add(counts(status), at, now);
                }
            }
        }
    }
}

fn counts(status: &PathStatus) -> PathCounts {
    PathCounts { sent: status.tx_bytes, received: status.rx_bytes, rtt_ms: status.rtt_ms }
}

/// The paths of a daemon; none if it does not run.
fn ask(socket: &Path) -> Vec<PathStatus> {
    tunnels::status(socket).map(|status| tunnels::paths(&status).to_vec()).unwrap_or_default()
}
