//! Routers and hosts: the seed's two topologies (figure 8), and how packets find their way in them.
//!
//! The figures are drawings, of which the text names some links. What is here is the simplest network that has them, and in
//! which the text's flows meet where it says that they do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use psmc_sim::link::{Discipline, LinkConfig, QueueLimit};
use psmc_sim::{HostId, LinkEnd, LinkId, LinkSetup, World};

/// A node by its name in the seed: hosts begin with `n`, edge routers with `E`, core routers with `C`.
pub(super) type Node = &'static str;

/// A link: between whom, its rate in bits per second, and its delay in ms. Both directions are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) ends: [Node; 2],
    pub(super) rate: u64,
    pub(super) delay_ms: u64,
}

/// What queues routers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queues {
    /// Three REDs (the seed's parameters), and marks for who can be marked.
    Rio,
    /// FQ-CoDel with its usual parameters (RFC 8290 §5.2), and the same marks.
    FqCoDel,
}

/// A network with its routes, and no traffic yet.
pub(super) struct Network {
    pub(super) world: World,
    pub(super) start: Instant,
    nodes: BTreeMap<Node, HostId>,
    links: BTreeMap<[Node; 2], LinkId>,
    addresses: BTreeMap<Node, Ipv4Addr>,
    neighbours: BTreeMap<Node, Vec<Node>>,
}

impl Network {
    /// A network of these lines.
    pub(super) fn build(lines: &[Line], queues: Queues, seed: u64) -> Self {
        let start = Instant::now();
        let mut network = Self {
            world: World::new(seed, start),
            start,
            nodes: BTreeMap::new(),
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            neighbours: BTreeMap::new(),
        };
        let names: BTreeSet<Node> = lines.iter().flat_map(|line| line.ends).collect();
        for name in names {
            let host = network.world.add_host();
            network.nodes.insert(name, host);
            if !is_host(name) {
                network.world.set_forwarding(host);
            }
        }
        let mut nets = BTreeMap::new();
        for (number, line) in (0u8..).zip(lines) {
            network.lay(number, *line, queues, &mut nets);
        }
        network.add_routes(&nets);
        network
    }

    /// The machine of a node.
    pub(super) fn host(&self, node: Node) -> HostId {
        self.nodes[node]
    }

    /// The address of a host.
    pub(super) fn address(&self, host: Node) -> IpAddr {
        self.addresses[host].into()
    }

    /// The link between two nodes, and the end of it at the first one.
    pub(super) fn link(&self, from: Node, to: Node) -> (LinkId, usize) {
        match self.links.get(&[from, to]) {
            Some(link) => (*link, 0),
            None => (self.links[&[to, from]], 1),
        }
    }

    /// Keeps what routers drop of what they send to each other.
    pub(super) fn watch_routers(&mut self) {
        let links = self.links.iter().filter(|(ends, _)| !ends.iter().any(|node| is_host(node)));
        let links: Vec<_> = links.map(|(_, &link)| link).collect();
        links
            .into_iter()
            .for_each(|link| [0, 1].into_iter().for_each(|end| self.world.watch_drops(link, end)));
    }

    /// Routers to which hosts are attached, with these hosts and the routers beside them.
    pub(super) fn edges(&self) -> Vec<Edge> {
        let of = |router: &Node, are_hosts: bool| -> Vec<Node> {
            self.neighbours[router].iter().copied().filter(|node| is_host(node) == are_hosts).collect()
        };
        let routers = self.neighbours.keys().filter(|node| !is_host(node));
        let edge = |router: &Node| Edge { router, hosts: of(router, true), towards: of(router, false) };
        routers.map(edge).filter(|edge| !edge.hosts.is_empty()).collect()
    }

    /// The nodes that a packet of one host to another one comes by, both included.
    #[cfg(test)]
    pub(super) fn way(&self, from: Node, to: Node) -> Vec<Node> {
        let next = self.next_hops(to);
        let step = |node: &Node| next.get(node).copied();
        std::iter::successors(Some(from), step).collect()
    }

    fn lay(&mut self, number: u8, line: Line, queues: Queues, nets: &mut BTreeMap<[Node; 2], Ipv4Addr>) {
        let Line { ends, rate, delay_ms } = line;
        let [near, far] = ends;
        let addresses = [1, 2].map(|end| Ipv4Addr::new(10, 0, number, end));
        let end = |place: usize| LinkEnd {
            host: self.nodes[ends[place]],
            addresses: vec![format!("{}/24", addresses[place]).parse().expect("an address and its length")],
        };
        let direction = |from: Node| {
            let link = LinkConfig::new(rate, Duration::from_millis(delay_ms));
            if is_host(from) { link } else { queue(link, queues) }
        };
        let setup = LinkSetup { ends: [end(0), end(1)], directions: [direction(near), direction(far)] };
        self.links.insert(ends, self.world.add_link(setup));
        for ([node, other], address) in [[near, far], [far, near]].into_iter().zip(addresses) {
            nets.insert([node, other], address);
            self.addresses.insert(node, address);
            self.neighbours.entry(node).or_default().push(other);
        }
    }

    fn add_routes(&mut self, nets: &BTreeMap<[Node; 2], Ipv4Addr>) {
        let hosts: Vec<Node> = self.nodes.keys().copied().filter(|node| is_host(node)).collect();
        for to in hosts {
            let network = format!("{}/32", self.addresses[to]).parse().expect("an address and its length");
            for (node, next) in self.next_hops(to) {
                let via = nets[&[next, node]].into();
                let added = self.world.add_route(self.nodes[node], network, via);
                debug_assert!(added, "{node} has no link to {next}");
            }
        }
    }

