//! How exact the emulator is, and how much it carries, on this machine: `psmc-lab accuracy`.
//!
//! Probes are sent over emulated links between two namespaces, stamped by the sender and by the kernel where they arrive;
//! what they say is compared with what the link should have done. Where the emulator Rattan is on the PATH it is measured
//! in the same way, turn by turn.
//!
//! | module | what it measures |
//! |---|---|
//! | `delay` | the delay of packets, at several rates and loads |
//! | `rate` | the rate of a link that is offered too much, and how many packets and bytes a second get through |
//! | `chance` | losses, their bursts, jitter, against theory |

mod chance;
mod course;
mod delay;
mod rate;
mod rattan;
mod stats;
mod stream;

use std::io;
use std::time::Duration;

use psmc_net::packet::PacketError;
use psmc_sim::link::LinkConfig;
use psmc_testbed::netns::NetnsError;
use serde::Serialize;

use self::course::{Contestant, Course};
use crate::emulator::EmulatorError;
use crate::report::grid::{Cell, Grid};

pub use chance::ChanceRow;
pub use delay::DelayRow;
pub use rate::{CapacityRow, RateRow};
pub use stats::Estimate;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum AccuracyError {
    /// The emulator could not be started.
    #[error("cannot emulate a link")]
    Emulator(#[from] EmulatorError),
    /// There are no hosts for its ends.
    #[error("cannot make the hosts of a link")]
    Hosts(#[from] NetnsError),
    /// No probes can be sent.
    #[error("cannot send and receive probes")]
    Probes(#[from] PacketError),
    /// Rattan is on the PATH but does not start.
    #[error("cannot start rattan, or find what it made")]
    Rattan(#[source] io::Error),
    /// Rattan has started but does not run the command that says which instance it is.
    #[error("rattan ends without running its command: does `rattan link -- true` work?")]
    RattanSilent,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// The delay of packets.
    pub delay: Vec<DelayRow>,
    /// How much gets through.
    pub capacity: Vec<CapacityRow>,
    /// The rates of links.
    pub rate: Vec<RateRow>,
    /// What happens by chance.
    pub chance: Vec<ChanceRow>,
    /// What the emulator says of itself.
    pub warnings: Vec<String>,
}

/// Measures everything, each thing for about `duration`, and tells `note` what comes next.
///
/// # Errors
/// [`AccuracyError`]; what is measured badly is none.
pub fn measure(duration: Duration, note: &mut dyn FnMut(&str)) -> Result<Accuracy, AccuracyError> {
    let mut bench = Bench { contestants: Contestant::all(), duration, note, warnings: Vec::new() };
    let capacity = rate::measure_capacity(&mut bench)?;
    Ok(Accuracy {
        delay: delay::measure(&mut bench, &capacity)?,
        rate: rate::measure_rate(&mut bench)?,
        chance: chance::measure(&mut bench)?,
        warnings: bench.warnings,
        capacity,
    })
}

impl Accuracy {
    /// Whether the lab keeps what it promises.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let good = self.delay.iter().map(|row| row.ok).chain(self.capacity.iter().map(|row| row.ok));
        let good = good.chain(self.rate.iter().map(|row| row.ok));
        good.chain(self.chance.iter().map(|row| row.ok)).flatten().all(|ok| ok)
    }
}

/// What the measurements share.
struct Bench<'a> {
    contestants: Vec<Contestant>,
    duration: Duration,
    note: &'a mut dyn FnMut(&str),
    warnings: Vec<String>,
}

impl Bench<'_> {
    /// Measures each contestant in turn on a link like `config`.
    fn each<T>(
        &mut self,
        what: &str,
        config: &LinkConfig,
        measure: impl Fn(&mut Course, &Contestant, Duration) -> T,
    ) -> Result<Vec<T>, AccuracyError> {
        let mut rows = Vec::new();
        for contestant in &self.contestants {
            (self.note)(&format!("{}: {what}", contestant.name()));
            let mut course = contestant.lay(config)?;
            rows.push(measure(&mut course, contestant, self.duration));
            self.warnings.extend(course.warnings().iter().map(|warning| format!("{what}: {warning}")));
        }
        Ok(rows)
    }
}

/// A table of each kind of measurement, and what they mean.
#[must_use]
pub fn table(accuracy: &Accuracy) -> String {
    let tables = [
        "How much later packets arrive than they should:\n\n".to_owned(),
        Grid::new(&DELAY).with_rows(accuracy.delay.iter().map(delay)).text(),
        "\nWhat gets through, with less than one packet in a thousand lost:\n\n".to_owned(),
        Grid::new(&CAPACITY).with_rows(accuracy.capacity.iter().map(capacity)).text(),
        "\nThe rate of a link that is offered more:\n\n".to_owned(),
        Grid::new(&RATE).with_rows(accuracy.rate.iter().map(rate)).text(),
        "\nRandom effects, with 99 % confidence intervals:\n\n".to_owned(),
        Grid::new(&CHANCE).with_rows(accuracy.chance.iter().map(chance)).text(),
        accuracy.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect(),
    ];
    tables.concat()
}

const DELAY: [&str; 11] = [
    "emulator",
    "delay (ms)",
    "rate (Mbit/s)",
    "load (%)",
    "packets/s",
    "lost (%)",
    "p50 (µs)",
    "p99 (µs)",
    "max (µs)",
    "cpu (%)",
    "ok",
];

fn delay(row: &DelayRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::fixed(row.delay_ms, 0),
        row.rate_mbps.map_or(Cell::Absent, Cell::count),
        Cell::fixed(row.load_percent, 1),
        Cell::fixed(row.packets_per_second, 0),
        Cell::fixed(row.lost_percent, 2),
        Cell::fixed(row.p50_us, 1),
        Cell::fixed(row.p99_us, 1),
        Cell::fixed(row.max_us, 1),
        Cell::fixed(row.processor_percent, 0),
        verdict(row.ok),
    ]
}

const CAPACITY: [&str; 6] = ["emulator", "length (bytes)", "kpackets/s", "rate (Mbit/s)", "cpu (%)", "ok"];

fn capacity(row: &CapacityRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::count(row.length),
        Cell::fixed(row.packets_per_second / 1e3, 0),
        Cell::fixed(row.mbps, 0),
        Cell::fixed(row.processor_percent, 0),
        verdict(row.ok),
    ]
}

const RATE: [&str; 5] = ["emulator", "rate (Mbit/s)", "measured (Mbit/s)", "error (%)", "ok"];

fn rate(row: &RateRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::count(row.rate_mbps),
        Cell::fixed(row.measured_mbps, 4),
        Cell::fixed(row.error_percent, 3),
        verdict(row.ok),
    ]
}

const CHANCE: [&str; 8] = ["emulator", "what", "theory", "measured", "from", "to", "packets", "ok"];

fn chance(row: &ChanceRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::text(row.what),
        Cell::fixed(row.theory, 3),
        Cell::fixed(row.estimate.measured, 3),
        Cell::fixed(row.estimate.low, 3),
        Cell::fixed(row.estimate.high, 3),
        Cell::count(row.packets),
        verdict(row.ok),
    ]
}

/// Nothing about those of whom nothing was promised.
fn verdict(ok: Option<bool>) -> Cell {
    ok.map_or(Cell::Absent, |ok| Cell::text(if ok { "yes" } else { "no" }))
}
