//! A request from its head to the answer.

mod failure;
mod record;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::ext::on_informational;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::{request, uri};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use psmc_shares::admission::Outcome;
use psmc_shares::{ClassId, ServerId};
use tokio::io::copy_bidirectional;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::time::Instant;

use crate::body::{AnswerBody, Passed, Progress, RequestBody, Rest};
use crate::config::{Config, Limits, Upstream};
use crate::counters::Counters;
use crate::gate::{Gate, Permit};
use crate::headers::{self, Asker, WEBSOCKET};
use crate::listener::Activity;
use crate::peers::Peers;
use crate::stream::Reset;
use crate::upstream::{Borrowed, Server};

use failure::Failure;
pub(crate) use record::Record;

/// Servers that a request is offered at most: one that all are bad for does not go round.
const ATTEMPTS: u32 = 3;

/// How long a body waits for a server to say that it wants it (RFC 9110, section 10.1.1: not indefinitely). curl waits as long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all connections of clients have in common.
pub(crate) struct Front {
    state: RwLock<Arc<State>>,
    peers: RwLock<Arc<Peers>>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) counters: Counters,
}

/// What requests go by: that of the moment in which they come.
pub(crate) struct State {
    pub(crate) config: Config,
    /// Those of all groups, one after the other.
    pub(crate) servers: Vec<Arc<Server>>,
    /// Of each server, the place of its group.
    pub(crate) groups: Vec<usize>,
}

/// The client of a connection.
pub(crate) struct Client {
    pub(crate) asker: Asker,
    /// By which its connection is reset, if it has but one answer at a time.
    pub(crate) reset: Option<Reset>,
    /// Whether anything goes on on its connection.
    pub(crate) activity: Arc<Activity>,
    /// Held while anything of it goes on.
    pub(crate) _alive: watch::Receiver<bool>,
    /// Its place among the connections that there may be, which one that goes on with another protocol keeps.
    pub(crate) _room: OwnedSemaphorePermit,
}

impl Front {
    pub(crate) fn new(state: State, gate: Gate) -> Self {
        Self {
            state: RwLock::new(Arc::new(state)),
            peers: RwLock::default(),
            gate: Arc::new(gate),
            counters: Counters::default(),
        }
    }

    fn peers(&self) -> Arc<Peers> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_peers(&self, peers: Peers) {
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
    }

    pub(crate) fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }

    /// Answers a request.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        client: &Arc<Client>,
        request: Request<Incoming>,
    ) -> Response<AnswerBody> {
        self.counters.requests();
        let state = self.state();
        let (mut head, body) = request.into_parts();
        let class = state.class_of(&head, client, &self.peers());
        let record = Record::new(self, &state.config, class, &head, client);
        let upgrade = head.extensions.remove::<OnUpgrade>();
        let exchange = Exchange { front: self, state: &state, client, class };
        match exchange.run(head, body, upgrade, record).await {
            Ok(response) => response,
            Err((failure, record)) => record.fail(&failure),
        }
    }
}

impl State {
    /// The group that a server is of.
    pub(crate) fn group_of(&self, server: ServerId) -> &Upstream {
        let group = self.groups.get(server.0).and_then(|group| self.config.upstreams.get(*group));
        // Each server is of one, and there is one at least.
        group.unwrap_or(&self.config.upstreams[0])
    }

    fn class_of(&self, head: &request::Parts, client: &Client, peers: &Peers) -> ClassId {
        let source = client.asker.address().ip().to_canonical();
        let classes = &self.config.classes;
        let fits =
            classes.iter().position(|class| class.rule.fits(head.uri.path(), &head.headers, source, peers));
        // The last fits all.
        ClassId(fits.unwrap_or(classes.len().saturating_sub(1)))
    }
}

/// A request, and what it goes by.
struct Exchange<'a> {
    front: &'a Arc<Front>,
    state: &'a State,
    client: &'a Arc<Client>,
    class: ClassId,
}

