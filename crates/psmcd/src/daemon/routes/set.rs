//! A set of routes that was learned, and the paths that it asks for.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use psmc_net::keys::PublicKey;
use psmc_toml::{PUBLIC_KEY, ValueError};

use crate::config::{Endpoint, Host, Name, PathSettings, Relay, Transport};
use psmc_api::RouteSpec;

/// Most relays of a set, as many as a set in DNS has.
const MAX_ROUTES: usize = 16;

/// Most paths over learned routes to one peer: half of all that it can have.
const MAX_LEARNED: usize = 32;

/// Routes that count until they expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct LearnedSet {
    /// The preferred one first.
    pub(super) relays: Vec<Relay>,
    /// When they end, in seconds since 1970.
    pub(super) expires_s: u64,
}

impl LearnedSet {
    /// The set that a client gives for the peer with this key; relays that the configuration knows keep their names.
    pub(super) fn new(
        specs: &[RouteSpec],
        peer: PublicKey,
        known: &[Relay],
        (expires_s, now_s): (u64, u64),
    ) -> Result<Self, ValueError> {
        if expires_s <= now_s {
            let reason = format!("the routes have expired {} s ago", now_s - expires_s);
            return Err(ValueError::new(reason, "get newer ones, or correct the clock of this machine"));
        }
        if specs.is_empty() || specs.len() > MAX_ROUTES {
            let reason = format!("a set has 1 to {MAX_ROUTES} routes, this one {}", specs.len());
            return Err(ValueError::new(reason, "to end all learned routes, clear them"));
        }
        let addresses: BTreeSet<_> = specs.iter().map(|spec| spec.address).collect();
        if addresses.len() < specs.len() {
            return Err(ValueError::new("two routes have the same address", "leave one of them out"));
        }
        let relays = specs.iter().map(|spec| relay(spec, peer, known)).collect::<Result<_, _>>()?;
        Ok(Self { relays, expires_s })
    }
}

fn relay(spec: &RouteSpec, peer: PublicKey, known: &[Relay]) -> Result<Relay, ValueError> {
    if let Some(gateway) = &spec.gateway {
        let gateway: PublicKey = key(gateway)?;
        if gateway != peer {
            let reason = format!(
                "the route over {} leads to {gateway}, which is not the key of this peer",
                spec.address
            );
            let remedy =
                "a session is with one key: add the gateway as a peer of its own, and give it the route";
            return Err(ValueError::new(reason, remedy));
        }
    }
    let public_key = key(&spec.public_key)?;
    if public_key == peer {
        let reason = format!("the relay at {} has the key of the peer itself", spec.address);
        return Err(ValueError::new(reason, "give the key of the relay; that of the peer is known"));
    }
    let known = known.iter().find(|relay| relay.public_key == public_key);
    let name = known.map_or_else(|| name_of(spec.address), |known| Ok(known.name.clone()))?;
    Ok(Relay { name, address: endpoint(spec.address)?, public_key })
}

/// A public key as text.
pub(in crate::daemon) fn key(text: &str) -> Result<PublicKey, ValueError> {
    PUBLIC_KEY.read(text)
}

/// What a relay is called that has no name.
pub(in crate::daemon) fn name_of(address: SocketAddr) -> Result<Name, ValueError> {
    let text = address.to_string().replace(['[', ']'], "").replace(':', "-");
    // The longest addresses of IPv6 are longer than names; their ends tell them apart.
    let tail = &text[text.len().saturating_sub(32)..];
    tail.trim_start_matches('-').parse()
}

/// Where a relay is.
pub(in crate::daemon) fn endpoint(address: SocketAddr) -> Result<Endpoint, ValueError> {
    Ok(Endpoint { host: Host::Ip(address.ip()), port: address.port().to_string().parse()? })
}

/// The uplinks that these paths use, as templates for others.
pub(super) fn uplinks(configured: &[PathSettings]) -> Vec<PathSettings> {
    let mut uplinks: Vec<PathSettings> = Vec::new();
    for path in configured {
        let is_known =
            |known: &PathSettings| known.interface == path.interface && known.address == path.address;
        if !uplinks.iter().any(is_known) {
            uplinks.push(path.clone());
        }
    }
    uplinks
}

/// A path over a learned route, but for its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) relay: Relay,
    pub(super) settings: PathSettings,
}

impl Wanted {
    /// Whether an open path is this one.
    pub(super) fn is(&self, relay: &Relay, settings: &PathSettings) -> bool {
        let own = (&self.relay, &self.settings.interface, &self.settings.address);
        own == (relay, &settings.interface, &settings.address)
    }
}

/// The paths over these relays: each over each uplink from which it can be reached. Where there are too many, all relays
/// and all uplinks are used before any is used twice.
pub(super) fn wanted(set: &LearnedSet, uplinks: &[PathSettings]) -> Vec<Wanted> {
    let rounds = 0..uplinks.len();
    let all = rounds.flat_map(|round| {
        let over = move |(number, relay): (usize, &Relay)| {
            let uplink = &uplinks[(number + round) % uplinks.len()];
            let settings = PathSettings {
                endpoint: None,
                relays: vec![relay.name.clone()],
                transport: Transport::Udp,
                ..uplink.clone()
            };
            Wanted { relay: relay.clone(), settings }
        };
        set.relays.iter().enumerate().map(over)
    });
    all.filter(has_one_family).take(MAX_LEARNED).collect()
}

