//! Two targets whose ways share a segment that is too narrow for what comes: what fills it is told to both, with where it enters, and
//! whether it looks like an attack or like a crowd.
//!
//! ```text
//!                            ┌── hq
//!   van ── r0 ── narrow ── r1
//!                            └── branch
//! ```

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use psmc_api::{Flows, PathState};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::harness::{Family, Relayed, Site, Tunnel, wait_for};
use crate::sla::{PATIENCE, PAUSE, Traffic, hook};

/// What the shared segment lets pass, in datagrams per second, and packets of a load in a second.
const NARROW: u32 = 500;
const LOAD: u32 = 2000;

/// Networks behind the van: one, and the many that visitors come from.
const ONE_NETWORK: &str = "10.78.0.0/24";
const NETWORKS: &str = "10.78.0.0/18";

/// Where a load goes that is spread over many prefixes: as many as make a tenth of all each.
const SPREAD: [&str; 10] = [
    "20.0.0.0/8",
    "21.0.0.0/8",
    "22.0.0.0/8",
    "23.0.0.0/8",
    "24.0.0.0/8",
    "25.0.0.0/8",
    "26.0.0.0/8",
    "27.0.0.0/8",
    "28.0.0.0/8",
    "29.0.0.0/8",
];

/// Packets from and to any addresses, as a network behind the van sends them, until this is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Load {
    /// Of each packet its number tells source and destination.
    fn start(van: &Site, ends: fn(u32) -> [Ipv4Addr; 2]) -> Self {
        let raw = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)));
        let socket = van.namespace.run(raw).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, begun) = (Arc::clone(&is_over), Instant::now());
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                while f64::from(sent) < begun.elapsed().as_secs_f64() * f64::from(LOAD) {
                    let [source, destination] = ends(sent);
                    let to = SocketAddr::from((destination, 0));
                    // A queue that is full for a moment is as good as one that drops.
                    let _ = socket.send_to(&packet(source, destination), &to.into());
                    sent += 1;
                }
                sleep(Duration::from_millis(2));
            }
        });
        Self { is_over, sender: Some(sender) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

/// The number by which raw(7) takes packets with their headers.
const IPPROTO_RAW: i32 = 255;

/// The port that is asked, and those that ask.
const ASKED: u16 = 5000;
const ASKING: u16 = 4000;

/// A packet of UDP of 1,000 bytes.
fn packet(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 1000];
    packet[0] = 0x45;
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    packet[20..26].copy_from_slice(&[ASKING, ASKED, 980].map(u16::to_be_bytes).concat());
    packet
}

