//! The network around the site: what leads into the tunnel, what leads out of this host, and that it stays so.
//!
//! The kernel tells of every change. What follows from all of it is worked out anew a moment later, from what there is then
//! and not from what was told, so that it does not matter in which order links, addresses and routes come.

mod steering;
mod uplinks;
mod watch;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use ipnet::IpNet;
use psmc_net::netlink::{Changes, Hop, KernelWay, NetworkEvent};
use psmc_net::tun::{self, Tun, TunConfig};

use super::DaemonError;
use super::control::Control;
use super::peers::Peer;
use super::settings::tun_config;
use crate::config::{Endpoint, PathSettings};
use crate::machine::{is_strict, of_uplinks};
pub(super) use steering::Numbers;
use steering::View;
use watch::{Watch, is_concerned};

/// So many times in a row may what is to be made be refused: two seconds. The network may change while it is being looked at.
const MAX_FAILURES: u32 = 10;

/// What a site has made of the network.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) numbers: Numbers,
    view: View,
    watch: Watch,
    /// How many looks in a row have failed.
    failures: u32,
    /// What was said of it already.
    said: BTreeSet<String>,
}

impl Network {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self { numbers, view: View::default(), watch: Watch::default(), failures: 0, said: BTreeSet::new() }
    }

    /// When it is to be looked at, if it has changed.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.watch.look_at()
    }

    /// Schedules a check of it.
    pub(super) fn note_change(&mut self) {
        self.watch.note_change(Instant::now());
    }

    /// Says something once.
    fn say(&mut self, what: String) {
        if !self.said.contains(&what) {
            tracing::warn!("{what}");
            self.said.insert(what);
        }
    }
}

impl Control {
    /// Takes note of a change.
    pub(super) fn note_network_event(&mut self, event: &NetworkEvent) {
        let Network { numbers, view, .. } = &self.network;
        if is_concerned(event, *numbers, view, self.remotes()) {
            self.network.note_change();
        }
    }

    /// Where paths lead, and could.
    fn remotes(&self) -> impl Iterator<Item = IpAddr> {
        let of_peer = |peer: &Peer| peer.config.endpoint.as_ref().and_then(Endpoint::socket_addr);
        let of_peers = self.peers.iter().filter_map(of_peer);
        let of_paths = self.peers.iter().flat_map(|peer| &peer.paths).map(|path| path.remote);
        self.names.addresses().copied().chain(of_peers).chain(of_paths).map(|remote| remote.ip())
    }

    /// Does what follows from the network as it is.
    ///
    /// # Errors
    /// When something is missing that the site can't do without, and that cannot be made again.
    pub(super) async fn look_at_network(&mut self) -> Result<(), DaemonError> {
        self.network.watch.begin(Instant::now());
        match self.mend().await {
            Ok(()) => self.network.failures = 0,
            Err(error) => {
                self.network.failures += 1;
                if self.network.failures >= MAX_FAILURES {
                    return Err(error);
                }
                tracing::debug!(error = crate::error_chain(&error), "the network is looked at once more");
                self.network.note_change();
            }
        }
        self.names.ask_soon();
        self.match_uplinks().await;
        self.rest_without_address().await
    }

    async fn mend(&mut self) -> Result<(), DaemonError> {
        self.mend_interface().await?;
        self.steer().await?;
        self.say_what_is_hidden().await
    }

    /// Makes the interface again if it is gone, and sets it up again if somebody has set it down.
    async fn mend_interface(&mut self) -> Result<(), DaemonError> {
        let config = self.present_tun_config();
        let name = match self.netlink.link_state(self.tun_index).await? {
            Some(state) => state.name,
            None => return self.make_interface_again(config).await,
        };
        if name != self.tun_name {
            tracing::info!(from = self.tun_name, to = name, "the tunnel's interface has another name");
            self.tun_name = name;
        }
        if let Some(undone) =
            tun::mend(&self.netlink, self.tun_index, &config).await.map_err(DaemonError::Mend)?
        {
            tracing::warn!(interface = self.tun_name, "the tunnel's interface is mended: {undone}");
        }
        Ok(())
    }

    async fn make_interface_again(&mut self, config: TunConfig) -> Result<(), DaemonError> {
        tracing::warn!(interface = self.tun_name, "the tunnel's interface was deleted, and is made again");
        let tun = Tun::create(config).await.map_err(DaemonError::Tun)?;
        self.tun_index = tun.index();
        self.plane.call(move |plane| plane.replace_interface(tun)).await?.map_err(|source| {
            DaemonError::System { what: "waiting for packets of the new interface", source }
        })
    }

    /// The interface as it should be now.
    fn present_tun_config(&self) -> TunConfig {
        let config = tun_config(&self.site);
        let mtu = self.fitting.as_ref().map_or(config.mtu, super::fitting::Fitting::mtu);
        TunConfig { name: Some(self.tun_name.clone()), mtu, ..config }
    }

