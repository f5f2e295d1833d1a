//! Connections that cannot be made: the client hears what it would have heard from the server.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;

use psmc_testbed::poll::wait_for;

use super::site::{Control, SERVER, World};
use super::{PATIENCE, connect, listen};

/// Runs `ip` on the server.
fn ip(world: &World, arguments: &str) {
    let status = world.server.run(|| Command::new("ip").args(arguments.split(' ')).status());
    assert!(status.expect("ip is there: apt install iproute2").success(), "ip {arguments}");
}

#[test]
fn a_closed_port_refuses() {
    let world = World::new();
    for address in SERVER {
        let error = connect(&world, (address, 80)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
    }
    assert_eq!(world.finish().odd, 0);
}

#[test]
fn routers_errors_are_told() {
    let world = World::new();
    world.server.sysctl("net.ipv4.ip_forward", "1").unwrap();
    world.server.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    // The server's host is a router to these, and says what it knows of them.
    for (kind, v4, v6, expected) in [
        ("unreachable", "10.2.1.1", "fd02:1::1", ErrorKind::NetworkUnreachable),
        ("prohibit", "10.2.2.1", "fd02:2::1", ErrorKind::PermissionDenied),
    ] {
        ip(&world, &format!("route add {kind} {v4}"));
        ip(&world, &format!("-6 route add {kind} {v6}"));
        let error = connect(&world, (v6, 80)).unwrap_err();
        assert_eq!(error.kind(), expected, "{v6}");
        // Linux has one error for both in IPv4, and the first is a missing route in IPv6.
        let error = connect(&world, (v4, 80)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{v4}");
    }
}

/// A client is answered once the server has answered; until then it asks, and asks again.
#[test]
fn a_client_is_not_answered_before_the_server() {
    let world = World::new();
    let _listener = listen(&world, SERVER[0], 80);
    let Control { loses_answers, lost, answers, .. } = &*world.control;
    loses_answers.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let client = scope.spawn(|| connect(&world, (SERVER[0], 80)).map(drop));
        wait_for("answers of the server", PATIENCE, || (lost.load(Ordering::Relaxed) > 1).then_some(()));
        assert_eq!(answers.load(Ordering::Relaxed), 0);
        loses_answers.store(false, Ordering::Relaxed);
        client.join().unwrap().unwrap();
    });
    assert!(answers.load(Ordering::Relaxed) > 0);
}

/// What is nobody's connection is answered by nobody.
#[test]
fn an_address_of_nobody_is_silent() {
    let world = World::new();
    ip(&world, "route add blackhole 10.2.3.1");
    let address: SocketAddr = "10.2.3.1:80".parse().unwrap();
    let waited =
        world.client.run(|| TcpStream::connect_timeout(&address, std::time::Duration::from_millis(1500)));
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
}
