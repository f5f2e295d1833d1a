//! Table 2.1, and figures 2.4 to 2.10 as far as the text has what they were made with.

use psmc_sim::CongestionControl;
use psmc_sim::pulses::{Law, Pulses, literature};

use super::network::{Device, Direction, RTT, SEGMENT, Scene, frame, pulses};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "router-table-2.1",
        what: "mean rate of an attack by pulses",
        seed: "ROUTER table 2.1, frames of 64 bytes",
        how: "simulated: what enters the first router in 100 s, without the jitter of the other experiments",
        criterion: "within 2 % of the seed's",
        runs: 1,
        measure: table_2_1,
    },
    Experiment {
        name: "router-fig-2.4",
        what: "goodput of a flow under pulses of 140,000 and 85,000 small packets/s, by sleep",
        seed: "ROUTER figure 2.4: analysis, ns-2, Emulab and DETER; the plots have no printed values but the analysis' formula",
        how: NETWORK,
        criterion: "Reno through PCs that the attack overloads within 15 % of the corrected analysis at sleeps of 0.5 and 2 s",
        runs: 1,
        measure: figure_2_4,
    },
    Experiment {
        name: "router-fig-2.6",
        what: "goodput of a flow under pulses with long sleeps, and queues of 256 packets",
        seed: "ROUTER figure 2.6: analysis, ns-2 and Click; the attack is weaker than the analysis predicts",
        how: NETWORK,
        criterion: "none: the seed's values are in a plot",
        runs: 1,
        measure: figure_2_6,
    },
    Experiment {
        name: "router-fig-2.7",
        what: "goodput of a flow under pulses with long sleeps, through Cisco 3640s",
        seed: "ROUTER figure 2.7: through 3640s without filters the attack is much less effective than in ns-2 and by analysis",
        how: NETWORK,
        criterion: "through 3640s at least twice the goodput of queues of 40 alone",
        runs: 1,
        measure: figure_2_7,
    },
    Experiment {
        name: "router-fig-2.8",
        what: "goodput of a flow under pulses of one rate in bit/s, by the size of their packets, through Cisco 3640s",
        seed: "ROUTER figures 2.8 and 2.9: without filters; small packets have the most impact",
        how: NETWORK,
        criterion: "none: the seed's values are in a plot",
        runs: 1,
        measure: figure_2_8,
    },
];

const NETWORK: &str = "\
simulated, packet by packet: figure 2.3, a dumb-bell of 100 Mb/s with 160 ms, one flow of TCP with a window of 11 MB, of which \
payload counts from 20 to 100 s; pulses of 160 ms, each and each sleep up to 10 ms longer by chance; both routers alike. A processor \
takes each packet whichever way it goes: of PCs 10 µs (estimated: 85,000 packets/s don't overload the seed's on Emulab, 140,000 do), \
with a backlog of 300 for all ports, of 3640s 1/14,400 s (§2.8.1), with 75 for each port. Queues hold 64 packets in PCs, 40 in 3640s. \
The analysis of the seed is 3 t / (4 rtt) segments in each round trip; the corrected one follows rounds, with what the first \
router can't carry of all that comes lost by chance, repairs, and timeouts of 200 ms beyond the round trip";

const SECONDS: u32 = 100;

/// Frames of the smallest packets.
const SMALL: usize = 64;

fn table_2_1(setup: &mut Setup<'_>) -> Vec<Row> {
    let table = [
        (16_000, 500, 1.99),
        (16_000, 2000, 0.61),
        (85_000, 500, 10.55),
        (85_000, 2000, 3.22),
        (140_000, 500, 17.38),
        (140_000, 2000, 5.31),
    ];
    let row = |(rate, sleep, printed): (u64, u64, f64)| {
        let label = format!("{rate} packets/s, {sleep} ms");
        let strict = Pulses { jitter: std::time::Duration::ZERO, ..pulses(rate, SMALL, sleep) };
        let scene = scene(Device::Queues(50), CongestionControl::Reno, strict, Direction::Forward);
        let outcome = setup.wants(&label).then(|| scene.run(setup.seconds(SECONDS), seed(setup))).flatten();
        let attack = outcome.map(|outcome| outcome.attack / 1e6);
        Figure::new(label, "Mb/s", attack).seed(printed).near(printed, 0.02)
    };
    table.into_iter().map(row).collect()
}

