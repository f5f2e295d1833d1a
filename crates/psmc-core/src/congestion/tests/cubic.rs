//! CUBIC, which fills queues and yields to losses.

use super::*;

pub(super) fn cubic(begins: Instant) -> Flow {
    Flow::new(CongestionConfig::Cubic.build(1400), begins)
}

fn run(link: Link) -> Sim {
    let start = Instant::now();
    Sim::new(link, vec![cubic(start)], start)
}

/// A link whose queue holds what the link does, and a batch or two.
fn deep(rate: u64, rtt: Duration) -> Link {
    let batches = Duration::from_secs_f64((32 * SIZE * 8) as f64 / rate as f64);
    Link { queue: rtt + batches, ..Link::new(rate, rtt) }
}

#[test]
fn fills_links_with_a_queue_of_a_round_trip() {
    for rate in &RATES[..4] {
        for rtt in RTTS {
            let link = deep(*rate, rtt);
            let mut sim = run(link);
            sim.run_until(5.0);
            let measured = sim.run_until(25.0);
            // Hosts that are late by milliseconds empty the shortest of these queues.
            assert!(measured.utilisation >= 0.93, "{link:?} {measured:?}");
            let packets = 20 * rate / 8 / SIZE;
            assert!(measured.dropped * 100 <= 2 * packets + 100, "{link:?} {measured:?}");
        }
    }
}

/// A slow start that only loss ends loses about as much as the link and its queue hold. HyStart++ sees a queue by
/// the smallest round trip of a round, a round late, and then still grows for five: it loses some, far less.
#[test]
fn slow_start_overshoots_by_little() {
    for rtt in [micros(20_000), micros(50_000), micros(100_000)] {
        let link = Link { queue: 4 * rtt, ..Link::new(40 * MBIT, rtt) };
        let holds = (40 * MBIT / 8) as f64 * (link.rtt + link.queue).as_secs_f64() / SIZE as f64;
        let measured = run(link).run_until(4.0);
        assert!((measured.dropped as f64) < 0.4 * holds, "{link:?} {holds} {measured:?}");
    }
}

#[test]
fn two_flows_share_a_bottleneck() {
    for rate in [10 * MBIT, 100 * MBIT] {
        for rtt in [micros(5_000), micros(20_000)] {
            let start = Instant::now();
            let flows = vec![cubic(start), cubic(start + Duration::from_secs(2))];
            let mut sim = Sim::new(deep(rate, rtt), flows, start);
            sim.run_until(20.0);
            let before = [sim.flows[0].acked, sim.flows[1].acked];
            let measured = sim.run_until(80.0);
            let shares = [0, 1].map(|n| (sim.flows[n].acked - before[n]) as f64 / (60.0 * rate as f64 / 8.0));
            assert!(measured.utilisation >= 0.95, "{rate} {rtt:?} {measured:?}");
            assert!(shares.iter().all(|&share| share >= 0.3), "{rate} {rtt:?} {shares:?}");
        }
    }
}

#[test]
fn random_loss_slows_it_down_as_it_does_any_tcp() {
    let rtt = micros(20_000);
    let link = Link { loss: 20, ..Link::new(100 * MBIT, rtt) };
    let mut sim = run(link);
    sim.run_until(2.0);
    let measured = sim.run_until(12.0);
    // Mathis: 1.22 datagrams per round trip / sqrt(2 %) are 4.8 Mb/s; CUBIC's is somewhat more.
    assert!((0.02..=0.2).contains(&measured.utilisation), "{measured:?}");
}

#[test]
fn an_application_that_sends_little_does_not_open_the_window() {
    let mut sim = run(Link::new(100 * MBIT, micros(20_000)));
    for tenth in 1..=50 {
        sim.flows[0].backlog = Some(20 * SIZE);
        sim.run_until(f64::from(tenth) / 10.0);
    }
    let window = sim.flows[0].controller.window();
    // Twice what is used, and what one acknowledgement covers.
    assert!(window <= (2 * 20 + 16) * SIZE, "{window}");
}
