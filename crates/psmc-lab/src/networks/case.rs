//! What is run for a network, and what is made of it.

use super::drive::Traces;
use super::network::rounded;
use super::record::Entry;
use super::{Flow, Inner};
use crate::bench::Runner;
use crate::headers;
use crate::results::{Results, TrafficResult};

/// A network, and the scenarios that say how it does.
pub(super) struct Case {
    /// The seed of the network, or the window of a record.
    pub(super) number: u32,
    /// The network in a line.
    pub(super) spec: String,
    /// What all links carry together, headers included and losses left out.
    pub(super) sum_mbps: f64,
    /// The round trip of the nearest link.
    pub(super) nearest_ms: f64,
    pub(super) trials: Vec<Trial>,
    /// What the scenarios read.
    pub(super) _traces: Option<Traces>,
}

/// A scenario.
pub(super) struct Trial {
    pub(super) way: Way,
    /// For progress and for the names of files.
    pub(super) name: String,
    pub(super) scenario: String,
}

/// What carries the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The tunnel over all links.
    Tunnel,
    /// The same, with a flood in the place of the flow.
    Flood,
    /// A link by itself, without a tunnel.
    Alone,
    /// A link that has the rates of all of them, without a tunnel.
    One,
}

/// The scenario of a network for which links and all that happens to them are written.
pub(super) fn scenario(name: &str, seed: u32, sections: &str, way: Way, flow: Traffic) -> String {
    let head = format!(
        "[scenario]\nname = \"{name}\"\nseed = {seed}\nduration = \"{}s\"\n\n",
        flow.seconds + LEAD_SECONDS + TAIL_SECONDS
    );
    let flow = if way == Way::Flood { Traffic { flow: Flow::Flood, ..flow } } else { flow };
    let (tunnel, via) = match way {
        Way::Tunnel | Way::Flood => (flow.flow.tunnel(), "via = \"vpn\"\n"),
        Way::Alone | Way::One => (String::new(), ""),
    };
    head + sections + &tunnel + &flow.sections(via)
}

/// The flow of a scenario, and pings beside it.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    pub(super) flow: Flow,
    pub(super) seconds: u32,
    /// Of a flood, with headers that are not those of the tunnel's packets: it overfills the links by as much.
    pub(super) flood_mbps: f64,
}

impl Traffic {
    fn sections(&self, via: &str) -> String {
        let kind = match self.flow {
            Flow::Tcp(inner) | Flow::Split(inner) => {
                format!("kind = \"tcp\"\ncongestion_control = \"{}\"\n", inner.name())
            }
            Flow::Flood => {
                format!("kind = \"udp\"\nrate = \"{:.3}mbit\"\npayload = {FLOOD_PAYLOAD}\n", self.flood_mbps)
            }
        };
        let stop = LEAD_SECONDS + self.seconds;
        format!(
            "[[traffic]]\nname = \"{DOWNLOAD}\"\n{kind}from = \"hq\"\nto = \"van\"\n{via}\
             start = \"{LEAD_SECONDS}s\"\nstop = \"{stop}s\"\n\n\
             [[traffic]]\nname = \"{PING}\"\nkind = \"ping\"\nfrom = \"van\"\nto = \"hq\"\n{via}interval = \"50ms\"\n"
        )
    }
}

