//! The network around the site: what leads into the tunnel, what leads out of this host, and that it stays so.
//!
//! The kernel tells of every change. What follows from all of it is worked out anew a moment later, from what there is then
//! and not from what was told, so that it does not matter in which order links, addresses and routes come.

pub(super) mod footprint;
mod steering;
mod uplinks;
mod watch;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use ipnet::IpNet;
use psmc_net::netlink::{Changes, Hop, KernelWay, LinkEvents, Netlink, NetlinkError, NetworkEvent, Uplink};
use psmc_net::tun::{self, Tun, TunConfig};
use psmc_service::daemon::SystemError;

use super::DaemonError;
use super::control::Control;
use super::fitting::Fitting;
use super::forwarding;
use super::names::Names;
use super::peers::{Peer, Peers};
use super::plane::PlaneHandle;
use super::settings::tun_config;
use crate::config::{self, Endpoint, Exclusion, PathSettings};
use crate::machine::{hidden, is_strict, of_uplinks};
use footprint::Footprint;
pub(crate) use steering::Numbers;
use steering::View;
use watch::{Watch, is_concerned};

/// The outer MTU that is assumed where nothing better is known: Ethernet's.
const DEFAULT_MTU: u16 = 1500;

/// So many times in a row may what is to be made be refused: two seconds. The network may change while it is being looked at.
const MAX_FAILURES: u32 = 10;

/// The network around the site: what it has made of it, and what it knows of the tunnel's interface.
pub(super) struct HostNetwork {
    netlink: Netlink,
    events: LinkEvents,
    numbers: Numbers,
    interface: TunnelInterface,
    footprint: Footprint,
    /// What is wrong with the kernel's forwarding, if anything is.
    forwarding: Option<String>,
    view: View,
    watch: Watch,
    /// How many looks in a row have failed.
    failures: u32,
    /// What was said of it already.
    said: BTreeSet<String>,
}

/// The interface that packets come out of.
pub(super) struct TunnelInterface {
    pub(super) name: String,
    pub(super) index: u32,
    /// What fits it to the paths, if the configuration does not say how large its packets may be.
    pub(super) fitting: Option<Fitting>,
}

impl HostNetwork {
    pub(super) fn new(
        netlink: Netlink,
        events: LinkEvents,
        numbers: Numbers,
        interface: TunnelInterface,
        footprint: Footprint,
    ) -> Self {
        Self {
            netlink,
            events,
            numbers,
            interface,
            footprint,
            forwarding: None,
            view: View::default(),
            watch: Watch::default(),
            failures: 0,
            said: BTreeSet::new(),
        }
    }

    /// What the kernel tells next. May be dropped and called again.
    pub(super) async fn next_event(&mut self) -> Result<NetworkEvent, NetlinkError> {
        self.events.next().await
    }

