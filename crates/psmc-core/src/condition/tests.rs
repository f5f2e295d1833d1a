#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "packets of a test are few, and their rates positive"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use siphasher::sip::SipHasher13;

use super::*;

const PROFILE: Profile = Profile { rate: 5_000_000, burst: 64_000 };

/// What a sender sends: packets of one length at even distances.
#[derive(Clone, Copy, Debug)]
struct Stream {
    source: u32,
    destination: u32,
    /// Of the first of its flows.
    flow: u64,
    /// Packets of each flow, then the next one begins.
    packets_per_flow: u64,
    len: usize,
    /// Packets per second.
    rate: f64,
    flags: u8,
}

impl Stream {
    fn flow(number: u32, len: usize, bits: f64) -> Self {
        let rate = bits / 8.0 / len as f64;
        let (flow, flags) = (u64::from(number) << 32, TcpFacts::ACK);
        let (source, destination) = (number, 1_000_000 + number);
        Self { source, destination, flow, packets_per_flow: u64::MAX, len, rate, flags }
    }

    fn syn_flood(rate: f64) -> Self {
        let flow = 1 << 60;
        let (source, destination) = (7_000_000, 8_000_000);
        Self { source, destination, flow, packets_per_flow: 1, len: 60, rate, flags: TcpFacts::SYN }
    }

    fn packet(&self, number: u64) -> Facts {
        let flow = self.flow + number / self.packets_per_flow;
        let flow = SipHasher13::new().hash(&flow.to_be_bytes());
        let tcp = Some(TcpFacts { flags: self.flags, ..TcpFacts::default() });
        let (source, destination) = (host(self.source), host(self.destination));
        Facts { flow, source, destination, len: self.len, is_ce: false, tcp }
    }
}

fn host(number: u32) -> IpAddr {
    Ipv4Addr::from(0x0A00_0000_u32.wrapping_add(number)).into()
}

/// The share of bytes of each stream that was DP0, from the third second to the last.
fn shares(streams: &[Stream], seconds: f64, mode: Mode) -> Vec<f64> {
    let start = Instant::now();
    let mut conditioner = Conditioner::new(PROFILE, mode, 7);
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut packets: Vec<(f64, usize, u64)> = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let offset = index as f64 * 0.000_317;
        let times = (0..).map(|number: u64| (offset + number as f64 / stream.rate, index, number));
        packets.extend(times.take_while(|(at, ..)| *at < seconds));
    }
    packets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut bytes = vec![[0.0; 2]; streams.len()];
    for (at, index, number) in packets {
        let packet = streams[index].packet(number);
        let precedence = conditioner.mark(&packet, &mut rng, start + Duration::from_secs_f64(at));
        if at >= 3.0 {
            bytes[index][1] += packet.len as f64;
            bytes[index][0] += if precedence == Precedence::Dp0 { packet.len as f64 } else { 0.0 };
        }
    }
    bytes.into_iter().map(|[kept, all]| kept / f64::max(all, 1.0)).collect()
}

#[test]
fn what_sends_less_than_its_share_keeps_dp0_beside_what_sends_all_it_can() {
    let mut streams: Vec<_> = (0..20).map(|number| Stream::flow(number, 1000, 100_000.0)).collect();
    streams.push(Stream::flow(99, 1400, 20e6));
    let marked = shares(&streams, 10.0, Mode::Adaptive);
    let (blast, others) = marked.split_last().expect("all of them");
    assert!(others.iter().all(|&share| share > 0.99), "{others:?}");
    assert!((blast - 3.0 / 20.0).abs() < 0.02, "it has what the others leave: {blast}");
    let standard = shares(&streams, 10.0, Mode::Standard);
    assert!(standard[0] < 0.35, "the standard marker tells nobody apart: {}", standard[0]);
}

