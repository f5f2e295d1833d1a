//! Carries out what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use psmc_core::PeerId;
use psmc_net::keys::PublicKey;
use tokio::task::yield_now;

use super::diff::{changed_relays, changed_settings, needs_restart};
use crate::config::{self, Config, Name, Tcp};
use crate::daemon::DaemonError;
use crate::daemon::control::Control;
use crate::daemon::peers::{EnterError, Peer};
use crate::daemon::requests::Refusal;
use crate::daemon::settings::{classes, peer_config};
use crate::daemon::splits::splits_any;
use psmc_api::{ReloadReport, Response};

/// The peers before and after.
struct Plan {
    /// Those that the file does not have any more, or has with another key.
    removed: Vec<PeerId>,
    /// Those that stay, with what the file says of them.
    kept: Vec<(PeerId, config::Peer)>,
    /// Those that are new.
    new: Vec<config::Peer>,
}

impl Control {
    /// Applies another configuration, all of it or, if it does not agree with what was added while the site runs, nothing.
    pub(super) async fn apply(&mut self, config: Config) -> Result<ReloadReport, Refusal> {
        self.check_added_peers(&config)?;
        let treatments = config.peers.iter().map(|peer| peer.treatment).chain([config.site.treatment]);
        let ends_tcp =
            splits_any(&config.site.classes) || treatments.into_iter().any(|one| one.tcp == Tcp::Split);
        match self.end_tcp_if(ends_tcp).await {
            // The tunnel goes on as it is.
            Err(error @ DaemonError::Stack(_)) => return Err(Refusal::of(&error)),
            other => other?,
        }
        let mut report =
            ReloadReport { restart: needs_restart(&self.site, &config.site), ..ReloadReport::default() };
        let relays = changed_relays((self.relays.known(), self.relays.tunnel_ends()), &config);
        let Config { site, peers, relays: known, tunnel_ends, invitations } = config;
        if self.invitations.replace(invitations) {
            report.changes.push("invitations".to_owned());
        }
        self.relays.replace(known, tunnel_ends);
        report.changes.extend(relays.iter().map(|name| format!("relay {name}")));
        self.apply_site(site, &relays, &mut report).await?;
        let plan = self.plan(peers);
        self.apply_peers(plan, &relays, &mut report).await?;
        report.kept.extend(self.added_by_hand());
        Ok(report)
    }

