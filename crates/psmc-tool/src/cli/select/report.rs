//! What `psmc select` prints.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use psmc_select::{Bandwidth, Network};
use serde::Serialize;

use super::plan::{Change, Plan, Planned};
use psmc_service::units::{duration_ms, rate_mbps};

/// A plan for programs.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    bandwidth_mbps: f64,
    most_mbps: f64,
    longest_latency_ms: f64,
    mean_disjointness: Option<f64>,
    /// What was maximised: the first number decides, then the second, then the third; and what nothing surpasses.
    score: Option<[f64; 3]>,
    bound: Option<[f64; 3]>,
    proven_optimal: bool,
    gap_percent: Option<f64>,
    steps: u64,
    candidates: Option<usize>,
    unreachable: &'a [String],
    change: Option<&'a Change>,
    paths: Vec<PathReport>,
}

#[derive(Debug, Serialize)]
struct PathReport {
    name: String,
    bandwidth_mbps: f64,
    /// Of a maximum flow, what goes along this path.
    carries_mbps: Option<f64>,
    latency_ms: f64,
    provider: Option<String>,
    price_per_gigabyte: f64,
    route: Vec<String>,
}

impl<'a> Report<'a> {
    pub(super) fn new(network: &Network, plan: &'a Plan, steps: u64) -> Self {
        Self {
            bandwidth_mbps: plan.bandwidth.mbps(),
            most_mbps: plan.most.mbps(),
            longest_latency_ms: plan.longest_latency_ms(),
            mean_disjointness: plan.mean_disjointness(),
            score: plan.proof.score,
            bound: plan.proof.bound,
            proven_optimal: plan.proof.proven,
            gap_percent: plan.proof.gap.map(|gap| gap * 100.0),
            steps,
            candidates: plan.candidates,
            unreachable: &plan.unreachable,
            change: plan.change.as_ref(),
            paths: plan.paths.iter().map(|planned| PathReport::new(network, planned)).collect(),
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\n", self.figures(), self.proof(), self.table());
        let mut list = |title: &str, names: &[String]| {
            if !names.is_empty() {
                text += &format!("{title}: {}\n", names.join(", "));
            }
        };
        if let Some(change) = self.change {
            list("add", &change.add);
            list("remove", &change.remove);
        }
        list("out of reach", self.unreachable);
        if self.change.is_some_and(|change| change.add.is_empty() && change.remove.is_empty()) {
            text += "keep what runs\n";
        }
        text
    }

    fn figures(&self) -> String {
        let of = self.candidates.map(|candidates| format!(" of {candidates} candidates")).unwrap_or_default();
        let paths = if self.paths.len() == 1 && self.candidates.is_none() { " path" } else { " paths" };
        let disjoint = self.mean_disjointness.map(|mean| format!(", disjointness {mean:.2}"));
        format!(
            "{}{}: {} of at most {}, longest latency {}{}",
            self.paths.len(),
            if of.is_empty() { paths } else { &of },
            rate_mbps(self.bandwidth_mbps),
            rate_mbps(self.most_mbps),
            duration_ms(self.longest_latency_ms),
            disjoint.unwrap_or_default(),
        )
    }

    fn proof(&self) -> String {
        let proof = match (self.proven_optimal, self.gap_percent) {
            (true, _) => "proven to be optimal".to_owned(),
            (false, Some(gap)) => format!("at most {gap:.1} % below the optimum"),
            (false, None) => "not proven to be optimal".to_owned(),
        };
        let running = if self.change.is_some() { "the best selection is " } else { "" };
        format!("{running}{proof} after {} steps\n", self.steps)
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
}

impl PathReport {
    fn new(network: &Network, planned: &Planned) -> Self {
        Self {
            name: planned.name.clone(),
            bandwidth_mbps: planned.path.bandwidth().mbps(),
            carries_mbps: planned.carries.map(Bandwidth::mbps),
            latency_ms: planned.path.latency().ms(),
            provider: planned.provider.clone(),
            price_per_gigabyte: planned.price,
            route: planned.path.nodes().iter().map(|node| network.name(*node).to_owned()).collect(),
        }
    }

    fn row(&self) -> [String; 5] {
        [
            self.name.clone(),
            rate_mbps(self.carries_mbps.unwrap_or(self.bandwidth_mbps)),
            duration_ms(self.latency_ms),
            self.provider.clone().unwrap_or_else(|| "-".to_owned()),
            self.route.join(" "),
        ]
    }
}

/// The network in DOT, which can be read again: links of the plan in red, its relays filled.
pub(super) fn dot(network: &Network, plan: &Plan) -> String {
    let mut text = "digraph selection {\n".to_owned();
    for node in network.graph().node_indices() {
        let role = match node {
            end if end == network.source() => "source",
            end if end == network.destination() => "destination",
            relay if network.graph()[relay].relay => "relay",
            _ => "router",
        };
        let chosen = plan.paths.iter().any(|planned| planned.relay == Some(node));
        let style = if chosen { ", style=filled" } else { "" };
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "  {:?} [role={role}{style}];", network.name(node));
    }
    for id in network.graph().edge_indices() {
        let (ends, arc) = (network.ends(id), network.arc(id));
        let used = plan.paths.iter().any(|planned| planned.path.arcs().contains(&id));
        let color = if used { ", color=red" } else { "" };
        let (from, to) = (network.name(ends.0), network.name(ends.1));
        let (bandwidth, latency) = (arc.bandwidth.mbps(), arc.latency.ms());
        let _infallible =
            writeln!(text, "  {from:?} -> {to:?} [bandwidth_mbps={bandwidth}, latency_ms={latency}{color}];");
    }
    text + "}\n"
}