fn figure_2_4(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for rate in [140_000, 85_000] {
        for sleep in [500, 1000, 2000, 4000] {
            let train = pulses(rate, SMALL, sleep);
            let group = format!("{rate} packets/s, {sleep} ms");
            rows.extend(analyses(&group, Device::Pc, &train));
            let is_held = rate == 140_000 && [500, 2000].contains(&sleep);
            for (device, direction, name) in [
                (Device::Queues(50), Direction::Forward, ""),
                (Device::Pc, Direction::Forward, ""),
                (Device::Pc, Direction::Reverse, ", reverse"),
            ] {
                let scene = scene(device, CongestionControl::Reno, train.clone(), direction);
                let corrected = scene.analysis(Law::Reno).map(in_mbit);
                let figure = goodput(setup, &format!("{group}, {}{name}", device.name()), &scene);
                let is_held = is_held && device == Device::Pc && direction == Direction::Forward;
                rows.push(if is_held { figure.near(corrected, 0.15) } else { figure.shown() });
            }
            let scene = scene(Device::Pc, CongestionControl::Cubic, train, Direction::Forward);
            let corrected = scene.analysis(Law::Cubic).map(in_mbit);
            let label = |what: &str| format!("{group}, CUBIC, {what}");
            rows.push(Figure::new(label("corrected analysis"), "Mb/s", corrected).shown());
            rows.push(goodput(setup, &label("PC"), &scene).shown());
        }
    }
    rows
}

fn figure_2_6(setup: &mut Setup<'_>) -> Vec<Row> {
    long_sleeps(setup, &[Device::Queues(256)], |_, _| None)
}

fn figure_2_7(setup: &mut Setup<'_>) -> Vec<Row> {
    let is_3640 = |device| device == Device::Cisco3640;
    let least =
        |device, of_queues: Option<f64>| of_queues.filter(|_| is_3640(device)).map(|goodput| 2.0 * goodput);
    long_sleeps(setup, &[Device::Queues(40), Device::Cisco3640], least)
}

/// Sleeps up to 20 s; `least` says what a device must reach by what the first one does.
fn long_sleeps(
    setup: &mut Setup<'_>,
    devices: &[Device],
    least: impl Fn(Device, Option<f64>) -> Option<f64>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for sleep in [2000, 6000, 12_000, 20_000] {
        let train = pulses(140_000, SMALL, sleep);
        let group = format!("{sleep} ms");
        rows.extend(analyses(&group, devices[0], &train));
        let mut first = None;
        for &device in devices {
            let scene = scene(device, CongestionControl::Reno, train.clone(), Direction::Forward);
            let label = format!("{group}, {}", device.name());
            let found = measured(setup, &label, &scene);
            let figure = Figure::new(label, "Mb/s", found);
            rows.push(match least(device, first) {
                Some(least) => figure.at_least(least),
                None => figure.shown(),
            });
            first = first.or(found);
        }
    }
    rows
}

fn figure_2_8(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    // Payloads of 1400 and 1184 bytes, and the smallest frames.
    for (rate, size) in [(8_500, 1400 + 46), (10_000, 1184 + 46), (140_000, SMALL)] {
        for sleep in [500, 2000] {
            let train = pulses(rate, size, sleep);
            let label = format!("{rate} packets/s of {} bytes, {sleep} ms", frame(&train));
            let scene = scene(Device::Cisco3640, CongestionControl::Reno, train, Direction::Forward);
            rows.push(goodput(setup, &label, &scene).shown());
        }
    }
    rows
}

fn scene(
    device: Device,
    congestion_control: CongestionControl,
    train: Pulses,
    direction: Direction,
) -> Scene {
    Scene { device, congestion_control, pulses: Some(train), direction }
}

/// Both analyses of Reno.
fn analyses(group: &str, device: Device, train: &Pulses) -> [Row; 2] {
    let printed = in_mbit(literature(train.sleep, RTT, SEGMENT));
    let corrected =
        scene(device, CongestionControl::Reno, train.clone(), Direction::Forward).analysis(Law::Reno);
    [("analysis", Some(printed)), ("corrected analysis", corrected.map(in_mbit))]
        .map(|(name, value)| Figure::new(format!("{group}, {name}"), "Mb/s", value).shown())
}

fn goodput(setup: &Setup<'_>, label: &str, scene: &Scene) -> Figure {
    Figure::new(label, "Mb/s", measured(setup, label, scene))
}

/// In Mb/s; `None` if the row isn't asked for.
fn measured(setup: &Setup<'_>, label: &str, scene: &Scene) -> Option<f64> {
    let outcome = setup.wants(label).then(|| scene.run(setup.seconds(SECONDS), seed(setup))).flatten();
    outcome.map(|outcome| in_mbit(outcome.goodput))
}

fn seed(setup: &Setup<'_>) -> u64 {
    setup.run.0.into()
}

fn in_mbit(rate: f64) -> f64 {
    rate / 1e6
}
