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
        let idle = if self.way.is_tunnel() { IDLE_SECONDS } else { 0 };
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
        let pings = if self.way.is_tunnel() {
            let (idle, loaded) = (latency("idle")?, latency("loaded")?);
            Some(Pings { idle_ms: idle.p50_ms, p50_ms: loaded.p50_ms, p99_ms: loaded.p99_ms })
        } else {
            None
        };
        Some(Outcome { goodput_mbps: stream("flow")?.goodput_mbps, pings })
    }

    fn tunnel(&self) -> String {
        let settings = match self.way {
            Way::PathA | Way::PathB | Way::Mptcp => return String::new(),
            Way::Psmc => "",
            Way::Split => "settings = { tcp = \"split\" }\n",
        };
        format!(
            "[[tunnel]]\nname = \"{TUNNEL}\"\nbetween = [\"van\", \"hq\"]\npaths = [\"{}\", \"{}\"]\n{settings}\n",
            LINKS[0], LINKS[1]
        )
    }

    fn flow(&self, start: u32, stop: u32) -> String {
        let (via, multipath) = match self.way {
            Way::PathA | Way::PathB => (LINKS[self.way.paths()[0]], ""),
            Way::Mptcp => (LINKS[0], "multipath = true\n"),
            Way::Psmc | Way::Split => (TUNNEL, ""),
        };
        let settings = self.inner.settings(self.profile);
        traffic("flow", via, start, stop) + &settings + multipath
    }

    fn pings(&self, idle: u32, end: u32) -> String {
        let all = [("idle", 0, idle), ("loaded", idle, end)];
        let sections = all.iter().filter(|_| self.way.is_tunnel()).map(|&(name, start, stop)| {
            let traffic = traffic(name, TUNNEL, start, stop);
            format!("\n{traffic}{PING}")
        });
        sections.collect()
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

/// The most that fits into the tunnel, whose datagrams then fill the packets of ordinary links.
const UDP_PAYLOAD: u32 = headers::PACKET - headers::TUNNEL - headers::UDP;

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
    /// The same, whose sites end TCP.
    Split,
}

/// What PSMC is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Each path by itself, without any tunnel
    Direct,
    /// MPTCP sockets on the same links
    Mptcp,
    /// The tunnel when its sites end TCP; how much of UDP that is shows with `--inner udp`
    Split,
}

/// The inner flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Inner {
    /// TCP with CUBIC
    Cubic,
    /// TCP with BBR
    Bbr,
    /// TCP with Reno
    Reno,
    /// QUIC with CUBIC
    Quic,
    /// UDP as fast as both links, which needs nobody's window
    Udp,
}

impl Peer {
    /// Everybody there is.
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Mptcp, Self::Split];

    /// What must be measured for it.
    pub(crate) fn ways(self) -> &'static [Way] {
        match self {
            Self::Direct => &[Way::PathA, Way::PathB],
            Self::Mptcp => &[Way::Mptcp],
            Self::Split => &[Way::Split],
        }
    }
}

impl Way {
    /// Whether such a flow can go this way: MPTCP is for TCP only, as are sites that end it.
    pub(crate) fn carries(self, inner: Inner) -> bool {
        !matches!(self, Self::Mptcp | Self::Split) || inner.is_tcp()
    }

    /// Whether it is a tunnel, through which pings go as well.
    fn is_tunnel(self) -> bool {
        matches!(self, Self::Psmc | Self::Split)
    }

    /// Which of the two paths it uses.
    pub(super) fn paths(self) -> &'static [usize] {
        match self {
            Self::PathA => &[0],
            Self::PathB => &[1],
            Self::Mptcp | Self::Psmc | Self::Split => &[0, 1],
        }
    }

    /// In the names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PathA => "path-a",
            Self::PathB => "path-b",
            Self::Mptcp => "mptcp",
            Self::Psmc => "psmc",
            Self::Split => "split",
        }
    }
}

impl Inner {
    /// Every kind there is.
    pub(crate) const ALL: [Self; 5] = [Self::Cubic, Self::Bbr, Self::Reno, Self::Quic, Self::Udp];

    /// As `--inner` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Reno => "reno",
            Self::Quic => "quic",
            Self::Udp => "udp",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Cubic => "TCP with CUBIC",
            Self::Bbr => "TCP with BBR",
            Self::Reno => "TCP with Reno",
            Self::Quic => "QUIC with CUBIC",
            Self::Udp => "UDP as fast as the links",
        }
    }

    fn is_tcp(self) -> bool {
        !matches!(self, Self::Quic | Self::Udp)
    }

    /// Bytes of headers in each of its full-size packets, from IPv4's on: TCP's; QUIC's with UDP's, a connection
    /// id of 8 bytes, the head of a STREAM frame and the tag, some of which vary by a few bytes.
    pub(super) fn headers(self) -> u32 {
        match self {
            Self::Cubic | Self::Bbr | Self::Reno => headers::TCP,
            Self::Udp => headers::UDP,
            Self::Quic => headers::UDP + 12 + 8 + 16,
        }
    }

    /// Its settings, as a scenario takes them.
    pub(super) fn settings(self, profile: Profile) -> String {
        match self {
            Self::Cubic | Self::Bbr | Self::Reno => {
                format!("kind = \"tcp\"\ncongestion_control = \"{}\"\n", self.name())
            }
            Self::Quic => "kind = \"quic\"\ncongestion_control = \"cubic\"\n".to_owned(),
            Self::Udp => {
                let mbps: u32 = profile.paths.iter().map(|path| path.mbps).sum();
                format!("kind = \"udp\"\nrate = \"{mbps}mbit\"\npayload = {UDP_PAYLOAD}\n")
            }
        }
    }
}
