//! What people ask over the local control socket.

use std::time::Instant;

use psmc_core::{PathError, PeerError};
use psmc_wire::PathId;

use super::DaemonError;
use super::control::Control;
use super::paths::OpenError;
use super::settings::congestion_config;
use crate::api::{Call, PathSpec, PeerPaths, RateLimit, Request, Response, WantedState};
use crate::config::{PathCongestion, Scheduler};

impl Control {
    /// Answers a request.
    pub(super) async fn on_call(&mut self, call: Call) -> Result<(), DaemonError> {
        let response = self.answer(call.request().clone()).await?;
        call.respond(response);
        Ok(())
    }

    async fn answer(&mut self, request: Request) -> Result<Response, DaemonError> {
        Ok(match request {
            Request::Status => Response::Status(Box::new(self.status().await?)),
            Request::PathList { peer } => match self.list_paths(peer.as_deref()).await? {
                Ok(paths) => Response::Paths(paths),
                Err(refusal) => refusal,
            },
            Request::PathAdd { peer, path } => self.add_path(&peer, &path).await?,
            Request::PathRemove { peer, path } => match self.find_peer(&peer) {
                Ok(index) => done(self.close_path(index, &path).await)?,
                Err(refusal) => refusal,
            },
            Request::PathSet { peer, path, weight, max_rate, state, congestion } => {
                let congestion = congestion.map(|name| RateLimit::congestion(max_rate, &name)).transpose();
                match (self.find_peer(&peer), congestion) {
                    (Ok(index), Ok(congestion)) => {
                        done(self.set_path(index, path, (weight, max_rate), state, congestion).await)?
                    }
                    (Err(refusal), _) => refusal,
                    (Ok(_), Err(error)) => Response::error(crate::error_chain(&error)),
                }
            }
            Request::PeerSet { peer, scheduler } => match (self.find_peer(&peer), scheduler.parse()) {
                (Ok(index), Ok(scheduler)) => done(self.set_scheduler(index, scheduler).await)?,
                (Err(refusal), _) => refusal,
                (Ok(_), Err(error)) => Response::error(crate::error_chain(&error)),
            },
            Request::PeerAdd { .. }
            | Request::PeerRemove { .. }
            | Request::PeerWait { .. }
            | Request::RoutesSet { .. }
            | Request::RoutesClear { .. }
            | Request::RoutesList { .. }
            | Request::RegisterSet { .. }
            | Request::RegisterList => {
                Response::error("this version of psmcd cannot do that; install a newer one")
            }
        })
    }

    async fn set_scheduler(&mut self, peer: usize, scheduler: Scheduler) -> Result<(), OpenError> {
        let (id, kind) = (self.peers[peer].id, scheduler.kind());
        let changed = self.plane.call(move |plane| plane.site.set_scheduler(id, kind)).await?;
        self.peers[peer].config.treatment.scheduler = scheduler;
        Ok(changed?)
    }

    fn find_peer(&self, name: &str) -> Result<usize, Response> {
        let found = self.peers.iter().position(|peer| peer.config.name.as_str() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self.peers.iter().map(|peer| peer.config.name.as_str()).collect();
            Response::error(format!("there is no peer `{name}`; this site has: {}", names.join(", ")))
        })
    }

    async fn list_paths(&self, peer: Option<&str>) -> Result<Result<Vec<PeerPaths>, Response>, DaemonError> {
        if let Some(Err(refusal)) = peer.map(|name| self.find_peer(name)) {
            return Ok(Err(refusal));
        }
        let status = self.status().await?;
        let wanted = status.peers.into_iter().filter(|status| peer.is_none_or(|name| status.name == name));
        Ok(Ok(wanted.map(|status| PeerPaths { peer: status.name, paths: status.paths }).collect()))
    }

    async fn add_path(&mut self, peer: &str, spec: &PathSpec) -> Result<Response, DaemonError> {
        let index = match self.find_peer(peer) {
            Ok(index) => index,
            Err(refusal) => return Ok(refusal),
        };
        match spec.settings(self.peers[index].config.endpoint.as_ref()) {
            Ok(settings) => done(self.open_path(index, settings).await),
            Err(error) => Ok(Response::error(crate::error_chain(&error))),
        }
    }

    async fn set_path(
        &mut self,
        peer: usize,
        name: String,
        (weight, max_rate): (Option<u16>, Option<RateLimit>),
        state: Option<WantedState>,
        congestion: Option<PathCongestion>,
    ) -> Result<(), OpenError> {
        let id = self.peers[peer].id;
        let max_rate = max_rate.map(|limit| match limit {
            RateLimit::None => None,
            RateLimit::BitsPerSecond(bits) => Some(bits),
        });
        let changed = self.plane.call(move |plane| {
            let site = &mut plane.site;
            let path: PathId = site.path_by_name(id, &name).ok_or(PathError::Unknown)?;
            site.reconfigure_path(id, path, weight, max_rate)?;
            if let Some(congestion) = congestion {
                site.set_congestion(id, path, congestion_config(congestion))?;
            }
            match state {
                Some(state) => site.set_standby(id, path, state == WantedState::Standby, Instant::now()),
                None => Ok(()),
            }
        });
        let changed: Result<(), PeerError> = changed.await?;
        Ok(changed?)
    }
}

/// Turns what can be told into a response; only what ends the daemon stays an error.
fn done(result: Result<(), OpenError>) -> Result<Response, DaemonError> {
    match result {
        Ok(()) => Ok(Response::Ok),
        Err(OpenError::Daemon(error)) => Err(error),
        Err(error) => Ok(Response::error(crate::error_chain(&error))),
    }
}
