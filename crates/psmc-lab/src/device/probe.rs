//! The profiler: streams of packets through a device that lies between ports of this machine, and what is inferred of what becomes
//! of them ([`psmc_sim::profiler`]).
//!
//! | module | what it has |
//! |---|---|
//! | `lane` | a port, and how packets find their way from one to another through the device |
//! | `frame` | the packets |
//! | `trial` | streams that are sent, with what the kernel's stamps say of each packet |
//! | `calibration` | what this machine adds to delays |
//! | `journal` | what was measured so far, for whoever was interrupted |
//! | `found` | the profile of it |
//! | `shown` | what was seen, as a table and plots |
//!
//! Nothing is configured: packets are sent and seen by packet sockets, which are gone with the process.

mod calibration;
mod found;
mod frame;
mod journal;
mod lane;
mod shown;
mod trial;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use psmc_net::packet::{CardError, PacketError};
use psmc_sim::profiler::{Phase, Plan, ProfileConfigError, Profiler, ProfilerError, Trial};
use psmc_testbed::netns::NetnsError;
use serde::{Deserialize, Serialize};

use super::DeviceProfile;
use crate::report::ReportError;
use journal::{Header, Journal};
use lane::Lanes;

pub use calibration::{Calibration, NOISE, Noise};
pub use shown::{plots, table};

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// The interfaces that lead to the device's ports, at least two.
    pub ports: Vec<String>,
    /// The device's address at each of them, if it is a router, and they are not the first ones of their networks.
    pub gateways: Vec<Ipv4Addr>,
    /// Bits per second of a port; what the drivers say if `None`.
    pub rate: Option<u64>,
    /// Bytes on the line besides an IP packet.
    pub framing: usize,
    /// Lengths of packets, from the IP header on, growing.
    pub sizes: Vec<usize>,
    /// What the device is called.
    pub name: String,
    /// Where what was measured is kept until all is.
    pub journal: Option<PathBuf>,
    /// What the machine adds, if that was measured before; it is measured on virtual Ethernet otherwise.
    pub calibration: Option<Calibration>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The profile.
    pub profile: DeviceProfile,
    /// What was seen of each trial.
    pub trials: Vec<Row>,
    /// What the machine adds.
    pub calibration: Calibration,
}

