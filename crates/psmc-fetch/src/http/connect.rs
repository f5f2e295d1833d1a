//! Connections to mirrors.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use psmc_net::tls::tcp::connect_tcp;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use super::error::MirrorError;
use super::url::Url;

/// Of a host with several addresses the next one is tried after this time: one of the two families may lead nowhere.
const PER_ADDRESS: Duration = Duration::from_millis(1500);

/// What requests are sent by.
pub(super) type Sender = SendRequest<Empty<Bytes>>;

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
    pub(super) async fn connect(&self, url: &Url, via: Option<&Via>) -> Result<Sender, MirrorError> {
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
