//! Network address translation (RFC 4787).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::packet::{Content, Packet};

/// A binding that carried nothing for so long is gone: what RFC 4787 (REQ-5) recommends.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// The first port that is given away where the inside one is taken: below are those of services.
const FIRST_PORT: u16 = 1024;

/// How a NAT maps and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatKind {
    /// One outside port for an inside address and port, whatever the destination; anybody may answer.
    EndpointIndependent,
    /// Another one for each destination; only that destination may answer.
    Symmetric,
}

/// The ports of a protocol are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Tcp,
    Udp,
    Echo,
}

/// Whose packets share an outside port: all from an inside address and port, or only those to one destination.
type Flow = (Space, SocketAddr, Option<SocketAddr>);

/// What an outside port stands for.
#[derive(Debug)]
struct Binding {
    flow: Flow,
    used_at: Instant,
}

/// The bindings of a NAT.
#[derive(Debug)]
pub(super) struct Nat {
    kind: NatKind,
    bindings: BTreeMap<(Space, u16), Binding>,
    ports: BTreeMap<Flow, u16>,
    next_port: u16,
}

impl Nat {
    /// Without bindings.
    pub(super) fn new(kind: NatKind) -> Self {
        Self { kind, bindings: BTreeMap::new(), ports: BTreeMap::new(), next_port: FIRST_PORT }
    }

    /// Gives a packet that leaves the outside address, and a port; says whether there was one.
    pub(super) fn translate_outbound(&mut self, packet: &mut Packet, outside: IpAddr, now: Instant) -> bool {
        let Some(space) = space(packet.content(), true) else {
            return false;
        };
        let remote = match self.kind {
            NatKind::EndpointIndependent => None,
            NatKind::Symmetric => Some(packet.to()),
        };
        let flow = (space, packet.from(), remote);
        let Some(port) = self.port_of(flow, now) else {
            return false;
        };
        packet.set_from(SocketAddr::new(outside, port));
        true
    }

    /// Gives a packet from outside to whom it belongs; says whether it belongs to anybody.
    pub(super) fn translate_inbound(&mut self, packet: &mut Packet, now: Instant) -> bool {
        let (to, from) = (packet.to(), packet.from());
        let binding =
            space(packet.content(), false).and_then(|space| self.bindings.get_mut(&(space, to.port())));
        let Some(binding) = binding.filter(|binding| binding.used_at + IDLE_TIME > now) else {
            return false;
        };
        let (_, inside, remote) = binding.flow;
        if remote.is_some_and(|remote| remote != from) {
            return false;
        }
        binding.used_at = now;
        packet.set_to(inside);
        true
    }

    fn port_of(&mut self, flow: Flow, now: Instant) -> Option<u16> {
        let space = flow.0;
        if let Some(&port) = self.ports.get(&flow)
            && let Some(binding) = self.bindings.get_mut(&(space, port))
            && binding.used_at + IDLE_TIME > now
        {
            binding.used_at = now;
            return Some(port);
        }
        let port = self.free_port(flow, now)?;
        self.ports.insert(flow, port);
        if let Some(old) = self.bindings.insert((space, port), Binding { flow, used_at: now })
            && old.flow != flow
        {
            self.ports.remove(&old.flow);
        }
        Some(port)
    }

    /// The inside port if nobody has it and no other destination wants one; else the next one that is free.
    fn free_port(&mut self, flow: Flow, now: Instant) -> Option<u16> {
        let (space, inside, _) = flow;
        let is_free = |port: u16| {
            let binding = self.bindings.get(&(space, port));
            binding.is_none_or(|binding| binding.used_at + IDLE_TIME <= now)
        };
        if self.kind == NatKind::EndpointIndependent && is_free(inside.port()) {
            return Some(inside.port());
        }
        let from = self.next_port;
        let port = (from..=u16::MAX).chain(FIRST_PORT..from).find(|&port| is_free(port))?;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        Some(port)
    }
}

