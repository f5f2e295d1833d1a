//! Connections of clients: accepted, told apart by protocol, and ended.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use proxy_header::{ParseConfig, ProxyHeader};
use psmc_net::retry::Retry;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::config::{Limits, Listener};
use crate::headers::Asker;
use crate::proxy::{Client, Front};
use crate::stream::ClientStream;

/// What is read and written at a time at most, in bytes, and more than any head.
pub(crate) const BUFFER: usize = 64 * 1024;

/// Requests at a time on one connection of HTTP/2: what browsers and nginx use.
const STREAMS: u32 = 128;

/// After how long without a packet a client is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long the beginning of the PROXY protocol, version 1, is at least, and that of version 2 with its first two fields.
const PROXY_START: usize = 13;

/// The longest of version 1 (proxy-protocol.txt, section 2.1).
const PROXY_V1_MOST: usize = 107;

/// What version 2 begins with (section 2.2).
const PROXY_V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The fixed part of version 2 (section 2.2).
const PROXY_V2_FIXED: usize = 16;

/// The longest of version 2 that is taken: addresses, and fields that are not read here.
const PROXY_V2_MOST: usize = 4096;

/// A listener that runs. New connections go by what it was told last.
pub(crate) struct Listening {
    settings: watch::Sender<Listener>,
    stop: watch::Sender<bool>,
}

impl Listening {
    /// Accepts connections on `socket`, as many as there is `room` for.
    pub(crate) fn start(
        socket: std::net::TcpListener,
        listener: Listener,
        front: Arc<Front>,
        room: Arc<Semaphore>,
        ending: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        let (settings, by) = watch::channel(listener);
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(accept_all(socket, Acceptor { by, front, room, ending }, stopped));
        Ok(Self { settings, stop })
    }

    /// Goes by other settings for the same address.
    pub(crate) fn change(&self, listener: Listener) {
        self.settings.send_replace(listener);
    }

    /// Accepts what has come already, and no more.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        self.stop.closed().await;
    }
}

/// What a connection needs.
#[derive(Clone)]
struct Acceptor {
    by: watch::Receiver<Listener>,
    front: Arc<Front>,
    room: Arc<Semaphore>,
    ending: watch::Receiver<bool>,
}

async fn accept_all(socket: TcpListener, acceptor: Acceptor, stopped: watch::Receiver<bool>) {
    let mut retry = Retry::new("accept connections");
    loop {
        // Who finds no room waits in the kernel's queue.
        let room = tokio::select! {
            biased;
            room = acceptor.room.clone().acquire_owned() => room,
            () = is_true(stopped.clone()) => return,
        };
        let Ok(room) = room else { return };
        let accepted = tokio::select! {
            biased;
            accepted = socket.accept() => accepted,
            () = is_true(stopped.clone()) => return,
        };
        match accepted {
            Ok((stream, from)) => {
                tokio::spawn(acceptor.clone().serve(stream, from, room));
            }
            Err(error) => retry.after(&error).await,
        }
    }
}

/// Why a connection did not come to its first request.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot read what it begins with")]
    Read(#[from] io::Error),
    #[error("it does not begin with the PROXY protocol")]
    Proxy,
    #[error("timed out")]
    TimedOut,
}

impl Acceptor {
    async fn serve(self, stream: TcpStream, from: SocketAddr, room: OwnedSemaphorePermit) {
        self.front.counters.connections();
        let listener = self.by.borrow().clone();
        let Limits { head_time, stall_time, .. } = self.front.state().config.limits;
        // Without them it works as well.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let starting = timeout(head_time, start(stream, from, &listener, stall_time));
        match starting.await.unwrap_or(Err(StartError::TimedOut)) {
            Ok(started) => self.talk(started, room, head_time, &listener).await,
            Err(error) => {
                self.front.counters.failed_handshakes();
                tracing::debug!(client = %from, error = crate::error_chain(&error), "connection failed");
            }
        }
    }

    async fn talk(
        self,
        started: Started,
        room: OwnedSemaphorePermit,
        idle_time: Duration,
        listener: &Listener,
    ) {
        let Started { stream, client: address, is_h2 } = started;
        let config = &self.front.state().config;
        let source = address.ip().to_canonical();
        let is_trusted = config.trusted.iter().any(|net| net.contains(&source));
        let asker = Asker { address, is_tls: listener.tls.is_some(), is_trusted };
        let reset = (!is_h2).then(|| stream.reset());
        let client = Arc::new(Client { asker, reset, _alive: self.ending.clone(), _room: room });
        let limits = config.limits.clone();
        if is_h2 {
            self.talk_h2(stream, client, idle_time, &limits).await;
        } else {
            self.talk_h1(stream, client, idle_time, &limits).await;
        }
    }

