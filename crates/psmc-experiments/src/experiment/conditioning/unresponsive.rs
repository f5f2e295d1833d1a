//! Flows that heed no drops: figures 10 and 11.

use std::time::Duration;

use psmc_core::condition::Profile;
use psmc_core::police::{PoliceConfig, PoliceMode};
use psmc_sim::{CongestionControl, Seen, TrafficId, TrafficKind, TrafficSetup};

use super::control::{Control, Policy, STEP};
use super::network::{FAST, Line, Network, Node, Queues, domains, simple};
use super::run::{PACKET, PAYLOAD, tcp};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "qos-fig-10",
        what: "what TCP gets beside UDP that is dropped further on, by the bottleneck of UDP",
        seed: "QoS figure 10: at a bottleneck of 1 Mb/s TCP gets 5 Mb/s of a link of 10 without control, and 8 with it; ns-2",
        how: "simulated; figure 8a: 10 flows of TCP from n1 to n3 and 10 of UDP from n2 to n4, 5 Mb/s together, share E1–C1, 10 Mb/s; the \
              bottleneck is C1–E3; profiles of 5 Mb/s, TSW3CM, RIO. Of what n3 and n4 receive and queues drop the edge router hears each \
              200 ms while something is dropped. The seed's control: equations 6 to 8, γ = 0.1. Control takes the flows of a host and protocol \
              together, as the seed's aggregates; by flow, the floor is 64 kb/s. TCP is Reno, and where rows say so CUBIC or BBR. 20 s after 20 s; \
              with headers",
        criterion: "at 1 Mb/s ours leaves TCP 8.7 of 9 Mb/s and UDP 0.95 of 1, and has settled after 3 reports \
                    from the first limit: no more passes than the bottleneck carries, and no less, within a tenth",
        runs: 3,
        measure: figure_10,
    },
    Experiment {
        name: "qos-fig-11",
        what: "the same in three domains with cross traffic",
        seed: "QoS figure 11, whose points are not printed: F1 (TCP) does not reach its 5 Mb/s without control, and more than that with it; cross \
               traffic keeps its rate; ns-2",
        how: "simulated; the three domains of qos-table-1 with E10–n9 at 1 Mb/s: F1, 10 flows of TCP from n1 to n8; F2, 10 of UDP from n2 to n9, \
              5 Mb/s together; 2 Mb/s of UDP from n3 to n4, from 10 s on, n5 to n6, from 15 s on, and n7 to n10, from 20 s on, in 10 flows each. \
              Control as in qos-fig-10; 20 s after 25 s; with headers",
        criterion: "F1 above 5 Mb/s with ours; cross traffic at least 98 % of 2 Mb/s",
        runs: 3,
        measure: figure_11,
    },
];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Variant {
    name: &'static str,
    policy: Option<Policy>,
    queues: Queues,
}

/// At a bottleneck of so many Mb/s.
fn variants(bottleneck: f64) -> [Variant; 6] {
    let of = |name, policy, queues| Variant { name, policy, queues };
    let aggressiveness = GAMMA * FAST as f64 / 1e6 / bottleneck;
    let config = |mode| PoliceConfig { mode, ..PoliceConfig::default() };
    let seed = Some(Policy { config: config(PoliceMode::Seed { aggressiveness }), by_flow: false });
    let ours = Some(Policy { config: config(PoliceMode::Police), by_flow: false });
    let config = PoliceConfig { floor: FLOOR, ..config(PoliceMode::Police) };
    let by_flow = Some(Policy { config, by_flow: true });
    [
        of("no control", None, Queues::Rio),
        of("the seed's control", seed, Queues::Rio),
        of(OURS, ours, Queues::Rio),
        of("ours by flow", by_flow, Queues::Rio),
        of("no control, FQ-CoDel", None, Queues::FqCoDel),
        of("our control, FQ-CoDel", ours, Queues::FqCoDel),
    ]
}

const OURS: &str = "our control";

/// Bits per second to which a flow may be held down: less than the tenth of 1 Mb/s that each of ten gets.
const FLOOR: u64 = 64_000;

/// Of equation 6.
const GAMMA: f64 = 0.1;

/// 10 flows from a host to another one.
#[derive(Clone, Copy, Debug)]
struct Stream {
    from: Node,
    to: Node,
    kind: Kind,
    start: Duration,
}

const FLOWS: u32 = 10;

