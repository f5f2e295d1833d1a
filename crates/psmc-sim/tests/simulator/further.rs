//! A further path never hurts: whatever is added to a good path, a flow is about as fast as over that alone, and so is
//! a ping beside it.

use std::time::Duration;

use psmc_sim::link::{Jitter, LinkConfig, Loss, Probability, QueueLimit};
use psmc_sim::{LinkId, TrafficKind};

use crate::world::{Lab, bulk, direction, lossy, ms, pair, secs};

/// Goodput that a further path may cost. The aim is 2 %, which all but one or two of these keep; but a run is chaotic, and
/// the same path a little slower or farther differs by as much.
const MOST_LOST: f64 = 0.05;

/// Delay that a further path may add to the median of a ping.
const MOST_ADDED: Duration = Duration::from_millis(10);

/// Until then the flow finds its rate, and the tunnel what the paths are worth.
const WARM_UP: Duration = Duration::from_secs(8);

/// For so long it is measured.
const MEASURED: Duration = Duration::from_secs(20);

/// A path that nobody would choose.
struct Further {
    name: &'static str,
    link: [LinkConfig; 2],
    /// It is cut for so long, works for so long, and so on.
    flaps: Option<(Duration, Duration)>,
}

fn good() -> [LinkConfig; 2] {
    [direction(50, ms(10), 84), direction(50, ms(10), 84)]
}

fn chance(share: f64) -> Probability {
    Probability::new(share).expect("a chance")
}

fn kilobits(kbit: u64, delay: Duration, queue: usize) -> [LinkConfig; 2] {
    let there = LinkConfig { rate: psmc_sim::link::Rate::Fixed(kbit * 1000), ..direction(1, delay, queue) };
    [there.clone(), there]
}

/// `good` with both directions changed.
fn but(change: impl Fn(LinkConfig) -> LinkConfig) -> [LinkConfig; 2] {
    good().map(change)
}

fn further() -> Vec<Further> {
    let steady = |name, link| Further { name, link, flaps: None };
    let far = |delay| but(move |link| LinkConfig { delay: ms(delay), ..link });
    let losing = |percent| [lossy(good()[0].clone(), percent), good()[1].clone()];
    let bursts = Loss::GilbertElliott {
        to_bad: chance(0.005),
        to_good: chance(0.05),
        loss_good: Probability::ZERO,
        loss_bad: chance(0.8),
    };
    let varying = |spread| {
        but(move |link| LinkConfig { jitter: Jitter::Normal(ms(spread)), delay: ms(2 * spread), ..link })
    };
    let bloated = |mbit, queue| {
        [direction(mbit, ms(20), 64), direction(mbit, ms(20), 64)]
            .map(|link| LinkConfig { queue: QueueLimit::Time(queue), ..link })
    };
    let flapping = |name, down, up| Further { name, link: good(), flaps: Some((ms(down), ms(up))) };
    vec![
        steady("64 kb/s", kilobits(64, ms(50), 20)),
        steady("256 kb/s", kilobits(256, ms(50), 20)),
        steady("1 Mb/s", kilobits(1000, ms(30), 50)),
        steady("2 Mb/s, 150 ms", kilobits(2000, ms(150), 50)),
        steady("round trip of 300 ms", far(150)),
        steady("round trip of 700 ms, as by satellite", far(350)),
        steady("5 % lost", losing(5.0)),
        steady("20 % lost", losing(20.0)),
        steady("50 % lost", losing(50.0)),
        steady("lost in bursts", but(|link| LinkConfig { loss: bursts, ..link })),
        steady("acknowledgements lost", [good()[0].clone(), lossy(good()[1].clone(), 20.0)]),
        steady("jitter of 20 ms", varying(20)),
        steady("jitter of 50 ms", varying(50)),
        steady("5 Mb/s behind 500 ms of buffer", bloated(5, ms(500))),
        steady("1 Mb/s behind 3 s of buffer", bloated(1, secs(3))),
        steady("a queue of four packets", but(|link| LinkConfig { queue: QueueLimit::Packets(4), ..link })),
        steady("reordering", but(|link| LinkConfig { reorder: chance(0.1), ..link })),
        steady("corruption", but(|link| LinkConfig { corrupt: chance(0.05), ..link })),
        flapping("up for 2 s, down for 1 s", 1000, 2000),
        flapping("up for 300 ms, down for 300 ms", 300, 300),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Result {
    goodput: f64,
    ping: Duration,
    /// Whether the paths were taken to share a bottleneck, which they do not.
    coupled: bool,
}

fn measure(links: &[[LinkConfig; 2]], flaps: Option<(Duration, Duration)>) -> Result {
    let (mut lab, hosts, ids) = pair(1, links);
    let sites = lab.tunnel(hosts, &ids, 0);
    let span = [secs(1), WARM_UP + MEASURED];
    let flow = lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", span);
    let ping = TrafficKind::Ping { interval: ms(20), payload: 56 };
    let ping = lab.traffic(ping, hosts[0], hosts[1], "10.77.0.2", [WARM_UP, WARM_UP + MEASURED]);
    run(&mut lab, ids.last().copied(), flaps, WARM_UP);
    let before = lab.tally(flow).bytes;
    run(&mut lab, ids.last().copied(), flaps, MEASURED);
    let goodput = (lab.tally(flow).bytes - before) as f64 * 8.0 / 1e6 / MEASURED.as_secs_f64();
    let mut delays = lab.tally(ping).delays;
    delays.sort();
    let status = lab.world.site_status(sites[0], 0).expect("it runs");
    let coupled = status.paths.iter().any(|path| path.bottleneck.is_some());
    Result { goodput, ping: delays[delays.len() / 2], coupled }
}

/// Runs on, while a link goes down and up.
fn run(lab: &mut Lab, link: Option<LinkId>, flaps: Option<(Duration, Duration)>, time: Duration) {
    let end = lab.world.now() + time;
    let Some((link, (down, up))) = link.zip(flaps) else {
        return lab.run_for(time);
    };
    while lab.world.now() < end {
        lab.world.set_link_up(link, true);
        lab.run_for(up.min(end - lab.world.now()));
        lab.world.set_link_up(link, false);
        lab.run_for(down.min(end - lab.world.now()));
    }
}

#[test]
fn a_further_path_never_hurts() {
    let alone = measure(&[good()], None);
    let mut hurt = Vec::new();
    for Further { name, link, flaps } in further() {
        let both = measure(&[good(), link], flaps);
        let (share, added) = (both.goodput / alone.goodput, both.ping.saturating_sub(alone.ping));
        println!(
            "{name}: {:.2} of {:.2} Mb/s ({:.1} %), ping + {added:?}, {}",
            both.goodput,
            alone.goodput,
            share * 100.0,
            if both.coupled { "coupled" } else { "" }
        );
        if share < 1.0 - MOST_LOST || added > MOST_ADDED || both.coupled {
            hurt.push(name);
        }
    }
    assert!(hurt.is_empty(), "these paths hurt: {hurt:?}");
}
