//! Thousands of on–off sources before a few servers, in virtual time: which of their packets get through where links are full, and
//! what those gain who drop some on purpose.
//!
//! Where [`World`](crate::World) has every byte of every connection, this has packets of one size, and a TCP that knows no more
//! than windows, losses and timers (NewReno), so that ten thousand connections take seconds. Packets enter at an *ingress*, wait there
//! in the queue of its link (RED), and come to their server, which accepts what its policer lets pass. A [`Control`] sees each
//! packet on its way and may drop or tag it.

mod queue;
mod source;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::link::Dice;
pub use queue::{QueueSetup, TokenBucket};
use queue::{RedQueue, Verdict};
use source::{Connection, OnOff};

/// What a packet is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A connection, whose sender heeds losses.
    Tcp,
    /// A stream at a constant rate.
    Udp,
}

/// A network: ingresses, servers, and who sends.
#[derive(Clone, Debug)]
pub struct CrowdSetup {
    /// For each ingress what its link carries, in packets per second.
    pub links: Vec<f64>,
    /// The queues of those links.
    pub queue: QueueSetup,
    /// For each server what it accepts of each [`Kind`], in packets per second.
    pub servers: Vec<[f64; 2]>,
    /// How much a server accepts at once, in seconds at its rate.
    pub burst: f64,
    /// Who sends.
    pub sources: Vec<SourceSetup>,
    /// What TCP's applications are like.
    pub on_off: OnOffSetup,
}

/// A client's packets of a kind to a server.
#[derive(Clone, Copy, Debug)]
pub struct SourceSetup {
    /// The client, by a number of its own.
    pub client: u32,
    /// The place of the ingress among the links.
    pub ingress: usize,
    /// The place of the server.
    pub server: usize,
    /// What is sent.
    pub load: Load,
    /// When it begins, ...
    pub from: Duration,
    /// ... and ends.
    pub until: Duration,
    /// How long a packet is under way between client and server if no queue is in its way, in one direction.
    pub delay: Duration,
}

/// What a source sends.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// So many TCP connections, each with an application that is on and off.
    Connections(u32),
    /// UDP, so many packets per second.
    Stream(f64),
}

/// On and off times, distributed as Pareto has it.
#[derive(Clone, Copy, Debug)]
pub struct OnOffSetup {
    /// Packets per second while on.
    pub rate: f64,
    /// The mean of the time that it is on, ...
    pub on: Duration,
    /// ... and off.
    pub off: Duration,
    /// The shape, above 1; the less, the more of the time is in few long ones.
    pub shape: f64,
}

/// A packet as a [`Control`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    /// Who has sent it.
    pub client: u32,
    /// Where it has entered.
    pub ingress: usize,
    /// Where it goes.
    pub server: usize,
    /// What it is part of.
    pub kind: Kind,
    /// What the control has written on it.
    pub tag: T,
    source: usize,
    number: u64,
}

/// Who drops packets on purpose, and learns which.
pub trait Control {
    /// What is written on packets.
    type Tag: Copy + Default;

    /// Whether a packet may enter the queue of its ingress.
    fn admit(&mut self, packet: &Packet<Self::Tag>, now: Duration) -> bool;

    /// A packet leaves its ingress, in whose queue there are so many others.
    fn leave(&mut self, packet: &mut Packet<Self::Tag>, queue: usize, now: Duration);

    /// A packet has come to its server, and was accepted or not.
    fn come(&mut self, packet: &Packet<Self::Tag>, is_accepted: bool, now: Duration);

    /// An acknowledgement of the packet passes its ingress on the way back.
    fn acknowledged(&mut self, packet: &Packet<Self::Tag>, now: Duration);

    /// Called every [`TICK`].
    fn tick(&mut self, now: Duration);
}

/// How often a control is called, besides for packets.
pub const TICK: Duration = Duration::from_millis(10);

/// Packets that have come to a server in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// All.
    pub arrived: u64,
    /// Those that it accepted.
    pub accepted: u64,
}

