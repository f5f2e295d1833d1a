//! What each scheduler does with links that differ, in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_core::SchedulerKind;

use crate::world::{HQ, Link, Setup, TCP, VAN, World, packet};

/// Bytes of a full-size inner packet, and of the datagram around it with its outer headers.
const INNER: usize = 1400;
const OUTER: f64 = 1400.0 + 39.0 + 28.0;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A load of one flow, and how much of it there was.
pub(crate) struct Load {
    pub(crate) world: World,
    next: u32,
}

impl Load {
    pub(crate) fn new(mbits: &[u64], setup: impl Into<Setup>) -> Self {
        let links = mbits.iter().map(|&mbit| Link::new(10).mbit(mbit)).collect();
        Self { world: World::connected(links, setup), next: 0 }
    }

    /// Offers `mbit` from the van for `time`; returns what arrived meanwhile, in Mb/s, and what each link carried,
    /// in bytes.
    pub(crate) fn offer(&mut self, mbit: u64, time: Duration) -> (f64, Vec<u64>) {
        let interval = Duration::from_nanos(INNER as u64 * 8 * 1000 / mbit);
        let world = &mut self.world;
        let (end, before) = (world.now + time, world.ends[HQ].delivered.len());
        let carried: Vec<_> = world.links.iter().map(|link| link.carried_bytes[VAN]).collect();
        while world.now < end {
            world.send(VAN, &packet(VAN, TCP, 1, self.next, INNER));
            self.next += 1;
            world.run_for(interval);
        }
        let packets = world.ends[HQ].delivered.len() - before;
        let carried =
            world.links.iter().zip(carried).map(|(link, before)| link.carried_bytes[VAN] - before).collect();
        ((packets * INNER * 8) as f64 / time.as_secs_f64() / 1e6, carried)
    }

    /// How many packets were offered, and how many different ones have arrived.
    pub(crate) fn offered_and_arrived(&self) -> (usize, usize) {
        let arrived: BTreeSet<u32> = self.world.numbers(HQ).into_iter().collect();
        (self.next as usize, arrived.len())
    }
}

/// Inner bits that links of so many Mb/s carry at the very best.
pub(crate) fn capacity(mbit: f64) -> f64 {
    mbit * INNER as f64 / OUTER
}

#[test]
fn weights_that_follow_the_receive_ratio_use_links_that_fixed_ones_do_not() {
    let rate = |scheduler| {
        let mut load = Load::new(&[40, 10], scheduler);
        load.offer(80, ms(3000));
        load.offer(80, ms(3000)).0
    };
    let (fixed, adaptive) = (rate(SchedulerKind::Wrr), rate(SchedulerKind::WrrAdaptive));
    println!("1 : 1 {fixed:.1}, adaptive {adaptive:.1} Mb/s");
    assert!(fixed <= capacity(21.0), "{fixed}");
    assert!(adaptive >= 0.92 * capacity(50.0), "{adaptive}");
}

#[test]
fn learned_weights_hold_when_the_load_falls() {
    let mut load = Load::new(&[40, 10], SchedulerKind::WrrAdaptive);
    load.offer(80, ms(4000));
    load.world.run_for(ms(500));
    let (_, carried) = load.offer(20, ms(3000));
    let ratio = carried[0] as f64 / carried[1] as f64;
    assert!((3.0..=5.0).contains(&ratio), "{carried:?}");
}

#[test]
fn backup_uses_one_link_as_long_as_it_works_and_loses_nothing_when_it_does_not() {
    let mut load = Load::new(&[40, 40, 40], SchedulerKind::Backup);
    let (_, carried) = load.offer(10, ms(1000));
    assert!(carried[0] > 1_000_000 && carried[1..].iter().all(|&bytes| bytes < 20_000), "{carried:?}");
    load.world.links[0].cut();
    load.offer(10, ms(500));
    let (_, carried) = load.offer(10, ms(1000));
    assert!(carried[1] > 1_000_000 && carried[2] < 20_000, "{carried:?}");
    load.world.links[0].passes = [true; 2];
    load.offer(10, ms(2500));
    let (_, carried) = load.offer(10, ms(1000));
    assert!(carried[0] > 1_000_000 && carried[1] < 20_000, "{carried:?}");
    load.world.run_for(ms(500));
    let (offered, arrived) = load.offered_and_arrived();
    assert_eq!(arrived, offered);
}

