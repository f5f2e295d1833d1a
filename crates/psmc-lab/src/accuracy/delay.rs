//! How exactly packets arrive when they should.

use std::time::{Duration, SystemTime};

use psmc_sim::link::{LinkConfig, Rate};
use serde::Serialize;

use super::course::{Contestant, Course};
use super::rate::CapacityRow;
use super::stats::quantile;
use super::stream::{Outcome, Stream, seconds_between};
use super::{AccuracyError, Bench};

/// What the lab promises of 99 packets in 100 below 70 % load, in microseconds.
const PROMISE_US: f64 = 100.0;

/// Bytes of a packet.
const LENGTH: usize = 1500;

/// The delay of packets at one rate and load. Errors are how much later a packet arrived than it should have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DelayRow {
    /// Who emulated.
    pub emulator: &'static str,
    /// The delay of the link.
    pub delay_ms: f64,
    /// The rate of the link, if it has one.
    pub rate_mbps: Option<u64>,
    /// What was offered, in percent of the rate, or else of what the lab carries.
    pub load_percent: f64,
    /// What was offered.
    pub packets_per_second: f64,
    /// How many arrived.
    pub packets: usize,
    /// How many did not, in percent.
    pub lost_percent: f64,
    /// The median of the errors.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The largest.
    pub max_us: f64,
    /// The share of a processor that the emulation took, in percent.
    pub processor_percent: f64,
    /// Whether the 99th percentile is what the lab promises.
    pub ok: Option<bool>,
}

/// A link and what it is offered.
struct Case {
    delay: Duration,
    /// In Mbit/s.
    rate: Option<u64>,
    packets_per_second: f64,
    load: f64,
}

/// `capacity` says how much the lab carries.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    capacity: &[CapacityRow],
) -> Result<Vec<DelayRow>, AccuracyError> {
    let most = capacity.iter().find(|row| row.emulator == Contestant::Lab.name() && row.length == LENGTH);
    let most = most.map_or(1000.0, |row| row.packets_per_second);
    let mut rows = Vec::new();
    for case in cases(most) {
        rows.extend(bench.each(&case.name(), &case.config(), |course, who, duration| {
            case.measure(course, who, duration)
        })?);
    }
    Ok(rows)
}

/// Few packets and many, without a rate; slow links and fast ones, loaded a little and much.
fn cases(capacity: f64) -> Vec<Case> {
    let free = [(0, 0.002), (1, 0.002), (50, 0.002), (10, 0.1), (10, 0.3), (10, 0.65)];
    let free = free.map(|(millis, load)| Case {
        delay: Duration::from_millis(millis),
        rate: None,
        packets_per_second: capacity * load,
        load,
    });
    let rated = [10, 100, 1000].into_iter().flat_map(|rate| [(rate, 0.3), (rate, 0.65)]);
    let rated = rated.map(|(rate, load)| Case {
        delay: Duration::from_millis(10),
        rate: Some(rate),
        packets_per_second: rate as f64 * 1e6 * load / (LENGTH * 8) as f64,
        load,
    });
    free.into_iter().chain(rated).collect()
}

impl Case {
    fn name(&self) -> String {
        let rate = self.rate.map_or("no rate".to_owned(), |rate| format!("{rate} Mbit/s"));
        format!("delay of {} ms, {rate}, load {:.0} %", self.delay.as_millis(), self.load * 100.0)
    }

    fn config(&self) -> LinkConfig {
        let rate = self.rate.map_or(Rate::Unlimited, |rate| Rate::Fixed(rate * 1_000_000));
        LinkConfig { delay: self.delay, rate, ..LinkConfig::default() }
    }

    fn measure(&self, course: &mut Course, who: &Contestant, duration: Duration) -> DelayRow {
        let (outcome, processor) = course.run(Stream::lasting(duration, self.packets_per_second, LENGTH));
        let errors = self.errors(&outcome);
        let p99_us = quantile(&errors, 0.99);
        DelayRow {
            emulator: who.name(),
            delay_ms: self.delay.as_secs_f64() * 1e3,
            rate_mbps: self.rate,
            load_percent: self.load * 100.0,
            packets_per_second: outcome.sending_rate(),
            packets: outcome.arrivals.len(),
            lost_percent: outcome.loss() * 100.0,
            p50_us: quantile(&errors, 0.5),
            p99_us,
            max_us: quantile(&errors, 1.0),
            processor_percent: processor * 100.0,
            ok: who.is_lab().then_some(!errors.is_empty() && p99_us <= PROMISE_US),
        }
    }

    /// By how many microseconds packets came late, sorted.
    fn errors(&self, outcome: &Outcome) -> Vec<f64> {
        let expected = self.expected(&outcome.sent_at);
        let late = |(number, at): &(u32, SystemTime)| {
            expected.get(*number as usize).map(|expected| seconds_between(*expected, *at) * 1e6)
        };
        let mut errors: Vec<f64> = outcome.arrivals.iter().filter_map(late).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    /// When packets that were sent at these times should arrive: each is sent when the one before was.
    fn expected(&self, sent_at: &[SystemTime]) -> Vec<SystemTime> {
        let transmission = self.rate.map_or(0.0, |rate| (LENGTH * 8) as f64 / (rate as f64 * 1e6));
        let transmission = Duration::from_secs_f64(transmission);
        let mut free_at = SystemTime::UNIX_EPOCH;
        let arrival = |sent_at: &SystemTime| {
            free_at = free_at.max(*sent_at) + transmission;
            free_at + self.delay
        };
        sent_at.iter().map(arrival).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_expected_one_after_the_other() {
        // A packet of 1500 bytes takes a millisecond.
        let case =
            Case { delay: Duration::from_millis(20), rate: Some(12), packets_per_second: 1.0, load: 0.1 };
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_secs(9) + Duration::from_micros(millis);
        let sent = [at(0), at(500), at(5000)];
        assert_eq!(case.expected(&sent), [at(21_000), at(22_000), at(26_000)]);
        let outcome = Outcome { sent_at: sent.to_vec(), arrivals: vec![(1, at(22_007)), (0, at(21_002))] };
        let errors: Vec<_> = case.errors(&outcome).iter().map(|error| error.round()).collect();
        assert_eq!(errors, [2.0, 7.0]);
    }
}
