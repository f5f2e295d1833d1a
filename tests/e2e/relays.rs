//! Paths through relays: the real daemons and the real relays, on hosts that nothing else joins.

use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::PathState;

use crate::harness::{
    Bulk, Family, Relayed, Site, Tap, contains, hq_interface, seen_address, van_address, wait_for,
};
use psmc_testbed::steadily::{Measured, steadily};

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(15);

/// The longest time without a byte over TCP when one of two relays is killed: far more than it takes, which is printed.
const MAX_GAP: Duration = Duration::from_secs(2);

/// What a link to a relay carries, in Mbit/s.
const MBIT: u64 = 20;

fn is_active(site: &Site, path: &str) {
    site.wait_for_path(path, &[PathState::Active], PATIENCE);
}

#[test]
fn tcp_goes_on_when_one_of_two_relays_is_killed_and_uses_it_again_when_it_is_back() {
    steadily(Measured::Time, || {
        let mut world = Relayed::prepare(2, Some(MBIT));
        world.start("", &(Relayed::path(&[0]) + &Relayed::path(&[1])));
        for path in ["r0", "r1"] {
            is_active(&world.tunnel.van, path);
            is_active(&world.tunnel.hq, path);
        }
        let bulk = Bulk::start(&world.tunnel.van, &world.tunnel.hq);
        bulk.wait_for_bytes(4 << 20, PATIENCE);
        world.kill(0);
        let gap = bulk.longest_gap_in(Duration::from_secs(1), PATIENCE);
        println!("a relay was killed: {gap:.0?} without a byte");
        assert!(gap < MAX_GAP, "{gap:?}");
        world.tunnel.van.wait_for_path("r0", &[PathState::Dead], PATIENCE);
        let status = world.tunnel.van.path("r0").unwrap();
        assert!(status.relay_error.is_some(), "nobody is told why: {status:?}");
        let sent = status.tx_bytes;
        world.restart(0);
        let back = Instant::now();
        is_active(&world.tunnel.van, "r0");
        println!("the relay is back: its path is used after {:.0?}", back.elapsed());
        wait_for("bytes through the relay that is back", PATIENCE, || {
            world.tunnel.van.path("r0").filter(|path| path.tx_bytes > sent + (1 << 20))
        });
        bulk.finish();
        assert_eq!(world.tunnel.van.path("r0").unwrap().relay_error, None);
    });
}

#[test]
fn a_relay_that_lost_its_power_is_used_again_soon_after_it_is_back() {
    let mut world = Relayed::prepare(1, None);
    world.start("", &Relayed::path(&[0]));
    is_active(&world.tunnel.van, "r0");
    // Nobody hears of it: neither of its end, nor that it has forgotten everything.
    world.silence(0, true);
    world.kill(0);
    world.restart(0);
    world.tunnel.van.wait_for_path("r0", &[PathState::Dead], PATIENCE);
    sleep(Duration::from_secs(3));
    world.silence(0, false);
    let back = Instant::now();
    is_active(&world.tunnel.van, "r0");
    println!("the relay is reachable: its path is used after {} ms", back.elapsed().as_millis());
    world.tunnel.ping(Family::V4);
    assert!(world.tunnel.hq.peer().control.connected);
}

#[test]
fn a_chain_of_relays_shows_neither_end_to_the_other() {
    let mut world = Relayed::prepare(2, None);
    let tap = Tap::start(&world.tunnel.hq.namespace, &hq_interface(1));
    world.start("", &Relayed::path(&[0, 1]));
    is_active(&world.tunnel.van, "r0-r1");
    is_active(&world.tunnel.hq, "r0-r1");
    world.tunnel.ping(Family::V4);
    let (van, hq) = (world.tunnel.van.peer(), world.tunnel.hq.peer());
    assert_eq!(van.paths[0].relays, ["r0", "r1"]);
    assert!(van.control.connected && hq.control.connected);
    let remote = hq.paths[0].remote.clone().unwrap();
    assert!(remote.starts_with(&seen_address(1).to_string()), "{remote}");
    let frames = tap.finish();
    let telling = frames.iter().filter(|frame| contains(frame, &van_address(0).octets())).count();
    println!("{} frames at the headquarters, {telling} with the van's address", frames.len());
    assert!(frames.len() > 20 && telling == 0, "{telling} of {}", frames.len());
}

#[test]
fn a_path_moves_to_a_spare_relay_when_its_own_stays_dead() {
    let mut world = Relayed::prepare(2, None);
    // Whichever relay it is, it leads to an address that the headquarters have.
    let path = Relayed::path(&[0]);
    world.start("spare_relays = [\"r1\"]\n", &path);
    world.tunnel.hq.run(&["ip", "address", "add", "10.211.0.2/32", "dev", &hq_interface(1)]);
    world.route_to_hq(1, 0);
    is_active(&world.tunnel.van, "r0");
    world.kill(0);
    wait_for("a path through the spare relay", PATIENCE, || {
        let path = world.tunnel.van.path("r0")?;
        (path.relays == ["r1"] && path.state == PathState::Active).then_some(())
    });
    assert!(world.tunnel.van.log().contains("moves to a spare relay"));
    world.tunnel.ping(Family::V4);
}

#[test]
fn a_path_through_a_relay_is_added_and_removed_by_hand() {
    let mut world = Relayed::prepare(2, None);
    world.start("", &Relayed::path(&[0]));
    is_active(&world.tunnel.van, "r0");
    let add = |relays| ["path", "add", "hq", "p3", "--relays", relays, "--endpoint", "10.211.1.2:5115"];
    world.tunnel.van.psmc_ok(&add("r1"));
    is_active(&world.tunnel.van, "p3");
    world.tunnel.van.psmc_ok(&["path", "remove", "hq", "r0"]);
    world.tunnel.ping(Family::V4);
    for (relays, complaint) in
        [("nobody", "there is no relay `nobody`; this site knows: r0, r1"), ("r1,r1", "twice")]
    {
        let output = world.tunnel.van.psmc(&add(relays));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(complaint), "{stderr}");
    }
}

#[test]
fn sessions_are_given_back_when_the_daemon_ends() {
    let mut world = Relayed::prepare(2, None);
    world.start("", &(Relayed::path(&[0]) + &Relayed::path(&[0, 1])));
    for path in ["r0", "r0-r1"] {
        is_active(&world.tunnel.van, path);
    }
    let sessions = |world: &Relayed| [0, 1].map(|relay| world.status(relay).sessions.len());
    assert_eq!(sessions(&world), [2, 1]);
    assert!(world.tunnel.van.terminate().success());
    assert_eq!(sessions(&world), [0, 0]);
}