/// The network in motion.
pub struct Crowd<C: Control> {
    /// Who drops packets on purpose.
    pub control: C,
    setup: CrowdSetup,
    sources: Vec<Source>,
    queues: Vec<RedQueue<Packet<C::Tag>>>,
    policers: Vec<[TokenBucket; 2]>,
    seen: Vec<[Seen; 2]>,
    agenda: BinaryHeap<Due<C::Tag>>,
    next: u64,
    now: Duration,
    dice: Dice,
}

/// A connection, or a stream.
struct Source {
    setup: usize,
    state: State,
}

enum State {
    Tcp(Box<(OnOff, Connection)>),
    Udp { gap: Duration, sent: u64 },
}

#[derive(Clone, Copy)]
enum Event<T> {
    /// The application has a packet, or ends a pause.
    Application(usize),
    /// A timer of a connection may have run out.
    Timer(usize),
    /// The link of an ingress has sent a packet.
    Sent(usize),
    /// A packet is at its server.
    Arrival(Packet<T>),
    /// What acknowledges it is at its sender: everything before this number has come.
    Acknowledged(Packet<T>, u64),
    Tick,
}

impl<C: Control> Crowd<C> {
    /// At time zero. Equal seeds give equal packets.
    pub fn new(setup: CrowdSetup, control: C, seed: u64) -> Self {
        let bucket = |rate| TokenBucket::new(rate, setup.burst);
        let mut crowd = Self {
            control,
            sources: Vec::new(),
            queues: setup.links.iter().map(|&rate| RedQueue::new(setup.queue, rate)).collect(),
            policers: setup.servers.iter().map(|rates| rates.map(bucket)).collect(),
            seen: vec![[Seen::default(); 2]; setup.servers.len()],
            setup,
            agenda: BinaryHeap::new(),
            next: 0,
            now: Duration::ZERO,
            dice: Dice::new(seed),
        };
        for place in 0..crowd.setup.sources.len() {
            crowd.add(place);
        }
        crowd.at(TICK, Event::Tick);
        crowd
    }

    /// Plays on until then, and says for each server and [`Kind`] what has come since it was last asked.
    pub fn play(&mut self, until: Duration) -> Vec<[Seen; 2]> {
        while let Some(Reverse((at, _, _))) = self.agenda.peek()
            && *at <= until
            && let Some(Reverse((now, _, event))) = self.agenda.pop()
        {
            self.now = now;
            self.handle(event);
        }
        let none = vec![[Seen::default(); 2]; self.seen.len()];
        std::mem::replace(&mut self.seen, none)
    }

    /// Packets that each ingress was offered and its queue has dropped, those that the control did not admit left out.
    pub fn queue_drops(&self) -> Vec<(u64, u64)> {
        self.queues.iter().map(RedQueue::counts).collect()
    }

    fn add(&mut self, place: usize) {
        let SourceSetup { load, from, .. } = self.setup.sources[place];
        let count = match load {
            Load::Connections(count) => count,
            Load::Stream(rate) => u32::from(rate > 0.0),
        };
        for _ in 0..count {
            let (state, first) = match load {
                Load::Connections(_) => {
                    let application = OnOff::new(self.setup.on_off, from);
                    let cycle = self.setup.on_off.on + self.setup.on_off.off;
                    let first = from + cycle.mul_f64(self.dice.uniform());
                    (State::Tcp(Box::new((application, Connection::default()))), first)
                }
                Load::Stream(rate) => {
                    let gap = Duration::from_secs_f64(1.0 / rate);
                    (State::Udp { gap, sent: 0 }, from + gap.mul_f64(self.dice.uniform()))
                }
            };
            self.sources.push(Source { setup: place, state });
            self.at(first, Event::Application(self.sources.len() - 1));
        }
    }

    fn handle(&mut self, event: Event<C::Tag>) {
        match event {
            Event::Application(source) => self.application(source),
            Event::Timer(source) => self.timer(source),
            Event::Sent(ingress) => self.sent(ingress),
            Event::Arrival(packet) => self.arrive(packet),
            Event::Acknowledged(packet, before) => self.acknowledged(&packet, before),
            Event::Tick => {
                self.control.tick(self.now);
                self.at(self.now + TICK, Event::Tick);
            }
        }
    }

