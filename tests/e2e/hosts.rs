//! Hosts behind a gateway, reached by the commands that docs/GUARD.md has for its users.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use psmc_testbed::netns::{Namespace, link_pair};

use crate::harness::{Family, Plan, Site, Tunnel};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/GUARD.md");

/// As the guide calls and numbers them.
const TO_HOSTS: &str = "eth2";
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 2);

/// The commands that the guide has behind these words.
fn commands(behind: &str) -> String {
    let guide = fs::read_to_string(GUIDE).unwrap();
    let (_, rest) = guide.split_once(behind).unwrap_or_else(|| panic!("the guide has no {behind:?}"));
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn run(host: &Namespace, commands: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]);
    let output = host.run(|| shell.output()).unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
}

/// A tunnel to a gateway with a host behind it, which nobody has told the way back.
fn world() -> (Tunnel, Namespace) {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    let text = fs::read_to_string(tunnel.van.file("toml")).unwrap();
    let (van, inner) = (&tunnel.van, tunnel.hq.inner(Family::V4));
    let more = format!("\"{inner}/32\", \"{HOST}/32\"");
    assert!(text.contains(&format!("\"{inner}/32\"")));
    van.configure(&text.replace(&format!("\"{inner}/32\""), &more));
    let host = Namespace::new().unwrap();
    link_pair(&tunnel.hq.namespace, TO_HOSTS, &host, "eth0").unwrap();
    tunnel.hq.namespace.add_address(TO_HOSTS, format!("{GATEWAY}/24").parse().unwrap()).unwrap();
    host.add_address("eth0", format!("{HOST}/24").parse().unwrap()).unwrap();
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    run(&tunnel.hq.namespace, &commands("Both ways need forwarding"));
    run(&tunnel.hq.namespace, &commands("**Reverse path filter.**"));
    (tunnel, host)
}

/// Makes the van ask the host, which answers. Returns whom the host believes to have asked.
fn ask(van: &Site, host: &Namespace) -> IpAddr {
    let server = host.run(|| UdpSocket::bind((HOST, 7))).unwrap();
    let client = van.namespace.run(|| UdpSocket::bind((van.inner(Family::V4), 0))).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    client.send_to(b"question", (HOST, 7)).unwrap();
    let (mut buffer, host) = ([0; 100], SocketAddr::from((HOST, 7)));
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"question");
    server.send_to(b"answer", from).unwrap();
    let (length, who) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], who), (&b"answer"[..], host));
    from.ip()
}

#[test]
fn routed_hosts_see_their_clients() {
    let (tunnel, host) = world();
    run(&host, &commands("**Routed.**"));
    assert_eq!(ask(&tunnel.van, &host), tunnel.van.inner(Family::V4));
}

#[test]
fn behind_source_nat_hosts_see_the_gateway() {
    let (tunnel, host) = world();
    run(&tunnel.hq.namespace, &commands("**With source NAT.**"));
    assert_eq!(ask(&tunnel.van, &host), IpAddr::from(GATEWAY));
}
