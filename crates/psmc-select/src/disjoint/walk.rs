//! The search: path by path, arc by arc, the widest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction;
use petgraph::visit::EdgeRef;

use super::Widths;
use super::{longest, sum};
use crate::network::{ArcId, Network, NodeId};
use crate::{Bandwidth, Budget, Disjointness, Latency, Path};

/// What the paths are to be.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    /// To carry more than the best so far; no more than `most` can be.
    Widest { most: Bandwidth },
    /// To carry at least so much, and the slowest to be faster than that of the best so far.
    Fastest { least: Bandwidth },
}

/// A walk through all sets of so many disjoint paths, in which each path is no wider than the one before.
pub(super) struct Walk<'a> {
    network: &'a Network,
    kind: Disjointness,
    size: usize,
    aim: Aim,
    /// The best paths so far.
    pub(super) best: Vec<Path>,
    chosen: Vec<Path>,
    used_nodes: Vec<bool>,
    used_links: Vec<bool>,
    is_stopped: bool,
    /// Whether a path was given up because it was too long.
    is_cut: bool,
}

/// What lies ahead while one path is laid.
struct Ahead {
    widths: Widths,
    /// From each node to the destination: how wide the widest way is, and how long the fastest takes.
    ways: Vec<Option<(Bandwidth, Latency)>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        network: &'a Network,
        kind: Disjointness,
        size: usize,
        aim: Aim,
        best: Vec<Path>,
    ) -> Self {
        Self {
            network,
            kind,
            size,
            aim,
            best,
            chosen: Vec::new(),
            used_nodes: vec![false; network.graph().node_count()],
            used_links: vec![false; network.link_count()],
            is_stopped: false,
            is_cut: false,
        }
    }

    /// Whether it came to the end before the budget did, and no path was too long for it.
    pub(super) fn run(&mut self, budget: &mut dyn Budget) -> bool {
        self.lay_next(budget);
        !self.is_stopped && !self.is_cut
    }

    /// Lays the next path in all ways that may lead to something better.
    fn lay_next(&mut self, budget: &mut dyn Budget) {
        if self.chosen.len() == self.size {
            if self.is_better() {
                self.best.clone_from(&self.chosen);
            }
            return;
        }
        let missing = self.size - self.chosen.len();
        let free = |arc| self.is_free(arc);
        let widths = Widths::new(self.network, self.kind, missing, free);
        if widths.count() == missing {
            let ahead = Ahead { widths, ways: self.ways() };
            let width = self.chosen.last().map_or(WIDEST, Path::bandwidth);
            self.extend(&ahead, &mut Vec::new(), width, Latency::ZERO, budget);
        }
    }

    /// Goes on from the end of the path that is laid.
    fn extend(
        &mut self,
        ahead: &Ahead,
        arcs: &mut Vec<ArcId>,
        width: Bandwidth,
        latency: Latency,
        budget: &mut dyn Budget,
    ) {
        let at = arcs.last().map_or(self.network.source(), |arc| self.network.ends(*arc).1);
        if at == self.network.destination() {
            return self.finish_path(arcs.clone(), budget);
        }
        if arcs.len() == MOST_HOPS {
            self.is_cut = true;
            return;
        }
        for (arc, next) in self.steps(ahead, at) {
            let Some((way_width, way_latency)) = ahead.ways[next.index()] else { continue };
            let (step_width, step_latency) = {
                let step = self.network.arc(arc);
                (width.min(step.bandwidth), latency + step.latency)
            };
            if self.may_be_better(ahead, step_width.min(way_width), step_latency + way_latency) {
                self.is_stopped |= !budget.allows(1);
                if self.is_stopped {
                    return;
                }
                self.mark(arc, next, true);
                arcs.push(arc);
                self.extend(ahead, arcs, step_width, step_latency, budget);
                arcs.pop();
                self.mark(arc, next, false);
            }
        }
    }

    fn finish_path(&mut self, arcs: Vec<ArcId>, budget: &mut dyn Budget) {
        let path = Path::new(self.network, arcs);
        // Of paths that are equally wide, the order is that of their first arcs: each set comes up once.
        let rank = |path: &Path| (Reverse(path.bandwidth()), path.arcs().first().copied());
        if self.chosen.last().is_some_and(|last| rank(last) > rank(&path)) {
            return;
        }
        let nodes: Vec<_> = path.nodes().to_vec();
        // Nodes keep one path from meeting itself; another path may meet it where only links must differ.
        if self.kind == Disjointness::Links {
            nodes.iter().for_each(|node| self.used_nodes[node.index()] = false);
        }
        self.chosen.push(path);
        self.lay_next(budget);
        self.chosen.pop();
        if self.kind == Disjointness::Links {
            nodes.iter().for_each(|node| self.used_nodes[node.index()] = !self.is_end(*node));
        }
    }

    /// The arcs by which to go on, those first that lead to the widest way.
    fn steps(&self, ahead: &Ahead, at: NodeId) -> Vec<(ArcId, NodeId)> {
        let edges = self.network.graph().edges(at).filter(|edge| self.is_free(edge.id()));
        let mut steps: Vec<_> = edges.map(|edge| (edge.id(), edge.target())).collect();
        let width = |arc: ArcId, next: NodeId| {
            ahead.ways[next.index()].map(|way| way.0.min(self.network.arc(arc).bandwidth))
        };
        steps.sort_by_key(|(arc, next)| Reverse(width(*arc, *next)));
        steps
    }

    /// Whether a path of at most this width and at least this latency can be part of something better.
    fn may_be_better(&self, ahead: &Ahead, width: Bandwidth, latency: Latency) -> bool {
        let missing = self.size - self.chosen.len();
        let carried = sum(&self.chosen).bits_per_second();
        let ahead = ahead.widths.sum_below(missing, width).bits_per_second();
        let most = Bandwidth::from_bits_per_second(carried + ahead);
        match self.aim {
            Aim::Widest { most: limit } => sum(&self.best) < most.min(limit),
            Aim::Fastest { least } => most >= least && latency < longest(&self.best),
        }
    }

    fn is_better(&self) -> bool {
        match self.aim {
            Aim::Widest { .. } => sum(&self.chosen) > sum(&self.best),
            Aim::Fastest { least } => {
                sum(&self.chosen) >= least && longest(&self.chosen) < longest(&self.best)
            }
        }
    }

    fn is_free(&self, arc: ArcId) -> bool {
        let (from, to) = self.network.ends(arc);
        let leads_on = from != self.network.destination() && to != self.network.source();
        let is_used = self.used_links[self.network.arc(arc).link.index()] || self.used_nodes[to.index()];
        // The node that a path is at is in use, by that path.
        leads_on && !is_used
    }

    /// Whether any number of paths may be there.
    fn is_end(&self, node: NodeId) -> bool {
        node == self.network.source() || node == self.network.destination()
    }

    fn mark(&mut self, arc: ArcId, next: NodeId, used: bool) {
        self.used_links[self.network.arc(arc).link.index()] = used;
        self.used_nodes[next.index()] = used && !self.is_end(next);
    }

    /// For each node the widest and the fastest way to the destination, both through what is free.
    fn ways(&self) -> Vec<Option<(Bandwidth, Latency)>> {
        let widths = self.best_ways(WIDEST, |sofar, arc| sofar.min(self.network.arc(arc).bandwidth));
        let latencies = self
            .best_ways(Reverse(Latency::ZERO), |sofar, arc| Reverse(sofar.0 + self.network.arc(arc).latency));
        widths.into_iter().zip(latencies).map(|(width, latency)| Some((width?, latency?.0))).collect()
    }

    /// Dijkstra's algorithm backwards from the destination, for whatever gets worse on the way.
    fn best_ways<T: Ord + Copy>(&self, start: T, pass: impl Fn(T, ArcId) -> T) -> Vec<Option<T>> {
        let mut best: Vec<Option<T>> = vec![None; self.network.graph().node_count()];
        let destination = self.network.destination();
        best[destination.index()] = Some(start);
        let mut queue = BinaryHeap::from([(start, destination)]);
        while let Some((value, node)) = queue.pop() {
            if best[node.index()] != Some(value) {
                continue;
            }
            for edge in self.network.graph().edges_directed(node, Direction::Incoming) {
                let before = edge.source();
                let passed = pass(value, edge.id());
                if self.is_free(edge.id()) && best[before.index()].is_none_or(|known| passed > known) {
                    best[before.index()] = Some(passed);
                    queue.push((passed, before));
                }
            }
        }
        best
    }
}

/// No packet goes further: its TTL has eight bits. Paths that are longer are not looked for.
const MOST_HOPS: usize = 255;

/// Wider than any path.
const WIDEST: Bandwidth = Bandwidth::from_bits_per_second(u64::MAX);