    async fn talk_h1(self, stream: ClientStream, client: Arc<Client>, idle_time: Duration, limits: &Limits) {
        let front = self.front;
        let service = service_fn(move |request: Request<Incoming>| {
            let (front, client) = (front.clone(), client.clone());
            // Apart from the connection, which is small then while it is idle.
            Box::pin(async move { Ok::<_, Infallible>(front.answer(&client, request).await) })
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(idle_time);
        builder.max_buf_size(BUFFER).max_header_size(limits.head_size);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = is_true(self.ending) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        told(ended);
    }

    async fn talk_h2(self, stream: ClientStream, client: Arc<Client>, idle_time: Duration, limits: &Limits) {
        let front = self.front;
        let activity = Arc::new(Activity::new());
        let of_requests = activity.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (front, client, busy) = (front.clone(), client.clone(), of_requests.begin());
            async move {
                let answered = front.answer(&client, request).await;
                drop(busy);
                Ok::<_, Infallible>(answered)
            }
        });
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
        builder.max_header_list_size(u32::try_from(limits.head_size).unwrap_or(u32::MAX));
        builder.keep_alive_interval(KEEPALIVE).keep_alive_timeout(idle_time);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = is_true(self.ending) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = activity.idle_for(idle_time) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        told(ended);
    }
}

/// Waits for the word, or for whoever would give it to be gone.
async fn is_true(mut word: watch::Receiver<bool>) {
    let _ = word.wait_for(|is_true| *is_true).await;
}

/// How a connection has ended, which is its client's affair.
fn told(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(error = crate::error_chain(&error), "connection ended");
    }
}

/// A connection that has come to its first request.
struct Started {
    stream: ClientStream,
    client: SocketAddr,
    is_h2: bool,
}

async fn start(
    mut stream: TcpStream,
    from: SocketAddr,
    listener: &Listener,
    stall_time: Duration,
) -> Result<Started, StartError> {
    let client = if listener.proxy_protocol { proxied(&mut stream).await?.unwrap_or(from) } else { from };
    let Some(tls) = &listener.tls else {
        return Ok(Started { stream: ClientStream::plain(stream, stall_time), client, is_h2: false });
    };
    let config: Arc<ServerConfig> = tls.config.clone();
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Started { stream: ClientStream::tls(stream, stall_time), client, is_h2 })
}

/// Who a proxy in front of this one says the client is; nobody, if it speaks for itself. No byte is read that is not of that head.
async fn proxied(stream: &mut TcpStream) -> Result<Option<SocketAddr>, StartError> {
    let mut head = vec![0; PROXY_START];
    stream.read_exact(&mut head).await?;
    if head.starts_with(b"PROXY ") {
        while !head.ends_with(b"\r\n") {
            if head.len() == PROXY_V1_MOST {
                return Err(StartError::Proxy);
            }
            head.push(stream.read_u8().await?);
        }
    } else {
        if !head.starts_with(PROXY_V2_SIGNATURE) {
            return Err(StartError::Proxy);
        }
        head.resize(PROXY_V2_FIXED, 0);
        stream.read_exact(&mut head[PROXY_START..]).await?;
        let length = usize::from(u16::from_be_bytes([head[PROXY_V2_FIXED - 2], head[PROXY_V2_FIXED - 1]]));
        if length > PROXY_V2_MOST {
            return Err(StartError::Proxy);
        }
        head.resize(PROXY_V2_FIXED + length, 0);
        stream.read_exact(&mut head[PROXY_V2_FIXED..]).await?;
    }
    let (parsed, _) = ProxyHeader::parse(&head, ParseConfig::default()).map_err(|_| StartError::Proxy)?;
    Ok(parsed.proxied_address().map(|address| address.source))
}

/// Whether anything goes on on a connection of HTTP/2, which has no time limit of its own.
struct Activity {
    requests: AtomicUsize,
    last: Mutex<Instant>,
}

/// A request that goes on.
struct Busy(Arc<Activity>);

impl Activity {
    fn new() -> Self {
        Self { requests: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }

    fn begin(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when nothing has gone on for so long.
    async fn idle_for(&self, time: Duration) {
        loop {
            let left = (self.last() + time).saturating_duration_since(Instant::now());
            let is_idle = self.requests.load(Ordering::Relaxed) == 0;
            if is_idle && left.is_zero() {
                return;
            }
            sleep(if is_idle { left } else { time }).await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
