//! Large networks and the messages of a protocol in them, in virtual time: thousands of nodes, each message hop by hop.
//!
//! Where [`World`](crate::World) has every byte of every connection, this has messages: how many bytes they have, who sends
//! them after which others, and how long their receivers work on them. Between them are lines with a rate, a delay and
//! the load of everybody else's traffic.

mod play;
#[cfg(test)]
mod tests;

use std::time::Duration;

use petgraph::algo::dijkstra;
use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::EdgeRef;

use crate::link::Dice;
pub use play::{Message, Script, StepId, play};

/// A node of a network, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A line between two nodes. It has the same rate and delay in both directions, each of which has a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// What it carries in each direction, in bits per second.
    pub bits_per_second: f64,
    /// How long a bit is under way.
    pub delay: Duration,
    /// The share of the rate that the traffic of others takes, in each direction.
    pub load: f64,
}

/// Nodes, and lines between them.
///
/// A packet takes the fastest way by the delays of the lines, to one node by the same lines as from it.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    graph: UnGraph<(), Laid>,
}

#[derive(Clone, Copy, Debug)]
struct Laid {
    bits_per_second: f64,
    delay: Duration,
    /// From the first of its ends, and towards it.
    loads: [f64; 2],
}

/// One direction of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArcId(usize);

/// The fastest ways between one node and all others.
#[derive(Clone, Debug)]
struct Tree {
    /// For each node the direction of a line by which the root is approached, and the node at its end.
    next: Vec<Option<(ArcId, NodeId)>>,
}

impl Lines {
    /// So many nodes, numbered from 0, and no line.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        let mut graph = UnGraph::default();
        for _ in 0..nodes {
            graph.add_node(());
        }
        Self { graph }
    }

    /// Lays a line.
    ///
    /// # Panics
    /// If one of the nodes does not exist.
    pub fn lay(&mut self, a: NodeId, b: NodeId, line: Line) {
        let Line { bits_per_second, delay, load } = line;
        self.graph.add_edge(index(a), index(b), Laid { bits_per_second, delay, loads: [load; 2] });
    }

    /// Adds traffic from one node to another, in bits per second. No line becomes busier than `most` by it: what others send
    /// there gives way, as TCP does.
    pub fn add_traffic(&mut self, from: NodeId, to: NodeId, bits_per_second: f64, most: f64) {
        let way = self.way(from, to).unwrap_or_default();
        for arc in way {
            let laid = &mut self.graph[arc.line()];
            let load = &mut laid.loads[arc.direction()];
            *load = (*load + bits_per_second / laid.bits_per_second).min(most.max(*load));
        }
    }

    /// How long a bit is under way from one node to another, if nothing is in its way; `None` if there is no way.
    #[must_use]
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        Some(self.way(from, to)?.into_iter().map(|arc| self.delay(arc)).sum())
    }

    /// The same from one node to each of all, by their numbers.
    #[must_use]
    pub fn distances(&self, from: NodeId) -> Vec<Option<Duration>> {
        let costs = dijkstra(&self.graph, index(from), None, |line| nanoseconds(line.weight().delay));
        self.graph.node_indices().map(|node| costs.get(&node).map(|ns| Duration::from_nanos(*ns))).collect()
    }

    /// How many directions of lines there are.
    fn arcs(&self) -> usize {
        self.graph.edge_count() * 2
    }

    /// How many nodes there are.
    fn nodes(&self) -> usize {
        self.graph.node_count()
    }

    fn delay(&self, arc: ArcId) -> Duration {
        self.graph[arc.line()].delay
    }

    fn bits_per_second(&self, arc: ArcId) -> f64 {
        self.graph[arc.line()].bits_per_second
    }

    fn load(&self, arc: ArcId) -> f64 {
        self.graph[arc.line()].loads[arc.direction()]
    }

    /// The fastest ways to a node; of two that are equally fast the one over the node of the lower number.
    fn tree(&self, root: NodeId) -> Tree {
        let costs = dijkstra(&self.graph, index(root), None, |line| nanoseconds(line.weight().delay));
        let next = |node: NodeIndex| {
            let cost = costs.get(&node).filter(|_| node != index(root))?;
            let towards = self.graph.edges(node).filter_map(|line| {
                let rest = costs.get(&line.target())?;
                let fits = rest + nanoseconds(line.weight().delay) == *cost && line.target() != node;
                let is_first = self.graph.edge_endpoints(line.id())?.0 == node;
                let arc = ArcId(line.id().index() * 2 + usize::from(!is_first));
                fits.then_some((line.target(), arc))
            });
            let (target, arc) = towards.min_by_key(|(target, arc)| (*target, arc.0))?;
            Some((arc, NodeId(u32::try_from(target.index()).ok()?)))
        };
        Tree { next: self.graph.node_indices().map(next).collect() }
    }

    fn way(&self, from: NodeId, to: NodeId) -> Option<Vec<ArcId>> {
        self.tree(to).way_from(from, to)
    }
}