fn space(content: Content, outbound: bool) -> Option<Space> {
    match content {
        Content::Tcp => Some(Space::Tcp),
        Content::Udp => Some(Space::Udp),
        Content::EchoRequest if outbound => Some(Space::Echo),
        Content::EchoReply if !outbound => Some(Space::Echo),
        Content::EchoRequest | Content::EchoReply | Content::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OUTSIDE: &str = "198.51.100.1";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn send(nat: &mut Nat, from: SocketAddr, to: SocketAddr, now: Instant) -> SocketAddr {
        let mut packet = Packet::udp(from, to, b"out");
        assert!(nat.translate_outbound(&mut packet, OUTSIDE.parse().unwrap(), now));
        assert_eq!(packet.to(), to);
        packet.from()
    }

    fn answer(nat: &mut Nat, from: SocketAddr, to: SocketAddr, now: Instant) -> Option<SocketAddr> {
        let mut packet = Packet::udp(from, to, b"in");
        nat.translate_inbound(&mut packet, now).then(|| packet.to())
    }

    #[test]
    fn endpoint_independent_has_one_port_and_lets_anybody_answer() {
        let (mut nat, now) = (Nat::new(NatKind::EndpointIndependent), Instant::now());
        let (inside, a, b) = (address("10.0.0.2:5000"), address("192.0.2.1:1"), address("192.0.2.2:2"));
        let seen = send(&mut nat, inside, a, now);
        assert_eq!(seen, address("198.51.100.1:5000"));
        assert_eq!(send(&mut nat, inside, b, now), seen);
        assert_eq!(answer(&mut nat, address("192.0.2.9:9"), seen, now), Some(inside));
        let other = send(&mut nat, address("10.0.0.3:5000"), a, now);
        assert_ne!(other, seen, "the port is taken");
        assert_eq!(answer(&mut nat, a, address("198.51.100.1:77"), now), None);
    }

    #[test]
    fn symmetric_has_a_port_for_each_destination_which_alone_may_answer() {
        let (mut nat, now) = (Nat::new(NatKind::Symmetric), Instant::now());
        let (inside, a, b) = (address("10.0.0.2:5000"), address("192.0.2.1:1"), address("192.0.2.2:2"));
        let (to_a, to_b) = (send(&mut nat, inside, a, now), send(&mut nat, inside, b, now));
        assert_ne!(to_a, to_b);
        assert_eq!(send(&mut nat, inside, a, now), to_a);
        assert_eq!(answer(&mut nat, a, to_a, now), Some(inside));
        assert_eq!(answer(&mut nat, b, to_a, now), None);
        assert_eq!(
            answer(&mut nat, address("192.0.2.1:9"), to_a, now),
            None,
            "another port is somebody else"
        );
    }

    #[test]
    fn a_binding_that_is_not_used_goes() {
        let (mut nat, now) = (Nat::new(NatKind::EndpointIndependent), Instant::now());
        let (inside, a) = (address("10.0.0.2:5000"), address("192.0.2.1:1"));
        let seen = send(&mut nat, inside, a, now);
        assert_eq!(answer(&mut nat, a, seen, now + IDLE_TIME / 2), Some(inside));
        assert_eq!(answer(&mut nat, a, seen, now + IDLE_TIME), Some(inside), "the answer has renewed it");
        assert_eq!(answer(&mut nat, a, seen, now + 2 * IDLE_TIME), None);
    }

    #[test]
    fn pings_are_told_apart_by_their_ident() {
        let (mut nat, now) = (Nat::new(NatKind::Symmetric), Instant::now());
        let (inside, a): (IpAddr, IpAddr) = ("10.0.0.2".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let mut request = Packet::echo_request(inside, a, 7, 1, 8);
        assert!(nat.translate_outbound(&mut request, OUTSIDE.parse().unwrap(), now));
        let mut reply = request.into_echo_reply();
        assert!(nat.translate_inbound(&mut reply, now));
        assert_eq!(reply.to(), SocketAddr::new(inside, 7));
    }

    proptest! {
        #[test]
        fn no_two_flows_share_a_port_and_answers_come_back(
            symmetric: bool,
            flows in proptest::collection::vec((0..4u8, 0..4u16, 0..4u8), 1..60),
        ) {
            let kind = if symmetric { NatKind::Symmetric } else { NatKind::EndpointIndependent };
            let (mut nat, now) = (Nat::new(kind), Instant::now());
            let mut owner_of = BTreeMap::new();
            for (host, port, destination) in flows {
                let inside = SocketAddr::new(IpAddr::from([10, 0, 0, host]), 5000 + port);
                let remote = SocketAddr::new(IpAddr::from([192, 0, 2, destination]), 53);
                let seen = send(&mut nat, inside, remote, now);
                let owner = (inside, symmetric.then_some(remote));
                prop_assert_eq!(*owner_of.entry(seen).or_insert(owner), owner);
                prop_assert_eq!(answer(&mut nat, remote, seen, now), Some(inside));
            }
        }
    }
}
