//! Several models over one link.

use super::*;

/// Each would have a short queue, and takes for the path's rate what it was left once.
#[test]
fn two_share_a_short_queue() {
    for (mbit, rtt) in [(10, 5), (100, 5), (50, 20), (10, 40), (50, 40), (20, 100)] {
        let (rate, rtt) = (mbit * MBIT, Duration::from_millis(rtt));
        let start = Instant::now();
        let flows = vec![model(start), model(start + Duration::from_millis(1370))];
        let mut sim = Sim::new(Link::new(rate, rtt), flows, start);
        sim.run_until(60.0);
        let before = [0, 1].map(|flow| sim.flows[flow].acked);
        let measured = sim.run_until(90.0);
        let [first, second] = [0, 1].map(|flow| (sim.flows[flow].acked - before[flow]) as f64);
        let share = first / (first + second);
        let what = format!("{mbit} Mb/s, {rtt:?}: {share} {measured:?}");
        println!("{what}");
        assert!((0.42..=0.58).contains(&share), "{what}");
        assert!(measured.utilisation >= 0.94 && measured.dropped == 0, "{what}");
        assert!(measured.queueing <= tolerable_queue(rate, rtt), "{what}");
    }
}
