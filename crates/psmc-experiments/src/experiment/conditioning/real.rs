//! Flows that heed no drops, and those that do, on real packets: the daemons at both ends of tunnels, in namespaces.

use psmc_lab::results::{Results, Sample, SiteResult};

use crate::experiment::bed::{Span, goodput, raised, throughput};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "qos-fig-10-real",
        what: "what TCP gets beside UDP that is dropped further on, on real packets",
        seed: "QoS figure 10: at a bottleneck of 1 Mb/s TCP gets 5 Mb/s of a link of 10 without control, and 8 with it; ns-2",
        how: "real time; 10 flows of TCP (CUBIC) to one far site and UDP of 5 Mb/s in one flow to another share a link of 10 Mb/s; behind it the \
              way of UDP is 1 Mb/s wide. Queues drop their tail, 64 packets; round trips 24 and 30 ms. Without a tunnel, with one to each \
              far site, and with `[unresponsive]` there. 20 s after 20 s; rates of inner packets, with headers",
        criterion: "with control TCP has 8.7 of 9 Mb/s and UDP 0.95 of 1, and the limit is within a tenth of 1 Mb/s after 3 rounds of 200 ms",
        runs: 3,
        measure: figure_10,
    },
    Experiment {
        name: "qos-fig-11-real",
        what: "the same in three domains with cross traffic, on real packets",
        seed: "QoS figure 11, whose points are not printed: F1 (TCP) does not reach its 5 Mb/s without control, and more than that with it; cross \
               traffic keeps its rate; ns-2",
        how: "real time; three links of 10 Mb/s in a row, over which F1, 10 flows of TCP (CUBIC), goes to one far site, and F2, UDP of 5 Mb/s in \
              one flow, to another, which is behind 1 Mb/s; 2 Mb/s of UDP outside the tunnels over each of the three, from 10, 15 and 20 s on. \
              Queues and variants as in qos-fig-10-real; round trips 46 and 52 ms. 20 s after 25 s",
        criterion: "with control F1 has more than 5 Mb/s, and cross traffic at least 98 % of 2 Mb/s",
        runs: 3,
        measure: figure_11,
    },
    Experiment {
        name: "unresponsive-rrul",
        what: "whether anybody is held down who heeds losses, on real packets",
        seed: "none; the load is that of flent's test rrul, with the congestion controls that there are",
        how: "real time; `mode = \"police\"` at both sites; in each direction four connections of TCP (CUBIC twice, Reno, BBR), two of QUIC (CUBIC \
              and BBR, by quinn) and a video call of at most 5 Mb/s that follows reports of losses (GCC, once a second); pings. Queues drop \
              their tail. 10 min",
        criterion: "nobody is held down, and no packet held back",
        runs: 1,
        measure: rrul,
    },
];

/// How long the streams of figures 10 and 11 run before they count, and how long they do, in seconds.
const SETTLING: u32 = 20;
const COUNTED: u32 = 20;

/// Bits per second of inner packets: what the shared link carries, and what is behind it for UDP.
const FAST: u64 = 10_000_000;
const NARROW: u64 = 1_000_000;

/// Bytes of payload of full-size packets in the tunnel, and what they are with headers.
const PAYLOAD: u64 = 1372;
const PACKET: u64 = 1400;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    NoTunnel,
    NoControl,
    Ours,
}

impl Variant {
    const ALL: [Self; 3] = [Self::NoTunnel, Self::NoControl, Self::Ours];

    fn name(self) -> &'static str {
        match self {
            Self::NoTunnel => "no tunnel",
            Self::NoControl => "no control",
            Self::Ours => "our control",
        }
    }

    /// The rate of a link over which packets inside get so much.
    fn link(self, bits: u64) -> u64 {
        if self == Self::NoTunnel { bits } else { raised(bits) }
    }

    /// A tunnel between a sender and one of its receivers, if there is one.
    fn tunnel(self, from: &str, to: &str) -> String {
        let mode = match self {
            Self::NoTunnel => return String::new(),
            Self::NoControl => "off",
            Self::Ours => "police",
        };
        format!(
            "[[tunnel]]\nname = \"to-{to}\"\nbetween = [\"{from}\", \"{to}\"]\nsettings = {{ unresponsive = \"{mode}\" }}\n\n"
        )
    }
}

/// A link with the queue of all of these experiments.
fn link(name: &str, [from, to]: [&str; 2], rate: u64, delay_ms: u32) -> String {
    format!(
        "[[link]]\nname = \"{name}\"\nbetween = [\"{from}\", \"{to}\"]\nrate = \"{rate}bit\"\ndelay = \"{delay_ms}ms\"\n\
         queue = \"64 packets\"\n\n"
    )
}

/// Full-size packets at this rate, with headers.
fn udp(name: &str, [from, to]: [&str; 2], rate: u64, start: u32, more: &str) -> String {
    let rate = rate * PAYLOAD / PACKET;
    format!(
        "[[traffic]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"{from}\"\nto = \"{to}\"\nstart = \"{start}s\"\n\
         rate = \"{rate}bit\"\npayload = {PAYLOAD}\n{more}\n"
    )
}

