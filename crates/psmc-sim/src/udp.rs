//! Who takes the datagrams that arrive at a port.

use std::collections::BTreeMap;

use psmc_core::SocketId;

use crate::ids::{HostId, LinkId, SiteId, TrafficId};

/// The first port for sockets that nobody gave one (RFC 6335 §6).
const FIRST_EPHEMERAL: u16 = 49152;

/// Who takes a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UdpOwner {
    Site(SiteId, SocketId),
    Traffic(TrafficId),
}

/// A port that is open: its owner, and the link that it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpPort {
    pub(crate) owner: UdpOwner,
    pub(crate) bound: Option<LinkId>,
}

/// The UDP sockets of all hosts.
#[derive(Debug, Default)]
pub(crate) struct UdpPorts {
    ports: BTreeMap<(HostId, u16), UdpPort>,
    next: BTreeMap<HostId, u16>,
}

impl UdpPorts {
    /// Opens a port, instead of whoever had it.
    pub(crate) fn open(&mut self, host: HostId, port: u16, claim: UdpPort) {
        self.ports.insert((host, port), claim);
    }

    /// Opens a port that is free; `None` if there is none.
    pub(crate) fn open_any(&mut self, host: HostId, claim: UdpPort) -> Option<u16> {
        let next = self.next.entry(host).or_insert(FIRST_EPHEMERAL);
        let mut candidates = (*next..=u16::MAX).chain(FIRST_EPHEMERAL..*next);
        let port = candidates.find(|port| !self.ports.contains_key(&(host, *port)))?;
        *next = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
        self.open(host, port, claim);
        Some(port)
    }

    /// Closes a port.
    pub(crate) fn close(&mut self, host: HostId, port: u16) {
        self.ports.remove(&(host, port));
    }

    /// Who takes a datagram that came to a port by that link.
    pub(crate) fn owner(&self, host: HostId, port: u16, by: Option<LinkId>) -> Option<UdpOwner> {
        let claim = self.ports.get(&(host, port))?;
        claim.bound.is_none_or(|bound| Some(bound) == by).then_some(claim.owner)
    }
}