fn has_one_family(wanted: &Wanted) -> bool {
    let remote = wanted.relay.address.socket_addr();
    let local = wanted.settings.address;
    match (remote, local) {
        (Some(remote), Some(local)) => remote.is_ipv4() == local.get().is_ipv4(),
        (None, _) | (_, None) => true,
    }
}

/// The first free name of a path over a learned route.
pub(super) fn free_name(is_taken: impl Fn(&str) -> bool) -> Option<Name> {
    // One more than there can be paths is free.
    (1..=crate::config::MAX_PATHS + 1)
        .map(|number| format!("alt-{number}"))
        .find(|name| !is_taken(name))
        .and_then(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use psmc_net::keys::PrivateKey;

    use super::*;

    fn spec(number: u8, key: PublicKey) -> RouteSpec {
        let address = SocketAddr::from(([192, 0, 2, number], 5115));
        RouteSpec { address, public_key: key.to_string(), gateway: None }
    }

    fn some_key() -> PublicKey {
        PrivateKey::generate().public()
    }

    fn set(count: u8) -> LearnedSet {
        let specs: Vec<_> = (1..=count).map(|number| spec(number, some_key())).collect();
        LearnedSet::new(&specs, some_key(), &[], (20, 10)).unwrap()
    }

    fn over(name: &str, address: Option<&str>) -> PathSettings {
        let address = address.map(|address| address.parse().unwrap());
        PathSettings {
            interface: Some(name.parse().unwrap()),
            address,
            ..PathSettings::plain(name.parse().unwrap())
        }
    }

    #[test]
    fn a_set_that_makes_no_sense_is_refused() {
        let peer = some_key();
        let new = |specs: &[RouteSpec], expires| {
            LearnedSet::new(specs, peer, &[], (expires, 10)).map_err(|error| error.reason().to_owned())
        };
        let one = spec(1, some_key());
        assert!(new(std::slice::from_ref(&one), 11).is_ok());
        assert!(new(std::slice::from_ref(&one), 10).unwrap_err().contains("expired"));
        assert!(new(&[], 11).unwrap_err().contains("1 to 16"));
        assert!(new(&[one.clone(), one.clone()], 11).unwrap_err().contains("same address"));
        let other = some_key().to_string();
        let elsewhere = RouteSpec { gateway: Some(other.clone()), ..one.clone() };
        assert!(new(&[elsewhere], 11).unwrap_err().contains(&other));
        assert!(new(&[RouteSpec { gateway: Some(peer.to_string()), ..one.clone() }], 11).is_ok());
        assert!(new(&[RouteSpec { public_key: peer.to_string(), ..one.clone() }], 11).is_err());
        assert!(new(&[RouteSpec { public_key: "x".to_owned(), ..one }], 11).is_err());
    }

    #[test]
    fn relays_are_called_by_their_addresses_unless_they_are_known() {
        let key = some_key();
        let known =
            Relay { name: "fra1".parse().unwrap(), address: "fra1:1".parse().unwrap(), public_key: key };
        let specs = [spec(7, key), spec(8, some_key())];
        let set = LearnedSet::new(&specs, some_key(), &[known], (20, 10)).unwrap();
        let names: Vec<_> = set.relays.iter().map(|relay| relay.name.as_str()).collect();
        assert_eq!(names, ["fra1", "192.0.2.8-5115"]);
        assert_eq!(set.relays[0].address.to_string(), "192.0.2.7:5115");
        let name = name_of("[2001:db8:1111:2222:3333:4444:5555:6666]:5115".parse().unwrap()).unwrap();
        assert!(name.as_str().ends_with("-5555-6666-5115"), "{name}");
    }

    #[test]
    fn each_relay_is_reached_over_each_uplink_of_its_family() {
        let uplinks = uplinks(&[over("wlan0", None), over("wwan0", None), over("wlan0", None)]);
        assert_eq!(uplinks.len(), 2);
        let paths = wanted(&set(2), &uplinks);
        let pairs: BTreeSet<_> = paths
            .iter()
            .map(|path| (path.relay.name.to_string(), path.settings.interface.as_ref().unwrap().to_string()))
            .collect();
        assert_eq!((paths.len(), pairs.len()), (4, 4));
        assert!(wanted(&set(2), &[over("wlan0", Some("2001:db8::1"))]).is_empty());
        assert_eq!(wanted(&set(2), &[PathSettings::plain("any".parse().unwrap())]).len(), 2);
    }

    #[test]
    fn where_there_are_too_many_paths_no_relay_is_left_out() {
        let uplinks = [over("a", None), over("b", None), over("c", None)];
        let paths = wanted(&set(16), &uplinks);
        let relays: BTreeSet<_> = paths.iter().map(|path| path.relay.name.clone()).collect();
        assert_eq!((paths.len(), relays.len()), (MAX_LEARNED, 16));
    }

    #[test]
    fn names_are_the_first_that_are_free() {
        assert_eq!(free_name(|_| false).unwrap().as_str(), "alt-1");
        assert_eq!(free_name(|name| name != "alt-3").unwrap().as_str(), "alt-3");
    }
}