impl Tree {
    /// The lines from a node to the root; `None` if there is no way.
    fn way_from(&self, node: NodeId, root: NodeId) -> Option<Vec<ArcId>> {
        let mut way = Vec::new();
        let mut at = node;
        while at != root {
            let (arc, next) = (*self.next.get(at.0 as usize)?)?;
            way.push(arc);
            at = next;
        }
        Some(way)
    }

    /// The lines from the root to a node: the way back.
    fn way_to(&self, root: NodeId, node: NodeId) -> Option<Vec<ArcId>> {
        let mut way = self.way_from(node, root)?;
        way.reverse();
        Some(way.into_iter().map(ArcId::opposite).collect())
    }
}

impl ArcId {
    /// Below [`Lines::arcs`].
    fn number(self) -> usize {
        self.0
    }

    fn line(self) -> petgraph::graph::EdgeIndex {
        petgraph::graph::EdgeIndex::new(self.0 / 2)
    }

    fn direction(self) -> usize {
        self.0 % 2
    }

    fn opposite(self) -> Self {
        Self(self.0 ^ 1)
    }
}

fn index(node: NodeId) -> NodeIndex {
    NodeIndex::new(node.0 as usize)
}

/// At least one, so that each line makes a way longer and no way leads in a circle.
fn nanoseconds(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX / 2).max(1)
}

/// The mean length of a packet of the traffic of others, in bits: that of the Internet is between 500 and 1000 bytes.
const MEAN_PACKET: f64 = 700.0 * 8.0;

/// One direction of a line, as those meet it whose packets are simulated.
///
/// The traffic of others arrives at random (Poisson), in packets of random length: a packet that finds none of ours there
/// waits as in a queue M/M/1. It finds nobody with the probability 1 − ρ; else its wait is exponential with the mean
/// s/(1 − ρ), s the mean time of a packet on the line. One that comes behind another of ours waits for that, and for what has
/// come from others in between, which is ρ of the time.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// When the last packet of ours came, and when it was sent.
    last: Option<(Duration, Duration)>,
}

impl Queue {
    /// A packet of so many bits comes `now`, to a line with this rate and this load of others; says when its last bit is sent.
    fn pass(&mut self, now: Duration, bits: f64, rate: f64, load: f64, dice: &mut Dice) -> Duration {
        let own = Duration::from_secs_f64(bits / rate);
        let start = match self.last.filter(|(_, sent)| *sent > now) {
            Some((came, sent)) => sent + (now - came).mul_f64(load),
            None => now + wait(rate, load, dice),
        };
        self.last = Some((now, start + own));
        start + own
    }
}

fn wait(rate: f64, load: f64, dice: &mut Dice) -> Duration {
    if dice.uniform() >= load {
        return Duration::ZERO;
    }
    let mean = MEAN_PACKET / rate / (1.0 - load);
    // 1 − u is never 0.
    Duration::from_secs_f64(-(1.0 - dice.uniform()).ln() * mean)
}
