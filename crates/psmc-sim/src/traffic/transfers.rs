//! Bulk transfer by TCP.
//!
//! Requests at random times, each on a TCP connection of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::chance::pause;
use super::{Desk, Generator, Place, Seen};
use crate::transport::{CongestionControl, Owner, Route, Settings, StreamId};

/// The longest packet that any connection sends: as long as the way takes.
pub(super) const MTU: usize = u16::MAX as usize;

/// Some connections that each transfer a lot.
#[derive(Debug)]
pub(super) struct Bulk {
    settings: Settings,
    flows: usize,
    bytes: Option<u64>,
    next: Option<Instant>,
    started: bool,
    senders: Vec<StreamId>,
    /// What was seen of each connection that the receiver has taken.
    receivers: BTreeMap<StreamId, u64>,
    finished: usize,
}

impl Bulk {
    /// So many connections, each of so many bytes, or without end.
    pub(super) fn new(
        place: &Place,
        congestion_control: CongestionControl,
        flows: usize,
        bytes: Option<u64>,
        buffer: usize,
    ) -> Self {
        let settings = Settings {
            congestion_control,
            buffer,
            mtu: MTU,
            ecn: false,
            keep: false,
            timeout: None,
            keep_alive: None,
        };
        Self {
            settings,
            flows,
            bytes,
            next: Some(place.start),
            started: false,
            senders: Vec::new(),
            receivers: BTreeMap::new(),
            finished: 0,
        }
    }

    fn start(&mut self, desk: &mut Desk<'_>) {
        let Place { from, to, remote, .. } = desk.place;
        let owner = Owner::Traffic(desk.id);
        desk.stack.transport.listen(to, remote.port(), owner, self.settings);
        for _ in 0..self.flows {
            let route = Route { host: from, local: None, remote, bound: None };
            match desk.stack.connect(owner, &route, self.settings) {
                Some(stream) => {
                    desk.stack.fill(stream, self.bytes.unwrap_or(u64::MAX));
                    self.senders.push(stream);
                }
                None => desk.note(Seen::Broken),
            }
        }
    }

    fn stop(&mut self, desk: &mut Desk<'_>) {
        for stream in self.senders.drain(..).chain(std::mem::take(&mut self.receivers).into_keys()) {
            desk.stack.abort(stream);
        }
        self.next = None;
    }

    fn receive(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(tcp) = desk.stack.transport.get(stream) else {
            return;
        };
        let seen = self.receivers.entry(stream).or_default();
        let before = std::mem::replace(seen, tcp.received());
        if *seen > before {
            desk.note(Seen::Delivered(*seen - before));
        }
        if Some(*seen) == self.bytes && before < *seen {
            self.finished += 1;
        }
        if self.finished == self.flows {
            desk.note(Seen::Done);
            self.stop(desk);
        }
    }
}

impl Generator for Bulk {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.stop(desk);
        } else if !std::mem::replace(&mut self.started, true) {
            self.start(desk);
            self.next = Some(desk.place.stop);
        }
    }

    fn handle_stream(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        if !self.senders.contains(&stream) {
            return self.receive(stream, desk);
        }
        let over = desk.stack.transport.get(stream).is_none_or(|tcp| tcp.is_over());
        if over {
            self.senders.retain(|other| *other != stream);
            desk.stack.abort(stream);
            desk.note(Seen::Broken);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

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
            ecn: false,
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
        self.next = Some(desk.now + pause(Duration::from_secs_f64(self.rate.recip()), desk.rng));
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
