//! What a path of a tunnel carries.

use std::time::Duration;

use super::mbps;
use crate::results::{PathResult, Sample};
use crate::scenario::Tunnel;

/// What a path has carried, by intervals.
#[derive(Clone, Debug)]
pub struct PathSeries {
    result: PathResult,
    last: Option<(Duration, PathCounts)>,
}

/// What a path has done so far, as its first site says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathCounts {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// The smoothed round-trip time in milliseconds, if one was measured.
    pub rtt_ms: Option<f64>,
}

impl PathSeries {
    /// Nothing yet, for each path of a tunnel.
    pub fn of_tunnel(tunnel: &Tunnel) -> impl Iterator<Item = Self> {
        tunnel.paths.iter().map(|path| {
            let result = PathResult {
                tunnel: tunnel.name.clone(),
                path: path.name.clone(),
                sent_series_mbps: Vec::new(),
                received_series_mbps: Vec::new(),
                rtt_series_ms: Vec::new(),
            };
            Self { result, last: None }
        })
    }

    /// The name of the tunnel.
    #[must_use]
    pub fn tunnel(&self) -> &str {
        &self.result.tunnel
    }

    /// The name of the path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.result.path
    }

    /// Takes down what it has done by `now`; the interval ended at `at`.
    pub fn add(&mut self, counts: PathCounts, at: Duration, now: Duration) {
        let at_s = at.as_secs_f64();
        if let Some((looked, last)) = self.last.replace((now, counts)) {
            let time = now.saturating_sub(looked);
            // A path that was made anew counts from zero.
            let rate = |now: u64, before: u64| Sample {
                at_s,
                value: mbps(now.checked_sub(before).unwrap_or(now), time),
            };
            self.result.sent_series_mbps.push(rate(counts.sent, last.sent));
            self.result.received_series_mbps.push(rate(counts.received, last.received));
        }
        let rtt = counts.rtt_ms.map(|value| Sample { at_s, value });
        self.result.rtt_series_ms.extend(rtt);
    }

    /// The result.
    #[must_use]
    pub fn into_result(self) -> PathResult {
        self.result
    }
}
