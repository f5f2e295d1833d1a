//! Relays that stand in links of the world: at the end from which a datagram comes, so that the link has the delay of
//! the whole way.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::relay::{
    Account, Added, Address, Leg, Limiter, Refusals, Relay, RelayConfig, SessionCounts, SessionSpec,
};
use psmc_core::{PathAddress, Via};
use psmc_wire::PathId;
use psmc_wire::ids::KeyBytes;

use super::{HQ, HQ_SOCKET, VAN, World, address, path_config};

/// The relays, by the link that they stand in.
#[derive(Default)]
pub struct Relays {
    relays: BTreeMap<usize, Standing>,
    /// The port that a NAT has given the van, by the link that it stands in.
    ports: BTreeMap<usize, u16>,
    draws: u64,
}

struct Standing {
    relay: Relay,
    account: Arc<Account>,
    /// Where it takes datagrams.
    address: SocketAddr,
}

impl Standing {
    fn new(link: usize, now: Instant) -> Self {
        let config = RelayConfig {
            max_sessions: 8,
            max_waiting: 1000,
            idle: Duration::from_secs(60),
            worker: (0, 1),
            total: Arc::new(Limiter::new(None)),
            seed: 7,
            origin: now,
        };
        let account = Arc::new(Account::new(KeyBytes([1; 32]), 8, None));
        Self { relay: Relay::new(&config), account, address: relay_address(link) }
    }
}

impl Relays {
    pub fn stands_in(&self, link: usize) -> bool {
        self.relays.contains_key(&link)
    }

    /// What a relay has refused.
    pub fn refusals(&self, link: usize) -> Refusals {
        self.relays[&link].relay.refusals
    }

    /// What a relay has counted of its only session.
    pub fn counts(&mut self, link: usize, now: Instant) -> SessionCounts {
        let Standing { relay, account, .. } = self.relays.get_mut(&link).expect("a relay in this link");
        let id = relay.sessions(now).next().expect("a session").id;
        relay.count(id, account.key(), now).expect("it is the site's")
    }

    /// What an end's datagram is behind the relay, if there is one, and where it seems to come from.
    pub(super) fn pass_on(
        &mut self,
        link: usize,
        end: usize,
        datagram: &[u8],
        now: Instant,
    ) -> Option<(Vec<u8>, SocketAddr)> {
        let (from, across) = (self.seen_from(link, end), self.seen_from(link, 1 - end));
        let mut datagram = datagram.to_vec();
        let Some(standing) = self.relays.get_mut(&link) else {
            return Some((datagram, from));
        };
        let (to, passed) = standing.relay.handle_datagram(&mut datagram, Address::of(from), now)?;
        assert_eq!(to.remote.ip(), across.ip(), "handed to the wrong end");
        // A NAT knows nothing of a port that it has given up.
        (to.remote == across).then(|| (passed.to_vec(), standing.address))
    }

    /// Where an end of a link seems to be from the relay in it.
    fn seen_from(&self, link: usize, end: usize) -> SocketAddr {
        let mut seen = address(link, end);
        if end == VAN {
            self.ports.get(&link).into_iter().for_each(|&port| seen.set_port(port));
        }
        seen
    }

    /// What has waited at the relay in a link and need not any more: to which end it goes, what it is, and where it seems
    /// to come from.
    pub(super) fn poll(&mut self, link: usize, now: Instant) -> Option<(usize, Vec<u8>, SocketAddr)> {
        let (van, hq) = (self.seen_from(link, VAN), self.seen_from(link, HQ));
        let standing = self.relays.get_mut(&link)?;
        loop {
            let (to, buffer, bytes) = standing.relay.poll_waiting(now)?;
            let end = [(van, VAN), (hq, HQ)].into_iter().find(|(address, _)| *address == to.remote);
            let datagram = buffer.packet()[bytes].to_vec();
            standing.relay.recycle(buffer);
            if let Some((_, end)) = end {
                return Some((end, datagram, standing.address));
            }
        }
    }

    fn reserve(&mut self, link: usize, far: Option<Address>, now: Instant) -> Via {
        let draws = &mut self.draws;
        let standing = self.relays.get_mut(&link).expect("a relay in this link");
        let ticket = standing.account.take_session().expect("a session is left");
        let spec = SessionSpec {
            ticket,
            rate: None,
            address: far,
            far_site: None,
            far: Leg::Site,
            near_inside: None,
        };
        let random = || {
            *draws += 1;
            let word = draws.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            std::array::from_fn(|byte| word[byte % 8] ^ byte as u8)
        };
        let Added { near, far, .. } = standing.relay.add(spec, random, now).expect("room for a session");
        let relay = key(link);
        Via { remote: standing.address, near, relay, relay_address: standing.address, far }
    }
}

/// Where the relay in that link takes datagrams.
pub(super) fn relay_address(link: usize) -> SocketAddr {
    let mut address = address(link, 99);
    address.set_port(4000);
    address
}

/// The key of the relay in that link.
fn key(link: usize) -> KeyBytes {
    KeyBytes([link as u8; 32])
}

impl World {
    /// Puts a relay into a link without paths, in place of one that stood there.
    pub fn stand_relay(&mut self, link: usize) {
        self.relays.relays.insert(link, Standing::new(link, self.now));
    }

    /// The same for one that takes datagrams elsewhere than the one before.
    pub fn move_relay(&mut self, link: usize) {
        self.stand_relay(link);
        let standing = self.relays.relays.get_mut(&link).expect("it stands there");
        standing.address.set_port(standing.address.port() + 1);
    }

    /// The NAT before the van in a link gives it this port from now on, and has forgotten the one before.
    pub fn rebind(&mut self, link: usize, port: u16) {
        self.relays.ports.insert(link, port);
    }

    /// Opens a path from the van through the relay in that link, for which there is no session yet.
    pub fn add_relayed_path(&mut self, link: usize) -> PathId {
        let config = psmc_core::PathConfig {
            mtu: self.links[link].interface_mtu.unwrap_or(1500),
            remote: self.relays.relays[&link].address,
            ..path_config(link)
        };
        let van = &mut self.ends[VAN];
        let mut peer = van.site.peer(van.peer).expect("the peer exists");
        peer.add_relayed_path(config, self.now).expect("room for a path")
    }

    /// Reserves a session at the relay in that link, and leads the van's path through it.
    pub fn lead_path(&mut self, path: PathId, link: usize) {
        let far = Address::of(address(link, HQ));
        self.lead_path_to(path, link, Some(far));
    }

    /// The same to the headquarters as a gateway, of which the relay does not know yet where they are.
    pub fn lead_path_to_gateway(&mut self, path: PathId, link: usize) {
        self.lead_path_to(path, link, None);
    }

    fn lead_path_to(&mut self, path: PathId, link: usize, far: Option<Address>) {
        let via = self.relays.reserve(link, far, self.now);
        let van = &mut self.ends[VAN];
        van.path(path).lead(via, self.now).expect("the path is the van's");
    }

    /// Makes the van believe the relay that the path leads to the peer.
    pub fn trust_path(&mut self, path: PathId) {
        let van = &mut self.ends[VAN];
        van.path(path).trust(self.now);
    }

    /// Makes the headquarters register with the relay in that link.
    pub fn register(&mut self, link: usize) {
        let remote = self.relays.relays[&link].address;
        let address = PathAddress { socket: HQ_SOCKET, local_ip: Some(address(link, HQ).ip()), remote };
        self.ends[HQ].site.register_relay(key(link), address, self.now);
    }
}