    /// Leads into the tunnel what belongs there, and nothing of the tunnel's own.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) async fn steer(&mut self) -> Result<(), DaemonError> {
        let view = self.view().await?;
        let numbers = self.network.numbers;
        let table = self.netlink.match_table(numbers.table, &view.table()).await?;
        let back = match self.netlink.match_table(numbers.back_table, &view.back_table()).await {
            Ok(changes) => changes,
            Err(error) => {
                // A gateway that cannot be reached yet, or not any more: other packets do not need these routes.
                tracing::debug!(error = crate::error_chain(&error), "no way for answers yet");
                self.network.note_change();
                Changes::default()
            }
        };
        let rules = self.netlink.match_rules(&numbers.rules(&view), |rule| numbers.owns(rule)).await?;
        let none = Changes::default();
        if view == self.network.view && [table, back, rules] != [none; 3] {
            tracing::warn!("routes or rules of the tunnel had been changed, and are as they should be");
        }
        self.network.view = view;
        Ok(())
    }

    /// The same for somebody who waits for it; what fails is tried again in a moment.
    pub(super) async fn steer_now(&mut self) {
        if self.steer().await.is_err() {
            self.network.note_change();
        }
    }

    /// Takes back all rules and routes.
    pub(super) async fn stop_steering(&self) {
        let numbers = self.network.numbers;
        let none = View::default();
        let undone = async {
            self.netlink.match_rules(&numbers.rules(&none), |rule| numbers.owns(rule)).await?;
            self.netlink.match_table(numbers.table, &none.table()).await?;
            self.netlink.match_table(numbers.back_table, &none.back_table()).await
        };
        if let Err(error) = undone.await {
            tracing::warn!(error = crate::error_chain(&error), "routing rules or routes stay");
        }
    }

    async fn view(&self) -> Result<View, DaemonError> {
        let of_peers =
            self.peers.iter().flat_map(|peer| &peer.config.allowed_ips).map(|allowed| allowed.net());
        let own = self.site.addresses.iter().copied();
        let own = own.filter(|net| net.prefix_len() < net.max_prefix_len());
        let networks: BTreeSet<IpNet> = of_peers.chain(own).map(|net| net.trunc()).collect();
        let main = self.netlink.main_routes().await?;
        let is_near = |net: &IpNet| networks.iter().any(|own| own.prefix_len() > 0 && own.contains(net));
        let elsewhere = main.into_iter().filter(|route| route.interface != self.tun_index);
        let local = elsewhere.map(|route| route.destination.trunc()).filter(is_near).collect();
        let mut view = View { tun: self.tun_index, networks, local, ..View::default() };
        for path in self.peers.iter().flat_map(|peer| &peer.paths).filter(|path| path.may_be_used()) {
            let way = self.way_of(&path.settings, path.remote.ip()).await;
            if let (Some(way), IpAddr::V4(remote)) = (way, path.remote.ip())
                && let Some((source, hop)) = back(way)
                && is_strict(&self.link_name(way.interface).await)
                && self.has_address(way.interface, source).await
            {
                view.back.insert((source, remote), hop);
            }
        }
        Ok(view)
    }

    /// Whether the interface has the address. Where it has none the kernel takes that of another one, for which there is
    /// another way.
    async fn has_address(&self, interface: u32, address: Ipv4Addr) -> bool {
        let addresses = self.netlink.addresses(interface).await.unwrap_or_default();
        addresses.iter().any(|own| own.addr() == IpAddr::V4(address))
    }

    /// The way that the kernel sends datagrams of a path.
    async fn way_of(&self, settings: &PathSettings, remote: IpAddr) -> Option<KernelWay> {
        let interface = match &settings.interface {
            Some(name) => Some(self.netlink.link_index(name.as_str()).await.ok()?),
            None => None,
        };
        self.netlink.way_to(remote, self.network.numbers.mark.get(), interface).await
    }

    async fn link_name(&self, index: u32) -> String {
        self.netlink.link_state(index).await.ok().flatten().map(|state| state.name).unwrap_or_default()
    }

    /// Says once which networks of peers are not reached through the tunnel, and of uplinks that are in one of them.
    async fn say_what_is_hidden(&mut self) -> Result<(), DaemonError> {
        for net in self.network.view.hidden() {
            self.network.say(format!(
                "{net} is also a network of this host, so that nothing of it goes through the tunnel: if it is the \
                 peer's that you want, leave that network, or have one of the two renumbered"
            ));
        }
        let uplinks = self.netlink.uplinks(&[self.tun_index]).await?;
        let peers: Vec<_> = self.peers.iter().map(|peer| &peer.config).collect();
        for notice in of_uplinks(&self.netlink, &uplinks, &self.site, &peers).await? {
            self.network.say(notice);
        }
        Ok(())
    }
}

/// From where to where answers on this way come, if they do over IPv4.
fn back(way: KernelWay) -> Option<(Ipv4Addr, Hop)> {
    let (Some(IpAddr::V4(source)), false) = (way.source, way.is_local) else { return None };
    let gateway = way.gateway.and_then(|gateway| match gateway {
        IpAddr::V4(gateway) => Some(gateway),
        IpAddr::V6(_) => None,
    });
    Some((source, Hop { interface: way.interface, gateway }))
}