impl Flow {
    /// As records have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp(inner) | Self::Split(inner) => inner.name(),
            Self::Flood => "flood",
        }
    }

    /// Whether the sites end it.
    pub(super) fn is_split(self) -> bool {
        matches!(self, Self::Split(_))
    }

    /// The tunnel that carries it.
    fn tunnel(self) -> String {
        let settings = if self.is_split() { "settings = { tcp = \"split\" }\n" } else { "" };
        format!("[[tunnel]]\nname = \"vpn\"\nbetween = [\"van\", \"hq\"]\n{settings}\n")
    }

    /// The part of a full-size packet below the tunnel that is payload of the flow.
    pub(super) fn payload_share(self) -> f64 {
        match self {
            Self::Tcp(_) => f64::from(TCP_PAYLOAD - headers::TUNNEL) / f64::from(headers::PACKET),
            Self::Split(_) => f64::from(headers::PACKET - headers::STREAM) / f64::from(headers::PACKET),
            Self::Flood => {
                let packet = FLOOD_PAYLOAD + headers::UDP + headers::TUNNEL;
                f64::from(FLOOD_PAYLOAD) / f64::from(packet)
            }
        }
    }
}

impl Inner {
    /// As a scenario has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// The part of what TCP gets without a tunnel that the tunnel's headers leave.
pub(super) fn share_inside() -> f64 {
    f64::from(TCP_PAYLOAD - headers::TUNNEL) / f64::from(TCP_PAYLOAD)
}

impl Case {
    /// Runs its scenarios; `None` if one of them has no results.
    pub(super) fn measure(&self, flow: Flow, runner: &mut dyn Runner) -> Option<Entry> {
        // Each is run, so that all of them are shown if that is what the user wants.
        let results: Vec<_> =
            self.trials.iter().map(|trial| (trial.way, runner.run(&trial.name, &trial.scenario))).collect();
        let goodputs = |way| {
            let of_way = results.iter().filter(move |(other, _)| *other == way);
            of_way.map(|(_, results)| goodput_mbps(results.as_ref()?)).collect::<Option<Vec<_>>>()
        };
        let best = |way| Some(goodputs(way)?.into_iter().reduce(f64::max));
        let (_, tunnel) = results.iter().find(|(way, _)| *way == Way::Tunnel)?;
        let pings = stream(tunnel.as_ref()?, PING)?.latency.as_ref();
        Some(Entry {
            seed: self.number,
            spec: self.spec.clone(),
            goodput_mbps: written(best(Way::Tunnel)??),
            alone_mbps: best(Way::Alone)?.map(written),
            one_mbps: best(Way::One)?.map(written),
            flood_mbps: best(Way::Flood)?.map(written),
            sum_mbps: written(self.sum_mbps * flow.payload_share()),
            nearest_ms: self.nearest_ms,
            ping_p50_ms: pings.map(|pings| written(pings.p50_ms)),
            ping_p99_ms: pings.map(|pings| written(pings.p99_ms)),
            ping_max_ms: pings.map(|pings| written(pings.max_ms)),
        })
    }
}

/// As far as it means anything, so that what is read again is the same.
fn written(figure: f64) -> f64 {
    rounded(figure, 4)
}

fn goodput_mbps(results: &Results) -> Option<f64> {
    Some(stream(results, DOWNLOAD)?.goodput_mbps)
}

fn stream<'a>(results: &'a Results, name: &str) -> Option<&'a TrafficResult> {
    results.traffic.iter().find(|stream| stream.name == name)
}

const DOWNLOAD: &str = "download";
const PING: &str = "ping";

/// In which the tunnel comes up, and pings see the network as it is without the flow.
const LEAD_SECONDS: u32 = 1;

/// In which queues drain.
const TAIL_SECONDS: u32 = 1;

/// Of a full-size packet without a tunnel.
const TCP_PAYLOAD: u32 = headers::PACKET - headers::TCP;

/// As much as fits into the tunnel whose MTU is the default one, but for a few bytes.
const FLOOD_PAYLOAD: u32 = 1350;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_counted() {
        assert_eq!(Flow::Tcp(Inner::Cubic).payload_share(), 1381.0 / 1500.0);
        assert_eq!(Flow::Split(Inner::Cubic).payload_share(), 1431.0 / 1500.0);
        assert_eq!(Flow::Flood.payload_share(), 1350.0 / 1445.0);
        assert_eq!(share_inside(), 1381.0 / 1448.0);
    }
}
