//! The paths of a peer, as the file has them now.

use std::collections::BTreeSet;
use std::time::Instant;

use psmc_core::PathError;
use psmc_wire::PathId;

use super::diff::PathChange;
use crate::config::{self, Name, PathSettings, Paths};
use crate::daemon::DaemonError;
use crate::daemon::control::Control;
use crate::daemon::paths::OpenPath;
use crate::daemon::peers::Peer;
use crate::daemon::settings::congestion_config;
use psmc_api::ReloadReport;

impl Control {
    /// Changes, ends and opens the paths of a peer, whose configuration was `before`. Paths that were added by hand and those
    /// over learned routes and beside others stay.
    pub(super) async fn apply_paths(
        &mut self,
        index: usize,
        before: &config::Peer,
        relays: &BTreeSet<Name>,
        report: &mut ReloadReport,
    ) -> Result<(), DaemonError> {
        bring_back(&mut self.peers[index], before);
        let peer = &self.peers[index];
        let name = peer.config.name.clone();
        let has_other_spares = before.spare_relays != peer.config.spare_relays;
        let mut changes = Vec::new();
        for path in peer.paths.iter().filter(|path| path.learned.is_none() && path.beside.is_none()) {
            let is_moved = path.settings.relays.iter().any(|relay| relays.contains(relay))
                || has_other_spares && path.keeper.is_some();
            let change = if is_moved { PathChange::Replace } else { change(peer, path, before) };
            changes.push((path.id, path.settings.name.clone(), change));
        }
        for (id, path, change) in changes {
            match change {
                PathChange::None => continue,
                PathChange::Tune => self.tune_path(index, id).await?,
                PathChange::Replace => self.end_path(index, id).await?,
            }
            report.changes.push(format!("path {path} of {name}"));
        }
        let open: BTreeSet<_> = self.names_of_paths(index);
        self.open_configured_paths(index).await;
        let new = self.names_of_paths(index);
        for path in new.difference(&open).filter(|path| !is_told(report, path, &name)).collect::<Vec<_>>() {
            report.changes.push(format!("path {path} of {name}"));
        }
        Ok(())
    }

    fn names_of_paths(&self, index: usize) -> BTreeSet<Name> {
        self.peers[index].paths.iter().map(|path| path.settings.name.clone()).collect()
    }

    /// Gives a path the weight, the tier and the rate that the file says.
    async fn tune_path(&mut self, index: usize, path: PathId) -> Result<(), DaemonError> {
        let Peer { id, config, paths, .. } = &mut self.peers[index];
        let id = *id;
        let Some(open) = paths.iter_mut().find(|open| open.id == path) else { return Ok(()) };
        let Some(now) = listed(&config.paths, &open.settings.name) else { return Ok(()) };
        open.settings = now.clone();
        let settings = open.settings.clone();
        self.quotas.arrange(&self.peers, None);
        let (tuning, congestion) = (self.quotas.tuning(&settings), congestion_config(settings.congestion));
        self.plane
            .post(move |plane| {
                // The peer may have removed it.
                let Some(mut path) = plane.path(id, path) else { return };
                path.reconfigure(tuning);
                path.set_congestion(congestion);
            })
            .await
    }

    /// Ends a path, which may be opened again in another way.
    pub(in crate::daemon) async fn end_path(
        &mut self,
        index: usize,
        path: PathId,
    ) -> Result<(), DaemonError> {
        let peer = &mut self.peers[index];
        let id = peer.id;
        peer.set_aside(path);
        let removed = self.plane.call(move |plane| {
            plane.site.peer(id).map(|peer| peer.path(path).and_then(|mut path| path.remove(Instant::now())))
        });
        // The peer may have removed it.
        debug_assert!(matches!(removed.await?, Ok(Ok(()) | Err(PathError::Closing | PathError::Unknown))));
        Ok(())
    }
}

/// What becomes of a path by what the file says now.
fn change(peer: &Peer, path: &OpenPath, before: &config::Peer) -> PathChange {
    let name = &path.settings.name;
    match (listed(&peer.config.paths, name), &peer.config.paths) {
        (Some(now), _) => PathChange::between(&path.settings, now),
        (None, _) if peer.by_hand.added.contains(name) => PathChange::None,
        (None, Paths::EveryUplink)
            if before.paths == Paths::EveryUplink
                && before.endpoint == peer.config.endpoint
                && before.transport == peer.config.transport =>
        {
            PathChange::None
        }
        (None, Paths::EveryUplink | Paths::Listed(_)) => PathChange::Replace,
    }
}

/// Paths that were removed by hand come back where the file says something new of them, and those that were added by hand are
/// the file's if it has them.
fn bring_back(peer: &mut Peer, before: &config::Peer) {
    let Peer { config, removed, by_hand, .. } = peer;
    removed.retain(|name| listed(&before.paths, name) == listed(&config.paths, name));
    by_hand.added.retain(|name| listed(&config.paths, name).is_none());
}

fn listed<'a>(paths: &'a Paths, name: &Name) -> Option<&'a PathSettings> {
    match paths {
        Paths::Listed(paths) => paths.iter().find(|path| path.name == *name),
        Paths::EveryUplink => None,
    }
}

fn is_told(report: &ReloadReport, path: &Name, peer: &Name) -> bool {
    report.changes.contains(&format!("path {path} of {peer}"))
}
