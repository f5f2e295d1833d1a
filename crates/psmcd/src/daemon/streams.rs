//! Paths whose datagrams travel in a stream of TLS, for networks that let no UDP through.
//!
//! The site that has opened the path dials, and dials again when the stream ends. The other one takes the stream at the port where
//! it listens for control connections, and learns by the datagrams which path it is.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use psmc_core::{PeerId, SocketId};
use psmc_net::stream::{self, CarrierError, StreamPort};
use psmc_net::tls::{Dialer, PATH_ALPN, Secured};
use psmc_service::clock::Backoff;
use psmc_wire::PathId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::DaemonError;
use super::control::Control;
use super::dial::{Route, dial};
use super::paths::{local_end, resolve};
use super::plane::{Plane, Poster};
use super::relays::{Caller, Goal};
use super::tasks::TaskEnd;
use crate::config::{Endpoint, Host, PathSettings, Relay, Transport};

/// The port that networks leave open which block others: that of HTTPS.
const HTTPS: u16 = 443;

/// How many streams of one peer there are at once: as many as it may have paths over uplinks of its own.
const MAX_STREAMS: usize = 16;

/// How long to wait until a stream is dialled anew: at once, for most break because the network has changed, then ever less often.
const WAITS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));

/// A stream that has lasted so long was no failure.
const LASTING: Duration = Duration::from_secs(10);

/// The streams that peers have brought.
#[derive(Debug, Default)]
pub(super) struct Streams {
    taken: BTreeMap<SocketId, PeerId>,
}

/// The stream in which datagrams of a path travel.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// The relays that it leads through.
    pub(super) relays: Vec<Relay>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Stream {
    /// One that is to be dialled.
    pub(super) fn new(relays: Vec<Relay>) -> Self {
        Self { relays, trouble: Arc::default() }
    }

    /// Why there was none when it was last dialled.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

/// What the task knows that keeps the stream of a path.
struct Keeping {
    caller: Caller,
    dialer: Dialer,
    settings: PathSettings,
    stream: Stream,
    goal: Goal,
    /// Where datagrams seem to go.
    remote: SocketAddr,
    plane: Poster,
    path: (PeerId, PathId),
    socket: SocketId,
}

impl Control {
    /// Has a stream kept for a path, for as long as that exists.
    pub(super) fn keep_stream(
        &mut self,
        (peer, id): (usize, PathId),
        settings: &PathSettings,
        (stream, goal): (Stream, Goal),
        (socket, remote): (SocketId, SocketAddr),
    ) {
        let config = &self.peers[peer].config;
        let dialer = Dialer::for_protocol(&self.identity, config.public_key, PATH_ALPN);
        let keeping = Keeping {
            caller: self.relays.caller(),
            dialer: asking_for(dialer, settings),
            settings: settings.clone(),
            stream,
            goal,
            remote,
            plane: self.plane.poster(),
            path: (self.peers[peer].id, id),
            socket,
        };
        self.tasks.spawn(async move {
            keeping.run().await;
            TaskEnd::Unstreamed
        });
    }

    /// A peer has brought a stream.
    pub(super) async fn on_stream<S>(
        &mut self,
        peer: PeerId,
        secured: Secured<S>,
        remote: Option<SocketAddr>,
    ) -> Result<(), DaemonError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if self.streams.taken.values().filter(|&&owner| owner == peer).count() >= MAX_STREAMS {
            tracing::debug!(?remote, "stream refused: its peer has {MAX_STREAMS} already");
            return Ok(());
        }
        let remote = remote.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let (port, carrier) = match stream::pair(remote) {
            Ok(pair) => pair,
            Err(error) => {
                tracing::warn!(%error, "cannot take a stream for datagrams");
                return Ok(());
            }
        };
        let socket = self.sockets.number();
        if !self.plane.call(move |plane| open(plane, socket, port)).await? {
            return Ok(());
        }
        self.streams.taken.insert(socket, peer);
        self.tasks.spawn(async move {
            let ended = carrier.run(secured.stream).await;
            TaskEnd::Streamed(socket, ended.map(drop))
        });
        Ok(())
    }

    /// A stream that a peer had brought has ended.
    pub(super) async fn on_stream_end(
        &mut self,
        socket: SocketId,
        ended: Result<(), CarrierError>,
    ) -> Result<(), DaemonError> {
        self.streams.taken.remove(&socket);
        if let Err(error) = ended {
            tracing::debug!(socket = socket.0, error = crate::error_chain(&error), "stream ended");
        }
        self.plane.post(move |plane| plane.close_port(socket)).await
    }

    /// Ends the streams of a peer that is none any more.
    pub(super) async fn end_streams(&mut self, peer: PeerId) -> Result<(), DaemonError> {
        for (socket, _) in self.streams.taken.extract_if(.., |_, owner| *owner == peer) {
            self.plane.post(move |plane| plane.close_port(socket)).await?;
        }
        Ok(())
    }
}