/// Somebody who hears at the headquarters what is asked, and says nothing: else the kernel would, by ICMP.
struct Silence(#[expect(dead_code, reason = "it is there, and that is all")] UdpSocket);

impl Silence {
    fn of(hq: &Site) -> Self {
        Self(socket_of(hq))
    }
}

fn socket_of(hq: &Site) -> UdpSocket {
    hq.namespace.run(|| UdpSocket::bind((hq.inner(Family::V4), ASKED))).unwrap()
}

/// Answers whoever asks the headquarters, until this is dropped.
struct Answers {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    fn start(hq: &Site) -> Self {
        let socket = socket_of(hq);
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 2000];
            while !over.load(Ordering::Relaxed) {
                if let Ok((_, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(b"here you are", from);
                }
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The world, with calls to both sites that are well as long as nothing else comes.
struct Shared {
    world: Relayed,
    notes: PathBuf,
    _branch: Site,
    _calls: [Traffic; 2],
}

impl Shared {
    /// `more` stands at the end of the van's file.
    fn start(more: &str) -> Self {
        let mut world = Relayed::prepare(2, None);
        let branch = world.start_branch();
        let (program, notes) = hook(&world.tunnel.van);
        let target = |peer| {
            format!(
                "[[sla.target]]\nname = \"calls-{peer}\"\npeer = \"{peer}\"\nloss = \"2%\"\nwindow = \"4s\"\non_breach = '{}'\n",
                program.display()
            )
        };
        // Repairs of what such a segment drops would fill it by themselves, for it has no queue that would tell of that.
        let repair = "repair = \"off\"\n";
        let paths = Relayed::path(&[0, 1]) + &Relayed::branch_peer(&branch, repair, &[0, 1]);
        world.start(repair, &(paths + &target("hq") + &target("branch") + more));
        let Tunnel { van, hq, .. } = &world.tunnel;
        let extend = |site: &Site, address: &str, more: &[&str]| {
            let text = fs::read_to_string(site.file("toml")).unwrap();
            let old = format!("\"{address}/32\"");
            let new = more.iter().fold(old.clone(), |text, prefix| format!("{text}, \"{prefix}\""));
            site.reload(&text.replacen(&old, &new, 1), "");
        };
        hq.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
        extend(van, &hq.inner(Family::V4).to_string(), &SPREAD);
        extend(hq, &van.inner(Family::V4).to_string(), &[NETWORKS]);
        wait_for("paths to both", PATIENCE, || {
            let peers = van.try_status()?.peers;
            let is_active = |path: &psmc_api::PathStatus| path.state == PathState::Active;
            peers.iter().all(|peer| peer.paths.iter().any(is_active)).then_some(())
        });
        world.narrow_segment(1, NARROW);
        let calls = [hq, &branch].map(|to| Traffic::of((van, to), Family::V6, PAUSE, 400));
        let shared = Self { world, notes, _branch: branch, _calls: calls };
        wait_for("what is usual", PATIENCE, || {
            shared.targets().iter().all(|target| target["usual_to_mbps"].is_number()).then_some(())
        });
        shared.wait_for_states("met");
        shared
    }

    fn van(&self) -> &Site {
        &self.world.tunnel.van
    }

    /// What `psmc sla --json` says.
    fn targets(&self) -> Vec<Value> {
        let output = self.van().psmc(&["sla", "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn wait_for_states(&self, state: &str) {
        wait_for(state, PATIENCE, || {
            self.targets().iter().all(|target| target["state"] == state).then_some(())
        });
    }

    /// What the program was told of the cause of both breaches: the words behind the target's name.
    fn causes(&self) -> [String; 2] {
        let cause = |peer: &str| {
            let start = format!("cause calls-{peer} calls-{peer}: ");
            let notes = fs::read_to_string(&self.notes).unwrap_or_default();
            let mut causes = notes.lines().filter_map(|line| line.strip_prefix(&start));
            let cause = causes.next()?.to_owned();
            assert_eq!(causes.next(), None, "a cause is told once: {notes}");
            Some(cause)
        };
        wait_for("causes of both", PATIENCE, || Some([cause("hq")?, cause("branch")?]))
    }

    fn at_fault(&self) -> Vec<Vec<(String, String)>> {
        let place = |fault: &Value| {
            let name = |key: &str| fault[key].as_str().unwrap().to_owned();
            (name("from"), name("to"))
        };
        let faults = |target: &Value| target["faults"].as_array().into_iter().flatten().map(place).collect();
        self.targets().iter().map(faults).collect()
    }
}

#[test]
fn an_attack_on_a_shared_segment_is_told_to_both_targets_with_where_it_enters() {
    let shared = Shared::start("");
    let _silence = Silence::of(&shared.world.tunnel.hq);
    let hq = shared.world.tunnel.hq.inner(Family::V4);
    let load = Load::start(shared.van(), |number| {
        [[10, 78, 0, 1 + (number % 200) as u8].into(), [10, 77, 0, 1].into()]
    });
    let causes = shared.causes();
    println!("{causes:?}");
    let place = ("r0".to_owned(), "r1".to_owned());
    assert_eq!(shared.at_fault(), [[place.clone()], [place]]);
    for cause in causes {
        assert!(cause.starts_with(&format!("{hq}/32 has ")), "{cause}");
        assert!(cause.contains(" of r0 → r1, "), "{cause}");
        assert!(cause.contains(&format!("enters by {ONE_NETWORK} (100 %)")), "{cause}");
        assert!(cause.ends_with("looks like an attack"), "{cause}");
    }
    drop(load);
    shared.wait_for_states("met");
}

#[test]
fn a_crowd_on_a_shared_segment_is_told_from_an_attack() {
    let shared = Shared::start("");
    let _answers = Answers::start(&shared.world.tunnel.hq);
    // Visitors of sixty-four networks.
    let load = Load::start(shared.van(), |number| {
        let host = number.wrapping_mul(7919) % (1 << 14);
        [Ipv4Addr::from_bits(0x0A4E_0000 + host), [10, 77, 0, 1].into()]
    });
    for cause in shared.causes() {
        println!("{cause}");
        assert!(cause.starts_with("10.77.0.1/32 has ") && cause.ends_with("looks like a crowd"), "{cause}");
    }
    drop(load);
    shared.wait_for_states("met");
}

#[test]
fn a_load_that_is_spread_over_many_prefixes_is_laid_at_no_ones_door() {
    let shared = Shared::start("");
    let load = Load::start(shared.van(), |number| {
        let [a, b, c, _] = number.wrapping_mul(2_654_435_761).to_be_bytes();
        [[10, 78, 0, 1].into(), [20 + a % 10, b, c, 1].into()]
    });
    for cause in shared.causes() {
        println!("{cause}");
        assert!(cause.starts_with("no prefix carries a fifth"), "{cause}");
    }
    drop(load);
    shared.wait_for_states("met");
}

/// Nothing else loses much here, so that it is known whom the target suspects.
#[test]
fn what_attacks_a_segment_is_a_candidate_and_is_held_down_if_it_heeds_no_drops() {
    let flows = |site: &Site| {
        let output = site.psmc(&["flows", "--json"]);
        let flows: Flows = serde_json::from_slice(&output.stdout).unwrap();
        flows.flows
    };
    // Nobody is held down who has less than twice the floor.
    let shared = Shared::start("[unresponsive]\nmode = \"police\"\nfloor = \"100mbit\"\n");
    let _silence = Silence::of(&shared.world.tunnel.hq);
    let van = shared.van();
    let load =
        Load::start(van, |number| [[10, 78, 0, 1 + (number % 200) as u8].into(), [10, 77, 0, 1].into()]);
    let suspected =
        wait_for("a candidate", PATIENCE, || flows(van).into_iter().find(|flow| flow.candidate_of.is_some()));
    println!("{suspected:?}");
    assert_eq!(suspected.candidate_of.as_deref(), Some("calls-hq"));
    assert_eq!((suspected.peer.as_str(), suspected.kind.as_str(), suspected.limit), ("hq", "udp", None));
    let text = String::from_utf8(van.psmc(&["flows"]).stdout).unwrap();
    assert!(text.contains("candidate: seems to break the target calls-hq"), "{text}");
    let text = fs::read_to_string(van.file("toml")).unwrap();
    van.reload(&text.replace("100mbit", "256kbit"), "");
    wait_for("a limit", PATIENCE, || flows(van).into_iter().find(|flow| flow.limit.is_some()));
    println!("{}", String::from_utf8(van.psmc(&["flows"]).stdout).unwrap());
    // The calls are well again, though it goes on.
    shared.wait_for_states("met");
    drop(load);
}
