//! Every way in which a link treats packets.

use std::time::Duration;

use psmc_net::packet::ETHERNET_HEADER;
use psmc_sim::link::{Discipline, DropReason, LinkConfig, Loss, Probability, QueueLimit, Rate};
use psmc_testbed::stalls::StallWatch;

use super::bench::{Arrival, Bench, frames, numbers};
use psmc_testbed::steadily::{Measured, steadily};

fn chance(chance: f64) -> Probability {
    Probability::new(chance).unwrap()
}

/// From the first arrival to the last.
fn duration(arrivals: &[Arrival]) -> Duration {
    arrivals[arrivals.len() - 1].at.duration_since(arrivals[0].at).unwrap()
}

#[test]
fn a_wire_carries_everything_in_both_directions() {
    let mut bench = Bench::new(&LinkConfig::default());
    let sent = frames(500, 900);
    for from in [0, 1] {
        bench.send(from, &sent);
        let arrivals = bench.receive(1 - from, sent.len());
        assert!(arrivals.iter().map(|arrival| &arrival.frame).eq(&sent));
        let counters = bench.counters(from);
        assert_eq!((counters.entered_packets, counters.carried_packets), (500, 500));
        assert_eq!(counters.entered_bytes, 500 * 900);
    }
    assert_eq!(bench.health().lateness.count(), 1000);
}

#[test]
fn nothing_arrives_before_its_delay() {
    let delay = Duration::from_millis(30);
    let mut bench = Bench::new(&LinkConfig { delay, ..LinkConfig::default() });
    for _ in 0..10 {
        let before = std::time::SystemTime::now();
        bench.send(0, &frames(1, 100));
        let arrival = &bench.receive(1, 1)[0];
        let took = arrival.at.duration_since(before).unwrap();
        assert!(took >= delay, "{took:?}");
        assert!(took < delay * 20, "{took:?}");
    }
}

#[test]
fn packets_come_as_fast_as_the_rate_lets_them() {
    steadily(Measured::Rate, || {
        // A packet a millisecond.
        let rate = Rate::Fixed(8_000_000);
        let mut bench = Bench::new(&LinkConfig { rate, ..LinkConfig::default() });
        let watch = StallWatch::start().unwrap();
        bench.send(0, &frames(201, 1000));
        let took = duration(&bench.receive(1, 201)).as_secs_f64();
        // Either of the two may have been late, but a mean over two hundred is not far off.
        let longest = 0.3 + watch.finish().longest.as_secs_f64();
        assert!((0.19..longest).contains(&took), "{took}, {longest}");
    });
}

#[test]
fn a_full_queue_drops_the_last() {
    steadily(Measured::Loss, || {
        let config = LinkConfig {
            rate: Rate::Fixed(8_000_000),
            queue: QueueLimit::Packets(10),
            ..LinkConfig::default()
        };
        let mut bench = Bench::new(&config);
        bench.send(0, &frames(100, 1000));
        let arrivals = bench.receive_all(1, 100);
        // One is being sent, ten wait; some may leave before the last has entered.
        assert!((11..60).contains(&arrivals.len()), "{}", arrivals.len());
        assert_eq!(numbers(&arrivals)[..11], (0..11).collect::<Vec<_>>());
        let full = bench.counters(0).dropped_for(DropReason::QueueFull);
        assert_eq!(full + arrivals.len() as u64, 100);
    });
}

#[test]
fn as_many_get_lost_as_the_chance_says() {
    let mut bench = Bench::new(&LinkConfig { loss: Loss::Random(chance(0.2)), ..LinkConfig::default() });
    let sent = frames(4000, 100);
    for part in sent.chunks(500) {
        bench.send(0, part);
    }
    let arrived = bench.receive_all(1, 4000).len();
    // Five standard deviations of a binomial distribution are 126.
    assert!((3074..=3326).contains(&arrived), "{arrived}");
    let counters = bench.counters(0);
    assert_eq!(counters.carried_packets, arrived as u64);
    assert_eq!(counters.dropped_for(DropReason::Loss), 4000 - arrived as u64);
}

#[test]
fn what_gets_lost_last_is_counted() {
    let config =
        LinkConfig { rate: Rate::Fixed(1_000_000), loss: Loss::Random(chance(1.0)), ..LinkConfig::default() };
    let mut bench = Bench::new(&config);
    bench.send(0, &frames(5, 1000));
    assert!(bench.receive_all(1, 5).is_empty());
    assert_eq!(bench.counters(0).dropped_for(DropReason::Loss), 5);
}

