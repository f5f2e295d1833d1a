//! People who read web pages by HTTP/1.0: each object of a page comes on a connection of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::chance::{bytes, exponential, pareto, pause};
use super::users::{Due, connect, listen};
use super::{Desk, Generator, Place, Seen, TcpSetup};
use crate::transport::{Settings, StreamId};

/// Bytes of a request, headers included.
const REQUEST: u64 = 300;

/// What a session is like, as the traffic model of ns-2 has it (Feldmann et al., "Dynamics of IP traffic", 1999). All but the
/// number of pages are means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebModel {
    /// Pages of a session. The same person begins another one after it.
    pub pages: u32,
    /// From when a page is complete until the next one is asked for; exponentially distributed.
    pub between_pages: Duration,
    /// Objects of a page beyond the first one; exponentially distributed.
    pub more_objects: f64,
    /// Between the requests for two objects of a page; exponentially distributed.
    pub between_objects: Duration,
    /// Bytes of an object; with the tail of a Pareto distribution of this mean and shape.
    pub object_bytes: f64,
    /// Above 1: the lower, the heavier the tail.
    pub shape: f64,
    /// No object is larger, so that no single one fills a run.
    pub most_bytes: f64,
}

/// Each of some people reads one page after another.
#[derive(Debug)]
pub(super) struct Web {
    settings: Settings,
    model: WebModel,
    users: Vec<Reader>,
    due: Due,
    asked: BTreeMap<StreamId, Asked>,
    /// Whether what came is answered already.
    served: BTreeMap<StreamId, bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    pages: u32,
    /// Objects of the page that are still to be asked for.
    objects: u32,
    /// And those that are asked for.
    outstanding: u32,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    user: usize,
    at: Instant,
    bytes: u64,
    begun: bool,
}

impl Web {
    /// So many people.
    pub(super) fn new(place: &Place, tcp: TcpSetup, users: usize, model: WebModel) -> Self {
        Self {
            settings: tcp.settings(),
            model,
            users: vec![Reader::default(); users],
            due: Due::new(place),
            asked: BTreeMap::new(),
            served: BTreeMap::new(),
        }
    }

    fn go_on(&mut self, number: usize, desk: &mut Desk<'_>) {
        let user = &mut self.users[number];
        if user.objects == 0 {
            if user.pages == 0 {
                user.pages = self.model.pages;
            }
            user.pages = user.pages.saturating_sub(1);
            user.objects = objects(self.model.more_objects, desk);
        }
        user.objects -= 1;
        self.ask(number, desk);
        if self.users[number].objects > 0 {
            self.due.set(number, desk.now + pause(self.model.between_objects, desk.rng));
        }
    }

    fn ask(&mut self, user: usize, desk: &mut Desk<'_>) {
        desk.note(Seen::Sent);
        let size = pareto(self.model.object_bytes, self.model.shape, desk.rng).min(self.model.most_bytes);
        self.users[user].outstanding += 1;
        let Some(stream) = connect(self.settings, desk) else {
            return self.end_object(user, false, desk);
        };
        self.asked.insert(stream, Asked { user, at: desk.now, bytes: bytes(size), begun: false });
        desk.stack.fill(stream, REQUEST);
    }

    /// An object is complete, or never will be.
    fn end_object(&mut self, number: usize, complete: bool, desk: &mut Desk<'_>) {
        if !complete {
            desk.note(Seen::Broken);
        }
        let user = &mut self.users[number];
        user.outstanding -= 1;
        if user.objects == 0 && user.outstanding == 0 {
            self.due.set(number, desk.now + pause(self.model.between_pages, desk.rng));
        }
    }

    /// The asking end of a connection has changed.
    fn take_answer(&mut self, stream: StreamId, asked: Asked, desk: &mut Desk<'_>) {
        let Some(tcp) = desk.stack.transport.get(stream) else {
            return;
        };
        let (received, over) = (tcp.received(), tcp.is_over());
        if received > 0 && !asked.begun {
            desk.note(Seen::Begun { sent_at: asked.at });
            self.asked.insert(stream, Asked { begun: true, ..asked });
        }
        let complete = received >= asked.bytes;
        if !complete && !over {
            return;
        }
        self.asked.remove(&stream);
        desk.stack.close(stream);
        if complete {
            desk.note(Seen::Delivered(asked.bytes));
            desk.note(Seen::Arrived { sent_at: asked.at, late: false });
        }
        self.end_object(asked.user, complete, desk);
    }

    /// The answering end of a connection has changed: with the answer it ends.
    fn serve(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(tcp) = desk.stack.transport.get(stream) else {
            return;
        };
        let (received, over) = (tcp.received(), tcp.peer_has_finished());
        let client = desk.stack.transport.other_end(stream, desk.place.from);
        let size = client.and_then(|client| self.asked.get(&client)).map(|asked| asked.bytes);
        let answered = self.served.entry(stream).or_default();
        if received >= REQUEST
            && let Some(size) = size
            && !std::mem::replace(answered, true)
        {
            desk.stack.fill(stream, size);
            return desk.stack.finish(stream);
        }
        if over {
            self.served.remove(&stream);
            desk.stack.close(stream);
        }
    }
}

impl Generator for Web {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.due.clear();
            let all = std::mem::take(&mut self.asked)
                .into_keys()
                .chain(std::mem::take(&mut self.served).into_keys());
            return all.for_each(|stream| desk.stack.abort(stream));
        }
        if self.due.begins() {
            listen(self.settings, desk);
            for user in 0..self.users.len() {
                self.due.set(user, desk.now + pause(self.model.between_pages, desk.rng));
            }
        }
        while let Some(user) = self.due.pop(desk.now) {
            self.go_on(user, desk);
        }
    }

    fn handle_stream(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        match self.asked.get(&stream) {
            Some(&asked) => self.take_answer(stream, asked, desk),
            None => self.serve(stream, desk),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.next()
    }
}

/// One, and as many more as chance has it.
fn objects(more: f64, desk: &mut Desk<'_>) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of some objects; casts saturate"
    )]
    let more = exponential(more, desk.rng) as u32;
    more.saturating_add(1)
}