/// What its flows are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp(CongestionControl),
    /// Bits per second of all of them, with headers.
    Udp(u64),
}

/// What is run, and which part of it counts.
struct Scene {
    lines: Vec<Line>,
    streams: Vec<Stream>,
    settled: Duration,
    seconds: u32,
}

/// What was seen.
struct Outcome {
    /// Mb/s of each stream, with headers.
    rates: Vec<f64>,
    /// Reports from the first limit until the limit was no more than a tenth above this rate, and then within a tenth of it, if it ever was.
    reports: [Option<u32>; 2],
}

impl Scene {
    fn play(&self, variant: Variant, bottleneck: f64, seed: u64) -> Outcome {
        let mut network = Network::build(&self.lines, variant.queues, seed);
        let mut control =
            Control::new(&mut network, Profile { rate: FAST / 2, burst: BURST }, variant.policy, seed);
        let mut of_traffic = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            let all = stream.start(&mut network, self.end());
            of_traffic.extend(all.into_iter().map(|traffic| (traffic, number)));
        }
        let mut bytes = vec![0.0; self.streams.len()];
        let (mut reports, mut until) = ([None; 2], Duration::ZERO);
        while until < self.end() {
            until += STEP;
            network.world.run_until(network.start + until);
            control.step(&mut network);
            if let Some((limit, number)) = control.limit() {
                let ratio = limit as f64 / 1e6 / bottleneck;
                for (reports, is_met) in reports.iter_mut().zip([ratio <= 1.1, (0.9..=1.1).contains(&ratio)])
                {
                    *reports = reports.or(is_met.then_some(number));
                }
            }
            while let Some(seen) = network.world.poll_observation() {
                if let Seen::Delivered(payload) = seen.what
                    && seen.at >= network.start + self.settled
                    && let Some((_, number)) = of_traffic.iter().find(|(traffic, _)| *traffic == seen.traffic)
                {
                    bytes[*number] += self.streams[*number].with_headers(payload);
                }
            }
        }
        let mbit = |bytes: f64| bytes * 8.0 / 1e6 / f64::from(self.seconds);
        Outcome { rates: bytes.into_iter().map(mbit).collect(), reports }
    }

    fn end(&self) -> Duration {
        self.settled + Duration::from_secs(self.seconds.into())
    }
}

impl Stream {
    fn tcp(from: Node, to: Node, congestion_control: CongestionControl) -> Self {
        Self { from, to, kind: Kind::Tcp(congestion_control), start: Duration::ZERO }
    }

    fn udp(from: Node, to: Node, rate: u64, start: u64) -> Self {
        Self { from, to, kind: Kind::Udp(rate), start: Duration::from_secs(start) }
    }

    /// Each flow of UDP begins a part of a gap later than the one before.
    fn start(&self, network: &mut Network, end: Duration) -> Vec<TrafficId> {
        let (from, to, address) = (network.host(self.from), network.host(self.to), network.address(self.to));
        let start = network.start;
        let mut add = |kind, after| {
            let (start, stop) = (start + self.start + after, start + end);
            network.world.add_traffic(TrafficSetup { kind, from, to, address, start, stop })
        };
        let rate = match self.kind {
            Kind::Udp(rate) => rate,
            Kind::Tcp(congestion_control) => {
                let (users, mean_pause) = (FLOWS as usize, Duration::from_millis(50));
                let tcp = tcp(congestion_control);
                let endless = TrafficKind::Transfers { tcp, users, mean_bytes: 1e12, mean_pause };
                return vec![add(endless, Duration::ZERO)];
            }
        };
        let rate = rate / u64::from(FLOWS);
        let gap = Duration::from_secs_f64(PACKET * 8.0 / rate as f64);
        let [payload, packet] = [DATAGRAM, DATAGRAM + HEADERS].map(|bytes| bytes as u64);
        let kind = TrafficKind::Udp { rate: rate * payload / packet, payload: DATAGRAM };
        (0..FLOWS).map(|number| add(kind.clone(), gap * number / FLOWS)).collect()
    }

    fn with_headers(&self, payload: u64) -> f64 {
        let full = match self.kind {
            Kind::Udp(_) => DATAGRAM,
            Kind::Tcp(_) => PAYLOAD,
        };
        payload as f64 * PACKET / full as f64
    }
}

