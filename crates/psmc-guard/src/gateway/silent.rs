//! Relays that answer, and through which nothing comes any more.

use std::collections::{BTreeMap, BTreeSet};

use psmc_api::{PathState, PeerStatus, Status};

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

    /// What psmcd says of peers, each with paths by their relays and states.
    fn status(peers: &[&[(&[&str], &str)]]) -> Status {
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
        assert_eq!(silent_relays(&status(&[gone, gone])), BTreeSet::from(["key1".to_owned()]));
        let straight: &[(&[&str], &str)] = &[(AMS, "dead"), (&[], "standby")];
        assert_eq!(silent_relays(&status(&[straight, straight])), BTreeSet::from(["key2".to_owned()]));
    }

    #[test]
    fn silence_has_to_last_for_two_looks() {
        let gone: &[(&[&str], &str)] = &[(FRA, "dead"), (AMS, "active")];
        let back: &[(&[&str], &str)] = &[(FRA, "active"), (AMS, "active")];
        let [gone, back] = [gone, back].map(|paths| status(&[paths, paths]));
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
            assert_eq!(silent_relays(&status(&[gone, other])), BTreeSet::new(), "{other:?}");
        }
        let works: &[(&[&str], &str)] = &[(FRA, "active")];
        assert_eq!(silent_relays(&status(&[gone, gone, works])), BTreeSet::new());
    }
}
