//! One measurement: a flow on a profile, by one of the ways that data can go.

use clap::ValueEnum;
use psmc_lab::headers;
use psmc_lab::results::{Results, TrafficResult};

use super::profile::{Path, Profile};

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

/// What carries the inner flow from one site to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Path A by itself, without any tunnel.
    PathA,
    /// Path B by itself, without any tunnel.
    PathB,
    /// MPTCP sockets (RFC 8684) with a subflow on either path.
    Mptcp,
    /// The tunnel over both paths.
    Psmc,
}

/// What PSMC is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Each path by itself, without any tunnel
    Direct,
    /// MPTCP sockets on the same links
    Mptcp,
}

/// The inner flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Inner {
    /// TCP with CUBIC
    Cubic,
    /// TCP with BBR
    Bbr,
    /// QUIC with CUBIC
    Quic,
}

impl Peer {
    /// Everybody there is.
    pub(crate) const ALL: [Self; 2] = [Self::Direct, Self::Mptcp];

    /// What must be measured for it.
    pub(crate) fn ways(self) -> &'static [Way] {
        match self {
            Self::Direct => &[Way::PathA, Way::PathB],
            Self::Mptcp => &[Way::Mptcp],
        }
    }
}

impl Way {
    /// Whether such a flow can go this way: MPTCP carries TCP only.
    pub(crate) fn carries(self, inner: Inner) -> bool {
        self != Self::Mptcp || inner != Inner::Quic
    }

    /// Which of the two paths it uses.
    pub(super) fn paths(self) -> &'static [usize] {
        match self {
            Self::PathA => &[0],
            Self::PathB => &[1],
            Self::Mptcp | Self::Psmc => &[0, 1],
        }
    }

    /// In the names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PathA => "path-a",
            Self::PathB => "path-b",
            Self::Mptcp => "mptcp",
            Self::Psmc => "psmc",
        }
    }
}

impl Inner {
    /// Every kind there is.
    pub(crate) const ALL: [Self; 3] = [Self::Cubic, Self::Bbr, Self::Quic];

    /// As `--inner` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Quic => "quic",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Cubic => "TCP with CUBIC",
            Self::Bbr => "TCP with BBR",
            Self::Quic => "QUIC with CUBIC",
        }
    }

    /// Bytes of headers in each of its full-size packets, from IPv4's on: TCP's; QUIC's with UDP's, a connection
    /// id of 8 bytes, the head of a STREAM frame and the tag, some of which vary by a few bytes.
    pub(super) fn headers(self) -> u32 {
        match self {
            Self::Cubic | Self::Bbr => headers::TCP,
            Self::Quic => headers::UDP + 12 + 8 + 16,
        }
    }

    /// Its settings, as a scenario takes them.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Cubic => "kind = \"tcp\"\ncongestion_control = \"cubic\"\n",
            Self::Bbr => "kind = \"tcp\"\ncongestion_control = \"bbr\"\n",
            Self::Quic => "kind = \"quic\"\ncongestion_control = \"cubic\"\n",
        }
    }
}
