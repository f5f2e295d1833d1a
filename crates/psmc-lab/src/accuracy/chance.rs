//! What happens by chance: losses, their bursts, and jitter, against theory.

use std::time::Duration;

use psmc_sim::link::{Jitter, LinkConfig, Loss, Probability};
use serde::Serialize;

use super::course::Contestant;
use super::stats::Estimate;
use super::stream::{Outcome, Stream, seconds_between};
use super::{AccuracyError, Bench};

/// Chances of losing a packet.
const LOSSES: [f64; 3] = [0.001, 0.01, 0.1];

/// Chances of the chain of Gilbert and Elliott to enter the bad state, where all is lost, and to leave it.
const TO_BAD: f64 = 0.01;
const TO_GOOD: f64 = 0.25;

/// Wide enough that the emulator's own errors do not count, and the delay of the link wide enough that none is cut off.
const JITTER: Duration = Duration::from_millis(5);
const DELAY: Duration = Duration::from_millis(40);

/// Packets a second, and their bytes: many packets for little work.
const PACKETS_PER_SECOND: f64 = 20_000.0;
const LENGTH: usize = 64;

/// Something that chance decides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChanceRow {
    /// Who emulated.
    pub emulator: &'static str,
    /// What it is, with its unit.
    pub what: &'static str,
    /// What theory says.
    pub theory: f64,
    /// What was measured, and how far chance may have moved it.
    pub estimate: Estimate,
    /// Of how many packets.
    pub packets: usize,
    /// Whether that may be what theory says.
    pub ok: Option<bool>,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<ChanceRow>, AccuracyError> {
    let mut rows = Vec::new();
    for loss in LOSSES {
        let config = LinkConfig { loss: Loss::Random(chance(loss)), ..LinkConfig::default() };
        rows.extend(bench.each(
            &format!("loss of {} %", loss * 100.0),
            &config,
            |course, who, duration| {
                let outcome = course.run(stream(duration)).0;
                let (lost, sent) = (lost(&outcome), outcome.sent_at.len());
                row(who, "loss (%)", loss * 100.0, percent(Estimate::of_share(lost, sent)), sent)
            },
        )?);
    }
    // Rattan has neither of these.
    bench.contestants.retain(Contestant::is_lab);
    rows.extend(bursts(bench)?);
    rows.extend(jitter(bench)?);
    Ok(rows)
}

/// A chain of two states: in the bad one it is a share p / (p + r) of the time, each time for 1 / r packets (Gilbert 1960).
fn bursts(bench: &mut Bench<'_>) -> Result<Vec<ChanceRow>, AccuracyError> {
    let loss = Loss::GilbertElliott {
        to_bad: chance(TO_BAD),
        to_good: chance(TO_GOOD),
        loss_good: Probability::ZERO,
        loss_bad: chance(1.0),
    };
    let config = LinkConfig { loss, ..LinkConfig::default() };
    let rows = bench.each("losses in bursts", &config, |course, who, duration| {
        let outcome = course.run(stream(duration)).0;
        let (lost, sent) = (lost(&outcome), outcome.sent_at.len());
        let share = Estimate::of_chained_share(lost, sent, 1.0 - TO_BAD - TO_GOOD);
        let lengths = Estimate::of_mean(&burst_lengths(&outcome.arrived()));
        [
            row(who, "loss in bursts (%)", 100.0 * TO_BAD / (TO_BAD + TO_GOOD), percent(share), sent),
            row(who, "length of a burst (packets)", 1.0 / TO_GOOD, lengths, sent),
        ]
    })?;
    Ok(rows.into_iter().flatten().collect())
}

fn jitter(bench: &mut Bench<'_>) -> Result<Vec<ChanceRow>, AccuracyError> {
    let config = LinkConfig {
        delay: DELAY,
        jitter: Jitter::Normal(JITTER),
        reordering: true,
        ..LinkConfig::default()
    };
    let rows = bench.each("normal jitter", &config, |course, who, duration| {
        let outcome = course.run(stream(duration)).0;
        let (delays, sent) = (delays_ms(&outcome), outcome.sent_at.len());
        let (mean, deviation) = (DELAY.as_secs_f64() * 1e3, JITTER.as_secs_f64() * 1e3);
        [
            row(who, "mean delay with jitter (ms)", mean, Estimate::of_mean(&delays), sent),
            row(who, "deviation of jitter (ms)", deviation, Estimate::of_deviation(&delays), sent),
        ]
    })?;
    Ok(rows.into_iter().flatten().collect())
}

fn row(who: &Contestant, what: &'static str, theory: f64, estimate: Estimate, packets: usize) -> ChanceRow {
    let ok = who.is_lab().then_some(estimate.allows(theory));
    ChanceRow { emulator: who.name(), what, theory, estimate, packets, ok }
}

fn stream(duration: Duration) -> Stream {
    Stream::lasting(duration, PACKETS_PER_SECOND, LENGTH)
}

fn chance(chance: f64) -> Probability {
    Probability::new(chance).unwrap_or(Probability::ZERO)
}

fn percent(share: Estimate) -> Estimate {
    let Estimate { measured, low, high } = share;
    Estimate { measured: measured * 100.0, low: low * 100.0, high: high * 100.0 }
}

fn lost(outcome: &Outcome) -> usize {
    outcome.sent_at.len() - outcome.arrivals.len()
}

/// How many packets in a row got lost, each time.
fn burst_lengths(arrived: &[bool]) -> Vec<f64> {
    let bursts = arrived.split(|arrived| *arrived).map(<[bool]>::len);
    bursts.filter(|length| *length > 0).map(|length| length as f64).collect()
}

fn delays_ms(outcome: &Outcome) -> Vec<f64> {
    let delay = |(number, at): &(u32, std::time::SystemTime)| {
        outcome.sent_at.get(*number as usize).map(|sent_at| seconds_between(*sent_at, *at) * 1e3)
    };
    outcome.arrivals.iter().filter_map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_from_arrival_to_arrival() {
        let arrived = [false, true, true, false, false, true, false].map(|arrived| arrived);
        assert_eq!(burst_lengths(&arrived), [1.0, 2.0, 1.0]);
        assert!(burst_lengths(&[true; 5]).is_empty());
    }
}
