//! One measurement: a flow on a profile, by one way.

use super::profile::{Path, Profile};
use super::way::{Inner, Way};
use psmc_lab::results::{Results, TrafficResult};

/// What is measured once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    pub(crate) profile: Profile,
    pub(crate) inner: Inner,
    pub(crate) way: Way,
    /// Runs differ in their chance; the ways of the same run have the same.
    pub(crate) run: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Payload of the flow, from its start to its end.
    pub(crate) goodput_mbps: f64,
    /// Only through the tunnel.
    pub(crate) pings: Option<Pings>,
}

/// Round trips through the tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pings {
    /// The median before there is any load.
    pub(crate) idle_ms: f64,
    /// The median beside the flow.
    pub(crate) p50_ms: f64,
    /// The 99th percentile beside the flow.
    pub(crate) p99_ms: f64,
}

impl Trial {
    /// For progress and for the names of files.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}-{}-{}", self.profile.name, self.inner.name(), self.way.name(), self.run)
    }

    /// The scenario, as a file would hold it.
    pub(crate) fn scenario(&self, seconds: u32) -> String {
        let idle = if self.way == Way::Psmc { IDLE_SECONDS } else { 0 };
        let end = idle + seconds;
        let paths = self.way.paths();
        let links: String = paths.iter().map(|&path| link(LINKS[path], self.profile.paths[path])).collect();
        let head = format!(
            "[scenario]\nname = \"{}\"\nduration = \"{end}s\"\nseed = {}\n\n",
            self.name(),
            self.run,
        );
        head + &links + &self.tunnel() + &self.flow(idle, end) + &self.pings(idle, end)
    }

    /// Reads what was measured; `None` if something is missing, which cannot be if the scenario ran to its end.
    pub(crate) fn outcome(&self, results: &Results) -> Option<Outcome> {
        let stream = |name: &str| results.traffic.iter().find(|stream| stream.name == name);
        let latency = |name: &str| stream(name).and_then(|stream: &TrafficResult| stream.latency.as_ref());
        let pings = match self.way {
            Way::Psmc => Some(Pings {
                idle_ms: latency("idle")?.p50_ms,
                p50_ms: latency("loaded")?.p50_ms,
                p99_ms: latency("loaded")?.p99_ms,
            }),
            Way::PathA | Way::PathB | Way::Mptcp => None,
        };
        Some(Outcome { goodput_mbps: stream("flow")?.goodput_mbps, pings })
    }

    fn tunnel(&self) -> String {
        match self.way {
            Way::Psmc => format!(
                "[[tunnel]]\nname = \"{TUNNEL}\"\nbetween = [\"van\", \"hq\"]\npaths = [\"{}\", \"{}\"]\n\n",
                LINKS[0], LINKS[1]
            ),
            Way::PathA | Way::PathB | Way::Mptcp => String::new(),
        }
    }

    fn flow(&self, start: u32, stop: u32) -> String {
        let (via, multipath) = match self.way {
            Way::PathA | Way::PathB => (LINKS[self.way.paths()[0]], ""),
            Way::Mptcp => (LINKS[0], "multipath = true\n"),
            Way::Psmc => (TUNNEL, ""),
        };
        let settings = self.inner.settings();
        traffic("flow", via, start, stop) + settings + multipath
    }

    fn pings(&self, idle: u32, end: u32) -> String {
        match self.way {
            Way::Psmc => [("idle", 0, idle), ("loaded", idle, end)]
                .map(|(name, start, stop)| format!("\n{}{PING}", traffic(name, TUNNEL, start, stop)))
                .concat(),
            Way::PathA | Way::PathB | Way::Mptcp => String::new(),
        }
    }
}

fn link(name: &str, path: Path) -> String {
    format!("[[link]]\nname = \"{name}\"\nbetween = [\"van\", \"hq\"]\n{}\n", path.link_settings())
}

fn traffic(name: &str, via: &str, start: u32, stop: u32) -> String {
    format!(
        "[[traffic]]\nname = \"{name}\"\nfrom = \"van\"\nto = \"hq\"\nvia = \"{via}\"\n\
         start = \"{start}s\"\nstop = \"{stop}s\"\n"
    )
}

/// A hundred pings suffice for a median, even with jitter.
const IDLE_SECONDS: u32 = 2;

/// Often enough that a second gives a 99th percentile a meaning within a run of some seconds, and little enough traffic
/// (34 kbit/s) to change nothing.
const PING: &str = "kind = \"ping\"\ninterval = \"20ms\"\n";

const LINKS: [&str; 2] = ["a", "b"];
const TUNNEL: &str = "psmc";
