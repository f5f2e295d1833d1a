//! What psmcd's paths carry and lose, between one look and the next.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_api::{PathState, PathStatus, Status};

use crate::detect::{Sample, Signal};

/// Fewer datagrams than this say nothing about loss.
const ENOUGH: u64 = 50;

/// Remembers the counters of paths.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// By peer and number of the path.
    last: BTreeMap<(String, u32), Counters>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    lost: u64,
    received: u64,
    received_bytes: u64,
}

/// Loss of direct paths, and what has arrived through relays, since the look before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moved {
    pub(super) direct_loss: Option<f64>,
    pub(super) through_relays: Sample,
}

impl Traffic {
    pub(super) fn look(&mut self, status: &Status, elapsed: Duration) -> Moved {
        let (mut direct, mut relayed) = (Counters::default(), Counters::default());
        let mut present = BTreeMap::new();
        for peer in &status.peers {
            for path in &peer.paths {
                let key = (peer.name.clone(), path.id);
                let counters = Counters::of(path);
                // A path that is new since the last look may have gone by the same number before.
                let last = self.last.get(&key).copied().filter(|last| last.sent <= counters.sent);
                let delta = counters.since(last.unwrap_or(counters), path.state);
                if path.relays.is_empty() {
                    direct.add(delta)
                } else {
                    relayed.add(delta)
                }
                present.insert(key, counters);
            }
        }
        self.last = present;
        Moved { direct_loss: direct.loss(), through_relays: relayed.per_second(elapsed) }
    }
}

impl Counters {
    fn of(path: &PathStatus) -> Self {
        let PathStatus { tx_packets, lost_packets, rx_packets, rx_bytes, .. } = *path;
        Self { sent: tx_packets, lost: lost_packets, received: rx_packets, received_bytes: rx_bytes }
    }

    /// What has come since. What was sent on a path that does not answer has not arrived.
    fn since(self, last: Self, state: PathState) -> Self {
        let sent = self.sent - last.sent;
        let lost = match state {
            PathState::Suspect | PathState::Dead => sent,
            PathState::Probing | PathState::Active | PathState::Standby | PathState::Closing => {
                self.lost.saturating_sub(last.lost)
            }
        };
        Self {
            sent,
            lost,
            received: self.received.saturating_sub(last.received),
            received_bytes: self.received_bytes.saturating_sub(last.received_bytes),
        }
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 datagrams between two looks")]
    fn loss(self) -> Option<f64> {
        (self.sent >= ENOUGH).then(|| (self.lost as f64 / self.sent as f64).min(1.0))
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody receives 2^52 bytes between two looks")]
    fn per_second(self, elapsed: Duration) -> Sample {
        let seconds = elapsed.as_secs_f64().max(0.001);
        let mut sample = Sample::default();
        sample.set(Signal::Packets, self.received as f64 / seconds);
        sample.set(Signal::Bits, self.received_bytes as f64 * 8.0 / seconds);
        if let Some(loss) = self.loss() {
            sample.set(Signal::Loss, loss);
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A status as psmcd gives it, with one path for each tuple: relays, state, sent, lost, received.
    fn status(paths: &[(&[&str], &str, u64, u64, u64)]) -> Status {
        let paths: Vec<_> = paths
            .iter()
            .zip(1..)
            .map(|((relays, state, sent, lost, received), id)| {
                json!({
                    "name": "p", "id": id, "state": state, "relays": relays, "weight": 1, "loss_pct": 0.0,
                    "tx_bytes": 0, "rx_bytes": received * 1000, "tx_packets": sent, "rx_packets": received,
                    "lost_packets": lost,
                })
            })
            .collect();
        let peer = json!({
            "name": "ann", "public_key": "k", "state": "connected", "control": { "connected": true, "since_s": 1.0 },
            "allowed_ips": [], "tx_bytes": 0, "rx_bytes": 0, "tx_packets": 0, "rx_packets": 0, "drops": {},
            "paths": paths,
        });
        let site = json!({
            "name": "hq", "public_key": "k", "interface": "psmc0", "addresses": [], "listen": "nothing",
            "uptime_s": 1.0, "version": "0.1.0",
        });
        serde_json::from_value(json!({ "site": site, "peers": [peer], "counters": {} })).unwrap()
    }

    #[test]
    fn direct_paths_lose_and_relayed_ones_carry() {
        let mut traffic = Traffic::default();
        let second = Duration::from_secs(1);
        let first = traffic.look(&status(&[(&[], "active", 9, 9, 9), (&["r"], "active", 9, 0, 9)]), second);
        assert_eq!((first.direct_loss, first.through_relays.get(Signal::Packets)), (None, Some(0.0)));
        let next =
            traffic.look(&status(&[(&[], "active", 109, 29, 9), (&["r"], "active", 10, 0, 59)]), second);
        assert_eq!(next.direct_loss, Some(0.2));
        assert_eq!(next.through_relays.get(Signal::Packets), Some(50.0));
        assert_eq!(next.through_relays.get(Signal::Bits), Some(400_000.0));
        assert_eq!(next.through_relays.get(Signal::Loss), None);
    }

    #[test]
    fn what_is_sent_into_silence_is_lost_and_new_paths_begin_at_nothing() {
        let mut traffic = Traffic::default();
        let second = Duration::from_secs(1);
        traffic.look(&status(&[(&[], "active", 1000, 0, 0)]), second);
        assert_eq!(traffic.look(&status(&[(&[], "dead", 1100, 0, 0)]), second).direct_loss, Some(1.0));
        assert_eq!(traffic.look(&status(&[(&[], "active", 100, 90, 0)]), second).direct_loss, None);
    }
}
