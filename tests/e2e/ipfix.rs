//! Flow records, as a collector of others reads them.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_api::{IpfixStatus, PeerStatus};

use crate::harness::{Family, HQ, Plan, Site, Tap, Tunnel, VAN, iperf, path_name, wait_for};
use crate::sla::wait_for_state;

const PATIENCE: Duration = Duration::from_secs(30);

/// Nothing of a flow waits for longer at psmcd than its timeouts, of a second, and the second in which all flows are looked at.
const QUIET: Duration = Duration::from_secs(4);

/// IANA's port of IPFIX.
const PORT: u16 = 4739;

/// No longer message may be sent (IPv6's least MTU, less its header and that of UDP).
const MAX_MESSAGE: usize = 1232;

fn prepared() -> Tunnel {
    Tunnel::prepare(Plan { links: 2, ..Plan::default() })
}

/// A tunnel whose van has this in its file, beside what it needs.
fn started(mut tunnel: Tunnel, more: &str) -> Tunnel {
    configure(&tunnel.van, more);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel
}

fn configure(site: &Site, more: &str) {
    let text = fs::read_to_string(site.file("toml")).unwrap();
    let text = text.split("[sla]").next().unwrap_or_default();
    site.configure(&format!("{text}\n{more}"));
}

fn collector_at(address: SocketAddr) -> String {
    format!(
        "[sla]\nipfix = \"udp://{address}\"\nipfix_active_timeout = \"2s\"\nipfix_idle_timeout = \"1s\"\nipfix_template_interval = \"2s\"\n"
    )
}

fn at_hq() -> SocketAddr {
    SocketAddr::new(HQ.outer(1, Family::V4), PORT)
}

fn ipfix(site: &Site) -> IpfixStatus {
    site.status().ipfix.expect("it exports")
}

/// nfdump's collector.
struct Nfcapd {
    child: Child,
    directory: PathBuf,
}

impl Nfcapd {
    fn start(site: &Site) -> Self {
        let directory = site.file("flows");
        fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("nfcapd");
        let port = PORT.to_string();
        // Its files are of an hour, so that there is one.
        command.args(["-p", &port, "-t", "3600", "-w"]).arg(&directory);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(site.file("nfcapd")).unwrap());
        let child = site.namespace.spawn(&mut command).unwrap();
        wait_for("nfcapd to listen", PATIENCE, || {
            site.run(&["ss", "-lnu"]).contains(&format!(":{port} ")).then_some(())
        });
        Self { child, directory }
    }

    /// Ends it; what it has received is in its directory then.
    fn finish(mut self) -> Received {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        Received::of(&self.directory)
    }
}

