//! A relay's engine with sessions, and datagrams for them in random order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::relay::{Account, Added, Address, Leg, Limiter, Relay, RelayConfig, SessionSpec};
use psmc_wire::PacketNumber;
use psmc_wire::datagram::Marks;
use psmc_wire::hop::{HOP_HEADER_LEN, Hop, write_hop_header};
use psmc_wire::ids::KeyBytes;

/// Datagrams that are counted.
pub(crate) const DATAGRAMS: usize = 100_000;

/// Bytes of each: the length does not matter to the engine, which copies nothing.
const LEN: usize = HOP_HEADER_LEN + 64;

/// The first byte of what relays hand on.
const FIRST_BYTE: u8 = 0x50;

/// Sessions for which the relay has room, however many there are.
const MAX_SESSIONS: u32 = 10_000;

/// A relay, and datagrams that it has not seen.
pub(crate) struct Workload {
    relay: Relay,
    now: Instant,
    from: Address,
    datagrams: Vec<u8>,
}

impl Workload {
    /// Datagrams for so many sessions, all of which have had one before.
    pub(crate) fn new(sessions: u32) -> Self {
        let (mut workload, added) = Self::sessions(sessions);
        let mut next = vec![PacketNumber(1); added.len()];
        let mut random = Random(7);
        for _ in 0..DATAGRAMS {
            let session = random.below(added.len());
            workload.datagrams.extend(datagram(&added[session].near, next[session]));
            next[session] = next[session].next();
        }
        workload
    }

    /// So many sessions, through which one datagram has gone in each direction.
    pub(crate) fn sessions(sessions: u32) -> (Self, Vec<Added>) {
        let now = Instant::now();
        let mut relay = Relay::new(&RelayConfig {
            max_sessions: MAX_SESSIONS,
            max_waiting: 1000,
            idle: Duration::from_secs(60),
            worker: (0, 1),
            total: Arc::new(Limiter::new(None)),
            seed: 7,
            origin: now,
        });
        let account = Arc::new(Account::new(KeyBytes([1; 32]), MAX_SESSIONS, None));
        let mut random = Random(1);
        let from = Address::of(([192, 0, 2, 1], 5115).into());
        let mut added = Vec::new();
        for _ in 0..sessions {
            let ticket = account.take_session().expect("the site may have them all");
            let spec = SessionSpec {
                ticket,
                rate: None,
                address: Some(from),
                far_site: None,
                far: Leg::Site,
                near_inside: None,
            };
            let session = relay.add(spec, || random.bytes(), now).expect("the relay has room for them all");
            for hop in [&session.near, &session.far] {
                let mut first = datagram(hop, PacketNumber(0));
                relay.handle_datagram(&mut first, from, now).expect("an authentic datagram goes on");
            }
            added.push(session);
        }
        (Self { relay, now, from, datagrams: Vec::new() }, added)
    }

    /// Makes the relay hand all datagrams on.
    ///
    /// # Panics
    /// If it refuses one, for then something else would be measured.
    pub(crate) fn carry(&mut self) {
        for datagram in self.datagrams.chunks_exact_mut(LEN) {
            let sent = self.relay.handle_datagram(datagram, self.from, self.now);
            assert!(sent.is_some(), "an authentic datagram goes on");
        }
    }
}

fn datagram(to: &Hop, number: PacketNumber) -> [u8; LEN] {
    let mut datagram = [FIRST_BYTE; LEN];
    write_hop_header(&mut datagram, to, number, Marks::default());
    datagram
}

/// SplitMix64: the same numbers each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the bound, which is a usize")]
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self) -> [u8; 32] {
        let words = [self.next(), self.next(), self.next(), self.next()].map(u64::to_be_bytes);
        std::array::from_fn(|byte| words[byte / 8][byte % 8])
    }
}
