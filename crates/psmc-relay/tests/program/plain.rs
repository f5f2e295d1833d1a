//! Plain tunnels between ends that are none of ours: packets made by scapy go in, and what comes out is compared with
//! what scapy says, bit by bit, and read by tshark. Needs root, scapy and tshark, and fails without.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::Command;

use psmc_net::keys::PrivateKey;
use psmc_net::tls::tcp::connect_tcp;
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_wire::relay::Message;
use socket2::{Domain, Protocol, Socket, Type};

use crate::harness::{PATIENCE, Relay, Site};

const LEFT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const RIGHT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

const TUNNEL: &str = r#"
[[tunnel]]
name = "north"
left = "203.0.113.5"
left_inside = ["10.1.0.0/16"]
left_local = "203.0.113.1"
right = "192.0.2.7"
right_inside = ["10.2.0.0/16"]
"#;

/// Where the relay is for the left end.
const RELAY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 5115);

const METRICS: &str = "127.0.0.1:9115";

/// What the router's link to the right end takes.
const NARROW: u32 = 1000;

/// An end: a host, and its raw socket.
struct End {
    socket: Socket,
    address: Ipv4Addr,
}

impl End {
    fn new(host: &Namespace, address: Ipv4Addr) -> Self {
        let socket = host.run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(4)))).unwrap();
        socket.set_header_included_v4(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, address }
    }

    /// Sends a packet, whose outer header it has.
    fn send(&self, packet: &[u8]) {
        let to = SocketAddrV4::new(destination(packet), 0);
        assert_eq!(self.socket.send_to(packet, &to.into()).unwrap(), packet.len());
    }

    /// The next packet of a tunnel that is for this end.
    fn receive(&mut self, what: &str) -> Vec<u8> {
        loop {
            let mut buffer = [0; 2048];
            let length = self.socket.read(&mut buffer).unwrap_or_else(|error| panic!("{what}: {error}"));
            if destination(&buffer) == self.address {
                return buffer[..length].to_vec();
            }
        }
    }
}

fn destination(packet: &[u8]) -> Ipv4Addr {
    Ipv4Addr::from(*packet[16..].first_chunk::<4>().unwrap())
}

/// Left end, relay, a router, right end.
fn hosts() -> [Namespace; 4] {
    let hosts = [(); 4].map(|()| Namespace::new().expect("run as root"));
    let [left, relay, router, right] = &hosts;
    link_pair(left, "relay", relay, "left").unwrap();
    link_pair(relay, "router", router, "relay").unwrap();
    link_pair(router, "right", right, "router").unwrap();
    for (host, name, address) in [
        (left, "relay", "203.0.113.5/24"),
        (relay, "left", "203.0.113.1/24"),
        (relay, "router", "198.51.100.1/24"),
        (router, "relay", "198.51.100.2/24"),
        (router, "right", "192.0.2.1/24"),
        (right, "router", "192.0.2.7/24"),
    ] {
        host.add_address(name, address.parse().unwrap()).unwrap();
    }
    relay.add_route("192.0.2.0/24".parse().unwrap(), "198.51.100.2".parse().unwrap()).unwrap();
    right.add_route("198.51.100.0/24".parse().unwrap(), "192.0.2.1".parse().unwrap()).unwrap();
    // The relay's kernel forwards nothing: no rule of a firewall has to let anything through.
    for (host, forwards) in [(relay, "0"), (router, "1")] {
        host.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", forwards)).unwrap();
    }
    router.set_mtu("right", NARROW).unwrap();
    hosts
}

/// The cases that scapy makes.
fn cases() -> Vec<Vec<String>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/plain.py");
    let output = Command::new("/usr/bin/python3").arg(script).output().expect("Debian's python3 is there");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scapy is there: apt install python3-scapy: {told}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The packet without the identification that the kernel gave its outer header, if it may be cut. The checksum with it
/// is right, as tshark says.
fn without_identification(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[6] & 0x40 == 0 {
        packet[4..6].fill(0);
        mend_checksum(&mut packet[..20]);
    }
    packet
}