/// What was seen of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it was for: `delay`, `rate`, `servers` or `queue`.
    pub phase: String,
    /// Bytes of a packet, from the IP header on.
    pub bytes: usize,
    /// Packets a second that entered, by all ports.
    pub offered: f64,
    /// Packets a second that left, by all ports.
    pub delivered: f64,
    /// The share that was lost.
    pub loss: f64,
    /// Delays in microseconds without what the machine adds: the least, the median and the 95th percentile.
    pub delay_us: [f64; 3],
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Fewer than two ports, or one twice.
    #[error("name two different ports or more, such as --ports eth1,eth2")]
    Ports,
    /// A port can't be asked about.
    #[error(transparent)]
    Card(#[from] CardError),
    /// A port can't be used.
    #[error(transparent)]
    Packets(#[from] PacketError),
    /// There is no namespace to calibrate in.
    #[error("cannot measure what this machine adds")]
    Calibration(#[from] NetnsError),
    /// A port is down, or nothing is at its other end.
    #[error("{0} is down, or nothing is at its other end: `ip link set {0} up`, and look at the cable")]
    Down(String),
    /// Nobody says how fast a port is.
    #[error("the driver of {0} does not say how fast it is: add --rate, such as --rate 100mbit")]
    NoRate(String),
    /// A packet is longer than a port takes.
    #[error("{port} takes packets of up to {mtu} bytes, not of {bytes}: leave the longer --sizes out")]
    Mtu {
        /// The port.
        port: String,
        /// What it takes.
        mtu: usize,
        /// What was asked for.
        bytes: usize,
    },
    /// Some ports have addresses, and others have not.
    #[error(
        "{0} has no IPv4 address, and other ports have one: give each an address in a network of its own if the device is a router, and none an address if it is a switch"
    )]
    Addresses(String),
    /// Two ports are in one network, so that a router would not forward between them.
    #[error("{0} and {1} have addresses of one network: a router passes nothing on between them")]
    OneNetwork(String, String),
    /// As many gateways as ports are needed.
    #[error("give an address of the device for each of the {ports} ports, and not {gateways}")]
    Gateways {
        /// Ports.
        ports: usize,
        /// Gateways.
        gateways: usize,
    },
    /// The device doesn't answer ARP.
    #[error("nobody at {port} has the address {gateway}: name the device's addresses by --gateways")]
    Unanswered {
        /// The port.
        port: String,
        /// The address.
        gateway: Ipv4Addr,
    },
    /// Packets arrive twice.
    #[error(
        "{0} packets arrived twice or more often: the device duplicates packets, or they go round in a loop"
    )]
    Duplicates(usize),
    /// Packets come back.
    #[error(
        "{0} packets came back by the port that had sent them: the device does not forward, or there is a loop"
    )]
    Loops(usize),
    /// Packets arrive at ports that they are not for.
    #[error("{0} packets arrived at ports that they were not for: the device floods, as a hub does")]
    Strays(usize),
    /// The order is not kept, which the model does.
    #[error("{percent:.1} % of packets arrived behind later ones: the model of a router keeps their order")]
    Reordered {
        /// How many.
        percent: f64,
    },
    /// The ports did not take what was sent.
    #[error(
        "{refused} of {sent} packets could not be sent by {port}: is it up, and is its queue long enough?"
    )]
    Refused {
        /// The port.
        port: String,
        /// Packets that were not.
        refused: usize,
        /// Packets that should have been.
        sent: usize,
    },
    /// The machine could not look at all packets.
    #[error(
        "{0} packets were not seen because this machine was too busy: stop other programs, or measure at a lower --rate"
    )]
    Overrun(u32),
    /// The device is none that the model has parameters for.
    #[error("{}", advice(.0))]
    Device(ProfilerError),
    /// What was found makes no profile.
    #[error("what was measured makes no profile")]
    Profile(#[from] ProfileConfigError),
    /// The journal can't be used.
    #[error("cannot use {}, which keeps what was measured so far", path.display())]
    Journal {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A result can't be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl From<ProfilerError> for ProbeError {
    fn from(error: ProfilerError) -> Self {
        Self::Device(error)
    }
}

/// What went wrong, and what to do about it.
fn advice(error: &ProfilerError) -> String {
    let remedy = match error {
        ProfilerError::NothingPasses { .. } => {
            "does the device forward between these ports, and has it their addresses as neighbours?"
        }
        ProfilerError::TooFast { .. } => "say by --rate how fast its ports are",
        ProfilerError::PortsDiffer { .. } => "measure ports of one kind, two at a time",
        ProfilerError::Plan | ProfilerError::Outcome { .. } => "check --sizes and --rate",
    };
    format!("{error}; {remedy}")
}

/// Lengths that are measured with unless others are asked for: those of the publication, less 18 bytes of Ethernet.
pub const SIZES: [usize; 5] = [46, 182, 582, 982, 1482];

/// Measures a device, and tells `say` how far it is.
///
/// # Errors
/// [`ProbeError`]. What was measured until then is in the journal, if there is one.
pub fn probe(options: &ProbeOptions, say: &mut dyn FnMut(&str)) -> Result<Probed, ProbeError> {
    let cards = lane::cards(&options.ports, &options.sizes)?;
    let rate = lane::rate(&cards, options.rate)?;
    let plan = Plan { ports: cards.len(), rate, framing: options.framing, sizes: options.sizes.clone() };
    let mut profiler = Profiler::new(plan.clone())?;
    let calibration = match &options.calibration {
        Some(calibration) => calibration.clone(),
        None => {
            say("measuring what this machine adds");
            calibration::on_virtual_ethernet(&options.sizes)?
        }
    };
    say(&calibration.summary());
    let mut lanes = Lanes::open(cards, &options.gateways)?;
    lanes.warm_up()?;
    let mut journal = Journal::open(options.journal.as_deref(), &Header::of(options, rate, &calibration))?;
    let mut rows = Vec::new();
    let mut remarks = trial::Remarks::default();
    while let Some(trial) = profiler.poll_trial() {
        let Some((phase, number, all)) = profiler.phase() else { break };
        say(&format!("[{number}/{all}] {}", in_words(phase, &trial)));
        let seen = match journal.next(&trial) {
            Some(seen) => seen,
            None => journal.keep(&trial, trial::run(&trial, &mut lanes)?)?,
        };
        seen.check(&trial)?;
        remarks.note(&seen);
        let outcome = calibration.corrected(&trial, &seen);
        rows.push(Row::of(phase, &trial, &outcome));
        profiler.handle_outcome(&outcome)?;
    }
    let profile = profiler.profile().ok_or(ProfilerError::Plan)?;
    let profile = found::profile(options, &profile, &calibration, &remarks);
    profile.config(profile.port_count())?;
    journal.remove();
    Ok(Probed { profile, trials: rows, calibration })
}

/// Measures what this machine adds from the first of these ports to the second, which a cable joins. If they have addresses,
/// something that forwards at once is between them.
///
/// # Errors
/// [`ProbeError`].
pub fn calibrate(
    ports: &[String],
    gateways: &[Ipv4Addr],
    sizes: &[usize],
    say: &mut dyn FnMut(&str),
) -> Result<Calibration, ProbeError> {
    let cards = lane::cards(ports, sizes)?;
    say("measuring what this machine adds, with cables in the place of the device");
    let mut lanes = Lanes::open(cards, gateways)?;
    calibration::between(&mut lanes, sizes, "cables")
}

fn in_words(phase: Phase, trial: &Trial) -> String {
    let len = trial.streams.first().map_or(0, |stream| stream.len);
    let ports = trial.streams.first().map_or([0; 2], |stream| [stream.input + 1, stream.output + 1]);
    let packets: u32 = trial.streams.iter().map(|stream| stream.packets).sum();
    match phase {
        Phase::Delay => format!("delay of {len} bytes from port {} to {}", ports[0], ports[1]),
        Phase::Rate => format!("what a port transmits, {packets} packets of {len} bytes"),
        Phase::Servers => format!("how many are served at once, {packets} packets of {len} bytes"),
        Phase::Queue => format!("how many a queue holds, {packets} packets of {len} bytes"),
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
