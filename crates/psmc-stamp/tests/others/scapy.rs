//! scapy reads what we send.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use psmc_stamp::{Outcome, PORT, Reading, Reflector, Sender, Session, Settings, Target};

/// Reads a UDP datagram in hexadecimal digits, shows it, and writes it anew.
///
/// scapy 2.5.0 looks for the length of extensions where there is none while it reads (`parent`, which only fields have), and gives
/// up; so it is told where else.
const SCRIPT: &str = "
import sys
from scapy.config import conf
from scapy.contrib import stamp
from scapy.layers.inet import UDP
conf.debug_dissector = True
for layer in (stamp.STAMPSessionSenderTestUnauthenticated, stamp.STAMPSessionReflectorTestUnauthenticated):
    for field in layer.fields_desc:
        if field.name == 'tlv_objects':
            field.length_from = lambda packet: packet.underlayer.len - 52
data = bytes.fromhex(sys.argv[1])
packet = UDP(data)
packet.show()
assert bytes(packet) == data, 'written anew it is another'
";

/// What scapy shows of a packet between these ports: names and values.
fn shown([from, to]: [u16; 2], bytes: &[u8]) -> String {
    let length = u16::try_from(8 + bytes.len()).unwrap();
    let header = [from, to, length, 0].map(u16::to_be_bytes).concat();
    let digits: String = [&header, bytes].concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new("/usr/bin/python3").args(["-c", SCRIPT, &digits]).output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "scapy is there (apt install python3-scapy), and reads it: {error}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn scapy_reads_probe_and_answer() {
    let settings = Settings { listen: "127.0.0.1:0".parse().unwrap(), key: None, rate: 1000 };
    let reflector = Reflector::bind(&settings).unwrap();
    let remote = reflector.local_addr().unwrap();
    tokio::spawn(reflector.run());
    let (number, probe) = Session::new(remote, None, 0x1234, Duration::from_secs(1)).probe(Reading::now());
    assert_eq!(number, 0);
    let text = shown([5000, PORT], &probe);
    for field in
        ["Session-Sender Test", "seq = 0", "ssid = 4660", "Z = NTP 64-bit", "mbz = 0", "type = 5 | len = 12"]
    {
        assert!(text.contains(field), "{field}: {text}");
    }

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let answer = tokio::task::spawn_blocking(move || {
        let mut buffer = [0; 2000];
        socket.send_to(&probe, remote).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    });
    let answer = answer.await.unwrap();
    assert_eq!(answer.len(), 60);
    let text = shown([PORT, 5000], &answer);
    // The probe left from a socket of another kind, with the usual TTL.
    for field in
        ["seq = 0", "seq_sender= 0", "ttl_sender= 64", "ssid = 4660", "flags = | type = 5 | len = 12"]
    {
        assert!(text.contains(field), "{field}: {text}");
    }
}

#[tokio::test]
async fn nobody_there_is_heard_of() {
    let remote = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = Target {
        remote,
        key: None,
        interval: Duration::from_millis(10),
        patience: Duration::from_millis(200),
        count: Some(3),
        interface: None,
        local: None,
    };
    let mut sender = Sender::open(target).unwrap();
    while let Some(outcome) = sender.next().await {
        assert!(matches!(outcome, Outcome::Lost(_)), "{outcome:?}");
    }
    assert_eq!((sender.losses().lost(), sender.sent()), (3, 3));
    assert!(sender.undeliverable().is_some());
}
