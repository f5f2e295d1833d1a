//! One relay at which this site is a gateway: the task that keeps it registered there, and takes the calls that come
//! through it.
//!
//! ```text
//!                  welcomed                done
//!  connecting ─────────────▶ registering ────────▶ registered ──┐ once more, now and then: does it live?
//!      ▲                          │                     │  ◀────┘
//!      └── wait, ever longer ─────┴─── it breaks, or no answer
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use psmc_core::{PathAddress, SocketId};
use psmc_net::keys::PublicKey;
use psmc_net::tls::{Acceptor, Secured};
use psmc_net::udp::UdpBind;
use psmc_service::clock::Backoff;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Message, StreamId};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::RelayError;
use super::client::{ANSWER_TIMEOUT, RelayClient};
use super::reach::{BoxedStream, Caller, Goal, LocalEnd, address_of, reach};
use crate::config::{Name, Relay};
use crate::daemon::plane::Poster;
use crate::daemon::tunnels::Bind;
use crate::error_chain;

/// The wait before another attempt, doubled each time. A relay that is back is in use soon, one that is gone for good
/// costs little.
const WAITS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));

/// How often a relay has to show that it still knows this site: a connection can be dead for long without anybody being
/// told.
const BEAT: Duration = Duration::from_secs(5);

/// When a path through relays has died, this one must show that it lives in this time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the socket of a registration that is left still takes what is on its way, so that peers have other paths by
/// then.
const LINGER: Duration = Duration::from_secs(30);

/// Calls whose handshakes are in progress; the relay lets no site have more streams.
const MAX_CALLS: usize = 16;

/// Where calls go that came through relays, with the name of the relay.
pub(in crate::daemon) type Callers = mpsc::Sender<(Box<Secured<BoxedStream>>, Name)>;

/// What a registration needs.
pub(in crate::daemon) struct RegistrationSpec {
    pub(in crate::daemon) caller: Caller,
    pub(in crate::daemon) relay: Relay,
    pub(in crate::daemon) uplink: Uplink,
    /// Shakes hands with those who call.
    pub(in crate::daemon) acceptor: Acceptor,
    pub(in crate::daemon) callers: Callers,
    pub(in crate::daemon) plane: Poster,
}

/// How a site reaches a relay at which it is a gateway.
pub(in crate::daemon) struct Uplink {
    /// Where connections leave.
    pub(in crate::daemon) local_end: LocalEnd,
    /// The socket by which datagrams leave.
    pub(in crate::daemon) socket: SocketId,
    /// What that is bound to, if it is the registration's own.
    pub(in crate::daemon) bind: Option<UdpBind>,
}

/// How it stands with a registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) struct Standing {
    /// Whether the relay leads calls here.
    pub(in crate::daemon) is_registered: bool,
    /// Why it does not, or what was wrong with it the last time.
    pub(in crate::daemon) error: Option<String>,
}

/// The control side's hold on a registration. When it is dropped, the site leaves the relay.
#[derive(Debug)]
pub(in crate::daemon) struct Registration {
    pub(in crate::daemon) relay: Name,
    pub(in crate::daemon) public_key: PublicKey,
    doubt: Arc<Notify>,
    standing: watch::Receiver<Standing>,
    _wanted: oneshot::Sender<()>,
}

impl Registration {
    /// A registration, and the task that keeps it for as long as it is wanted.
    pub(in crate::daemon) fn new(spec: RegistrationSpec) -> (Self, impl Future<Output = ()> + Send) {
        let doubt = Arc::new(Notify::new());
        let (told, standing) = watch::channel(Standing::default());
        let (relay, public_key) = (spec.relay.name.clone(), spec.relay.public_key);
        let (_wanted, unwanted) = oneshot::channel();
        let work = Work { spec, doubt: doubt.clone(), told };
        (Self { relay, public_key, doubt, standing, _wanted }, work.run(unwanted))
    }

    /// Asks the relay whether it is alive.
    pub(in crate::daemon) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// How it stands.
    pub(in crate::daemon) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }
}

struct Work {
    spec: RegistrationSpec,
    doubt: Arc<Notify>,
    told: watch::Sender<Standing>,
}

impl Work {
    async fn run(self, unwanted: oneshot::Receiver<()>) {
        tokio::select! {
            () = self.keep() => {}
            _ = unwanted => self.leave().await,
        }
    }

    /// Leaves the relay: with its connection the registration is gone. What it still leads here is heeded for a while.
    async fn leave(self) {
        let RegistrationSpec { relay, uplink, plane, .. } = self.spec;
        tracing::info!(relay = %relay.name, "no longer registered as a gateway");
        let key = KeyBytes(*relay.public_key.as_bytes());
        plane.post(move |plane| plane.site.leave_relay(key)).await;
        if uplink.bind.is_some() {
            sleep(LINGER).await;
            plane.post(move |plane| plane.close_port(uplink.socket)).await;
        }
    }

    async fn keep(&self) {
        let mut waits = WAITS;
        loop {
            let error = match self.register().await {
                Ok(link) => {
                    waits.reset();
                    self.serve(link).await
                }
                Err(error) => error,
            };
            self.note(&error);
            sleep(waits.wait()).await;
        }
    }

