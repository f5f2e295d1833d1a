//! Several models over one link.

use super::*;

/// The mean queue, in milliseconds, and the evenness of shares (Jain's index) of so many models a minute after the first of them has begun,
/// over links of many kinds whose queues hold 200 ms; the others begin one after the other.
fn crowded(count: u32) -> (f64, f64) {
    let (mut queue, mut evenness, mut runs) = (0.0, 0.0, 0.0);
    for (mbit, rtt) in [(10, 5), (100, 5), (50, 20), (10, 40), (50, 40), (20, 100)] {
        for apart in [1370, 7000] {
            let start = Instant::now();
            let flows =
                (0..count).map(|number| model(start + number * Duration::from_millis(apart))).collect();
            let mut sim = Sim::new(Link::new(mbit * MBIT, Duration::from_millis(rtt)), flows, start);
            sim.run_until(60.0);
            let before: Vec<_> = sim.flows.iter().map(|flow| flow.acked).collect();
            let measured = sim.run_until(90.0);
            let shares = sim.flows.iter().zip(before).map(|(flow, before)| (flow.acked - before) as f64);
            let (sum, squares) =
                shares.fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
            assert!(measured.utilisation >= 0.94, "{count} over {mbit} Mb/s, {rtt} ms: {measured:?}");
            queue += measured.queueing.as_secs_f64() * 1e3;
            evenness += sum * sum / (f64::from(count) * squares);
            runs += 1.0;
        }
    }
    (queue / runs, evenness / runs)
}

/// Each would have a short queue, and takes for the path's rate what it was left once.
#[test]
fn several_share_a_short_queue() {
    for (count, most) in [(2, 40.0), (3, 60.0), (4, 95.0)] {
        let (queue, evenness) = crowded(count);
        println!("{count}: {queue:.1} ms, {evenness:.3}");
        assert!(queue <= most && evenness >= 0.82, "{count}: {queue} ms, {evenness}");
    }
}