    /// Peers that were added while the site runs must not get into the way of those of the file.
    fn check_added_peers(&self, config: &Config) -> Result<(), Refusal> {
        let added = self.peers.iter().filter(|peer| peer.is_added).map(|peer| &peer.config);
        for peer in added {
            if config.peers.iter().any(|other| identity(other) == identity(peer)) {
                continue;
            }
            let clashes = |other: &&config::Peer| {
                other.name == peer.name
                    || other.public_key == peer.public_key
                    || other.allowed_ips.iter().any(|net| peer.allowed_ips.contains(net))
            };
            if let Some(other) = config.peers.iter().find(clashes) {
                let (name, other) = (&peer.name, &other.name);
                return Err(Response::error(format!(
                    "the peer `{name}`, which was added while psmcd runs, has the name, the key or a network of the peer \
                     `{other}` in the file: remove the one that was added with `psmc peer remove {name}`, or change the file"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// What concerns the site as a whole and needs no restart.
    async fn apply_site(
        &mut self,
        now: config::Site,
        relays: &BTreeSet<Name>,
        report: &mut ReloadReport,
    ) -> Result<(), DaemonError> {
        let mut note = |what: &str, is_changed: bool| {
            if is_changed {
                report.changes.push(what.to_owned());
            }
            is_changed
        };
        if note("classes", self.site.classes != now.classes) {
            let classes = classes(&now.classes);
            self.plane.post(move |plane| plane.site.set_classes(classes)).await?;
        }
        if note("clamp_mss", self.site.clamp_mss != now.clamp_mss) {
            let clamp_mss = now.clamp_mss;
            self.plane.post(move |plane| plane.site.set_clamp_mss(clamp_mss)).await?;
        }
        if note("unresponsive", self.site.unresponsive != now.unresponsive) {
            let police = now.unresponsive;
            self.plane.post(move |plane| plane.site.set_police(police)).await?;
        }
        if note("grants_file", self.site.grants_file != now.grants_file) {
            self.relays.grants().set_file(now.grants_file.clone());
        }
        note("register", self.site.register != now.register);
        note("endpoint", self.site.endpoint != now.endpoint);
        let is_speedtest_changed = note("speedtest", self.site.speedtest != now.speedtest);
        let is_reflector_changed = self.site.sla.reflector != now.sla.reflector;
        let is_export_changed = note("ipfix", self.site.sla.ipfix != now.sla.ipfix);
        let are_targets_changed = note("sla.target", self.site.sla.promises != now.sla.promises)
            | note("sla.coordinator", self.site.sla.coordinators != now.sla.coordinators);
        note("portal_check", self.site.portal_check != now.portal_check);
        note("networks", self.site.networks != now.networks);
        let (before, internet) = (&self.site.internet, &now.internet);
        note("internet", before.is_offered != internet.is_offered);
        note("dns", before.dns != internet.dns);
        note("kill_switch", before.kill_switch != internet.kill_switch);
        note("exclude", before.exclude != internet.exclude);
        let site = &mut self.site;
        (site.classes, site.clamp_mss, site.grants_file) = (now.classes, now.clamp_mss, now.grants_file);
        (site.register, site.treatment, site.portal_check) = (now.register, now.treatment, now.portal_check);
        (site.endpoint, site.networks, site.internet) = (now.endpoint, now.networks, now.internet);
        (site.speedtest, site.sla, site.unresponsive) = (now.speedtest, now.sla, now.unresponsive);
        if is_speedtest_changed {
            self.allow_speedtests();
        }
        if is_export_changed {
            self.allow_export().await?;
        }
        if are_targets_changed {
            self.watch_targets();
        }
        if is_reflector_changed {
            let allowed = self.reflection.allow(self.site.sla.reflector.as_ref()).await;
            let failed =
                |error| format!("reflector (nobody is answered: {})", psmc_service::error_chain(&error));
            report.changes.push(allowed.map_or_else(failed, |()| "reflector".to_owned()));
        }
        self.relays.register(&self.site.register, relays, &mut self.tasks);
        Ok(())
    }

    fn plan(&self, peers: Vec<config::Peer>) -> Plan {
        let wanted: BTreeSet<_> = peers.iter().map(identity).collect();
        let is_gone = |peer: &&Peer| !peer.is_added && !wanted.contains(&identity(&peer.config));
        let removed = self.peers.iter().filter(is_gone).map(|peer| peer.id).collect();
        let known: BTreeMap<_, _> = self.peers.iter().map(|peer| (identity(&peer.config), peer.id)).collect();
        let (mut kept, mut new) = (Vec::new(), Vec::new());
        for now in peers {
            match known.get(&identity(&now)) {
                Some(&id) => kept.push((id, now)),
                None => new.push(now),
            }
        }
        Plan { removed, kept, new }
    }

    async fn apply_peers(
        &mut self,
        Plan { removed, kept, new }: Plan,
        relays: &BTreeSet<Name>,
        report: &mut ReloadReport,
    ) -> Result<(), Refusal> {
        for id in removed {
            let Some(index) = self.peers.index_of(id) else { continue };
            report.changes.push(format!("peer {} removed", self.peers[index].config.name));
            self.drop_peer(index).await?;
        }
        let prefixes: Vec<_> = kept
            .iter()
            .map(|(id, peer)| {
                let networks: Vec<_> = peer.allowed_ips.iter().map(|allowed| allowed.net()).collect();
                (*id, networks, peer.gateway.priority)
            })
            .collect();
        let moved = self.plane.call(move |plane| plane.site.set_allowed_ips(&prefixes)).await?;
        moved.map_err(|error| Refusal::of(&error))?;
        let places: BTreeMap<_, _> =
            (0..).zip(self.peers.iter()).map(|(index, peer)| (peer.id, index)).collect();
        for (id, now) in kept {
            if let Some(&index) = places.get(&id) {
                self.apply_peer(index, now, relays, report).await?;
            }
            // Thousands of them take their time.
            yield_now().await;
        }
        for peer in new {
            self.enter_new_peer(peer, report).await?;
        }
        // Routes change when all peers are what they are to be: none is away in between, so that nothing leaves beside the tunnel.
        self.network.steer_now(&self.site, &self.peers).await;
        self.network.match_host(&self.site).await?;
        Ok(())
    }

    async fn enter_new_peer(&mut self, peer: config::Peer, report: &mut ReloadReport) -> Result<(), Refusal> {
        let name = peer.name.clone();
        match self.enter_peer(peer, false).await {
            Ok(()) => {}
            Err(EnterError::Daemon(error)) => return Err(error.into()),
            Err(error) => {
                report.changes.push(format!("peer {name} cannot be added: {}", crate::error_chain(&error)));
                return Ok(());
            }
        }
        report.changes.push(format!("peer {name} added"));
        self.open_configured_paths(self.peers.len() - 1).await;
        Ok(())
    }

    /// What the file says of a peer that it had before.
    async fn apply_peer(
        &mut self,
        index: usize,
        now: config::Peer,
        relays: &BTreeSet<Name>,
        report: &mut ReloadReport,
    ) -> Result<(), DaemonError> {
        let peer = &mut self.peers[index];
        let id = peer.id;
        peer.is_added = false;
        let before = std::mem::replace(&mut peer.config, now);
        let settings = changed_settings(&before, &peer.config);
        if before.treatment.scheduler != peer.config.treatment.scheduler {
            peer.by_hand.scheduler = None;
        }
        if !settings.is_empty() {
            report.changes.push(format!("peer {}: {}", peer.config.name, settings.join(", ")));
            let mut engine = peer_config(&peer.config, self.identity.public());
            if let Some(scheduler) = peer.by_hand.scheduler {
                engine.scheduler = scheduler;
            }
            let changed = self
                .plane
                .call(move |plane| {
                    plane.site.peer(id).map(|mut peer| peer.reconfigure(engine, Instant::now()))
                })
                .await?;
            // It is there: only this side removes peers.
            debug_assert!(changed.is_ok());
            let spares = self.relays.spares(&self.peers[index].config);
            self.peers[index].spares = spares;
        }
        self.apply_paths(index, &before, relays, report).await?;
        if before.endpoint != self.peers[index].config.endpoint && self.peers[index].config.endpoint.is_some()
        {
            self.dial_anew(id).await?;
        }
        Ok(())
    }

    /// What was changed by hand and stays.
    fn added_by_hand(&self) -> Vec<String> {
        let mut kept = Vec::new();
        for peer in self.peers.iter() {
            let name = &peer.config.name;
            if peer.is_added {
                kept.push(format!("peer {name}, added at run time"));
            }
            kept.extend(
                peer.by_hand.added.iter().map(|path| format!("path {path} of {name}, added at run time")),
            );
            if let Some(scheduler) = peer.by_hand.scheduler {
                kept.push(format!("scheduler {} of {name}, set at run time", scheduler.name()));
            }
            let is_listed = |path: &&Name| lists(&peer.config.paths, path);
            let removed = peer.removed.iter().filter(is_listed);
            kept.extend(removed.map(|path| format!("path {path} of {name}, removed at run time")));
        }
        kept
    }
}

fn lists(paths: &config::Paths, name: &Name) -> bool {
    match paths {
        config::Paths::Listed(paths) => paths.iter().any(|path| path.name == *name),
        config::Paths::EveryUplink => false,
    }
}

/// What makes a peer the one that it is. One with another key is somebody else.
fn identity(peer: &config::Peer) -> (&Name, PublicKey) {
    (&peer.name, peer.public_key)
}
