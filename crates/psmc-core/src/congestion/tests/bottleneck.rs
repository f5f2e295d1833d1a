//! Flows through one bottleneck, in virtual time.
//!
//! ```text
//! flow ─> [drop-tail queue | rate] ── delay ──> receiver: acks every 16 packets or after 5 ms
//!   ^────────────────────────────── delay ─────────┘
//! ```
//! Both hosts are late by a random time whenever they wake up, as real ones are.

use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::flow::{Flow, SIZE};

/// What lies between the sites.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Bits per second.
    pub(super) rate: u64,
    /// Round trip without queue, acknowledgement delay and lateness.
    pub(super) rtt: Duration,
    /// Drop-tail queue, as time at `rate`.
    pub(super) queue: Duration,
    /// Packets lost at random, per thousand.
    pub(super) loss: u64,
    /// Hosts wake up late by up to this.
    pub(super) lateness: Duration,
}

impl Link {
    pub(super) fn new(rate: u64, rtt: Duration) -> Self {
        let (queue, lateness) = (Duration::from_millis(200), Duration::from_millis(2));
        Self { rate, rtt, queue, loss: 0, lateness }
    }
}

/// What happens at an instant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Depart,
    Arrive(usize, u64),
    AckTimer(usize),
    Ack(usize, Vec<u64>, Instant),
    Timeout(usize),
}

/// The network and its flows.
pub(super) struct Sim {
    pub(super) start: Instant,
    pub(super) now: Instant,
    pub(super) flows: Vec<Flow>,
    link: Link,
    events: BinaryHeap<std::cmp::Reverse<(Instant, u64, Event)>>,
    serial: u64,
    queue: VecDeque<(usize, u64)>,
    random: u64,
    measured: Measured,
}

/// What went through since the last [`Sim::measure`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// Share of the link's capacity that carried packets.
    pub(super) utilisation: f64,
    /// Time-averaged queueing delay.
    pub(super) queueing: Duration,
    pub(super) dropped: u64,
    byte_seconds: f64,
    departed: u64,
    since: Option<Instant>,
    changed: Option<Instant>,
}

impl Sim {
    pub(super) fn new(link: Link, flows: Vec<Flow>, start: Instant) -> Self {
        let (events, queue) = (BinaryHeap::new(), VecDeque::new());
        let measured = Measured { since: Some(start), ..Measured::default() };
        let mut sim =
            Self { start, now: start, flows, link, events, serial: 0, queue, random: 0x9e37_79b9, measured };
        for flow in 0..sim.flows.len() {
            let at = sim.flows[flow].begins;
            sim.at(at, Event::Wake(flow));
            sim.at(at, Event::Timeout(flow));
        }
        sim
    }

    pub(super) fn set_rate(&mut self, rate: u64) {
        self.link.rate = rate;
    }

    pub(super) fn set_loss(&mut self, per_mille: u64) {
        self.link.loss = per_mille;
    }

    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        self.link.rtt = rtt;
    }

    /// Runs until `seconds` after the start, and tells what went through since the last call.
    pub(super) fn run_until(&mut self, seconds: f64) -> Measured {
        let end = self.start + Duration::from_secs_f64(seconds);
        while self.events.peek().is_some_and(|next| next.0.0 <= end) {
            let Some(std::cmp::Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.now = at;
            self.handle(event);
        }
        self.now = end;
        self.measure()
    }

    fn measure(&mut self) -> Measured {
        self.account_queue();
        let span = (self.now - self.measured.since.unwrap()).as_secs_f64();
        let capacity = self.link.rate as f64 / 8.0;
        let mut result = self.measured;
        result.utilisation = result.departed as f64 / capacity / span;
        result.queueing = Duration::from_secs_f64(result.byte_seconds / span / capacity);
        self.measured = Measured { since: Some(self.now), changed: Some(self.now), ..Measured::default() };
        result
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake(flow) => self.send(flow),
            Event::Depart => self.depart(),
            Event::Arrive(flow, number) => self.arrive(flow, number),
            Event::AckTimer(flow) => self.acknowledge(flow),
            Event::Ack(flow, numbers, arrived) => {
                self.flows[flow].on_ack(&numbers, arrived, self.now);
                self.send(flow);
            }
            Event::Timeout(flow) => {
                self.flows[flow].on_timeout(self.now);
                self.at(self.now + Duration::from_millis(50), Event::Timeout(flow));
                self.send(flow);
            }
        }
    }

    fn send(&mut self, flow: usize) {
        while let Some(number) = self.flows[flow].poll(self.now) {
            self.enqueue(flow, number);
        }
        if let Some(at) = self.flows[flow].poll_timer(self.now) {
            // Who is busy sending does not sleep, and is not late.
            let late = if self.flows[flow].is_busy(self.now) { Duration::ZERO } else { self.late() };
            self.at(at + late, Event::Wake(flow));
        }
    }

    fn enqueue(&mut self, flow: usize, number: u64) {
        let limit = self.link.rate as f64 / 8.0 * self.link.queue.as_secs_f64();
        let full = (self.queue.len() as u64 * SIZE) as f64 > limit;
        if full || self.chance(self.link.loss) {
            self.measured.dropped += 1;
            return;
        }
        self.account_queue();
        self.queue.push_back((flow, number));
        if self.queue.len() == 1 {
            self.at(self.now + self.service(), Event::Depart);
        }
    }

    fn depart(&mut self) {
        self.account_queue();
        let (flow, number) = self.queue.pop_front().unwrap();
        self.measured.departed += SIZE;
        self.at(self.now + self.link.rtt / 2, Event::Arrive(flow, number));
        if !self.queue.is_empty() {
            self.at(self.now + self.service(), Event::Depart);
        }
    }

    fn arrive(&mut self, flow: usize, number: u64) {
        self.flows[flow].arrived = self.now;
        let received = &mut self.flows[flow].received;
        received.push(number);
        if received.len() == 1 {
            self.at(self.now + Duration::from_millis(5), Event::AckTimer(flow));
        } else if received.len() == 16 {
            self.acknowledge(flow);
        }
    }

    fn acknowledge(&mut self, flow: usize) {
        let numbers = std::mem::take(&mut self.flows[flow].received);
        if numbers.is_empty() {
            return;
        }
        let late = self.late() + self.late();
        let at = (self.now + self.link.rtt / 2 + late).max(self.flows[flow].last_ack);
        self.flows[flow].last_ack = at;
        // As it would be without any delay on the way back.
        let arrived = self.flows[flow].arrived + self.link.rtt / 2;
        self.at(at, Event::Ack(flow, numbers, arrived));
    }

    fn service(&self) -> Duration {
        Duration::from_secs_f64((SIZE * 8) as f64 / self.link.rate as f64)
    }

    fn account_queue(&mut self) {
        let since = self.measured.changed.replace(self.now).unwrap_or(self.now);
        let waiting = (self.queue.len().saturating_sub(1) as u64 * SIZE) as f64;
        self.measured.byte_seconds += waiting * (self.now - since).as_secs_f64();
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.events.push(std::cmp::Reverse((at.max(self.now), self.serial, event)));
    }

    /// Mostly little, at times all of the lateness: a cube of a uniform number.
    fn late(&mut self) -> Duration {
        let share = (self.next() % 1000) as f64 / 1000.0;
        self.link.lateness.mul_f64(share * share * share)
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    /// xorshift64: enough chance for a test, and the same in each run.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }
}
