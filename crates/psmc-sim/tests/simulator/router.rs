//! Delays and rates that can be computed by hand; and what holds for any traffic.
#![expect(clippy::unwrap_used, reason = "what is made here is right")]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use psmc_sim::link::{Discipline, PacketInfo};
use psmc_sim::router::{Amount, CpuConfig, PortConfig, Router, RouterConfig, RouterDrop, Table, Tables};

const MICROSECOND: Duration = Duration::from_micros(1);

fn amount(value: f64) -> Amount {
    Amount::new(value).unwrap()
}

/// Ports of 100 Mb/s without framing; packets of 100 bytes take 8 µs there, and 20 µs of a server.
fn config(ports: usize, servers: f64, slots: f64) -> RouterConfig {
    with(ports, servers, slots, |_, _| {}, None)
}

fn with(
    ports: usize,
    servers: f64,
    slots: f64,
    change: impl Fn(&mut PortConfig, &mut Tables),
    cpu: Option<CpuConfig>,
) -> RouterConfig {
    let mut tables = Tables {
        delay: Table::<Duration>::constant(20 * MICROSECOND),
        servers: Table::<Amount>::constant(Amount::ONE),
        slots: Table::<Amount>::constant(Amount::ONE),
    };
    let mut port = PortConfig { framing: 0, ..PortConfig::new(100_000_000, amount(slots)) };
    change(&mut port, &mut tables);
    RouterConfig::new(vec![port; ports], amount(servers), tables, cpu).unwrap()
}

/// A router, and what has come of it: number of the packet, port, time in microseconds.
struct Bench {
    start: Instant,
    router: Router<u32>,
    left: Vec<(u32, Option<usize>, f64)>,
    dropped: Vec<(u32, RouterDrop)>,
}

/// More polls than any bench needs: a router that asks for more would ask for ever.
const MOST_POLLS: u32 = 100_000;

impl Bench {
    fn new(config: RouterConfig) -> Self {
        let start = Instant::now();
        Self { start, router: Router::new(config, 1, start), left: Vec::new(), dropped: Vec::new() }
    }

    /// A packet of `len` bytes enters at `at` microseconds.
    fn enter(&mut self, number: u32, len: usize, [input, output]: [usize; 2], at: f64) {
        let at = self.start + Duration::from_secs_f64(at * 1e-6);
        self.router.handle_packet(number, PacketInfo::new(len), input, Some(output), at);
    }

    fn poll(&mut self, now: Instant) {
        while let Some(departure) = self.router.poll_packet(now) {
            assert!(departure.at <= now);
            let micros = (departure.at - self.start).as_secs_f64() * 1e6;
            self.left.push((departure.packet, departure.port, micros));
        }
        while let Some(dropped) = self.router.poll_dropped() {
            self.dropped.push(dropped);
        }
    }

    /// Polls whenever there is something to poll for, until `micros`.
    fn run(&mut self, micros: u64) {
        let end = self.start + MICROSECOND * u32::try_from(micros).unwrap();
        let mut polls = 0;
        while let Some(at) = self.router.poll_timeout().filter(|at| *at <= end) {
            self.poll(at);
            polls += 1;
            assert!(polls < MOST_POLLS, "it is polled for ever at {:?}", at - self.start);
        }
        self.poll(end);
    }

    fn times(&self) -> Vec<f64> {
        self.left.iter().map(|(.., at)| (at * 1e3).round() / 1e3).collect()
    }
}

#[test]
fn a_packet_alone_takes_its_delay_and_its_transmission() {
    let points = vec![(100, 20 * MICROSECOND), (300, 40 * MICROSECOND)];
    let change = |_: &mut PortConfig, tables: &mut Tables| {
        tables.delay = Table::<Duration>::new(points.clone()).unwrap();
    };
    let mut bench = Bench::new(with(2, 1.0, 10.0, change, None));
    for (number, len) in [(0, 100), (1, 200), (2, 300), (3, 1000)] {
        bench.enter(number, len, [0, 1], f64::from(number) * 1000.0);
    }
    bench.run(10_000);
    assert_eq!(bench.times(), [28.0, 1046.0, 2064.0, 3120.0]);
}

/// Figure 4.6: served at the same time, and transmitted one after the other.
#[test]
fn transmissions_of_a_port_are_serialised() {
    let mut bench = Bench::new(config(2, 3.0, 10.0));
    (0..3).for_each(|number| bench.enter(number, 100, [0, 1], 0.0));
    bench.run(1000);
    assert_eq!(bench.times(), [28.0, 36.0, 44.0]);
}

#[test]
fn ports_share_servers() {
    let mut bench = Bench::new(config(2, 1.0, 10.0));
    bench.enter(0, 100, [0, 1], 0.0);
    bench.enter(1, 100, [1, 0], 0.0);
    bench.run(1000);
    assert_eq!(bench.left, [(0, Some(1), 28.0), (1, Some(0), 48.0)]);
}