/// A head that is ready to be sent, once or again.
#[derive(Clone)]
struct Outgoing {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl Exchange<'_> {
    async fn run(
        &self,
        head: request::Parts,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
        mut record: Record,
    ) -> Result<Response<AnswerBody>, (Failure, Record)> {
        let Limits { stall_time, uri_size, .. } = self.state.config.limits;
        if target_length(&head.uri) > uri_size {
            return Err((Failure::Target, record));
        }
        let is_websocket = headers::is_websocket(&head);
        let host = match headers::host(&head) {
            Ok(host) => host,
            Err(error) => return Err((Failure::Malformed(error), record)),
        };
        let permit = match self.front.gate.enter(self.class).await {
            Ok(permit) => permit,
            Err(refusal) => return Err((Failure::Refused(refusal), record)),
        };
        record.is_admitted(permit.waited());
        let group = self.state.group_of(permit.server());
        let protocol = if is_websocket { Some(WEBSOCKET) } else { headers::upgrade(&head) };
        let protocol = protocol.filter(|_| upgrade.is_some() && !group.h2);
        if is_websocket && protocol.is_none() {
            permit.end(Outcome::Abandoned);
            return Err((Failure::NoWebSocket, record));
        }
        let is_upgrade = protocol.is_some();
        let (body, progress) = RequestBody::new(body, stall_time);
        let scheme = self.state.servers.get(permit.server().0).map(|server| server.scheme());
        let mut outgoing =
            self.outgoing(head, &host, protocol, group.h2.then_some(scheme).flatten(), !body.is_end_stream());
        if is_websocket {
            headers::begin_websocket(&mut outgoing.method, &mut outgoing.headers);
        }
        let (response, connection, permit) =
            match self.send(outgoing, body, permit, progress.as_deref()).await {
                Ok(sent) => sent,
                Err(failure) => return Err((failure, record)),
            };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return match upgrade.filter(|_| is_upgrade) {
                Some(upgrade) => Ok(self.go_on(upgrade, response, is_websocket, permit, record)),
                None => Err((Failure::Unasked, record)),
            };
        }
        Ok(self.pass_back(response, connection, permit, record))
    }

    /// What the server is asked.
    fn outgoing(
        &self,
        head: request::Parts,
        host: &HeaderValue,
        upgrade: Option<HeaderValue>,
        h2: Option<uri::Scheme>,
        has_body: bool,
    ) -> Outgoing {
        let config = &self.state.config;
        let request::Parts { method, uri, version, mut headers, .. } = head;
        let takes_trailers = headers::takes_trailers(&headers);
        headers::strip(&mut headers);
        if version == Version::HTTP_2 {
            headers::join_cookies(&mut headers);
        }
        if version != Version::HTTP_11 || !has_body || h2.is_some() {
            headers.remove(EXPECT);
        }
        headers::pass(&mut headers, version);
        self.client.asker.tell(&mut headers, host, config.forwarded);
        if takes_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        if h2.is_some() {
            headers.remove(HOST);
        } else {
            // Mostly it is there already.
            if headers.get(HOST) != Some(host) {
                headers.insert(HOST, host.clone());
            }
            let options = match (takes_trailers, upgrade.is_some()) {
                (true, true) => Some("te, upgrade"),
                (true, false) => Some("te"),
                (false, true) => Some("upgrade"),
                (false, false) => None,
            };
            headers.extend(options.map(|options| (CONNECTION, HeaderValue::from_static(options))));
            headers.extend(upgrade.map(|protocol| (UPGRADE, protocol)));
        }
        Outgoing { uri: target(uri, host, h2), method, headers }
    }

    /// Sends a request to the server that it has a place at, and to another one if that cannot be reached.
    async fn send(
        &self,
        outgoing: Outgoing,
        body: RequestBody,
        mut permit: Permit,
        progress: Option<&Progress>,
    ) -> Result<(Response<Incoming>, Borrowed, Permit), Failure> {
        // What a server may have done already is not asked of it again, and a body is not kept.
        let spare = (outgoing.method.is_idempotent() && body.is_end_stream()).then(|| outgoing.clone());
        let is_expecting = outgoing.headers.contains_key(EXPECT);
        let mut request = outgoing.with(body);
        let mut is_repeated = false;
        let mut attempt = 1;
        loop {
            let (mut connection, place) = self.connect(permit, is_repeated, &mut attempt).await?;
            permit = place;
            if is_expecting {
                wait_for_word(&mut request, &mut connection);
            }
            let is_used = connection.is_used();
            let time = self.state.group_of(permit.server()).answer_time;
            match head_of_answer(&mut connection, request, progress, time).await {
                Ok(response) => return Ok((response, connection, permit)),
                Err(failure) => {
                    // Nothing of a request that comes back was sent.
                    let (failure, unsent) = failure;
                    let again =
                        unsent.or_else(|| spare.clone().map(|spare| spare.with(RequestBody::empty())));
                    match again.filter(|_| is_used && !is_repeated && !matches!(failure, Failure::TimedOut)) {
                        Some(again) => request = again,
                        None => {
                            let failure = failure.of_client(progress);
                            permit.end(if failure.is_of_client() {
                                Outcome::Abandoned
                            } else {
                                Outcome::Failed
                            });
                            return Err(failure);
                        }
                    }
                    is_repeated = true;
                    self.front.counters.repeated();
                }
            }
        }
    }

    /// A connection to the server that there is a place at, or to another one that takes its turn.
    async fn connect(
        &self,
        mut permit: Permit,
        is_repeated: bool,
        attempt: &mut u32,
    ) -> Result<(Borrowed, Permit), Failure> {
        loop {
            let id = permit.server();
            let upstream = self.state.group_of(id);
            let Some(server) = self.state.servers.get(id.0) else { return Err(Failure::NoServer) };
            let connected = if is_repeated {
                Box::pin(server.new_connection(upstream)).await
            } else {
                server.connection(upstream).await
            };
            let error = match connected {
                Ok(connection) => return Ok((connection, permit)),
                Err(error) => error,
            };
            server.has_failed();
            self.front.gate.set_available(id, false);
            if *attempt == ATTEMPTS {
                permit.end(Outcome::Failed);
                return Err(Failure::Unreachable(error));
            }
            *attempt += 1;
            // Where there is no other server, it was this one that failed.
            permit = permit.again().await.map_err(|_| Failure::Unreachable(error))?;
        }
    }

    /// Hands the answer of a server to the client, whose body is still on its way.
    fn pass_back(
        &self,
        response: Response<Incoming>,
        connection: Borrowed,
        mut permit: Permit,
        mut record: Record,
    ) -> Response<AnswerBody> {
        permit.answered();
        let (mut head, body) = response.into_parts();
        // The length is not what counts where both are (RFC 9112, section 6.3).
        if head.headers.contains_key(TRANSFER_ENCODING) {
            head.headers.remove(CONTENT_LENGTH);
        }
        headers::strip(&mut head.headers);
        head.version = Version::HTTP_11;
        record.is_answered(head.status);
        let rest = Rest { permit, connection, reset: self.client.reset.clone(), record };
        let passed = Passed::new(body, self.state.config.limits.stall_time, rest);
        Response::from_parts(head, AnswerBody::Passed(Box::new(passed)))
    }

    /// Client and server go on with another protocol: from here on bytes are passed on as they are.
    fn go_on(
        &self,
        client_side: OnUpgrade,
        mut response: Response<Incoming>,
        is_websocket: bool,
        permit: Permit,
        mut record: Record,
    ) -> Response<AnswerBody> {
        // It may last for days, and its server has other limits for that.
        permit.end(Outcome::Answered);
        record.is_answered(response.status());
        self.front.counters.upgraded();
        let server_side = hyper::upgrade::on(&mut response);
        let client = self.client.clone();
        tokio::spawn(async move {
            // One that is not there any more ends it.
            if let Ok((client, server)) = tokio::try_join!(client_side, server_side) {
                let _ = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
            }
            record.complete(0);
            drop(client);
        });
        let (mut head, _) = response.into_parts();
        let protocol = head.headers.get(UPGRADE).cloned();
        headers::strip(&mut head.headers);
        if is_websocket {
            // By HTTP/2 it is an answer as others are (RFC 8441, section 5).
            head.status = StatusCode::OK;
            head.headers.remove(SEC_WEBSOCKET_ACCEPT);
            return Response::from_parts(head, AnswerBody::empty());
        }
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.extend(protocol.map(|protocol| (UPGRADE, protocol)));
        Response::from_parts(head, AnswerBody::empty())
    }
}

