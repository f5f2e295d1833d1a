//! What people and programs ask over the local control socket.

use std::time::{Duration, Instant};

use psmc_core::{Direction, PathTuning, PeerError, SchedulerKind, TcpFlow, Tier};
use psmc_service::logging;
use psmc_wire::PathId;
use psmc_wire::control::{Probe, ProbeStep};
use psmc_wire::probe::ProbeTokens;

use super::DaemonError;
use super::control::Control;
use super::paths::OpenError;
use super::routes::NewRoutes;
use super::settings::congestion_config;
use super::specs;
use super::why::Why;
use crate::config::{
    DIRECTION, Endpoint, PathCongestion, PathSettings, Rate, SCHEDULER, TIER, ValueError, Weight,
};
use psmc_api::{
    Call, FlowPin, MAX_WAIT, NatProbe, NatProbeStep, PathSpec, PeerPaths, Request, Response, WantedState,
};

/// Why something that was asked for is not done.
pub(super) enum Refusal {
    /// It is told why.
    Said(Response),
    /// It is told when this name is known.
    Later(Endpoint),
    /// The daemon is ending.
    Ends(DaemonError),
}

impl Refusal {
    /// The one that tells of an error.
    pub(super) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Said(Response::error(crate::error_chain(error)))
    }
}

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self::Said(response)
    }
}

impl From<ValueError> for Refusal {
    fn from(error: ValueError) -> Self {
        Self::of(&error)
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        if let OpenError::Resolving(endpoint) = error {
            return Self::Later(endpoint);
        }
        if let OpenError::Daemon(error) = error { Self::Ends(error) } else { Self::of(&error) }
    }
}

/// What of a path's settings becomes another one; the rest stays.
#[derive(Clone, Copy, Debug)]
struct SettingsChange {
    weight: Option<Weight>,
    max_rate: Option<Option<Rate>>,
    tier: Option<Tier>,
    direction: Option<Direction>,
    congestion: Option<PathCongestion>,
}

impl SettingsChange {
    fn apply(self, settings: &mut PathSettings) {
        settings.weight = self.weight.unwrap_or(settings.weight);
        settings.max_rate = self.max_rate.unwrap_or(settings.max_rate);
        settings.tier = self.tier.unwrap_or(settings.tier);
        settings.direction = self.direction.unwrap_or(settings.direction);
        settings.congestion = self.congestion.unwrap_or(settings.congestion);
    }
}

impl Control {
    /// Answers a request, or has it answered later.
    pub(super) async fn on_call(&mut self, call: Call) -> Result<(), DaemonError> {
        if let Request::PeerWait { peer, until, .. } = call.request().clone() {
            self.routes.wait(call, &peer, until, &mut self.peers);
            return Ok(());
        }
        if let Request::Ping { peer, .. } = call.request().clone() {
            return self.ping(call, &peer).await;
        }
        if *call.request() == Request::Reload {
            self.reread(Some(call));
            return Ok(());
        }
        let response = match self.answer(call.request().clone()).await {
            Ok(response) | Err(Refusal::Said(response)) => response,
            Err(Refusal::Later(endpoint)) => {
                self.names.answer_when_resolved(call, endpoint);
                return Ok(());
            }
            Err(Refusal::Ends(error)) => return Err(error),
        };
        call.respond(response);
        Ok(())
    }

