use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::classify::ClassConfig;

const KEY: [u64; 2] = [1, 2];
const CONFIG: FlowConfig =
    FlowConfig { active_timeout: Duration::from_secs(60), idle_timeout: Duration::from_secs(15) };

/// An IPv4 packet of TCP or UDP from a port.
fn packet(protocol: u8, port: u16, tcp_flags: u8, len: usize) -> Vec<u8> {
    let mut packet = vec![0; len.max(40)];
    packet[0] = 0x45;
    packet[1] = 0xB8;
    packet[2..4].copy_from_slice(&u16::try_from(len.max(40)).expect("short").to_be_bytes());
    packet[9] = protocol;
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20..24].copy_from_slice(&[port.to_be_bytes(), 80_u16.to_be_bytes()].concat());
    packet[33] = tcp_flags;
    packet
}

struct Bench {
    flows: Flows,
    classes: Classes,
    now: Instant,
    /// Taken so far.
    records: Vec<FlowRecord>,
}

impl Bench {
    fn new() -> Self {
        let classes = Classes::new(ClassConfig::defaults());
        Self { flows: Flows::new(CONFIG, &classes), classes, now: Instant::now(), records: Vec::new() }
    }

    fn send(&mut self, peer: u32, packet: &[u8]) -> FlowRef {
        let headers = classify(packet, KEY).expect("a packet");
        self.flows.on_sent(PeerId(peer), packet, &headers, self.classes.of(&headers), self.now)
    }

    fn receive(&mut self, peer: u32, packet: &[u8], is_recovered: bool) {
        let bucket = classify(packet, KEY).expect("a packet").bucket;
        let arrived = Arrived { packet, bucket, is_recovered };
        if is_recovered || self.flows.on_more(PeerId(peer), bucket, packet, self.now).is_none() {
            self.flows.on_received(PeerId(peer), &arrived, &self.classes, KEY, self.now);
        }
    }

    /// Lets time pass, and takes records as whoever exports them does.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.records.extend(self.flows.take(self.now));
        }
    }

    /// The ends of records, how many packets each of them has, and how many seconds it lasts.
    fn ends(&mut self) -> Vec<(FlowEnd, u64, u64)> {
        let told =
            |record: FlowRecord| (record.end, record.counts.packets, (record.last - record.first).as_secs());
        std::mem::take(&mut self.records).into_iter().map(told).collect()
    }
}

#[test]
fn a_flow_ends_when_it_is_idle_and_has_a_record_each_time_that_it_has_lasted() {
    let mut bench = Bench::new();
    for _ in 0..150 {
        bench.send(1, &packet(17, 7, 0, 100));
        bench.wait(Duration::from_secs(1));
    }
    bench.wait(Duration::from_secs(20));
    let ends = bench.ends();
    let [(FlowEnd::Active, first, 59..=61), (FlowEnd::Active, second, 59..=61), (FlowEnd::Idle, third, _)] =
        ends[..]
    else {
        panic!("{ends:?}")
    };
    assert_eq!(first + second + third, 150);
    bench.wait(Duration::from_secs(200));
    assert_eq!(bench.ends(), [], "what carries nothing has no record");
}

#[test]
fn a_connection_that_was_closed_ends_soon_and_says_what_it_was() {
    let mut bench = Bench::new();
    for flags in [0x02, 0x10, 0x18, 0x11, 0x10] {
        bench.send(3, &packet(6, 7, flags, 120));
    }
    bench.wait(Duration::from_secs(4));
    let record = bench.records.pop().expect("a record");
    assert_eq!(bench.records, []);
    assert_eq!((record.end, record.peer, record.is_sent), (FlowEnd::Finished, PeerId(3), true));
    assert_eq!(&*record.class, "voice");
    let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
    let id = FlowId { source, destination, protocol: 6, ports: [7, 80], tos: 0xB8, tcp_flags: 0x1B };
    assert_eq!(record.flow, Some(id));
    assert_eq!(record.counts, FlowCounts { packets: 5, bytes: 600, ..FlowCounts::default() });
}

#[test]
fn directions_peers_and_classes_are_apart() {
    let mut bench = Bench::new();
    let voice = packet(17, 7, 0, 100);
    let mut other = voice.clone();
    other[1] = 0;
    bench.send(1, &voice);
    bench.send(1, &other);
    bench.send(2, &voice);
    bench.receive(1, &voice, false);
    bench.receive(1, &voice, true);
    bench.flows.end(Some(PeerId(1)));
    bench.wait(Duration::from_secs(1));
    let told = |record: &FlowRecord| {
        (
            record.is_sent,
            record.class.to_string(),
            record.counts.packets,
            record.counts.recovered_packets,
            record.end,
        )
    };
    let mut records: Vec<_> = bench.records.iter().map(told).collect();
    records.sort();
    assert_eq!(
        records,
        [
            (false, "voice".to_owned(), 2, 1, FlowEnd::Forced),
            (true, "best-effort".to_owned(), 1, 0, FlowEnd::Forced),
            (true, "voice".to_owned(), 1, 0, FlowEnd::Forced),
        ]
    );
}

