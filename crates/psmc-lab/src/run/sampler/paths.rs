//! What the paths of tunnels carry.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use psmcd::api::PathStatus;
use tokio::task::spawn_blocking;

use super::ticks;
use crate::measure::mbps;
use crate::results::{PathResult, Sample};
use crate::run::aside;
use crate::run::stage::Stage;
use crate::run::tunnels;
use crate::scenario::{Scenario, Tunnel};
use crate::traffic::Clock;

/// What the paths of all tunnels have carried.
#[derive(Debug)]
pub(in crate::run) struct Paths(Vec<Series>);

/// A path.
#[derive(Debug)]
struct Series {
    result: PathResult,
    last: Option<Counts>,
}

/// What a path has carried so far.
#[derive(Clone, Copy, Debug)]
struct Counts {
    at: Duration,
    sent: u64,
    received: u64,
}

impl Paths {
    /// Asks the first site of each tunnel at the end of each interval of the run.
    pub(in crate::run) async fn sample(stage: &Arc<Stage>, clock: Clock) -> Self {
        let scenario = stage.scenario();
        let mut paths = Self(scenario.tunnels.iter().flat_map(Series::of_tunnel).collect());
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
        self.0.into_iter().map(|series| series.result).collect()
    }

    fn add(&mut self, scenario: &Scenario, answers: &[Vec<PathStatus>], at: Duration, now: Duration) {
        for (tunnel, statuses) in scenario.tunnels.iter().zip(answers) {
            for series in self.0.iter_mut().filter(|series| series.result.tunnel == tunnel.name) {
                if let Some(status) = statuses.iter().find(|status| status.name == series.result.path) {
                    series.add(status, at, now);
                }
            }
        }
    }
}

impl Series {
    fn of_tunnel(tunnel: &Tunnel) -> impl Iterator<Item = Self> {
        tunnel.paths.iter().map(|path| Self {
            result: PathResult {
                tunnel: tunnel.name.clone(),
                path: path.name.clone(),
                sent_series_mbps: Vec::new(),
                received_series_mbps: Vec::new(),
                rtt_series_ms: Vec::new(),
            },
            last: None,
        })
    }

    /// Takes down what it has done by `now`; the interval ended at `at`.
    fn add(&mut self, status: &PathStatus, at: Duration, now: Duration) {
        let counts = Counts { at: now, sent: status.tx_bytes, received: status.rx_bytes };
        let at_s = at.as_secs_f64();
        if let Some(last) = self.last.replace(counts) {
            let time = now.saturating_sub(last.at);
            // A path that was made anew counts from zero.
            let rate = |now: u64, before: u64| Sample {
                at_s,
                value: mbps(now.checked_sub(before).unwrap_or(now), time),
            };
            self.result.sent_series_mbps.push(rate(counts.sent, last.sent));
            self.result.received_series_mbps.push(rate(counts.received, last.received));
        }
        let rtt = status.rtt_ms.map(|value| Sample { at_s, value });
        self.result.rtt_series_ms.extend(rtt);
    }
}

/// The paths of a daemon; none if it does not run.
fn ask(socket: &Path) -> Vec<PathStatus> {
    tunnels::status(socket).map(|status| tunnels::paths(&status).to_vec()).unwrap_or_default()
}
