//! What follows from facts that no test can have of a real machine. `tests/e2e/doctor.rs` has those of real ones.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use psmc_net::probe::{IcmpError, IcmpKind, Walk};
use psmc_net::tls::TlsError;
use serde_json::json;

use super::super::facts::{Gateway, Link, Machine, Network, Tcp, Tls, Tun, Way};
use super::super::finding::Severity;
use super::*;

const CONFIG: &str = include_str!("../../../../tests/check/good/minimal.toml");

fn config(more: &str) -> Config {
    Config::parse(&format!("{CONFIG}\n{more}"), Path::new("van.toml"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn way() -> Way {
    Way {
        peer: "hq".to_owned(),
        path: None,
        relay: None,
        interface: Some("wan0".to_owned()),
        local: None,
        remote: SocketAddr::from(([203, 0, 113, 5], 5115)),
        link: Link::Usable,
        link_mtu: Some(1500),
        gateway: Gateway::Fine,
        tcp: Tcp::Connected,
        tls: Tls::Accepted,
        walk: Ok(Walk { hops: vec![(1, [192, 0, 2, 1].into()), (3, [198, 51, 100, 1].into())], end: None }),
        narrow: None,
        wide: None,
        state: None,
    }
}

fn sound() -> Facts {
    let machine = Machine {
        tun: Tun::Fine,
        kernel: Some((6, 1)),
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        written: None,
        is_synchronised: Some(true),
        networkd_removes_rules: false,
        datagrams: Some((1_000_000, 4)),
    };
    Facts {
        machine,
        daemon: Daemon::Absent,
        taken_ports: Vec::new(),
        notices: Vec::new(),
        network: Network::default(),
        dropped: Vec::new(),
        unled: Vec::new(),
        ways: vec![way()],
        unseen: Vec::new(),
    }
}

fn faults(change: impl FnOnce(&mut Facts)) -> Vec<Fault> {
    let mut facts = sound();
    change(&mut facts);
    all(&config(""), &facts).into_iter().map(|finding| finding.fault).collect()
}

fn of_way(change: impl FnOnce(&mut Way)) -> Vec<Finding> {
    let mut facts = sound();
    change(&mut facts.ways[0]);
    let findings = all(&config(""), &facts).into_iter();
    findings.filter(|finding| finding.fault.severity() == Severity::Wrong).collect()
}

#[test]
fn of_sound_facts_nothing_follows_but_that_the_daemon_does_not_run() {
    assert_eq!(faults(|_| {}), [Fault::DaemonNotRunning]);
}

#[test]
fn what_is_so_of_the_machine_is_told() {
    type Change = fn(&mut Machine);
    let cases: [(Fault, Change); 6] = [
        (Fault::KernelOld, |machine| machine.kernel = Some((4, 19))),
        (Fault::ClockFree, |machine| machine.is_synchronised = Some(false)),
        (Fault::ClockWrong, |machine| machine.now = SystemTime::UNIX_EPOCH),
        (Fault::ClockWrong, |machine| machine.written = Some(machine.now + Duration::from_secs(86_400))),
        (Fault::NetworkdRemoves, |machine| machine.networkd_removes_rules = true),
        (Fault::ChecksumErrors, |machine| machine.datagrams = Some((900, 5))),
    ];
    for (fault, change) in cases {
        let found = faults(|facts| change(&mut facts.machine));
        assert!(found.contains(&fault) && found.len() == 2, "{fault:?}: {found:?}");
    }
    let unknown = |facts: &mut Facts| {
        (facts.machine.kernel, facts.machine.is_synchronised, facts.machine.datagrams) = (None, None, None);
    };
    assert_eq!(faults(unknown), [Fault::DaemonNotRunning]);
}

#[test]
fn what_is_wrong_comes_before_what_is_to_be_noticed() {
    let found = faults(|facts| {
        facts.machine.tun = Tun::Missing;
        facts.machine.kernel = Some((4, 19));
    });
    assert_eq!(found, [Fault::TunMissing, Fault::DaemonNotRunning, Fault::KernelOld]);
}

#[test]
fn a_way_is_judged_by_the_first_thing_that_fails() {
    let prohibited = IcmpError { from: Some([198, 51, 100, 1].into()), kind: IcmpKind::Prohibited };
    let too_big = Some(IcmpError { from: None, kind: IcmpKind::TooBig(1000) });
    type Change<'a> = &'a dyn Fn(&mut Way);
    let cases: [(Fault, Change<'_>); 8] = [
        (Fault::InterfaceDown, &|way| {
            way.link = Link::Down;
            way.tcp = Tcp::Untried;
        }),
        (Fault::GatewaySilent, &|way| {
            way.gateway = Gateway::Silent([192, 0, 2, 1].into());
            way.tcp = Tcp::NoAnswer;
        }),
        (Fault::PeerUnreachable, &|way| way.tcp = Tcp::Failed(io::ErrorKind::HostUnreachable.into())),
        (Fault::ProtocolDiffers, &|way| way.tls = Tls::Failed(TlsError::OtherProtocol)),
        (Fault::HandshakeStalls, &|way| way.tls = Tls::Stalled),
        (Fault::MtuTooSmall, &|way| {
            way.tls = Tls::Stalled;
            way.narrow = too_big;
        }),
        (Fault::UdpBlocked, &|way| {
            way.walk = Ok(Walk { end: Some(prohibited), ..Walk::default() });
        }),
        (Fault::RelayFailing, &|way| {
            way.relay = Some("fra1".to_owned());
            way.tcp = Tcp::Refused;
        }),
    ];
    for (fault, change) in cases {
        let found = of_way(|way| change(way));
        let [finding] = found.as_slice() else { panic!("{fault:?}: {found:?}") };
        assert_eq!(finding.fault, fault);
        assert!(finding.about.starts_with("hq over wan0"), "{finding:?}");
    }
}

#[test]
fn where_packets_stop_is_said() {
    let found = of_way(|way| way.tcp = Tcp::NoAnswer);
    assert!(
        found[0].seen.ends_with("; the last router that answers is 198.51.100.1, 3 hops away"),
        "{found:?}"
    );
}

#[test]
fn what_is_so_of_a_peer_is_told_once() {
    let mut facts = sound();
    facts.ways = ["wan0", "wan1"]
        .map(|name| Way { interface: Some(name.to_owned()), tcp: Tcp::Refused, ..way() })
        .into();
    let found = all(&config(""), &facts);
    assert_eq!(
        found.iter().filter(|finding| finding.fault == Fault::PeerNotListening).count(),
        1,
        "{found:?}"
    );
    facts.ways.iter_mut().for_each(|way| way.tcp = Tcp::NoAnswer);
    let found = all(&config(""), &facts);
    assert_eq!(
        found.iter().filter(|finding| finding.fault == Fault::PeerUnreachable).count(),
        2,
        "{found:?}"
    );
}

/// A daemon of this configuration with peers, each with what it says that it is, and for how long it has been connected.
fn running(peers: &[(&str, Option<&str>, f64)]) -> Facts {
    let peer = |(name, software, since_s): &(&str, Option<&str>, f64)| {
        json!({
            "name": name, "public_key": "k", "state": "connected", "software": software, "allowed_ips": [], "added": true,
            "control": { "connected": *since_s > 0.0, "since_s": since_s.abs() }, "drops": {}, "paths": [],
            "tx_bytes": 0, "rx_bytes": 0, "tx_packets": 0, "rx_packets": 0,
        })
    };
    let site = json!({
        "name": "van", "public_key": config("").site.private_key.public().to_string(), "interface": "psmc0", "addresses": [],
        "listen": "nothing", "uptime_s": 9.0, "version": env!("CARGO_PKG_VERSION"),
    });
    let peers: Vec<_> = peers.iter().map(peer).collect();
    let status = serde_json::from_value(json!({ "site": site, "peers": peers, "counters": {} })).unwrap();
    Facts { daemon: Daemon::Running { status: Box::new(status), most_files: None }, ..sound() }
}

#[test]
fn peers_of_other_releases_are_told_of_once_they_have_had_the_time_to_say_so() {
    let of = |peers: &[_]| {
        let found = all(&config(""), &running(peers)).into_iter();
        found.filter(|finding| finding.fault == Fault::PeerVersionDiffers).collect::<Vec<_>>()
    };
    let own = format!("psmcd {}", env!("CARGO_PKG_VERSION"));
    let (same, settled) = (Some(own.as_str()), 60.0);
    assert_eq!(of(&[("a", same, settled), ("b", None, 0.5), ("c", None, -60.0)]), []);
    let found =
        of(&[("a", same, settled), ("b", None, settled), ("c", Some("psmcd 0.0.1"), 0.1 + TELLING_TIME)]);
    let [finding] = found.as_slice() else { panic!("one finding: {found:?}") };
    assert_eq!(
        finding.seen,
        format!(
            "b does not say what it runs, so that it is of an older release; c runs psmcd 0.0.1; this is {own}"
        )
    );
}
