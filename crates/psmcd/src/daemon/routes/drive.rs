//! Carries out what the policy decides.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use psmc_core::PeerStatus;
use psmc_service::clock::unix_seconds;
use psmc_wire::PathId;

use super::policy::Way;
use super::set::{self, LearnedSet, Wanted};
use crate::config::{PathSettings, Paths, RoutePolicy, ValueError};
use crate::daemon::DaemonError;
use crate::daemon::control::Control;
use crate::daemon::paths::{OpenError, OpenPath, uplink_settings};
use crate::daemon::relays::GrantsFor;
use psmc_api::{Carrier, PeerRoutes, RouteSpec, RouteStatus, RoutesStatus};

/// Direct paths are probed this often while there are others: even where hardly anything is sent a flood shows at once.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// And this often, under scrutiny, while others carry the data: some hundred probes tell in six seconds whether it is
/// over, or only pauses.
const TRIAL_INTERVAL: Duration = Duration::from_millis(50);

/// Uplinks may have come, and paths that could not be opened are tried again, after this time.
const MATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A set of routes as a client gives it.
pub(in crate::daemon) struct NewRoutes {
    pub(in crate::daemon) routes: Vec<RouteSpec>,
    pub(in crate::daemon) expires: u64,
    pub(in crate::daemon) serial: u64,
    pub(in crate::daemon) policy: Option<RoutePolicy>,
    pub(in crate::daemon) grants: Vec<String>,
}

impl Control {
    /// Replaces the routes that were learned before.
    pub(in crate::daemon) fn set_routes(&mut self, peer: usize, new: NewRoutes) -> Result<(), ValueError> {
        let last = &mut self.peers[peer];
        if let Some(serial) = last.routes.serial.filter(|&serial| new.serial < serial) {
            let reason = format!("the set has the serial {}, and one with {serial} came before", new.serial);
            return Err(ValueError::new(reason, "get the newest set; an old one may have been replayed"));
        }
        let set = LearnedSet::new(
            &new.routes,
            last.config.public_key,
            self.relays.known(),
            (new.expires, unix_seconds()),
        )?;
        self.relays.grants().put(GrantsFor::Routes(last.id), &new.grants)?;
        tracing::info!(peer = %last.config.name, routes = set.relays.len(), serial = new.serial, "routes learned");
        let routes = &mut last.routes;
        (routes.set, routes.serial, routes.policy) = (Some(set), Some(new.serial), new.policy);
        routes.left_out.clear();
        routes.match_at = None;
        self.routes.look_soon();
        Ok(())
    }

    /// Ends the learned routes to a peer.
    pub(in crate::daemon) fn clear_routes(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        if peer.routes.set.take().is_some() {
            tracing::info!(peer = %peer.config.name, "no learned routes left");
        }
        peer.routes.policy = None;
        peer.routes.match_at = None;
        peer.routes.watch(Instant::now());
        self.relays.grants().forget(GrantsFor::Routes(peer.id));
        self.routes.look_soon();
    }

    /// Looks at the paths of peers for which there are learned routes, or somebody waits, and does what is to be done.
    pub(in crate::daemon) async fn look_at_routes(&mut self) -> Result<(), DaemonError> {
        let now = Instant::now();
        let watched = self.peers.iter().filter(|peer| peer.routes.is_watched(now));
        let ids: Vec<_> = watched.map(|peer| peer.id).collect();
        let asked = ids.clone();
        let statuses = self.plane.call(move |plane| {
            let status = |id| plane.site.status(id);
            asked.into_iter().map(status).collect::<Vec<_>>()
        });
        for (id, status) in ids.into_iter().zip(statuses.await?) {
            if let (Some(index), Some(status)) = (self.peers.index_of(id), status) {
                self.look_at_peer(index, &status, now).await?;
            }
        }
        self.routes.answer(&self.peers, now);
        Ok(())
    }

