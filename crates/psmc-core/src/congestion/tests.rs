//! The controllers against a simulated bottleneck.

mod bottleneck;
mod contest;
mod cubic;
mod flow;

use std::time::{Duration, Instant};

use super::CongestionConfig;
use bottleneck::{Link, Measured, Sim};
use flow::{Flow, SIZE};

const MBIT: u64 = 1_000_000;
const RATES: [u64; 5] = [MBIT, 10 * MBIT, 40 * MBIT, 100 * MBIT, 1000 * MBIT];
const RTTS: [Duration; 4] = [micros(200), micros(5_000), micros(20_000), micros(100_000)];

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn model(begins: Instant) -> Flow {
    Flow::new(CongestionConfig::Model.build(1400), begins)
}

fn one_flow(link: Link) -> Sim {
    let start = Instant::now();
    Sim::new(link, vec![model(start)], start)
}

/// What a link's queue may hold on average: a quarter of the round trip, the allowance for late hosts, and a few
/// datagrams, which on a slow link are long.
fn tolerable_queue(rate: u64, rtt: Duration) -> Duration {
    rtt / 4 + Duration::from_millis(14) + Duration::from_secs_f64(3.0 * (SIZE * 8) as f64 / rate as f64)
}

fn assert_used(what: &str, link: &Link, measured: &Measured, least: f64) {
    assert!(measured.utilisation >= least, "{what}: {link:?} {measured:?}");
    assert!(measured.queueing <= tolerable_queue(link.rate, link.rtt), "{what}: {link:?} {measured:?}");
}

#[test]
fn fills_any_link_and_keeps_its_queue_short() {
    for rate in RATES {
        for rtt in RTTS {
            let link = Link::new(rate, rtt);
            let mut sim = one_flow(link);
            sim.run_until(2.0);
            let measured = sim.run_until(6.0);
            assert_used("steady", &link, &measured, 0.95);
            assert_eq!(measured.dropped, 0, "{link:?}");
        }
    }
}

/// A flow that has been on a link for 13 seconds, and how many datagrams of a thousand the last ten of them have lost.
fn settled(link: Link) -> (Sim, u64) {
    let mut sim = one_flow(link);
    sim.run_until(3.0);
    let measured = sim.run_until(13.0);
    assert_used("settled", &link, &measured, 0.95);
    let packets = 10 * link.rate / 8 / SIZE;
    (sim, (measured.dropped * 1000).div_ceil(packets))
}

#[test]
fn a_shallow_queue_loses_little() {
    for rate in [10 * MBIT, 100 * MBIT] {
        for rtt in RTTS {
            let link = Link { queue: Duration::from_millis(20), ..Link::new(rate, rtt) };
            let (_, lost) = settled(link);
            assert!(lost <= 30, "{link:?} {lost}");
        }
    }
}

/// No round trip shows a queue that overflows at once: only what probes lose tells that the path is full.
#[test]
fn a_queue_too_short_for_probes_loses_little() {
    for (mbit, rtt, queue) in [(50, 20, 4), (100, 8, 4), (300, 8, 4), (300, 8, 2), (500, 2, 2)] {
        let rate = mbit * MBIT;
        let link = Link { queue: micros(1_000 * queue), ..Link::new(rate, micros(1_000 * rtt)) };
        let (mut sim, lost) = settled(link);
        assert!(lost <= 20, "{link:?} {lost}");
        sim.set_rate(2 * rate);
        sim.run_until(14.0);
        assert_used("then faster", &link, &sim.run_until(16.0), 0.95);
    }
}

/// A TCP connection inside sends two packets for each that arrives, and so never more than the window lets go.
#[test]
fn a_slow_start_inside_finds_a_slow_path_before_its_queue_is_long() {
    const STEPS: u32 = 300;
    for rate in [MBIT / 2, MBIT, 4 * MBIT] {
        let link = Link { queue: Duration::from_secs(5), ..Link::new(rate, micros(3_000)) };
        let mut sim = one_flow(link);
        sim.flows[0].backlog = Some(10 * SIZE);
        let (mut queueing, mut used) = (0.0, 0.0);
        for step in 1..=STEPS {
            let before = sim.flows[0].acked;
            let measured = sim.run_until(f64::from(step) / 100.0);
            let flow = &mut sim.flows[0];
            let arrived = flow.acked - before;
            flow.backlog = flow.backlog.map(|bytes| bytes + 2 * arrived);
            queueing += measured.queueing.as_secs_f64() / f64::from(STEPS);
            used += measured.utilisation / f64::from(STEPS);
        }
        let packets = queueing * rate as f64 / (8 * SIZE) as f64;
        assert!(packets <= 12.0 && used >= 0.9, "{link:?}: a queue of {packets} packets, {used} of it used");
    }
}

/// A window inside that is full is sent in bursts, which stand in the queue while there is nothing more to send: on what the
/// startup allows, a scheduler would go on to give all of each burst to this path.
#[test]
fn bursts_that_queue_end_the_startup() {
    // On a longer path they are no more than what may vary there.
    for rtt in &RTTS[..3] {
        let mut sim = one_flow(Link::new(40 * MBIT, *rtt));
        for burst in 1..=40 {
            // Five eighths of what the path carries.
            sim.flows[0].backlog = Some(45 * SIZE);
            sim.run_until(f64::from(burst) / 50.0);
        }
        let allowed = sim.flows[0].controller.pacing_rate() * 8;
        assert!(allowed <= 60 * MBIT, "{rtt:?}: {allowed}");
        sim.flows[0].backlog = None;
        sim.run_until(1.5);
        let measured = sim.run_until(3.5);
        assert_used("then more", &Link::new(40 * MBIT, *rtt), &measured, 0.95);
    }
}

