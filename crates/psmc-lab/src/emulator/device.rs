//! Routers that are like measured devices: what arrives at a host of that kind waits in the model before the kernel there gets it
//! and passes it on.
//!
//! ```text
//! host A ══ link ══▶ arrives ─▶ Router (psmc-sim) ─▶ the interface of the router's host ─▶ its kernel ══ link ══▶ host B
//! ```
//!
//! So the kernel does what routers do to packets (hops, ICMP, neighbours, NAT), and the model says when, and to which. What is for
//! the host itself, and what is not IP, takes the processor and no server.

use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use psmc_sim::link::Arrival;
use psmc_sim::router::{Departure, Router, RouterConfig};

use super::ethernet::destination;
use super::pool::Stored;
use super::wire::{Wire, info_of};
use super::worker::Clock;

/// How many packets leave a router before others get their turn.
const BATCH: usize = 64;

/// A router, its links, and where packets go.
#[derive(Debug)]
pub(super) struct Device {
    router: Router<Passing>,
    ports: Vec<Port>,
    table: Table,
}

/// By which port packets leave.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The addresses of the router itself.
    pub own: Vec<IpAddr>,
    /// Networks, and the port that leads there. Of those that contain an address the longest counts, and the first of these.
    pub routes: Vec<(IpNet, usize)>,
}

#[derive(Debug)]
struct Port {
    /// The link, as the worker counts, and the direction towards the router.
    wire: usize,
    direction: usize,
    /// What has arrived, and is not in the router yet.
    pending: Option<Arrival<Stored>>,
    /// Where the last packet was for, and by which port it left.
    last: Option<(IpAddr, Option<usize>)>,
}

/// A packet in the router, and the port by which it came.
#[derive(Clone, Copy, Debug)]
struct Passing {
    stored: Stored,
    input: usize,
}

impl Device {
    /// `ports` are links, as the worker counts, and the directions towards the router.
    pub(super) fn new(config: RouterConfig, seed: u64, ports: &[(usize, usize)], table: Table) -> Self {
        let port = |&(wire, direction): &(usize, usize)| Port { wire, direction, pending: None, last: None };
        let router = Router::new(config, seed, Instant::now());
        Self { router, ports: ports.iter().map(port).collect(), table: table.sorted() }
    }

    /// Moves what has come and what is due; says whether that was anything, or will be at once.
    pub(super) fn turn(&mut self, wires: &mut [Wire]) -> bool {
        let horizon = self.ports.iter().map(|port| wires[port.wire].horizon(port.direction)).min();
        let Some(horizon) = horizon else { return false };
        let taken = self.take_in(wires, horizon);
        let left = self.let_out(wires, horizon);
        self.clear_dropped(wires);
        taken || left || self.ports.iter().any(|port| port.pending.is_some())
    }

    /// When there will be something to do, if no frame comes before.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.router.poll_timeout()
    }

    /// Takes what has arrived by the links until `horizon`, in the order of time; says whether that was anything.
    fn take_in(&mut self, wires: &mut [Wire], horizon: Instant) -> bool {
        let mut any = false;
        loop {
            for port in self.ports.iter_mut().filter(|port| port.pending.is_none()) {
                port.pending = wires[port.wire].poll_arrival(port.direction);
            }
            let times = self.ports.iter().enumerate();
            let times = times.filter_map(|(input, port)| Some((port.pending.as_ref()?.at, input)));
            let Some((at, input)) = times.min().filter(|(at, _)| *at <= horizon) else { return any };
            if let Some(arrival) = self.ports[input].pending.take() {
                self.enter(arrival, input, at, wires);
            }
            any = true;
        }
    }

    fn enter(&mut self, arrival: Arrival<Stored>, input: usize, at: Instant, wires: &mut [Wire]) {
        let wire = &mut wires[self.ports[input].wire];
        let frame = wire.frame(arrival.packet);
        let (info, output) = (info_of(frame), self.output(input, destination(frame)));
        self.router.handle_packet(Passing { stored: arrival.packet, input }, info, input, output, at);
        if arrival.copies > 1
            && let Some(stored) = wire.copy(arrival.packet)
        {
            self.router.handle_packet(Passing { stored, input }, info, input, output, at);
        }
    }

    fn output(&mut self, input: usize, to: Option<IpAddr>) -> Option<usize> {
        let to = to?;
        if let Some((last, output)) = self.ports[input].last
            && last == to
        {
            return output;
        }
        let output = self.table.lookup(to);
        self.ports[input].last = Some((to, output));
        output
    }

    /// Hands the kernel what leaves until `horizon`; says whether that was anything.
    fn let_out(&mut self, wires: &mut [Wire], horizon: Instant) -> bool {
        let clock = Clock::read();
        let mut count = 0;
        while count < BATCH
            && let Some(Departure { packet, at, congestion_experienced, .. }) =
                self.router.poll_packet(horizon)
        {
            let port = &self.ports[packet.input];
            wires[port.wire].send_on(port.direction, packet.stored, congestion_experienced, at, clock);
            count += 1;
        }
        for port in self.ports.iter().filter(|_| count > 0) {
            wires[port.wire].flush(port.direction, clock);
        }
        count > 0
    }

    fn clear_dropped(&mut self, wires: &mut [Wire]) {
        while let Some((packet, _)) = self.router.poll_dropped() {
            wires[self.ports[packet.input].wire].give_back(packet.stored);
        }
    }
}

impl Table {
    fn sorted(mut self) -> Self {
        self.routes.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        self
    }

    /// `None` for what the router itself gets, or whoever is beside it.
    fn lookup(&self, to: IpAddr) -> Option<usize> {
        if self.own.contains(&to) || to.is_multicast() {
            return None;
        }
        self.routes.iter().find(|(network, _)| network.contains(&to)).map(|(_, port)| *port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_leads() {
        let routes = [("0.0.0.0/0", 0), ("10.1.0.0/16", 1), ("10.1.2.0/24", 2)];
        let routes = routes.map(|(network, port)| (network.parse().unwrap(), port)).to_vec();
        let table = Table { own: vec![[10, 1, 2, 1].into()], routes }.sorted();
        let lookup = |to: [u8; 4]| table.lookup(to.into());
        assert_eq!([[10, 1, 2, 3], [10, 1, 3, 3], [9, 9, 9, 9]].map(lookup), [Some(2), Some(1), Some(0)]);
        assert_eq!([[10, 1, 2, 1], [224, 0, 0, 1]].map(lookup), [None, None]);
    }
}