#[test]
fn flows_that_all_want_more_have_the_same_share() {
    let streams: Vec<_> =
        (1..=10).map(|number| Stream::flow(number, 1000, 1e6 * f64::from(number))).collect();
    let marked = shares(&streams, 20.0, Mode::Adaptive);
    for (share, offered) in marked.iter().zip(1..) {
        let rate = share * f64::from(offered);
        assert!((rate - 0.5).abs() < 0.06, "{rate} Mb/s of {offered}: {marked:?}");
    }
}

/// A hundred clients that open a connection each second, and twenty flows that go on.
fn honest() -> Vec<Stream> {
    let clients = (0..100).map(|number| Stream {
        packets_per_flow: 1,
        flags: TcpFacts::SYN,
        rate: 1.0,
        ..Stream::flow(1000 + number, 60, 1.0)
    });
    clients.chain((0..20).map(|number| Stream::flow(number, 1000, 220_000.0))).collect()
}

#[test]
fn a_syn_flood_gains_nothing_and_handshakes_keep_theirs() {
    let mut streams = honest();
    let before = shares(&streams, 10.0, Mode::Adaptive);
    streams.push(Stream::syn_flood(10_000.0));
    let during = shares(&streams, 10.0, Mode::Adaptive);
    let (flood, during) = during.split_last().expect("all of them");
    assert!(before.iter().all(|&share| share > 0.99), "{before:?}");
    assert!(during.iter().all(|&share| share > 0.99), "{during:?}");
    // 4.42 Mb/s of the profile are the others'.
    let left = 0.58 / 4.8;
    assert!(*flood < left + 0.02, "{flood}");
    let seed = shares(&streams, 10.0, Mode::Seed(SeedRules::default()));
    assert!(*seed.last().expect("the flood") > 0.99, "where a flag buys DP0 the flood has it: {seed:?}");
}

#[test]
fn a_flood_of_forged_sources_gains_nothing() {
    let mut streams = honest();
    // From 10,000 addresses, ten of them each millisecond, to one.
    let flood = Stream::syn_flood(1.0);
    streams.extend((0..10_000).map(|number| Stream {
        source: 20_000 + number,
        flow: flood.flow + u64::from(number) * 100,
        ..flood
    }));
    let during = shares(&streams, 8.0, Mode::Adaptive);
    let (honest, flood) = during.split_at(120);
    assert!(honest.iter().all(|&share| share > 0.98), "{honest:?}");
    let flood = flood.iter().sum::<f64>() / 10_000.0;
    assert!(flood < 0.14, "{flood}");
}

#[test]
fn a_thousand_new_flows_gain_nothing_over_one() {
    let crowd = Stream { packets_per_flow: 10, ..Stream::flow(500, 1000, 20e6) };
    for packets_per_flow in [u64::MAX, 10, 2] {
        let mut streams: Vec<_> = (0..20).map(|number| Stream::flow(number, 1000, 220_000.0)).collect();
        streams.push(Stream { packets_per_flow, ..crowd });
        let marked = shares(&streams, 10.0, Mode::Adaptive);
        let (crowd, others) = marked.split_last().expect("all of them");
        assert!(others.iter().all(|&share| share > 0.97), "{packets_per_flow}: {others:?}");
        assert!(*crowd < 0.6 / 20.0 + 0.01, "{packets_per_flow}: {crowd}");
    }
}

#[test]
fn flags_buy_nothing_from_the_adaptive_marker() {
    let flags = [0, TcpFacts::ACK, TcpFacts::SYN, TcpFacts::ECE, TcpFacts::CWR, 0xFF];
    let with = |flags| {
        let mut streams: Vec<_> = (0..5).map(|number| Stream::flow(number, 1000, 900_000.0)).collect();
        streams.push(Stream { flags, ..Stream::flow(9, 1000, 10e6) });
        shares(&streams, 6.0, Mode::Adaptive)
    };
    let honest = with(TcpFacts::ACK);
    assert!(honest[5] < 0.2, "{honest:?}");
    for flags in flags {
        assert_eq!(with(flags), honest, "{flags:#x}");
    }
}