    async fn look_at_peer(
        &mut self,
        index: usize,
        status: &PeerStatus,
        now: Instant,
    ) -> Result<(), DaemonError> {
        let peer = &mut self.peers[index];
        let is_over = |set: &LearnedSet| set.expires_s <= unix_seconds();
        let before = peer.routes.judge.plan();
        let learned = learned(&peer.paths);
        let policy = peer.config.routes.unwrap_or_default();
        peer.routes.look(policy, &learned, status, now);
        let (id, plan) = (peer.id, peer.routes.judge.plan());
        let is_other_way = plan.way != before.way;
        if plan != before {
            peer.routes.match_at = None;
        }
        if is_other_way {
            let way = plan.way;
            let direct_well = peer.routes.state.direct_well;
            tracing::info!(peer = %peer.config.name, ?way, direct_well, "switched paths");
        }
        if peer.routes.set.as_ref().is_some_and(is_over) {
            tracing::info!(peer = %peer.config.name, "the learned routes have expired");
            self.clear_routes(index);
        }
        let has_opened = self.match_paths(index, now).await?;
        self.ask_paths(index, status).await?;
        // What the peer has to know of new paths does not reach it on a connection over a way that is ill.
        let routes = &self.peers[index].routes;
        let is_stranded = status.connected_since.is_none() || !routes.state.direct_well;
        if (has_opened && is_stranded) || (is_other_way && plan.way == Way::Learned) {
            self.dial_anew(id).await?;
        }
        Ok(())
    }

    /// Opens the paths that the routes ask for, and closes others. Says whether any was opened.
    async fn match_paths(&mut self, index: usize, now: Instant) -> Result<bool, DaemonError> {
        let routes = &mut self.peers[index].routes;
        if routes.match_at.is_some_and(|at| now < at) {
            return Ok(false);
        }
        routes.match_at = Some(now + MATCH_INTERVAL);
        let wanted = self.wanted_over_routes(index).await?;
        let peer = &self.peers[index];
        let is_wanted = |path: &&OpenPath| {
            let relay = path.learned.as_ref();
            relay.is_none_or(|relay| wanted.iter().any(|wanted| wanted.is(relay, &path.settings)))
        };
        let unwanted: Vec<_> =
            peer.paths.iter().filter(|path| !is_wanted(path)).map(|path| path.id).collect();
        for path in unwanted {
            self.end_learned_path(index, path).await?;
        }
        let peer = &self.peers[index];
        let is_open = |wanted: &Wanted| {
            peer.paths
                .iter()
                .any(|path| path.learned.as_ref().is_some_and(|relay| wanted.is(relay, &path.settings)))
        };
        let missing: Vec<_> = wanted.into_iter().filter(|wanted| !is_open(wanted)).collect();
        let mut has_opened = false;
        for wanted in missing {
            let relay = wanted.relay.name.clone();
            match self.open_learned_path(index, wanted).await {
                Ok(()) => has_opened = true,
                Err(OpenError::Daemon(error)) => return Err(error),
                Err(error) => {
                    let peer = &self.peers[index];
                    let error = crate::error_chain(&error);
                    tracing::warn!(peer = %peer.config.name, %relay, error, "cannot open a path over a learned route");
                }
            }
        }
        Ok(has_opened)
    }

    /// The paths over learned routes that there should be now.
    async fn wanted_over_routes(&self, index: usize) -> Result<Vec<Wanted>, DaemonError> {
        let peer = &self.peers[index];
        let Some(set) = peer.routes.set.as_ref().filter(|_| peer.routes.judge.plan().set_up) else {
            return Ok(Vec::new());
        };
        let mut uplinks = match &peer.config.paths {
            Paths::Listed(paths) => set::uplinks(paths),
            Paths::EveryUplink => uplink_settings(&self.network.uplinks().await?),
        };
        if uplinks.is_empty() {
            uplinks.push(PathSettings::plain(peer.config.name.clone()));
        }
        let left_out = &peer.routes.left_out;
        let is_left_out =
            |wanted: &Wanted| left_out.iter().any(|path| wanted.is(&path.relay, &path.settings));
        Ok(set::wanted(set, &uplinks).into_iter().filter(|wanted| !is_left_out(wanted)).collect())
    }

    async fn open_learned_path(&mut self, index: usize, wanted: Wanted) -> Result<(), OpenError> {
        let peer = &self.peers[index];
        let is_taken = |name: &str| {
            let listed = match &peer.config.paths {
                Paths::Listed(paths) => paths.iter().any(|path| path.name.as_str() == name),
                Paths::EveryUplink => false,
            };
            listed || peer.path_named(name).is_some()
        };
        let Some(name) = set::free_name(is_taken) else { return Ok(()) };
        let Wanted { relay, settings } = wanted;
        self.open_path_over(index, PathSettings { name, ..settings }, relay).await
    }

