//! Peers that come and go while the site runs.

use psmc_core::Gateway;
use psmc_toml::ValueError;

use super::DaemonError;
use super::control::Control;
use super::peers::{EnterError, Peer};
use super::relays::GrantsFor;
use super::requests::Refusal;
use super::routes::key;
use super::specs;
use crate::config::{self, AllowedNet, DEFAULT_KEEPALIVE, Endpoint, Name, Paths, Transport};
use psmc_api::{AddedPath, Additions, PeerSpec};

/// Most peers that can be added: with so many the status of a site still fits into a line.
const MAX_ADDED: usize = 256;

impl Control {
    /// Adds a peer until the daemon ends.
    pub(super) async fn add_new_peer(&mut self, new: &PeerSpec) -> Result<(), Refusal> {
        let config = self.checked(new)?;
        let name = config.name.clone();
        match self.enter_peer(config, true).await {
            Ok(()) => {}
            Err(EnterError::Daemon(error)) => return Err(error.into()),
            Err(error) => return Err(Refusal::of(&error)),
        }
        self.network.steer_now(&self.site, &self.peers).await;
        tracing::info!(peer = %name, "peer added");
        self.open_configured_paths(self.peers.len() - 1).await;
        Ok(())
    }

    /// What was added, as it would stand in the configuration.
    pub(super) fn additions(&self) -> Additions {
        // Of a relative path nobody else knows where it begins.
        let file = std::path::absolute(self.file.path()).unwrap_or_else(|_| self.file.path().to_owned());
        let added = self.peers.iter().filter(|peer| peer.is_added).map(|peer| &peer.config);
        let peers = added.map(|peer| PeerSpec {
            name: peer.name.to_string(),
            public_key: peer.public_key.to_string(),
            allowed_ips: peer.allowed_ips.iter().map(|allowed| allowed.net().to_string()).collect(),
            endpoint: peer.endpoint.as_ref().map(ToString::to_string),
        });
        Additions { file, peers: peers.collect(), paths: self.peers.iter().flat_map(added_paths).collect() }
    }

    /// Removes a peer that was added, with all that belongs to it.
    pub(super) async fn remove_added_peer(&mut self, index: usize) -> Result<(), Refusal> {
        if !self.peers[index].is_added {
            let reason =
                format!("the peer `{}` is defined in the configuration", self.peers[index].config.name);
            return Err(ValueError::new(reason, "remove it there, then run `psmc reload`").into());
        }
        let peer = self.drop_peer(index).await?;
        self.network.steer_now(&self.site, &self.peers).await;
        tracing::info!(peer = %peer.config.name, "peer removed");
        Ok(())
    }

    /// Removes a peer with all that belongs to it, but for the routes to it.
    pub(super) async fn drop_peer(&mut self, index: usize) -> Result<Peer, DaemonError> {
        let peer = self.peers.remove(index);
        let id = peer.id;
        self.relays.grants().forget(GrantsFor::Routes(id));
        self.connections.forget(id);
        let sockets: Vec<_> =
            peer.paths.iter().chain(&peer.retired).flat_map(|path| path.sockets()).collect();
        // The peer hears of the ends of connections before it is forgotten.
        self.plane.call(move |plane| plane.end_splits_of(id)).await?;
        let removed = self.plane.call(move |plane| {
            plane.site.remove_peer(id);
            sockets.into_iter().for_each(|socket| plane.close_port(socket));
        });
        removed.await?;
        self.end_streams(id).await?;
        Ok(peer)
    }

    /// The peer as the configuration would have it, if it fits to those that there are.
    pub(super) fn checked(&self, new: &PeerSpec) -> Result<config::Peer, ValueError> {
        if self.peers.iter().filter(|peer| peer.is_added).count() >= MAX_ADDED {
            let reason = format!("{MAX_ADDED} peers have been added already");
            return Err(ValueError::new(reason, "remove some, or write them into the configuration"));
        }
        let name: Name = new.name.parse()?;
        if self.peers.iter().any(|peer| peer.config.name == name) {
            return Err(ValueError::new(format!("there is a peer `{name}` already"), "choose another name"));
        }
        let public_key = key(&new.public_key)?;
        let is_known = self.peers.iter().any(|peer| peer.config.public_key == public_key);
        if is_known || public_key == self.identity.public() {
            let reason = format!("the key {public_key} is that of another peer, or of this site itself");
            return Err(ValueError::new(reason, "give the key that `psmc pubkey` prints on the peer"));
        }
        let allowed_ips: Vec<AllowedNet> =
            new.allowed_ips.iter().map(|net| net.parse()).collect::<Result<_, _>>()?;
        self.check_networks(&allowed_ips)?;
        let endpoint: Option<Endpoint> = new.endpoint.as_deref().map(str::parse).transpose()?;
        if endpoint.is_some() && self.site.is_hidden {
            let reason = "this site is hidden behind its relays, and would dial this peer straight";
            return Err(ValueError::new(reason, "leave the endpoint out: the peer calls, through a relay"));
        }
        Ok(config::Peer {
            name,
            public_key,
            allowed_ips,
            gateway: Gateway::default(),
            endpoint,
            keepalive: DEFAULT_KEEPALIVE,
            preset: None,
            treatment: self.site.treatment,
            udp_rate_limit: None,
            paths: Paths::EveryUplink,
            spare_relays: Vec::new(),
            routes: None,
            transport: Transport::Udp,
        })
    }

    /// Every network has one owner, and no address of this site is another's.
    fn check_networks(&self, networks: &[AllowedNet]) -> Result<(), ValueError> {
        if networks.is_empty() {
            return Err(ValueError::new("nothing would be sent to this peer", "name the networks behind it"));
        }
        for (position, network) in networks.iter().enumerate() {
            let taken = self.peers.iter().flat_map(|peer| &peer.config.allowed_ips);
            if taken.chain(&networks[..position]).any(|other| other == network) {
                let reason = format!("the network {network} is another peer's, or given twice");
                return Err(ValueError::new(reason, "a smaller network inside it may be this one's"));
            }
            let net = network.net();
            let is_own = |own: &ipnet::IpNet| own.addr() == net.addr();
            if net.prefix_len() == net.max_prefix_len() && self.site.addresses.iter().any(is_own) {
                let reason = format!("{network} is the address of this site itself");
                return Err(ValueError::new(reason, "give the address of the other site"));
            }
        }
        Ok(())
    }
}

fn added_paths(peer: &Peer) -> impl Iterator<Item = AddedPath> {
    let added = peer.paths.iter().filter(|path| peer.by_hand.added.contains(&path.settings.name));
    added.map(|path| AddedPath {
        peer: peer.config.name.to_string(),
        path: specs::spec(&path.settings, peer.config.endpoint.as_ref(), peer.config.transport),
        is_among_others: matches!(peer.config.paths, Paths::Listed(_)),
    })
}

impl From<DaemonError> for Refusal {
    fn from(error: DaemonError) -> Self {
        Self::Ends(error)
    }
}
