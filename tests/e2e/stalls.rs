//! What is outside a daemon stands still, or is used up: all else goes on.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use psmc_api::PathState;

use crate::harness::{Family, Plan, Relayed, Site, Tunnel, VAN, path_name, wait_for};

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// What people take for an answer at once, and for an end without delay, on a machine that does much else meanwhile.
const AT_ONCE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(4);

/// Routes of a host that a daemon for routing gives some.
const MANY_ROUTES: u32 = 5000;

fn answers_at_once(site: &Site) {
    let start = Instant::now();
    assert!(site.try_status().is_some(), "no answer");
    let taken = start.elapsed();
    println!("answered after {taken:?}");
    assert!(taken < AT_ONCE, "{taken:?}");
}

fn ends_soon(site: &mut Site) {
    let start = Instant::now();
    assert!(site.terminate().success());
    let taken = start.elapsed();
    println!("ended after {taken:?}");
    assert!(taken < SOON, "{taken:?}");
}

/// Where nobody reads what a daemon logs.
#[derive(Clone, Copy, Debug)]
enum Log {
    /// A pipe that is full.
    Unread,
    /// A pipe whose reader has gone.
    Closed,
    /// A disk without room.
    Full,
}

impl Log {
    /// Standard error, and what keeps it as it is.
    fn open(self) -> (Stdio, Option<io::PipeReader>) {
        let (reader, mut writer) = io::pipe().unwrap();
        match self {
            Self::Unread => {
                let fill = vec![b'x'; 1 << 16];
                writer.write_all(&fill).unwrap();
                (writer.into(), Some(reader))
            }
            Self::Closed => (writer.into(), None),
            Self::Full => (OpenOptions::new().write(true).open("/dev/full").unwrap().into(), None),
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing_and_holds_up_nothing() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    tunnel.hq.start();
    for log in [Log::Unread, Log::Closed, Log::Full] {
        let (stderr, reader) = log.open();
        tunnel.van.start_logging_to(stderr);
        tunnel.wait_until_up();
        tunnel.ping(Family::V4);
        answers_at_once(&tunnel.van);
        if matches!(log, Log::Closed | Log::Full) {
            assert!(tunnel.van.counter("log_lines_lost") > 0, "{log:?}");
        }
        ends_soon(&mut tunnel.van);
        drop(reader);
    }
}

#[test]
fn clients_that_say_nothing_or_read_nothing_hold_up_nobody() {
    let tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let connect = || UnixStream::connect(tunnel.van.file("sock")).unwrap();
    let silent = connect();
    let mut half = connect();
    half.write_all(b"{\"version\":1,").unwrap();
    let mut deaf = connect();
    deaf.set_nonblocking(true).unwrap();
    while deaf.write_all(b"{\"version\":1,\"op\":\"status\"}\n").is_ok() {}
    answers_at_once(&tunnel.van);
    tunnel.ping(Family::V4);
    drop((silent, half, deaf));
}

#[test]
fn a_daemon_without_descriptors_answers_and_takes_calls_again_later() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    tunnel.hq.start_with_open_files(64);
    tunnel.van.start();
    tunnel.wait_until_up();
    let address = (tunnel.hq.end.outer(1, Family::V4), 5115);
    let calls: Vec<_> = tunnel.van.namespace.run(|| (0..96).map(|_| TcpStream::connect(address)).collect());
    wait_for("a daemon that has no descriptors left", PATIENCE, || {
        (tunnel.hq.counter("control_accept_errors") > 0).then_some(())
    });
    answers_at_once(&tunnel.hq);
    tunnel.ping(Family::V4);
    let said = tunnel.hq.log().matches("cannot accept control connections").count();
    assert_eq!(said, 1, "once, and not ten times a second");
    drop(calls);
    tunnel.van.kill();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
}

#[test]
fn a_supervisor_is_told_of_the_start_the_life_and_the_end() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    let path = tunnel.van.file("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut text = [0; 64];
        let len = supervisor.recv(&mut text).unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    };
    tunnel
        .van
        .start_with_environment(&[("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "400000")]);
    assert_eq!(hear(), "READY=1");
    for _ in 0..5 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    tunnel.van.signal(Signal::SIGHUP);
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("READY=1") {
        heard.push(hear());
    }
    assert!(heard.contains(&"RELOADING=1".to_owned()), "{heard:?}");
    assert!(tunnel.van.terminate().success());
    supervisor.set_nonblocking(true).unwrap();
    let mut last = String::new();
    let mut text = [0; 64];
    while let Ok(len) = supervisor.recv(&mut text) {
        last = String::from_utf8(text[..len].to_vec()).unwrap();
    }
    assert_eq!(last, "STOPPING=1");
}

/// Routes in number, and rules that come and go, so that the network is looked at as often as it may be.
struct Flood {
    changes: Child,
    writer: JoinHandle<()>,
}

impl Flood {
    fn start(site: &Site) -> Self {
        let mut command = Command::new("ip");
        command.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut changes = site.namespace.spawn(&mut command).unwrap();
        let mut input = changes.stdin.take().unwrap();
        let link = site.end.link(1);
        let writer = spawn(move || {
            for number in 0_u32.. {
                let [_, second, third, fourth] = (number % MANY_ROUTES).to_be_bytes();
                let route = format!("198.{}.{third}.{fourth}/32 dev {link}", 18 + second);
                let lines = if number < MANY_ROUTES {
                    format!("route add {route}\n")
                } else {
                    format!("route del {route}\nrule add pref 9\nroute add {route}\nrule del pref 9\n")
                };
                // It fails once nobody reads any more.
                let Ok(()) = input.write_all(lines.as_bytes()) else { return };
            }
        });
        Self { changes, writer }
    }

    fn finish(mut self) {
        self.changes.kill().unwrap();
        self.changes.wait().unwrap();
        self.writer.join().unwrap();
    }
}

#[test]
fn a_flood_of_routes_holds_up_nothing() {
    let mut tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let flood = Flood::start(&tunnel.van);
    let count = |site: &Site| site.run(&["ip", "route"]).lines().count();
    wait_for("many routes", PATIENCE, || (count(&tunnel.van) > MANY_ROUTES as usize).then_some(()));
    for _ in 0..20 {
        answers_at_once(&tunnel.van);
        tunnel.ping(Family::V4);
    }
    // Of all that happens, what counts is seen.
    tunnel.van.run(&["ip", "address", "flush", "dev", "psmc0"]);
    wait_for("addresses", PATIENCE, || {
        tunnel.van.run(&["ip", "-4", "-brief", "address"]).contains("10.77.0.2").then_some(())
    });
    ends_soon(&mut tunnel.van);
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
    flood.finish();
}

#[test]
fn a_relay_that_stands_still_holds_up_nothing_else() {
    let mut relayed = Relayed::prepare_with(Plan { links: 1, ..Plan::default() }, 2, None);
    let direct = path_name(VAN, 1);
    relayed.start("", &(Relayed::path(&[0]) + &Relayed::path(&[1])));
    for path in [direct.as_str(), "r0", "r1"] {
        relayed.tunnel.van.wait_for_path(path, &[PathState::Active], PATIENCE);
    }
    relayed.halt(0);
    answers_at_once(&relayed.tunnel.van);
    relayed.tunnel.ping(Family::V4);
    ends_soon(&mut relayed.tunnel.van);
    // Nor is a relay waited for that has never said anything.
    relayed.tunnel.van.start();
    for path in [direct.as_str(), "r1"] {
        relayed.tunnel.van.wait_for_path(path, &[PathState::Active], PATIENCE);
    }
    answers_at_once(&relayed.tunnel.van);
    relayed.tunnel.ping(Family::V4);
    ends_soon(&mut relayed.tunnel.van);
}

/// A configuration on a disk that does not answer: here a pipe that nobody writes to.
#[test]
fn a_configuration_that_does_not_come_holds_up_nothing() {
    let mut tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let file = tunnel.van.file("toml");
    fs::remove_file(&file).unwrap();
    tunnel.van.run(&["mkfifo", file.to_str().unwrap()]);
    tunnel.van.signal(Signal::SIGHUP);
    let mut client = UnixStream::connect(tunnel.van.file("sock")).unwrap();
    client.write_all(b"{\"version\":1,\"op\":\"reload\"}\n").unwrap();
    answers_at_once(&tunnel.van);
    tunnel.ping(Family::V4);
    ends_soon(&mut tunnel.van);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("is being read already") || answer.contains("shutting down"), "{answer}");
}
