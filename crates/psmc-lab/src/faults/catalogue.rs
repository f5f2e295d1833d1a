//! All faults that there are.

use std::time::Duration;

use super::network::{Bed, Daemon};
use super::services::{ADDRESS, PORTS, SERVICES};
use super::tunnel::TUNNEL;

/// Something that goes wrong, for [`HOLD`] if it has an end.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// What `--only` calls it.
    pub(super) name: String,
    /// In words.
    pub(super) what: String,
    /// Where it is made.
    pub(super) bed: &'static Bed,
    /// The daemon that it is about, if that is one that is asked whether it serves.
    pub(super) about: Option<&'static str>,
    /// What is done, and how long after the fault begins.
    pub(super) deeds: Vec<(Duration, Deed)>,
    /// Whether another path is left, so that traffic hardly stops; or, of a daemon that is asked, whether it goes on serving.
    pub(super) spares_a_path: bool,
    /// Whether a daemon ends of it.
    pub(super) ends: Option<&'static str>,
    /// Whether it needs `faketime`.
    pub(super) needs_faketime: bool,
}

/// What is done.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// An event of a scenario, without its time.
    Event(String),
    /// A command of a shell on a host.
    Shell(&'static str, String),
}

/// How long a fault lasts.
pub(super) const HOLD: Duration = Duration::from_secs(2);

/// How often a path is toggled in that time, and what for.
const TOGGLES: u32 = 20;

/// All of them, in the order of the table.
pub(super) fn all() -> Vec<Fault> {
    let links = ["dsl", "near"].into_iter().flat_map(of_link);
    let daemons = TUNNEL.daemons.iter().flat_map(|daemon| of_daemon(&TUNNEL, daemon));
    let services = SERVICES.daemons.iter().flat_map(|daemon| of_daemon(&SERVICES, daemon));
    links.chain(daemons).chain(floods()).chain(services).chain(strangers()).collect()
}

/// The faults of a link: `dsl` is the fastest, `near` leads to the relay.
fn of_link(link: &'static str) -> Vec<Fault> {
    let event = |text: &str| Deed::Event(text.replace("LINK", &format!("\"{link}\"")));
    let until_restored = |name: &str, what: &str, text: &str| Fault {
        name: format!("{name}-{link}"),
        what: format!("{link}: {what}"),
        bed: &TUNNEL,
        about: None,
        deeds: vec![(Duration::ZERO, event(text)), (HOLD, event("restore = LINK"))],
        spares_a_path: true,
        ends: None,
        needs_faketime: false,
    };
    let mut faults = vec![
        until_restored("cut", "interfaces down", "cut = LINK"),
        until_restored("black-hole", "black hole", "black_hole = LINK"),
        until_restored(
            "black-hole-there",
            "black hole from the van",
            "black_hole = LINK\ndirection = \"forward\"",
        ),
        until_restored("black-hole-back", "black hole to the van", "black_hole = LINK\ndirection = \"back\""),
        until_restored(
            "slow",
            "a tenth of the rate",
            if link == "dsl" { "change = LINK\nrate = \"5mbit\"" } else { "change = LINK\nrate = \"2mbit\"" },
        ),
        until_restored("lossy", "30 % loss", "change = LINK\nloss = \"30%\""),
    ];
    let times = (0..TOGGLES).map(|i| HOLD * i / TOGGLES);
    let deeds = times.zip(["black_hole = LINK", "restore = LINK"].iter().cycle());
    faults.push(Fault {
        deeds: deeds.map(|(at, text)| (at, event(text))).collect(),
        ..until_restored("toggle", "a black hole ten times in two seconds", "")
    });
    faults
}

