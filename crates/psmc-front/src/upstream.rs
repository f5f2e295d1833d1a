//! Servers: connections to them, kept for the next request, and their health.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::Either;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::http::uri::Scheme;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use psmc_shares::ServerId;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use crate::body::RequestBody;
use crate::config::{HealthPath, Upstream, UpstreamTls};
use crate::gate::Gate;
use crate::stream::Transport;

/// Connections that are kept for a server at most: as many as had requests at a time, within what a process may have open.
const MAX_IDLE: usize = 1024;

/// How long a connection may take to be ready after its answer was read: its task has but to run once.
const READY_TIME: Duration = Duration::from_secs(1);

/// How often a server that failed is tried: it is missed no longer than that.
const RECHECK: Duration = Duration::from_secs(1);

/// Checks in a row that fail before a server is left alone: one may be lost by chance.
const FALL: u32 = 2;

/// A server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    is_h2: bool,
    tls: Option<UpstreamTls>,
    idle: Mutex<Vec<Kept>>,
    shared: Mutex<Option<http2::SendRequest<RequestBody>>>,
    is_up: AtomicBool,
    failed: Notify,
    pub(crate) connects: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// A connection that is kept for the next request.
struct Kept {
    sender: http1::SendRequest<RequestBody>,
    alarm: Alarm,
    since: Instant,
}

/// By which an answer is not awaited for ever. It stays with its connection, for to make it go off later costs nearly nothing.
type Alarm = Pin<Box<Sleep>>;

/// Why a server could not be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("cannot connect")]
    Refused(#[from] io::Error),
    #[error("cannot speak TLS to it")]
    Tls(#[source] io::Error),
    #[error("timed out connecting")]
    TimedOut,
    #[error("cannot speak HTTP to it")]
    Handshake(#[from] hyper::Error),
}

impl Server {
    /// That at this address, spoken to as its group says.
    pub(crate) fn new(address: SocketAddr, group: &Upstream) -> Self {
        Self {
            address,
            is_h2: group.h2,
            tls: group.tls.clone(),
            idle: Mutex::default(),
            shared: Mutex::default(),
            is_up: AtomicBool::new(true),
            failed: Notify::new(),
            connects: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Whether it is the server at this address, spoken to as this group says.
    pub(crate) fn is(&self, address: SocketAddr, group: &Upstream) -> bool {
        self.address == address && self.is_h2 == group.h2 && self.tls == group.tls
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(crate) fn idle_connections(&self) -> usize {
        lock(&self.idle).len()
    }

    /// A connection that is kept, or a new one.
    pub(crate) async fn connection(self: &Arc<Self>, upstream: &Upstream) -> Result<Borrowed, ConnectError> {
        match self.kept(upstream.keep_time) {
            Some((sender, alarm)) => {
                Ok(Borrowed { sender, alarm, server: self.clone(), is_used: true, over: None })
            }
            // Apart, for it is large and seldom needed.
            None => Box::pin(self.new_connection(upstream)).await,
        }
    }

    /// A new connection.
    pub(crate) async fn new_connection(
        self: &Arc<Self>,
        upstream: &Upstream,
    ) -> Result<Borrowed, ConnectError> {
        self.connects.fetch_add(1, Ordering::Relaxed);
        let stream = self.connect(upstream.connect_time).await?;
        let sender = if self.is_h2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).adaptive_window(true);
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            *lock(&self.shared) = Some(sender.clone());
            Sender::H2(sender)
        } else {
            let (sender, connection) = http1::Builder::new().handshake(TokioIo::new(stream)).await?;
            // What goes wrong with it is told to who has sent a request by it.
            tokio::spawn(connection.with_upgrades());
            Sender::H1(sender)
        };
        Ok(Borrowed { sender, alarm: None, server: self.clone(), is_used: false, over: None })
    }

    fn kept(&self, keep_time: Duration) -> Option<(Sender, Option<Alarm>)> {
        if self.is_h2 {
            let shared = lock(&self.shared).clone();
            return shared.filter(|sender| sender.is_ready()).map(|sender| (Sender::H2(sender), None));
        }
        let mut idle = lock(&self.idle);
        // The last that was used is the last that the server closes.
        while let Some(Kept { sender, alarm, since }) = idle.pop() {
            if since.elapsed() >= keep_time {
                // Those below it are older.
                idle.clear();
            } else if sender.is_ready() {
                return Some((Sender::H1(sender), Some(alarm)));
            }
        }
        None
    }

    fn keep(&self, sender: http1::SendRequest<RequestBody>, alarm: Alarm) {
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_IDLE {
            idle.push(Kept { sender, alarm, since: Instant::now() });
        }
    }

    fn close_old(&self, keep_time: Duration) {
        lock(&self.idle).retain(|kept| kept.since.elapsed() < keep_time && !kept.sender.is_closed());
    }

    /// It could not be reached: whoever watches it looks after it.
    pub(crate) fn has_failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if self.is_up.swap(false, Ordering::Relaxed) {
            self.failed.notify_one();
        }
    }

    /// Watches its health for ever, and tells the gate whether it takes requests.
    pub(crate) async fn watch(self: Arc<Self>, id: ServerId, gate: Arc<Gate>, upstream: Upstream) {
        let mut failures = 0;
        loop {
            let wait =
                if self.is_up() { upstream.health_interval } else { RECHECK.min(upstream.health_interval) };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.failed.notified() => {
                    tracing::warn!(server = %self.address, "server does not take connections");
                    continue;
                }
            }
            self.close_old(upstream.keep_time);
            let was_up = self.is_up();
            let checked = match &upstream.health_path {
                Some(path) => self.ask(path, upstream.health_interval).await,
                None if was_up => continue,
                None => self.connect(upstream.connect_time).await.map(drop).map_err(HealthError::from),
            };
            let error = match checked {
                Ok(()) => {
                    failures = 0;
                    self.is_up.store(true, Ordering::Relaxed);
                    gate.set_available(id, true);
                    if !was_up {
                        tracing::info!(server = %self.address, "server takes requests");
                    }
                    continue;
                }
                Err(error) => error,
            };
            failures += 1;
            if was_up && failures >= FALL {
                self.is_up.store(false, Ordering::Relaxed);
                gate.set_available(id, false);
                tracing::warn!(server = %self.address, error = crate::error_chain(&error), "server is not well");
            }
        }
    }

    async fn connect(&self, time: Duration) -> Result<Transport, ConnectError> {
        let connected = async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return Ok(Transport::Plain(stream)) };
            let name = tls.name.clone().unwrap_or(ServerName::IpAddress(self.address.ip().into()));
            let stream = TlsConnector::from(tls.config.clone())
                .connect(name, stream)
                .await
                .map_err(ConnectError::Tls)?;
            Ok(Transport::Tls(Box::new(stream.into())))
        };
        timeout(time, connected).await.unwrap_or(Err(ConnectError::TimedOut))
    }

    /// Asks it how it is, which is not among the requests that it has at a time: one that is full is well.
    async fn ask(&self, path: &HealthPath, time: Duration) -> Result<(), HealthError> {
        let asked = async {
            let stream = TokioIo::new(self.connect(time).await?);
            let mut request = Request::new(Empty::<Bytes>::new());
            let (address, scheme) = (self.address, self.scheme());
            let uri = if self.is_h2 { format!("{scheme}://{address}{}", path.0) } else { path.0.to_string() };
            // Both parts are those of a legal target.
            *request.uri_mut() = uri.parse().unwrap_or_default();
            request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("psmc-front"));
            let answer = if self.is_h2 {
                let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                sender.send_request(request).await?
            } else {
                let host = HeaderValue::from_str(&address.to_string());
                request.headers_mut().extend(host.ok().map(|host| (HOST, host)));
                let (mut sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                sender.send_request(request).await?
            };
            let status = answer.status();
            // A page that is asked for every few seconds is short, and one that does not end is no answer.
            answer.into_body().collect().await?;
            if status.is_success() || status.is_redirection() {
                Ok(())
            } else {
                Err(HealthError::Status(status))
            }
        };
        timeout(time, asked).await.unwrap_or(Err(HealthError::TimedOut))
    }

    /// By which it is asked.
    pub(crate) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }
}