impl Keeping {
    async fn run(self) {
        let mut waits = WAITS;
        while self.is_wanted().await {
            let began = Instant::now();
            let path = self.settings.name.as_str();
            match self.dial_and_carry().await {
                Ok(()) => tracing::debug!(path, "stream ended"),
                Err(error) => {
                    // Once for each reason, however often it is tried.
                    if self.stream.trouble().as_ref() != Some(&error) {
                        tracing::info!(path, error, "no stream for the path's datagrams");
                    }
                    self.stream.set_trouble(Some(error));
                }
            }
            if began.elapsed() > LASTING {
                waits.reset();
            }
            tokio::time::sleep(waits.wait()).await;
        }
    }

    /// Whether there is still such a path.
    async fn is_wanted(&self) -> bool {
        let (peer, path) = self.path;
        let wanted = self.ask(move |plane| plane.path(peer, path).is_some()).await;
        wanted.unwrap_or(false)
    }

    /// What the plane says, unless it has ended.
    async fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut Plane) -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.plane.post(move |plane| drop(sender.send(work(plane)))).await;
        receiver.await.ok()
    }

    async fn dial_and_carry(&self) -> Result<(), String> {
        let secured = dial(self.caller.clone(), self.dialer.clone(), self.routes().await)
            .await
            .map_err(|error| crate::error_chain(&error))?;
        let (port, carrier) = stream::pair(self.remote).map_err(|error| error.to_string())?;
        let (socket, (peer, path)) = (self.socket, self.path);
        let opened = self.ask(move |plane| {
            let is_open = plane.path(peer, path).is_some() && open(plane, socket, port);
            if is_open {
                plane.site.handle_link(socket, true, Instant::now());
            }
            is_open
        });
        if opened.await != Some(true) {
            return Ok(());
        }
        self.stream.set_trouble(None);
        tracing::info!(path = self.settings.name.as_str(), "datagrams of the path travel in a stream of TLS");
        let ended = carrier.run(secured.stream).await;
        let close = move |plane: &mut Plane| {
            plane.close_port(socket);
            plane.site.handle_link(socket, false, Instant::now());
        };
        self.plane.post(close).await;
        ended.map(drop).map_err(|error| crate::error_chain(&error))
    }

    /// The ways there: to the port that is open nearly everywhere, and to that of the endpoint.
    async fn routes(&self) -> Vec<Route> {
        let goal = match &self.settings.endpoint {
            // Its address may be another one by now.
            Some(endpoint @ Endpoint { host: Host::Dns(_), .. }) => {
                resolve(endpoint).await.map_or(self.goal, Goal::Address)
            }
            _ => self.goal,
        };
        let route =
            Route { local_end: local_end(&self.settings), relays: self.stream.relays.clone(), to: goal };
        by_https(&route).into_iter().chain([route]).collect()
    }
}

/// The same way, to the port that is open nearly everywhere, if that is another one.
pub(super) fn by_https(route: &Route) -> Option<Route> {
    let Goal::Address(address) = route.to else { return None };
    let to = Goal::Address(SocketAddr::new(address.ip(), HTTPS));
    (address.port() != HTTPS).then(|| Route { to, ..route.clone() })
}

/// Has the dialer say by which name the path's peer is known, if by any.
pub(super) fn asking_for(dialer: Dialer, settings: &PathSettings) -> Dialer {
    match &settings.endpoint {
        Some(Endpoint { host: Host::Dns(name), .. }) => dialer.asking_for(name.as_str()),
        _ => dialer,
    }
}

/// Whether a path may need the port of HTTPS.
pub(super) fn may_need_https(settings: &PathSettings) -> bool {
    matches!(settings.transport, Transport::Tls | Transport::Auto)
}

/// Lets the plane use the end of a stream; says whether it can.
fn open(plane: &mut Plane, socket: SocketId, port: StreamPort) -> bool {
    let opened = plane.open_stream(socket, port);
    if let Err(error) = &opened {
        tracing::warn!(error = crate::error_chain(error), "no stream for datagrams");
    }
    opened.is_ok()
}
