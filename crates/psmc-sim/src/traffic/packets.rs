//! ICMP echo requests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Desk, Generator, Place, Seen};
use crate::ids::TrafficId;
use crate::packet::Packet;

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