    /// The next hop of each node on the shortest way to a host.
    fn next_hops(&self, to: Node) -> BTreeMap<Node, Node> {
        let (mut next, mut seen) = (BTreeMap::new(), BTreeSet::from([to]));
        let mut reached = VecDeque::from([to]);
        while let Some(node) = reached.pop_front() {
            for &neighbour in &self.neighbours[node] {
                if seen.insert(neighbour) {
                    next.insert(neighbour, node);
                    reached.push_back(neighbour);
                }
            }
        }
        next
    }
}

/// A router to which hosts are attached.
pub(super) struct Edge {
    pub(super) router: Node,
    pub(super) hosts: Vec<Node>,
    /// Routers beside it.
    pub(super) towards: Vec<Node>,
}

fn is_host(node: &str) -> bool {
    node.starts_with('n')
}

fn queue(link: LinkConfig, queues: Queues) -> LinkConfig {
    match queues {
        Queues::Rio => {
            link.with_queue(QueueLimit::Packets(RIO_PACKETS)).with_discipline(Discipline::Rio { ecn: true })
        }
        Queues::FqCoDel => {
            link.with_queue(QueueLimit::Packets(FLOW_PACKETS)).with_discipline(Discipline::FqCoDel {
                target: Duration::from_millis(5),
                interval: Duration::from_millis(100),
                ecn: true,
            })
        }
    }
}

/// Some more than the average from which RED drops everything, 55.
const RIO_PACKETS: usize = 60;

/// Linux has 10,240 for interfaces of any rate; so many take 0.8 s at 10 Mb/s, and never fill up.
const FLOW_PACKETS: usize = 1000;

/// Figure 8a: two senders and two receivers, one core router; all 10 Mb/s, but from the core to the second receiver's edge
/// router. Round trips are 24 and 60 ms.
///
/// ```text
/// n1 ─1─┐               ┌─ E2 ─1─ n3
///       E1 ─── C1 ──────┤
/// n2 ─10┘               └─ E3 ─10─ n4
/// ```
pub(super) fn simple(bottleneck: u64) -> Vec<Line> {
    let line = |ends, delay_ms| Line { ends, rate: FAST, delay_ms };
    vec![
        line(["n1", "E1"], 1),
        line(["n2", "E1"], 10),
        line(["E1", "C1"], 5),
        line(["C1", "E2"], 5),
        Line { ends: ["C1", "E3"], rate: bottleneck, delay_ms: 5 },
        line(["E2", "n3"], 1),
        line(["E3", "n4"], 10),
    ]
}

/// Figure 8b: three domains in a row. C2–E4, E5–C4 and C4–E7 are each used by the flows from n1 and n2, and by those of one
/// more host.
///
/// ```text
/// n1 ┐            n4            n5            n6,n7               ┌ E9 ── n8
///    E1 ── C1 ── C2 ── E4 ───── E5 ── C4 ──── E7 ───── E8 ── C5 ──┤
/// n2 ┘     E2                         │                           └ E10 ─ n9,n10
///          n3                         E6
/// ```
///
/// n4 is behind E4, n5 behind E5, n6 and n7 behind E6. `rate` is that of all links but C2–E4 and C4–E7.
pub(super) fn domains(rate: u64, narrow: u64) -> Vec<Line> {
    let line = |ends, delay_ms| Line { ends, rate, delay_ms };
    let narrow = |ends, delay_ms| Line { ends, rate: narrow, delay_ms };
    vec![
        line(["n1", "E1"], 1),
        line(["n2", "E1"], 10),
        line(["n3", "E2"], 5),
        line(["E1", "C1"], 5),
        line(["E2", "C1"], 5),
        line(["C1", "C2"], 5),
        narrow(["C2", "E4"], 5),
        line(["E4", "n4"], 2),
        line(["E4", "E5"], 5),
        line(["n5", "E5"], 3),
        line(["E5", "C4"], 5),
        line(["C4", "E6"], 5),
        line(["E6", "n6"], 4),
        line(["n7", "E6"], 8),
        narrow(["C4", "E7"], 5),
        line(["E7", "E8"], 5),
        line(["E8", "C5"], 5),
        line(["C5", "E9"], 5),
        line(["C5", "E10"], 5),
        line(["E9", "n8"], 1),
        line(["E10", "n9"], 10),
        line(["E10", "n10"], 6),
    ]
}

/// The rate of all links of the seed's, unless it says otherwise.
pub(super) const FAST: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The text names the most congested links: each of them is used by the two long aggregates, and by one more.
    #[test]
    fn flows_meet_where_the_text_says() {
        let network = Network::build(&domains(FAST, FAST), Queues::Rio, 1);
        let uses = |from, to, link: [Node; 2]| network.way(from, to).windows(2).any(|hop| hop == link);
        let pairs = [("n1", "n8"), ("n2", "n9"), ("n3", "n4"), ("n5", "n6"), ("n7", "n9")];
        for (link, others) in [(["C2", "E4"], "n3"), (["E5", "C4"], "n5"), (["C4", "E7"], "n7")] {
            let users: Vec<_> =
                pairs.iter().filter(|(from, to)| uses(from, to, link)).map(|(from, _)| *from).collect();
            assert_eq!(users, ["n1", "n2", others]);
        }
    }
}
