//! Peers that test how fast the tunnel is, if this site's file lets them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use psmc_core::{PeerId, TcpFlow};
use psmc_net::inside;
use psmc_net::retry::Retry;
use psmc_wire::PathId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::DaemonError;
use super::control::Control;
use super::plane::{Plane, Poster};
use super::tasks::{TaskEnd, Tasks};
use crate::speedtest::{self, Answer, Limits, MAX_CALLERS, MAX_LINE, MAX_TIME, PATIENCE, PORT, Request};

/// Tests at a time, each of another peer: more would measure each other.
const MAX_TESTS: usize = 4;

/// Callers that wait to be taken over.
const MAX_WAITING: usize = 4;

/// A connection, and where it came from.
type Caller = (TcpStream, SocketAddr);

/// Who tests.
#[derive(Debug)]
pub(super) struct Speedtests {
    callers: mpsc::Receiver<Caller>,
    ready: mpsc::Sender<Caller>,
    /// While this is kept, callers are accepted.
    open: Option<watch::Sender<()>>,
    /// Room for one test each.
    peers: BTreeMap<PeerId, Arc<Semaphore>>,
    /// Room for tests, and for callers.
    tests: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// What a test has to have.
struct Room {
    peer: Arc<Semaphore>,
    tests: Arc<Semaphore>,
}

impl Speedtests {
    /// Nobody may test.
    pub(super) fn new() -> Self {
        let (ready, callers) = mpsc::channel(MAX_WAITING);
        let [tests, room] = [MAX_TESTS, MAX_CALLERS].map(|places| Arc::new(Semaphore::new(places)));
        Self { callers, ready, open: None, peers: BTreeMap::new(), tests, room }
    }

    /// Lets peers test at these addresses in the tunnel, or no more. A test that runs goes on.
    pub(super) fn allow(
        &mut self,
        allowed: bool,
        addresses: impl Iterator<Item = IpAddr>,
        tasks: &mut Tasks,
    ) {
        self.open = None;
        if !allowed {
            return;
        }
        let (open, is_open) = watch::channel(());
        for address in addresses.map(|address| SocketAddr::new(address, PORT)) {
            match inside::listen(address) {
                Ok(listener) => {
                    let (ready, is_open) = (self.ready.clone(), is_open.clone());
                    tasks.spawn(async move {
                        accept(listener, ready, is_open).await;
                        TaskEnd::Listener
                    });
                }
                Err(error) => tracing::warn!(%error, %address, "peers cannot test the speed there"),
            }
        }
        self.open = Some(open);
    }

    /// The next one who calls. May be dropped and called again.
    pub(super) async fn next_caller(&mut self) -> Option<Caller> {
        self.callers.recv().await
    }

    fn room_for(&mut self, peer: PeerId) -> Room {
        self.peers.retain(|_, room| Arc::strong_count(room) > 1);
        let room = self.peers.entry(peer).or_insert_with(|| Arc::new(Semaphore::new(1)));
        Room { peer: room.clone(), tests: self.tests.clone() }
    }
}

/// Accepts callers for as long as they may call.
async fn accept(listener: TcpListener, ready: mpsc::Sender<Caller>, mut is_open: watch::Receiver<()>) {
    let mut retry = Retry::new("accept speed tests");
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = is_open.changed() => return,
        };
        match accepted {
            Ok(caller) => {
                if ready.send(caller).await.is_err() {
                    return;
                }
            }
            Err(error) => retry.after(&error).await,
        }
    }
}

impl Control {
    /// Somebody wants to test. Only who has come through the tunnel is heard.
    pub(super) async fn on_speedtest(&mut self, (stream, from): Caller) -> Result<(), DaemonError> {
        let address = from.ip().to_canonical();
        let owner = self.plane.call(move |plane| plane.site.owner_of(address)).await?;
        let inside = inside::keep_inside(&stream, self.network.interface_name());
        let place = self.speedtests.room.clone().try_acquire_owned();
        let (Some(peer), Ok(()), Ok(place)) = (owner, inside, place) else { return Ok(()) };
        let (room, plane) = (self.speedtests.room_for(peer), self.plane.poster());
        let name = self.peers.get(peer).map(|peer| peer.config.name.to_string());
        self.tasks.spawn(async move {
            // One who gives up breaks the connection.
            if let Err(error) = speak(stream, peer, &room, &plane).await {
                tracing::debug!(peer = name, %error, "a speed test has ended early");
            }
            drop(place);
            TaskEnd::Answered
        });
        Ok(())
    }
}

/// Hears what a caller wants, and does it, or says why not.
async fn speak(mut stream: TcpStream, peer: PeerId, room: &Room, plane: &Poster) -> io::Result<()> {
    let mut line = Vec::new();
    let mut reader = BufReader::with_capacity(1, (&mut stream).take(MAX_LINE));
    timeout(PATIENCE, reader.read_until(b'\n', &mut line)).await??;
    let outcome = async {
        let request: Request =
            serde_json::from_slice(&line).map_err(|_| "this is no request for a speed test")?;
        let limits = request.limits().ok_or("a test takes 30 s and 10 GB at most, and more than nothing")?;
        // The one before may be about to end.
        let turn = timeout(PATIENCE, room.peer.acquire()).await;
        let turn = turn
            .ok()
            .and_then(Result::ok)
            .ok_or("another test with this site runs; wait until it is over")?;
        let place = room.tests.try_acquire().map_err(|_| "other sites are testing; try again later")?;
        pin(&request, peer, &stream, plane).await?;
        Ok::<_, &'static str>((request.direction, limits, turn, place))
    };
    let (direction, limits, _turn, _place) = match outcome.await {
        Ok(admitted) => admitted,
        Err(message) => {
            let refusal = speedtest::line(&Answer::Refused { message: message.to_owned() })?;
            return timeout(PATIENCE, stream.write_all(&refusal)).await?;
        }
    };
    let Limits { time, bytes } = limits;
    tracing::info!(?peer, ?direction, ?time, bytes, "speed test");
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    spawn_blocking(move || speedtest::serve(stream, direction, limits)).await?
}

/// Has this side of the connection stay on the path that is asked for, if one is.
async fn pin(
    request: &Request,
    peer: PeerId,
    stream: &TcpStream,
    plane: &Poster,
) -> Result<(), &'static str> {
    let Some(path) = request.path.map(PathId) else { return Ok(()) };
    let ends = stream.local_addr().and_then(|source| Ok((source, stream.peer_addr()?)));
    let (source, destination) = ends.map_err(|_| "the connection is gone")?;
    let (sender, pinned) = oneshot::channel();
    let pin = move |plane: &mut Plane| {
        let (now, flow) = (Instant::now(), TcpFlow { source, destination });
        let until = now + MAX_TIME + PATIENCE;
        let pinned = plane.site.peer(peer).is_ok_and(|mut peer| peer.pin(flow, path, until, now).is_ok());
        // Whoever waits for it is there, or the daemon is ending.
        let _ = sender.send(pinned);
    };
    plane.post(pin).await;
    let is_pinned = pinned.await.unwrap_or(false);
    is_pinned.then_some(()).ok_or("this site has no such path (any more)")
}
