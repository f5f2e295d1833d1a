//! Calls of etcd's JSON gateway: HTTP/1.1 over TCP or TLS, to whichever member answers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};

/// How long a member may take for a call: etcd syncs disks of three machines in a few milliseconds, and is slow if it takes
/// a hundred. A lease outlasts four members that do not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The longest answer, in bytes: ten thousand events.
const MAX_ANSWER: usize = 1 << 26;

/// How much of a complaint is told.
const MAX_COMPLAINT: usize = 200;

/// A member of the cluster as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name or address, which its certificate has.
    pub host: String,
    /// Its port for clients.
    pub port: u16,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Why no member has done what it was asked: what the last one said, or did.
#[derive(Debug, Error)]
#[error("{}", said(member, source))]
pub struct EtcdError {
    member: Member,
    source: Trouble,
}

impl EtcdError {
    /// Whether etcd has refused what it was asked, and would again: somebody has to do something about that first.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match &self.source {
            Trouble::NoSpace | Trouble::Corrupt => true,
            Trouble::Refused(status, _) => {
                [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status)
            }
            Trouble::Tcp(_)
            | Trouble::Name(_)
            | Trouble::Tls(_)
            | Trouble::Http(_)
            | Trouble::Body(_)
            | Trouble::Silent
            | Trouble::Malformed(_) => false,
        }
    }
}

fn said(member: &Member, trouble: &Trouble) -> String {
    match trouble {
        Trouble::NoSpace | Trouble::Corrupt | Trouble::Refused(..) => {
            format!("etcd refuses, {member} the last that was asked")
        }
        Trouble::Tcp(_)
        | Trouble::Name(_)
        | Trouble::Tls(_)
        | Trouble::Http(_)
        | Trouble::Body(_)
        | Trouble::Silent
        | Trouble::Malformed(_) => format!("no etcd answers, {member} the last of them"),
    }
}

/// What is wrong with a member.
#[derive(Debug, Error)]
enum Trouble {
    #[error("unreachable")]
    Tcp(#[source] io::Error),
    #[error("not a valid server name for TLS")]
    Name(#[from] InvalidDnsNameError),
    #[error("TLS handshake failed: check [etcd] and the member's certificates")]
    Tls(#[source] io::Error),
    #[error("connection lost")]
    Http(#[from] hyper::Error),
    #[error("truncated or oversized response")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer within {ANSWER_WITHIN:?}")]
    Silent,
    #[error(
        "its database has no space left (alarm NOSPACE): compact and defragment it, or raise --quota-backend-bytes, and then \
         `etcdctl alarm disarm`"
    )]
    NoSpace,
    #[error(
        "its members are inconsistent (alarm CORRUPT): restore the cluster, and then `etcdctl alarm disarm`"
    )]
    Corrupt,
    #[error("error {0}: {1}")]
    Refused(StatusCode, String),
    #[error("unexpected response: not etcd's JSON gateway")]
    Malformed(#[from] serde_json::Error),
}

/// Whom to call. Each client has a connection of its own, on which calls wait for each other.
#[derive(Debug)]
pub(super) struct Client {
    members: Arc<[Member]>,
    tls: Option<Arc<ClientConfig>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The member whose turn it is.
    turn: usize,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// A client of the cluster that has these members, of which there is one at least.
    pub(super) fn new(members: Arc<[Member]>, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { members, tls, state: Mutex::default() }
    }

    /// Another of the same cluster.
    pub(super) fn another(&self) -> Self {
        Self::new(self.members.clone(), self.tls.clone())
    }