impl Outgoing {
    fn with(self, body: RequestBody) -> Request<RequestBody> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

/// Has the body wait for `100 Continue` of this server.
fn wait_for_word(request: &mut Request<RequestBody>, connection: &mut Borrowed) {
    let (say, word) = oneshot::channel();
    let say = Mutex::new(Some(say));
    on_informational(request, move |response| {
        if response.status() == StatusCode::CONTINUE
            && let Some(say) = say.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            // The body may be gone with its client.
            let _ = say.send(());
        }
    });
    request.body_mut().after(word, PATIENCE, connection.over());
}

/// Sends a request, and waits for the head of the answer: as long as the body goes on, and `time` after that. Gives the request
/// back if nothing of it was sent.
async fn head_of_answer(
    connection: &mut Borrowed,
    request: Request<RequestBody>,
    progress: Option<&Progress>,
    time: Duration,
) -> Result<Response<Incoming>, (Failure, Option<Request<RequestBody>>)> {
    let begun = Instant::now();
    let due = || progress.map_or(begun, |progress| begun.max(progress.last())) + time;
    let (sending, mut alarm) = connection.send(request, due());
    let mut sending = std::pin::pin!(sending);
    loop {
        tokio::select! {
            biased;
            sent = &mut sending => return sent.map_err(|mut error| {
                let unsent = error.take_message();
                (Failure::NoAnswer(error.into_error()), unsent)
            }),
            () = alarm.as_mut() => {
                if due() <= Instant::now() {
                    return Err((Failure::TimedOut, None));
                }
                alarm.as_mut().reset(due());
            }
        }
    }
}

/// The target of a request, as it came.
fn target_length(uri: &Uri) -> usize {
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    authority + uri.path_and_query().map_or(0, |path| path.as_str().len())
}

/// The target that a server is asked for: the path by HTTP/1.1 (RFC 9112, section 3.2.1), all parts by HTTP/2.
fn target(uri: Uri, host: &HeaderValue, h2: Option<uri::Scheme>) -> Uri {
    let mut parts = uri::Parts::default();
    parts.path_and_query = uri.into_parts().path_and_query;
    if h2.is_some() {
        parts.scheme = h2;
        parts.authority = host.to_str().ok().and_then(|host| host.parse().ok());
    }
    Uri::from_parts(parts).unwrap_or_default()
}
