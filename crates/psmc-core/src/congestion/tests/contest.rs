//! The model beside senders that keep the queue, and beside others like it.

use super::cubic::cubic;
use super::*;

/// A link whose queue holds so many bandwidth-delay products, on which the model and CUBIC send.
fn contested(rate: u64, rtt: Duration, products: u32) -> Sim {
    contested_from(rate, rtt, products, [Duration::ZERO; 2])
}

/// The same where the two begin some time after the start.
fn contested_from(rate: u64, rtt: Duration, products: u32, after: [Duration; 2]) -> Sim {
    let start = Instant::now();
    let link = Link { queue: products * rtt, ..Link::new(rate, rtt) };
    Sim::new(link, vec![model(start + after[0]), cubic(start + after[1])], start)
}

#[test]
fn takes_half_beside_cubic() {
    let mut shares = Vec::new();
    for (products, mbit, rtt) in [1, 2, 4].into_iter().flat_map(|products| {
        [(10, 40), (50, 20), (50, 40), (20, 100)].map(|(mbit, rtt)| (products, mbit, rtt))
    }) {
        for after in [[0, 0], [5, 0], [0, 5]].map(|after| after.map(Duration::from_secs)) {
            let mut sim = contested_from(mbit * MBIT, Duration::from_millis(rtt), products, after);
            sim.run_until(20.0);
            let before = [0, 1].map(|flow| sim.flows[flow].acked);
            let measured = sim.run_until(140.0);
            let [ours, others] = [0, 1].map(|flow| (sim.flows[flow].acked - before[flow]) as f64);
            let share = ours / (ours + others);
            let what = format!("{products} products, {mbit} Mb/s, {rtt} ms, {after:?}: {share} {measured:?}");
            assert!((0.38..=0.66).contains(&share) && measured.utilisation >= 0.95, "{what}");
            shares.push(share);
        }
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!((0.46..=0.54).contains(&mean), "{mean} of {shares:.2?}");
}

/// Alone again it would keep a queue for nobody.
#[test]
fn yields_the_queue_when_the_others_are_gone() {
    for (mbit, rtt) in [(10, 40), (50, 20), (20, 100)] {
        let (rate, rtt) = (mbit * MBIT, Duration::from_millis(rtt));
        let mut sim = contested(rate, rtt, 2);
        let beside = sim.run_until(30.0);
        assert!(beside.queueing > rtt / 3, "{mbit} Mb/s: {beside:?}");
        sim.flows[1].backlog = Some(0);
        sim.run_until(45.0);
        assert_used("alone again", &Link::new(rate, rtt), &sim.run_until(55.0), 0.95);
    }
}

/// Where nobody keeps a queue and more is lost than a window that gives way at each loss can bear, it does not take trials to see
/// that it is ours alone that leaves the path idle.
#[test]
fn a_contest_ends_where_no_queue_is_left() {
    for (mbit, rtt) in [(10, 40), (50, 20), (20, 100)] {
        let (rate, rtt) = (mbit * MBIT, Duration::from_millis(rtt));
        let mut sim = contested(rate, rtt, 2);
        sim.run_until(30.0);
        sim.flows[1].backlog = Some(0);
        sim.set_loss(20);
        sim.run_until(34.0);
        let alone = sim.run_until(39.0);
        assert!(alone.utilisation >= 0.85, "{mbit} Mb/s: {alone:?}");
    }
}

/// It looks as if others kept a queue, for ten seconds and more, and some is lost meanwhile.
#[test]
fn a_path_that_becomes_longer_keeps_a_short_queue() {
    for longer in [30, 60] {
        let rtt = micros(20_000);
        let link = Link { queue: Duration::from_secs(1), loss: 1, ..Link::new(40 * MBIT, rtt) };
        let mut sim = one_flow(link);
        sim.run_until(5.0);
        let rtt = rtt + Duration::from_millis(longer);
        sim.set_rtt(rtt);
        sim.run_until(50.0);
        assert_used("longer", &Link::new(40 * MBIT, rtt), &sim.run_until(60.0), 0.90);
    }
}

/// What was sent at the rate of before stands in the queue, and may overflow it.
#[test]
fn a_path_that_becomes_slower_keeps_a_short_queue() {
    for queue in [30, 60, 200] {
        for rtt in &RTTS {
            for percent in [20, 35, 50, 65, 75, 80, 90] {
                let link = Link { queue: Duration::from_millis(queue), ..Link::new(20 * MBIT, *rtt) };
                let mut sim = one_flow(link);
                sim.run_until(5.0);
                let rate = 20 * MBIT * percent / 100;
                sim.set_rate(rate);
                sim.run_until(25.0);
                let queueing = sim.run_until(30.0).queueing;
                let most = tolerable_queue(rate, *rtt) * 3 / 2;
                assert!(queueing <= most, "{percent} % of {link:?}: a queue of {queueing:?}");
            }
        }
    }
}

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