#[test]
fn fates_count_for_the_flow_and_for_no_other_that_has_its_place_later() {
    let mut bench = Bench::new();
    let flow = bench.send(1, &packet(17, 7, 0, 100));
    bench.flows.on_fate(flow, Fate::Dropped(100));
    bench.flows.on_fate(flow, Fate::SentAgain);
    bench.wait(Duration::from_secs(20));
    let counts = FlowCounts {
        packets: 1,
        bytes: 100,
        dropped_packets: 1,
        dropped_bytes: 100,
        resent_packets: 1,
        recovered_packets: 0,
    };
    assert_eq!(bench.records.pop().map(|record| record.counts), Some(counts));
    bench.send(1, &packet(17, 7, 0, 100));
    bench.flows.on_fate(flow, Fate::Dropped(100));
    bench.wait(Duration::from_secs(20));
    assert_eq!(bench.records.pop().map(|record| record.counts.dropped_packets), Some(0));
}

#[test]
fn classes_that_change_their_names_make_other_flows() {
    let mut bench = Bench::new();
    bench.send(1, &packet(17, 7, 0, 100));
    bench.classes = Classes::new(vec![ClassConfig { name: "all".to_owned(), ..ClassConfig::best_effort() }]);
    bench.flows.set_classes(&bench.classes);
    bench.send(1, &packet(17, 7, 0, 100));
    bench.wait(Duration::from_secs(20));
    let mut names: Vec<_> = bench.records.iter().map(|record| record.class.to_string()).collect();
    names.sort();
    assert_eq!(names, ["all", "voice"]);
}

#[test]
fn more_flows_than_there_is_room_for_are_counted_together_and_nothing_grows() {
    let mut bench = Bench::new();
    let count = 60_000_u16;
    for port in 0..count {
        bench.send(1, &packet(17, port, 0, 100));
    }
    assert_eq!(bench.flows.waiting.len(), MAX_WAITING);
    let first = bench.flows.take(bench.now);
    assert_eq!(first.iter().filter(|record| record.flow.is_some()).count(), MAX_TAKEN);
    assert_eq!(first.iter().filter(|record| record.flow.is_none()).count(), 1);
    bench.records = first;
    bench.wait(Duration::from_secs(30));
    let sum = |records: &[FlowRecord], is_wanted: &dyn Fn(&FlowRecord) -> bool| -> u64 {
        records.iter().filter(|record| is_wanted(record)).map(|record| record.counts.packets).sum()
    };
    assert_eq!(sum(&bench.records, &|_| true), u64::from(count));
    assert_eq!(sum(&bench.records, &|record| record.end == FlowEnd::Idle), 8 * 1024);
}

/// What happens to a table.
#[derive(Clone, Debug)]
enum Step {
    Send(u32, u16, usize),
    Receive(u32, u16, usize),
    End(u32),
    Wait(u64),
    Change,
}

fn step() -> impl Strategy<Value = Step> {
    let ports = prop_oneof![0..20_u16, any::<u16>()];
    prop_oneof![
        8 => (0..3_u32, ports.clone(), 40..1500_usize).prop_map(|(peer, port, len)| Step::Send(peer, port, len)),
        8 => (0..3_u32, ports, 40..1500_usize).prop_map(|(peer, port, len)| Step::Receive(peer, port, len)),
        1 => (0..3_u32).prop_map(Step::End),
        4 => (0..20_u64).prop_map(Step::Wait),
        1 => Just(Step::Change),
    ]
}

proptest! {
    /// Whatever happens: each byte is in one record.
    #[test]
    fn sums_are_those_of_all_packets(steps in prop::collection::vec(step(), 0..400)) {
        let mut bench = Bench::new();
        let mut sums: BTreeMap<(u32, bool), (u64, u64)> = BTreeMap::new();
        let mut note = |peer, is_sent, len: usize| {
            let sum = sums.entry((peer, is_sent)).or_default();
            *sum = (sum.0 + 1, sum.1 + len as u64);
        };
        for step in steps {
            match step {
                Step::Send(peer, port, len) => {
                    bench.send(peer, &packet(17, port, 0, len));
                    note(peer, true, len);
                }
                Step::Receive(peer, port, len) => {
                    bench.receive(peer, &packet(6, port, 0x11, len), false);
                    note(peer, false, len);
                }
                Step::End(peer) => bench.flows.end(Some(PeerId(peer))),
                Step::Wait(seconds) => bench.wait(Duration::from_secs(seconds)),
                Step::Change => {
                    bench.classes = Classes::new(vec![ClassConfig::best_effort()]);
                    bench.flows.set_classes(&bench.classes);
                }
            }
        }
        bench.flows.end(None);
        bench.wait(Duration::from_secs(2));
        let mut told: BTreeMap<(u32, bool), (u64, u64)> = BTreeMap::new();
        for record in &bench.records {
            prop_assert!(record.first <= record.last);
            let sum = told.entry((record.peer.0, record.is_sent)).or_default();
            *sum = (sum.0 + record.counts.packets, sum.1 + record.counts.bytes);
        }
        prop_assert_eq!(told, sums);
    }

    /// Flows are told apart alike, whether they are read in the short way or in the long one.
    #[test]
    fn both_ways_of_reading_agree(port in 1..u16::MAX, protocol in prop_oneof![Just(6_u8), Just(17), Just(1)]) {
        let packet = packet(protocol, port, 0, 100);
        let long = Seen::of(&classify(&packet, KEY).expect("a packet"));
        let Some(short) = Seen::of_plain(&packet) else { return Ok(()) };
        prop_assert_eq!(short.ends, long.ends);
    }

    /// Bytes of any kind harm nobody.
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Seen::of_plain(&bytes);
    }
}
