//! Bulk transfer by TCP.

use std::collections::BTreeMap;
use std::time::Instant;

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
        let settings =
            Settings { congestion_control, buffer, mtu: MTU, keep: false, timeout: None, keep_alive: None };
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