    /// Connects to the relay, and registers there.
    async fn register(&self) -> Result<RelayClient, RelayError> {
        let address = address_of(&self.spec.relay.address).await?;
        let mut link = self.call(address).await?;
        let data = SocketAddr::new(address.ip(), link.welcome().await?.data_port);
        // Before anybody can be led here through this relay.
        let relay = KeyBytes(*self.spec.relay.public_key.as_bytes());
        let Uplink { socket, bind, .. } = &self.spec.uplink;
        let (socket, bind) = (*socket, bind.clone());
        let at = PathAddress { socket, local_ip: None, remote: data };
        self.spec
            .plane
            .post(move |plane| {
                // The uplink may have been away, and this is tried again whenever the relay is.
                if let Some(bind) = bind.filter(|_| !plane.is_open(socket))
                    && let Err(error) = plane.open_port(socket, &Bind::Udp(bind))
                {
                    tracing::warn!(error = error_chain(&error), "cannot send to a relay over its uplink");
                }
                plane.site.register_relay(relay, at, std::time::Instant::now());
            })
            .await;
        link.order(Message::Register).await?;
        tracing::info!(relay = %self.spec.relay.name, "registered as a gateway");
        self.told.send_replace(Standing { is_registered: true, error: None });
        Ok(link)
    }

    async fn call(&self, address: SocketAddr) -> Result<RelayClient, RelayError> {
        let RegistrationSpec { caller, relay, uplink, .. } = &self.spec;
        let stream = reach(caller, &uplink.local_end, &[], Goal::Address(address)).await?;
        RelayClient::open(caller, relay, stream).await
    }

    /// Takes calls until the relay is unusable.
    async fn serve(&self, mut link: RelayClient) -> RelayError {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        let mut calls = Calls::default();
        let mut answer_by: Option<Instant> = None;
        loop {
            let silent = async {
                match answer_by {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let patience = tokio::select! {
                message = link.hear() => {
                    match message {
                        Ok(Message::Done(_)) => answer_by = None,
                        Ok(Message::Incoming(stream)) => calls.begin(self.answer(stream)),
                        Ok(message) => return link.unexpected(message),
                        Err(error) => return error,
                    }
                    continue;
                }
                () = silent => return RelayError::Silent { relay: self.spec.relay.name.clone() },
                () = calls.ended() => continue,
                () = self.doubt.notified() => CHECK_TIMEOUT,
                _ = beat.tick() => ANSWER_TIMEOUT,
            };
            if let Err(error) = link.say(Message::Register).await {
                return error;
            }
            let by = Instant::now() + patience;
            answer_by = Some(answer_by.map_or(by, |before| before.min(by)));
        }
    }

    /// Fetches a call, and hands it over when its caller has shown who it is.
    fn answer(&self, stream: StreamId) -> impl Future<Output = ()> + Send + 'static {
        let RegistrationSpec { caller, relay, uplink, acceptor, callers, .. } = &self.spec;
        let (caller, relay, local_end) = (caller.clone(), relay.clone(), uplink.local_end.clone());
        let (acceptor, callers) = (acceptor.clone(), callers.clone());
        async move {
            match fetch(&caller, &relay, &local_end, stream, &acceptor).await {
                // A queue that is full has a caller try again.
                Ok(secured) => drop(callers.try_send((Box::new(secured), relay.name))),
                // Strangers can cause any number of these, hence the low level of the record.
                Err(error) => {
                    tracing::debug!(relay = %relay.name, error = error_chain(&error), "a call came to nothing");
                }
            }
        }
    }

    /// Remembers why the relay cannot be used; says it aloud only when it is news.
    fn note(&self, error: &RelayError) {
        let standing = Standing { is_registered: false, error: Some(error_chain(error)) };
        self.told.send_if_modified(|known| {
            let is_news = *known != standing;
            if is_news {
                let error = standing.error.as_deref();
                tracing::warn!(relay = %self.spec.relay.name, error, "not registered");
                *known = standing;
            }
            is_news
        });
    }
}

async fn fetch(
    caller: &Caller,
    relay: &Relay,
    local_end: &LocalEnd,
    stream: StreamId,
    acceptor: &Acceptor,
) -> Result<Secured<BoxedStream>, RelayError> {
    let address = address_of(&relay.address).await?;
    let tcp = reach(caller, local_end, &[], Goal::Address(address)).await?;
    let stream = RelayClient::open(caller, relay, tcp).await?.accept(stream).await?;
    acceptor.accept(stream).await.map_err(|source| RelayError::Call { relay: relay.name.clone(), source })
}

/// Calls whose handshakes are in progress. Room for a new one is made at the cost of the oldest, so that callers who
/// never finish keep nobody out.
#[derive(Default)]
struct Calls {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<AbortHandle>,
}

impl Calls {
    fn begin(&mut self, call: impl Future<Output = ()> + Send + 'static) {
        if self.oldest_first.len() >= MAX_CALLS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        self.oldest_first.push_back(self.tasks.spawn(call));
    }

    /// Waits until one has ended; may be dropped and called again.
    async fn ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.oldest_first.retain(|call| !call.is_finished());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_who_never_finish_make_room_for_others() {
        let mut calls = Calls::default();
        for _ in 0..3 * MAX_CALLS {
            calls.begin(std::future::pending());
        }
        let (done, mut was_done) = mpsc::channel(1);
        calls.begin(async move { done.send(()).await.expect("somebody waits") });
        assert_eq!(calls.oldest_first.len(), MAX_CALLS);
        while was_done.try_recv().is_err() {
            calls.ended().await;
        }
    }
}
