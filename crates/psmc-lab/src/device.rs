//! Profiles of devices: what the [model of a router](psmc_sim::router) takes to be like one that was measured, as TOML files.
//!
//! | module | what it has |
//! |---|---|
//! | `draft` | what a file says, with all its checks |
//! | `text` | a profile as a file |
//! | [`probe`] | the profiler: packets through a device, and what is inferred of what becomes of them |
//! | [`replay`] | captured packets, and whether the device did to them what its profile says |

mod draft;
pub mod probe;
pub mod replay;
mod text;

use std::path::Path;
use std::time::Duration;

use psmc_sim::link::Discipline;
use psmc_sim::profiler::{Estimate, ProfileConfigError, Shared, SizeProfile};
use psmc_sim::router::{Amount, CpuConfig, PortConfig, RouterConfig, Table};
use psmc_toml::{ConfigError, Dialect, Source, choice};
use toml::de::DeTable;

/// The version of the files that are written and read.
pub const VERSION: u32 = 1;

/// What a device is like.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProfile {
    /// For people.
    pub name: String,
    /// Where the numbers are from.
    pub provenance: Provenance,
    /// Its ports, at least one; whatever else it has is like the last one.
    pub ports: Vec<DevicePort>,
    /// What packets take, by length; lengths grow, and there is one at least.
    pub sizes: Vec<DeviceSize>,
    /// The processor that every packet needs first, if there is one.
    pub cpu: Option<CpuConfig>,
}

/// Where the numbers of a profile are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// How they were come by, unless a number says otherwise.
    pub confidence: Confidence,
    /// By what, or of which publication.
    pub source: String,
    /// When, as RFC 3339 writes it.
    pub made: Option<String>,
    /// What the machine that measured adds to a delay, which was subtracted: the least, and at the 95th percentile.
    pub machine: Option<[Duration; 2]>,
    /// What else is to be known of them, in whole sentences.
    pub remarks: Vec<String>,
}

choice! {
    /// How much a number is worth.
    pub enum Confidence: "confidence", such as "measured" {
        /// It was measured, and lies within its bounds.
        Measured = "measured",
        /// It was measured to be as much or more: what was needed to see its bound could not be sent.
        AtLeast = "at-least",
        /// It was measured by a machine whose own noise is as large as a tenth of it.
        Doubtful = "doubtful",
        /// It was not measured.
        Estimated = "estimated",
    }
}

/// A number, between what it most likely is, and how much it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The number and its bounds.
    pub estimate: Estimate,
    /// What it is worth.
    pub confidence: Confidence,
}

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePort {
    /// How many there are like this one.
    pub count: usize,
    /// Bits per second, framing included.
    pub rate: u64,
    /// Bytes that it transmits besides a packet.
    pub framing: usize,
    /// How long its queue is, as a multiple of what [`DeviceSize::queued`] says.
    pub queue: f64,
    /// What the queue drops before it is full.
    pub discipline: Discipline,
    /// How much longer packets take by this port.
    pub extra: Duration,
}

/// What is known of packets of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSize {
    /// Its bytes, from the IP header on.
    pub bytes: usize,
    /// Seconds that one is served, transmission not included (`DelayTbl`).
    pub delay: Figure,
    /// How many are served at once (M / `ServReq`).
    pub served: Figure,
    /// How many the queue of a port holds (Q / `QueueReq`).
    pub queued: Figure,
}

impl DeviceProfile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Source::read(&DIALECT, path)?.check(draft::read)
    }

    /// Checks a text; `path` is what complaints call it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Source::new(&DIALECT, path, text).check(draft::read)
    }

    /// Whether a file is meant to be a profile, right or wrong.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        let has_sizes = |root: &DeTable<'_>| root.contains_key("size") || root.contains_key("provenance");
        Source::read(&DIALECT, path).is_ok_and(|source| source.look(has_sizes).unwrap_or(false))
    }

    /// A line for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let lengths = self.sizes.iter().map(|size| size.bytes.to_string()).collect::<Vec<_>>().join(", ");
        let Provenance { confidence, source, .. } = &self.provenance;
        let (ports, kind) = (self.port_count(), confidence.as_str());
        format!("{}, {ports} ports, packets of {lengths} bytes; {kind}, from {source}", self.name)
    }

    /// How many ports it describes.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.iter().map(|port| port.count).sum()
    }

    /// The model of a device with so many ports: the first ones of the profile, or more that are like its last one. Servers that
    /// never were too few, of any length, never are; and a queue that never was full holds at least 1,000 packets.
    ///
    /// # Errors
    /// If the parts don't fit together, which those of a file do.
    pub fn config(&self, ports: usize) -> Result<RouterConfig, ProfileConfigError> {
        let is_served = self.sizes.iter().all(|size| size.served.confidence == Confidence::AtLeast);
        let sizes: Vec<_> = self.sizes.iter().map(|size| size.profile(is_served)).collect();
        let Shared { servers, slots, tables } = Shared::of(&sizes)?;
        let known = self.ports.iter().flat_map(|port| std::iter::repeat_n(port, port.count));
        let more = std::iter::repeat(self.ports.last()).flatten();
        let ports = known.chain(more).take(ports).map(|port| {
            let slots = Amount::new(slots.get() * port.queue);
            let slots = slots.ok_or(ProfileConfigError::Amount(port.queue))?;
            Ok(PortConfig {
                framing: port.framing,
                discipline: port.discipline,
                extra: port.extra,
                ..PortConfig::new(port.rate, slots)
            })
        });
        let ports = ports.collect::<Result<Vec<_>, ProfileConfigError>>()?;
        Ok(RouterConfig::new(ports, servers, tables, self.cpu.clone())?)
    }
}

impl DeviceSize {
    /// As the model takes it; `is_served` if packets never wait for servers.
    fn profile(&self, is_served: bool) -> SizeProfile {
        let mut served = self.served.estimate;
        if is_served {
            served.value = ENOUGH_SERVERS;
        }
        let mut queued = self.queued.estimate;
        if self.queued.confidence == Confidence::AtLeast {
            queued.value = queued.value.max(LONG_QUEUE);
        }
        SizeProfile { len: self.bytes, delay: self.delay.estimate, served, queued }
    }
}

impl DevicePort {
    /// So many ports of Ethernet like this.
    #[must_use]
    pub fn new(count: usize, rate: u64, framing: usize) -> Self {
        let discipline = Discipline::DropTail;
        Self { count, rate, framing, queue: 1.0, discipline, extra: Duration::ZERO }
    }
}

/// A processor that takes each packet so long, whatever its length.
fn cpu(time: Duration, control: Duration, ring: usize, is_shared: bool) -> CpuConfig {
    CpuConfig { time: Table::<Duration>::constant(time), control, ring, is_shared }
}

/// Packets that are served at once by servers that are never too few: more than any lines bring in the longest time of a table.
const ENOUGH_SERVERS: f64 = 1e9;

/// Packets of a queue of which it is only known that it was never full: as many as Linux has by default before an interface.
const LONG_QUEUE: f64 = 1000.0;

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a profile of a device",
    max_mib: 1,
    missing_remedy: "check the path; `psmc-lab profile` makes such files, and there are some in the directory `scenarios/devices` of PSMC",
    secret_key: None,
    section: "[provenance]",
    sections: "[[size]]",
    setting: r#"name = "box""#,
    list: r#"["it reorders"]"#,
};

#[cfg(test)]
mod tests;