fn figure_10(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let of_reno = (1..=5u32).map(|bottleneck| (bottleneck, CongestionControl::Reno, ""));
    let of_others = [(CongestionControl::Cubic, ", CUBIC"), (CongestionControl::Bbr, ", BBR")];
    for (bottleneck, inside, what) in of_reno.chain(of_others.map(|(inside, what)| (1, inside, what))) {
        let rate = f64::from(bottleneck);
        let group = format!("{bottleneck} Mb/s{what}");
        let is_printed = bottleneck == 1 && inside == CongestionControl::Reno;
        let scene = Scene {
            lines: simple(u64::from(bottleneck) * 1_000_000),
            streams: vec![Stream::tcp("n1", "n3", inside), Stream::udp("n2", "n4", FAST / 2, 0)],
            settled: Duration::from_secs(20),
            seconds: setup.seconds(20),
        };
        let is_asked = |variant: &Variant| {
            let rows = ["TCP", "UDP"].map(|what| format!("{}, {what}", variant.name));
            setup.wants_any(&group, rows)
        };
        for variant in variants(rate).into_iter().filter(is_asked) {
            let outcome = scene.play(variant, rate, u64::from(setup.run.0));
            rows.extend(rows_10(&group, variant, &outcome, rate, is_printed));
        }
    }
    rows
}

fn rows_10(group: &str, variant: Variant, outcome: &Outcome, bottleneck: f64, is_printed: bool) -> Vec<Row> {
    let is_asked = variant.name == OURS && bottleneck < 1.5;
    let printed = match variant.name {
        _ if !is_printed => None,
        "no control" => Some(5.0),
        "the seed's control" | OURS => Some(8.0),
        _ => None,
    };
    let figure =
        |what: &str, unit, value| Figure::new(format!("{group}, {}, {what}", variant.name), unit, value);
    let [tcp, udp] =
        ["TCP", "UDP"].map(|what| figure(what, "Mb/s", Some(outcome.rates[usize::from(what == "UDP")])));
    let tcp = tcp.seed(printed);
    if !is_asked {
        return vec![tcp.shown(), udp.shown()];
    }
    let labels = ["reports until no more than that passes", "reports until it is at the bottleneck's rate"];
    let [enough, settled] =
        [0, 1].map(|place| figure(labels[place], "reports", outcome.reports[place].map(f64::from)));
    vec![tcp.at_least(8.7), udp.at_least(0.95 * bottleneck), enough.at_most(3.0), settled.at_most(3.0)]
}

fn figure_11(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut lines = domains(FAST, FAST);
    let last = lines.iter_mut().find(|line| line.ends == ["E10", "n9"]);
    last.into_iter().for_each(|line| line.rate = NARROW);
    let cross = |from, to, start| Stream::udp(from, to, CROSS, start);
    let scene = Scene {
        lines,
        streams: vec![
            Stream::tcp("n1", "n8", CongestionControl::Reno),
            Stream::udp("n2", "n9", FAST / 2, 0),
            cross("n3", "n4", 10),
            cross("n5", "n6", 15),
            cross("n7", "n10", 20),
        ],
        settled: Duration::from_secs(25),
        seconds: setup.seconds(20),
    };
    let narrow = NARROW as f64 / 1e6;
    let mut rows = Vec::new();
    for variant in variants(narrow).into_iter().filter(|variant| setup.wants(variant.name)) {
        let outcome = scene.play(variant, narrow, u64::from(setup.run.0));
        for (place, what) in ["F1 (TCP)", "F2 (UDP)", "Cr1", "Cr2", "Cr3"].into_iter().enumerate() {
            let figure = Figure::new(format!("{}, {what}", variant.name), "Mb/s", Some(outcome.rates[place]));
            let least = match (variant.name == OURS, place) {
                (true, 0) => Some(5.0),
                (true, 2..) => Some(0.98 * CROSS as f64 / 1e6),
                (true | false, _) => None,
            };
            rows.push(match least {
                Some(least) => figure.at_least(least),
                None => figure.shown(),
            });
        }
    }
    rows
}

/// Payload of a datagram of [`PACKET`] bytes, and its headers.
const DATAGRAM: usize = 1024 - HEADERS;
const HEADERS: usize = 28;

/// Bytes that may exceed a profile's rate.
const BURST: u64 = 64_000;

/// Bits per second, of what F2 goes over last, and of each aggregate of cross traffic.
const NARROW: u64 = 1_000_000;
const CROSS: u64 = 2_000_000;