#[test]
fn losses_come_in_bursts() {
    let loss = Loss::GilbertElliott {
        to_bad: chance(0.05),
        to_good: chance(0.2),
        loss_good: chance(0.0),
        loss_bad: chance(1.0),
    };
    let mut bench = Bench::new(&LinkConfig { loss, ..LinkConfig::default() });
    let sent = frames(4000, 100);
    for part in sent.chunks(500) {
        bench.send(0, part);
    }
    let numbers = numbers(&bench.receive_all(1, 4000));
    let bursts = numbers.windows(2).filter(|pair| pair[1] - pair[0] > 1).count();
    let lost = 4000 - numbers.len();
    // A fifth is lost, five at a time.
    assert!((500..1100).contains(&lost), "{lost}");
    let length = lost as f64 / bursts as f64;
    assert!((3.5..6.5).contains(&length), "{length}");
}

#[test]
fn a_duplicate_follows_its_original() {
    let mut bench = Bench::new(&LinkConfig { duplicate: chance(1.0), ..LinkConfig::default() });
    bench.send(0, &frames(100, 200));
    let twice: Vec<u32> = (0..100).flat_map(|number| [number, number]).collect();
    assert_eq!(numbers(&bench.receive(1, 200)), twice);
    assert_eq!(bench.counters(0).carried_packets, 100);
}

#[test]
fn corruption_flips_one_bit_of_the_packet() {
    let mut bench = Bench::new(&LinkConfig { corrupt: chance(1.0), ..LinkConfig::default() });
    let sent = frames(200, 300);
    bench.send(0, &sent);
    for (arrival, sent) in bench.receive(1, 200).iter().zip(&sent) {
        let differences = arrival.frame.iter().zip(sent).map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(differences.sum::<u32>(), 1);
        assert_eq!(arrival.frame[..ETHERNET_HEADER], sent[..ETHERNET_HEADER]);
    }
}

#[test]
fn a_packet_that_is_sent_ahead_overtakes() {
    let config =
        LinkConfig { delay: Duration::from_millis(100), reorder: chance(0.3), ..LinkConfig::default() };
    let mut bench = Bench::new(&config);
    bench.send(0, &frames(300, 100));
    let mut numbers = numbers(&bench.receive(1, 300));
    assert!(!numbers.is_sorted());
    let ahead = numbers.iter().take_while(|number| **number != numbers[299]).count();
    assert!(ahead > 0);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
}

#[test]
fn what_is_longer_than_the_mtu_vanishes() {
    let mut bench = Bench::new(&LinkConfig { mtu: Some(1000), ..LinkConfig::default() });
    bench.send(0, &frames(1, 1001));
    bench.send(0, &frames(1, 1000));
    let arrivals = bench.receive_all(1, 2);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].frame.len(), ETHERNET_HEADER + 1000);
    assert_eq!(bench.counters(0).dropped_for(DropReason::TooLong), 1);
}

#[test]
fn jumbo_frames_pass_where_the_mtu_lets_them() {
    let mut bench = Bench::new(&LinkConfig { mtu: Some(9000), ..LinkConfig::default() });
    let sent = frames(50, 9000);
    bench.send(0, &sent);
    assert!(bench.receive(1, 50).iter().map(|arrival| &arrival.frame).eq(&sent));
}

#[test]
fn a_queue_that_grows_is_marked_and_the_checksum_stays_right() {
    let discipline = Discipline::CoDel {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(20),
        ecn: true,
    };
    let config = LinkConfig { rate: Rate::Fixed(8_000_000), discipline, ..LinkConfig::default() };
    let mut bench = Bench::new(&config);
    bench.send(0, &vec![ect0_packet(); 300]);
    let arrivals = bench.receive(1, 300);
    let marked: Vec<_> =
        arrivals.iter().filter(|arrival| arrival.frame[ETHERNET_HEADER + 1] & 3 == 3).collect();
    assert_eq!(marked.len() as u64, bench.counters(0).marked_packets);
    assert!(!marked.is_empty());
    assert!(marked.iter().all(|arrival| header_sum(&arrival.frame) == 0xffff));
}

/// An IPv4 packet of 1000 bytes, from an ECN-capable sender to nobody.
fn ect0_packet() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 2, 0x03, 0xe8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let checksum = !header_sum(&frame);
    frame[ETHERNET_HEADER + 10..ETHERNET_HEADER + 12].copy_from_slice(&checksum.to_be_bytes());
    frame.resize(ETHERNET_HEADER + 1000, 0);
    frame
}

/// The sum of the words of an IPv4 header, in ones' complement.
fn header_sum(frame: &[u8]) -> u16 {
    let header = &frame[ETHERNET_HEADER..ETHERNET_HEADER + 20];
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()
}
