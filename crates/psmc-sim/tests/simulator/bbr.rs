//! TCP with BBR on a link: what it has of it, and what it leaves in the queue.

use std::time::Duration;

use psmc_sim::{CongestionControl, TrafficId, TrafficKind};

use crate::world::{Lab, direction, lossy, ms, pair, secs, side_by_side};

fn tcp(congestion_control: CongestionControl) -> TrafficKind {
    TrafficKind::Tcp { congestion_control, flows: 1, bytes: None, buffer: 4 << 20 }
}

/// Mb/s of payload that a link of 10 Mb/s carries.
const CAPACITY: f64 = 10.0 * 1448.0 / 1500.0;

/// So many flows, 300 ms apart, over a link of 10 Mb/s and 50 ms there and back, which holds 42 packets, with a queue of so many packets
/// and a loss in percent; and pings beside them.
struct Scene {
    lab: Lab,
    flows: Vec<TrafficId>,
    pings: TrafficId,
}

impl Scene {
    fn new(seed: u64, kinds: &[CongestionControl], queue: usize, loss: f64) -> Self {
        let there = lossy(direction(10, ms(25), queue), loss);
        let (mut lab, [from, to], _) = pair(seed, &[[there, direction(10, ms(25), queue)]]);
        let mut add = |kind, start| lab.traffic(kind, from, to, "10.1.0.2", [start, secs(1000)]);
        let starts = (0..).map(|number| ms(10 + seed + 300 * number));
        let flows = kinds.iter().zip(starts).map(|(kind, start)| add(tcp(*kind), start)).collect();
        let pings = add(TrafficKind::Ping { interval: ms(10), payload: 56 }, secs(3));
        Self { lab, flows, pings }
    }

    /// The part of the link that each flow has in this time.
    fn shares(&mut self, time: Duration) -> Vec<f64> {
        let bytes = |scene: &Self, flow: &TrafficId| scene.lab.tally(*flow).bytes as f64;
        let before: Vec<_> = self.flows.iter().map(|flow| bytes(self, flow)).collect();
        self.lab.run_for(time);
        let of = |(flow, before): (&TrafficId, f64)| {
            (bytes(self, flow) - before) * 8.0 / 1e6 / time.as_secs_f64() / CAPACITY
        };
        self.flows.iter().zip(before).map(of).collect()
    }
}

use CongestionControl::{Bbr, Cubic};

#[test]
fn it_fills_a_link_within_seconds() {
    let shares = side_by_side(1..=6, |seed| {
        let mut scene = Scene::new(seed, &[Bbr], 42, 0.0);
        scene.lab.run_for(secs(2));
        scene.shares(secs(20))[0]
    });
    println!("{shares:.3?}");
    assert!(shares.iter().all(|share| *share >= 0.95), "{shares:.3?}");
}

/// 600 packets are 720 ms: CUBIC fills them.
#[test]
fn its_queue_is_no_longer_than_what_the_link_holds() {
    let delay = |kind| {
        let mut scene = Scene::new(1, &[kind], 600, 0.0);
        scene.lab.run_for(secs(30));
        let mut delays = scene.lab.tally(scene.pings).delays;
        delays.sort();
        [delays[delays.len() / 2], delays[delays.len() * 98 / 100]]
    };
    let [bbr, cubic] = [Bbr, Cubic].map(delay);
    println!("{bbr:.0?}, CUBIC {cubic:.0?}");
    assert!(bbr[0] < ms(65) && bbr[1] < ms(100), "{bbr:.0?}");
    assert!(cubic[0] > ms(300), "{cubic:.0?}");
}

#[test]
fn chance_takes_no_more_than_it_loses() {
    let shares = |kind| {
        side_by_side(1..=6, move |seed| {
            let mut scene = Scene::new(seed, &[kind], 42, 2.0);
            scene.lab.run_for(secs(3));
            scene.shares(secs(20))[0]
        })
    };
    let [bbr, cubic] = [Bbr, Cubic].map(shares);
    println!("{bbr:.2?}, CUBIC {cubic:.2?}");
    assert!(bbr.iter().all(|share| *share >= 0.8), "{bbr:.2?}");
    assert!(cubic.iter().all(|share| *share < 0.4), "{cubic:.2?}");
}

#[test]
fn two_of_them_share_a_link() {
    let shares = side_by_side(1..=6, |seed| {
        let mut scene = Scene::new(seed, &[Bbr, Bbr], 84, 0.0);
        scene.lab.run_for(secs(20));
        scene.shares(secs(60))
    });
    println!("{shares:.2?}");
    for shares in shares {
        assert!(shares.iter().all(|share| *share > 0.3), "{shares:.2?}");
        assert!(shares.iter().sum::<f64>() > 0.93, "{shares:.2?}");
    }
}

/// In tenths of a second: nothing until the shortest round trip is ten seconds old, then almost nothing for 200 ms.
#[test]
fn it_lets_the_queue_drain_every_ten_seconds() {
    let mut scene = Scene::new(1, &[Bbr], 84, 0.0);
    let shares: Vec<_> = (0..250).map(|_| scene.shares(ms(100))[0]).collect();
    let quiet: Vec<_> = (20..shares.len()).filter(|at| shares[*at] < 0.4).collect();
    println!("{quiet:?}");
    let (first, last) = (quiet[0], quiet[quiet.len() - 1]);
    assert!((98..120).contains(&first), "{quiet:?}");
    assert!((200..240).contains(&last), "{quiet:?}");
    assert!(quiet.len() <= 10, "{quiet:?}");
}
