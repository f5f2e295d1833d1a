//! Bulk transfer by QUIC (RFC 9000), with quinn.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{future, io};

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::{AllowedKeys, Identity};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, SendStream, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::record::{Ending, Record};
use super::{Job, TrafficError, incomplete, socket};

/// What is transferred, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk<'a> {
    pub(super) congestion_control: &'a str,
    /// How much; as much as it can if `None`.
    pub(super) bytes: Option<u64>,
}

impl Bulk<'_> {
    /// Transfers until everything has arrived or the time is up.
    ///
    /// The sender has a thread of its own: both ends encrypt, and would share a processor otherwise.
    pub(super) async fn run(self, job: &Job, record: &Record) -> Result<Ending, TrafficError> {
        let [own, other] = [(); 2].map(|()| Identity::new(&PrivateKey::generate()));
        let (server, to) = listen(job, &own, &other)?;
        let plan = Plan {
            to,
            identity: other,
            server: own.public(),
            congestion_control: self.congestion_control.to_owned(),
            bytes: self.bytes,
            start: job.clock.at(job.traffic.start),
        };
        let mut client = Client::start(plan);
        let transfer = async {
            tokio::select! {
                // A client that has sent everything waits until it has arrived.
                error = client.failed() => Err(error),
                outcome = receive(&server, record) => outcome,
            }
        };
        match timeout_at(job.clock.at(job.traffic.stop).into(), transfer).await {
            Ok(outcome) => outcome.map(|()| Ending::Complete),
            Err(_elapsed) => incomplete(record, self.bytes),
        }
    }
}

fn listen(job: &Job, own: &Identity, other: &Identity) -> Result<(Endpoint, SocketAddr), TrafficError> {
    let address = job.traffic.address;
    let made = job.hosts.to.run(|| socket::udp(address)).and_then(|socket| {
        let to = SocketAddr::new(address, socket.local_addr()?.port());
        Ok((server(socket, own, other.public())?, to))
    });
    made.map_err(TrafficError::socket("QUIC"))
}

async fn receive(server: &Endpoint, record: &Record) -> Result<(), TrafficError> {
    // The endpoint is not closed while this waits.
    let Some(incoming) = server.accept().await else {
        return Err(TrafficError::Nothing);
    };
    let connection: Connection = incoming.await.map_err(broken)?;
    let mut stream = connection.accept_uni().await.map_err(broken)?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await.map_err(broken)? {
        record.delivered(chunk.bytes.len());
    }
    Ok(())
}

/// Why QUIC does not go on.
fn broken(error: impl std::error::Error + Send + Sync + 'static) -> TrafficError {
    TrafficError::Broken(io::Error::other(error))
}

/// How long a handshake may take: longer than over any path of use.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is sent at once.
const BLOCK: usize = 64 * 1024;

/// What a client does.
#[derive(Debug)]
struct Plan {
    to: SocketAddr,
    identity: Identity,
    server: PublicKey,
    congestion_control: String,
    /// As much as it can if `None`.
    bytes: Option<u64>,
    start: Instant,
}

/// A thread that sends, in the namespace of the one that starts it. It ends when this is dropped.
#[derive(Debug)]
struct Client {
    outcome: oneshot::Receiver<Result<(), TrafficError>>,
    /// `None` only while dropping, which is how the thread learns of it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn start(plan: Plan) -> Self {
        let (report, outcome) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            // Whoever has dropped the receiver does not want to know.
            let _ = report.send(plan.carry_out(stopped));
        });
        Self { outcome, stop: Some(stop), thread: Some(thread) }
    }

    /// Waits until it fails.
    async fn failed(&mut self) -> TrafficError {
        match (&mut self.outcome).await {
            Ok(Err(error)) => error,
            // What was sent is still to be received. A thread without an answer has panicked, which its join tells.
            Ok(Ok(())) | Err(_) => future::pending().await,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has ended, too.
            drop(thread.join());
        }
    }
}

impl Plan {
    fn carry_out(self, stopped: oneshot::Receiver<()>) -> Result<(), TrafficError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(TrafficError::Runtime)?.block_on(async {
            tokio::select! {
                outcome = self.transfer() => outcome,
                _ = stopped => Ok(()),
            }
        })
    }

    async fn transfer(&self) -> Result<(), TrafficError> {
        let to = self.to;
        let endpoint = socket::udp(to.ip())
            .and_then(|socket| client(socket, &self.identity, self.server, &self.congestion_control));
        let endpoint = endpoint.map_err(TrafficError::socket("QUIC"))?;
        sleep_until(self.start.into()).await;
        // The name is for certificates, and there are none.
        let connecting = endpoint.connect(to, "psmc-lab").map_err(broken)?;
        let connection = timeout(PATIENCE, connecting).await;
        let connection = connection.map_err(|_| TrafficError::NoConnection { to, waited: PATIENCE })?;
        let connection = connection.map_err(broken)?;
        let stream = connection.open_uni().await.map_err(broken)?;
        self.send(stream).await
    }

    async fn send(&self, mut stream: SendStream) -> Result<(), TrafficError> {
        let block = vec![0; BLOCK];
        let mut left = self.bytes;
        while left != Some(0) {
            let length = left.map_or(BLOCK, |left| usize::try_from(left).unwrap_or(BLOCK).min(BLOCK));
            stream.write_all(&block[..length]).await.map_err(broken)?;
            left = left.map(|left| left - length as u64);
        }
        stream.finish().map_err(broken)?;
        // The connection, and with it what is on the way, would end before.
        stream.stopped().await.map_err(broken)?;
        Ok(())
    }
}

/// What both sides must name (RFC 7301); nobody else sees it.
const ALPN: &[u8] = b"psmc-lab";

/// How much may be on the way: what 1 Gb/s sends in half a second.
const WINDOW: u32 = 64 << 20;

/// An endpoint that lets one client in.
fn server(socket: UdpSocket, own: &Identity, client: PublicKey) -> io::Result<Endpoint> {
    let tls = own.server_config(AllowedKeys::from_iter([client]), ALPN);
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport()));
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
}

/// An endpoint that connects to one server.
fn client(
    socket: UdpSocket,
    own: &Identity,
    server: PublicKey,
    congestion_control: &str,
) -> io::Result<Endpoint> {
    let tls = own.client_config(server, ALPN);
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut transport = transport();
    transport.congestion_controller_factory(controller(congestion_control));
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// Flow control must not be what limits a transfer, and a cut must not end it, however long it lasts.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .send_window(WINDOW.into())
        .receive_window(VarInt::from_u32(WINDOW))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .max_idle_timeout(None);
    transport
}

/// The congestion control of this name; scenarios have no others.
fn controller(name: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match name {
        "bbr" => Arc::new(BbrConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    }
}
