//! More is offered than the paths carry, all of a sudden: they are full at once, and stay so.

use psmc_sim::TrafficKind;
use psmc_sim::link::{Jitter, LinkConfig, QueueLimit, Rate};

use crate::world::{direction, ms, pair, secs};

/// Payload of the datagrams, bytes.
const PAYLOAD: usize = 1200;

/// Of what a path forwards so much is payload, with headers, acknowledgements, and all that a probe or a loss may cost.
const LEAST: f64 = 0.8;

/// Megabits per second of payload that arrive in each of the first five seconds, `offered` being sent.
fn arriving(links: &[[LinkConfig; 2]], offered: u64) -> [f64; 5] {
    let (mut lab, hosts, ids) = pair(1, links);
    lab.tunnel(hosts, &ids, 0);
    let flood = TrafficKind::Udp { rate: offered * 1_000_000, payload: PAYLOAD };
    let flood = lab.traffic(flood, hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(1000)]);
    lab.run_for(secs(1));
    [(); 5].map(|()| {
        let before = lab.tally(flood).bytes;
        lab.run_for(secs(1));
        (lab.tally(flood).bytes - before) as f64 * 8.0 / 1e6
    })
}

/// Rounds are judged every 20 ms, which is several round trips here: meanwhile the startup must not overshoot so far that
/// the path seems to lose nearly all, and is left alone for it.
#[test]
fn a_short_path_beside_a_slow_one_is_not_given_up_for_what_its_startup_lost() {
    let short = [direction(300, ms(4), 200), direction(300, ms(4), 200)];
    let slow = [direction(30, ms(20), 100), direction(30, ms(20), 100)];
    for (second, mbps) in arriving(&[short, slow], 400).into_iter().enumerate() {
        assert!(mbps >= LEAST * 330.0, "{mbps:.1} Mb/s in second {second}");
    }
}

/// Where delays vary and the order is kept, packets that follow each other closely all take about the longest of them:
/// windows that are made for the shortest would leave half of the path unused.
#[test]
fn paths_whose_delays_vary_are_full_in_spite_of_what_their_startup_lost() {
    let steady = direction(50, ms(10), 84);
    let varying = [LinkConfig { jitter: Jitter::Normal(ms(5)), ..steady.clone() }, steady];
    for (second, mbps) in arriving(&[varying.clone(), varying], 120).into_iter().enumerate().skip(1) {
        assert!(mbps >= LEAST * 100.0, "{mbps:.1} Mb/s in second {second}");
    }
}

/// What is sent before anything is known of a path may stand there for a second. That says that the path is slow, and nothing else: it is
/// not dead, others have no queue there, and it is not as fast as its first packet made believe.
#[test]
fn a_slow_path_that_begins_with_a_flood_carries_its_share() {
    let link = |kbit: u64| {
        let rate = Rate::Fixed(kbit * 1000);
        LinkConfig { rate, delay: ms(10), queue: QueueLimit::Packets(64), ..LinkConfig::default() }
    };
    for begins in (0..=500).step_by(50).map(ms) {
        let (mut lab, hosts, ids) = pair(1, &[200, 2000].map(|kbit| [link(kbit), link(kbit)]));
        lab.tunnel(hosts, &ids, 0);
        let flood = TrafficKind::Udp { rate: 2_640_000, payload: PAYLOAD };
        let flood = lab.traffic(flood, hosts[0], hosts[1], "10.77.0.2", [begins, secs(1000)]);
        lab.run_for(secs(2));
        let before = lab.tally(flood).bytes;
        lab.run_for(secs(4));
        let used = (lab.tally(flood).bytes - before) as f64 * 8.0 / 4.0 / 2_200_000.0;
        // Headers are 7 % of a datagram.
        assert!(used >= 0.9, "begun after {begins:?}: {used:.3}");
    }
}

/// Small datagrams take less time than full ones on such a path, which is no queue to be looked behind: each time that takes a
/// tenth of a second, in which three or four arrive.
#[test]
fn a_slow_path_is_not_emptied_again_and_again_to_see_its_round_trip() {
    let slow = direction(2, ms(10), 64);
    let (mut lab, hosts, ids) = pair(1, &[[slow.clone(), slow]]);
    lab.tunnel(hosts, &ids, 0);
    let flood = TrafficKind::Udp { rate: 2_400_000, payload: PAYLOAD };
    let flood = lab.traffic(flood, hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(1000)]);
    lab.run_for(secs(20));
    // A datagram takes 5 ms.
    let gap = lab.tally(flood).longest_gap;
    assert!(gap <= ms(15), "{gap:?}");
}
