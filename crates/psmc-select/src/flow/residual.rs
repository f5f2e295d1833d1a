//! Flows of least cost, by successive shortest paths.

use std::collections::VecDeque;

/// The residual network: what can still be sent, and what can be taken back.
pub(crate) struct Residual {
    /// For each place the edges that leave it.
    leaving: Vec<Vec<usize>>,
    /// Edges and, each behind the one that it takes back, their opposites.
    edges: Vec<Edge>,
}

#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    free: u64,
    cost: i64,
}

impl Residual {
    /// So many places without an edge.
    pub(crate) fn new(places: usize) -> Self {
        Self { leaving: vec![Vec::new(); places], edges: Vec::new() }
    }

    /// Adds an edge that carries up to `capacity`, each unit at that cost, which is not negative; gives its number.
    pub(crate) fn add(&mut self, from: usize, to: usize, capacity: u64, cost: i64) -> usize {
        let number = self.edges.len();
        self.leaving[from].push(number);
        self.leaving[to].push(number + 1);
        self.edges.push(Edge { to, free: capacity, cost });
        self.edges.push(Edge { to: from, free: 0, cost: -cost });
        number
    }

    /// What an edge carries.
    pub(crate) fn sent(&self, edge: usize) -> u64 {
        self.edges[edge ^ 1].free
    }

    /// Sends up to `most` more along the cheapest way, and says how much. What is sent in all is then the cheapest flow of
    /// that size.
    pub(crate) fn augment(&mut self, source: usize, destination: usize, most: u64) -> u64 {
        let Some(edges) = self.cheapest_way(source, destination) else { return 0 };
        let amount = edges.iter().map(|edge| self.edges[*edge].free).min().unwrap_or(0).min(most);
        for edge in edges {
            self.edges[edge].free -= amount;
            self.edges[edge ^ 1].free += amount;
        }
        amount
    }

    /// By Bellman and Ford with a queue: taking back has a negative cost.
    fn cheapest_way(&self, source: usize, destination: usize) -> Option<Vec<usize>> {
        let mut costs: Vec<Option<i64>> = vec![None; self.leaving.len()];
        let mut reached_by: Vec<Option<usize>> = vec![None; self.leaving.len()];
        let mut is_queued = vec![false; self.leaving.len()];
        costs[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(place) = queue.pop_front() {
            is_queued[place] = false;
            let Some(so_far) = costs[place] else { continue };
            for edge in &self.leaving[place] {
                let Edge { to, free, cost } = self.edges[*edge];
                if free > 0 && costs[to].is_none_or(|known| so_far + cost < known) {
                    costs[to] = Some(so_far + cost);
                    reached_by[to] = Some(*edge);
                    if !std::mem::replace(&mut is_queued[to], true) {
                        queue.push_back(to);
                    }
                }
            }
        }
        self.way_back(source, destination, &reached_by)
    }

    fn way_back(
        &self,
        source: usize,
        destination: usize,
        reached_by: &[Option<usize>],
    ) -> Option<Vec<usize>> {
        let mut edges = Vec::new();
        let mut at = destination;
        while at != source {
            let edge = reached_by[at]?;
            edges.push(edge);
            at = self.edges[edge ^ 1].to;
        }
        Some(edges)
    }
}