    fn application(&mut self, source: usize) {
        let setup = self.setup.sources[self.sources[source].setup];
        if self.now >= setup.until {
            return;
        }
        match &mut self.sources[source].state {
            State::Tcp(both) => {
                let next = both.0.tick(&mut self.dice, self.now);
                both.1.give(u64::from(next.is_packet));
                self.at(next.at, Event::Application(source));
                self.transmit(source);
            }
            State::Udp { gap, sent } => {
                // A random tenth, so that streams do not march in step.
                let next = self.now + gap.mul_f64(0.95 + 0.1 * self.dice.uniform());
                let number = std::mem::replace(sent, *sent + 1);
                self.at(next, Event::Application(source));
                self.enter(source, number);
            }
        }
    }

    fn timer(&mut self, source: usize) {
        if let State::Tcp(both) = &mut self.sources[source].state
            && let Some(again) = both.1.timer(self.now)
        {
            self.at(again, Event::Timer(source));
        }
        self.transmit(source);
    }

    /// Sends what a connection may send.
    fn transmit(&mut self, source: usize) {
        loop {
            let State::Tcp(both) = &mut self.sources[source].state else { return };
            let Some(number) = both.1.poll_transmit(self.now) else { break };
            self.enter(source, number);
        }
        if let State::Tcp(both) = &mut self.sources[source].state
            && let Some(at) = both.1.new_timer()
        {
            self.at(at, Event::Timer(source));
        }
    }

    /// A packet comes to its ingress.
    fn enter(&mut self, source: usize, number: u64) {
        let setup = self.setup.sources[self.sources[source].setup];
        let kind = match setup.load {
            Load::Connections(_) => Kind::Tcp,
            Load::Stream(_) => Kind::Udp,
        };
        let SourceSetup { client, ingress, server, .. } = setup;
        let packet = Packet { client, ingress, server, kind, tag: C::Tag::default(), source, number };
        if !self.control.admit(&packet, self.now) {
            return;
        }
        match self.queues[ingress].enter(packet, self.now, &mut self.dice) {
            Verdict::Sending => self.at(self.now + self.queues[ingress].time(), Event::Sent(ingress)),
            Verdict::Waiting | Verdict::Dropped => {}
        }
    }

    fn sent(&mut self, ingress: usize) {
        let Some(mut packet) = self.queues[ingress].sent(self.now) else { return };
        self.control.leave(&mut packet, self.queues[ingress].len(), self.now);
        let delay = self.setup.sources[self.sources[packet.source].setup].delay;
        self.at(self.now + delay, Event::Arrival(packet));
        if self.queues[ingress].is_sending() {
            self.at(self.now + self.queues[ingress].time(), Event::Sent(ingress));
        }
    }

    fn arrive(&mut self, packet: Packet<C::Tag>) {
        let kind = packet.kind as usize;
        let is_accepted = self.policers[packet.server][kind].take(self.now);
        let seen = &mut self.seen[packet.server][kind];
        seen.arrived += 1;
        seen.accepted += u64::from(is_accepted);
        self.control.come(&packet, is_accepted, self.now);
        let source = &mut self.sources[packet.source];
        if is_accepted && let State::Tcp(both) = &mut source.state {
            let before = both.1.receive(packet.number);
            let delay = self.setup.sources[source.setup].delay;
            self.at(self.now + delay, Event::Acknowledged(packet, before));
        }
    }

    fn acknowledged(&mut self, packet: &Packet<C::Tag>, before: u64) {
        self.control.acknowledged(packet, self.now);
        if let State::Tcp(both) = &mut self.sources[packet.source].state {
            both.1.acknowledged(before, self.now);
        }
        self.transmit(packet.source);
    }

    fn at(&mut self, time: Duration, event: Event<C::Tag>) {
        self.next += 1;
        self.agenda.push(Reverse((time, self.next, event)));
    }
}

/// An event, by its time and by when it was planned; the first is the greatest.
type Due<T> = Reverse<(Duration, u64, Event<T>)>;

/// Events are ordered by time and by when they were planned, which no two share.
impl<T> PartialEq for Event<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<T> Eq for Event<T> {}

impl<T> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Event<T> {
    fn cmp(&self, _other: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
