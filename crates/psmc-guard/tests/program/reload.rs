//! A guard that is told to read its file anew, and what Prometheus gets to see of it.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use crate::world::{NAME, SERVICE, World, wait_for};

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
    assert!(shown("8000000"), "{}", metrics(&world));

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
    assert!(shown("5000000"), "{}", metrics(&world));
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
