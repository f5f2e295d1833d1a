//! Connections to mirrors.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::error::MirrorError;
use super::url::Url;

/// Of a host with several addresses the next one is tried after this time: one of the two families may lead nowhere.
const PER_ADDRESS: Duration = Duration::from_millis(1500);

/// What requests are sent by.
pub(super) type Sender = SendRequest<Empty<Bytes>>;

/// Makes connections. The certificates of the system are read when the first `https` needs them.
#[derive(Default)]
pub(crate) struct Connector {
    tls: OnceLock<Option<TlsConnector>>,
}

impl Connector {
    pub(super) async fn connect(&self, url: &Url) -> Result<Sender, MirrorError> {
        let stream = dial(url).await?;
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

async fn dial(url: &Url) -> Result<TcpStream, MirrorError> {
    let host = url.host().to_owned();
    let addresses = lookup_host((url.host(), url.port())).await;
    let addresses = addresses.map_err(|source| MirrorError::Resolve { host: host.clone(), source })?;
    let nowhere = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut error = MirrorError::Resolve { host, source: nowhere };
    for address in addresses {
        let stream = timeout(PER_ADDRESS, TcpStream::connect(address)).await;
        let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(source) => error = MirrorError::Connect { address: address.to_string(), source },
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
