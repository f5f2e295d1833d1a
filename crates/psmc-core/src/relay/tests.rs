mod counts;
mod queueing;
mod random;
mod sessions;
mod shedding;
mod tunnels;

use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_wire::PacketNumber;
use psmc_wire::datagram::Marks;
use psmc_wire::hop::{HOP_HEADER_LEN, Hop, HopResponse, write_hop_header};
use psmc_wire::ids::KeyBytes;

use super::*;
use crate::shed::Held;

const SITE: KeyBytes = KeyBytes([1; 32]);

/// A relay and what it needs around it.
struct World {
    relay: Relay,
    account: Arc<Account>,
    start: Instant,
    now: Instant,
    draws: u64,
}

/// Somebody who sends to a label.
struct Sender {
    hop: Hop,
    next: PacketNumber,
    address: Address,
}

fn address(text: &str) -> Address {
    Address::of(text.parse().unwrap())
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RelayConfig)) -> Self {
        let start = Instant::now();
        let mut config = RelayConfig {
            max_sessions: 64,
            max_waiting: 1000,
            idle: Duration::from_secs(60),
            worker: (0, 1),
            total: Arc::new(Limiter::new(None)),
            seed: 7,
            origin: start,
        };
        change(&mut config);
        let account = Arc::new(Account::new(SITE, 1000, None));
        Self { relay: Relay::new(&config), account, start, now: start, draws: 0 }
    }

    /// A session to a site at 192.0.2.2.
    fn session(&mut self, rate: Option<u64>) -> Added {
        self.session_to(rate, Some(address("192.0.2.2:5115")), Leg::Site)
    }

    fn session_to(&mut self, rate: Option<u64>, address: Option<Address>, far: Leg) -> Added {
        let ticket = self.account.take_session().unwrap();
        self.add(SessionSpec { ticket, rate, address, far_site: None, far, near_inside: None })
    }

    fn add(&mut self, spec: SessionSpec) -> Added {
        let draws = &mut self.draws;
        let random = || {
            *draws += 1;
            let word = draws.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            std::array::from_fn(|byte| word[byte % 8] ^ u8::try_from(byte).unwrap())
        };
        self.relay.add(spec, random, self.now).unwrap()
    }

    /// Where a datagram goes at once, and as what.
    fn send(&mut self, mut datagram: Vec<u8>, from: Address) -> Option<(Address, Vec<u8>)> {
        let sent = self.relay.handle_datagram(&mut datagram, from, self.now);
        sent.map(|(to, bytes)| (to, bytes.to_vec()))
    }

    /// What need not wait any more.
    fn waiting(&mut self) -> Vec<(Address, Vec<u8>)> {
        self.relay.handle_timeout(self.now);
        let mut sent = Vec::new();
        while let Some((to, buffer, bytes)) = self.relay.poll_waiting(self.now) {
            sent.push((to, buffer.packet()[bytes].to_vec()));
            self.relay.recycle(buffer);
        }
        sent
    }

    /// All that is sent because of a datagram of `len` bytes from the other side, the datagram first.
    fn across(&mut self, other: &mut Sender, len: usize) -> Vec<(Address, Vec<u8>)> {
        let datagram = other.datagram(len);
        let at_once = self.send(datagram, other.address).expect("it is handed on at once");
        std::iter::once(at_once).chain(self.waiting()).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn status(&self, id: psmc_wire::relay::SessionId) -> Option<SessionStatus> {
        self.relay.sessions(self.now).find(|session| session.id == id)
    }
}

impl Sender {
    fn new(hop: &Hop, from: &str) -> Self {
        Self { hop: hop.clone(), next: PacketNumber(0), address: address(from) }
    }

    /// Its next datagram, of `len` bytes with hop header.
    fn datagram(&mut self, len: usize) -> Vec<u8> {
        self.marked(len, 0)
    }

    /// Answers a challenge from there.
    fn respond(&self, token: [u8; 8], from: Address, world: &mut World) {
        assert_eq!(world.send(HopResponse::encode(token, &self.hop).to_vec(), from), None);
    }

    fn marked(&mut self, len: usize, drop_precedence: u8) -> Vec<u8> {
        let mut datagram = vec![0; len];
        datagram[HOP_HEADER_LEN] = 0x50;
        // So that no two are the same.
        let count = self.next.0.to_be_bytes();
        datagram[HOP_HEADER_LEN + 4..HOP_HEADER_LEN + 12].copy_from_slice(&count);
        let marks = Marks { drop_precedence, ..Marks::default() };
        write_hop_header(&mut datagram, &self.hop, self.next, marks);
        self.next = self.next.next();
        datagram
    }
}