    async fn answer(&mut self, request: Request) -> Result<Response, Refusal> {
        match request {
            Request::Status => return Ok(Response::Status(Box::new(self.status().await?))),
            Request::PathList { peer } => return self.list_paths(peer.as_deref()).await,
            Request::Sla => return Ok(Response::Sla(self.slas.statuses(Instant::now()))),
            Request::Flows => return self.flows().await.map_err(Refusal::Ends),
            Request::Shed(spec) => return self.shed(spec).await,
            Request::Segments { peer } => return Ok(self.segments(peer.as_deref())?),
            Request::PathAdd { peer, path } => return self.add_path(&peer, &path).await,
            Request::PathRemove { peer, path } => self.close_path(self.peers.find(&peer)?, &path).await?,
            Request::PathSet { peer, path, weight, max_rate, tier, direction, state, congestion } => {
                let change = SettingsChange {
                    congestion: congestion.map(|name| specs::congestion(max_rate, &name)).transpose()?,
                    weight: weight.map(|weight| weight.to_string().parse()).transpose()?,
                    max_rate: max_rate.map(specs::rate).transpose()?,
                    tier: tier.map(|name| TIER.read(&name)).transpose()?,
                    direction: direction.map(|name| DIRECTION.read(&name)).transpose()?,
                };
                let index = self.peers.find(&peer)?;
                self.set_path(index, path, change, state).await?;
            }
            Request::PathQuota { peer, path, used_bytes } => {
                return self.correct_quota(self.peers.find(&peer)?, &path, used_bytes).await;
            }
            Request::PeerSet { peer, scheduler } => {
                self.set_scheduler(self.peers.find(&peer)?, SCHEDULER.read(&scheduler)?).await?;
            }
            Request::CaptureStart(spec) => self.start_capture(&spec).await?,
            Request::CaptureNext => return Ok(Response::Captured(self.next_captured().await?)),
            Request::CaptureStop => self.stop_capture().await.map_err(Refusal::Ends)?,
            Request::NatProbe(probe) => self.ask_about_nat(&probe).await?,
            Request::FlowPin(pin) => self.pin_flow(&pin).await?,
            Request::PeerAdd(peer) => self.add_new_peer(&peer).await?,
            Request::PeerRemove { name } => self.remove_added_peer(self.peers.find(&name)?).await?,
            Request::PeerWait { .. } | Request::Ping { .. } | Request::Reload => {
                unreachable!("they are answered later")
            }
            Request::RoutesSet { peer, routes, expires, serial, policy, grants } => {
                let index = self.peers.find(&peer)?;
                let policy = policy.map(|name| name.parse()).transpose()?;
                self.set_routes(index, NewRoutes { routes, expires, serial, policy, grants })?;
            }
            Request::RoutesClear { peer } => self.clear_routes(self.peers.find(&peer)?),
            Request::RoutesList { peer } => {
                peer.as_deref().map(|name| self.peers.find(name)).transpose()?;
                return Ok(Response::Routes(self.learned_routes(peer.as_deref())));
            }
            Request::RegisterSet { relays, grants } => {
                let Self { relays: owner, site, sockets, tasks, .. } = self;
                owner.set_registrations((&relays, &grants), &site.register, sockets, tasks)?;
            }
            Request::Log { filter } => {
                logging::set_filter(filter.as_deref()).map_err(|error| Refusal::of(&error))?;
                tracing::info!(filter = filter.as_deref().unwrap_or("as at the start"), "log filter changed");
            }
            Request::Additions => return Ok(Response::Additions(self.additions())),
            Request::RegisterList => return Ok(Response::Registrations(self.relays.registration_statuses())),
        }
        Ok(Response::Ok)
    }

    /// Keeps a connection that a client has through the tunnel on one path, for a while.
    async fn pin_flow(&self, pin: &FlowPin) -> Result<(), Refusal> {
        let (peer, path) = (self.peers[self.peers.find(&pin.peer)?].id, pin.path.clone());
        let flow = TcpFlow { source: pin.source, destination: pin.destination };
        let time = Duration::from_millis(pin.timeout_ms).min(MAX_WAIT);
        let pinned = self.plane.call(move |plane| {
            let now = Instant::now();
            let id = plane.site.peer(peer)?.path_named(&path)?.id();
            Ok(plane.site.peer(peer)?.pin(flow, id, now + time, now)?)
        });
        let pinned: Result<(), PeerError> = pinned.await.map_err(Refusal::Ends)?;
        pinned.map_err(|error| Refusal::of(&error))
    }

