//! The first hop of a path: the peer itself, or a relay, for which each datagram carries a header.

use std::net::SocketAddr;
use std::time::Instant;

use psmc_wire::PacketNumber;
use psmc_wire::control::PathVia;
use psmc_wire::datagram::{Marks, set_marks};
use psmc_wire::hop::{HOP_CHALLENGE_LEN, HOP_HEADER_LEN, Hop, HopChallenge, HopResponse, write_hop_header};
use psmc_wire::ids::KeyBytes;

use super::Path;
use crate::batch::PathAddress;

/// A session at a relay, or at each relay of a chain, that a site has reserved for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Where the relay next to this site takes datagrams.
    pub remote: SocketAddr,
    /// What this site's datagrams carry for it.
    pub near: Hop,
    /// The key of the relay next to the peer; in a chain that is another one.
    pub relay: KeyBytes,
    /// Where that one takes datagrams.
    pub relay_address: SocketAddr,
    /// What the peer's datagrams carry for it.
    pub far: Hop,
}

/// What the datagrams of a path reach first.
#[derive(Debug)]
pub(crate) enum FirstHop {
    /// The peer.
    Peer,
    /// A relay at which there is no session yet: nothing can be sent.
    Awaited,
    /// A relay.
    Relay(Relayed),
}

/// The sender to one label of a relay.
#[derive(Debug)]
pub(crate) struct Relayed {
    to: Hop,
    next: PacketNumber,
    /// The key of the relay next to the peer, or, if the peer has opened the path, next to this site.
    relay: KeyBytes,
    /// What the peer needs to know, if this site has opened the path.
    peers: Option<PeersHop>,
}

/// What the peer needs to know.
#[derive(Debug)]
struct PeersHop {
    address: SocketAddr,
    hop: Hop,
    /// Whether it was told: then it may have used the hop.
    told: bool,
}

impl FirstHop {
    /// Bytes in front of each datagram of the session.
    pub(crate) fn header_len(&self) -> usize {
        match self {
            Self::Peer | Self::Awaited => 0,
            Self::Relay(_) => HOP_HEADER_LEN,
        }
    }

    /// Whether nothing can be sent for want of a session at a relay.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Self::Awaited)
    }

    /// The relay by which the peer knows the path, or this site if the peer has opened it.
    pub(crate) fn relay(&self) -> Option<KeyBytes> {
        match self {
            Self::Peer | Self::Awaited => None,
            Self::Relay(relayed) => Some(relayed.relay),
        }
    }

    /// Marks a sealed datagram: in its own header, or in that which is written in front, behind room for it.
    pub(super) fn mark(&mut self, datagram: &mut [u8], marks: Marks) {
        match self {
            Self::Peer | Self::Awaited => set_marks(datagram, marks),
            Self::Relay(relayed) => {
                write_hop_header(datagram, &relayed.to, relayed.next, marks);
                relayed.next = relayed.next.next();
            }
        }
    }

    /// Whether the relay to which datagrams go has sent this challenge.
    pub(crate) fn has_sent(&self, challenge: &[u8]) -> bool {
        matches!(self, Self::Relay(relayed) if HopChallenge::is_authentic(challenge, &relayed.to))
    }

    /// What answers a challenge of the relay.
    pub(super) fn response(&self, token: [u8; 8]) -> Option<[u8; HOP_CHALLENGE_LEN]> {
        match self {
            Self::Peer | Self::Awaited => None,
            Self::Relay(relayed) => Some(HopResponse::encode(token, &relayed.to)),
        }
    }

    /// Whether hop numbers go on when the session begins anew: not if the peer may have lost count of its own.
    pub(crate) fn outlives_session(&self) -> bool {
        match self {
            Self::Peer | Self::Awaited => true,
            Self::Relay(relayed) => relayed.peers.as_ref().is_some_and(|peers| !peers.told),
        }
    }

    /// The same for a session that begins anew.
    pub(crate) fn renewed(self) -> Self {
        if self.outlives_session() { self } else { Self::Awaited }
    }
}

impl Path {
    /// Keeps the path silent until there is a session at its relay.
    pub(crate) fn await_hop(&mut self) {
        self.first_hop = FirstHop::Awaited;
    }

    /// Goes on with the first hop that the path had in the session before.
    pub(crate) fn resume(&mut self, first_hop: FirstHop, now: Instant) {
        self.first_hop = first_hop;
        self.refit(now);
    }

    /// Leads the path, which this site has opened, through another session at a relay, or another relay.
    pub(crate) fn lead_through(&mut self, via: Via, now: Instant) {
        let Via { remote, near, relay, relay_address, far } = via;
        let peers = Some(PeersHop { address: relay_address, hop: far, told: false });
        self.first_hop = FirstHop::Relay(Relayed { to: near, next: PacketNumber::default(), relay, peers });
        self.config.remote = remote;
        self.seen_as = None;
        self.rebind(PathAddress { remote, ..self.address }, now);
    }

    /// The peer has told what datagrams on its path must carry. Its newest challenge is answered once more: what was
    /// sent without hop header has not arrived.
    pub(crate) fn on_path_via(&mut self, via: PathVia, now: Instant) {
        let is_known = matches!(&self.first_hop, FirstHop::Relay(known) if known.to == via.hop);
        if is_known {
            return;
        }
        let PathVia { relay, hop: to, .. } = via;
        self.first_hop = FirstHop::Relay(Relayed { to, next: PacketNumber::default(), relay, peers: None });
        self.refit(now);
        self.response = self.newest_challenge;
        self.liveness.probe_now(now);
    }

    /// Sends to this relay, at which this site has registered, on a path that the peer has opened.
    pub(crate) fn answer_at(&mut self, relay: PathAddress, now: Instant) {
        let same = (self.address.socket, self.address.remote) == (relay.socket, relay.remote);
        if !same {
            self.config.socket = relay.socket;
            self.config.remote = relay.remote;
            self.rebind(relay, now);
        }
    }

    /// What the peer needs to know about the relay of this path; counts as told from then on.
    pub(crate) fn tell_via(&mut self) -> Option<PathVia> {
        let FirstHop::Relay(Relayed { relay, peers: Some(peers), .. }) = &mut self.first_hop else {
            return None;
        };
        peers.told = true;
        Some(PathVia { path: self.id, relay: *relay, address: peers.address, hop: peers.hop.clone() })
    }

    /// Whether datagrams from elsewhere move the path: the relay that this site has chosen does not move by itself.
    pub(crate) fn follows_peer(&self) -> bool {
        !(self.opened_here && matches!(self.first_hop, FirstHop::Relay(_)))
    }
}
