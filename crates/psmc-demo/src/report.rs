//! What is printed at the end.

mod table;

pub(super) use table::aligned;

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::expected;
use super::network::{Cut, Links};
use super::transfer::Transfer;
use psmc_api::{PathState, PathStatus};

/// When TCP and the tunnel have found their speed, after the start of the transfer and after a link has come back.
const SETTLED: Duration = Duration::from_secs(2);

/// The share of the speed before the cut at which the tunnel counts as recovered.
const RECOVERED: f64 = 0.9;

/// The results. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds, `_s` seconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The names of the links, in the order of the lists below.
    links: Vec<&'static str>,
    /// What they are limited to, headers counted.
    shaped_mbps: Vec<u32>,
    /// What one TCP flow gets over each alone.
    links_mbps: Vec<f64>,
    best_single_mbps: f64,
    /// The sum of `links_mbps`.
    sum_mbps: f64,
    /// From the start of the calling daemon until data could flow over every path.
    set_up_ms: f64,
    /// What one TCP flow could get through the tunnel at best.
    expected_mbps: f64,
    /// What it got before the cut.
    aggregate_mbps: f64,
    /// The link that was cut.
    cut_link: &'static str,
    cut: Cut,
    /// What it could get without that link.
    expected_during_cut_mbps: f64,
    during_cut_mbps: f64,
    after_cut_mbps: f64,
    /// The longest time without a delivery before the cut.
    gap_before_ms: f64,
    /// The longest from the cut to the end.
    gap_ms: f64,
    /// From the return of the link until the speed was that of before again; absent if it never was.
    recovered_ms: Option<f64>,
    bytes: u64,
    duration_s: f64,
    paths: Vec<PathReport>,
    pub(super) hash_ok: bool,
}

#[derive(Clone, Debug, Serialize)]
struct PathReport {
    name: String,
    /// What it sent, headers of the tunnel counted, those of UDP and below not.
    bytes: u64,
    state: PathState,
}

impl Report {
    /// `alone` is what one TCP flow got over each of the links.
    pub(super) fn new(
        links: Links,
        cut: Cut,
        alone: Vec<f64>,
        set_up: Duration,
        transfer: &Transfer,
    ) -> Self {
        let deliveries = &transfer.deliveries;
        let Range { start, end: mended } = transfer.cut;
        let end = deliveries.end();
        let aggregate = deliveries.mbps(SETTLED..start);
        let recovered = deliveries.reached(aggregate * RECOVERED, mended);
        Self {
            links: links.iter().map(|link| link.name).collect(),
            shaped_mbps: links.iter().map(|link| link.mbps).collect(),
            best_single_mbps: alone.iter().copied().map(round).fold(0.0, f64::max),
            sum_mbps: round(alone.iter().sum()),
            links_mbps: alone.into_iter().map(round).collect(),
            set_up_ms: ms(set_up),
            expected_mbps: mbps(expected::goodput(links)),
            aggregate_mbps: round(aggregate),
            cut_link: links[0].name,
            cut,
            expected_during_cut_mbps: mbps(expected::goodput(&links[1..])),
            during_cut_mbps: round(deliveries.mbps(start..mended)),
            after_cut_mbps: round(deliveries.mbps(mended + SETTLED..end)),
            gap_before_ms: ms(deliveries.longest_gap(SETTLED..start)),
            gap_ms: ms(deliveries.longest_gap(start..end)),
            recovered_ms: recovered.map(ms),
            bytes: deliveries.total(),
            duration_s: round(end.as_secs_f64()),
            paths: transfer.paths.iter().map(PathReport::new).collect(),
            hash_ok: transfer.hash_ok,
        }
    }
}

impl PathReport {
    fn new(path: &PathStatus) -> Self {
        Self { name: path.name.clone(), bytes: path.tx_bytes, state: path.state }
    }
}

fn mbps(bits_per_second: u64) -> f64 {
    round(bits_per_second as f64 / 1e6)
}

pub(super) fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

/// To two decimals: no more of a measurement means anything.
pub(super) fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
