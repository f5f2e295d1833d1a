//! Routes, registrations and peers that the daemons learn while they run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::{Carrier, PathState, RoutesStatus};
use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Queue;
use psmc_testbed::stalls::StallWatch;

use crate::harness::{Bulk, Family, HQ, Plan, Relayed, Site, Stream, Trickle, VAN, path_name, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

/// For what takes no time to speak of, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the direct way must be well at the least until it is used again.
const WELL_FOR: Duration = Duration::from_secs(2);

/// How often it is looked who carries the data.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A way that was slow for more than this part of the time is not as good as it was, and need not be used again. On a machine that
/// stands still for so long every way is slow.
const SLOW_PART: f64 = 0.1;

/// What every link carries, in Mbit/s.
const MBIT: u64 = 20;

/// Between two datagrams of a stream.
const INTERVAL: Duration = Duration::from_millis(5);

fn is_active(site: &Site, path: &str) {
    site.wait_for_path(path, &[PathState::Active], PATIENCE);
}

fn stands_by(site: &Site, path: &str) {
    site.wait_for_path(path, &[PathState::Standby], PATIENCE);
}

fn routes(site: &Site) -> RoutesStatus {
    site.peer().routes.expect("routes were learned")
}

/// Waits until paths of this kind carry the data, and says how long that took.
fn carried_by(site: &Site, carrier: Carrier) -> Duration {
    let took = carried_in_time(site, carrier);
    took.unwrap_or_else(|| panic!("not within {PATIENCE:?}: data over {carrier:?}"))
}

/// The same; `None` if they don't in time.
fn carried_in_time(site: &Site, carrier: Carrier) -> Option<Duration> {
    let begun = Instant::now();
    let now = || Some(site.try_status()?.peers.remove(0).routes?.carrier);
    while now() != Some(carrier) {
        if begun.elapsed() > PATIENCE {
            return None;
        }
        sleep(LOOK_AGAIN);
    }
    Some(begun.elapsed())
}

/// Waits until the direct way carries the data again, and says how long that took; `None` where the machine stands still so much
/// that every way is slow, and need not be as good as it was.
fn returned(site: &Site) -> Option<Duration> {
    let watch = StallWatch::start().unwrap();
    let took = carried_in_time(site, Carrier::Direct);
    let stalls = watch.finish();
    assert!(took.is_some() || stalls.share > SLOW_PART, "not back within {PATIENCE:?}, {stalls:?}");
    took
}

/// A world with this many relays, at all of which the headquarters are gateways, and a straight link as well.
fn flooded(relays: usize, policy: &str) -> Relayed {
    let plan = Plan { links: 1, mbit: Some(MBIT), ..Plan::default() };
    let mut world = Relayed::prepare_with(plan, relays, Some(MBIT));
    world.start_registered(&format!("routes = \"{policy}\"\n"));
    is_active(&world.tunnel.van, &path_name(VAN, 1));
    wait_for("registrations", PATIENCE, || {
        let registered = world.tunnel.hq.try_status()?.site.registered;
        (registered.len() == relays && registered.iter().all(|relay| relay.registered)).then_some(())
    });
    world
}

/// Makes both ends of the straight link lose so many per cent of what they receive; none any more at 0.
fn flood(world: &Relayed, percent: u8) {
    for (site, end) in [(&world.tunnel.van, VAN), (&world.tunnel.hq, HQ)] {
        drop(site.try_run(&["nft", "delete", "table", "inet", "flood"]));
        if percent > 0 {
            site.run(&[
                "nft",
                &format!(
                    "table inet flood {{ chain in {{ type filter hook input priority 0; \
                     iifname \"{}\" numgen random mod 100 < {percent} drop; }}; }}",
                    end.link(1)
                ),
            ]);
        }
    }
}

fn set_routes(world: &Relayed, relays: &[usize], more: &[&str]) {
    let texts: Vec<_> = relays.iter().map(|&relay| world.route(relay)).collect();
    let relays = texts.iter().flat_map(|text| ["--relay", text]);
    let args: Vec<_> =
        ["routes", "set", "hq"].into_iter().chain(relays).chain(more.iter().copied()).collect();
    world.tunnel.van.psmc_ok(&args);
}

#[test]
fn data_leaves_a_flooded_way_for_two_relays_and_comes_back() {
    steadily(Measured::Time, || {
        let world = flooded(2, "prefer-direct");
        let (van, hq) = (&world.tunnel.van, &world.tunnel.hq);
        set_routes(&world, &[0, 1], &["--for", "10m"]);
        for path in ["alt-1", "alt-2"] {
            stands_by(van, path);
            stands_by(hq, path);
        }
        let direct = path_name(VAN, 1);
        let bulk = Bulk::start(van, hq);
        let stream = Stream::start(hq, van, INTERVAL);
        bulk.wait_for_bytes(4 << 20, PATIENCE);
        // However full the link is. On a busy machine it may have looked flooded for a moment.
        stands_by(van, "alt-1");
        let flooded = Instant::now();
        flood(&world, 90);
        let noticed = carried_by(van, Carrier::Learned);
        bulk.wait_for_bytes(bulk.bytes() + (1 << 20), PATIENCE);
        let gap = bulk.longest_gap_since(flooded);
        println!("a flood was noticed after {noticed:.0?}; the longest time without a byte was {gap:.0?}");
        for path in ["alt-1", "alt-2"] {
            is_active(van, path);
            let sent = van.path(path).unwrap().tx_bytes;
            wait_for("bytes over each relay", PATIENCE, || {
                van.path(path).filter(|path| path.tx_bytes > sent + (1 << 18))
            });
        }
        bulk.finish();
        let deliveries = stream.finish();
        println!(
            "of {} datagrams of a stream meanwhile {} were lost",
            deliveries.sent(),
            deliveries.lost().len()
        );
        flood(&world, 0);
        let traffic = Traffic::start(&world);
        let Some(back) = returned(van) else { return };
        println!("the straight way is used again {back:.1?} after the flood");
        assert!(back > WELL_FOR, "{back:?}");
        // It is left much sooner than it is used again, and TCP does not wait for that.
        assert!(2 * noticed < back && gap < back, "{noticed:?}, {gap:?} and {back:?}");
        is_active(van, &direct);
        stands_by(van, "alt-1");
        traffic.all_arrived(&world);
    });
}

/// Datagrams and a TCP connection in both directions.
struct Traffic {
    datagrams: [Stream; 2],
    tcp: Trickle,
}

impl Traffic {
    fn start(world: &Relayed) -> Self {
        let (van, hq) = (&world.tunnel.van, &world.tunnel.hq);
        let datagrams = [Stream::start(van, hq, INTERVAL), Stream::start(hq, van, INTERVAL)];
        Self { datagrams, tcp: Trickle::start(hq, van, INTERVAL) }
    }

    /// Ends it: nothing was lost or came twice, and what TCP sent came in its order, or it would have been sent again.
    fn all_arrived(self, world: &Relayed) {
        for stream in self.datagrams {
            let deliveries = stream.finish();
            assert!(deliveries.sent() > 20, "{}", deliveries.sent());
            assert_eq!((deliveries.lost(), deliveries.duplicates()), (Vec::new(), 0));
        }
        assert_eq!(self.tcp.finish(&world.tunnel.hq), 0, "segments were sent again");
    }
}

/// The straight link loses everything for a moment, or nothing.
fn cut(world: &Relayed, lost: bool) {
    let queue = if lost { Queue::Bytes(1) } else { Queue::Delay(Duration::from_millis(50)) };
    for (site, end) in [(&world.tunnel.van, VAN), (&world.tunnel.hq, HQ)] {
        site.namespace.shape(&end.link(1), MBIT * 1_000_000, 16_000, queue).unwrap();
    }
}

/// How often the van's data have moved to other paths.
fn moves(world: &Relayed) -> usize {
    world.tunnel.van.log().matches("switched paths").count()
}

#[test]
fn between_the_pulses_of_a_flood_nobody_returns_and_with_its_end_nothing_is_lost() {
    steadily(Measured::Loss, || {
        let world = flooded(2, "prefer-direct");
        let van = &world.tunnel.van;
        set_routes(&world, &[0, 1], &["--for", "10m"]);
        stands_by(van, "alt-1");
        let stream = Stream::start(van, &world.tunnel.hq, INTERVAL);
        flood(&world, 90);
        carried_by(van, Carrier::Learned);
        flood(&world, 0);
        let before = moves(&world);
        assert!(before > 0);
        let mut seemed_well = 0;
        for _ in 0..20 {
            cut(&world, true);
            sleep(Duration::from_millis(40));
            cut(&world, false);
            sleep(Duration::from_millis(460));
            seemed_well += u32::from(routes(van).direct_well);
        }
        println!("in the gaps the straight way seemed well {seemed_well} times of 20");
        assert_eq!(moves(&world), before, "{}", van.log());
        stream.finish();

        let traffic = Traffic::start(&world);
        // Whichever of them is the better one.
        let relayed = || {
            ["alt-1", "alt-2"]
                .into_iter()
                .filter_map(|path| van.path(path))
                .map(|path| path.tx_bytes)
                .sum::<u64>()
        };
        let sent = relayed();
        wait_for("data over a relay", PATIENCE, || (relayed() > sent + 10_000).then_some(()));
        van.psmc_ok(&["routes", "clear", "hq"]);
        let back = carried_by(van, Carrier::Direct);
        println!("the straight way is used again {back:.0?} after the routes were withdrawn");
        is_active(van, &path_name(VAN, 1));
        traffic.all_arrived(&world);
        assert_eq!(moves(&world), before + 1, "{}", van.log());
    });
}

#[test]
fn a_move_without_a_fault_loses_no_packet() {
    steadily(Measured::Loss, || {
        let world = flooded(2, "prefer-direct");
        let van = &world.tunnel.van;
        let stream = Stream::start(van, &world.tunnel.hq, INTERVAL);
        set_routes(&world, &[0], &["--for", "10m", "--policy", "prefer-indirect"]);
        carried_by(van, Carrier::Learned);
        // A path whose relay is in both sets is left alone.
        let path = van.path("alt-1").unwrap().id;
        set_routes(&world, &[0, 1], &["--for", "10m", "--policy", "prefer-indirect"]);
        is_active(van, "alt-2");
        assert_eq!(van.path("alt-1").unwrap().id, path);
        set_routes(&world, &[1], &["--for", "10m", "--policy", "prefer-indirect"]);
        wait_for("one path over learned routes", PATIENCE, || van.path("alt-1").is_none().then_some(()));
        let output =
            van.psmc(&["routes", "set", "hq", "--relay", &world.route(0), "--for", "1m", "--serial", "7"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("came before"), "{output:?}");
        van.psmc_ok(&["routes", "clear", "hq"]);
        carried_by(van, Carrier::Direct);
        is_active(van, &path_name(VAN, 1));
        let deliveries = stream.finish();
        assert_eq!((deliveries.lost(), deliveries.duplicates()), (Vec::new(), 0));
    });
}

#[test]
fn learned_paths_end_with_their_time() {
    let world = flooded(1, "prefer-direct");
    let van = &world.tunnel.van;
    set_routes(&world, &[0], &["--for", "10m"]);
    stands_by(van, "alt-1");
    set_routes(&world, &[0], &["--for", "2s"]);
    wait_for("the end of the path", PATIENCE, || van.path("alt-1").is_none().then_some(()));
    let routes = routes(van);
    assert_eq!((routes.expires, routes.routes.len(), routes.carrier), (None, 0, Carrier::Direct));
    wait_for("no session at the relay", PATIENCE, || world.status(0).sessions.is_empty().then_some(()));
    world.tunnel.ping(Family::V4);
}

#[test]
fn on_failure_there_are_paths_over_relays_only_when_they_are_needed() {
    let world = flooded(1, "on-failure");
    let van = &world.tunnel.van;
    set_routes(&world, &[0], &["--for", "10m"]);
    let stream = Stream::start(van, &world.tunnel.hq, INTERVAL);
    van.psmc_ok(&["peer", "wait", "hq", "--until", "usable"]);
    let trouble = van.psmc(&["peer", "wait", "hq", "--until", "trouble", "--for", "2s"]);
    assert_eq!(trouble.status.code(), Some(1), "{trouble:?}");
    assert!(van.path("alt-1").is_none());
    let flooded_at = Instant::now();
    flood(&world, 90);
    van.psmc_ok(&["peer", "wait", "hq", "--until", "trouble", "--for", "60s"]);
    println!("trouble was told after {:.0?}", flooded_at.elapsed());
    is_active(van, "alt-1");
    println!("a path over a relay was set up {:.0?} after the flood", flooded_at.elapsed());
    let back = stream.wait_until_back(Instant::now(), PATIENCE);
    println!("the stream is back {back:.0?} later");
    stream.finish();
}

#[test]
fn a_hidden_site_becomes_reachable_by_learned_routes_and_takes_peers_and_relays_as_it_runs() {
    let mut world = Relayed::prepare(2, None);
    world.start_unknown();
    let (van, hq) = (&world.tunnel.van, &world.tunnel.hq);
    wait_for("daemons", PATIENCE, || Some((van.try_status()?, hq.try_status()?)));
    let key = van.key.public().to_string();
    let [v4, v6] = [Family::V4, Family::V6].map(|family| van.inner(family));
    let nets = format!("{v4}/32,{v6}/128");
    hq.psmc_ok(&["peer", "add", "van", "--public-key", &key, "--allowed-ips", &nets]);
    let twice = hq.psmc(&["peer", "add", "bus", "--public-key", &key, "--allowed-ips", "10.77.0.9/32"]);
    assert!(!twice.status.success(), "{twice:?}");
    let other = PrivateKey::generate().public().to_string();
    let taken = hq.psmc(&["peer", "add", "bus", "--public-key", &other, "--allowed-ips", &nets]);
    assert!(!taken.status.success(), "{taken:?}");
    // At one by the routing table, at the other by an address of this site's own.
    let relays = [world.registration(0, false), world.registration(1, true)];
    hq.psmc_ok(&["register", "set", "--relay", &relays[0], "--relay", &relays[1]]);
    wait_for("registrations", PATIENCE, || {
        let registered = hq.try_status()?.site.registered;
        (registered.len() == 2 && registered.iter().all(|relay| relay.registered)).then_some(())
    });
    let set_at = Instant::now();
    set_routes(&world, &[0, 1], &["--for", "10m"]);
    van.psmc_ok(&["peer", "wait", "hq"]);
    println!("a hidden site was reachable {:.0?} after its routes were learned", set_at.elapsed());
    for path in ["alt-1", "alt-2"] {
        is_active(van, path);
    }
    world.tunnel.ping(Family::V4);
    world.tunnel.ping(Family::V6);
    hq.psmc_ok(&["register", "set", "--relay", &relays[1]]);
    wait_for("one registration", PATIENCE, || {
        (world.status(0).gateways == 0 && world.status(1).gateways == 1).then_some(())
    });
    hq.psmc_ok(&["peer", "remove", "van"]);
    assert!(hq.status().peers.is_empty());
    let routes = ["-6", "-4"].map(|family| hq.run(&["ip", family, "route", "show", "table", "all"])).concat();
    assert!(!routes.contains(&format!("{v4} dev")), "{routes}");
    van.wait_for_path("alt-1", &[PathState::Dead], PATIENCE);
}
