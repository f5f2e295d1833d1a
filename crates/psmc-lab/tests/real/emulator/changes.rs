//! Links that become others while they run.

use std::time::{Duration, Instant, SystemTime};

use psmc_lab::emulator::{Emulator, Plan};
use psmc_sim::link::{DropReason, LinkConfig};

use super::bench::{Bench, LINK, frames};

#[test]
fn a_black_hole_swallows_one_direction_until_it_is_filled_up() {
    let mut bench = Bench::new(&LinkConfig::default());
    bench.emulator.change(LINK, 0, LinkConfig { black_hole: true, ..LinkConfig::default() });
    bench.send(1, &frames(10, 100));
    bench.receive(0, 10);
    // What came back says that the change was made: it was ordered before.
    bench.send(0, &frames(10, 100));
    assert!(bench.receive_all(1, 10).is_empty());
    assert_eq!(bench.counters(0).dropped_for(DropReason::BlackHole), 10);

    bench.emulator.change(LINK, 0, LinkConfig::default());
    bench.send(1, &frames(10, 100));
    bench.receive(0, 10);
    bench.send(0, &frames(10, 100));
    assert_eq!(bench.receive_all(1, 20).len(), 10);
}

#[test]
fn a_black_hole_swallows_what_is_on_the_way() {
    let mut bench = Bench::new(&LinkConfig { delay: Duration::from_secs(60), ..LinkConfig::default() });
    bench.send(0, &frames(10, 100));
    bench.emulator.change(LINK, 0, LinkConfig { black_hole: true, ..LinkConfig::default() });
    assert!(bench.receive_all(1, 10).is_empty());
    assert_eq!(bench.counters(0).dropped_for(DropReason::BlackHole), 10);
}

#[test]
fn what_is_on_the_way_arrives_when_it_would_have() {
    let mut bench = Bench::new(&LinkConfig { delay: Duration::from_millis(300), ..LinkConfig::default() });
    let before = SystemTime::now();
    bench.send(0, &frames(1, 100));
    bench.emulator.change(LINK, 0, LinkConfig::default());
    let took = bench.receive(1, 1)[0].at.duration_since(before).unwrap();
    assert!(took >= Duration::from_millis(300), "{took:?}");
}

#[test]
fn many_changes_are_all_made() {
    let mut bench = Bench::new(&LinkConfig::default());
    for millis in 0..2000 {
        let delay = Duration::from_millis(millis % 7);
        bench.emulator.change(LINK, 0, LinkConfig { delay, ..LinkConfig::default() });
        bench.send(0, &frames(1, 100));
    }
    assert_eq!(bench.receive(1, 2000).len(), 2000);
}

#[test]
fn an_interface_that_was_down_carries_again() {
    let mut bench = Bench::new(&LinkConfig::default());
    bench.hosts[1].set_link("wire", false).unwrap();
    bench.send(0, &frames(5, 100));
    assert!(bench.receive_all(1, 5).is_empty());
    assert_eq!(bench.health().refused, 5);
    bench.hosts[1].set_link("wire", true).unwrap();
    bench.send(0, &frames(5, 100));
    assert_eq!(bench.receive(1, 5).len(), 5);
    bench.send(1, &frames(5, 100));
    assert_eq!(bench.receive(0, 5).len(), 5);
}

#[test]
fn two_emulators_do_not_disturb_each_other() {
    let (mut first, mut second) = (Bench::new(&LinkConfig::default()), Bench::new(&LinkConfig::default()));
    first.send(0, &frames(10, 100));
    second.send(0, &frames(20, 100));
    assert_eq!(first.receive_all(1, 10).len(), 10);
    assert_eq!(second.receive_all(1, 20).len(), 20);
    drop(first);
    second.send(0, &frames(20, 100));
    assert_eq!(second.receive_all(1, 40).len(), 20);
}

#[test]
fn an_emulator_takes_its_interfaces_along() {
    let bench = Bench::new(&LinkConfig::default());
    let Bench { hosts, ports, emulator } = bench;
    drop((emulator, ports));
    let [a, b] = &hosts;
    let link = || {
        let plan = Plan {
            ends: [(a, "wire"), (b, "wire")],
            directions: Default::default(),
            seeds: [1, 2],
            captures: None,
        };
        Emulator::builder().unwrap().link(plan)
    };
    // The kernel takes a namespace down in its own time, later on a busy machine.
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = link() {
        assert!(Instant::now() < deadline, "the name is free again: {error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn errors_name_the_culprit() {
    let bench = Bench::new(&LinkConfig::default());
    let plan = Plan {
        ends: [(&bench.hosts[0], "wire"), (&bench.hosts[1], "other")],
        directions: Default::default(),
        seeds: [1, 2],
        captures: None,
    };
    let error = Emulator::builder().unwrap().link(plan).unwrap_err();
    assert!(format!("{error:?}").contains("wire"), "{error:?}");
    let plan = Plan {
        ends: [(&bench.hosts[0], "a"), (&bench.hosts[1], "b")],
        directions: Default::default(),
        seeds: [1, 2],
        captures: Some(["/nonexistent/a".into(), "/nonexistent/b".into()]),
    };
    let error = Emulator::builder().unwrap().link(plan).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/a"), "{error}");
}
