//! A queue that drops its tail, what is sent into it, and the police in front of it, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::{Facts, Police, Tag, Verdict, Witness};

pub(super) const PACKET: usize = 1000;

/// Who sends.
pub(super) trait Source {
    /// The next packet, and when to be asked again; `None` for a packet that has to wait for what an acknowledgement says.
    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>);
    /// A packet has arrived, or has not. Says whether it wants to be asked now.
    fn settle(&mut self, arrived: bool, now: Duration) -> bool;
    /// From the sending of a packet to its acknowledgement, without the queue. The network's if `None`.
    fn round_trip(&self) -> Option<Duration>;
}

/// UDP at a constant rate.
pub(super) struct Blast {
    rate: f64,
    facts: fn(u64) -> Facts,
    number: u64,
    /// From when on it has another rate.
    pub(super) later: Option<(Duration, f64)>,
}

impl Blast {
    pub(super) fn new(rate: f64, facts: fn(u64) -> Facts) -> Self {
        Self { rate, facts, number: 0, later: None }
    }
}

impl Source for Blast {
    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>) {
        if let Some((_, rate)) = self.later.take_if(|(at, _)| *at <= now) {
            self.rate = rate;
        }
        self.number += 1;
        (
            Some((self.facts)(self.number)),
            Some(now + Duration::from_secs_f64(PACKET as f64 * 8.0 / self.rate)),
        )
    }

    fn settle(&mut self, _: bool, _: Duration) -> bool {
        false
    }

    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    /// Bits per second.
    pub(super) rate: f64,
    pub(super) queue: Duration,
    /// Until its fate is known where it entered.
    pub(super) round_trip: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A source may send, if this is still the newest time that it asked for.
    Send(usize, u32),
    /// The police learns of it: by the number of the packet.
    Known(usize),
    /// The source does.
    Told(usize, bool),
    Report,
}

pub(super) struct World {
    pub(super) bottleneck: Bottleneck,
    pub(super) police: Police,
    pub(super) witness: Option<Witness>,
    pub(super) reports: usize,
    sources: Vec<Box<dyn Source>>,
    asked: Vec<u32>,
    passed: Vec<u64>,
    delivered: Vec<u64>,
    packets: Vec<(Facts, Tag, bool)>,
    agenda: BinaryHeap<Reverse<(Duration, u64, What)>>,
    entries: u64,
    origin: Instant,
    now: Duration,
    busy_until: Duration,
}

impl World {
    pub(super) fn new(bottleneck: Bottleneck, police: Police) -> Self {
        Self {
            bottleneck,
            police,
            witness: None,
            reports: 0,
            sources: Vec::new(),
            asked: Vec::new(),
            passed: Vec::new(),
            delivered: Vec::new(),
            packets: Vec::new(),
            agenda: BinaryHeap::from([Reverse((Duration::ZERO, 0, What::Report))]),
            entries: 0,
            origin: Instant::now(),
            now: Duration::ZERO,
            busy_until: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, source: Box<dyn Source>) {
        self.add_at(Duration::ZERO, source);
    }

    pub(super) fn add_at(&mut self, start: Duration, source: Box<dyn Source>) {
        self.sources.push(source);
        self.asked.push(0);
        self.passed.push(0);
        self.delivered.push(0);
        self.plan(start, What::Send(self.sources.len() - 1, 0));
    }

    /// What each source has let pass and got delivered in a time, in bits per second.
    pub(super) fn over(&mut self, time: Duration) -> (Vec<f64>, Vec<f64>) {
        let before = (self.passed.clone(), self.delivered.clone());
        self.run(time);
        let rates = |after: &[u64], before: &[u64]| {
            after
                .iter()
                .zip(before)
                .map(|(after, before)| (after - before) as f64 * 8.0 / time.as_secs_f64())
                .collect()
        };
        (rates(&self.passed, &before.0), rates(&self.delivered, &before.1))
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(&Reverse((at, ..))) = self.agenda.peek()
            && at <= end
        {
            let Some(Reverse((at, _, what))) = self.agenda.pop() else { return };
            self.now = at;
            self.police.end_round(Some(self.bottleneck.round_trip), self.origin + at);
            match what {
                What::Send(source, asked) if self.asked[source] == asked => self.send(source),
                What::Send(..) => {}
                What::Known(packet) => self.on_known(packet),
                What::Told(source, arrived) => {
                    if self.sources[source].settle(arrived, self.now) {
                        self.send(source);
                    }
                }
                What::Report => self.on_report(),
            }
        }
        self.now = end;
        self.police.end_round(Some(self.bottleneck.round_trip), self.origin + end);
    }

    fn plan(&mut self, at: Duration, what: What) {
        self.entries += 1;
        self.agenda.push(Reverse((at, self.entries, what)));
    }

    fn send(&mut self, source: usize) {
        // A window's worth at the most.
        for _ in 0..10_000 {
            let (packet, next) = self.sources[source].poll(self.now);
            if let Some(facts) = packet {
                self.enter(source, facts);
            }
            if let Some(at) = next {
                self.asked[source] += 1;
                return self.plan(at.max(self.now), What::Send(source, self.asked[source]));
            }
            if packet.is_none() {
                return;
            }
        }
    }

    fn enter(&mut self, source: usize, facts: Facts) {
        let own = self.sources[source].round_trip().unwrap_or(self.bottleneck.round_trip);
        let Verdict::Pass(tag) = self.police.offer(&facts, PACKET, self.origin + self.now) else {
            return self.plan(self.now + own, What::Told(source, false));
        };
        self.passed[source] += PACKET as u64;
        let takes = Duration::from_secs_f64(PACKET as f64 * 8.0 / self.bottleneck.rate);
        let waits = self.busy_until.saturating_sub(self.now);
        // No router has a shorter queue.
        let arrives = waits <= self.bottleneck.queue.max(takes * 10);
        if arrives {
            self.busy_until = self.busy_until.max(self.now) + takes;
            self.delivered[source] += PACKET as u64;
        }
        // A gap is seen when what was behind it arrives.
        let left = self.busy_until;
        self.packets.push((facts, tag, arrives));
        self.plan(left + self.bottleneck.round_trip, What::Known(self.packets.len() - 1));
        self.plan(left + own, What::Told(source, arrives));
    }

    fn on_known(&mut self, packet: usize) {
        let (facts, tag, arrived) = self.packets[packet];
        match (&mut self.witness, arrived) {
            (Some(witness), true) => witness.on_delivered(&facts, PACKET),
            (Some(witness), false) => witness.on_dropped(&facts, PACKET),
            (None, true) => self.police.on_delivered(tag, PACKET),
            (None, false) => self.police.on_dropped(&facts, tag, PACKET, self.origin + self.now),
        }
    }

    fn on_report(&mut self) {
        if let Some(witness) = &mut self.witness {
            if let Some(report) = witness.take(self.origin + self.now) {
                self.reports += 1;
                self.police.report(&report, self.origin + self.now);
            }
            self.plan(self.now + self.bottleneck.round_trip.max(Duration::from_millis(200)), What::Report);
        }
    }
}