/// The numbers of those packets in which tshark finds anything wrong, and how many it has read.
fn read_by_tshark(packets: &[Vec<u8>]) -> (String, usize) {
    let file = std::env::temp_dir().join(format!(
        "psmc-plain-{}-{:?}.pcap",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut capture = Vec::new();
    // Packets without a link layer (LINKTYPE_RAW).
    for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101] {
        capture.extend(u32::to_ne_bytes(word));
    }
    for packet in packets {
        let length = u32::try_from(packet.len()).unwrap();
        capture.extend([0, 0, length, length].map(u32::to_ne_bytes).concat());
        capture.extend(packet);
    }
    fs::write(&file, capture).unwrap();
    let read = |filter: &str| {
        let mut tshark = Command::new("tshark");
        tshark.args([
            "-n",
            "-o",
            "ip.check_checksum:TRUE",
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-Y",
            filter,
        ]);
        let output = tshark.arg("-r").arg(&file).output().expect("tshark is there: apt install tshark");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let wrong = read("ip.checksum.status == \"Bad\" || icmp.checksum.status == \"Bad\" || _ws.malformed");
    let all = read("ip.proto == 4").lines().count();
    fs::remove_file(&file).unwrap();
    (wrong, all)
}

/// Makes the ends send what the cases say, and compares what comes out with them.
fn exchange(ends: &mut [End; 2], cases: &[Vec<String>]) {
    let index = |side: &str| usize::from(side == "right");
    let mut received = Vec::new();
    for case in cases {
        let [name, sender, packet, receiver, expected @ ..] = &case[..] else { panic!("{case:?}") };
        ends[index(sender)].send(&bytes(packet));
        for expected in expected {
            let packet = ends[index(receiver)].receive(name);
            assert_eq!(without_identification(&packet), bytes(expected), "{name}");
            received.push(packet);
        }
    }
    assert_eq!(read_by_tshark(&received), (String::new(), received.len()));
}

#[test]
fn ends_of_others_see_what_scapy_says() {
    let hosts = hosts();
    let [left_host, relay_host, _, right_host] = &hosts;
    let relay = Relay::start_on(relay_host, RELAY, &format!("metrics = \"{METRICS}\""), &[], TUNNEL);
    let mut ends = [End::new(left_host, LEFT), End::new(right_host, RIGHT)];
    let cases = cases();
    exchange(&mut ends, &cases);

    // Strangers, and inner addresses that are not behind who sends, get nowhere.
    let [name, _, packet, ..] = &cases[0][..] else { panic!("{:?}", cases[0]) };
    assert_eq!(name, "udp");
    for spoofed in [[8, 8, 8, 8], [10, 2, 0, 9]] {
        let mut packet = bytes(packet);
        packet[32..36].copy_from_slice(&spoofed);
        mend_checksum(&mut packet[20..40]);
        ends[0].send(&packet);
    }
    let status = relay.wait_for("refusals", |status| status.tunnel_packets.misaddressed == 2);
    let [tunnel] = &status.tunnels[..] else { panic!("{:?}", status.tunnels) };
    assert_eq!(
        (tunnel.name.as_str(), tunnel.to_right.path_mtu, tunnel.to_left.path_mtu),
        ("north", 1000, 1500)
    );
    let packets = status.tunnel_packets;
    assert_eq!((packets.heard_too_big, packets.too_big, packets.cut, packets.expired), (1, 1, 1, 1));
    assert_eq!((packets.errors_sent, packets.heard_unreachable), (3, 0));
    assert_eq!(status.heard_too_big, Some(1));
    let to_left = cases.iter().filter(|case| case[3] == "left").count();
    assert_eq!(tunnel.to_left.packets, u64::try_from(to_left).unwrap());
    let told = Command::new(env!("CARGO_BIN_EXE_psmc-relay"))
        .arg("status")
        .arg("--socket")
        .arg(relay.socket())
        .output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    assert!(told.contains("tunnel north, no limit\n  to the left end  203.0.113.5: 4 packets"), "{told}");
    assert!(told.contains("2 misaddressed, 0 congested, 1 expired, 1 too big"), "{told}");
    let metrics = relay_host.run(metrics);
    for line in [
        "psmc_relay_heard_too_big_total 1",
        "psmc_relay_tunnel_packets_total{tunnel=\"north\",to=\"left\"} 4",
        "psmc_relay_tunnel_path_mtu_bytes{tunnel=\"north\",to=\"right\"} 1000",
        "psmc_relay_tunnel_refused_packets_total{kind=\"misaddressed\"} 2",
        "psmc_relay_tunnel_icmp_errors_total{kind=\"sent\"} 3",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line}: {metrics}");
    }

    // An end whose kernel knows no tunnels says so, and who sends there hears of it.
    let [mut left, right] = ends;
    drop(right);
    left.send(&bytes(packet));
    let answer = left.receive("unreachable");
    assert_eq!(&answer[32..36], &[198, 51, 100, 1], "the relay says it, by the name that the end knows");
    assert_eq!(&answer[40..42], &[3, 0], "the network is unreachable");
    relay.wait_for("the error", |status| status.tunnel_packets.heard_unreachable == 1);
}

/// A site on a host that registers with the relay from that address, until the value is dropped.
fn register(host: &Namespace, from: Ipv4Addr, key: &PrivateKey, relay: &Relay) -> Site {
    let registered = host.block_on(|| async {
        let tcp = connect_tcp(None, Some(from.into()), relay.address, PATIENCE).await.unwrap();
        let (mut site, answer) = Site::greet_over(tcp, key, relay.key.public(), None).await.unwrap();
        assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
        let answer = site.ask(Message::Register).await;
        assert!(matches!(answer, Message::Done(_)), "{answer:?}");
        site
    });
    registered.unwrap()
}

fn find<'a>(cases: &'a [Vec<String>], name: &str) -> &'a [String] {
    cases.iter().find(|case| case[0] == name).unwrap()
}