    /// Whether data to a peer go over a new path as soon as the relay says that it leads there.
    pub(in crate::daemon) fn believes_relays(&self, peer: usize) -> bool {
        let peer = &self.peers[peer];
        peer.routes.believe_relays(peer.config.routes.unwrap_or_default())
    }

    async fn end_learned_path(&mut self, index: usize, path: PathId) -> Result<(), DaemonError> {
        let peer = &mut self.peers[index];
        let id = peer.id;
        peer.set_aside(path);
        self.plane
            .post(move |plane| {
                // It may have been removed by the peer already.
                if let Some(mut path) = plane.path(id, path) {
                    let _ = path.remove(Instant::now());
                }
            })
            .await
    }

    /// Asks of the paths what the plan wants, if that is something else than before.
    async fn ask_paths(&mut self, index: usize, status: &PeerStatus) -> Result<(), DaemonError> {
        let peer = &mut self.peers[index];
        let learned = learned(&peer.paths);
        let wishes = peer.routes.wishes(&learned, &peer.on_standby, status);
        let has_none = learned.is_empty() && peer.routes.asked.is_empty();
        if wishes == peer.routes.asked || has_none {
            return Ok(());
        }
        peer.routes.asked.clone_from(&wishes);
        if learned.is_empty() && peer.routes.way() == Way::Direct {
            // Once more as they were, and then nothing is asked of them any more.
            peer.routes.asked.clear();
        }
        let id = peer.id;
        let keepalive = peer.config.keepalive;
        let is_tried = !learned.is_empty() && peer.routes.way() == Way::Learned;
        let interval = match (learned.is_empty(), is_tried) {
            (true, _) => keepalive,
            (false, false) => PROBE_INTERVAL,
            (false, true) => TRIAL_INTERVAL,
        };
        self.plane
            .post(move |plane| {
                let now = Instant::now();
                for (path, standby) in wishes {
                    let is_learned = learned.contains(&path);
                    let Some(mut path) = plane.path(id, path) else { continue };
                    // One that is being removed has no use for it.
                    let _ = path.set_standby(standby, now);
                    path.set_keepalive(if is_learned { keepalive } else { interval });
                    path.set_scrutiny(is_tried && !is_learned);
                }
            })
            .await
    }

    /// What is known of learned routes, of one peer or of all.
    pub(in crate::daemon) fn learned_routes(&self, only: Option<&str>) -> Vec<PeerRoutes> {
        let peers = self.peers.iter().enumerate();
        let wanted = peers.filter(|(_, peer)| only.is_none_or(|name| peer.config.name.as_str() == name));
        wanted
            .map(|(index, peer)| PeerRoutes {
                peer: peer.config.name.to_string(),
                routes: self.routes_status(index),
            })
            .collect()
    }

    pub(in crate::daemon) fn routes_status(&self, index: usize) -> RoutesStatus {
        let peer = &self.peers[index];
        let routes = &peer.routes;
        let over = |relay: &crate::config::Relay| {
            let paths = peer.paths.iter().filter(|path| path.learned.as_ref() == Some(relay));
            paths.map(|path| path.settings.name.to_string()).collect()
        };
        let now = Instant::now();
        let failed = |relay: &crate::config::Relay| {
            let paths = peer.paths.iter().filter(|path| path.learned.as_ref() == Some(relay));
            routes.failing.reason(paths.map(|path| path.id), now).map(str::to_owned)
        };
        let relays = routes.set.iter().flat_map(|set| &set.relays);
        RoutesStatus {
            policy: routes.policy.or(peer.config.routes).unwrap_or_default().to_string(),
            serial: routes.serial,
            expires: routes.set.as_ref().map(|set| set.expires_s),
            carrier: match routes.way() {
                Way::Direct => Carrier::Direct,
                Way::Learned => Carrier::Learned,
            },
            direct_well: routes.state.direct_well,
            routes: relays
                .map(|relay| RouteStatus {
                    relay: relay.name.to_string(),
                    address: relay.address.to_string(),
                    public_key: relay.public_key.to_string(),
                    paths: over(relay),
                    failed: failed(relay),
                })
                .collect(),
        }
    }
}

fn learned(paths: &[OpenPath]) -> BTreeSet<PathId> {
    paths.iter().filter(|path| path.learned.is_some()).map(|path| path.id).collect()
}
