//! Traffic of people, and routers that condition it.

use std::time::Instant;

use psmc_sim::link::{Discipline, LinkConfig, QueueLimit};
use psmc_sim::{Conditioner, CongestionControl, TcpSetup, TrafficKind, WebModel};

use crate::world::{direction, ms, pair, secs};

const TCP: TcpSetup =
    TcpSetup { congestion_control: CongestionControl::Reno, mtu: 1024, buffer: 62_000, ecn: false };

#[test]
fn transfers_come_and_go_and_bring_what_their_means_say() {
    let there = direction(50, ms(5), 100);
    let (mut lab, [a, b], _) = pair(1, &[[there.clone(), there]]);
    let kind = TrafficKind::Transfers { tcp: TCP, users: 20, mean_bytes: 20_000.0, mean_pause: ms(100) };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(60)]);
    lab.run_for(secs(61));
    let tally = lab.tally(traffic);
    // A round lasts for the pause, and a few round trips of 10 ms: between 110 and 200 ms.
    assert!((6_000..11_000).contains(&tally.sent), "{} transfers", tally.sent);
    assert!((0.9..1.1).contains(&(tally.bytes as f64 / tally.sent as f64 / 20_000.0)), "{tally:?}");
    assert_eq!(tally.broken, 0);
}

#[test]
fn each_packet_that_is_typed_arrives_after_the_delay_of_the_link() {
    let there = direction(10, ms(30), 100);
    let (mut lab, [a, b], _) = pair(1, &[[there.clone(), there]]);
    let kind = TrafficKind::Telnet { tcp: TCP, users: 5, packets: 10..=35, payload: 900, mean_gap: ms(500) };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(100)]);
    lab.run_for(secs(99));
    let tally = lab.tally(traffic);
    // A twentieth of the time or so goes into opening and closing, between sessions.
    assert!((700..1_100).contains(&tally.sent), "{} packets", tally.sent);
    assert!(tally.sent - tally.arrived <= 5, "{} of {} have arrived", tally.arrived, tally.sent);
    let near = tally.delays.iter().filter(|delay| (ms(30)..ms(35)).contains(*delay)).count();
    assert!(near > tally.delays.len() * 9 / 10, "{near} of {}", tally.delays.len());
}

#[test]
fn pages_begin_after_two_round_trips_and_are_complete_later() {
    let there = direction(10, ms(25), 100);
    let (mut lab, [a, b], _) = pair(1, &[[there.clone(), there]]);
    let model = WebModel {
        pages: 5,
        between_pages: secs(1),
        more_objects: 3.0,
        between_objects: ms(10),
        object_bytes: 10_000.0,
        shape: 1.2,
        most_bytes: 1e6,
    };
    let traffic =
        lab.traffic(TrafficKind::Web { tcp: TCP, users: 5, model }, a, b, "10.1.0.2", [ms(0), secs(60)]);
    lab.run_for(secs(60));
    let tally = lab.tally(traffic);
    assert!(tally.sent > 300 && tally.broken == 0, "{tally:?}");
    assert!(tally.sent - tally.arrived <= 30 && tally.begun >= tally.arrived, "{tally:?}");
    assert!(tally.delays.iter().all(|delay| *delay >= ms(100)), "two round trips at least");
}

/// Marks packets by turns: AF11 and AF13.
struct ByTurns(bool);

impl Conditioner for ByTurns {
    fn leave(&mut self, packet: &mut [u8], _now: Instant) -> bool {
        self.0 = !self.0;
        packet[1] = packet[1] & 0b11 | if self.0 { 10 } else { 14 } << 2;
        true
    }
}

/// Drops every packet.
struct Closed;

impl Conditioner for Closed {
    fn leave(&mut self, _packet: &mut [u8], _now: Instant) -> bool {
        false
    }
}

#[test]
fn what_a_conditioner_marks_is_what_routers_drop() {
    let there = LinkConfig::new(8_000_000, ms(5))
        .with_queue(QueueLimit::Packets(100))
        .with_discipline(Discipline::Rio { ecn: false });
    let (mut lab, [a, b], links) = pair(1, &[[there.clone(), there]]);
    assert!(lab.world.set_conditioner(a, links[0], Box::new(ByTurns(false))));
    lab.world.watch_drops(links[0], 0);
    // With headers a quarter more than the link carries.
    let kind = TrafficKind::Udp { rate: 9_720_000, payload: 972 };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(20)]);
    lab.run_for(secs(21));
    let dropped: Vec<_> = std::iter::from_fn(|| lab.world.poll_dropped()).collect();
    let tally = lab.tally(traffic);
    assert_eq!(dropped.len() as u64, tally.sent - tally.arrived);
    assert!(
        dropped.len() > 4_000 && dropped.iter().all(|drop| drop.packet[1] >> 2 == 14),
        "{}",
        dropped.len()
    );
    assert!(lab.world.set_conditioner(a, links[0], Box::new(Closed)));
    let kind = TrafficKind::Ping { interval: ms(100), payload: 56 };
    let now = lab.world.now() - lab.start;
    let ping = lab.traffic(kind, a, b, "10.1.0.2", [now, now + secs(2)]);
    lab.run_for(secs(3));
    assert_eq!((lab.tally(ping).sent, lab.tally(ping).arrived), (20, 0));
}