/// Why a server is not well.
#[derive(Debug, thiserror::Error)]
enum HealthError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot ask it")]
    Ask(#[from] hyper::Error),
    #[error("it answers {0}")]
    Status(hyper::StatusCode),
    #[error("timed out waiting for its answer")]
    TimedOut,
}

enum Sender {
    H1(http1::SendRequest<RequestBody>),
    H2(http2::SendRequest<RequestBody>),
}

/// A connection to a server that has, or will have, a request. One that is dropped is closed, unless others share it.
pub(crate) struct Borrowed {
    sender: Sender,
    alarm: Option<Alarm>,
    server: Arc<Server>,
    is_used: bool,
    /// What a body that waits for a word of the server waits for after an answer.
    over: Option<oneshot::Sender<()>>,
}

/// The head of an answer, or why there is none, with the request if nothing of it was sent.
type Sent = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

impl Borrowed {
    /// Whether it has had a request before, so that the server may have closed it while this one was on its way.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// What ends with this connection.
    pub(crate) fn over(&mut self) -> oneshot::Receiver<()> {
        let (over, ended) = oneshot::channel();
        self.over = Some(over);
        ended
    }

    /// Sends a request, and waits for the head of the answer; and what goes off if that has not come at `due`.
    pub(crate) fn send(
        &mut self,
        request: Request<RequestBody>,
        due: Instant,
    ) -> (impl Future<Output = Sent> + use<>, Pin<&mut Sleep>) {
        let sending = match &mut self.sender {
            Sender::H1(sender) => Either::Left(sender.try_send_request(request)),
            Sender::H2(sender) => Either::Right(sender.try_send_request(request)),
        };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        alarm.as_mut().reset(due);
        (sending, alarm.as_mut())
    }

    /// Its answer is complete: it is kept for the next request, as soon as it is ready for that.
    pub(crate) fn give_back(self) {
        let (Sender::H1(mut sender), None, Some(alarm)) = (self.sender, self.over, self.alarm) else {
            return;
        };
        if sender.is_ready() {
            self.server.keep(sender, alarm);
            return;
        }
        tokio::spawn(async move {
            if let Ok(Ok(())) = timeout(READY_TIME, sender.ready()).await {
                self.server.keep(sender, alarm);
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