    /// When it is to be looked at, if it has changed.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.watch.look_at()
    }

    /// Schedules a check of it.
    pub(super) fn note_change(&mut self) {
        self.watch.note_change(Instant::now());
    }

    /// Takes note of a change, to a site that leads to `remotes`.
    pub(super) fn note_event(&mut self, event: &NetworkEvent, remotes: impl Iterator<Item = IpAddr>) {
        if is_concerned(event, self.numbers, &self.view, remotes) {
            self.note_change();
        }
    }

    /// What the tunnel's interface is called.
    pub(super) fn interface_name(&self) -> &str {
        &self.interface.name
    }

    /// Whether this is the index of the tunnel's interface.
    pub(super) fn is_interface(&self, index: u32) -> bool {
        index == self.interface.index
    }

    /// Interfaces by which packets leave this host, outside the tunnel.
    pub(super) async fn uplinks(&self) -> Result<Vec<Uplink>, NetlinkError> {
        self.netlink.uplinks(&[self.interface.index]).await
    }

    /// The index of the interface that a path with these settings is bound to, if it is there.
    pub(super) async fn index_of_link(&self, settings: &PathSettings) -> Option<u32> {
        self.netlink.link_index(settings.interface.as_ref()?.as_str()).await.ok()
    }

    /// Whether the link of this index is there and up.
    pub(super) async fn is_up(&self, index: Option<u32>) -> Result<bool, NetlinkError> {
        let Some(index) = index else { return Ok(false) };
        Ok(self.netlink.link_state(index).await?.is_some_and(|link| link.up))
    }

    /// How large packets may be on the link of a path with these settings.
    pub(super) async fn link_mtu(&self, settings: &PathSettings) -> u16 {
        if let Some(mtu) = settings.mtu {
            return mtu.get();
        }
        let Some(interface) = &settings.interface else {
            return DEFAULT_MTU;
        };
        let found = self.netlink.link_mtu(interface.as_str()).await.ok();
        // A loopback's 65,536 is more than a datagram can use.
        found.map_or(DEFAULT_MTU, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// Fits the tunnel's interface to the paths, unless the configuration says how large its packets may be.
    pub(super) async fn fit_interface(&mut self, plane: &PlaneHandle) -> Result<(), DaemonError> {
        self.interface.fit(plane, &self.netlink).await
    }

    /// What is wrong with the kernel's forwarding, if anything is.
    pub(super) fn forwarding(&self) -> Option<&String> {
        self.forwarding.as_ref()
    }

    /// Finds out whether packets get lost here because the kernel does not forward. To be called every second.
    pub(super) async fn look_at_forwarding(
        &mut self,
        site: &config::Site,
        plane: &PlaneHandle,
    ) -> Result<(), DaemonError> {
        self.forwarding = forwarding::look(self.forwarding.take(), site, plane).await?;
        Ok(())
    }

    /// Says something once.
    fn say(&mut self, what: String) {
        if !self.said.contains(&what) {
            tracing::warn!("{what}");
            self.said.insert(what);
        }
    }

    /// Does what follows from the network as it is.
    ///
    /// # Errors
    /// When something is missing that the site can't do without, and that cannot be made again.
    async fn look(
        &mut self,
        site: &config::Site,
        peers: &Peers,
        plane: &PlaneHandle,
    ) -> Result<(), DaemonError> {
        self.watch.begin(Instant::now());
        match self.mend(site, peers, plane).await {
            Ok(()) => self.failures = 0,
            Err(error) => {
                self.failures += 1;
                if self.failures >= MAX_FAILURES {
                    return Err(error);
                }
                tracing::debug!(error = crate::error_chain(&error), "the network is looked at once more");
                self.note_change();
            }
        }
        Ok(())
    }

    async fn mend(
        &mut self,
        site: &config::Site,
        peers: &Peers,
        plane: &PlaneHandle,
    ) -> Result<(), DaemonError> {
        self.mend_interface(site, plane).await?;
        self.steer(site, peers).await?;
        if let Err(error) = self.match_host(site).await {
            self.say(crate::error_chain(&error));
        }
        self.say_what_is_hidden(site, peers).await
    }

    /// Makes the interface again if it is gone, and sets it up again if somebody has set it down.
    async fn mend_interface(&mut self, site: &config::Site, plane: &PlaneHandle) -> Result<(), DaemonError> {
        let config = self.present_tun_config(site);
        let name = match self.netlink.link_state(self.interface.index).await? {
            Some(state) => state.name,
            None => return self.make_interface_again(config, plane).await,
        };
        if name != self.interface.name {
            tracing::info!(from = self.interface.name, to = name, "tunnel interface renamed");
            self.interface.name = name;
        }
        if let Some(undone) =
            tun::mend(&self.netlink, self.interface.index, &config).await.map_err(DaemonError::Mend)?
        {
            tracing::warn!(interface = self.interface.name, "tunnel interface restored: {undone}");
        }
        Ok(())
    }

    async fn make_interface_again(
        &mut self,
        config: TunConfig,
        plane: &PlaneHandle,
    ) -> Result<(), DaemonError> {
        tracing::warn!(interface = self.interface.name, "tunnel interface was deleted; recreating it");
        let tun = Tun::create(config).await.map_err(DaemonError::Tun)?;
        self.interface.index = tun.index();
        let replaced = plane.call(move |plane| plane.replace_interface(tun)).await?;
        Ok(replaced.map_err(SystemError::of("waiting for packets of the new interface"))?)
    }

    /// The interface as it should be now.
    fn present_tun_config(&self, site: &config::Site) -> TunConfig {
        let config = tun_config(site);
        let mtu = self.interface.fitting.as_ref().map_or(config.mtu, Fitting::mtu);
        TunConfig { name: Some(self.interface.name.clone()), mtu, ..config }
    }

    /// Leads into the tunnel what belongs there, and nothing of the tunnel's own.
    ///
    /// # Errors
    /// What the kernel says.
    async fn steer(&mut self, site: &config::Site, peers: &Peers) -> Result<(), DaemonError> {
        let view = self.view(site, peers).await?;
        let numbers = self.numbers;
        let table = self.netlink.match_table(numbers.table, &view.table()).await?;
        let back = match self.netlink.match_table(numbers.back_table, &view.back_table()).await {
            Ok(changes) => changes,
            Err(error) => {
                // A gateway that cannot be reached yet, or not any more: other packets do not need these routes.
                tracing::debug!(error = crate::error_chain(&error), "no way for answers yet");
                self.note_change();
                Changes::default()
            }
        };
        let rules = self.netlink.match_rules(&numbers.rules(&view), |rule| numbers.owns(rule)).await?;
        let none = Changes::default();
        if view == self.view && [table, back, rules] != [none; 3] {
            tracing::warn!("routes or rules of the tunnel were changed; restored");
        }
        self.view = view;
        Ok(())
    }

    /// The same for somebody who waits for it; what fails is tried again in a moment.
    pub(super) async fn steer_now(&mut self, site: &config::Site, peers: &Peers) {
        if self.steer(site, peers).await.is_err() {
            self.note_change();
        }
    }

    /// Has this host as `[site]` wants it, beside rules and routes.
    ///
    /// # Errors
    /// [`DaemonError::Footprint`].
    pub(super) async fn match_host(&mut self, site: &config::Site) -> Result<(), DaemonError> {
        let uplinks = self.uplinks().await?;
        let name = self.interface.name.clone();
        Ok(self.footprint.match_host(site, self.numbers, &name, &uplinks).await?)
    }

    /// Sees whether somebody has changed what this site has changed, or something is to be tried again. To be called every second.
    pub(super) fn look_at_footprint(&mut self) {
        if self.footprint.is_disturbed(Instant::now()) {
            self.note_change();
        }
    }

    /// Takes back all that was changed on this host, when the site ends as it was told. One that ends by a fault leaves its kill
    /// switch, as one that is killed does.
    pub(super) async fn leave(&mut self, site: &config::Site, is_told: bool) {
        self.stop_steering().await;
        if is_told || !site.internet.kill_switch {
            self.footprint.end().await;
        } else {
            tracing::warn!(
                "the kill switch stays: nothing leaves until psmcd is started again, or by `psmc clean`"
            );
        }
    }

    /// Takes back what was changed for a site that could not start.
    pub(super) async fn abandon(&mut self) {
        self.stop_steering().await;
        self.footprint.abandon().await;
    }

    async fn stop_steering(&self) {
        if let Err(error) = self.numbers.remove_all(&self.netlink).await {
            tracing::warn!(error = crate::error_chain(&error), "cannot remove routing rules or routes");
        }
    }

    async fn view(&self, site: &config::Site, peers: &Peers) -> Result<View, DaemonError> {
        let of_peers = peers.iter().flat_map(|peer| &peer.config.allowed_ips).map(|allowed| allowed.net());
        let own = site.addresses.iter().copied();
        let own = own.filter(|net| net.prefix_len() < net.max_prefix_len());
        let networks: BTreeSet<IpNet> = of_peers.chain(own).map(|net| net.trunc()).collect();
        let main = self.netlink.main_routes().await?;
        let is_near = |net: &IpNet| networks.iter().any(|own| own.prefix_len() > 0 && own.contains(net));
        let elsewhere = main.into_iter().filter(|route| route.interface != self.interface.index);
        let local = elsewhere.map(|route| route.destination.trunc()).filter(is_near).collect();
        let excluded = site.internet.exclude.iter().filter_map(|excluded| match excluded {
            Exclusion::Network(net) => Some(*net),
            Exclusion::Lan | Exclusion::User(_) | Exclusion::Cgroup(_) => None,
        });
        let excluded = excluded.collect();
        let mut view = View { tun: self.interface.index, networks, local, excluded, ..View::default() };
        for path in peers.paths().filter(|path| path.may_be_used()) {
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
        self.netlink.way_to(remote, self.numbers.mark.get(), interface).await
    }

    async fn link_name(&self, index: u32) -> String {
        self.netlink.link_state(index).await.ok().flatten().map(|state| state.name).unwrap_or_default()
    }

    /// Says once which networks of peers are not reached through the tunnel, and of uplinks that are in one of them.
    async fn say_what_is_hidden(&mut self, site: &config::Site, peers: &Peers) -> Result<(), DaemonError> {
        for net in self.view.hidden() {
            self.say(hidden(net).to_string());
        }
        let uplinks = self.uplinks().await?;
        let peers: Vec<_> = peers.iter().map(|peer| &peer.config).collect();
        for notice in of_uplinks(&self.netlink, &uplinks, site, &peers).await? {
            self.say(notice.to_string());
        }
        Ok(())
    }
}

impl Control {
    /// Does what follows from the network as it is.
    ///
    /// # Errors
    /// When something is missing that the site can't do without, and that cannot be made again.
    pub(super) async fn look_at_network(&mut self) -> Result<(), DaemonError> {
        self.network.look(&self.site, &self.peers, &self.plane).await?;
        self.names.ask_soon();
        self.match_uplinks().await;
        self.rest_without_address().await
    }
}

/// Where paths lead, and could.
pub(super) fn remotes(names: &Names, peers: &Peers) -> impl Iterator<Item = IpAddr> {
    let of_peer = |peer: &Peer| peer.config.endpoint.as_ref().and_then(Endpoint::socket_addr);
    let of_peers = peers.iter().filter_map(of_peer);
    let of_paths = peers.paths().map(|path| path.remote);
    names.addresses().copied().chain(of_peers).chain(of_paths).map(|remote| remote.ip())
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
