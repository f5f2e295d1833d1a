//! Why a path carries no data: the words of the status and of the log.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_core::{self as core, PathState};
use psmc_wire::frame::PathUse;

use super::paths::OpenPath;
use super::relays::Keeper;
use crate::config::Transport;

/// Why a path carries no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has been removed.
    Removed,
    /// There is no interface of this name.
    NoInterface(String),
    /// Its socket cannot be bound, or its interface is down.
    LinkDown { interface: Option<String>, address: Option<IpAddr> },
    /// Its interface has no address for where it leads.
    NoAddress { interface: String, remote: IpAddr },
    /// Its stream is not there, for this reason if it was dialled.
    NoStream(Option<String>),
    /// A captive portal is in its way, with this page.
    Portal(String),
    /// There are no keys to ask the peer with.
    NoKeys,
    /// A relay on its way does not serve.
    Relay(String),
    /// Nobody has ever answered on it.
    NoAnswer {
        from: SocketAddr,
        by: Option<String>,
        for_: Duration,
        is_connected: bool,
        is_relayed: bool,
        is_udp_only: bool,
    },
    /// Nothing comes any more.
    Silent { from: SocketAddr, for_: Duration },
}

/// What is known of the peer that a path leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Whether there are keys to seal data with.
    pub(super) has_keys: bool,
    /// Whether there is a control connection.
    pub(super) is_connected: bool,
    pub(super) now: Instant,
}

impl Known {
    /// What is known of a session.
    pub(super) fn of(session: &core::PeerStatus, now: Instant) -> Self {
        Self { has_keys: session.key.is_some(), is_connected: session.connected_since.is_some(), now }
    }
}

impl Why {
    /// Why this path carries no data; `None` if it does, or is in reserve. `open` is how this site has opened it.
    pub(super) fn of(path: &core::PathStatus, open: Option<&OpenPath>, known: Known) -> Option<Self> {
        if path.usage == PathUse::Closed {
            return Some(Self::Removed);
        }
        if path.state == PathState::Active {
            return None;
        }
        if let Some(page) = open.and_then(|open| open.portal.as_ref()) {
            return Some(Self::Portal(page.clone()));
        }
        let interface = open.and_then(|open| open.settings.interface.as_ref()).map(ToString::to_string);
        if let Some(stream) = open.and_then(|open| open.stream.as_ref()).filter(|_| !path.link_up) {
            return Some(Self::NoStream(stream.trouble()));
        }
        if !path.link_up {
            return Some(match interface {
                Some(interface) if open.is_some_and(|open| open.has_no_address) => {
                    Self::NoAddress { interface, remote: path.address.remote.ip() }
                }
                Some(name) if open.is_some_and(|open| open.interface_index.is_none()) => {
                    Self::NoInterface(name)
                }
                interface => {
                    let address = open.and_then(|open| open.settings.address).map(|address| address.get());
                    Self::LinkDown { interface, address }
                }
            });
        }
        let keeping = open.and_then(|open| open.keeper.as_ref()).map(Keeper::keeping);
        if let Some(error) = keeping.as_ref().and_then(|keeping| keeping.error.clone()) {
            return Some(Self::Relay(error));
        }
        if !known.has_keys {
            return Some(Self::NoKeys);
        }
        let from = path.address.remote;
        Some(match path.heard_at {
            Some(at) => Self::Silent { from, for_: known.now.saturating_duration_since(at) },
            None => Self::NoAnswer {
                from,
                by: interface,
                for_: known.now.saturating_duration_since(path.since),
                is_connected: known.is_connected,
                is_relayed: keeping.is_some() || path.relay.is_some(),
                is_udp_only: open.is_some_and(|open| open.settings.transport == Transport::Udp),
            },
        })
    }

    /// Whether somebody has to do something about it.
    pub(super) fn needs_help(&self) -> bool {
        match self {
            Self::NoInterface(_) | Self::NoAddress { .. } | Self::Portal(_) | Self::NoAnswer { .. } => true,
            Self::Removed
            | Self::LinkDown { .. }
            | Self::NoStream(_)
            | Self::NoKeys
            | Self::Relay(_)
            | Self::Silent { .. } => false,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("removed; datagrams in flight are still received"),
            Self::NoInterface(name) => {
                write!(f, "waiting for interface {name}, which does not exist")
            }
            Self::LinkDown { interface, address } => {
                match interface {
                    Some(name) => write!(f, "its interface {name} is down")?,
                    None => f.write_str("its socket cannot be bound")?,
                }
                match address {
                    Some(address) => write!(f, ", or {address} is none of its addresses"),
                    None => Ok(()),
                }
            }
            Self::NoAddress { interface, remote } => {
                write!(f, "its interface {interface} has no address from which {remote} could be reached")
            }
            Self::NoStream(None) => f.write_str("waiting for a stream of TLS"),
            Self::NoStream(Some(trouble)) => write!(f, "no stream of TLS: {trouble}"),
            Self::Portal(page) => write!(f, "a captive portal is in the way: sign in at {page}"),
            Self::NoKeys => f.write_str("waiting for the control connection (no keys yet)"),
            Self::Relay(error) => f.write_str(error),
            Self::NoAnswer { from, by, for_, is_connected, is_relayed, is_udp_only } => {
                write!(f, "no UDP reply from {from}")?;
                if let Some(interface) = by {
                    write!(f, " over {interface}")?;
                }
                write!(f, " for {}", age(*for_))?;
                if *is_connected && !is_relayed {
                    let auto = if *is_udp_only { "set transport = \"auto\", " } else { "" };
                    write!(f, "; TCP works: {auto}allow UDP in any firewall on the path, or use a relay")?;
                }
                Ok(())
            }
            Self::Silent { from, for_ } => write!(f, "nothing heard from {from} for {}", age(*for_)),
        }
    }
}

/// A time as people say it.
pub(super) fn age(time: Duration) -> String {
    match time.as_secs() {
        0..120 => format!("{} s", time.as_secs()),
        120..7200 => format!("{} min", time.as_secs() / 60),
        _ => format!("{} h", time.as_secs() / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_they_are_about_and_what_to_do() {
        let from = SocketAddr::from(([203, 0, 113, 5], 5115));
        let no_answer = |is_connected, is_relayed| Why::NoAnswer {
            from,
            by: Some("wan0".to_owned()),
            for_: Duration::from_secs(12),
            is_connected,
            is_relayed,
            is_udp_only: true,
        };
        let firewall = no_answer(true, false).to_string();
        assert!(
            firewall.starts_with("no UDP reply from 203.0.113.5:5115 over wan0 for 12 s; TCP works"),
            "{firewall}"
        );
        assert!(
            ["transport = \"auto\"", "firewall", "relay"].iter().all(|remedy| firewall.contains(remedy)),
            "{firewall}"
        );
        for quiet in [no_answer(false, false), no_answer(true, true)] {
            assert_eq!(quiet.to_string(), "no UDP reply from 203.0.113.5:5115 over wan0 for 12 s");
        }
        let silent = Why::Silent { from, for_: Duration::from_secs(180) };
        assert_eq!(silent.to_string(), "nothing heard from 203.0.113.5:5115 for 3 min");
        let refused = Why::NoStream(Some("connection refused".to_owned()));
        assert_eq!(refused.to_string(), "no stream of TLS: connection refused");
        let down = Why::LinkDown { interface: Some("wan0".to_owned()), address: None };
        assert_eq!(down.to_string(), "its interface wan0 is down");
    }
}
