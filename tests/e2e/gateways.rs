//! Headquarters that nobody reaches but through their relays, and what those who look for them see.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use psmc_api::PathState;
use psmc_net::keys::PrivateKey;

use crate::harness::{
    Bulk, Family, Relayed, Site, Tap, Traces, allow, download, hq_address, hq_interface, ttl, van_interface,
    wait_for,
};

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the headquarters' packets have left to live: no program of the client's network has the same.
const HQ_TTL: u8 = 57;

/// What every other host's have.
const DEFAULT_TTL: u8 = 64;

fn is_active(site: &Site, path: &str) {
    site.wait_for_path(path, &[PathState::Active], PATIENCE);
}

fn both_paths() -> String {
    Relayed::hidden_path(&[0]) + &Relayed::hidden_path(&[1])
}

#[test]
fn a_gateway_is_reached_through_its_relays_and_outlives_each_of_them() {
    let mut world = Relayed::prepare(2, None);
    world.start_hidden("", "", &both_paths());
    for path in ["r0", "r1"] {
        is_active(&world.tunnel.van, path);
        is_active(&world.tunnel.hq, path);
    }
    world.tunnel.ping(Family::V4);
    world.tunnel.ping(Family::V6);
    let status = world.tunnel.hq.status();
    assert_eq!(status.site.listen, "nothing");
    assert!(status.site.registered.iter().all(|relay| relay.registered), "{:?}", status.site.registered);
    for relay in 0..2 {
        world.kill(relay);
        let name = format!("r{relay}");
        world.tunnel.van.wait_for_path(&name, &[PathState::Dead], PATIENCE);
        world.tunnel.ping(Family::V4);
        let registered = world.tunnel.hq.status().site.registered;
        assert!(!registered[relay].registered && registered[1 - relay].registered, "{registered:?}");
        world.restart(relay);
        let back = Instant::now();
        is_active(&world.tunnel.van, &name);
        println!("relay {relay} is back: its path is used after {} ms", back.elapsed().as_millis());
    }
    world.tunnel.hq.kill();
    world.tunnel.hq.start();
    for path in ["r0", "r1"] {
        is_active(&world.tunnel.hq, path);
        is_active(&world.tunnel.van, path);
    }
    world.tunnel.ping(Family::V4);
}

#[test]
fn a_chain_ends_at_a_gateway() {
    let mut world = Relayed::prepare(2, None);
    world.start_hidden("", "", &Relayed::hidden_path(&[0, 1]));
    is_active(&world.tunnel.van, "r0-r1");
    is_active(&world.tunnel.hq, "r0-r1");
    world.tunnel.ping(Family::V4);
}

