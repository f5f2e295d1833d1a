//! Classes that prefer some paths, in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_core::{ClassConfig, ClassMatch, PathPreference, PathTuning, RepairKind, SchedulerKind, Tier};

use crate::world::{HQ, Link, Setup, TCP, UDP, VAN, World, packet};

const INNER: usize = 1200;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What is offered of the class `media`, which is UDP, and of all else, which is TCP.
const MEDIA: usize = 0;
const REST: usize = 1;
const PROTOCOLS: [u8; 2] = [UDP, TCP];

fn preference(paths: &[&str], avoid: &[&str], strict: bool) -> PathPreference {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    PathPreference { paths: names(paths), avoid: names(avoid), strict }
}

fn media(paths: PathPreference) -> Vec<ClassConfig> {
    let packets = ClassMatch { protocols: vec![UDP], ..ClassMatch::default() };
    let media = ClassConfig { name: "media".to_owned(), packets, paths, ..ClassConfig::best_effort() };
    vec![media, ClassConfig::best_effort()]
}

/// Two kinds of traffic from one end over links of given rates.
struct Mix {
    world: World,
    from: usize,
    sent: [u32; 2],
}

impl Mix {
    fn new(mbits: &[u64], setup: impl Into<Setup>, paths: PathPreference) -> Self {
        let links = mbits.iter().map(|&mbit| Link::new(10).mbit(mbit)).collect();
        let mut world = World::connected_with(links, setup, media(paths));
        world.run_for(ms(300));
        Self { world, from: VAN, sent: [0; 2] }
    }

    /// Offers so many Mb/s of each for a time; returns what arrived of each in Mb/s, and what each link carried in bytes.
    fn offer(&mut self, mbit: [u64; 2], time: Duration) -> ([f64; 2], Vec<u64>) {
        let (start, end) = (self.world.now, self.world.now + time);
        let before = [MEDIA, REST].map(|kind| self.arrived(kind).len());
        let carried: Vec<_> = self.world.links.iter().map(|link| link.carried_bytes[self.from]).collect();
        let mut offered = [0; 2];
        while self.world.now < end {
            self.world.run_for(Duration::from_micros(500));
            let passed = (self.world.now - start).as_secs_f64();
            for kind in [MEDIA, REST] {
                while (offered[kind] * INNER * 8) as f64 <= passed * mbit[kind] as f64 * 1e6 && mbit[kind] > 0
                {
                    let packet = packet(self.from, PROTOCOLS[kind], flow(kind), self.sent[kind], INNER);
                    self.world.send(self.from, &packet);
                    self.sent[kind] += 1;
                    offered[kind] += 1;
                }
            }
        }
        let arrived = [MEDIA, REST].map(|kind| self.arrived(kind).len() - before[kind]);
        let rates = arrived.map(|packets| (packets * INNER * 8) as f64 / time.as_secs_f64() / 1e6);
        let links = self.world.links.iter().zip(carried);
        (rates, links.map(|(link, before)| link.carried_bytes[self.from] - before).collect())
    }

    fn arrived(&self, kind: usize) -> BTreeSet<u32> {
        self.world.flow_numbers(1 - self.from, flow(kind)).into_iter().collect()
    }

    fn lost(&mut self) -> [usize; 2] {
        self.world.run_for(ms(1500));
        [MEDIA, REST].map(|kind| self.sent[kind] as usize - self.arrived(kind).len())
    }

    fn set_classes(&mut self, paths: PathPreference) {
        for end in [VAN, HQ] {
            self.world.ends[end].site.set_classes(media(paths.clone()));
        }
    }

    fn is_stuck(&self) -> bool {
        let classes = self.world.status(self.from).classes;
        classes.iter().any(|class| class.name == "media" && class.is_stuck)
    }
}

fn flow(kind: usize) -> u16 {
    [2, 1][kind]
}

#[test]
fn a_class_goes_over_the_paths_that_it_prefers_whatever_the_scheduler() {
    for from in [VAN, HQ] {
        for scheduler in SchedulerKind::ALL {
            // The van has opened them, and told how they are called.
            let mut mix = Mix::new(&[40, 40, 40], scheduler, preference(&["link1"], &[], false));
            mix.from = from;
            let (rates, carried) = mix.offer([10, 0], ms(2000));
            println!("{} {rates:?} {carried:?}", scheduler.name());
            assert!(carried[1] > 2_400_000, "{scheduler:?} {carried:?}");
            assert!(carried[0] < 20_000 && carried[2] < 20_000, "{scheduler:?} {carried:?}");
            assert_eq!(mix.lost(), [0, 0], "{scheduler:?}");
        }
    }
}