#[test]
fn the_seed_protects_what_its_figure_says() {
    let start = Instant::now();
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let rules = SeedRules { flows: 50, rtt: RttRule::Product };
    let mut seed = Conditioner::new(PROFILE, Mode::Seed(rules), 7);
    let blast = Stream::flow(1, 1400, 100e6);
    let mut now = start;
    let mut marked = [0; 3];
    for number in 0..20_000 {
        now += Duration::from_micros(112);
        let mut packet = blast.packet(number);
        if number % 100 == 0 {
            packet.tcp = Some(TcpFacts {
                flags: [TcpFacts::SYN, TcpFacts::ECE, TcpFacts::CWR][number as usize / 100 % 3],
                ..TcpFacts::default()
            });
            assert_eq!(seed.mark(&packet, &mut rng, now), Precedence::Dp0);
        } else {
            marked[seed.mark(&packet, &mut rng, now).index()] += 1;
        }
    }
    assert!(marked[2] > 15_000, "{marked:?}");
    // One segment is on the way at a time, and each is acknowledged: a small window, and a flow that is complete.
    let small = Stream::flow(2, 1000, 1e6);
    let mut kept = 0;
    for number in 0..100_u32 {
        let facts = |flags| TcpFacts { flags, seq: number * 1000, ack: (number + 1) * 1000, payload: 1000 };
        let packet = Facts { tcp: Some(facts(TcpFacts::ACK)), ..small.packet(0) };
        for other in 0..20 {
            let _ = seed.mark(&blast.packet(other), &mut rng, now);
        }
        kept += u32::from(seed.mark(&packet, &mut rng, now) == Precedence::Dp0);
        now += Duration::from_millis(2);
        seed.on_reply(packet.flow, &facts(TcpFacts::ACK), now);
    }
    assert!(kept > 95, "{kept}");
}

#[test]
fn the_standard_marker_marks_as_rfc_2859_says() {
    for (offered, shares) in
        [(4.0, [1.0, 0.0, 0.0]), (8.0, [5.0 / 8.0, 3.0 / 8.0, 0.0]), (20.0, [0.25, 0.25, 0.5])]
    {
        let start = Instant::now();
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let mut conditioner = Conditioner::new(PROFILE, Mode::Standard, 7);
        let stream = Stream::flow(1, 1000, offered * 1e6);
        let mut before = [0; 3];
        for number in 0..(stream.rate * 60.0) as u64 {
            let now = start + Duration::from_secs_f64(number as f64 / stream.rate);
            let _ = conditioner.mark(&stream.packet(number), &mut rng, now);
            if number == (stream.rate * 10.0) as u64 {
                before = conditioner.marked().map(|marked| marked.packets);
            }
        }
        let all = stream.rate * 50.0;
        for ((marked, before), wanted) in conditioner.marked().iter().zip(before).zip(shares) {
            let share = (marked.packets - before) as f64 / all;
            assert!((share - wanted).abs() < 0.02, "{offered} Mb/s: {share}, not {wanted}");
        }
    }
}

