//! Streams that leave room on their paths: none of these is taken for slower, better or emptier than it is.

use std::time::Duration;

use psmc_sim::TrafficKind;
use psmc_sim::link::{Jitter, LinkConfig};

use crate::world::{self, bulk, direction, ms, pair, secs};

/// Payload of the datagrams, bytes.
const PAYLOAD: usize = 1200;

/// How much longer, on average, a datagram may take over several paths than over one.
const MOST_ADDED: Duration = Duration::from_millis(5);

/// Pings alone, and then a flow beside them: the share that the lesser of two equal paths has of it, whose delays vary.
fn lesser_share(seed: u64) -> f64 {
    let varying = LinkConfig { jitter: Jitter::Normal(ms(20)), ..direction(20, ms(25), 84) };
    let link = [varying, direction(20, ms(25), 84)];
    let (mut lab, hosts, ids) = pair(seed, &[link.clone(), link]);
    lab.tunnel(hosts, &ids, 0);
    let ping = TrafficKind::Ping { interval: ms(20), payload: 56 };
    lab.traffic(ping, hosts[0], hosts[1], "10.77.0.2", [secs(0), secs(100)]);
    lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", [secs(4), secs(100)]);
    lab.run_for(secs(4));
    let carried = |lab: &world::Lab| [0, 1].map(|at| lab.world.link_counters(ids[at])[0].carried_bytes);
    let before = carried(&lab);
    lab.run_for(secs(4));
    let after = carried(&lab);
    let sent = [after[0] - before[0], after[1] - before[1]];
    sent[0].min(sent[1]) as f64 / (sent[0] + sent[1]) as f64
}

#[test]
fn pings_over_paths_whose_delays_vary_say_nothing_of_their_rates() {
    let mut shares: Vec<_> = (1..=9).map(lesser_share).collect();
    shares.sort_by(f64::total_cmp);
    println!("{shares:.2?}");
    assert!(shares[4] >= 0.25 && shares[1] >= 0.1, "{shares:.2?}");
}

/// The share that the longer of two paths whose delays vary has of a stream for which either has room.
fn longer_share(seed: u64) -> f64 {
    let varying = |mbit, delay, spread| LinkConfig {
        jitter: Jitter::Normal(ms(spread)),
        ..direction(mbit, ms(delay), 100)
    };
    let links =
        [[varying(40, 15, 5), direction(40, ms(15), 100)], [varying(25, 23, 8), direction(25, ms(23), 100)]];
    let (mut lab, hosts, ids) = pair(seed, &links);
    lab.tunnel(hosts, &ids, 0);
    let stream = TrafficKind::Udp { rate: 8_000_000, payload: 1200 };
    lab.traffic(stream, hosts[0], hosts[1], "10.77.0.2", [secs(2), secs(100)]);
    lab.run_for(secs(12));
    let sent = [0, 1].map(|at| lab.world.link_counters(ids[at])[0].carried_bytes as f64);
    sent[1] / (sent[0] + sent[1])
}

#[test]
fn a_stream_stays_on_the_shorter_path_though_delays_vary() {
    let shares: Vec<_> = (1..=9).map(longer_share).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    println!("{mean:.3}, {shares:.3?}");
    assert!(mean <= 0.03, "{mean:.3} over the longer path: {shares:.3?}");
}

/// The mean time of a datagram over so many paths of 5 Mb/s and 15 ms, in order, while seven eighths of what they carry are sent.
fn mean_delay(paths: u64) -> Duration {
    let link = [direction(5, ms(15), 64), direction(5, ms(15), 64)];
    let links = vec![link; usize::try_from(paths).expect("few")];
    let (mut lab, hosts, ids) = pair(1, &links);
    lab.tunnel_of(hosts, &ids, 0, |peer| peer.config.ordered_udp = true);
    let stream = TrafficKind::Udp { rate: paths * 4_100_000, payload: PAYLOAD };
    let stream = lab.traffic(stream, hosts[0], hosts[1], "10.77.0.2", [secs(0), secs(100)]);
    lab.run_for(secs(2));
    let found = lab.tally(stream).delays.len();
    lab.run_for(secs(4));
    let delays = &lab.tally(stream).delays[found..];
    delays.iter().sum::<Duration>() / u32::try_from(delays.len()).expect("some thousands")
}

#[test]
fn a_stream_in_order_takes_no_longer_over_many_paths() {
    let alone = mean_delay(1);
    for paths in [4, 6, 8, 10] {
        let mean = mean_delay(paths);
        println!("{paths} paths: {mean:?}, one {alone:?}");
        assert!(mean <= alone + MOST_ADDED, "{mean:?} over {paths} paths, {alone:?} over one");
    }
}