#[test]
fn it_goes_over_others_while_none_of_them_works() {
    for scheduler in SchedulerKind::ALL {
        let mut mix = Mix::new(&[40, 40, 40], scheduler, preference(&["link1"], &["link2"], false));
        mix.offer([10, 0], ms(500));
        mix.world.links[1].cut();
        mix.offer([10, 0], ms(1000));
        let (_, carried) = mix.offer([10, 0], ms(1000));
        assert!(carried[0] > 1_000_000 && carried[2] < 20_000, "{scheduler:?} {carried:?}");
        mix.world.links[0].cut();
        mix.offer([10, 0], ms(1000));
        let (_, carried) = mix.offer([10, 0], ms(1000));
        assert!(carried[2] > 1_000_000, "what is avoided is better than nothing: {scheduler:?} {carried:?}");
        mix.world.links[1].restore();
        mix.offer([10, 0], ms(3000));
        let (_, carried) = mix.offer([10, 0], ms(1000));
        assert!(carried[1] > 1_000_000 && carried[2] < 20_000, "{scheduler:?} {carried:?}");
        assert_eq!(mix.lost(), [0, 0], "{scheduler:?}");
    }
}

#[test]
fn a_strict_class_waits_and_nobody_else_does() {
    for scheduler in SchedulerKind::ALL {
        for repair in RepairKind::ALL {
            let setup = Setup { repair, ..scheduler.into() };
            let mut mix = Mix::new(&[40, 40], setup, preference(&["link1"], &[], true));
            mix.offer([5, 5], ms(500));
            mix.world.links[1].cut();
            mix.offer([0, 5], ms(1500));
            assert!(mix.is_stuck(), "{scheduler:?} {repair:?}");
            // All of it is the others'.
            let (rates, carried) = mix.offer([5, 5], ms(2000));
            assert!(rates[REST] > 4.8 && rates[MEDIA] < 0.01, "{scheduler:?} {repair:?} {rates:?}");
            let (_, without) = mix.offer([0, 5], ms(2000));
            assert!(carried[0] < without[0] + 20_000, "{scheduler:?} {repair:?} {carried:?} {without:?}");
            let status = mix.world.status(VAN);
            assert!(
                status.queue_drops > 0,
                "what has waited for a second is dropped: {scheduler:?} {repair:?}"
            );
            mix.world.links[1].restore();
            mix.offer([0, 5], ms(3000));
            assert!(!mix.is_stuck(), "{scheduler:?} {repair:?}");
            let (rates, _) = mix.offer([5, 5], ms(1000));
            assert!(rates[MEDIA] > 4.5, "{scheduler:?} {repair:?} {rates:?}");
        }
    }
}

#[test]
fn a_class_whose_paths_are_full_keeps_no_other_from_free_ones() {
    for scheduler in [SchedulerKind::Earliest, SchedulerKind::WrrAdaptive, SchedulerKind::Backup] {
        for strict in [false, true] {
            let mut mix = Mix::new(&[40, 5], scheduler, preference(&["link1"], &[], strict));
            mix.offer([20, 20], ms(1000));
            let (rates, carried) = mix.offer([20, 20], ms(4000));
            println!("{} {rates:?} {carried:?}", scheduler.name());
            assert!(rates[REST] > 19.0, "{scheduler:?} {rates:?} {carried:?}");
            assert!(rates[MEDIA] > 1.8, "{scheduler:?} {rates:?} {carried:?}");
        }
    }
}

#[test]
fn classes_share_a_path_by_weight_although_one_could_leave_it() {
    for weights in [[10, 10], [30, 10]] {
        let mut classes = media(preference(&["link0"], &[], true));
        for (class, weight) in classes.iter_mut().zip(weights) {
            class.weight = weight;
        }
        let world = World::connected_with(vec![Link::new(10).mbit(20)], SchedulerKind::Earliest, classes);
        let mut mix = Mix { world, from: VAN, sent: [0; 2] };
        mix.offer([30, 30], ms(2000));
        let (rates, _) = mix.offer([30, 30], ms(4000));
        let (ratio, wanted) = (rates[MEDIA] / rates[REST], f64::from(weights[0]) / f64::from(weights[1]));
        println!("{weights:?} {rates:?}");
        assert!((0.8..1.25).contains(&(ratio / wanted)), "{weights:?} {rates:?}");
    }
}

#[test]
fn a_backup_stays_one() {
    let mut mix = Mix::new(&[40, 40], SchedulerKind::Earliest, preference(&["link1"], &[], false));
    let van = &mut mix.world.ends[VAN];
    let peer = van.site.peer(van.peer).expect("the peer exists");
    let tuning = PathTuning { tier: Some(Tier::Backup), ..PathTuning::default() };
    peer.path_named("link1").expect("the path is open").reconfigure(tuning);
    mix.world.run_for(ms(200));
    let (_, carried) = mix.offer([10, 0], ms(1000));
    assert!(carried[0] > 1_000_000 && carried[1] < 20_000, "{carried:?}");
}

#[test]
fn wishes_change_under_load_and_nothing_is_lost() {
    let wishes = [
        preference(&["link0"], &[], false),
        preference(&[], &[], false),
        preference(&["link2", "link1"], &["link1"], false),
        preference(&[], &["link0", "link1"], true),
    ];
    for scheduler in SchedulerKind::ALL {
        let mut mix = Mix::new(&[40, 40, 40], scheduler, preference(&[], &[], false));
        for round in 0..16 {
            mix.offer([5, 5], ms(130));
            mix.set_classes(wishes[round % wishes.len()].clone());
        }
        assert_eq!(mix.lost(), [0, 0], "{scheduler:?}");
    }
}
