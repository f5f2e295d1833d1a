//! A script played on a network.
//!
//! Which messages are sent, and after which others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::{ArcId, Lines, NodeId, Queue, Tree};
use crate::link::Dice;

/// A packet is no longer than this, headers included, in bytes.
const MTU: u32 = 1500;

/// When each step of a script has ended, since its start, by its [number](StepId::number); `None` if it has not, for there is no
/// way between two nodes. Equal seeds give equal times.
#[must_use]
pub fn play(lines: &Lines, script: &Script, seed: u64) -> Vec<Option<Duration>> {
    let mut playing = Playing::new(lines, script, seed);
    for (number, step) in script.steps().iter().enumerate() {
        if step.waits_for == 0 {
            playing.begin(number, Duration::ZERO);
        }
    }
    while let Some(Reverse((now, _, event))) = playing.agenda.pop() {
        match event {
            Event::Hop(packet) => playing.hop(packet, now),
            Event::End(step) => playing.end(step, now),
        }
    }
    playing.ended
}

struct Playing<'a> {
    lines: &'a Lines,
    script: &'a Script,
    /// The ways to and from the nodes that have most of the messages.
    trees: BTreeMap<NodeId, Tree>,
    /// How many messages each node sends and receives.
    messages: Vec<u32>,
    queues: Vec<Queue>,
    /// When each node has worked on all that has come.
    free: Vec<Duration>,
    /// For each step how many others it still waits for, ...
    waiting: Vec<usize>,
    /// ... the way of its message, ...
    ways: Vec<Vec<ArcId>>,
    /// ... how many packets of it are under way, ...
    packets: Vec<u32>,
    /// ... and when it has ended.
    ended: Vec<Option<Duration>>,
    agenda: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    next: u64,
    dice: Dice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet is at a node.
    Hop(Packet),
    /// A step has ended.
    End(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    step: usize,
    bytes: u32,
    /// How many lines are behind it.
    hops: usize,
}

impl<'a> Playing<'a> {
    fn new(lines: &'a Lines, script: &'a Script, seed: u64) -> Self {
        let steps = script.steps().len();
        let mut messages = vec![0; lines.nodes()];
        for message in script.messages() {
            for node in [message.from, message.to] {
                messages[node.0 as usize] += 1;
            }
        }
        Self {
            lines,
            script,
            trees: BTreeMap::new(),
            messages,
            queues: vec![Queue::default(); lines.arcs()],
            free: vec![Duration::ZERO; lines.nodes()],
            waiting: script.steps().iter().map(|step| step.waits_for).collect(),
            ways: vec![Vec::new(); steps],
            packets: vec![0; steps],
            ended: vec![None; steps],
            agenda: BinaryHeap::new(),
            next: 0,
            dice: Dice::new(seed),
        }
    }

    fn begin(&mut self, step: usize, now: Duration) {
        match self.script.steps()[step].what {
            What::Pause(length) => self.at(now + length, Event::End(step)),
            What::Message(message) => self.send(step, &message, now),
        }
    }

    fn send(&mut self, step: usize, message: &Message, now: Duration) {
        let Some(way) = self.way(message) else { return };
        self.ways[step] = way;
        let mut left = message.bytes.max(1);
        while left > 0 {
            let bytes = left.min(MTU);
            left -= bytes;
            self.packets[step] += 1;
            self.at(now, Event::Hop(Packet { step, bytes, hops: 0 }));
        }
    }

    /// By the tree of that end of a message which has more of them: so there are few trees.
    fn way(&mut self, message: &Message) -> Option<Vec<ArcId>> {
        let Message { from, to, .. } = *message;
        let is_from = self.messages[from.0 as usize] > self.messages[to.0 as usize];
        let root = if is_from { from } else { to };
        let lines = self.lines;
        let tree = self.trees.entry(root).or_insert_with(|| lines.tree(root));
        if is_from { tree.way_to(from, to) } else { tree.way_from(from, to) }
    }

    fn hop(&mut self, packet: Packet, now: Duration) {
        let Some(&arc) = self.ways[packet.step].get(packet.hops) else {
            return self.arrive(packet.step, now);
        };
        let (rate, load) = (self.lines.bits_per_second(arc), self.lines.load(arc));
        let bits = f64::from(packet.bytes) * 8.0;
        let sent = self.queues[arc.number()].pass(now, bits, rate, load, &mut self.dice);
        self.at(sent + self.lines.delay(arc), Event::Hop(Packet { hops: packet.hops + 1, ..packet }));
    }

    /// A packet is where it is to go. With the last one the work begins.
    fn arrive(&mut self, step: usize, now: Duration) {
        self.packets[step] -= 1;
        if let (What::Message(message), 0) = (self.script.steps()[step].what, self.packets[step]) {
            let free = &mut self.free[message.to.0 as usize];
            *free = now.max(*free) + message.work;
            let end = *free;
            self.at(end, Event::End(step));
        }
    }

    fn end(&mut self, step: usize, now: Duration) {
        self.ended[step] = Some(now);
        self.ways[step] = Vec::new();
        let script = self.script;
        for next in script.steps()[step].then.iter().map(|next: &StepId| next.number()) {
            self.waiting[next] -= 1;
            if self.waiting[next] == 0 {
                self.begin(next, now);
            }
        }
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.next += 1;
        self.agenda.push(Reverse((time, self.next, event)));
    }
}

/// A step of a script, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId(usize);

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends it.
    pub from: NodeId,
    /// Who receives it.
    pub to: NodeId,
    /// Its length in bytes, the headers of its packets included; more than fits into a packet is sent in several.
    pub bytes: u32,
    /// How long its receiver works on it. A node works on one message at a time, in the order in which they have come.
    pub work: Duration,
}

/// Steps, each of which begins when all that it waits for have ended: messages, and pauses.
#[derive(Clone, Debug, Default)]
pub struct Script {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    /// How many steps it waits for.
    pub(super) waits_for: usize,
    /// Those that wait for it.
    pub(super) then: Vec<StepId>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Message(Message),
    Pause(Duration),
}

impl Script {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A message that is sent when all steps of `after` have ended, at the start if there are none; it ends when its receiver has
    /// worked on it.
    ///
    /// # Panics
    /// If one of `after` is a step of another script.
    pub fn send(&mut self, message: Message, after: &[StepId]) -> StepId {
        self.add(What::Message(message), after)
    }

    /// A time in which nothing is sent.
    ///
    /// # Panics
    /// If one of `after` is a step of another script.
    pub fn pause(&mut self, length: Duration, after: &[StepId]) -> StepId {
        self.add(What::Pause(length), after)
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Message(message) => Some(message),
            What::Pause(_) => None,
        })
    }

    fn add(&mut self, what: What, after: &[StepId]) -> StepId {
        let step = StepId(self.steps.len());
        for earlier in after {
            self.steps[earlier.0].then.push(step);
        }
        self.steps.push(Step { what, waits_for: after.len(), then: Vec::new() });
        step
    }
}

impl StepId {
    /// Its place in what [`play`](super::play()) returns.
    #[must_use]
    pub fn number(self) -> usize {
        self.0
    }
}
