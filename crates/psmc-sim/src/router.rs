//! A router as it is, as a state machine: packets that go different ways contend for what it has.
//!
//! The model of the publication called ROUTER, §4.3.1: queues by output port, served by servers that all ports share. Record
//! 0041 says what the publication leaves open.

mod config;
mod cpu;
mod servers;
mod timetable;

use std::collections::VecDeque;
use std::time::Instant;

pub use config::{
    Amount, CpuConfig, MAX_BYTES, MAX_PORTS, MAX_TIME, PortConfig, RouterConfig, RouterConfigError, Table,
    TableError, Tables,
};

use crate::link::{Clock, Dice, Nanos, PacketInfo, Queued, Rate, Transmitter, Verdict, Waiting};
use config::{Cost, Costs};
use cpu::{Cpu, Raw};
use servers::{Begun, Servers};
use timetable::Timetable;

/// A router.
///
/// ```text
///              ┌ ring ┐                    ┌ queue, Q slots ┐                   ┌ port: one packet at a time
/// handle_packet┤ ring ├─▶ CPU ─▶ by output ┤ queue, Q slots ├─▶ M servers ─▶ ───┤                 ─▶ poll_packet
///              └ ring ┘                    └ queue, Q slots ┘  (round robin)    └ port
///                  │                           │      │
///                  ▼                           ▼      ▼ (discipline)
///                                        poll_dropped
/// ```
///
/// The rings and the processor are there only if the [configuration](RouterConfig::cpu) has them. Servers take a packet no
/// earlier than its port could transmit it when they are done with it, so that what a full line keeps waiting waits in
/// its queue, and keeps no server busy. What leaves by one port leaves in the order in which it was queued, as far as the
/// discipline has one. A packet needs servers by [`Tables::servers`]; if fewer are free it is served by those, the more
/// slowly the fewer they are, and gets what it lacks as others are done: so a fractional number of servers is worth
/// exactly that.
///
/// It knows nothing of packets but [`PacketInfo`]: `P` is whatever stands for one. All times are logical, as a
/// [`Link`](crate::link::Link)'s are: the same calls of [`handle_packet`](Self::handle_packet) yield the same departures,
/// however often and however late polls come between them. A packet that enters at a time before that of the last call
/// enters at that.
///
/// Call [`handle_packet`](Self::handle_packet) as often as you like. Then, and whenever
/// [`poll_timeout`](Self::poll_timeout) is due, call [`poll_packet`](Self::poll_packet) and after it
/// [`poll_dropped`](Self::poll_dropped) until they say `None`. Polling early or twice is harmless.
#[derive(Debug)]
pub struct Router<P> {
    config: RouterConfig,
    costs: Costs,
    clock: Clock,
    /// The latest time that it was told.
    now: Nanos,
    dice: Dice,
    cpu: Option<Cpu<P>>,
    ports: Vec<Port<P>>,
    /// Ports with packets in their queues, in the order in which they take turns.
    turns: VecDeque<usize>,
    /// Packets in the queues of all ports.
    waiting: usize,
    /// When the first port can have a packet served that could not when that was last looked at.
    wake: Option<Nanos>,
    servers: Servers,
    /// The packet that is served by fewer servers than it needs.
    short: Option<Served<P>>,
    departures: Timetable<Left<P>>,
    dropped: VecDeque<(P, RouterDrop)>,
    counters: RouterCounters,
}

/// A packet that leaves a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet.
    pub packet: P,
    /// The port by which it leaves, from 0; `None` if it was for the router itself.
    pub port: Option<usize>,
    /// When its last bit leaves, in logical time; never later than the `now` it was polled with.
    pub at: Instant,
    /// Whether the queue has marked it, which only happens to a packet that is ECN-capable.
    pub congestion_experienced: bool,
}

/// Why a router has dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouterDrop {
    /// The ring of the port by which it came was full: the processor has no time.
    RingFull,
    /// The queue of the port by which it was to leave was full.
    QueueFull,
    /// The discipline of that queue thought it better.
    Discipline,
}

