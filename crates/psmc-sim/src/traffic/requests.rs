//! Requests at random times, each on a TCP connection of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::bulk::MTU;
use super::{Desk, Generator, Place, Seen};
use crate::transport::{CongestionControl, Owner, Route, Settings, StreamId};

/// Room in each direction: a large response needs several windows of it at most.
const BUFFER: usize = 256 * 1024;

/// Asks as a Poisson process does.
#[derive(Debug)]
pub(super) struct Requests {
    settings: Settings,
    rate: f64,
    request: u64,
    response: u64,
    next: Option<Instant>,
    listening: bool,
    /// What is asked, and since when.
    asked: BTreeMap<StreamId, Instant>,
    /// Whether what came is answered already.
    served: BTreeMap<StreamId, bool>,
    newest: Option<Instant>,
}

impl Requests {
    /// So many a second, of so many bytes, each answered by so many bytes.
    pub(super) fn new(
        place: &Place,
        rate: f64,
        request: usize,
        response: usize,
        congestion_control: CongestionControl,
    ) -> Self {
        let settings = Settings {
            congestion_control,
            buffer: BUFFER,
            mtu: MTU,
            keep: false,
            timeout: None,
            keep_alive: None,
        };
        Self {
            settings,
            rate,
            request: request as u64,
            response: response as u64,
            next: Some(place.start),
            listening: false,
            asked: BTreeMap::new(),
            served: BTreeMap::new(),
            newest: None,
        }
    }

    fn ask(&mut self, desk: &mut Desk<'_>) {
        let route = Route { host: desk.place.from, local: None, remote: desk.place.remote, bound: None };
        desk.note(Seen::Sent);
        let Some(stream) = desk.stack.connect(Owner::Traffic(desk.id), &route, self.settings) else {
            return;
        };
        self.asked.insert(stream, desk.now);
        desk.stack.fill(stream, self.request);
    }

    /// The asking end of a connection has changed.
    fn take_answer(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let tcp = desk.stack.transport.get(stream);
        let Some((tcp, &sent_at)) = tcp.zip(self.asked.get(&stream)) else {
            return;
        };
        let complete = tcp.received() >= self.response;
        if !complete && !tcp.is_over() {
            return;
        }
        self.asked.remove(&stream);
        desk.stack.close(stream);
        if complete {
            let late = self.newest.is_some_and(|newest| sent_at < newest);
            self.newest = self.newest.max(Some(sent_at));
            desk.note(Seen::Delivered(self.response));
            desk.note(Seen::Arrived { sent_at, late });
        }
    }

    /// The answering end of a connection has changed.
    fn serve(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(tcp) = desk.stack.transport.get(stream) else {
            return;
        };
        let (received, over) = (tcp.received(), tcp.peer_has_finished());
        let answered = self.served.entry(stream).or_default();
        if received >= self.request && !std::mem::replace(answered, true) {
            desk.stack.fill(stream, self.response);
        }
        if over {
            self.served.remove(&stream);
            desk.stack.close(stream);
        }
    }
}

impl Generator for Requests {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.next = None;
            return;
        }
        if !std::mem::replace(&mut self.listening, true) {
            let Place { to, remote, .. } = desk.place;
            desk.stack.transport.listen(to, remote.port(), Owner::Traffic(desk.id), self.settings);
        } else {
            self.ask(desk);
        }
        self.next = Some(desk.now + pause(self.rate, desk.rng));
    }

    fn handle_stream(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        if self.asked.contains_key(&stream) {
            self.take_answer(stream, desk);
        } else {
            self.serve(stream, desk);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// The time to the next of so many random events a second: exponentially distributed.
fn pause(rate: f64, rng: &mut Pcg64Mcg) -> Duration {
    // 53 bits are what a floating-point number holds; 1 - x is never 0.
    let chance = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Duration::try_from_secs_f64(-(1.0 - chance).ln() / rate).unwrap_or(Duration::MAX)
}
