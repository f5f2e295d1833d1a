//! A link to measure, and who emulates it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::packet::{ETHERNET_HEADER, PacketPort};
use psmc_sim::link::LinkConfig;
use psmc_testbed::netns::Namespace;

use super::AccuracyError;
use super::rattan::{self, Rattan};
use super::stream::{Ends, Outcome, Stream};
use crate::emulator::{Emulator, Plan};
use crate::scenario::LinkId;

/// The longest frame that is sent.
pub(super) const MAX_FRAME: usize = ETHERNET_HEADER + 1500;

/// Who emulates.
#[derive(Clone, Debug)]
pub(super) enum Contestant {
    /// The lab.
    Lab,
    /// Rattan, the program at this path.
    Rattan(PathBuf),
}

/// A link between two namespaces, of which one direction is measured.
pub(super) struct Course {
    ends: Ends,
    emulation: Emulation,
}

/// Who emulates it, for as long as this lives.
enum Emulation {
    Lab { emulator: Emulator, _hosts: [Namespace; 2] },
    Rattan(Rattan),
}

impl Contestant {
    /// The lab, and whoever else is on the PATH.
    pub(super) fn all() -> Vec<Self> {
        [Self::Lab].into_iter().chain(rattan::find().map(Self::Rattan)).collect()
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Lab => "psmc-lab",
            Self::Rattan(_) => "rattan",
        }
    }

    /// Whether it is the one that has promised something.
    pub(super) fn is_lab(&self) -> bool {
        matches!(self, Self::Lab)
    }

    /// Sets up a link whose first direction is like `config`.
    pub(super) fn lay(&self, config: &LinkConfig) -> Result<Course, AccuracyError> {
        match self {
            Self::Lab => lay_lab(config),
            Self::Rattan(program) => {
                let (rattan, ends) = Rattan::start(program, config)?;
                Ok(Course { ends, emulation: Emulation::Rattan(rattan) })
            }
        }
    }
}

impl Course {
    /// Sends a stream over the link. Says also what share of a processor its emulation took meanwhile.
    pub(super) fn run(&mut self, stream: Stream) -> (Outcome, f64) {
        let (before, start) = (self.emulation.processor_time(), std::time::Instant::now());
        let outcome = stream.run(&mut self.ends);
        let used = self.emulation.processor_time().saturating_sub(before);
        (outcome, used.as_secs_f64() / start.elapsed().as_secs_f64())
    }

    /// What the emulator says of itself.
    pub(super) fn warnings(&self) -> Vec<String> {
        match &self.emulation {
            Emulation::Lab { emulator, .. } => emulator.health(LinkId(0)).warnings(),
            Emulation::Rattan(_) => Vec::new(),
        }
    }
}

impl Emulation {
    /// The time of processors used so far.
    fn processor_time(&self) -> Duration {
        match self {
            Self::Lab { .. } => processor_time(Path::new("/proc/self"), |name| name == "lab-emulator"),
            Self::Rattan(rattan) => {
                processor_time(&Path::new("/proc").join(rattan.id().to_string()), |_| true)
            }
        }
    }
}

fn lay_lab(config: &LinkConfig) -> Result<Course, AccuracyError> {
    let hosts = [quiet_host()?, quiet_host()?];
    let mut builder = Emulator::builder()?;
    builder.link(Plan {
        ends: [(&hosts[0], "wire"), (&hosts[1], "wire")],
        directions: [config.clone(), config.clone()],
        seeds: [1, 2],
        captures: None,
    })?;
    let emulator = builder.start()?;
    let open = |host: &Namespace| host.run(|| PacketPort::open("wire", MAX_FRAME));
    let ends = Ends { sender: open(&hosts[0])?, receiver: open(&hosts[1])? };
    Ok(Course { ends, emulation: Emulation::Lab { emulator, _hosts: hosts } })
}

fn quiet_host() -> Result<Namespace, AccuracyError> {
    let host = Namespace::new()?;
    host.disable_ipv6()?;
    Ok(host)
}

/// What the threads of a process have used whose names are wanted. A thread that ends meanwhile has used nothing.
fn processor_time(process: &Path, wanted: impl Fn(&str) -> bool) -> Duration {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let wanted = threads
        .map(|thread| thread.path())
        .filter(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|name| wanted(name.trim_end())));
    wanted.filter_map(|thread| run_time(&thread)).sum()
}

/// The first number of `schedstat` is the time on a processor, in nanoseconds.
fn run_time(thread: &Path) -> Option<Duration> {
    let numbers = fs::read_to_string(thread.join("schedstat")).ok()?;
    numbers.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
