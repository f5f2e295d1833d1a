//! Requests, one after another, over a connection that is kept; and how connections are made.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT_ENCODING, HOST, LOCATION, RANGE, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use psmc_net::tls::tcp::connect_tcp;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use super::MirrorError;
use super::head::Head;
use super::url::Url;

/// A client with one connection at most.
pub(crate) struct Client {
    connector: Arc<Connector>,
    via: Option<Via>,
    connection: Option<(Url, Sender)>,
}

/// An answer, of which the body is still to be read.
pub(crate) struct Answer {
    /// Who answered in the end.
    pub(crate) url: Url,
    pub(crate) head: Head,
    body: Incoming,
}

impl Client {
    /// A client whose connections leave there, or wherever routes lead.
    pub(crate) fn new(connector: Arc<Connector>, via: Option<Via>) -> Self {
        Self { connector, via, connection: None }
    }

    /// Asks for some bytes of a file, or for all of it, wherever redirects lead.
    pub(crate) async fn get(&mut self, url: &Url, range: Option<Range<u64>>) -> Result<Answer, MirrorError> {
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(&url, range.as_ref()).await?;
            let Some(next) = redirect(&url, &response)? else {
                let head = Head::read(&response)?;
                return Ok(Answer { url, head, body: response.into_body() });
            };
            // What it says about the redirect is of no interest, but would have to be read.
            self.close();
            url = next;
        }
        Err(MirrorError::Redirects(MOST_REDIRECTS))
    }

    /// Closes the connection: its answer is not over, or makes no sense.
    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    async fn ask(
        &mut self,
        url: &Url,
        range: Option<&Range<u64>>,
    ) -> Result<Response<Incoming>, MirrorError> {
        if let Some(mut sender) = self.kept(url).await {
            // The server may just have closed a connection that nobody used: that is no failure.
            if let Ok(response) = sender.send_request(request(url, range)).await {
                self.connection = Some((url.clone(), sender));
                return Ok(response);
            }
        }
        let mut sender = self.connector.connect(url, self.via.as_ref()).await?;
        let response = sender.send_request(request(url, range)).await.map_err(MirrorError::Broken)?;
        self.connection = Some((url.clone(), sender));
        Ok(response)
    }

    /// The connection, if it leads there and still works.
    async fn kept(&mut self, url: &Url) -> Option<Sender> {
        let (server, mut sender) = self.connection.take()?;
        let is_ready = server.is_same_server(url) && sender.ready().await.is_ok();
        is_ready.then_some(sender)
    }
}

impl Answer {
    /// The next bytes, or `None` after the last.
    pub(crate) async fn bytes(&mut self) -> Result<Option<Bytes>, MirrorError> {
        loop {
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            // Else it is a trailer.
            if let Ok(bytes) = frame.map_err(MirrorError::Broken)?.into_data() {
                return Ok(Some(bytes));
            }
        }
    }
}

fn request(url: &Url, range: Option<&Range<u64>>) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    let headers = request.headers_mut();
    let agent = concat!("psmc/", env!("CARGO_PKG_VERSION"));
    let range =
        range.map(|Range { start, end }| format!("bytes={start}-{}", end.saturating_sub(1).max(*start)));
    let values = [
        (HOST, Some(url.authority().to_owned())),
        (USER_AGENT, Some(agent.to_owned())),
        (ACCEPT_ENCODING, Some("identity".to_owned())),
        (RANGE, range),
    ];
    for (name, value) in values.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        // All of them are visible ASCII: an authority that is not makes no URL.
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    }
    // A URL of which this is no target of a request is refused before.
    if let Ok(uri) = url.path_and_query().parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Where an answer sends us, if anywhere.
fn redirect(url: &Url, response: &Response<Incoming>) -> Result<Option<Url>, MirrorError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).ok_or(MirrorError::Nowhere)?;
    let next = url.join(location.as_bytes()).map_err(MirrorError::Redirect)?;
    if url.is_https() && !next.is_https() {
        return Err(MirrorError::Downgrade(next.to_string()));
    }
    Ok(Some(next))
}

