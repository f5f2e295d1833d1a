//! How exact the emulator is, and how much it carries, on this machine: `psmc-lab accuracy`.
//!
//! Probes are sent over emulated links between two namespaces, stamped by the sender and by the kernel where they arrive;
//! what they say is compared with what the link should have done. Where the emulator Rattan is on the PATH it is measured
//! in the same way, turn by turn.
//!
//! | module | what it measures |
//! |---|---|
//! | `delay` | the delay of packets, at several rates and loads |
//! | `capacity` | how many packets and bytes a second get through |
//! | `rate` | the rate of a link that is offered too much |
//! | `chance` | losses, their bursts, jitter, against theory |

mod capacity;
mod chance;
mod course;
mod delay;
mod probe;
mod rate;
mod rattan;
mod report;
mod stats;
mod stream;

use std::io;
use std::time::Duration;

use psmc_net::packet::PacketError;
use psmc_sim::link::LinkConfig;
use psmc_testbed::netns::NetnsError;
use serde::Serialize;

use crate::emulator::EmulatorError;
use course::{Contestant, Course};

pub use capacity::CapacityRow;
pub use chance::ChanceRow;
pub use delay::DelayRow;
pub use rate::RateRow;
pub use report::table;
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
    let capacity = capacity::measure(&mut bench)?;
    Ok(Accuracy {
        delay: delay::measure(&mut bench, &capacity)?,
        rate: rate::measure(&mut bench)?,
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