#[test]
fn a_fraction_of_a_server_does_a_fraction_of_the_work() {
    const PORTS: usize = 16;
    for servers in [1.0, 1.5, 2.786, 6.027] {
        let mut bench = Bench::new(config(PORTS, servers, 1000.0));
        (0..8000).for_each(|number| bench.enter(number, 100, [0, number as usize % PORTS], 0.0));
        bench.run(1_000_000);
        assert_eq!(bench.left.len(), 8000);
        let last = bench.left.iter().map(|(.., at)| *at).fold(0.0, f64::max);
        let rate = 8000.0 / last * 20.0;
        assert!((rate / servers - 1.0).abs() < 0.005, "{rate} of {servers}");
    }
}

#[test]
fn packets_that_need_more_servers_leave_fewer_for_others() {
    let change = |_: &mut PortConfig, tables: &mut Tables| {
        tables.servers = Table::<Amount>::new(vec![(100, Amount::ONE), (101, amount(2.0))]).unwrap();
    };
    let mut bench = Bench::new(with(8, 3.0, 1000.0, change, None));
    for number in 0..1000 {
        bench.enter(2 * number, 100, [0, number as usize % 8], 0.0);
        bench.enter(2 * number + 1, 101, [0, number as usize % 8], 0.0);
    }
    bench.run(1_000_000);
    // Each pair is three servers for 20 µs.
    let last = bench.left.iter().map(|(.., at)| *at).fold(0.0, f64::max);
    assert!((last / 20_000.0 - 1.0).abs() < 0.01, "{last}");
}

#[test]
fn a_queue_holds_its_slots() {
    let change = |_: &mut PortConfig, tables: &mut Tables| {
        tables.slots = Table::<Amount>::new(vec![(100, amount(0.5)), (200, Amount::ONE)]).unwrap();
    };
    let mut bench = Bench::new(with(2, 1.0, 4.0, change, None));
    // The first is served at once; eight halves wait.
    (0..12).for_each(|number| bench.enter(number, 100, [0, 1], 0.0));
    bench.run(10_000);
    assert_eq!(bench.left.len(), 9);
    let dropped: Vec<_> = (9..12).map(|number| (number, RouterDrop::QueueFull)).collect();
    assert_eq!(bench.dropped, dropped);
    assert_eq!(bench.router.counters().dropped_for(RouterDrop::QueueFull), 3);
    (20..26).for_each(|number| bench.enter(number, 200, [0, 1], 10_000.0));
    bench.run(20_000);
    assert_eq!(bench.left.len(), 9 + 5);
}

/// What the line keeps waiting is in the queue: the last packet that finds room waits for as long as the slots' packets take.
#[test]
fn what_a_full_line_keeps_waiting_waits_in_the_queue() {
    let mut bench = Bench::new(config(2, 100.0, 10.0));
    for number in 0..200 {
        bench.enter(number, 100, [0, 1], f64::from(number) * 4.0);
    }
    bench.run(100_000);
    let waited = bench.left.iter().map(|(number, _, at)| at - f64::from(*number) * 4.0);
    let longest = waited.fold(0.0, f64::max);
    // Ten packets of 8 µs, what is left of the one before them, the delay, and its own transmission.
    assert!((107.0..=116.0).contains(&longest), "{longest}");
    assert!(bench.router.counters().dropped_packets() > 50);
}

#[test]
fn ports_take_turns() {
    let mut bench = Bench::new(config(3, 1.0, 1000.0));
    (0..300).for_each(|number| bench.enter(number, 100, [0, 1], 0.0));
    (300..310).for_each(|number| bench.enter(number, 100, [0, 2], 0.0));
    bench.run(100_000);
    let of_second = bench.left.iter().filter(|(_, port, _)| *port == Some(2)).map(|(.., at)| *at);
    let last = of_second.fold(0.0, f64::max);
    assert!(last < 22.0 * 20.0 + 8.0, "{last}: every other packet is of port 2");
}

#[test]
fn the_processor_is_everybodys() {
    let time = Table::<Duration>::constant(10 * MICROSECOND);
    let cpu = CpuConfig { time, control: 100 * MICROSECOND, ring: 5, is_shared: false };
    let config = with(2, 100.0, 100.0, |_, _| {}, Some(cpu));
    let mut bench = Bench::new(config);
    // A flood from port 0 fills its own ring, and takes every other turn from what comes the other way.
    (0..20).for_each(|number| bench.enter(number, 100, [0, 1], 0.0));
    bench.enter(100, 100, [1, 0], 0.0);
    bench.run(1000);
    assert_eq!(bench.router.counters().dropped_for(RouterDrop::RingFull), 14);
    let back = bench.left.iter().find(|(number, ..)| *number == 100).unwrap();
    assert_eq!((back.1, back.2.round()), (Some(0), 30.0 + 28.0));
    // What is for the router itself keeps it busy, and goes nowhere.
    let later = bench.start + 2 * 1000 * MICROSECOND;
    bench.router.handle_packet(7, PacketInfo::new(100), 0, None, later);
    bench.enter(8, 100, [1, 0], 2000.0);
    bench.run(3000);
    assert_eq!(bench.left[bench.left.len() - 2], (7, None, 2100.0));
    assert_eq!(bench.times().last(), Some(&(2000.0 + 110.0 + 28.0)));
}