fn tcp(name: &str, [from, to]: [&str; 2]) -> String {
    format!(
        "[[traffic]]\nname = \"{name}\"\nkind = \"tcp\"\nflows = 10\nfrom = \"{from}\"\nto = \"{to}\"\n\n"
    )
}

fn figure_10(setup: &mut Setup<'_>) -> Vec<Row> {
    let counted = setup.seconds(COUNTED);
    let end = SETTLING + counted;
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        let labels = ["TCP", "UDP", SETTLED];
        if !setup.wants_any(variant.name(), labels) {
            continue;
        }
        let (fast, narrow) = (variant.link(FAST), variant.link(NARROW));
        let scenario = format!("duration = \"{end}s\"\nsample = \"{SAMPLE_MS}ms\"\n\n")
            + &link("shared", ["n", "c"], fast, 6)
            + &link("wide", ["c", "n3"], 10 * FAST, 6)
            + &link("narrow", ["c", "n4"], narrow, 9)
            + &variant.tunnel("n", "n3")
            + &variant.tunnel("n", "n4")
            + &tcp("tcp", ["n", "n3"])
            + &udp("udp", ["n", "n4"], FAST / 2, 0, "");
        let name = format!("fig-10-{}", variant.name().replace(' ', "-"));
        let results = setup.run(&name, &scenario);
        let span = Span(f64::from(SETTLING), f64::from(end));
        let rate = |stream| results.as_ref().and_then(|results| throughput(results, stream, span));
        let figure = |label, unit, value| Figure::new(format!("{}, {label}", variant.name()), unit, value);
        let [tcp, udp] =
            [("TCP", "tcp"), ("UDP", "udp")].map(|(label, stream)| figure(label, "Mb/s", rate(stream)));
        if variant == Variant::Ours {
            let rounds = results.as_ref().and_then(settled);
            rows.extend([tcp.seed(8.0).at_least(8.7), udp.at_least(0.95)]);
            rows.push(figure(SETTLED, "rounds", rounds).at_most(3.0));
        } else {
            let seed = (variant == Variant::NoTunnel).then_some(5.0);
            rows.extend([tcp.seed(seed).shown(), udp.shown()]);
        }
    }
    rows
}

const SETTLED: &str = "rounds until the limit is at the bottleneck's rate";

/// How often limits are looked at, and the shortest round of who sets them, in ms.
const SAMPLE_MS: u32 = 50;
const ROUND_MS: u32 = 200;

/// Rounds from the first limit until one that is within a tenth of what the bottleneck carries.
fn settled(results: &Results) -> Option<f64> {
    let site = results.sites.iter().find(|site| site.tunnel == "to-n4" && site.host == "n")?;
    let first = site.limit_series_mbps.first()?;
    let near = |sample: &&Sample| (0.9..=1.1).contains(&(sample.value * 1e6 / NARROW as f64));
    let last = site.limit_series_mbps.iter().find(near)?;
    Some(((last.at_s - first.at_s) * 1e3 / f64::from(ROUND_MS)).ceil())
}

fn figure_11(setup: &mut Setup<'_>) -> Vec<Row> {
    let counted = setup.seconds(COUNTED);
    let settling = SETTLING + 5;
    let end = settling + counted;
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        if !setup.wants_any(variant.name(), STREAMS_11.map(|(label, _)| label)) {
            continue;
        }
        let fast = variant.link(FAST);
        let domains = [("b1", ["r1", "r2"]), ("b2", ["r2", "r3"]), ("b3", ["r3", "r4"])];
        let mut scenario = format!("duration = \"{end}s\"\n\n") + &link("in", ["n", "r1"], 10 * FAST, 2);
        for (name, ends) in domains {
            scenario += &link(name, ends, fast, 5);
        }
        scenario += &link("wide", ["r4", "n8"], 10 * FAST, 6);
        scenario += &link("narrow", ["r4", "n9"], variant.link(NARROW), 9);
        scenario += &(variant.tunnel("n", "n8") + &variant.tunnel("n", "n9"));
        scenario += &(tcp("f1", ["n", "n8"]) + &udp("f2", ["n", "n9"], FAST / 2, 0, ""));
        for ((number, start), (link, ends)) in (1..).zip([10, 15, 20]).zip(domains) {
            let via = format!("via = \"{link}\"\n");
            scenario += &udp(&format!("cr{number}"), ends, CROSS, start, &via);
        }
        let name = format!("fig-11-{}", variant.name().replace(' ', "-"));
        let results = setup.run(&name, &scenario);
        let span = Span(f64::from(settling), f64::from(end));
        for (label, stream) in STREAMS_11 {
            let rate = results.as_ref().and_then(|results| throughput(results, stream, span));
            let figure = Figure::new(format!("{}, {label}", variant.name()), "Mb/s", rate);
            rows.push(match (variant, stream) {
                (Variant::Ours, "f1") => figure.at_least(5.0),
                (Variant::Ours, "cr1" | "cr2" | "cr3") => figure.at_least(0.98 * CROSS as f64 / 1e6),
                (Variant::Ours | Variant::NoControl | Variant::NoTunnel, _) => figure.shown(),
            });
        }
    }
    rows
}

