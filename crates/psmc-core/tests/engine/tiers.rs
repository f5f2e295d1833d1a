//! What paths of each tier carry, in virtual time.

use std::time::Duration;

use psmc_core::{Direction, PathError, PathTuning, SchedulerKind, Tier};

use crate::paths::longest_gap;
use crate::schedulers::{Load, capacity};
use crate::world::{HQ, TCP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Gives the van's path over a link a tier, which the headquarters hear of.
fn set_tier(world: &mut World, link: usize, tier: Tier) {
    let van = &mut world.ends[VAN];
    let peer = van.site.peer(van.peer).expect("the peer exists");
    let mut path = peer.path_named(&format!("link{link}")).expect("the path is open");
    path.reconfigure(PathTuning { tier: Some(tier), ..PathTuning::default() });
}

/// A load on links of so many Mb/s, whose paths have these tiers.
fn load(mbits: &[u64], tiers: &[Tier], scheduler: SchedulerKind) -> Load {
    let mut load = Load::new(mbits, scheduler);
    for (link, tier) in tiers.iter().enumerate() {
        set_tier(&mut load.world, link, *tier);
    }
    load.world.run_for(ms(200));
    load
}

#[test]
fn the_far_end_knows_the_tiers_too() {
    let load = load(&[20, 20, 20, 20], &Tier::ALL, SchedulerKind::Earliest);
    for end in [VAN, HQ] {
        let tiers: Vec<_> = load.world.status(end).paths.iter().map(|path| path.tier).collect();
        assert_eq!(tiers, Tier::ALL, "end {end}");
    }
}

#[test]
fn secondary_paths_rest_while_the_primary_one_suffices_whatever_the_scheduler() {
    for scheduler in SchedulerKind::ALL.into_iter().filter(|kind| *kind != SchedulerKind::Redundant) {
        let mut load = load(&[20, 30], &[Tier::Primary, Tier::Secondary], scheduler);
        let (rate, carried) = load.offer(10, ms(10_000));
        println!("{} {rate:.1} Mb/s {carried:?}", scheduler.name());
        assert!(rate > 9.9, "{scheduler:?} {rate:.1}");
        assert!(carried[1] * 200 < carried[0], "{scheduler:?} {carried:?}");
    }
}

#[test]
fn a_backlog_fills_secondary_paths_and_when_it_ends_they_rest_again() {
    for scheduler in [SchedulerKind::Earliest, SchedulerKind::WrrAdaptive, SchedulerKind::Backup] {
        let mut load = load(&[20, 30], &[Tier::Primary, Tier::Secondary], scheduler);
        load.offer(80, ms(3000));
        let (rate, carried) = load.offer(80, ms(4000));
        println!("{} {rate:.1} Mb/s {carried:?}", scheduler.name());
        assert!(rate >= 0.95 * capacity(50.0), "{scheduler:?} {rate:.1} {carried:?}");
        load.world.run_for(ms(1000));
        let (rate, carried) = load.offer(10, ms(4000));
        assert!(rate > 9.9 && carried[1] * 200 < carried[0], "{scheduler:?} {rate:.1} {carried:?}");
    }
}

/// Full in both directions, each of which has a path of its own, and one that is the other's as long as that is wanted.
#[test]
fn a_path_carries_data_only_the_way_that_it_shall() {
    for scheduler in SchedulerKind::ALL {
        let mut load = load(&[20, 20], &[Tier::Primary; 2], scheduler);
        let mut set = |link: usize, direction| {
            let van = &mut load.world.ends[VAN];
            let peer = van.site.peer(van.peer).expect("the peer exists");
            let mut path = peer.path_named(&format!("link{link}")).expect("the path is open");
            path.reconfigure(PathTuning { direction: Some(direction), ..PathTuning::default() });
        };
        set(0, Direction::Up);
        set(1, Direction::Down);
        load.world.run_for(ms(200));
        let sent = |world: &World| {
            [VAN, HQ].map(|end| {
                world.status(end).paths.iter().map(|path| path.counters.tx_bytes).collect::<Vec<_>>()
            })
        };
        let before = sent(&load.world);
        for number in 0..4000 {
            load.world.send(VAN, &packet(VAN, TCP, 1, number, 1000));
            load.world.send(HQ, &packet(HQ, TCP, 2, number, 1000));
            load.world.run_for(ms(1));
        }
        load.world.run_for(ms(1000));
        let after = sent(&load.world);
        let carried = |end: usize, path: usize| after[end][path] - before[end][path];
        for (end, own, other) in [(VAN, 0, 1), (HQ, 1, 0)] {
            assert!(carried(end, own) > 4_000_000, "{scheduler:?}: {after:?}");
            assert!(carried(end, other) < 200_000, "{scheduler:?}: {} of end {end}", carried(end, other));
        }
        assert_eq!(load.world.numbers(HQ).len().min(load.world.numbers(VAN).len()), 4000, "{scheduler:?}");
        // Whoever has opened it says so, and can say otherwise.
        let status = load.world.status(VAN);
        assert_eq!([status.paths[0].direction, status.paths[1].direction], [Direction::Up, Direction::Down]);
        let tiers: Vec<_> = load.world.status(HQ).paths.iter().map(|path| path.tier).collect();
        assert_eq!(tiers, [Tier::Never, Tier::Primary]);
    }
}

#[test]
fn copies_take_secondary_paths() {
    let mut load = load(&[20, 30], &[Tier::Primary, Tier::Secondary], SchedulerKind::Redundant);
    let (_, carried) = load.offer(10, ms(4000));
    assert!(carried[1] * 10 > carried[0] * 9, "{carried:?}");
}

#[test]
fn backups_carry_data_only_when_nothing_else_works_and_at_once() {
    for scheduler in SchedulerKind::ALL {
        let tiers = [Tier::Primary, Tier::Secondary, Tier::Backup];
        let mut load = load(&[40, 40, 40], &tiers, scheduler);
        let (_, carried) = load.offer(10, ms(2000));
        assert!(carried[2] < 20_000, "{scheduler:?} {carried:?}");
        let cut_at = load.world.now;
        load.world.links[0].cut();
        load.world.links[1].cut();
        let (_, carried) = load.offer(10, ms(2000));
        assert!(carried[2] > 2_000_000, "{scheduler:?} {carried:?}");
        let gap = longest_gap(&load.world, HQ, cut_at);
        println!("{} {gap:?}", scheduler.name());
        assert!(gap <= ms(150), "{scheduler:?} {gap:?}");
        load.world.links[0].restore();
        load.offer(10, ms(3000));
        let (_, carried) = load.offer(10, ms(2000));
        assert!(carried[0] > 2_000_000 && carried[2] < 20_000, "{scheduler:?} {carried:?}");
        load.world.run_for(ms(500));
        let (offered, arrived) = load.offered_and_arrived();
        assert_eq!(arrived, offered, "{scheduler:?}");
    }
}

#[test]
fn what_is_never_to_be_used_is_not_even_when_all_else_is_dead() {
    for scheduler in SchedulerKind::ALL {
        let mut load = load(&[40, 40], &[Tier::Primary, Tier::Never], scheduler);
        load.offer(10, ms(1000));
        load.world.links[0].cut();
        let (_, carried) = load.offer(10, ms(3000));
        // Probes, and acknowledgements that the other path's silence leaves to it.
        assert!(carried[1] < 20_000, "{scheduler:?} {carried:?}");
        set_tier(&mut load.world, 1, Tier::Backup);
        let (_, carried) = load.offer(10, ms(1000));
        assert!(carried[1] > 1_000_000, "it was kept ready: {scheduler:?} {carried:?}");
    }
}

#[test]
fn what_its_tier_spares_is_not_activated_by_hand() {
    let mut load = load(&[20, 20], &[Tier::Primary, Tier::Backup], SchedulerKind::Earliest);
    let now = load.world.now;
    let van = &mut load.world.ends[VAN];
    let peer = van.site.peer(van.peer).expect("the peer exists");
    let mut path = peer.path_named("link1").expect("the path is open");
    assert_eq!(path.set_standby(true, now), Ok(()));
    assert_eq!(path.set_standby(false, now), Ok(()), "this ends that");
    assert_eq!(path.set_standby(false, now), Err(PathError::Spared(Tier::Backup)));
}

#[test]
fn tiers_change_under_load_and_nothing_is_lost() {
    for scheduler in SchedulerKind::ALL {
        let mut load = Load::new(&[40, 40, 40], scheduler);
        for round in 0..12 {
            load.offer(10, ms(150));
            set_tier(&mut load.world, round % 2, Tier::ALL[(round * 7 + 1) % 4]);
        }
        load.world.run_for(ms(1000));
        let (offered, arrived) = load.offered_and_arrived();
        assert_eq!(arrived, offered, "{scheduler:?}");
    }
}

#[test]
fn a_backup_costs_next_to_nothing() {
    let mut load = load(&[20, 20], &[Tier::Primary, Tier::Backup], SchedulerKind::Earliest);
    load.offer(10, ms(1000));
    let before = load.world.links[1].carried_bytes;
    // A packet a second, so that the session never rests.
    let time = Duration::from_secs(3600);
    for number in 0..time.as_secs() {
        load.world.send(VAN, &packet(VAN, TCP, 2, u32::try_from(number).expect("few"), 500));
        load.world.run_for(Duration::from_secs(1));
    }
    let carried = load.world.links[1].carried_bytes;
    let day = 24 * (carried[VAN] + carried[HQ] - before[VAN] - before[HQ]);
    println!("{day} bytes a day");
    assert!(day <= 2_000_000, "{day}");
}
