//! Small crowds, of which it can be told what must come of them.

use std::time::Duration;

use super::*;

/// Drops nothing, or all packets of a kind.
struct Silent {
    refused: Option<Kind>,
    acknowledged: u64,
}

impl Control for Silent {
    type Tag = ();

    fn admit(&mut self, packet: &Packet<()>, _now: Duration) -> bool {
        self.refused != Some(packet.kind)
    }

    fn leave(&mut self, _packet: &mut Packet<()>, _queue: usize, _now: Duration) {}

    fn come(&mut self, _packet: &Packet<()>, _is_accepted: bool, _now: Duration) {}

    fn acknowledged(&mut self, _packet: &Packet<()>, _now: Duration) {
        self.acknowledged += 1;
    }

    fn tick(&mut self, _now: Duration) {}
}

fn source(load: Load) -> SourceSetup {
    let delay = Duration::from_millis(20);
    SourceSetup { client: 0, ingress: 0, server: 0, load, from: Duration::ZERO, until: Duration::MAX, delay }
}

fn crowd(link: f64, accepted: f64, loads: &[Load]) -> Crowd<Silent> {
    let setup = CrowdSetup {
        links: vec![link],
        queue: QueueSetup { limit: 30, min: 10.0, max: 30.0, most: 0.1, weight: 0.002 },
        servers: vec![[accepted; 2]],
        burst: 0.1,
        sources: loads.iter().map(|&load| source(load)).collect(),
        on_off: OnOffSetup {
            rate: 8.0,
            on: Duration::from_millis(500),
            off: Duration::from_secs(1),
            shape: 1.5,
        },
    };
    Crowd::new(setup, Silent { refused: None, acknowledged: 0 }, 1)
}

fn per_second(crowd: &mut Crowd<Silent>, from: u64, until: u64) -> [(f64, f64); 2] {
    crowd.play(Duration::from_secs(from));
    let seen = crowd.play(Duration::from_secs(until));
    let rate = |count: u64| count as f64 / (until - from) as f64;
    seen[0].map(|seen| (rate(seen.arrived), rate(seen.accepted)))
}

#[test]
fn what_fits_arrives() {
    let mut crowd = crowd(100.0, 1000.0, &[Load::Stream(50.0)]);
    let [_, (arrived, accepted)] = per_second(&mut crowd, 1, 21);
    assert!((arrived - 50.0).abs() < 1.0 && accepted == arrived, "{arrived}");
    assert_eq!(crowd.queue_drops()[0].1, 0);
}

#[test]
fn a_full_link_carries_its_rate_and_a_server_accepts_no_more_than_its_own() {
    let mut crowd = crowd(100.0, 40.0, &[Load::Stream(300.0)]);
    let [_, (arrived, accepted)] = per_second(&mut crowd, 5, 25);
    assert!((arrived - 100.0).abs() < 1.0 && (accepted - 40.0).abs() < 1.0, "{arrived} {accepted}");
    let (offered, dropped) = crowd.queue_drops()[0];
    assert!((dropped as f64 / offered as f64 - 2.0 / 3.0).abs() < 0.05);
}

#[test]
fn connections_deliver_what_their_applications_have_where_there_is_room() {
    let mut crowd = crowd(1000.0, 1000.0, &[Load::Connections(60)]);
    let [(arrived, accepted), _] = per_second(&mut crowd, 20, 220);
    // 8 packets a second a third of the time, and one at the begin of each time on; Pareto's mean shows slowly.
    assert!((100.0..260.0).contains(&arrived) && accepted == arrived, "{arrived}");
    assert_eq!(crowd.queue_drops()[0].1, 0);
    assert!(crowd.control.acknowledged > 0);
}

#[test]
fn connections_fill_a_link_and_give_way_to_a_stream() {
    let loads = [Load::Connections(200), Load::Stream(80.0)];
    let mut both = crowd(100.0, 1000.0, &loads);
    let [(tcp, _), (udp, _)] = per_second(&mut both, 10, 40);
    assert!(tcp + udp > 97.0 && tcp + udp < 101.0, "{tcp} {udp}");
    assert!(udp > 2.0 * 80.0 / 3.0 && tcp < 50.0, "{tcp} {udp}");
    let mut alone = crowd(100.0, 1000.0, &loads);
    alone.control.refused = Some(Kind::Udp);
    let [(tcp, _), (udp, _)] = per_second(&mut alone, 10, 40);
    assert!(tcp > 97.0 && udp == 0.0, "{tcp} {udp}");
}

#[test]
fn equal_seeds_give_equal_packets() {
    let play = || crowd(100.0, 60.0, &[Load::Connections(100)]).play(Duration::from_secs(10));
    assert_eq!(play(), play());
}

#[test]
fn a_bucket_lets_its_rate_pass() {
    let mut bucket = TokenBucket::new(10.0, 0.5);
    let mut pass =
        |from: u64, until: u64| (from..until).filter(|ms| bucket.take(Duration::from_millis(*ms))).count();
    assert_eq!(pass(0, 1), 1);
    assert_eq!(pass(1, 2000), 23, "four at once, and ten a second");
    bucket.set_rate(0.0, 0.5, Duration::from_secs(2));
    assert!((2000..9000).filter(|ms| bucket.take(Duration::from_millis(*ms))).count() <= 1);
}
