//! What goes on beside floods: a file that is read anew, a hidden line on which nobody but relays gets in, and a coordinator
//! that stands still.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_signal::{Message, Stage};

use crate::flood::{mitigation, relay};
use crate::parts::{Coordinator, Gateway};
use crate::world::{NAME, SERVICE, World, coordinator_section, wait_for};

/// Where metrics are.
const METRICS: &str = "127.0.0.1:9117";

fn metrics(world: &World) -> String {
    let mut stream = world.gateway.run(|| TcpStream::connect(METRICS)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn limit(bits: &str) -> String {
    format!("limit = {{ bits = \"{bits}\" }}\n")
}

#[test]
fn limits_and_lines_may_change_while_it_runs_and_what_is_wrong_changes_nothing() {
    let mut world = World::new(None);
    let of_guard = format!("metrics = \"{METRICS}\"");
    let line = "[[line]]\ninterface = \"line\"\n[defence]\nnftables = true\n";
    world.start_guard(&of_guard, &(limit("8mbit") + line));
    let bits = || world.status().engine.services[0].limits.bits;
    let shown = |value: &str| {
        metrics(&world).contains(&format!("psmc_guard_limit{{service=\"{NAME}\",signal=\"bits\"}} {value}\n"))
    };
    assert_eq!(bits(), Some(8e6));
    assert!(shown("8000000.0"), "{}", metrics(&world));

    // The line is defended all the time: what arrives while the file is read again and again does not get in.
    let server = world.gateway.run(|| UdpSocket::bind((SERVICE, 5000)).unwrap());
    server.set_nonblocking(true).unwrap();
    let stranger = world.outside.run(|| UdpSocket::bind("203.0.113.1:7").unwrap());
    for number in 1..=5_u32 {
        world.reload(&of_guard, &(limit(&format!("{number}mbit")) + line));
        wait_for("the new limit", || {
            stranger.send_to(b"stranger", (SERVICE, 5000)).unwrap();
            (bits() == Some(f64::from(number) * 1e6)).then_some(())
        });
    }
    assert!(server.recv(&mut [0; 100]).is_err(), "a stranger's packet got in");
    assert!(shown("5000000.0"), "{}", metrics(&world));
    let uptime = world.status().uptime_s;

    world.reload(&of_guard, &(limit("much") + line));
    world.reload("metrics = \"127.0.0.1:9118\"", &(limit("7mbit") + line));
    world.reload(&of_guard, &(limit("6mbit") + "[defence]\nnftables = false\n"));
    wait_for("the last of these files", || (bits() == Some(6e6)).then_some(()));
    wait_for("anybody's packet", || {
        stranger.send_to(b"stranger", (SERVICE, 5000)).unwrap();
        server.recv(&mut [0; 100]).ok()
    });
    assert!(world.status().uptime_s >= uptime, "it is the same guard");
    world.stop_guard();
}

#[test]
fn a_hidden_line_takes_relays_and_replies_only() {
    let mut world = World::new(None);
    world.outside.add_address("out", "203.0.113.2/24".parse().unwrap()).unwrap();
    let more = "[[line]]\ninterface = \"line\"\n[defence]\nnftables = true\nrelays = [\"203.0.113.2\"]\n";
    let server = world.gateway.run(|| UdpSocket::bind((SERVICE, 5000)).unwrap());
    server.set_nonblocking(true).unwrap();
    let socket = |address: &str| world.outside.run(|| UdpSocket::bind(address).unwrap());
    let (stranger, relay) = (socket("203.0.113.1:7"), socket("203.0.113.2:7"));
    world.start_guard("", more);

    for _ in 0..3 {
        stranger.send_to(b"stranger", (SERVICE, 5000)).unwrap();
    }
    relay.send_to(b"relay", (SERVICE, 5000)).unwrap();
    let mut buffer = [0; 100];
    let length = wait_for("the relay's packet", || server.recv(&mut buffer).ok());
    assert_eq!(&buffer[..length], b"relay");
    assert!(server.recv(&mut buffer).is_err());

    // Whom this machine has called may answer.
    let client = world.gateway.run(|| UdpSocket::bind((SERVICE, 6000)).unwrap());
    client.send_to(b"question", "203.0.113.1:7").unwrap();
    stranger.recv(&mut buffer).unwrap();
    stranger.send_to(b"answer", (SERVICE, 6000)).unwrap();
    client.set_read_timeout(Some(crate::world::PATIENCE)).unwrap();
    assert_eq!(client.recv(&mut buffer).unwrap(), 6);

    let counters = world.status().defence.expect("there are counters");
    assert_eq!(
        (counters["dropped"], counters["from_relays"], counters["replies"]),
        (3, 1, 1),
        "{counters:?}"
    );
    world.stop_guard();
    stranger.send_to(b"stranger", (SERVICE, 5000)).unwrap();
    let length = wait_for("anybody's packet", || server.recv(&mut buffer).ok());
    assert_eq!(&buffer[..length], b"stranger");
}

#[test]
fn a_guard_that_is_killed_leaves_the_line_closed_until_the_next_one() {
    let mut world = World::new(None);
    world.outside.add_address("out", "203.0.113.2/24".parse().unwrap()).unwrap();
    let more = "[[line]]\ninterface = \"line\"\n[defence]\nnftables = true\nrelays = [\"203.0.113.2\"]\n";
    let server = world.gateway.run(|| UdpSocket::bind((SERVICE, 5000)).unwrap());
    server.set_nonblocking(true).unwrap();
    let [stranger, relay] = ["203.0.113.1:7", "203.0.113.2:7"]
        .map(|address| world.outside.run(|| UdpSocket::bind(address).unwrap()));
    world.start_guard("", more);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // It ends by itself should the test fail meanwhile.
            for _ in 0..60_000 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                stranger.send_to(b"stranger", (SERVICE, 5000)).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let heard = || {
            relay.send_to(b"relay", (SERVICE, 5000)).unwrap();
            let mut buffer = [0; 100];
            let length = wait_for("a packet", || server.recv(&mut buffer).ok());
            assert_eq!(&buffer[..length], b"relay");
        };
        for _ in 0..3 {
            world.kill_guard();
            heard();
            world.start_guard("", more);
            heard();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    world.stop_guard();
    assert!(server.recv(&mut [0; 100]).is_err(), "a stranger's packet got in");
}

/// What people take for an answer at once, and for an end without delay, on a machine that does much else meanwhile.
const AT_ONCE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(4);

fn takes_less(time: Duration, what: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    assert!(start.elapsed() < time, "{what} took {:?}", start.elapsed());
}

/// The kernel takes the calls of one that does nothing itself.
#[test]
fn a_coordinator_that_stands_still_holds_up_nothing() {
    let mut world = World::new(None);
    let gateway = Gateway::start(&world.file("psmcd.sock"));
    let of_guard = format!("gateway = '{}'", world.file("psmcd.sock").display());
    let still = world.gateway.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
    let key = PrivateKey::generate().public();
    let other = Coordinator::start(&world.gateway, world.key.public());
    let both = coordinator_section(still.local_addr().unwrap(), key)
        + &coordinator_section(other.address, other.key);
    world.start_guard(&of_guard, &both);
    takes_less(AT_ONCE, "the status", || drop(world.status()));
    other.say(mitigation(Stage::Active, vec![relay()]));
    other.hear("readiness", |message| matches!(message, Message::Ready { .. }).then_some(()));
    assert_eq!(gateway.told().relays.len(), 1);
    takes_less(AT_ONCE, "the status", || drop(world.status()));
    takes_less(SOON, "the end", || world.stop_guard());
}
