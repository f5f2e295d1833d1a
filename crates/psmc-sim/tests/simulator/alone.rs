//! Nobody else is on the paths: what varies and what is lost there is not taken for others.

use std::ops::RangeInclusive;
use std::time::Duration;

use psmc_sim::link::{Jitter, LinkConfig};
use psmc_sim::{HostId, TrafficKind};

use crate::world::{Lab, bulk, direction, lossy, ms, pair, secs, side_by_side};

/// A path of so many Mb/s, `delay` milliseconds each way that vary by `spread`, and a loss in percent.
type Alone = (u64, u64, u64, f64);

/// Its link, with room for so many packets.
fn link((mbit, delay, spread, loss): Alone, queue: usize) -> [LinkConfig; 2] {
    let there = LinkConfig { jitter: Jitter::Normal(ms(spread)), ..direction(mbit, ms(delay), queue) };
    [lossy(there, loss), direction(mbit, ms(delay), queue)]
}

/// A tunnel over two paths of 40 and 25 Mb/s whose delays vary, and that lose so much of a hundred.
fn varying(loss: f64, seed: u64) -> (Lab, [HostId; 2]) {
    let (mut lab, hosts, ids) = pair(seed, &[link((40, 15, 5, loss), 100), link((25, 22, 8, loss), 94)]);
    lab.tunnel(hosts, &ids, 0);
    (lab, hosts)
}

/// Megabits per second of payload that a flow has of the two paths in the minute after it has found its rate.
fn goodput(loss: f64, seed: u64) -> f64 {
    let (mut lab, hosts) = varying(loss, seed);
    let flow = lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(1000)]);
    lab.run_for(secs(10));
    lab.goodput(flow, secs(60))
}

/// Rounds look at times as if others kept a queue, as queues grow and shrink with what varies. A window that gives way at
/// each loss is 17 datagrams long where 0.5 % is lost, and these paths hold more than a hundred.
#[test]
fn a_path_that_varies_and_loses_is_not_taken_for_a_contested_one() {
    for (loss, least) in [(0.1, 51.0), (0.5, 52.0), (1.0, 50.0)] {
        let rates = side_by_side(1..=4, |seed| goodput(loss, seed));
        println!("{loss} %: {rates:.1?} Mb/s");
        assert!(rates.iter().all(|mbps| *mbps >= least), "{loss} %: {rates:.1?} Mb/s");
    }
}

/// Half of the pings beside a flow, in half a minute, took so long at most, and all but one of a hundred so long.
fn pings(seed: u64) -> [Duration; 2] {
    let (mut lab, hosts) = varying(0.5, seed);
    lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(32)]);
    let ping = TrafficKind::Ping { interval: ms(20), payload: 56 };
    let ping = lab.traffic(ping, hosts[0], hosts[1], "10.77.0.2", [secs(2), secs(32)]);
    lab.run_for(secs(32));
    let mut delays = lab.tally(ping).delays;
    delays.sort();
    [delays[delays.len() / 2], delays[delays.len() * 99 / 100]]
}

/// What probes put into a queue that nobody can tell from what varies stays there until it overflows.
#[test]
fn probes_where_delays_vary_leave_the_queue_short() {
    let mut pings = side_by_side(1..=16, pings);
    println!("{pings:.1?}");
    let mut median_of = |place: usize| {
        pings.sort_by_key(|ping| ping[place]);
        pings[pings.len() / 2][place]
    };
    let [half, most] = [0, 1].map(&mut median_of);
    assert!(half < ms(42) && most < ms(60), "{half:?}, {most:?}");
}

/// The share of what one such path lets pass that arrives of a flood, over sixteen seconds after it has been found.
fn carried(path: Alone, seed: u64) -> f64 {
    let (mbit, _, _, loss) = path;
    let (mut lab, hosts, ids) = pair(seed, &[link(path, 90)]);
    lab.tunnel(hosts, &ids, 0);
    let flood = TrafficKind::Udp { rate: mbit * 1_500_000, payload: 1200 };
    let flood = lab.traffic(flood, hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(1000)]);
    lab.run_for(secs(4));
    lab.goodput(flood, secs(16)) / (mbit as f64 * (1.0 - loss / 100.0))
}

/// The mean and the least of as many runs as there are seeds.
fn carried_of(path: Alone, seeds: RangeInclusive<u64>) -> [f64; 2] {
    let runs = side_by_side(seeds, |seed| carried(path, seed));
    println!("{path:?}: {runs:.2?}");
    [runs.iter().sum::<f64>() / runs.len() as f64, runs.iter().copied().fold(1.0, f64::min)]
}

