//! The whole chain, from the coordinator to the clients: relays that fail, and what clients see of a line that nobody knows.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use psmc_api::PathState;

use crate::harness::{
    Bulk, Chain, Family, RELAYS, SERVICE, Site, Tap, Traces, Trickle, download, hidden_line, known_line,
    operators, relay_address, source, ttl, wait_for,
};

/// For what takes no time to speak of, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a relay fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// It is killed, without a word.
    Killed,
    /// It loses all datagrams, and goes on to answer whoever asks how it is.
    Swallows,
}

/// What a client may go without data when a relay fails, at the least. Beyond that it is three round trips.
const LEAST_GAP: Duration = Duration::from_millis(60);

/// So many times that may pass on a machine that does much else meanwhile.
const BUSY: u32 = 30;

#[test]
fn a_relay_that_is_killed_is_replaced_and_one_that_swallows_everything_too() {
    let mut world = Chain::prepare();
    world.start();
    world.alert();
    world.wait_until_around(&[]);
    let bulk = Bulk::start(&world.hq, &world.clients[0]);
    let trickle = Trickle::start(&world.hq, &world.clients[1], Duration::from_millis(2));
    let mut failed = Vec::new();
    for failure in [Failure::Killed, Failure::Swallows] {
        let start = Instant::now();
        more(&bulk, 1 << 20);
        let before = bulk.longest_gap_since(start);
        let round_trip = slowest(&world.clients[0]);
        let victim = world.published().into_iter().find(|name| !failed.contains(name)).unwrap();
        failed.push(victim.clone());

        let start = Instant::now();
        match failure {
            Failure::Killed => world.kill(&victim),
            Failure::Swallows => world.swallow(&victim),
        }
        let without: Vec<_> = failed.iter().map(String::as_str).collect();
        wait_for("another relay", PATIENCE, || {
            let published = world.published();
            (published.len() == 2 && !published.contains(&victim)).then_some(())
        });
        let replaced = start.elapsed();
        world.wait_until_around(&without);
        let around = start.elapsed();
        more(&bulk, 1 << 19);
        let gap = bulk.longest_gap_since(start);
        println!(
            "{failure:?}: no data for {gap:.1?}, {before:.1?} at most before; another relay after {replaced:.0?}, paths over it \
             after {around:.0?}; a round trip was {round_trip:.1?}"
        );
        assert!(gap < BUSY * LEAST_GAP.max(3 * round_trip), "{failure:?}: {gap:?}");
        assert_known(&world, &victim, failure);
        carries_nothing(&world, &victim, &bulk);
    }
    assert!(world.coordinator().unwrap().counts.relays_reported >= 1, "{:#?}", world.events());
    bulk.finish();
    // Every byte has come, once and in order.
    trickle.finish(&world.hq);
}

/// Waits until so many more bytes have come.
fn more(bulk: &Bulk, bytes: usize) {
    bulk.wait_for_bytes(bulk.bytes() + bytes, PATIENCE);
}

/// The longest round trip of the paths that carry data.
fn slowest(client: &Site) -> Duration {
    let paths = client.peer().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    let round_trip_ms = active.filter_map(|path| path.rtt_ms).fold(0.0, f64::max);
    Duration::from_secs_f64(round_trip_ms / 1000.0)
}

/// The coordinator has said why another relay took its place, and has found out in the one way in which it can.
fn assert_known(world: &Chain, victim: &str, failure: Failure) {
    let events = world.events();
    let said = events.iter().find(|event| event.contains(&format!("the relay {victim} has failed")));
    println!("{}", said.unwrap_or_else(|| panic!("{events:#?}")));
    let status = world.coordinator().unwrap();
    let relay = status.relays.iter().find(|relay| relay.name == victim).unwrap();
    assert_eq!(relay.alive, failure == Failure::Swallows, "{relay:?}");
}

