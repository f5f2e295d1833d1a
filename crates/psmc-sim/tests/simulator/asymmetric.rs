//! Lines that are ten times as fast down as up, full both ways at once.

use psmc_sim::HostId;

use crate::world::{Lab, bulk, direction, ms, pair, secs};

/// A site behind so many lines of 5 Mb/s up and 50 Mb/s down, with short queues, and another one.
fn lines(seed: u64, count: usize) -> (Lab, [HostId; 2]) {
    let line = |delay| [direction(5, ms(delay), 64), direction(50, ms(delay), 100)];
    let lines: Vec<_> = [10, 15].into_iter().take(count).map(line).collect();
    let (mut lab, hosts, links) = pair(seed, &lines);
    lab.tunnel(hosts, &links, 0);
    (lab, hosts)
}

/// Megabits per second of payload up and down in twenty seconds, when the flows that there are have found their rates.
fn goodput(seed: u64, count: usize, is_wanted: [bool; 2]) -> [f64; 2] {
    let (mut lab, hosts) = lines(seed, count);
    let ends = [(hosts[0], hosts[1], "10.77.0.2"), (hosts[1], hosts[0], "10.77.0.1")];
    let wanted = ends.into_iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted);
    let flow = |((from, to, address), _)| lab.traffic(bulk(), from, to, address, [secs(1), secs(1000)]);
    let flows: Vec<_> = wanted.map(flow).collect();
    lab.run_for(secs(6));
    let before: Vec<_> = flows.iter().map(|flow| lab.tally(*flow).bytes).collect();
    lab.run_for(secs(20));
    let carried = flows.iter().zip(before).map(|(flow, before)| lab.tally(*flow).bytes - before);
    let mut rates = carried.map(|bytes| bytes as f64 * 8e-6 / 20.0);
    is_wanted.map(|is_wanted| if is_wanted { rates.next().unwrap_or_default() } else { 0.0 })
}

#[test]
fn lines_that_are_full_both_ways_carry_each_way_most_of_what_it_has_alone() {
    for count in [1, 2] {
        let [up_alone, _] = goodput(1, count, [true, false]);
        let [_, down_alone] = goodput(1, count, [false, true]);
        let [up, down] = goodput(1, count, [true, true]);
        let told =
            format!("{count}: up {up:.2} of {up_alone:.2} Mb/s, down {down:.1} of {down_alone:.1} Mb/s");
        println!("{told}");
        assert!(up >= 0.88 * up_alone && down >= 0.8 * down_alone, "{told}");
    }
}
