//! What a relay makes of packets that anybody may send to it: IPv4 in IPv4, between the ends of tunnels or of its own sessions,
//! errors by ICMP about them, and datagrams under labels that exist.
//!
//! The bytes are operations: a byte says which, two say how many bytes the packet has that follows.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::relay::{
    Account, Address, Leg, Limiter, Packets, PlainEnd, PlainOuter, PlainPair, PlainTunnels,
    PlainTunnelsConfig, Relay, RelayConfig, SessionSpec,
};
use psmc_wire::PacketNumber;
use psmc_wire::hop::{Hop, HopHeader, replace_hop_header};
use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::IPV4_HEADER_LEN;

/// What arrives at a relay.
pub fn raw(mut bytes: &[u8]) {
    let mut now = Instant::now();
    let mut tunnels = tunnels(now);
    let (mut relay, hops) = relay(now);
    let mut numbers = [0_u64; 2];
    let mut out = Sent;
    for _ in 0..MAX_OPERATIONS {
        let Some(([operation, high, low], rest)) = bytes.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (packet, rest) = rest.split_at(length);
        bytes = rest;
        let mut packet = packet.to_vec();
        match operation % 6 {
            0 | 1 => {
                // The worker asks first.
                let _ = tunnels.claims(&packet);
                tunnels.handle_packet(&mut packet, now, &mut out);
            }
            2 => tunnels.handle_error(&packet, now, &mut out),
            3 => {
                let from = SocketAddr::from(([192, 0, 2, *operation], 5115));
                let _ = relay.handle_datagram(&mut packet, Address::of(from), now);
            }
            4 => authentic(&mut relay, &hops, &mut numbers, *operation, packet, now),
            _ => now += Duration::from_millis(u64::from(*high) * 256),
        }
        tunnels.handle_timeout(64, now, &mut out);
        relay.handle_timeout(now);
        while let Some(waiting) = relay.poll_waiting(now) {
            relay.recycle(waiting.1);
        }
    }
}

/// A datagram of a side of the session, with any contents.
fn authentic(
    relay: &mut Relay,
    hops: &[Hop; 2],
    numbers: &mut [u64; 2],
    side: u8,
    mut packet: Vec<u8>,
    now: Instant,
) {
    let side = usize::from(side >> 7);
    // Who has no header has not been there before.
    if HopHeader::parse(&packet).is_err() {
        return;
    }
    numbers[side] += 1;
    replace_hop_header(&mut packet, &hops[side], PacketNumber(numbers[side]));
    let from = SocketAddr::from(([192, 0, 2, [1, 2][side]], 5115));
    let _ = relay.handle_datagram(&mut packet, Address::of(from), now);
}

/// What was sent, of which the first bytes are an IPv4 header.
struct Sent;

impl Packets for Sent {
    fn push(&mut self, header: &[u8; IPV4_HEADER_LEN], inner: &[u8]) {
        assert_eq!(header[0], 0x45);
        assert!(header.len() + inner.len() <= usize::from(u16::MAX), "{} bytes", inner.len());
    }
}

fn tunnels(origin: Instant) -> PlainTunnels {
    let end = |outer: [u8; 4], inside: &str| PlainEnd {
        outer: PlainOuter::Fixed(Ipv4Addr::from(outer)),
        local: Ipv4Addr::UNSPECIFIED,
        inside: vec![inside.parse().expect("a network")],
        owner: None,
        mtu: 1500,
    };
    let pair = PlainPair {
        name: "pair".to_owned(),
        rate: Some(1_000_000),
        ends: [end([192, 0, 2, 1], "10.1.0.0/16"), end([192, 0, 2, 2], "10.2.0.0/16")],
    };
    let total = Arc::new(Limiter::new(None));
    PlainTunnels::new(PlainTunnelsConfig { pairs: vec![pair], max_waiting: 64, total, seed: 1, origin })
}

fn relay(origin: Instant) -> (Relay, [Hop; 2]) {
    let config = RelayConfig {
        max_sessions: 4,
        max_waiting: 64,
        idle: Duration::from_secs(60),
        worker: (0, 1),
        total: Arc::new(Limiter::new(None)),
        seed: 1,
        origin,
    };
    let mut relay = Relay::new(&config);
    let account = Arc::new(Account::new(KeyBytes([1; 32]), 4, None));
    let ticket = account.take_session().expect("there is room");
    let address = Some(Address::of(SocketAddr::from(([192, 0, 2, 2], 5115))));
    let spec = SessionSpec {
        ticket,
        rate: Some(1_000_000),
        address,
        far_site: None,
        far: Leg::Site,
        near_inside: None,
    };
    let mut chance = 0;
    let random = || {
        chance += 1;
        [chance; 32]
    };
    let added = relay.add(spec, random, origin).expect("there is room");
    (relay, [added.near, added.far])
}

/// So that an execution ends.
const MAX_OPERATIONS: usize = 200;
