//! A stream that nearly fills many paths: what each of them is given has to be right, or all wait for the one that has got too much.

use std::time::Duration;

use psmc_sim::TrafficKind;

use crate::world::{direction, ms, pair, secs};

/// Payload of the datagrams, bytes.
const PAYLOAD: usize = 1200;

/// How much longer, on average, a datagram may take over several paths than over one.
const MOST_ADDED: Duration = Duration::from_millis(5);

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