#[test]
fn a_discipline_keeps_the_queue_short() {
    let mean_wait = |discipline| {
        let change = move |port: &mut PortConfig, _: &mut Tables| port.discipline = discipline;
        let mut bench = Bench::new(with(2, 1.0, 10_000.0, change, None));
        for number in 0..50_000 {
            bench.enter(number, 100, [0, 1], f64::from(number) * 19.6);
            bench.run(u64::from(number) * 196 / 10);
        }
        let waits = bench.left.iter().map(|(number, _, at)| at - f64::from(*number) * 19.6);
        waits.sum::<f64>() / bench.left.len() as f64
    };
    let [target, interval] = [1, 5].map(Duration::from_millis);
    let codel = mean_wait(Discipline::CoDel { target, interval, ecn: false });
    let tail = mean_wait(Discipline::DropTail);
    assert!(codel < tail / 2.0, "{codel} and {tail}");
}

prop_compose! {
    fn packet()(
        len in 40..1500usize,
        input in 0..3usize,
        output in proptest::option::weighted(0.95, 0..3usize),
        gap in 0..60u64,
    ) -> (usize, usize, Option<usize>, u64) {
        (len, input, output, gap)
    }
}

fn any_config() -> impl Strategy<Value = RouterConfig> {
    let needs = (0.1..1.0f64, 0.1..1.0f64);
    (1.0..5.0f64, needs, 1.0..20.0f64, any::<bool>(), any::<bool>()).prop_map(
        |(servers, needs, slots, has_cpu, fair)| {
            let change = |port: &mut PortConfig, tables: &mut Tables| {
                let points = vec![(64, 10 * MICROSECOND), (1500, 100 * MICROSECOND)];
                tables.delay = Table::<Duration>::new(points).unwrap();
                let points = vec![(64, amount(needs.0)), (1500, amount(1.0))];
                tables.servers = Table::<Amount>::new(points).unwrap();
                let points = vec![(64, amount(needs.1)), (1500, amount(1.0))];
                tables.slots = Table::<Amount>::new(points).unwrap();
                if fair {
                    let [target, interval] = [1, 10].map(Duration::from_millis);
                    port.discipline = Discipline::FqCoDel { target, interval, ecn: false };
                }
            };
            let time = Table::<Duration>::constant(5 * MICROSECOND);
            let cpu = CpuConfig { time, control: 10 * MICROSECOND, ring: 4, is_shared: false };
            with(3, servers, slots, change, has_cpu.then_some(cpu))
        },
    )
}

proptest! {
    #[test]
    fn nothing_vanishes_and_nobody_overtakes(
        config in any_config(),
        packets in proptest::collection::vec(packet(), 1..300),
        lazy in any::<bool>(),
    ) {
        let fair = config.ports()[0].discipline != Discipline::DropTail;
        let has_cpu = config.cpu().is_some();
        let delays = config.tables().delay.clone();
        let mut bench = Bench::new(config.clone());
        let mut entered = Vec::new();
        let mut at = 0;
        for (number, (len, input, output, gap)) in (0..).zip(&packets) {
            at += gap;
            let now = bench.start + Duration::from_micros(at);
            bench.router.handle_packet(number, PacketInfo::new(*len), *input, *output, now);
            entered.push(at as f64);
            if !lazy {
                bench.poll(now);
            }
        }
        bench.run(10_000_000);
        prop_assert_eq!(bench.router.poll_timeout(), None);
        prop_assert_eq!(bench.left.len() + bench.dropped.len(), packets.len());
        for (number, port, at) in &bench.left {
            let (len, _, output, _) = packets[*number as usize];
            prop_assert_eq!(*port, output);
            let least = delays.of(len).as_secs_f64() * 1e6 + len as f64 * 0.08;
            if port.is_some() {
                prop_assert!(at - entered[*number as usize] >= least - 0.01, "{} after {}", number, at);
            }
        }
        for port in 0..3 {
            let order: Vec<_> = bench.left.iter().filter(|left| left.1 == Some(port)).collect();
            prop_assert!(order.windows(2).all(|pair| pair[0].2 < pair[1].2));
            // Rings of several ports, and queues of several flows, have no order between them.
            prop_assert!(fair || has_cpu || order.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
