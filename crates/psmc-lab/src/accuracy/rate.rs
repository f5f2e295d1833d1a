//! How exact the rate of a link is that is offered too much.

use psmc_sim::link::{LinkConfig, Rate};
use serde::Serialize;

use super::stream::Stream;
use super::{AccuracyError, Bench};

/// Rates of links, in Mbit/s.
const RATES: [u64; 4] = [1, 10, 100, 1000];

/// What is offered, in parts of the rate: more than it carries, and no more than fills the queue once.
const OFFERED: f64 = 1.2;

/// Bytes of a packet.
const LENGTH: usize = 1500;

/// What the error may be, in percent. The first and the last packet may be late by a few milliseconds on a busy machine.
const TOLERANCE_PERCENT: f64 = 0.5;

/// The rate of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateRow {
    /// Who emulated.
    pub emulator: &'static str,
    /// The rate that the link should have, from the IP header on.
    pub rate_mbps: u64,
    /// The rate at which packets arrived.
    pub measured_mbps: f64,
    /// How much more that is, in percent.
    pub error_percent: f64,
    /// Whether the error is small.
    pub ok: Option<bool>,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<RateRow>, AccuracyError> {
    let mut rows = Vec::new();
    for rate in RATES {
        let config = LinkConfig { rate: Rate::Fixed(rate * 1_000_000), ..LinkConfig::default() };
        let packets_per_second = rate as f64 * 1e6 / (LENGTH * 8) as f64;
        rows.extend(bench.each(&format!("rate of {rate} Mbit/s"), &config, |course, who, duration| {
            let stream = Stream::lasting(duration, packets_per_second * OFFERED, LENGTH);
            let measured = course.run(stream).0.arrival_rate() / packets_per_second;
            let error_percent = (measured - 1.0) * 100.0;
            RateRow {
                emulator: who.name(),
                rate_mbps: rate,
                measured_mbps: measured * rate as f64,
                error_percent,
                ok: who.is_lab().then_some(error_percent.abs() <= TOLERANCE_PERCENT),
            }
        })?);
    }
    Ok(rows)
}
