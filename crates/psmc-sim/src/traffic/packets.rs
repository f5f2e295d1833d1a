//! ICMP echo requests.
//!
//! UDP at a constant rate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{Desk, Generator, Place, Seen};
use crate::packet::Packet;
use crate::stack::UdpSource;
use crate::stack::{UdpOwner, UdpPort};
use crate::world::TrafficId;

/// Requests whose answers are waited for: with more, numbers would repeat.
const MAX_OUTSTANDING: usize = 1 << 15;

/// Asks at equal intervals.
#[derive(Debug)]
pub(super) struct Ping {
    interval: Duration,
    payload: usize,
    ident: u16,
    next: Option<Instant>,
    number: u64,
    outstanding: BTreeMap<u64, Instant>,
    newest: Option<u64>,
}

impl Ping {
    /// Requests with so many bytes, that far apart.
    pub(super) fn new(place: &Place, interval: Duration, payload: usize, id: TrafficId) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what comes back under another number is passed over"
        )]
        let ident = id.0 as u16;
        Self {
            interval,
            payload,
            ident,
            next: Some(place.start),
            number: 0,
            outstanding: BTreeMap::new(),
            newest: None,
        }
    }
}

impl Generator for Ping {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.next = None;
            return;
        }
        let Place { from, remote, .. } = desk.place;
        #[expect(clippy::cast_possible_truncation, reason = "the numbers of pings wrap")]
        let number = self.number as u16;
        if let Some(source) = desk.stack.network.source(from, remote.ip(), None) {
            let packet = Packet::echo_request(source, remote.ip(), self.ident, number, self.payload);
            desk.stack.network.send(from, packet, None, desk.now);
        }
        desk.note(Seen::Sent);
        self.outstanding.insert(self.number, desk.now);
        if self.outstanding.len() > MAX_OUTSTANDING {
            self.outstanding.pop_first();
        }
        self.number += 1;
        self.next = self.next.map(|at| at + self.interval);
    }

    fn handle_echo_reply(&mut self, packet: &Packet, desk: &mut Desk<'_>) {
        #[expect(clippy::cast_possible_truncation, reason = "the numbers of pings wrap")]
        let behind = (self.number as u16).wrapping_sub(packet.echo_number());
        let number = self.number.saturating_sub(behind.into());
        // An answer that comes twice counts once.
        if let Some(sent_at) = self.outstanding.remove(&number) {
            let late = self.newest.is_some_and(|newest| number < newest);
            self.newest = self.newest.max(Some(number));
            desk.note(Seen::Delivered(self.payload as u64));
            desk.note(Seen::Arrived { sent_at, late });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// Bytes of a datagram that say when it was sent, and which one it is; a shorter one is not recognised.
const HEADER: usize = 16;

/// Sends datagrams of one length at equal intervals.
#[derive(Debug)]
pub(super) struct Datagrams {
    payload: Vec<u8>,
    interval: Duration,
    start: Instant,
    next: Option<Instant>,
    sent: u64,
    port: Option<u16>,
    /// The numbers of those that have not arrived.
    missing: BTreeSet<u64>,
    /// The number of the newest that has arrived.
    newest: Option<u64>,
}

impl Datagrams {
    /// So many bits per second, in datagrams of so many bytes.
    pub(super) fn new(place: &Place, rate: u64, payload: usize) -> Self {
        let bits = payload as u64 * 8;
        let nanos = (u128::from(bits) * 1_000_000_000 / u128::from(rate.max(1))).max(1);
        Self {
            payload: vec![0; payload],
            interval: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            start: place.start,
            next: Some(place.start),
            sent: 0,
            port: None,
            missing: BTreeSet::new(),
            newest: None,
        }
    }

    fn open(&mut self, desk: &mut Desk<'_>) -> u16 {
        if let Some(port) = self.port {
            return port;
        }
        let Place { from, to, remote, .. } = desk.place;
        let socket = UdpPort { owner: UdpOwner::Traffic(desk.id), bound: None };
        desk.stack.udp.open(to, remote.port(), socket);
        // A host that has no port left sends nothing that anybody could answer.
        let port = desk.stack.udp.open_any(from, socket).unwrap_or_default();
        self.port = Some(port);
        port
    }
}

impl Generator for Datagrams {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.next = None;
            return;
        }
        let port = self.open(desk);
        if let Some(header) = self.payload.first_chunk_mut::<HEADER>() {
            let since_start = desk.now.saturating_duration_since(self.start).as_nanos();
            let words = u128::from(self.sent) << 64 | since_start;
            *header = words.to_be_bytes();
        }
        let source = UdpSource { host: desk.place.from, local: None, port, bound: None };
        desk.stack.send_datagram(&source, desk.place.remote, &self.payload);
        desk.note(Seen::Sent);
        self.missing.insert(self.sent);
        self.sent += 1;
        // From the number, so that nothing adds up.
        let nanos = self.interval.as_nanos() * u128::from(self.sent);
        self.next = Some(self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
    }

    fn handle_datagram(&mut self, packet: &Packet, desk: &mut Desk<'_>) {
        let Some(header) = packet.udp_payload().first_chunk::<HEADER>() else {
            return;
        };
        let words = u128::from_be_bytes(*header);
        #[expect(clippy::cast_possible_truncation, reason = "each is half of them")]
        let (number, nanos) = ((words >> 64) as u64, words as u64);
        // What comes twice counts once.
        if !self.missing.remove(&number) {
            return;
        }
        let late = self.newest.is_some_and(|newest| number < newest);
        self.newest = self.newest.max(Some(number));
        desk.note(Seen::Delivered(packet.udp_payload().len() as u64));
        desk.note(Seen::Arrived { sent_at: self.start + Duration::from_nanos(nanos), late });
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}
