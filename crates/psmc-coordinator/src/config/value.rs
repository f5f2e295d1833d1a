//! Values that only a coordinator's file has.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use psmc_routes::update::Server;
use psmc_toml::{Kind, SocketPath, ValueError, parse_net, socket_path};
use tokio_rustls::rustls::pki_types::ServerName;

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
        let remedy = "write a word behind the slash, such as \"etcd://10.0.0.1:2379/psmc\"";
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
