//! Our packets of IPv4 in IPv4 as Wireshark reads them, field by field. Needs `tshark`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its packets has failed")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

use psmc_wire::ip::{Ipv4, TunnelledUdp, encapsulate, forward};

/// Packets without a link layer (`LINKTYPE_RAW`).
const LINK_TYPE: u32 = 101;

/// What is asked of each packet: of two headers of IPv4 both values, the outer one first.
const FIELDS: [&str; 18] = [
    "ip.version",
    "ip.hdr_len",
    "ip.dsfield.dscp",
    "ip.dsfield.ecn",
    "ip.len",
    "ip.id",
    "ip.flags.df",
    "ip.flags.mf",
    "ip.frag_offset",
    "ip.ttl",
    "ip.proto",
    "ip.checksum.status",
    "ip.src",
    "ip.dst",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "udp.checksum.status",
];

/// What Wireshark says of a checksum that it finds right.
const GOOD: &str = "1";

/// What Wireshark reads in these packets, which it is given as a file of this name: a line each, its fields separated.
fn read_by_tshark(name: &str, packets: &[Vec<u8>]) -> Vec<Vec<String>> {
    let file = std::env::temp_dir().join(format!("psmc-{name}-{}.pcap", std::process::id()));
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, LINK_TYPE] {
        bytes.extend(u32::to_ne_bytes(word));
    }
    for packet in packets {
        let length = u32::try_from(packet.len()).unwrap();
        for word in [0, 0, length, length] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(packet);
    }
    fs::write(&file, bytes).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"]);
    tshark.args(["-E", "separator=/t", "-E", "occurrence=a", "-r"]).arg(&file);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark is there: apt install tshark");
    fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Both values of a field: the outer header's and the inner one's.
fn both(outer: impl ToString, inner: impl ToString) -> String {
    format!("{},{}", outer.to_string(), inner.to_string())
}

#[test]
fn wireshark_reads_in_our_packets_what_we_wrote() {
    let tunnel = TunnelledUdp {
        tunnel_source: Ipv4Addr::new(192, 0, 2, 1),
        tunnel_destination: Ipv4Addr::new(198, 51, 100, 7),
        source: SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 40_001),
        destination: SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 5), 5115),
    };
    // 36 and 37 bytes make both kinds of length; the last one makes a checksum of 0, which is sent as all ones.
    let datagrams = [vec![0x50; 52], vec![0xa5; 36], vec![0xff; 37], zero_sum(&tunnel)];
    let sent: Vec<Vec<u8>> = datagrams
        .iter()
        .map(|datagram| [&tunnel.headers(datagram).unwrap()[..], datagram].concat())
        .collect();
    let lines = read_by_tshark("ours", &sent);
    assert_eq!(lines.len(), datagrams.len());
    for (line, datagram) in lines.iter().zip(&datagrams) {
        let length = datagram.len();
        let expected = [
            both(4, 4),
            both(20, 20),
            both(0, 0),
            both(0, 0),
            both(48 + length, 28 + length),
            both("0x0000", "0x0000"),
            both("True", "True"),
            both("False", "False"),
            both(0, 0),
            both(64, 64),
            both(4, 17),
            both(GOOD, GOOD),
            both("192.0.2.1", "10.1.2.3"),
            both("198.51.100.7", "203.0.113.5"),
            "40001".to_owned(),
            "5115".to_owned(),
            (8 + length).to_string(),
            GOOD.to_owned(),
        ];
        assert_eq!(flags_as_words(line), expected);
    }
}

#[test]
fn wireshark_reads_what_a_relay_makes_of_others_packets() {
    // Expedited forwarding, ECT(0), an option (no operation, end of list), may be cut, 17 more routers.
    let mut inner = vec![
        0x46, 0xba, 0, 34, 0x12, 0x34, 0, 0, 17, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0, //
        8, 0, 0xf7, 0xff, 0, 0, 0, 0, 0, 0,
    ];
    let sum = psmc_wire::ip::checksum::of(&[&inner[..24]]);
    inner[10..12].copy_from_slice(&sum.to_be_bytes());
    forward(&mut inner).unwrap();
    let header = encapsulate(
        &Ipv4::parse(&inner).unwrap(),
        Ipv4Addr::new(192, 0, 2, 1),
        Ipv4Addr::new(198, 51, 100, 7),
    );
    let lines = read_by_tshark("others", &[[&header.unwrap()[..], &inner].concat()]);
    let expected = [
        both(4, 4),
        both(20, 24),
        both(46, 46),
        both(2, 2),
        both(54, 34),
        both("0x0000", "0x1234"),
        both("False", "False"),
        both("False", "False"),
        both(0, 0),
        both(64, 16),
        both(4, 1),
        both(GOOD, GOOD),
        both("192.0.2.1", "10.0.0.1"),
        both("198.51.100.7", "10.0.0.2"),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ];
    assert_eq!(flags_as_words(&lines[0]), expected);
}

/// Two bytes of which the datagram consists so that its checksum would be 0.
fn zero_sum(tunnel: &TunnelledUdp) -> Vec<u8> {
    let sum = |datagram: &[u8]| tunnel.headers(datagram).map(|headers| [headers[46], headers[47]]).unwrap();
    // The checksum of 2 bytes of zero is what they have to be for the sum to be all ones.
    let datagram = sum(&[0, 0]).to_vec();
    assert_eq!(sum(&datagram), [0xff, 0xff]);
    datagram
}

/// Some versions of Wireshark write flags as numbers.
fn flags_as_words(line: &[String]) -> Vec<String> {
    let is_flag = |index: usize| FIELDS[index].starts_with("ip.flags");
    let words = |index: usize, text: &str| match is_flag(index) {
        true => text.replace('1', "True").replace('0', "False"),
        false => text.to_owned(),
    };
    line.iter().enumerate().map(|(index, text)| words(index, text)).collect()
}