    /// Asks a peer to answer what a client asks it from a socket of its own.
    async fn ask_about_nat(&self, asked: &NatProbe) -> Result<(), Refusal> {
        let peer = self.peers[self.peers.find(&asked.peer)?].id;
        let step = match asked.step {
            NatProbeStep::Open => ProbeStep::Open,
            NatProbeStep::Answer => ProbeStep::Answer,
            NatProbeStep::End => ProbeStep::End,
        };
        let probe = Probe { step, tokens: ProbeTokens { question: asked.question, answer: asked.answer } };
        let told = self.plane.call(move |plane| plane.site.peer(peer).map(|mut peer| peer.probe(probe)));
        let told: Result<bool, PeerError> = told.await.map_err(Refusal::Ends)?;
        match told {
            Ok(true) => Ok(()),
            Ok(false) => Err(Response::error(format!("{} is not connected", asked.peer)).into()),
            Err(error) => Err(Refusal::of(&error)),
        }
    }

    async fn set_scheduler(&mut self, peer: usize, scheduler: SchedulerKind) -> Result<(), OpenError> {
        let (id, kind) = (self.peers[peer].id, scheduler);
        let changed = self
            .plane
            .call(move |plane| plane.site.peer(id).map(|mut peer| peer.set_scheduler(kind)))
            .await?;
        self.peers[peer].by_hand.scheduler = Some(scheduler);
        Ok(changed?)
    }

    async fn list_paths(&self, peer: Option<&str>) -> Result<Response, Refusal> {
        peer.map(|name| self.peers.find(name)).transpose()?;
        let status = self.status().await?;
        let wanted = status.peers.into_iter().filter(|status| peer.is_none_or(|name| status.name == name));
        let paths = wanted.map(|status| PeerPaths { peer: status.name, paths: status.paths });
        Ok(Response::Paths(paths.collect()))
    }

    async fn add_path(&mut self, peer: &str, spec: &PathSpec) -> Result<Response, Refusal> {
        let index = self.peers.find(peer)?;
        let config = &self.peers[index].config;
        let settings = specs::settings(spec, config.endpoint.as_ref(), config.transport)?;
        self.quotas.check(&self.peers, &settings)?;
        let name = settings.name.clone();
        self.open_path(index, settings).await?;
        let peer = &mut self.peers[index];
        let open = peer.path_named(name.as_str());
        let missing = open
            .filter(|path| path.interface_index.is_none())
            .and_then(|path| path.settings.interface.clone());
        peer.by_hand.added.insert(name);
        Ok(match missing {
            Some(interface) => Response::Noted {
                note: format!("the path is added; {}", Why::NoInterface(interface.to_string())),
            },
            None => Response::Ok,
        })
    }

    async fn set_path(
        &mut self,
        peer: usize,
        name: String,
        change: SettingsChange,
        state: Option<WantedState>,
    ) -> Result<(), OpenError> {
        let id = self.peers[peer].id;
        let SettingsChange { weight, max_rate, tier, direction, congestion } = change;
        let mut tuning = PathTuning {
            weight: weight.map(Weight::get),
            max_rate: max_rate.map(|rate| rate.map(|rate| rate.bits_per_second())),
            tier,
            direction,
        };
        if let Some(open) = self.peers[peer].path_named(&name) {
            let mut settings = open.settings.clone();
            change.apply(&mut settings);
            tuning = self.quotas.tuning(&settings);
        }
        let changed = self.plane.call(move |plane| {
            let mut path = plane.site.peer(id)?.path_named(&name)?;
            path.reconfigure(tuning);
            if let Some(congestion) = congestion {
                path.set_congestion(congestion_config(congestion));
            }
            if let Some(state) = state {
                path.set_standby(state == WantedState::Standby, Instant::now())?;
            }
            Ok(path.id())
        });
        let changed: Result<PathId, PeerError> = changed.await?;
        let path = changed?;
        self.peers[peer].note_settings(path, |settings| change.apply(settings));
        if let Some(state) = state {
            self.peers[peer].note_standby(path, state == WantedState::Standby);
        }
        Ok(())
    }
}