#[test]
fn a_hidden_site_refuses_to_dial_straight() {
    let mut world = Relayed::prepare(1, None);
    world.start_hidden("", "", &Relayed::hidden_path(&[0]));
    is_active(&world.tunnel.hq, "r0");
    let output = world.tunnel.hq.psmc(&["path", "add", "van", "straight", "--endpoint", "10.210.0.1:5115"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("this site is hidden"), "{stderr}");
}

/// What relays demand of everybody here is a grant; the coordinator needs no more than its key.
#[test]
fn a_fleet_is_served_by_grants_and_without_any_list() {
    let mut world = Relayed::prepare(1, None);
    let coordinator = PrivateKey::generate();
    world.serve(&format!("coordinator = \"{}\"", coordinator.public()), "");
    let directory = world.tunnel.van.file("toml").parent().unwrap().to_owned();
    let key_file = directory.join("coordinator.key");
    std::fs::write(&key_file, coordinator.to_base64().as_bytes()).unwrap();
    std::fs::set_permissions(&key_file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = directory.join("all.grants");
    std::fs::write(&file, "# none yet\n").unwrap();
    let site = format!("grants_file = '{}'\n", file.display());
    world.start_hidden(&site, "", &Relayed::hidden_path(&[0]));
    wait_for("the reason why there is no path", PATIENCE, || {
        world.tunnel.van.path("r0")?.relay_error.filter(|error| error.contains("no grant"))
    });
    let relay = world.key(0).to_string();
    let grant = |site: &Site, more: &[&str]| {
        let site = site.key.public().to_string();
        let wanted =
            ["grant", "--coordinator", key_file.to_str().unwrap(), "--relay", &relay, "--holder", &site];
        let output = world.tunnel.van.psmc(&[&wanted, more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let grants = grant(&world.tunnel.van, &["--for", "10m"]) + &grant(&world.tunnel.hq, &["--gateway"]);
    // In one step, as a coordinator should: a file that is half written is wrong for a moment.
    std::fs::write(directory.join("new"), grants).unwrap();
    std::fs::rename(directory.join("new"), &file).unwrap();
    is_active(&world.tunnel.van, "r0");
    world.tunnel.ping(Family::V4);
    assert_eq!(world.status(0).gateways, 1);
}

/// Some seconds of losses are a fault; a path that loses its probes, too, is given up sooner.
const VERDICT: Duration = Duration::from_secs(90);

#[test]
fn a_path_leaves_a_relay_that_loses_much_and_the_others_stay() {
    let mut world = Relayed::prepare(3, Some(20));
    let paths = Relayed::hidden_path(&[0]) + &Relayed::hidden_path(&[1]);
    world.start_hidden("", "spare_relays = [\"r2\"]\n", &paths);
    for path in ["r0", "r1"] {
        is_active(&world.tunnel.van, path);
    }
    let bulk = Bulk::start(&world.tunnel.van, &world.tunnel.hq);
    bulk.wait_for_bytes(2 << 20, PATIENCE);
    world.worsen(0, 22);
    let begun = Instant::now();
    wait_for("a path through the spare relay", VERDICT, || {
        let path = world.tunnel.van.path("r0")?;
        (path.relays == ["r2"] && path.state == PathState::Active).then_some(())
    });
    println!("a relay loses 22 %: its path has another one after {:.0?}", begun.elapsed());
    let bytes = world.tunnel.van.path("r0").unwrap().tx_bytes;
    wait_for("bytes through the spare relay", PATIENCE, || {
        world.tunnel.van.path("r0").filter(|path| path.tx_bytes > bytes + (1 << 20))
    });
    bulk.finish();
    assert_eq!(world.tunnel.van.path("r1").unwrap().relays, ["r1"]);
    assert_eq!(world.status(0).sessions.len(), 0, "the session at the relay that was left is given back");
}

/// Makes the headquarters' kernel and daemon complain as far as they ever do: at a closed port, about a packet that is
/// too large, about a relay that they cannot reach.
fn provoke(world: &Relayed) {
    let hq = world.tunnel.hq.inner(Family::V4);
    let probe =
        world.tunnel.van.namespace.run(|| std::net::UdpSocket::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)));
    let probe = probe.unwrap();
    for _ in 0..3 {
        // Refused from the second time on, by the ICMP message that answers the first.
        drop(probe.send_to(b"is anybody there?", (hq, 9)));
    }
    drop(world.tunnel.van.try_run(&[
        "ping",
        "-c",
        "2",
        "-i",
        "0.05",
        "-W",
        "1",
        "-M",
        "do",
        "-s",
        "1372",
        &hq.to_string(),
    ]));
    drop(world.tunnel.van.try_run(&["ping", "-c", "2", "-i", "0.05", "-W", "1", "-t", "1", &hq.to_string()]));
    let link = hq_interface(0);
    world.tunnel.hq.run(&["ip", "link", "set", &link, "down"]);
    world.tunnel.van.wait_for_path("r0", &[PathState::Dead, PathState::Suspect], PATIENCE);
    world.tunnel.hq.run(&["ip", "link", "set", &link, "up"]);
    is_active(&world.tunnel.van, "r0");
}

/// What the client's programs say.
fn words(world: &Relayed) -> String {
    let van = &world.tunnel.van;
    let said = [&["status"][..], &["status", "--json"], &["path", "list"]].map(|args| {
        let output = van.psmc(args);
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    });
    said.concat() + &van.log()
}

/// The whole life of a hidden gateway, seen by its client: setting up, traffic, errors, the deaths of a relay and of the
/// gateway, a client whom it does not know. About 300 kB pass, in which four given bytes stand by chance once in 2000 runs.
#[test]
fn nothing_that_a_client_sees_tells_where_its_gateway_is() {
    let mut world = Relayed::prepare(2, None);
    let places = (0..2).map(|relay| (hq_address(relay), hq_interface(relay)));
    let traces = Traces::new(&world.tunnel.hq, places);
    world.tunnel.hq.run(&["sysctl", "-qw", &format!("net.ipv4.ip_default_ttl={HQ_TTL}")]);
    let outer: Vec<_> = (0..2)
        .flat_map(|relay| [Tap::start(&world.tunnel.van.namespace, &van_interface(relay)), world.tap(relay)])
        .collect();
    // Where the headquarters are, all that is looked for can be seen.
    let beside_hq = world.tap_beside_hq(1);
    world.start_hidden("", "", &both_paths());
    for path in ["r0", "r1"] {
        is_active(&world.tunnel.van, path);
    }
    let inner = Tap::start(&world.tunnel.van.namespace, &world.tunnel.van.status().site.interface);
    let mut said = words(&world);
    world.tunnel.ping(Family::V4);
    download(&world.tunnel.van, &world.tunnel.hq, world.tunnel.hq.inner(Family::V4), 60_000);
    provoke(&world);
    said += &words(&world);

    world.kill(0);
    world.tunnel.van.wait_for_path("r0", &[PathState::Dead], PATIENCE);
    said += &words(&world);
    world.restart(0);
    is_active(&world.tunnel.van, "r0");

    world.tunnel.hq.kill();
    for path in ["r0", "r1"] {
        world.tunnel.van.wait_for_path(path, &[PathState::Dead], PATIENCE);
    }
    // The daemon dials, and asks for sessions, and is told that there is no such gateway.
    wait_for("what relays say of a gateway that is gone", PATIENCE, || {
        words(&world).contains("no gateway with this key").then_some(())
    });
    said += &words(&world);

    world.tunnel.hq.start();
    is_active(&world.tunnel.van, "r1");
    let inner = inner.finish();
    said += &a_stranger_calls(&mut world);

    assert!(!traces.are_in(said.as_bytes()), "{said}");
    assert!(said.contains("10.210.1.2") && said.len() > 5000, "they say where the relays are: {said}");
    let frames: Vec<_> = outer.into_iter().flat_map(Tap::finish).collect();
    println!("{} frames around the client, {} packets in its tunnel", frames.len(), inner.len());
    assert!(frames.len() > 300 && inner.len() > 20, "{} and {}", frames.len(), inner.len());
    let telling = frames.iter().chain(&inner).find(|frame| traces.are_in(frame));
    assert_eq!(telling, None);
    assert!(frames.iter().filter_map(|frame| ttl(frame)).all(|ttl| ttl == DEFAULT_TTL));
    let seen = beside_hq.finish();
    assert!(seen.iter().any(|frame| traces.are_in(frame) && ttl(frame) == Some(HQ_TTL)), "{}", seen.len());
}

/// A client that relays serve and the gateway does not know.
fn a_stranger_calls(world: &mut Relayed) -> String {
    assert!(world.tunnel.van.terminate().success());
    let stranger = PrivateKey::generate();
    let hq = world.tunnel.hq.key.public();
    let allowed = allow("stranger", &stranger.public(), "") + &allow("hq", &hq, "gateway = true\n");
    world.serve("", &allowed);
    world.tunnel.van.key = stranger;
    world.configure_van("", "", &both_paths());
    world.tunnel.van.start();
    wait_for("the gateway's refusal", PATIENCE, || {
        let peer = world.tunnel.van.try_status()?.peers.remove(0);
        peer.control.last_error.filter(|error| error.contains("key")).map(drop)
    });
    words(world)
}
