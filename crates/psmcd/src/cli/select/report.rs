//! What `psmc select` prints.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use psmc_select::{Answer, Candidate, JointnessBy, Network, Problem, Selection};
use serde::Serialize;

use crate::cli::units::{duration_ms, rate_mbps};

/// A selection for people and programs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// What the paths carry together, and what all candidates could.
    bandwidth_mbps: f64,
    most_mbps: f64,
    longest_latency_ms: f64,
    mean_disjointness: Option<f64>,
    /// What was maximised: the first number decides, then the second, then the third.
    score: [f64; 3],
    /// No selection has more.
    bound: Option<[f64; 3]>,
    proven_optimal: bool,
    gap_percent: Option<f64>,
    steps: u64,
    candidates: usize,
    unreachable: Vec<String>,
    paths: Vec<PathReport>,
}

#[derive(Debug, Serialize)]
struct PathReport {
    name: String,
    bandwidth_mbps: f64,
    latency_ms: f64,
    provider: Option<String>,
    price_per_gigabyte: f64,
    route: Vec<String>,
}

impl Report {
    pub(super) fn new(
        network: &Network,
        problem: &Problem,
        selection: &Selection,
        answer: &Answer,
        steps: u64,
    ) -> Self {
        let pool = problem.pool();
        let chosen: Vec<_> = selection.members.iter().map(|member| &pool.candidates()[*member]).collect();
        let paths: Vec<_> = chosen.iter().map(|candidate| PathReport::new(network, candidate)).collect();
        Self {
            bandwidth_mbps: pool.flow(&selection.members).mbps(),
            most_mbps: pool.most().mbps(),
            longest_latency_ms: paths.iter().map(|path| path.latency_ms).fold(0.0, f64::max),
            mean_disjointness: mean_disjointness(&chosen, problem.objective().jointness_by()),
            score: selection.score.0,
            bound: answer.bound.map(|bound| bound.0),
            proven_optimal: answer.is_proven(),
            gap_percent: answer.gap().map(|gap| gap * 100.0),
            steps,
            candidates: pool.candidates().len(),
            unreachable: pool.unreachable().iter().map(|relay| network.name(*relay).to_owned()).collect(),
            paths,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.verdict(), self.table());
        if !self.unreachable.is_empty() {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "out of reach: {}", self.unreachable.join(", "));
        }
        text
    }

    fn verdict(&self) -> String {
        let proof = match (self.proven_optimal, self.gap_percent) {
            (true, _) => "proven to be optimal".to_owned(),
            (false, Some(gap)) => format!("at most {gap:.1} % below the optimum"),
            (false, None) => "not proven to be optimal".to_owned(),
        };
        let disjoint =
            self.mean_disjointness.map(|mean| format!(", disjointness {mean:.2}")).unwrap_or_default();
        format!(
            "{} of {} candidates: {} of {}, longest latency {}{disjoint}\n{proof} after {} steps\n",
            self.paths.len(),
            self.candidates,
            rate_mbps(self.bandwidth_mbps),
            rate_mbps(self.most_mbps),
            duration_ms(self.longest_latency_ms),
            self.steps,
        )
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(["PATH", "BANDWIDTH", "LATENCY", "PROVIDER", "ROUTE"]);
        table.add_rows(self.paths.iter().map(PathReport::row));
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if (1..3).contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }

    /// The network in DOT, links of the selection in red, its relays filled.
    pub(super) fn dot(&self, network: &Network, problem: &Problem, selection: &Selection) -> String {
        let chosen = || selection.members.iter().map(|member| &problem.pool().candidates()[*member]);
        let mut text = "digraph selection {\n".to_owned();
        let used = |arc| chosen().any(|candidate| candidate.path.arcs().contains(&arc));
        for node in network.graph().node_indices() {
            let style = if chosen().any(|one| one.relay == Some(node)) { " [style=filled]" } else { "" };
            let _infallible = writeln!(text, "  {:?}{style};", network.name(node));
        }
        for arc in network.graph().edge_indices() {
            let (from, to) = network.ends(arc);
            let (bandwidth, latency) = (network.arc(arc).bandwidth.mbps(), network.arc(arc).latency.ms());
            let color = if used(arc) { ", color=red" } else { "" };
            let _infallible = writeln!(
                text,
                "  {:?} -> {:?} [bandwidth_mbps={bandwidth}, latency_ms={latency}{color}];",
                network.name(from),
                network.name(to)
            );
        }
        text + "}\n"
    }
}

impl PathReport {
    fn new(network: &Network, candidate: &Candidate) -> Self {
        Self {
            name: candidate.name.clone(),
            bandwidth_mbps: candidate.path.bandwidth().mbps(),
            latency_ms: candidate.path.latency().ms(),
            provider: candidate.provider.clone(),
            price_per_gigabyte: candidate.price.get(),
            route: candidate.path.nodes().iter().map(|node| network.name(*node).to_owned()).collect(),
        }
    }

    fn row(&self) -> [String; 5] {
        [
            self.name.clone(),
            rate_mbps(self.bandwidth_mbps),
            duration_ms(self.latency_ms),
            self.provider.clone().unwrap_or_else(|| "-".to_owned()),
            self.route.join(" "),
        ]
    }
}

/// Of pairs; none, if there is no pair.
fn mean_disjointness(chosen: &[&Candidate], by: JointnessBy) -> Option<f64> {
    let later = |place: usize| chosen[place + 1..].iter().map(move |other| (chosen[place], other));
    let pairs = (0..chosen.len()).flat_map(later);
    let disjointness: Vec<_> = pairs.map(|(a, b)| 1.0 - a.path.jointness(&b.path, by)).collect();
    (!disjointness.is_empty()).then(|| disjointness.iter().sum::<f64>() / disjointness.len() as f64)
}