const STREAMS_11: [(&str, &str); 5] =
    [("F1 (TCP)", "f1"), ("F2 (UDP)", "f2"), ("Cr1", "cr1"), ("Cr2", "cr2"), ("Cr3", "cr3")];

/// Bits per second of the cross traffic of each domain, with headers.
const CROSS: u64 = 2_000_000;

/// A network for `unresponsive-rrul`: its name, and its links as rates, delays of a direction, and packets of queues, which are a round
/// trip long if that is `None`.
struct Network {
    name: &'static str,
    links: &'static [(u32, u32, Option<u32>)],
}

const NETWORKS: [Network; 3] = [
    Network { name: "20 Mb/s, 20 ms", links: &[(20, 10, None)] },
    Network { name: "10 and 30 Mb/s, 50 ms", links: &[(10, 25, None), (30, 25, None)] },
    Network { name: "5 Mb/s, 100 ms, queue of 15 packets", links: &[(5, 50, Some(15))] },
];

/// What is sent in each direction: what it is called, and its keys.
const STREAMS: [(&str, &str); 6] = [
    ("tcp-cubic", "kind = \"tcp\"\nflows = 2"),
    ("tcp-reno", "kind = \"tcp\"\ncongestion_control = \"reno\""),
    ("tcp-bbr", "kind = \"tcp\"\ncongestion_control = \"bbr\""),
    ("quic-cubic", "kind = \"quic\""),
    ("quic-bbr", "kind = \"quic\"\ncongestion_control = \"bbr\""),
    ("video", "kind = \"udp\"\nrate = \"5mbit\"\npayload = 1100\nadaptive = true"),
];

const DIRECTIONS: [(&str, [&str; 2]); 2] = [("up", ["van", "hq"]), ("down", ["hq", "van"])];

fn rrul(setup: &mut Setup<'_>) -> Vec<Row> {
    let seconds = setup.seconds(600);
    let mut rows = Vec::new();
    for (number, network) in (1..).zip(&NETWORKS) {
        if !setup.wants(network.name) {
            continue;
        }
        let results = setup.run(&format!("rrul-{number}"), &network.scenario(seconds));
        rows.extend(network.rows(results.as_ref(), Span(0.0, f64::from(seconds))));
    }
    rows
}

impl Network {
    fn scenario(&self, seconds: u32) -> String {
        let mut text = format!("duration = \"{seconds}s\"\nsample = \"1s\"\n\n");
        for (number, (rate, delay, queue)) in (1..).zip(self.links) {
            let queue = queue.map_or_else(String::new, |packets| format!("queue = \"{packets} packets\"\n"));
            text += &format!(
                "[[link]]\nname = \"link{number}\"\nbetween = [\"van\", \"hq\"]\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\n{queue}\n"
            );
        }
        text += "[[tunnel]]\nname = \"tunnel\"\nbetween = [\"van\", \"hq\"]\nsettings = { unresponsive = \"police\" }\n\n";
        for (direction, [from, to]) in DIRECTIONS {
            for (name, keys) in STREAMS {
                text += &format!(
                    "[[traffic]]\nname = \"{name}-{direction}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}\n\n"
                );
            }
        }
        text + "[[traffic]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"van\"\nto = \"hq\"\n\n"
    }

    fn rows(&self, results: Option<&Results>, span: Span) -> Vec<Row> {
        let mut rows = Vec::new();
        for (direction, [from, _]) in DIRECTIONS {
            let site = results.and_then(|results| results.sites.iter().find(|site| site.host == from));
            let figure = |what: &str, unit, value| {
                Figure::new(format!("{}, {direction}: {what}", self.name), unit, value)
            };
            let count = |of: fn(&SiteResult) -> Option<&u64>| site.and_then(of).map(|count| *count as f64);
            let limits = count(|site| site.unresponsive.get("limits"));
            rows.push(figure("held down", "times", limits).at_most(0.0));
            let back = count(|site| site.drops.get("unresponsive"));
            rows.push(figure("held back", "packets", back).at_most(0.0));
            rows.push(
                figure("dropped by the queue", "packets", count(|site| site.drops.get("queue"))).shown(),
            );
            for (name, _) in STREAMS {
                let rate = results.and_then(|results| goodput(results, &format!("{name}-{direction}"), span));
                rows.push(figure(name, "Mb/s", rate).shown());
            }
        }
        let ping = results.and_then(|results| results.traffic.iter().find(|traffic| traffic.name == "ping"));
        let median = ping.and_then(|ping| ping.latency.as_ref()).map(|latency| latency.p50_ms);
        rows.push(Figure::new(format!("{}, ping, median", self.name), "ms", median).shown());
        rows
    }
}