/// What requests are sent by.
type Sender = SendRequest<Empty<Bytes>>;

/// By which way connections leave this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By this interface.
    Interface(String),
    /// From this address of this machine.
    Address(IpAddr),
}

/// Makes connections. The certificates of the system are read when the first `https` needs them.
#[derive(Default)]
pub(crate) struct Connector {
    tls: OnceLock<Option<TlsConnector>>,
}

impl Connector {
    async fn connect(&self, url: &Url, via: Option<&Via>) -> Result<Sender, MirrorError> {
        let stream = dial(url, via).await?;
        if !url.is_https() {
            return start(stream).await;
        }
        let host = url.host().to_owned();
        let Some(tls) = self.tls.get_or_init(tls) else { return Err(MirrorError::NoRoots { host }) };
        let failed = |source| MirrorError::Tls { host: host.clone(), source };
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other).map_err(failed)?;
        start(tls.connect(name, stream).await.map_err(failed)?).await
    }
}

/// `None` if nothing is trusted.
fn tls() -> Option<TlsConnector> {
    let mut roots = RootCertStore::empty();
    // Some of the system's may be unreadable for rustls: the others serve.
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return None;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().ok()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Some(TlsConnector::from(Arc::new(config)))
}

async fn dial(url: &Url, via: Option<&Via>) -> Result<TcpStream, MirrorError> {
    let host = url.host().to_owned();
    let addresses = lookup_host((url.host(), url.port())).await;
    let addresses = addresses.map_err(|source| MirrorError::Resolve { host: host.clone(), source })?;
    let (interface, local) = match via {
        Some(Via::Interface(name)) => (Some(name.as_str()), None),
        Some(Via::Address(address)) => (None, Some(*address)),
        None => (None, None),
    };
    let nowhere = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut error = match local {
        Some(from) => MirrorError::Family { host, from },
        None => MirrorError::Resolve { host, source: nowhere },
    };
    for address in addresses {
        if local.is_some_and(|local| local.is_ipv4() != address.is_ipv4()) {
            continue;
        }
        match connect_tcp(interface, local, address, PER_ADDRESS).await {
            Ok(stream) => return Ok(stream),
            Err(reason) => error = reason.into(),
        }
    }
    Err(error)
}

async fn start<S>(stream: S) -> Result<Sender, MirrorError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(MirrorError::Broken)?;
    // It ends with its sender and the body of the last answer; who waits for an answer learns of its errors.
    tokio::spawn(connection);
    Ok(sender)
}

impl FromStr for Via {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        // What the kernel takes for a name (dev_valid_name).
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && !matches!(text, "." | "..")
            && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
        if is_name {
            Ok(Self::Interface(text.to_owned()))
        } else {
            Err("neither an interface nor an address")
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => out.write_str(name),
            Self::Address(address) => address.fmt(out),
        }
    }
}

/// A mirror that sends us around more often will not end: browsers allow 20, but nobody needs more than two or three.
const MOST_REDIRECTS: usize = 8;

/// Of a host with several addresses the next one is tried after this time: one of the two families may lead nowhere.
const PER_ADDRESS: Duration = Duration::from_millis(1500);

/// The longest name of an interface, in bytes: IFNAMSIZ has room for a zero behind it.
const MAX_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_interfaces_or_addresses() {
        let via = |text: &str| text.parse::<Via>();
        assert_eq!(via("eth0"), Ok(Via::Interface("eth0".to_owned())));
        assert_eq!(via("192.0.2.1"), Ok(Via::Address([192, 0, 2, 1].into())));
        assert_eq!(via("2001:db8::1"), Ok(Via::Address("2001:db8::1".parse().unwrap())));
        for wrong in ["", "..", "a/b", "a b", "eth0:1", "a-name-of-16-chr"] {
            assert!(via(wrong).is_err(), "{wrong}");
        }
    }
}