    /// Has a call answered by the first member that does, each being asked once. Some may have done as they were told
    /// without having said so.
    pub(super) async fn call<A: DeserializeOwned>(
        &self,
        path: &'static str,
        request: &impl Serialize,
    ) -> Result<A, EtcdError> {
        let mut state = self.state.lock().await;
        let mut attempt = 1;
        loop {
            let member = &self.members[state.turn % self.members.len()];
            // Of a call that is given up the connection is of no use any more.
            let open = state.open.take();
            let source = match timeout(ANSWER_WITHIN, self.ask(member, open, path, request)).await {
                Ok(Ok((answer, sender))) => {
                    state.open = Some(sender);
                    return Ok(answer);
                }
                Ok(Err(trouble)) => trouble,
                Err(_) => Trouble::Silent,
            };
            let error = EtcdError { member: member.clone(), source };
            tracing::debug!(error = crate::error_chain(&error), "another etcd is tried");
            state.turn = state.turn.wrapping_add(1);
            if attempt >= self.members.len() {
                return Err(error);
            }
            attempt += 1;
        }
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        member: &Member,
        open: Option<SendRequest<Full<Bytes>>>,
        path: &'static str,
        request: &impl Serialize,
    ) -> Result<(A, SendRequest<Full<Bytes>>), Trouble> {
        let mut sender = match open.filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect(member).await?,
        };
        sender.ready().await?;
        let body = Full::new(Bytes::from(serde_json::to_vec(request)?));
        let mut http = Request::post(path).body(body).unwrap_or_default();
        let host = hyper::header::HeaderValue::from_str(&member.to_string());
        http.headers_mut().extend(host.ok().map(|host| (HOST, host)));
        http.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
        let answer = sender.send_request(http).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(Trouble::Body)?;
        let body = body.to_bytes();
        if status == StatusCode::OK {
            return Ok((serde_json::from_slice(&body)?, sender));
        }
        Err(refusal(status, &body))
    }

    async fn connect(&self, member: &Member) -> Result<SendRequest<Full<Bytes>>, Trouble> {
        let tcp = TcpStream::connect((member.host.as_str(), member.port)).await.map_err(Trouble::Tcp)?;
        tcp.set_nodelay(true).map_err(Trouble::Tcp)?;
        let Some(tls) = &self.tls else { return open(tcp).await };
        let name = ServerName::try_from(member.host.clone())?;
        open(TlsConnector::from(tls.clone()).connect(name, tcp).await.map_err(Trouble::Tls)?).await
    }
}

/// What the gateway of gRPC says (`runtime.HTTPError`), by its text: codes mean several things each. What etcd calls alarms
/// stands in its `rpctypes`.
fn refusal(status: StatusCode, body: &[u8]) -> Trouble {
    #[derive(serde::Deserialize)]
    struct Refusal {
        message: String,
    }
    let message = serde_json::from_slice(body)
        .map_or_else(|_| String::from_utf8_lossy(body).trim().to_owned(), |Refusal { message }| message);
    match message.as_str() {
        "etcdserver: mvcc: database space exceeded" => Trouble::NoSpace,
        "etcdserver: corrupt cluster" => Trouble::Corrupt,
        other => Trouble::Refused(status, other.chars().take(MAX_COMPLAINT).collect()),
    }
}

async fn open<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Trouble>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Ends with the sender. What breaks connection lost the call, which tells.
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_known_by_what_etcd_says() {
        let error = |status: u16, body: &str| {
            let member = Member { host: "a".to_owned(), port: 1 };
            EtcdError { member, source: refusal(StatusCode::from_u16(status).unwrap(), body.as_bytes()) }
        };
        // Of etcd 3.4.23.
        let full = r#"{"error":"etcdserver: mvcc: database space exceeded","message":"etcdserver: mvcc: database space exceeded","code":8}"#;
        assert!(matches!(error(429, full).source, Trouble::NoSpace) && error(429, full).is_final());
        // The same code, and over by itself.
        let busy =
            r#"{"error":"etcdserver: too many requests","message":"etcdserver: too many requests","code":8}"#;
        assert!(!error(429, busy).is_final());
        let corrupt =
            r#"{"error":"etcdserver: corrupt cluster","code":15,"message":"etcdserver: corrupt cluster"}"#;
        assert!(matches!(error(500, corrupt).source, Trouble::Corrupt) && error(500, corrupt).is_final());
        let large = r#"{"message":"etcdserver: request is too large","code":3}"#;
        assert!(error(400, large).is_final());
        assert!(!error(503, r#"{"message":"etcdserver: no leader","code":14}"#).is_final());
        let text = crate::error_chain(&error(502, "<html>a proxy\n"));
        assert_eq!(text, "etcd refuses, a:1 the last that was asked: error 502 Bad Gateway: <html>a proxy");
    }
}