/// What a router has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Packets that entered.
    pub entered_packets: u64,
    /// Packets that left, or were for the router itself.
    pub departed_packets: u64,
    /// Packets dropped for each [`RouterDrop`], in their order.
    pub dropped: [u64; 3],
}

/// Where packets wait for servers, and are transmitted.
#[derive(Debug)]
struct Port<P> {
    queue: Waiting<Held<P>>,
    /// Of its slots, in millionths.
    free: u64,
    /// Whether it takes turns.
    is_listed: bool,
    transmitter: Transmitter,
}

/// A packet in a queue, with the slots that it takes, in millionths.
#[derive(Debug)]
struct Held<P> {
    packet: P,
    slots: u64,
}

/// A packet that servers have taken.
#[derive(Debug)]
struct Served<P> {
    packet: P,
    port: usize,
    len: usize,
    marked: bool,
}

/// A packet whose departure is certain.
#[derive(Debug)]
struct Left<P> {
    packet: P,
    port: Option<usize>,
    marked: bool,
}

impl<P> Router<P> {
    /// A router that begins at `now`, empty. Equal seeds give equal fates to equal packets; only a discipline draws.
    #[must_use]
    pub fn new(config: RouterConfig, seed: u64, now: Instant) -> Self {
        let ports = config.ports().iter().map(Port::new).collect();
        Self {
            costs: Costs::of(&config),
            clock: Clock::new(now),
            now: Nanos::default(),
            dice: Dice::new(seed),
            cpu: config.cpu().map(|cpu| Cpu::new(cpu, config.ports().len())),
            ports,
            turns: VecDeque::new(),
            waiting: 0,
            wake: None,
            servers: Servers::new(config.servers()),
            short: None,
            departures: Timetable::default(),
            dropped: VecDeque::new(),
            counters: RouterCounters::default(),
            config,
        }
    }

    /// The last bit of a packet enters by port `input`, and shall leave by port `output`, or is for the router itself if
    /// that is `None`. A port that it has not stands for the last one.
    pub fn handle_packet(
        &mut self,
        packet: P,
        info: PacketInfo,
        input: usize,
        output: Option<usize>,
        now: Instant,
    ) {
        self.advance(self.clock.nanos(now));
        self.counters.entered_packets += 1;
        let last = self.ports.len() - 1;
        let raw = Raw { packet, info, output: output.map(|output| output.min(last)) };
        let Some(cpu) = &mut self.cpu else { return self.classify(raw) };
        let cost = self.costs.of_len(info.len).cpu;
        if let Err(raw) = cpu.handle(raw, cost, input.min(last), self.now) {
            self.drop_packet(raw.packet, RouterDrop::RingFull);
        }
    }

