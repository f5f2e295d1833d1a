//! Values that only a coordinator's file has, and `[etcd]`: the certificates for the cluster that keeps the state.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use psmc_routes::update::Server;
use psmc_toml::{Complaint, FILE, Kind, Section, SocketPath, Source, ValueError, parse_net, socket_path};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::error_chain;
use crate::store::Member;

/// Where state is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// In a SQLite database of this machine.
    Sqlite(PathBuf),
    /// In etcd, which other coordinators use as well.
    Etcd {
        /// The members of the cluster; one at least.
        members: Vec<Member>,
        /// What begins the names of all its keys there.
        prefix: String,
    },
}

/// What begins the names of keys in etcd where nothing else is said.
const KEY_PREFIX: &str = "psmc-coordinator";

/// etcd's port for clients.
const ETCD_PORT: u16 = 2379;

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Etcd { members, prefix } => {
                let members: Vec<String> = members.iter().map(ToString::to_string).collect();
                write!(f, "etcd://{}/{prefix}", members.join(","))
            }
        }
    }
}

/// A [`StoreAddress`].
pub(super) const STORE: Kind<StoreAddress> = Kind::text(
    "\"sqlite:/var/lib/psmc-coordinator/co1.db\"",
    |text| {
        if let Some(cluster) = text.strip_prefix("etcd://") {
            return etcd(cluster);
        }
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(StoreAddress::Sqlite(path.into())),
            Some(_) | None => Err(ValueError::new(
                format!("{text:?} is nowhere to keep state"),
                "write \"sqlite:\" and the path of a file, \"sqlite:/var/lib/psmc-coordinator/co1.db\", or \"etcd://\" and \
                 the members of a cluster, \"etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379\"",
            )),
        }
    },
);

/// `HOST:PORT,…/PREFIX`, of which ports and the prefix may be missing.
fn etcd(text: &str) -> Result<StoreAddress, ValueError> {
    let (members, prefix) = text.split_once('/').unwrap_or((text, KEY_PREFIX));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let prefix = prefix.trim_end_matches('/');
    if prefix.is_empty() || !prefix.chars().all(is_plain) {
        let remedy = "write a name after the slash, such as \"etcd://10.0.0.1:2379/psmc\"";
        return Err(ValueError::new(format!("{prefix:?} begins no key's name in etcd"), remedy));
    }
    let members = members.split(',').map(member).collect::<Result<_, _>>()?;
    Ok(StoreAddress::Etcd { members, prefix: prefix.to_owned() })
}

fn member(text: &str) -> Result<Member, ValueError> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Member { host: address.ip().to_string(), port: address.port() });
    }
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(Member { host: ip.to_string(), port: ETCD_PORT });
    }
    let (host, port) =
        text.split_once(':').map_or((text, Ok(ETCD_PORT)), |(host, port)| (host, port.parse()));
    let is_name = |name: &str| !name.is_empty() && ServerName::try_from(name).is_ok();
    match port {
        Ok(port) if port != 0 && is_name(host) => Ok(Member { host: host.to_owned(), port }),
        Ok(_) | Err(_) => Err(ValueError::new(
            format!("{text:?} is no member of an etcd cluster"),
            "write addresses and ports with commas between them: \"etcd://10.0.0.1:2379,10.0.0.2:2379\"",
        )),
    }
}

/// An address and port that others are reached at.
pub(super) const ENDPOINT: Kind<SocketAddr> = Kind::text("\"198.51.100.7:5115\"", |text| {
    let reached = |address: &SocketAddr| address.port() != 0 && !address.ip().is_unspecified();
    text.parse().ok().filter(reached).ok_or_else(|| {
        let remedy = "write an address and a port: \"198.51.100.7:5115\" or \"[2001:db8::7]:5115\"";
        ValueError::new(format!("{text:?} is no address with a port"), remedy)
    })
});

/// An address and port of this machine, which has to be named: there is no encryption.
pub(super) const LOCAL_ADDRESS: Kind<SocketAddr> = Kind::text("\"127.0.0.1:8117\"", |text| {
    let remedy = "write one such as \"127.0.0.1:8117\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address with a port"), remedy))
});

/// A name server that takes updates.
pub(super) const NAME_SERVER: Kind<Server> = Kind::text("\"192.0.2.53\"", |text| {
    text.parse().map_err(|_| {
        let remedy = "write an address, with a port if it is not 53; after a comma, others by which the same server is reached";
        ValueError::new(format!("{text:?} is not the address of a name server"), remedy)
    })
});

/// An address, or a network.
pub(super) const PREFIX: Kind<IpNet> =
    Kind::text("\"203.0.113.10/32\"", |text| match text.parse::<IpAddr>() {
        Ok(ip) => Ok(ip.into()),
        Err(_) => parse_net(text).map(|net| net.trunc()),
    });

/// The path of its control socket.
pub(super) const SOCKET: Kind<SocketPath> = Kind::text("\"/run/psmc-coordinator/co1.sock\"", |text| {
    socket_path(text, "/run/psmc-coordinator/co1.sock")
});

pub(super) const ETCD_KEYS: &[&str] = &["ca_file", "certificate_file", "private_key_file"];

/// TLS to the members, and what this side shows; `None` if there are complaints.
pub(super) fn etcd_tls(
    section: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<Arc<ClientConfig>> {
    let remedy = "the certificate that has signed those of the members";
    let ca = section.required_at("ca_file", FILE.like("\"/etc/psmc-coordinator/ca.pem\""), remedy, out);
    let shown = section.optional_at("certificate_file", FILE.like("\"/etc/psmc-coordinator/co1.pem\""), out);
    let key =
        section.optional_at("private_key_file", FILE.like("\"/etc/psmc-coordinator/co1-etcd.key\""), out);
    let roots = ca.and_then(|file| source.read_beside(&file, roots, out))?;
    let identity = match (shown, key) {
        (None, None) => None,
        (Some(shown), Some(key)) => {
            let certificates = source.read_beside(&shown, certificates, out);
            let private = source.read_beside(&key, private_key, out);
            Some((certificates?, private?))
        }
        (Some(one), None) | (None, Some(one)) => {
            let remedy = "name certificate_file and private_key_file, both or none";
            let reason = "a client certificate needs its private key";
            out.push(Complaint::new(reason, remedy).at(one.span()));
            return None;
        }
    };
    let setup = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots));
    let config = match (setup, identity) {
        (Ok(builder), None) => Ok(builder.with_no_client_auth()),
        (Ok(builder), Some((certificates, key))) => builder.with_client_auth_cert(certificates, key),
        (Err(error), _) => Err(error),
    };
    let complaint = |error: rustls::Error| {
        let reason = format!("TLS to etcd cannot be set up: {error}");
        out.push(
            Complaint::new(reason, "check whether the key belongs to the certificate").at(section.place()),
        );
    };
    config.map(Arc::new).map_err(complaint).ok()
}

fn roots(path: &Path) -> Result<RootCertStore, ValueError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ValueError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, pem::Error>>();
    let found = read().map_err(|error| unusable(path, &error))?;
    if found.is_empty() {
        return Err(unusable(path, &pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ValueError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &dyn std::error::Error) -> ValueError {
    let reason = format!("{} cannot be used: {}", path.display(), error_chain(error));
    ValueError::new(reason, "name a readable PEM file")
}
