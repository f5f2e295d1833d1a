//! What a stream has measured, and the result that it makes.

use std::time::Duration;

use super::{Deliveries, Latencies, Tally, percent};
use crate::results::TrafficResult;
use crate::scenario::Traffic;

/// What a stream has measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What arrived.
    pub deliveries: Deliveries,
    /// What of that which was sent arrived.
    pub tally: Tally,
    /// How long it took.
    pub latencies: Latencies,
    /// How many arrived after a later one, where that is looked at.
    pub reordered: Option<u64>,
}

impl Measured {
    /// The result of a stream that ended at `end`, with an error if it should not have.
    #[must_use]
    pub fn into_result(self, traffic: &Traffic, end: Duration, error: Option<String>) -> TrafficResult {
        let Self { mut deliveries, tally, latencies, reordered } = self;
        deliveries.stop(end);
        TrafficResult {
            name: traffic.name.clone(),
            kind: traffic.kind.name().to_owned(),
            bytes: deliveries.bytes(),
            goodput_mbps: deliveries.goodput_mbps(end),
            goodput_series_mbps: deliveries.goodput_series_mbps(end),
            longest_gap_ms: deliveries.longest_gap_ms(),
            gap_series_ms: deliveries.gap_series_ms(end),
            sent: tally.loss_percent().map(|_| tally.total_sent()),
            loss_percent: tally.loss_percent(),
            loss_series_percent: tally.loss_series_percent(),
            reordered_percent: reordered.map(|count| percent(count, tally.total_arrived())),
            latency: latencies.distribution(),
            error,
        }
    }
}