    /// The next packet that has left.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Departure<P>> {
        let now = self.clock.nanos(now);
        self.advance(now);
        // What the router was told of later times is not for this one.
        let (at, Left { packet, port, marked }) = self.departures.pop(now)?;
        self.counters.departed_packets += 1;
        Some(Departure { packet, port, at: self.clock.instant(at), congestion_experienced: marked })
    }

    /// A packet that was dropped. Every one comes out here, so that its buffer can be used again.
    pub fn poll_dropped(&mut self) -> Option<(P, RouterDrop)> {
        self.dropped.pop_front()
    }

    /// When to poll next; `None` if nothing is inside.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        // What servers take leaves no earlier than they can be done with it.
        let taken = self.servers.next().filter(|_| self.is_short_of_servers() && self.short.is_none());
        let taken = taken.into_iter().chain(self.wake).min().map(|at| at.after(self.costs.least_delay()));
        let short = self.servers.next().filter(|_| self.short.is_some());
        let cpu = self.cpu.as_ref().and_then(Cpu::next);
        let times = [self.departures.next(), taken, short, cpu];
        times.into_iter().flatten().min().map(|at| self.clock.instant(at))
    }

    /// What it is like.
    #[must_use]
    pub fn config(&self) -> &RouterConfig {
        &self.config
    }

    /// What it has done up to the last call that told it the time.
    #[must_use]
    pub fn counters(&self) -> &RouterCounters {
        &self.counters
    }

    /// Packets in the queue of a port that it has, at the last call that told the time.
    #[must_use]
    pub fn queue_packets(&self, port: usize) -> usize {
        self.ports.get(port).map_or(0, |port| port.queue.len())
    }

    /// Does what was due until `now`.
    fn advance(&mut self, now: Nanos) {
        if self.waiting == 0 && self.short.is_none() && self.cpu.is_none() {
            // Nobody waits for what becomes free, in whichever order.
            self.servers.release(now);
            // Packets that waited for a port may have been pushed out.
            self.wake = None;
            self.now = self.now.max(now);
            return;
        }
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.step(at);
        }
        self.now = self.now.max(now);
    }

    /// Does what is due at `at`.
    fn step(&mut self, at: Nanos) {
        if let Some(raw) = self.cpu.as_mut().and_then(|cpu| cpu.poll(at)) {
            self.classify(raw);
        }
        let may_serve = self.is_short_of_servers() || self.wake.is_some_and(|wake| wake <= at);
        if let Some(end) = self.servers.release(at)
            && let Some(served) = self.short.take()
        {
            self.transmit(served, end);
        }
        if may_serve {
            self.serve();
        }
    }

    fn next_step(&self) -> Option<Nanos> {
        let servers = self.servers.next().filter(|_| self.is_short_of_servers());
        let cpu = self.cpu.as_ref().and_then(Cpu::next);
        [servers, self.wake, cpu].into_iter().flatten().min()
    }

    /// Whether any packet waits for servers to become free. What becomes free matters to nobody otherwise.
    fn is_short_of_servers(&self) -> bool {
        self.short.is_some() || self.waiting > 0 && !self.servers.any_free()
    }

    /// Puts a packet into the queue of its output.
    fn classify(&mut self, raw: Raw<P>) {
        let Raw { packet, info, output } = raw;
        let Some(port) = output else {
            return self.departures.insert(self.now, Left { packet, port: None, marked: false });
        };
        let slots = self.costs.of_len(info.len).slots;
        match self.admit(port, info, slots) {
            Err(reason) => self.drop_packet(packet, reason),
            Ok(marked) => {
                let Self { ports, now, .. } = self;
                ports[port].free -= slots;
                ports[port].queue.push(Queued {
                    packet: Held { packet, slots },
                    info,
                    entered: *now,
                    marked,
                });
                self.waiting += 1;
                self.serve_first(port);
            }
        }
    }

    /// Whether a packet may enter a queue, and if so, whether it is marked.
    fn admit(&mut self, port: usize, info: PacketInfo, slots: u64) -> Result<bool, RouterDrop> {
        let Self { ports, dice, now, .. } = self;
        let Port { queue, free, transmitter, .. } = &mut ports[port];
        let is_idle = queue.len() == 0 && transmitter.free_at() <= *now;
        let idle_capacity = || is_idle.then(|| transmitter.capacity(transmitter.free_at(), *now));
        let verdict = queue.judge(info, idle_capacity, dice);
        let mut evicted = 0;
        while *free < slots
            && let Some(queued) = queue.make_room()
        {
            *free += queued.packet.slots;
            evicted += 1;
            self.dropped.push_back((queued.packet.packet, RouterDrop::QueueFull));
        }
        self.waiting -= evicted;
        self.counters.dropped[RouterDrop::QueueFull as usize] += evicted as u64;
        match verdict {
            Verdict::Drop => Err(RouterDrop::Discipline),
            Verdict::Accept | Verdict::Mark if *free < slots => Err(RouterDrop::QueueFull),
            Verdict::Accept => Ok(false),
            Verdict::Mark => Ok(true),
        }
    }

    /// Lets servers take what has just come to a port, if nothing was there before. Others can't be served any more than they
    /// could before it came.
    fn serve_first(&mut self, port: usize) {
        if !std::mem::replace(&mut self.ports[port].is_listed, true) {
            self.turns.push_back(port);
        }
        if self.ports[port].queue.len() > 1 || !self.servers.any_free() {
            return;
        }
        match self.ports[port].opens(&self.costs) {
            Some(at) if at > self.now => self.wake_at(at),
            Some(_) | None => _ = self.take(port),
        }
    }

    fn wake_at(&mut self, at: Nanos) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Lets servers take packets, from one port after the other, for as long as any is free and any packet may be taken.
    fn serve(&mut self) {
        self.wake = None;
        let mut passed_over = 0;
        while passed_over < self.turns.len() && self.servers.any_free() {
            let Some(port) = self.turns.pop_front() else { return };
            match self.ports[port].opens(&self.costs) {
                None => {
                    self.ports[port].is_listed = false;
                    continue;
                }
                Some(at) if at > self.now => {
                    self.wake_at(at);
                    passed_over += 1;
                }
                Some(_) => {
                    self.take(port);
                    passed_over = 0;
                }
            }
            self.turns.push_back(port);
        }
        if !self.servers.any_free() {
            // Whoever is done looks again.
            self.wake = None;
        }
    }

    /// Lets servers take the next packet of a port, unless its discipline drops all it has.
    fn take(&mut self, port: usize) -> bool {
        let Some(queued) = self.dequeue(port) else { return false };
        let Queued { packet: Held { packet, .. }, info, marked, .. } = queued;
        let Cost { delay, servers, .. } = self.costs.of_len(info.len);
        let served = Served { packet, port, len: info.len, marked };
        // Those that became free while nobody needed them.
        self.servers.release(self.now);
        match self.servers.begin(servers, delay, self.now) {
            Begun::DoneAt(end) => self.transmit(served, end),
            Begun::Short => self.short = Some(served),
        }
        true
    }

    /// The next packet of a port, after those that its discipline drops.
    fn dequeue(&mut self, port: usize) -> Option<Queued<Held<P>>> {
        let Self { ports, now, dropped, counters, waiting, .. } = self;
        let Port { queue, free, .. } = &mut ports[port];
        let mut given_back = 0;
        let taken = queue.dequeue(*now, &mut |queued| {
            given_back += queued.packet.slots;
            *waiting -= 1;
            counters.dropped[RouterDrop::Discipline as usize] += 1;
            dropped.push_back((queued.packet.packet, RouterDrop::Discipline));
        });
        if let Some(queued) = &taken {
            given_back += queued.packet.slots;
            *waiting -= 1;
        }
        *free += given_back;
        taken
    }

    /// Transmits a packet that servers are done with at `end`, behind those that its port has been given before.
    fn transmit(&mut self, served: Served<P>, end: Nanos) {
        let Served { packet, port, len, marked } = served;
        let PortConfig { framing, extra, .. } = self.config.ports()[port];
        let transmitter = &mut self.ports[port].transmitter;
        transmitter.send(len + framing, end);
        let at = transmitter.free_at().after(extra.into());
        self.departures.insert(at, Left { packet, port: Some(port), marked });
    }

    fn drop_packet(&mut self, packet: P, reason: RouterDrop) {
        self.counters.dropped[reason as usize] += 1;
        self.dropped.push_back((packet, reason));
    }
}

impl<P> Port<P> {
    fn new(config: &PortConfig) -> Self {
        Self {
            queue: Waiting::new(config.discipline),
            free: config.slots.millionths(),
            is_listed: false,
            transmitter: Transmitter::new(&Rate::Fixed(config.rate), Nanos::default()),
        }
    }

    /// From when on its next packet may be served: then the line is free when servers are done. `None` if it has none.
    fn opens(&self, costs: &Costs) -> Option<Nanos> {
        let len = self.queue.next_len()?;
        Some(self.transmitter.free_at().since(costs.of_len(len).delay))
    }
}

impl RouterCounters {
    /// Packets dropped for this reason.
    #[must_use]
    pub fn dropped_for(&self, reason: RouterDrop) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().sum()
    }
}
