//! What psmcd's paths carry and lose, between one look and the next, and relays that answer, and through which nothing
//! comes any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use psmc_api::{PathState, PathStatus, PeerStatus, Status};

use crate::detect::{Sample, Signal};

/// Fewer datagrams than this say nothing about loss.
const ENOUGH: u64 = 50;

/// Remembers the counters of paths.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// By peer and number of the path.
    last: BTreeMap<(String, u32), PathCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PathCounts {
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
        let (mut direct, mut relayed) = (PathCounts::default(), PathCounts::default());
        let mut present = BTreeMap::new();
        for peer in &status.peers {
            for path in &peer.paths {
                let key = (peer.name.clone(), path.id);
                let counters = PathCounts::of(path);
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

impl PathCounts {
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

/// So many peers have to be silent through a relay while other ways to them work. One alone may be the attacker's, who can
/// keep silent wherever he likes.
const PEERS: usize = 2;

/// Remembers which relays were silent at the look before: at a single one that may be a moment in which a machine had no time.
#[derive(Debug, Default)]
pub(super) struct Silence {
    before: BTreeSet<String>,
}

impl Silence {
    /// Takes a look, and returns the public keys of the relays that were silent at the one before, too.
    pub(super) fn look(&mut self, status: &Status) -> BTreeSet<String> {
        let now = silent_relays(status);
        let lasting = now.intersection(&self.before).cloned().collect();
        self.before = now;
        lasting
    }
}

/// The public keys of relays through which nothing comes from peers that come another way.
fn silent_relays(status: &Status) -> BTreeSet<String> {
    let (mut silent, mut working) = (BTreeMap::<&str, usize>::new(), BTreeSet::new());
    for peer in &status.peers {
        let relays = relays_of(peer);
        let is_there = peer.paths.iter().any(|path| works(path.state));
        for (relay, comes) in relays {
            if comes {
                working.insert(relay);
            } else if is_there {
                *silent.entry(relay).or_default() += 1;
            }
        }
    }
    let is_silent = |&(relay, peers): &(&str, usize)| peers >= PEERS && !working.contains(relay);
    silent.into_iter().filter(is_silent).map(|(relay, _)| key_of(relay, status)).collect()
}

/// The relays through which a peer comes or came, and whether it still may.
fn relays_of(peer: &PeerStatus) -> BTreeMap<&str, bool> {
    let mut relays = BTreeMap::new();
    for path in &peer.paths {
        if let Some(relay) = path.relays.first()
            && path.state != PathState::Closing
        {
            *relays.entry(relay.as_str()).or_default() |= path.state != PathState::Dead;
        }
    }
    relays
}

fn works(state: PathState) -> bool {
    matches!(state, PathState::Active | PathState::Standby)
}

/// psmcd names those relays that its file names, and gives the keys of all others.
fn key_of(relay: &str, status: &Status) -> String {
    let named = status.site.registered.iter().find(|registered| registered.relay == relay);
    named.map_or(relay, |registered| &registered.public_key).to_owned()
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

    /// What psmcd says of peers, each with paths by their relays and states.
    fn status_of(peers: &[&[(&[&str], &str)]]) -> Status {
        let path = |&(relays, state): &(&[&str], &str)| {
            json!({
                "name": "p", "id": 1, "state": state, "relays": relays, "weight": 1, "loss_pct": 0.0, "tx_bytes": 0,
                "rx_bytes": 0, "tx_packets": 0, "rx_packets": 0, "lost_packets": 0,
            })
        };
        let peer = |paths: &&[(&[&str], &str)]| {
            json!({
                "name": "ann", "public_key": "k", "state": "connected", "control": { "connected": true, "since_s": 1.0 },
                "allowed_ips": [], "tx_bytes": 0, "rx_bytes": 0, "tx_packets": 0, "rx_packets": 0, "drops": {},
                "paths": paths.iter().map(path).collect::<Vec<_>>(),
            })
        };
        let site = json!({
            "name": "hq", "public_key": "k", "interface": "psmc0", "addresses": [], "listen": "nothing", "uptime_s": 1.0,
            "version": "0.1.0", "registered": [{ "relay": "fra1", "public_key": "key1", "registered": true }],
        });
        let peers: Vec<_> = peers.iter().map(peer).collect();
        serde_json::from_value(json!({ "site": site, "peers": peers, "counters": {} })).unwrap()
    }

    const FRA: &[&str] = &["fra1"];
    const AMS: &[&str] = &["key2"];

    #[test]
    fn a_relay_is_silent_when_two_peers_are_that_come_another_way() {
        let gone: &[(&[&str], &str)] = &[(FRA, "dead"), (AMS, "active")];
        assert_eq!(silent_relays(&status_of(&[gone, gone])), BTreeSet::from(["key1".to_owned()]));
        let straight: &[(&[&str], &str)] = &[(AMS, "dead"), (&[], "standby")];
        assert_eq!(silent_relays(&status_of(&[straight, straight])), BTreeSet::from(["key2".to_owned()]));
    }

    #[test]
    fn silence_has_to_last_for_two_looks() {
        let gone: &[(&[&str], &str)] = &[(FRA, "dead"), (AMS, "active")];
        let back: &[(&[&str], &str)] = &[(FRA, "active"), (AMS, "active")];
        let [gone, back] = [gone, back].map(|paths| status_of(&[paths, paths]));
        let (mut silence, none, fra) =
            (Silence::default(), BTreeSet::new(), BTreeSet::from(["key1".to_owned()]));
        let seen: Vec<_> =
            [&gone, &back, &gone, &gone, &gone, &back].map(|status| silence.look(status)).into();
        assert_eq!(seen, [none.clone(), none.clone(), none.clone(), fra.clone(), fra, none]);
    }

    #[test]
    fn one_peer_or_one_that_is_gone_or_a_moment_of_silence_tell_nothing() {
        let gone: &[(&[&str], &str)] = &[(FRA, "dead"), (AMS, "active")];
        for other in [
            &[(AMS, "active")] as &[(&[&str], &str)],
            &[(FRA, "dead"), (AMS, "dead")],
            &[(FRA, "suspect"), (AMS, "active")],
            &[(FRA, "active"), (AMS, "active")],
            &[(FRA, "closing"), (AMS, "active")],
            &[],
        ] {
            assert_eq!(silent_relays(&status_of(&[gone, other])), BTreeSet::new(), "{other:?}");
        }
        let works: &[(&[&str], &str)] = &[(FRA, "active")];
        assert_eq!(silent_relays(&status_of(&[gone, gone, works])), BTreeSet::new());
    }
}