/// The same load without bursts says nothing of what the path could carry.
#[test]
fn a_light_load_leaves_the_startup_alone() {
    for rtt in RTTS {
        let mut sim = one_flow(Link::new(100 * MBIT, rtt));
        for step in 1..=400 {
            sim.flows[0].backlog = Some(2 * SIZE);
            sim.run_until(f64::from(step) / 500.0);
        }
        sim.flows[0].backlog = None;
        sim.run_until(1.3);
        let measured = sim.run_until(2.3);
        assert!(measured.utilisation >= 0.90, "{rtt:?}: {measured:?}");
    }
}

#[test]
fn random_loss_does_not_slow_it_down() {
    for rate in &RATES[..4] {
        for rtt in RTTS {
            let link = Link { loss: 20, ..Link::new(*rate, rtt) };
            let mut sim = one_flow(link);
            sim.run_until(2.0);
            assert_used("loss", &link, &sim.run_until(5.0), 0.90);
        }
    }
}

/// Congestion answers to who sends less; chance does not.
#[test]
fn heavy_loss_by_chance_is_found_out() {
    for loss in [100, 200, 300] {
        for rate in &RATES[1..4] {
            for rtt in &RTTS[1..] {
                let link = Link { loss, ..Link::new(*rate, *rtt) };
                let mut sim = one_flow(link);
                sim.run_until(10.0);
                assert_used("heavy loss", &link, &sim.run_until(20.0), 0.85);
                sim.set_loss(0);
                sim.run_until(25.0);
                let measured = sim.run_until(30.0);
                let (used, dropped) = (measured.utilisation, measured.dropped * 8 * SIZE);
                assert!(used >= 0.95 && dropped <= 5 * rate / 100, "then none: {link:?} {measured:?}");
            }
        }
    }
}

#[test]
fn follows_a_rate_that_falls() {
    for (rtt, settled) in RTTS.into_iter().zip([1.5, 1.5, 1.5, 2.0]) {
        let mut sim = one_flow(Link::new(40 * MBIT, rtt));
        sim.run_until(4.0);
        sim.set_rate(4 * MBIT);
        sim.run_until(4.0 + settled);
        assert_used("fall", &Link::new(4 * MBIT, rtt), &sim.run_until(8.0), 0.90);
    }
}

#[test]
fn follows_a_rate_that_rises() {
    for rtt in RTTS {
        let mut sim = one_flow(Link::new(4 * MBIT, rtt));
        sim.run_until(4.0);
        sim.set_rate(40 * MBIT);
        sim.run_until(7.0);
        assert_used("rise", &Link::new(40 * MBIT, rtt), &sim.run_until(9.0), 0.95);
    }
}

#[test]
fn two_flows_share_a_bottleneck() {
    for rate in [10 * MBIT, 100 * MBIT] {
        for rtt in RTTS {
            let start = Instant::now();
            let flows = vec![model(start), model(start + Duration::from_secs(2))];
            let mut sim = Sim::new(Link::new(rate, rtt), flows, start);
            sim.run_until(4.0);
            let before = [sim.flows[0].acked, sim.flows[1].acked];
            let measured = sim.run_until(34.0);
            let shares = [0, 1].map(|n| (sim.flows[n].acked - before[n]) as f64 / (30.0 * rate as f64 / 8.0));
            assert!(measured.utilisation >= 0.95, "{rate} {rtt:?} {measured:?}");
            assert!(shares.iter().all(|&share| share >= 0.2), "{rate} {rtt:?} {shares:?}");
        }
    }
}

#[test]
fn does_not_throttle_a_path_that_only_the_processor_limits() {
    for processor in [500 * MBIT, 2000 * MBIT, 5000 * MBIT] {
        for rtt in [micros(100), micros(500)] {
            let start = Instant::now();
            let mut flow = model(start);
            flow.processor = processor / 8;
            let mut sim = Sim::new(Link::new(10_000 * MBIT, rtt), vec![flow], start);
            sim.run_until(0.4);
            let used = sim.run_until(1.4).utilisation * 10_000.0 * MBIT as f64;
            assert!(used >= 0.95 * processor as f64, "{processor} {rtt:?}: {used}");
        }
    }
}

#[test]
fn an_idle_time_does_not_make_it_forget() {
    let mut sim = one_flow(Link::new(100 * MBIT, micros(20_000)));
    sim.run_until(3.0);
    for tenth in 1..=50 {
        sim.flows[0].backlog = Some(20 * SIZE);
        sim.run_until(3.0 + f64::from(tenth) / 10.0);
    }
    let remembered = sim.flows[0].controller.bandwidth().unwrap() * 8;
    assert!((90 * MBIT..=110 * MBIT).contains(&remembered), "{remembered}");
    sim.flows[0].backlog = None;
    sim.run_until(8.1);
    let measured = sim.run_until(9.0);
    assert!(measured.utilisation >= 0.95, "{measured:?}");
}

#[test]
fn the_fixed_rate_ignores_loss() {
    let start = Instant::now();
    let flow = Flow::new(CongestionConfig::Fixed { rate: 50 * MBIT }.build(1400), start);
    let link = Link { loss: 200, ..Link::new(100 * MBIT, micros(100_000)) };
    let mut sim = Sim::new(link, vec![flow], start);
    sim.run_until(1.0);
    let measured = sim.run_until(4.0);
    assert!((0.38..=0.42).contains(&measured.utilisation), "{measured:?}");
}

#[test]
fn a_restart_forgets_the_path() {
    let mut sim = one_flow(Link::new(100 * MBIT, micros(20_000)));
    sim.run_until(2.0);
    let now = sim.now;
    let controller = &mut sim.flows[0].controller;
    controller.on_restart(now);
    assert_eq!(controller.bandwidth(), None);
    assert_eq!(controller.window(), 32 * 1400);
}
