//! The hidden line, on which nobody but relays gets in.

use std::net::UdpSocket;

use crate::world::{SERVICE, World, wait_for};

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