/// Nobody sends anything over a relay that has failed.
fn carries_nothing(world: &Chain, victim: &str, bulk: &Bulk) {
    let key = world.key(victim).to_string();
    wait_for("a gateway without the relay", PATIENCE, || {
        let status = world.hq.try_status()?;
        let mut paths = status.peers.iter().flat_map(|peer| &peer.paths);
        let is_left = status.site.registered.iter().all(|registered| registered.public_key != key);
        (is_left && paths.all(|path| !path.relays.contains(&key))).then_some(())
    });
    let tap = world.tap_relay(victim);
    more(bulk, 1 << 19);
    let frames = tap.finish();
    let datagrams = frames.iter().filter(|frame| is_datagram(frame)).count();
    // Of about four hundred.
    assert!(datagrams < 4, "{datagrams} datagrams to {victim}");
}

fn is_datagram(frame: &[u8]) -> bool {
    source(frame).is_some() && frame[23] == 17
}

/// What the service's packets have left to live when it sends them, and all other hosts'; and what becomes of either on the
/// way to a host of the same network.
const TTL: [u8; 2] = [57, 64];
const ARRIVES: [u8; 2] = [TTL[0] - 1, TTL[1] - 1];

/// A whole mitigation, seen by those whom it is for: its beginning, traffic, errors, the death of a relay, of either line,
/// and the end; and whatever they can ask. Less than a megabyte passes, in which four given bytes stand by chance once in 500
/// runs.
#[test]
fn nothing_that_clients_can_see_tells_of_the_line_that_nobody_knows() {
    let mut world = Chain::prepare();
    world.hq.namespace.sysctl("net/ipv4/ip_default_ttl", &TTL[0].to_string()).unwrap();
    let traces = Traces::new(&world.hq, [hidden_line()]);
    let at_clients = [world.tap_client(0), world.tap_client(1)];
    let at_relays = RELAYS.map(|relay| world.tap_relay(relay));
    world.start();
    let inner: Vec<_> = world.clients.iter().map(tap_inside).collect();
    let mut seen = questions(&world);

    world.alert();
    world.wait_until_around(&[]);
    let (routes, told) = world.listen();
    assert!(routes.record.is_some() && routes.grants.len() == 2, "{routes:?}");
    seen.extend([told, words(&world)]);
    seen.extend(questions(&world));
    download(&world.clients[0], &world.hq, world.hq.inner(Family::V4), 60_000);
    provoke(&world);

    let victim = world.published().remove(0);
    world.kill(&victim);
    world.wait_until_around(&[&victim]);
    seen.push(words(&world));
    for (key, shown) in world.certificates() {
        // A public key as RFC 8410 has it, and nothing else.
        assert!(shown.len() == 44 && shown.ends_with(key.as_bytes()), "{shown:?}");
        seen.push(shown);
    }
    lines_fail(&world);
    seen.push(words(&world));
    world.withdraw();
    let (routes, told) = world.listen();
    assert!(routes.record.is_none(), "{routes:?}");
    seen.extend([told, words(&world)]);
    seen.extend(world.files_of_clients());

    let telling = seen.iter().find(|said| traces.are_in(said));
    assert_eq!(telling.map(|said| String::from_utf8_lossy(said)), None);
    let all = seen.concat();
    // What is not hidden stands there.
    for known in
        [known_line().0.to_string(), relay_address(&victim).ip().to_string(), operators().to_string()]
    {
        assert!(String::from_utf8_lossy(&all).contains(&known), "{known}");
    }
    let inner: Vec<_> = inner.into_iter().flat_map(Tap::finish).collect();
    let frames: Vec<_> = at_clients.into_iter().flat_map(Tap::finish).collect();
    println!("{} frames, {} packets in tunnels, {} bytes said", frames.len(), inner.len(), all.len());
    assert!(
        frames.len() > 300 && inner.len() > 20 && seen.len() > 20,
        "{} and {}",
        frames.len(),
        inner.len()
    );
    assert_eq!(frames.iter().chain(&inner).find(|frame| traces.are_in(frame)), None);
    assert_times_to_live(&frames);
    // The control: where it is known, all of it can be seen.
    let at_relays = at_relays.into_iter().flat_map(Tap::finish);
    let telling = at_relays.filter(|frame| traces.are_in(frame) && ttl(frame) == Some(ARRIVES[0])).count();
    assert!(telling > 100, "{telling}");
}

