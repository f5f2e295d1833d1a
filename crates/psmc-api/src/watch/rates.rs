//! Rates, from the counts of two answers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::{PathStatus, PeerStatus};

/// How fast the counts of a peer grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeerRates {
    /// Of inner bytes.
    pub traffic: Traffic,
    /// Of outer bytes, by the path's number.
    pub paths: BTreeMap<u32, Traffic>,
    /// Packets per second that a class has sent, by its name.
    pub classes: BTreeMap<String, f64>,
    /// What is counted of repair, per second, by its name.
    pub repair: BTreeMap<String, f64>,
}

/// What is sent and received, in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Sent.
    pub up_mbps: f64,
    /// Received.
    pub down_mbps: f64,
}

impl PeerRates {
    /// Those between two answers, `elapsed` apart. What only one of them has is in none of the maps.
    pub fn between(before: &PeerStatus, now: &PeerStatus, elapsed: Duration) -> Self {
        let traffic = |before: (u64, u64), now: (u64, u64)| Traffic {
            up_mbps: mbps(before.0, now.0, elapsed),
            down_mbps: mbps(before.1, now.1, elapsed),
        };
        let path = |path: &PathStatus| {
            let before = before.paths.iter().find(|other| other.id == path.id && other.name == path.name)?;
            let counts = [before, path].map(|path| (path.tx_bytes, path.rx_bytes));
            Some((path.id, traffic(counts[0], counts[1])))
        };
        let class = |name: &str| before.classes.iter().find(|class| class.name == name);
        Self {
            traffic: traffic((before.tx_bytes, before.rx_bytes), (now.tx_bytes, now.rx_bytes)),
            paths: now.paths.iter().filter_map(path).collect(),
            classes: (now.classes.iter())
                .filter_map(|now| {
                    let before = class(&now.name)?;
                    Some((now.name.clone(), per_second(before.tx_packets, now.tx_packets, elapsed)))
                })
                .collect(),
            repair: (now.repair.iter())
                .filter_map(|(name, count)| {
                    Some((name.clone(), per_second(*before.repair.get(name)?, *count, elapsed)))
                })
                .collect(),
        }
    }
}

/// How fast a count grows. One that began anew does not count.
fn per_second(before: u64, now: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
}

fn mbps(before: u64, now: u64, elapsed: Duration) -> f64 {
    per_second(before, now, elapsed) * 8.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_begins_anew_is_no_rate() {
        assert_eq!(mbps(1_000_000, 2_250_000, Duration::from_secs(2)), 5.0);
        assert_eq!(per_second(100, 3, Duration::from_secs(1)), 0.0);
        assert_eq!(per_second(1, 3, Duration::ZERO), 0.0);
    }
}
