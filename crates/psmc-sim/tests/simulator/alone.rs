//! Nobody else is on the paths: what varies and what is lost there is not taken for others.

use psmc_sim::link::{Jitter, LinkConfig};

use crate::world::{bulk, direction, lossy, ms, pair, secs};

/// Megabits per second of payload that a flow has of two paths of 40 and 25 Mb/s that lose so much of a hundred, in the minute
/// after it has found its rate.
fn goodput(loss: f64, seed: u64) -> f64 {
    let path = |mbit, delay, spread, queue| {
        let there = LinkConfig { jitter: Jitter::Normal(ms(spread)), ..direction(mbit, ms(delay), queue) };
        [lossy(there, loss), direction(mbit, ms(delay), queue)]
    };
    let (mut lab, hosts, ids) = pair(seed, &[path(40, 15, 5, 100), path(25, 22, 8, 94)]);
    lab.tunnel(hosts, &ids, 0);
    let flow = lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(1000)]);
    lab.run_for(secs(10));
    lab.goodput(flow, secs(60))
}

/// Rounds look at times as if others kept a queue, as queues grow and shrink with what varies. A window that gives way at
/// each loss is 17 datagrams long where 0.5 % is lost, and these paths hold more than a hundred.
#[test]
fn a_path_that_varies_and_loses_is_not_taken_for_a_contested_one() {
    for (loss, least) in [(0.1, 51.0), (0.5, 52.0), (1.0, 50.0)] {
        let rates = std::thread::scope(|scope| {
            let runs = [1, 2, 3, 4].map(|seed| scope.spawn(move || goodput(loss, seed)));
            runs.map(|run| run.join().expect("it runs"))
        });
        println!("{loss} %: {rates:.1?} Mb/s");
        assert!(rates.iter().all(|mbps| *mbps >= least), "{loss} %: {rates:.1?} Mb/s");
    }
}