/// Nobody but the service's known line has packets as the service sends them.
fn assert_times_to_live(frames: &[Vec<u8>]) {
    let of = |sender: IpAddr| {
        let sent = frames.iter().filter(move |frame| source(frame).map(IpAddr::V4) == Some(sender));
        let mut times: Vec<_> = sent.filter_map(|frame| ttl(frame)).collect();
        times.sort_unstable();
        times.dedup();
        times
    };
    let relays: Vec<_> = RELAYS.iter().flat_map(|relay| of(relay_address(relay).ip())).collect();
    assert!(relays.len() >= 2 && relays.iter().all(|time| *time == ARRIVES[1]), "{relays:?}");
    assert_eq!(of(operators().into()), [ARRIVES[1]]);
    assert_eq!(of(known_line().0.into()), [ARRIVES[0]]);
}

/// Takes what comes out of a client's tunnel.
fn tap_inside(client: &Site) -> Tap {
    Tap::start(&client.namespace, &client.status().site.interface)
}

/// What the clients' programs say.
fn words(world: &Chain) -> Vec<u8> {
    let mut said = Vec::new();
    for client in &world.clients {
        for args in [&["status"][..], &["status", "--json"], &["path", "list"], &["routes", "--json"]] {
            let output = client.psmc(args);
            said.extend([output.stdout, output.stderr].concat());
        }
        let resolver = client.file("sock").with_file_name(format!("{}-dns.sock", client.end.name));
        let output = client.psmc(&["dns", "resolve", "status", resolver.to_str().unwrap()]);
        said.extend([output.stdout, output.stderr].concat());
    }
    said
}

/// What the name server says to clients, whatever they ask, and the resolver of each of them.
fn questions(world: &Chain) -> Vec<Vec<u8>> {
    let server = format!("@{}", operators());
    let mut said = Vec::new();
    for client in 0..world.clients.len() {
        for kind in ["ANY", "A", "AAAA", "TXT", "SVCB", "HTTPS", "TYPE65400"] {
            for server in [&server[..], "@127.0.0.54"] {
                said.push(world.dig(client, &[server, SERVICE, kind]).into_bytes());
            }
        }
        said.push(world.dig(client, &[&server, "example.com", "AXFR"]).into_bytes());
        said.push(world.dig(client, &[&server, "version.bind", "TXT", "CH"]).into_bytes());
    }
    said
}

/// Makes everybody complain as far as they ever do: about closed ports, packets that are too large or have come too far, and
/// what is not understood; and asks which way packets go.
fn provoke(world: &Chain) {
    let service = world.hq.inner(Family::V4);
    for client in &world.clients {
        let socket = client.namespace.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
        let relays = RELAYS.map(|relay| relay_address(relay).ip());
        let mut pings = Vec::new();
        for host in relays.into_iter().chain([service, known_line().0.into(), operators().into()]) {
            for port in [9, relay_address(RELAYS[0]).port()] {
                // Refused from the second time on, by the ICMP message that answers the first.
                (0..3).for_each(|_| drop(socket.send_to(b"is anybody there?", (host, port))));
            }
            pings.extend(PINGS.map(|more| format!("ping -c 2 -i 0.05 -W 1 -w 1 {more} {host} &")));
        }
        // All of them at once: most get no answer, and wait for it.
        client.run(&["sh", "-c", &format!("{} wait", pings.join(" "))]);
    }
}

/// Packets that come too far, that are too large, and that have written in them which way they go.
const PINGS: [&str; 5] = ["-t 1", "-t 2", "-M do -s 1372", "-R", "-T tsandaddr"];

/// Either line of the service goes down: what then goes by the other one must not tell of it.
fn lines_fail(world: &Chain) {
    let van = &world.clients[0];
    let service = world.hq.inner(Family::V4).to_string();
    world.hq.namespace.set_link(&known_line().1, false).unwrap();
    van.wait_for_path("direct", &[PathState::Dead], PATIENCE);
    van.run(&["ping", "-c", "5", "-i", "0.05", "-w", "20", &service]);
    world.hq.namespace.set_link(&known_line().1, true).unwrap();
    world.hq.namespace.set_link(&hidden_line().1, false).unwrap();
    wait_for("clients without relays", PATIENCE, || {
        let paths = van.try_status()?.peers.remove(0).paths;
        let works = |state| matches!(state, PathState::Active | PathState::Standby);
        paths.iter().all(|path| path.relays.is_empty() || !works(path.state)).then_some(())
    });
}
