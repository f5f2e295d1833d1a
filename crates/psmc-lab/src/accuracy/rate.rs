//! How exact the rate of a link is that is offered too much, and how much gets through one that limits nothing.

use std::time::Duration;

use psmc_sim::link::{LinkConfig, Rate};
use serde::Serialize;

use super::course::{Contestant, Course};
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

pub(super) fn measure_rate(bench: &mut Bench<'_>) -> Result<Vec<RateRow>, AccuracyError> {
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

/// Lengths of packets, and what the lab promises of them: 2 Gbit/s of the longest, 400,000 a second of short ones.
const CASES: [(usize, f64); 2] = [(1500, 2e9 / (1500.0 * 8.0)), (64, 400_000.0)];

/// What may be lost of what counts as carried: a stall of the machine, not a lack of power.
const TOLERATED_LOSS: f64 = 0.001;

/// Where the search begins, in packets a second: what any emulator carries.
const START: f64 = 20_000.0;

/// How much more is tried while all goes well.
const GROWTH: f64 = 1.4;

/// How often the interval between what went well and what did not is halved.
const HALVINGS: usize = 3;

/// How often each rate is tried: the machine may have been busy otherwise.
const TRIES: usize = 2;

/// How much of a rate a try must send to count as one of that rate.
const SENDABLE: f64 = 0.95;

/// How much gets through.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityRow {
    /// Who emulated.
    pub emulator: &'static str,
    /// Bytes of a packet, from the IP header on.
    pub length: usize,
    /// Packets a second.
    pub packets_per_second: f64,
    /// The same in bits, from the IP header on.
    pub mbps: f64,
    /// The share of a processor that the emulation took, in percent.
    pub processor_percent: f64,
    /// Whether it is more than the lab promises.
    pub ok: Option<bool>,
}

pub(super) fn measure_capacity(bench: &mut Bench<'_>) -> Result<Vec<CapacityRow>, AccuracyError> {
    let config = LinkConfig { delay: Duration::from_millis(1), ..LinkConfig::default() };
    let mut rows = Vec::new();
    for (length, promise) in CASES {
        let what = format!("capacity with packets of {length} bytes");
        rows.extend(bench.each(&what, &config, |course, who, duration| {
            let best = search(|rate| attempt(course, Stream::lasting(duration / 2, rate, length)));
            row(who, length, promise, best)
        })?);
    }
    // To be overloaded is the point of it.
    bench.warnings.clear();
    Ok(rows)
}

/// A rate that was carried, and the share of a processor it took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Carried {
    packets_per_second: f64,
    processor: f64,
}

fn row(who: &Contestant, length: usize, promise: f64, best: Option<Carried>) -> CapacityRow {
    let Carried { packets_per_second, processor } =
        best.unwrap_or(Carried { packets_per_second: 0.0, processor: 0.0 });
    CapacityRow {
        emulator: who.name(),
        length,
        packets_per_second,
        mbps: packets_per_second * (length * 8) as f64 / 1e6,
        processor_percent: processor * 100.0,
        ok: who.is_lab().then_some(packets_per_second >= promise),
    }
}

/// The largest rate, in packets a second, at which `attempt` carries everything.
fn search(mut attempt: impl FnMut(f64) -> Option<Carried>) -> Option<Carried> {
    let mut best = None;
    let (mut good, mut bad) = (0.0, START);
    while let Some(carried) = attempt(bad) {
        best = Some(carried);
        (good, bad) = (bad, bad * GROWTH);
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(good, bad);
        match attempt(middle) {
            Some(carried) => (best, good) = (Some(carried), middle),
            None => bad = middle,
        }
    }
    best
}

/// `None` if more than a little was lost, or so much cannot even be sent.
fn attempt(course: &mut Course, stream: Stream) -> Option<Carried> {
    let wanted = 1.0 / stream.gap.as_secs_f64();
    (0..TRIES).find_map(|_| {
        let (outcome, processor) = course.run(stream);
        let packets_per_second = outcome.sending_rate();
        let carried = outcome.loss() <= TOLERATED_LOSS && packets_per_second >= wanted * SENDABLE;
        carried.then_some(Carried { packets_per_second, processor })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_comes_close_to_the_limit() {
        for limit in [3000.0, 20_000.0, 123_456.0, 2e6] {
            let carried = |rate| Carried { packets_per_second: rate, processor: 1.0 };
            let best = search(|rate| (rate <= limit).then(|| carried(rate))).expect("something is carried");
            assert!((limit * 0.8..=limit).contains(&best.packets_per_second), "{limit}: {best:?}");
        }
    }

    #[test]
    fn what_carries_nothing_has_no_capacity() {
        assert_eq!(search(|_| None), None);
    }
}