/// The faults of a daemon. A relay can be spared: its is one of three paths.
fn of_daemon(bed: &'static Bed, daemon: &Daemon) -> Vec<Fault> {
    let Daemon { name, host, .. } = *daemon;
    let shell = |script: &str| Deed::Shell(host, format!("cd {{dir}}; p=$(cat {name}.pid); {script}"));
    let once = |fault: &str, what: &str, script: &str| Fault {
        name: format!("{fault}-{name}"),
        what: format!("{name}: {what}"),
        bed,
        about: bed.probes.iter().find(|probe| probe.daemon == name).map(|probe| probe.daemon),
        deeds: vec![(Duration::ZERO, shell(script))],
        spares_a_path: name == "relay" || (!bed.probes.is_empty() && !STOPS.contains(&fault)),
        ends: None,
        needs_faketime: false,
    };
    let held = |fault: &str, what: &str, begin: &str, end: &str| Fault {
        deeds: vec![(Duration::ZERO, shell(begin)), (HOLD, shell(end))],
        ..once(fault, what, "")
    };
    let keeps_something = ["van", "hq", "dns", "coordinator"].contains(&name);
    let mut faults = vec![
        Fault { ends: Some(name), ..once("kill", "`kill -9`", "kill -KILL $p") },
        Fault { ends: Some(name), ..once("restart", "stopped and started", "kill -TERM $p") },
        held("pause", "SIGSTOP, SIGCONT", "kill -STOP $p", "kill -CONT $p"),
        // As large as it is: not a page more.
        held(
            "memory",
            "no more memory",
            "prlimit --as=$(( $(cut -d' ' -f1 /proc/$p/statm) * 4096 )):unlimited --pid $p",
            "prlimit --as=unlimited:unlimited --pid $p || true",
        ),
        held(
            "descriptors",
            "no more file descriptors",
            "prlimit --nofile=$(ls /proc/$p/fd | sort -n | tail -1): --pid $p",
            "prlimit --nofile=$(ulimit -Hn): --pid $p || true",
        ),
        Fault {
            needs_faketime: true,
            deeds: vec![(Duration::ZERO, shell(&step(name, "-3600"))), (HOLD, shell(&step(name, "+86400")))],
            ..once("clock", "an hour back, then a day ahead", "")
        },
    ];
    if keeps_something {
        faults.push(held(
            "disk",
            "its disk full",
            &format!("head -c 1M /dev/zero > /proc/$p/root{{dir}}/state-{name}/fill || true"),
            &format!("rm -f /proc/$p/root{{dir}}/state-{name}/fill"),
        ));
    }
    faults
}

/// The faults that stop a daemon, and not only hinder it.
const STOPS: [&str; 3] = ["kill", "restart", "pause"];

/// Sets the clock of a daemon, by the library of `faketime`.
fn step(name: &str, offset: &str) -> String {
    format!("echo {offset} > {name}.clock")
}

/// What strangers send.
fn floods() -> Vec<Fault> {
    let flood = |name: &str, what: &str, from: &'static str, script: String| Fault {
        name: name.to_owned(),
        what: what.to_owned(),
        bed: &TUNNEL,
        about: None,
        deeds: vec![(Duration::ZERO, Deed::Shell(from, script))],
        spares_a_path: true,
        ends: None,
        needs_faketime: false,
    };
    let seconds = HOLD.as_secs();
    let datagrams = |address: &str| {
        format!("timeout {seconds} dd if=/dev/urandom bs=1200 status=none > /dev/udp/{address}/5115 || true")
    };
    vec![
        flood("forged-hq", "hq: forged datagrams, as fast as they come", "mid", datagrams("10.4.0.2")),
        flood("forged-relay", "relay: forged datagrams, as fast as they come", "hq", datagrams("10.4.0.1")),
        flood(
            "strangers-hq",
            "hq: connections of a stranger that send noise",
            "mid",
            connections("10.4.0.2", 5115),
        ),
        flood(
            "strangers-relay",
            "relay: connections of a stranger that send noise",
            "hq",
            connections("10.4.0.1", 5115),
        ),
    ]
}

/// Connections that are opened one after the other, with noise in them.
fn connections(address: &str, port: u16) -> String {
    let seconds = HOLD.as_secs();
    format!(
        "timeout {seconds} bash -c 'while :; do head -c 200 /dev/urandom > /dev/tcp/{address}/{port}; done' || true"
    )
}

/// What strangers send to daemons that serve them.
fn strangers() -> impl Iterator<Item = Fault> {
    PORTS.into_iter().map(|(daemon, port)| Fault {
        name: format!("strangers-{daemon}"),
        what: format!("{daemon}: connections of a stranger that send noise"),
        bed: &SERVICES,
        about: Some(daemon),
        deeds: vec![(Duration::ZERO, Deed::Shell("client", connections(ADDRESS, port)))],
        spares_a_path: true,
        ends: None,
        needs_faketime: false,
    })
}