impl Drop for Nfcapd {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Records as nfdump prints them.
struct Received {
    flows: Vec<Flow>,
    summary: String,
}

struct Flow {
    source: IpAddr,
    destination: IpAddr,
    /// By its number.
    protocol: String,
    bytes: u64,
    packets: u64,
}

fn nfdump(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("nfdump").arg("-R").arg(directory).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Received {
    fn of(directory: &Path) -> Self {
        let text = nfdump(directory, &["-q", "-N", "-6", "-o", "fmt:%sa;%da;%pr;%byt;%pkt"]);
        let flow = |line: &str| {
            let words: Vec<_> = line.split(';').map(str::trim).collect();
            let &[source, destination, protocol, bytes, packets] = &words[..] else { panic!("{line}") };
            Flow {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
                protocol: protocol.to_owned(),
                bytes: bytes.parse().unwrap(),
                packets: packets.parse().unwrap(),
            }
        };
        let flows = text.lines().filter(|line| line.contains(';')).map(flow).collect();
        Self { flows, summary: nfdump(directory, &["-I"]) }
    }

    fn sum(&self, is_wanted: impl Fn(&Flow) -> bool) -> (u64, u64) {
        let wanted = self.flows.iter().filter(|flow| is_wanted(flow));
        wanted.fold((0, 0), |(packets, bytes), flow| (packets + flow.packets, bytes + flow.bytes))
    }
}

/// What has gone through the tunnel, once nothing does, and all of it was exported.
fn settled(site: &Site) -> PeerStatus {
    let mut last = None;
    wait_for("everything to be exported", PATIENCE, || {
        let PeerStatus { tx_bytes, rx_bytes, .. } = site.peer();
        let seen = (tx_bytes, rx_bytes, ipfix(site).records);
        let (since, before) = last.get_or_insert((Instant::now(), seen));
        // Paths have records, too, so they may grow.
        if (before.0, before.1) != (tx_bytes, rx_bytes) {
            (*since, *before) = (Instant::now(), seen);
        }
        (since.elapsed() > QUIET).then(|| site.peer())
    })
}

#[test]
fn nfdump_reads_records_whose_sums_are_those_of_the_status() {
    let tunnel = prepared();
    // It is there before there is anything to be told.
    let collector = Nfcapd::start(&tunnel.hq);
    let tunnel = started(tunnel, &collector_at(at_hq()));
    let Tunnel { van, hq, .. } = &tunnel;
    for family in [Family::V4, Family::V6] {
        tunnel.ping(family);
        iperf(van, hq, hq.inner(family), &["--time", "4", "--parallel", "3", "--bitrate", "20M"]);
        iperf(van, hq, hq.inner(family), &["--time", "2", "--udp", "--bitrate", "10M", "--length", "1000"]);
        iperf(van, hq, hq.inner(family), &["--time", "2", "--reverse", "--bitrate", "20M"]);
    }
    let peer = settled(van);
    let exported = ipfix(van);
    assert_eq!((exported.unsent_messages, exported.trouble.as_deref()), (0, None));
    let received = collector.finish();
    let ours = [Family::V4, Family::V6].map(|family| van.inner(family));
    let sent = received.sum(|flow| ours.contains(&flow.source));
    let come = received.sum(|flow| ours.contains(&flow.destination));
    assert_eq!(sent, (peer.tx_packets, peer.tx_bytes), "sent\n{}", received.summary);
    assert_eq!(come, (peer.rx_packets, peer.rx_bytes), "received\n{}", received.summary);
    for (family, protocol) in [(Family::V4, "6"), (Family::V4, "17"), (Family::V6, "6"), (Family::V6, "17")] {
        let (packets, _) = received.sum(|flow| flow.source == van.inner(family) && flow.protocol == protocol);
        assert!(packets > 100, "{protocol} from {}: {packets}", van.inner(family));
    }
    println!("{} flows, {exported:?}\n{}", received.flows.len(), received.summary);
}

#[test]
fn a_collector_may_be_named_while_psmcd_runs_and_go_and_costs_nothing() {
    let tunnel = started(prepared(), "");
    let Tunnel { van, hq, .. } = &tunnel;
    assert_eq!(van.status().ipfix, None);
    let socket = hq.namespace.run(|| UdpSocket::bind(at_hq())).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    configure(van, &collector_at(at_hq()));
    van.psmc_ok(&["reload"]);
    tunnel.ping(Family::V4);
    let mut buffer = [0; 4096];
    // Templates by themselves, then with what has passed.
    for _ in 0..3 {
        let len = socket.recv(&mut buffer).unwrap();
        assert!((16..=MAX_MESSAGE).contains(&len), "{len}");
        assert_eq!(
            (&buffer[..2], usize::from(u16::from_be_bytes([buffer[2], buffer[3]]))),
            (&[0, 10][..], len)
        );
    }
    drop(socket);
    let trouble = wait_for("the refusal", PATIENCE, || {
        tunnel.ping(Family::V4);
        ipfix(van).trouble
    });
    assert!(trouble.contains("nobody listens"), "{trouble}");
    let socket = hq.namespace.run(|| UdpSocket::bind(at_hq())).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    tunnel.ping(Family::V4);
    assert!(socket.recv(&mut buffer).unwrap() > 16, "it is heard by whoever comes");
    let told = van.log().lines().filter(|line| line.contains("cannot export flows")).count();
    assert_eq!(told, 1, "{}", van.log());

    // What has passed until then goes to the one that was named first.
    configure(van, "");
    van.psmc_ok(&["reload"]);
    assert_eq!(van.status().ipfix, None);
    tunnel.ping(Family::V4);
}

/// Records of one template as tshark shows them: elements of psmcd by their numbers, each with its bytes.
struct Decoded(Vec<BTreeMap<u16, Vec<u8>>>);

impl Decoded {
    /// Those in the messages to the collector among frames that an interface has received.
    fn of(site: &Site, frames: &[Vec<u8>], template: u16) -> Self {
        let file = site.file("pcap");
        // The headers of a file of Ethernet frames, and of each of them (draft-ietf-opsawg-pcap, sections 4 and 5).
        let mut bytes = [0xA1B2_C3D4_u32, 0x0002_0004, 0, 0, 0xFFFF, 1].map(u32::to_be_bytes).concat();
        let is_to_collector = |frame: &&Vec<u8>| frame.get(36..38) == Some(&PORT.to_be_bytes());
        for frame in frames.iter().filter(is_to_collector) {
            let length = u32::try_from(frame.len()).unwrap();
            bytes.extend([0, 0, length, length].map(u32::to_be_bytes).concat());
            bytes.extend(frame);
        }
        fs::write(&file, bytes).unwrap();
        let (port, file) = (format!("udp.port=={PORT},cflow"), file.display().to_string());
        let text = site.run(&["tshark", "-n", "-r", &file, "-d", &port, "-Y", "cflow", "-V"]);
        assert!(!text.contains("Malformed"), "{text}");
        let sets = text.split("\n    Set ").filter(|set| set.contains(&format!("[id={template}]")));
        let records = sets.flat_map(|set| set.split("\n        Flow ").skip(1));
        Self(records.map(|record| record.lines().filter_map(element).collect()).collect())
    }

    /// The records that have these texts.
    fn with<'a>(&'a self, texts: &'a [(u16, &str)]) -> impl Iterator<Item = &'a BTreeMap<u16, Vec<u8>>> {
        let has = |record: &BTreeMap<u16, Vec<u8>>, (number, text): &(u16, &str)| {
            record.get(number).map(Vec::as_slice) == Some(text.as_bytes())
        };
        self.0.iter().filter(move |record| texts.iter().all(|text| has(record, text)))
    }
}

/// An element with its bytes, in a line of tshark's.
fn element(line: &str) -> Option<(u16, Vec<u8>)> {
    let (number, bytes) = line.split_once(" Type ")?.1.split_once(": Value (hex bytes):")?;
    let bytes = bytes
        .split_whitespace()
        .take_while(|byte| *byte != "…")
        .map(|byte| u8::from_str_radix(byte, 16).unwrap());
    Some((number.parse().unwrap(), bytes.collect()))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

// Numbers of elements of psmcd, as docs/IPFIX.md has them.
const PATH_NAME: u16 = 5;
const TARGET_NAME: u16 = 22;
const FROM: u16 = 24;
const TO: u16 = 25;
const KIND: u16 = 26;
const PACKETS: u16 = 27;
const LOST: u16 = 28;
const LOSS: [u16; 3] = [30, 29, 31];
const STATE: u16 = 37;

#[test]
fn targets_and_their_segments_are_told_beside_the_flows() {
    let tunnel = prepared();
    let collector = Nfcapd::start(&tunnel.hq);
    let target =
        "[[sla.target]]\nname = \"promise\"\npeer = \"hq\"\nloss = \"1%\"\nwindow = \"4s\"\nprobe = true\n";
    let tap = Tap::start(&tunnel.hq.namespace, &HQ.link(1));
    let tunnel = started(tunnel, &(collector_at(at_hq()) + target));
    let Tunnel { van, hq, .. } = &tunnel;
    wait_for_state(van, "met");
    // A fifth of the datagrams on one link, and none of the messages to the collector.
    let link = HQ.link(2);
    let rule = format!(
        "table inet bad {{ chain in {{ type filter hook input priority 0; \
         iifname \"{link}\" udp dport 5115 numgen random mod 5 == 0 drop; }}; }}"
    );
    hq.run(&["nft", &rule]);
    wait_for_state(van, "broken");
    tunnel.ping(Family::V4);
    let peer = settled(van);
    let received = collector.finish();
    let sent = received.sum(|flow| flow.source == van.inner(Family::V4));
    assert!(sent.0 > 0 && sent.0 <= peer.tx_packets, "flows are read as ever\n{}", received.summary);

    let frames = tap.finish();
    let segments = Decoded::of(hq, &frames, 261);
    let names = [1, 2].map(|link| path_name(VAN, link));
    let [good, bad] = names.each_ref().map(|path| {
        [(TARGET_NAME, "promise"), (PATH_NAME, path.as_str()), (FROM, "van"), (TO, "hq"), (KIND, "segment")]
    });
    for record in segments.with(&good) {
        assert_eq!(number(&record[&LOST]), 0, "{record:?}");
    }
    assert!(segments.with(&good).any(|record| number(&record[&PACKETS]) > 20), "{:?}", segments.0);
    let worst = segments.with(&bad).max_by_key(|record| number(&record[&LOST])).unwrap();
    let [low, value, high] = LOSS.map(|element| number(&worst[&element]));
    println!("{} of {} datagrams, {low} to {high} ppm", number(&worst[&LOST]), number(&worst[&PACKETS]));
    assert!(low < value && value < high && (100_000..350_000).contains(&value), "{low}, {value}, {high}");
    let targets = Decoded::of(hq, &frames, 262);
    for state in ["met", "broken"] {
        let wanted = [(TARGET_NAME, "promise"), (STATE, state)];
        assert!(targets.with(&wanted).next().is_some(), "{state}: {:?}", targets.0);
    }
}