#[test]
fn an_end_of_ours_that_registers_sees_what_scapy_says() {
    let hosts = hosts();
    let [left_host, relay_host, _, right_host] = &hosts;
    left_host.add_address("relay", "203.0.113.6/24".parse().unwrap()).unwrap();
    let key = PrivateKey::generate();
    let tunnel = TUNNEL.replace("left = \"203.0.113.5\"", "left_site = \"site0\"");
    let relay = Relay::start_on(relay_host, RELAY, "", &[(&key, "")], &tunnel);
    let mut ends = [End::new(left_host, LEFT), End::new(right_host, RIGHT)];
    let cases = cases();

    let answer = bytes(&find(&cases, "answer")[2]);
    ends[1].send(&answer);
    let told = ends[1].receive("unreachable");
    assert_eq!(&told[40..42], &[3, 1], "the host is unreachable while the site is not registered");
    let status = relay.status();
    let way = &status.tunnels[0].to_left;
    assert_eq!((&way.address, way.site.as_deref()), (&None, Some("site0")));
    assert_eq!(status.tunnel_packets.no_end, 1);

    let home = register(left_host, LEFT, &key, &relay);
    exchange(&mut ends, &cases);
    // It may also be a gateway, but this one may not.
    assert_eq!(relay.status().gateways, 0);

    // It goes elsewhere; the end of the connection that it has left does not matter.
    let away = Ipv4Addr::new(203, 0, 113, 6);
    let there = register(left_host, away, &key, &relay);
    drop(home);
    let mut moved = End::new(left_host, away);
    ends[1].send(&answer);
    let heard = moved.receive("the answer");
    let mut expected = bytes(&find(&cases, "answer")[4]);
    expected[16..20].copy_from_slice(&away.octets());
    mend_checksum(&mut expected[..20]);
    assert_eq!(without_identification(&heard), expected);
    // Who is where it was is a stranger, whose packets could only be those of a session.
    let before = relay.status().refused.malformed;
    ends[0].send(&bytes(&find(&cases, "tcp")[2]));
    relay.wait_for("a stranger", |status| status.refused.malformed == before + 1);
    drop(there);
    relay.wait_for("the end", |status| status.tunnels[0].to_left.address.is_none());
}

#[test]
fn tunnels_come_and_go_while_others_carry_packets() {
    let hosts = hosts();
    let [left_host, relay_host, _, right_host] = &hosts;
    let relay = Relay::start_on(relay_host, RELAY, "", &[], TUNNEL);
    let (left, mut right) = (End::new(left_host, LEFT), End::new(right_host, RIGHT));
    let north = bytes(&find(&cases(), "udp")[2]);
    let mut south = north.clone();
    south[36..40].copy_from_slice(&[10, 3, 0, 9]);
    mend_checksum(&mut south[20..40]);
    let mut pass = |packet: &[u8]| {
        left.send(packet);
        let heard = right.receive("a packet");
        assert_eq!(heard[36..40], packet[36..40]);
    };
    pass(&north);
    let southern = TUNNEL.replace("north", "south").replace("10.2.", "10.3.");
    relay.reload_with("", &[], &format!("{TUNNEL}max_rate = \"20mbit\"\n{southern}"));
    let status = relay.wait_for("the second tunnel", |status| status.tunnels.len() == 2);
    let seen = |tunnel: &psmc_relay::status::Tunnel| {
        (tunnel.name.clone(), tunnel.rate_bits_per_second, tunnel.to_right.packets)
    };
    assert_eq!(seen(&status.tunnels[0]), ("north".to_owned(), Some(20_000_000), 1), "it goes on");
    pass(&north);
    pass(&south);

    relay.reload_with("", &[], &format!("{TUNNEL}{southern}max_rate = 1\n"));
    // A file that is wrong changes nothing; the next one counts.
    relay.reload_with("", &[], TUNNEL);
    let status = relay.wait_for("one tunnel", |status| status.tunnels.len() == 1);
    assert_eq!(seen(&status.tunnels[0]), ("north".to_owned(), None, 2));
    left.send(&south);
    relay.wait_for("a refusal", |status| status.tunnel_packets.misaddressed == 1);
    pass(&north);
}

/// What Prometheus is told.
fn metrics() -> String {
    let mut client = TcpStream::connect(METRICS).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn mend_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let mut sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
}