fn packets() -> impl Strategy<Value = Vec<(u32, u32, u64, usize)>> {
    prop::collection::vec((0..6_u32, 0..6_u32, 0..20_000_u64, 40..1500_usize), 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever sends what: DP0 never exceeds the profile, nor DP0 and DP1 its double; and all that was marked is counted.
    #[test]
    fn what_is_protected_is_charged_and_capped(
        packets in packets(), rate in 10_000_u64..100_000_000, burst in 1_500_u64..200_000,
    ) {
        let start = Instant::now();
        let profile = Profile { rate, burst };
        let mut conditioner = Conditioner::new(profile, Mode::Adaptive, 7);
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let (mut now, mut bytes) = (start, 0);
        for (source, destination, micros, len) in packets {
            now += Duration::from_micros(micros);
            let stream = Stream { source, destination, ..Stream::flow(source * 6 + destination, len, 1e6) };
            let _ = conditioner.mark(&stream.packet(0), &mut rng, now);
            bytes += len as u64;
            let promised = burst as f64 + rate as f64 / 8.0 * (now - start).as_secs_f64() + 1.0;
            let [kept, middle, _] = conditioner.marked().map(|marked| marked.bytes as f64);
            prop_assert!(kept <= promised, "{kept} of {promised}");
            prop_assert!(kept + middle <= 2.0 * promised, "{middle} and {kept} of {promised}");
        }
        prop_assert_eq!(conditioner.marked().iter().map(|marked| marked.bytes).sum::<u64>(), bytes);
    }

    /// What keeps to a quarter of the burst and the rate is DP0 as a whole, however uneven its flows are.
    #[test]
    fn what_conforms_is_dp0(packets in packets(), rate in 10_000_u64..100_000_000) {
        let start = Instant::now();
        let profile = Profile { rate, burst: 64_000 };
        let mut conditioner = Conditioner::new(profile, Mode::Adaptive, 7);
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut now = start;
        for (source, destination, micros, len) in packets {
            now += Duration::from_secs_f64(len as f64 * 8.0 / rate as f64) + Duration::from_micros(micros);
            let stream = Stream { source, destination, ..Stream::flow(source * 6 + destination, len, 1e6) };
            prop_assert_eq!(conditioner.mark(&stream.packet(0), &mut rng, now), Precedence::Dp0);
        }
    }

    /// So flows of QUIC reach whatever they reach as soon as those of TCP that send the same at the same times.
    #[test]
    fn quic_is_marked_as_tcp_that_sends_the_same(packets in packets(), rate in 10_000_u64..100_000_000) {
        let start = Instant::now();
        let [mut of_tcp, mut of_quic] = [(); 2].map(|()| {
            let conditioner = Conditioner::new(Profile { rate, burst: 64_000 }, Mode::Adaptive, 7);
            (conditioner, Pcg64Mcg::seed_from_u64(7))
        });
        let mut now = start;
        for (source, destination, micros, len) in packets {
            now += Duration::from_micros(micros);
            let stream = Stream { source, destination, ..Stream::flow(source * 6 + destination, len, 1e6) };
            let packet = stream.packet(0);
            prop_assert!(packet.tcp.is_some());
            let marks = [(&mut of_tcp, packet), (&mut of_quic, Facts { tcp: None, ..packet })]
                .map(|((conditioner, rng), packet)| conditioner.mark(&packet, rng, now));
            prop_assert_eq!(marks[0], marks[1]);
        }
    }

    /// Clocks that stand still or run backwards, lengths and numbers of any kind: no panic, and a mark.
    #[test]
    fn nothing_that_is_sent_makes_it_panic(
        packets in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<u8>(), 0..70_000_usize, 0..1u64 << 40), 1..200),
        rate in prop_oneof![Just(0), Just(1), any::<u64>()],
        burst in prop_oneof![Just(0), Just(1), any::<u64>()],
        flows in 0..5_usize,
    ) {
        let start = Instant::now();
        for mode in [Mode::Off, Mode::Standard, Mode::Seed(SeedRules { flows, rtt: RttRule::Throughput }), Mode::Adaptive] {
            let mut conditioner = Conditioner::new(Profile { rate, burst }, mode, 7);
            let mut rng = Pcg64Mcg::seed_from_u64(7);
            for &(flow, seq, ack, flags, len, micros) in &packets {
                let now = start + Duration::from_micros(micros);
                let tcp = Some(TcpFacts { flags, seq, ack, payload: len as u32 });
                let (source, destination) = (host(seq), host(ack));
                let packet = Facts { flow, source, destination, len, is_ce: false, tcp };
                let _ = conditioner.mark(&packet, &mut rng, now);
                conditioner.on_reply(flow, &TcpFacts { flags, seq, ack, payload: 0 }, now);
            }
            let marked: u64 = conditioner.marked().iter().map(|marked| marked.packets).sum();
            prop_assert_eq!(marked, packets.len() as u64);
        }
    }
}