#[test]
fn a_slow_path_that_is_not_needed_is_not_judged() {
    let setup = Setup { bad_path_rule: true, ..SchedulerKind::WrrAdaptive.into() };
    let mut load = Load::new(&[40, 40, 2], setup);
    load.offer(3, ms(4000));
    let (_, carried) = load.offer(3, ms(2000));
    assert!(carried[2] > 50_000, "{carried:?}");
}

#[test]
fn a_bad_path_is_set_aside_and_readmitted() {
    for scheduler in [SchedulerKind::Earliest, SchedulerKind::WrrAdaptive] {
        let mut load = Load::new(&[40, 40, 2], Setup { bad_path_rule: true, ..scheduler.into() });
        load.offer(100, ms(4000));
        let (rate, carried) = load.offer(100, ms(4000));
        println!("{scheduler:?} {rate:.1} Mb/s {carried:?}");
        assert!(rate >= 0.9 * capacity(80.0), "{scheduler:?} {rate:.1}");
        assert!(carried[2] < 20_000, "{scheduler:?} {carried:?}");
        load.world.links[2].rate = Some(40_000_000);
        load.offer(100, ms(10_000));
        let (_, carried) = load.offer(100, ms(3000));
        assert!(carried[2] > 1_000_000, "{scheduler:?} {carried:?}");
    }
}

/// Sends so many short packets of one flow at once from the van, on a link whose rate is known; returns after how long those arrived
/// that did.
fn burst(load: &mut Load, count: u32) -> Vec<Duration> {
    load.offer(600, ms(500));
    load.world.run_for(ms(200));
    let (start, before) = (load.world.now, load.world.ends[HQ].delivered.len());
    for number in load.next..load.next + count {
        load.world.send(VAN, &packet(VAN, TCP, 1, number, 60));
    }
    load.world.run_for(ms(500));
    load.world.ends[HQ].delivered[before..].iter().map(|(at, _)| *at - start).collect()
}

/// What acknowledges a window's worth that was held for one missing packet comes at once.
#[test]
fn a_burst_of_acknowledgements_arrives_whole() {
    let all = SchedulerKind::ALL.into_iter();
    for scheduler in all.filter(|kind| *kind != SchedulerKind::Flow) {
        let arrived = burst(&mut Load::new(&[800], scheduler), 1200);
        assert_eq!(arrived.len(), 1200, "{scheduler:?}");
        assert!(arrived.iter().all(|after| *after < ms(20)), "{scheduler:?}: {:?}", arrived.iter().max());
    }
}

/// A flow that stays on its path may have more than that takes. The far end knows nothing of what is dropped for it.
#[test]
fn nobody_waits_for_what_found_no_place_in_a_path() {
    let mut load = Load::new(&[800], SchedulerKind::Flow);
    let arrived = burst(&mut load, 1500);
    assert!((500..1500).contains(&arrived.len()), "{}", arrived.len());
    let (start, before) = (load.world.now, load.world.ends[HQ].delivered.len());
    load.world.send(VAN, &packet(VAN, TCP, 1, load.next + 1500, 60));
    load.world.run_for(ms(500));
    let last = &load.world.ends[HQ].delivered[before..];
    assert!(last.len() == 1 && last[0].0 - start < ms(20), "{}", last.len());
}

#[test]
fn schedulers_are_switched_under_load_and_nothing_is_lost() {
    let (from, to) = (SchedulerKind::ALL, SchedulerKind::ALL);
    let mut load = Load::new(&[40, 20, 30], SchedulerKind::Earliest);
    load.offer(15, ms(1000));
    // Each scheduler follows on each other one.
    for kind in from.into_iter().flat_map(|from| to.into_iter().flat_map(move |to| [from, to])) {
        let van = &mut load.world.ends[VAN];
        van.site.peer(van.peer).expect("the peer").set_scheduler(kind);
        assert_eq!(load.world.status(VAN).scheduler, kind);
        load.offer(15, ms(37));
    }
    load.world.run_for(ms(1500));
    let numbers = load.world.numbers(HQ);
    assert!(numbers.iter().copied().eq(0..load.next), "{} of {}, or in disorder", numbers.len(), load.next);
}