/// Who takes what varies for others' queue, and gives way at each loss, has a sixth of the path for seconds.
#[test]
fn delays_that_vary_from_the_start_are_no_others() {
    for loss in [0.1, 0.2] {
        let [_, least] = carried_of((40, 15, 5, loss), 1..=12);
        assert!(least > 0.6, "{loss} %: {least}");
    }
}

/// A mean of rates that arrived, of packets sent at that rate, sinks with each that is lost.
#[test]
fn what_chance_loses_is_sent_as_well() {
    // So many beginnings that their mean is off by two hundredths at the most: what they bring differs by six, thirteen and four.
    for (path, beginnings, least) in
        [((20, 25, 20, 2.0), 12, 0.79), ((15, 30, 25, 2.0), 48, 0.75), ((40, 15, 5, 10.0), 6, 0.80)]
    {
        let [mean, _] = carried_of(path, 1..=beginnings);
        assert!(mean > least, "{path:?}: {mean}");
    }
}

/// It is as much at any rate.
#[test]
fn a_path_that_loses_much_by_chance_carries_the_rest() {
    for path in [(40, 15, 0, 20.0), (40, 15, 0, 30.0), (5, 50, 0, 20.0), (100, 5, 0, 25.0)] {
        let [_, least] = carried_of(path, 1..=4);
        assert!(least > 0.80, "{path:?}: {least}");
    }
}

/// Megabits per second of payload that a flow has in its first ten seconds over two paths whose delays vary by a third. Pings came before.
fn first_seconds(kind: TrafficKind, seed: u64) -> f64 {
    let (mut lab, hosts, ids) = pair(seed, &[link((20, 25, 20, 2.0), 84), link((15, 30, 25, 2.0), 75)]);
    lab.tunnel(hosts, &ids, 0);
    let ping = TrafficKind::Ping { interval: ms(20), payload: 56 };
    lab.traffic(ping, hosts[0], hosts[1], "10.77.0.2", [secs(0), secs(12)]);
    let flow = lab.traffic(kind, hosts[0], hosts[1], "10.77.0.2", [secs(2), secs(12)]);
    lab.run_for(secs(2));
    lab.goodput(flow, secs(10))
}

/// The mean of them, of runs with many seeds: single ones lie by 2 Mb/s apart, and whatever shifts a datagram's time draws others.
fn mean_of_first_seconds(kind: impl Fn() -> TrafficKind + Sync) -> f64 {
    let rates = side_by_side(1..=72, |seed| first_seconds(kind(), seed));
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    println!("{rates:.1?} Mb/s, {mean:.1} on average");
    mean
}

/// What arrives late, or over a longer time than it was sent in, is so by itself: who took it for a queue of a flow that asks for little
/// believed for ten seconds in a third of what a path carries.
#[test]
fn a_flow_that_begins_is_not_taken_for_one_that_fills_paths_whose_delays_vary() {
    let mean = mean_of_first_seconds(bulk);
    assert!(mean > 13.5, "{mean} Mb/s");
}

/// While a startup doubles, each of its rounds brings less than the path carries, and where delays vary it ends early: who believed no more
/// than that had two thirds of a path for seconds, for what rounds vary by hides what probes bring.
#[test]
fn a_flood_that_begins_finds_the_rate_of_paths_whose_delays_vary() {
    let mean = mean_of_first_seconds(|| TrafficKind::Udp { rate: 40_000_000, payload: 1200 });
    assert!(mean > 27.9, "{mean} Mb/s");
}

/// Megabits per second of payload that CUBIC has in ten seconds over a link of 160 Mb/s and 330 ms, through a tunnel or without one.
fn far(tunnel: bool) -> f64 {
    let (mut lab, hosts, ids) = pair(1, &[link((160, 165, 0, 0.0), 1900)]);
    let address = if tunnel {
        lab.tunnel(hosts, &ids, 0);
        "10.77.0.2"
    } else {
        "10.1.0.2"
    };
    let flow = lab.traffic(bulk(), hosts[0], hosts[1], address, [secs(2), secs(12)]);
    lab.run_for(secs(2));
    lab.goodput(flow, secs(10))
}

/// What a sender inside sends at once is not spread over the round trip: HyStart would take that for a queue, and end the slow start at a
/// thirtieth of what the path holds.
#[test]
fn a_slow_start_over_a_far_path_is_as_fast_as_without_a_tunnel() {
    let [tunnel, plain] = [true, false].map(far);
    println!("{tunnel:.1} and {plain:.1} Mb/s");
    assert!(tunnel > 0.9 * plain, "{tunnel:.1} and {plain:.1} Mb/s");
}
