//! Paths die and come back while traffic flows.

use std::time::{Duration, Instant};

use psmc_api::PathState;

use crate::harness::{Bulk, HQ, Plan, Site, Stream, Tunnel, VAN, path_name, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

/// How long one path may take to come up while another one is dead: little more than it takes without.
const UP_WITHIN: Duration = Duration::from_secs(2);

/// How soon a path that works again is in use again.
const BACK_WITHIN: Duration = Duration::from_secs(1);

/// The longest time without a byte when a path under load is lost. Usually it is below 200 ms.
const MAX_GAP: Duration = Duration::from_secs(1);

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a shaped link carries, in Mbit/s.
const MBIT: u64 = 40;

/// How a link can be out of order.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The interface doesn't exist.
    Missing,
    /// The interface is down.
    Down,
    /// Everything on it is lost, and nobody is told.
    BlackHole,
    /// What the van sends is lost.
    VanIsUnheard,
    /// What the headquarters send is lost.
    VanHearsNothing,
}

use Fault::{BlackHole, Down, Missing, VanHearsNothing, VanIsUnheard};

impl Fault {
    /// Breaks link 1, which must be there but for [`Missing`].
    fn begin(self, tunnel: &Tunnel) {
        match self {
            Missing => tunnel.van.run(&["ip", "link", "del", &VAN.link(1)]),
            Down => tunnel.van.run(&["ip", "link", "set", &VAN.link(1), "down"]),
            BlackHole => drop_all(tunnel, &["input", "output"]),
            VanIsUnheard => drop_all(tunnel, &["input"]),
            VanHearsNothing => drop_all(tunnel, &["output"]),
        };
    }

    /// The site whose datagrams are lost, so that it must notice.
    fn noticed_by(self, tunnel: &Tunnel) -> &Site {
        match self {
            Missing | Down | BlackHole | VanIsUnheard => &tunnel.van,
            VanHearsNothing => &tunnel.hq,
        }
    }

    /// Mends link 1, and returns when it carries packets again: the kernel takes up to a second for that.
    fn end(self, tunnel: &Tunnel) {
        match self {
            Missing => tunnel.lay_anew(1),
            Down => drop(tunnel.van.run(&["ip", "link", "set", &VAN.link(1), "up"])),
            BlackHole | VanIsUnheard | VanHearsNothing => {
                tunnel.hq.run(&["nft", "delete table inet fault"]);
            }
        }
        for site in [&tunnel.van, &tunnel.hq] {
            wait_for("an operational link", PATIENCE, || {
                let link = site.run(&["ip", "-oneline", "link", "show", &site.end.link(1)]);
                link.contains("state UP").then_some(())
            });
        }
    }
}

/// Makes the headquarters lose what passes these hooks on link 1.
fn drop_all(tunnel: &Tunnel, hooks: &[&str]) -> String {
    let interface = HQ.link(1);
    let chain = |hook: &&str| {
        let name = if *hook == "input" { "iifname" } else { "oifname" };
        format!("chain {hook} {{ type filter hook {hook} priority 0; {name} {interface} drop; }}; ")
    };
    let chains: String = hooks.iter().map(chain).collect();
    tunnel.hq.run(&["nft", &format!("table inet fault {{ {chains} }}")])
}

#[test]
fn a_path_without_interface_delays_nothing_and_is_used_when_it_appears() {
    steadily(Measured::Time, || {
        dead_at_start(Missing);
    });
}

#[test]
fn a_path_whose_link_is_down_delays_nothing_and_is_used_when_it_comes_up() {
    steadily(Measured::Time, || {
        dead_at_start(Down);
    });
}

#[test]
fn a_path_into_a_black_hole_delays_nothing_and_is_used_when_it_is_mended() {
    steadily(Measured::Time, || {
        dead_at_start(BlackHole);
    });
}

/// The first path is dead when the sites start, and comes to life later.
fn dead_at_start(fault: Fault) {
    let mut tunnel = Tunnel::prepare(Plan::default());
    fault.begin(&tunnel);
    tunnel.hq.start();
    wait_for("the daemon's answer", PATIENCE, || tunnel.hq.try_status());
    let started = Instant::now();
    tunnel.van.start();
    tunnel.van.wait_for_path(&path_name(VAN, 2), &[PathState::Active], PATIENCE);
    let up = started.elapsed();
    assert!(up < UP_WITHIN, "{up:?}");

    let stream = Stream::start(&tunnel.van, &tunnel.hq, Duration::from_millis(5));
    stream.wait_until_back(Instant::now(), PATIENCE);
    fault.end(&tunnel);
    let back = time_until_active(&tunnel.van);
    println!("{fault:?}: the other path is up after {up:.0?}, this one is back after {back:.0?}");
    assert!(back < BACK_WITHIN, "{back:?}");
    assert_eq!(stream.finish().lost(), [0; 0], "the stream never needed the dead path");
}

#[test]
fn a_path_that_comes_back_is_used_again() {
    steadily(Measured::Time, || {
        for fault in [Missing, Down, BlackHole, VanIsUnheard, VanHearsNothing] {
            let tunnel = Tunnel::start(Plan::default());
            // Without traffic nobody is in a hurry to find out.
            let interval = Duration::from_millis(5);
            let streams = [
                Stream::start(&tunnel.van, &tunnel.hq, interval),
                Stream::start(&tunnel.hq, &tunnel.van, interval),
            ];
            fault.begin(&tunnel);
            let site = fault.noticed_by(&tunnel);
            site.wait_for_path(&path_name(VAN, 1), &[PathState::Dead], PATIENCE);
            fault.end(&tunnel);
            let back = time_until_active(site);
            tunnel.wait_until_up();
            let lost = streams.map(|stream| stream.finish().lost().len());
            println!(
                "{fault:?}: back after {back:.0?}; lost {lost:?} packets of the van and of hq meanwhile"
            );
            assert!(back < BACK_WITHIN, "{fault:?}: {back:?}");
        }
    });
}

fn time_until_active(site: &Site) -> Duration {
    let mended = Instant::now();
    site.wait_for_path(&path_name(VAN, 1), &[PathState::Active], PATIENCE);
    mended.elapsed()
}

#[test]
fn tcp_hardly_stops_when_a_path_is_lost() {
    steadily(Measured::Time, || {
        for fault in [Down, Missing, BlackHole, VanIsUnheard, VanHearsNothing] {
            let tunnel = Tunnel::start(Plan { mbit: Some(MBIT), ..Plan::default() });
            let there = gap_when_lost(&tunnel, fault);
            println!("{fault:?}: the longest time without a byte is {there:.0?}");
            assert!(there < MAX_GAP, "{fault:?}: {there:?}");
        }
    });
}

/// The longest time without a byte of the van's upload when link 1 is lost.
fn gap_when_lost(tunnel: &Tunnel, fault: Fault) -> Duration {
    let bulk = Bulk::start(&tunnel.van, &tunnel.hq);
    // Both paths carry as much as they can by then.
    bulk.wait_for_bytes(8 << 20, PATIENCE);
    fault.begin(tunnel);
    let gap = bulk.longest_gap_in(Duration::from_secs(1), PATIENCE);
    bulk.finish();
    gap
}
