//! The network in which faults are made, as a scenario: two sites, joined by two links and by a relay.
//!
//! ```text
//!      ┌──── dsl, lte ────┐
//!     van                 hq
//!      └─ near ─ mid ─ far┘
//! ```
//!
//! Daemons run as their units have them: a second after one has ended it is started again.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::keys::PrivateKey;

use super::catalogue::{Deed, Fault};
use crate::scenario::{ConfigError, HostId, Scenario, Traffic, TrafficKind};

/// A daemon, and the host it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Daemon {
    /// Its name here, in the names of files as well.
    pub(super) name: &'static str,
    pub(super) host: &'static str,
    /// Its program, which takes the file of its configuration by `--config`.
    program: &'static str,
}

/// All that run.
pub(super) const DAEMONS: [Daemon; 3] = [
    Daemon { name: "van", host: "van", program: "psmcd" },
    Daemon { name: "hq", host: "hq", program: "psmcd" },
    Daemon { name: "relay", host: "mid", program: "psmc-relay" },
];

/// All hosts, each of which has rules and routes.
pub(super) const HOSTS: [&str; 3] = ["van", "hq", "mid"];

/// What stands on the command line of a program that looks at rules and routes: without counters and ages, which change, and
/// addresses that devices have by chance.
const RULES: &str = "{ ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; nft list ruleset; } | \
    sed -e 's/ expires [0-9]*sec//' -e 's/packets [0-9]* bytes [0-9]*//' \
    -e 's/fe80::[0-9a-f:]*/fe80::/' | sort";

const LINKS: &str = r#"
[[link]]
name = "dsl"
between = ["van", "hq"]
addresses = ["10.1.0.1/24", "10.1.0.2/24"]
rate = "50mbit"
delay = "10ms"

[[link]]
name = "lte"
between = ["van", "hq"]
addresses = ["10.2.0.1/24", "10.2.0.2/24"]
rate = "20mbit"
delay = "20ms"

[[link]]
name = "near"
between = ["van", "mid"]
addresses = ["10.3.0.1/24", "10.3.0.2/24"]
rate = "20mbit"
delay = "15ms"

[[link]]
name = "far"
between = ["mid", "hq"]
addresses = ["10.4.0.1/24", "10.4.0.2/24"]
rate = "100mbit"
delay = "5ms"
"#;

const VAN: &str = r#"[site]
name = "van"
private_key = "VAN_SECRET"
addresses = ["10.77.0.2/24"]
control_socket = "HERE/van.sock"
state_file = "HERE/state-van/state.json"

[[relay]]
name = "mid"
address = "10.3.0.2:5115"
public_key = "RELAY_PUBLIC"

[[peer]]
name = "hq"
public_key = "HQ_PUBLIC"

[[peer.path]]
name = "dsl"
interface = "dsl"
endpoint = "10.1.0.2:5115"

[[peer.path]]
name = "lte"
interface = "lte"
endpoint = "10.2.0.2:5115"
quota = { bytes = "1TB", every = "month", then = "backup" }

[[peer.path]]
name = "relay"
interface = "near"
relays = ["mid"]
endpoint = "10.4.0.2:5115"
"#;

const HQ: &str = r#"[site]
name = "hq"
private_key = "HQ_SECRET"
addresses = ["10.77.0.1/24"]
listen = 5115
control_socket = "HERE/hq.sock"
state_file = "HERE/state-hq/state.json"

[[peer]]
name = "van"
public_key = "VAN_PUBLIC"
"#;

const RELAY: &str = r#"[relay]
name = "mid"
private_key_file = "relay.key"
destinations = ["10.4.0.0/24"]
control_socket = "HERE/relay.sock"

[[allow]]
name = "van"
public_key = "VAN_PUBLIC"
"#;

/// When everything is up, so that the first fault may begin.
pub(super) const LEAD: Duration = Duration::from_secs(5);

/// From the beginning of a fault to that of the next: more than a daemon needs that was ended.
pub(super) const SLOT: Duration = Duration::from_secs(8);

/// When the traffic starts: daemons have started by then.
const TRAFFIC: Duration = Duration::from_secs(3);

/// How many datagrams a second each stream has whose losses count.
pub(super) const DATAGRAMS: u64 = 200;

/// What is in each, in bytes, and what that makes, in bits per second.
const PAYLOAD: usize = 100;
const RATE: u64 = DATAGRAMS * PAYLOAD as u64 * 8;

/// How long before the first fault, and before the end, rules are looked at.
const MARGIN: Duration = Duration::from_secs(1);

/// How long a daemon that has ended waits for its start, as in its unit.
const PAUSE_S: u32 = 1;

/// Writes the configurations of all daemons to a directory: `NAME.toml`, with keys of their own.
pub(super) fn write_configurations(directory: &Path) -> io::Result<()> {
    for name in ["van", "hq"] {
        fs::create_dir(directory.join(format!("state-{name}")))?;
    }
    let [van, hq, relay] = [(); 3].map(|()| PrivateKey::generate());
    let mut words = vec![("HERE", directory.display().to_string())];
    for (secret, public, key) in [
        ("VAN_SECRET", "VAN_PUBLIC", van),
        ("HQ_SECRET", "HQ_PUBLIC", hq),
        ("RELAY_SECRET", "RELAY_PUBLIC", relay),
    ] {
        words.push((secret, key.to_base64().to_string()));
        words.push((public, key.public().to_string()));
    }
    let files = [("van.toml", VAN), ("hq.toml", HQ), ("relay.toml", RELAY), ("relay.key", "RELAY_SECRET\n")];
    files.into_iter().try_for_each(|(name, text)| {
        let text = words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value));
        write_private(&directory.join(name), &text)
    })
}

/// The scenario of these faults, one after another. `faketime` is the library by which clocks are set, if any are.
///
/// # Errors
/// If the text is wrong.
pub(super) fn scenario(
    name: &str,
    faults: &[&Fault],
    seed: u64,
    faketime: Option<&Path>,
) -> Result<Scenario, ConfigError> {
    let mut scenario = Scenario::parse(&text(name, faults, seed, faketime), Path::new(name))?;
    let hosts = ["van", "hq"].map(|name| scenario.hosts.iter().position(|host| host.name == name));
    let [Some(van), Some(hq)] = hosts else { return Ok(scenario) };
    let end = scenario.duration;
    // Not in the text, which knows no addresses but those of links and of tunnels of its own.
    scenario.traffic = vec![
        udp("up", [van, hq], [10, 77, 0, 1], (RATE, PAYLOAD), end),
        udp("down", [hq, van], [10, 77, 0, 2], (RATE, PAYLOAD), end),
        // What the nearest link does not carry when it has a tenth of its rate.
        udp("load", [hq, van], [10, 77, 0, 2], (8_000_000, 1200), end),
    ];
    Ok(scenario)
}

/// All of it but the traffic.
fn text(name: &str, faults: &[&Fault], seed: u64, faketime: Option<&Path>) -> String {
    let duration = duration(faults.len());
    let mut text =
        format!("[scenario]\nname = \"{name}\"\nduration = \"{}s\"\nseed = {seed}\n", duration.as_secs());
    text.push_str(LINKS);
    for daemon in &DAEMONS {
        program(&mut text, daemon.name, daemon.host, &daemon.supervised(faketime), Duration::ZERO);
    }
    for host in HOSTS {
        for (when, at) in
            [("before", LEAD.saturating_sub(MARGIN)), ("after", duration.saturating_sub(MARGIN))]
        {
            program(&mut text, &rules_name(host, when), host, RULES, at);
            text.push_str("output = true\n");
        }
    }
    for (number, fault) in faults.iter().enumerate() {
        for (i, (after, deed)) in fault.deeds.iter().enumerate() {
            let at = start(number) + *after;
            match deed {
                Deed::Event(event) => {
                    let _ = writeln!(text, "\n[[event]]\nat = \"{}ms\"\n{event}", at.as_millis());
                }
                Deed::Shell(host, script) => {
                    program(&mut text, &format!("{number}-{}-{i}", fault.name), host, script, at);
                }
            }
        }
    }
    text
}

/// When the fault of this number begins.
pub(super) fn start(number: usize) -> Duration {
    LEAD + SLOT * u32::try_from(number).unwrap_or(u32::MAX)
}

/// How long a scenario of so many faults takes.
pub(super) fn duration(faults: usize) -> Duration {
    start(faults)
}

/// The program that looks at the rules of a host.
pub(super) fn rules_name(host: &str, when: &str) -> String {
    format!("rules-{host}-{when}")
}

impl Daemon {
    /// Where its process says who it is.
    pub(super) fn pid_file(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.pid", self.name))
    }

    /// A shell that starts it, again and again. What it keeps is on a file system of its own, for that may be full.
    fn supervised(&self, faketime: Option<&Path>) -> String {
        let Self { name, program, .. } = self;
        let clock = faketime.map_or_else(String::new, |library| {
            format!(
                "echo +0 > {name}.clock; export FAKETIME_TIMESTAMP_FILE={{dir}}/{name}.clock FAKETIME_CACHE_DURATION=1 \
                 FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD={}; ",
                library.display()
            )
        });
        let disk = format!("[ ! -d state-{name} ] || mount -t tmpfs -o size=64k none state-{name}");
        let start = format!("{clock}echo $$ > {name}.pid; exec {program} --config {name}.toml");
        format!(
            "cd {{dir}} && exec unshare --mount sh -c \"{disk}; while :; do sh -c '{}'; sleep {PAUSE_S}; done\"",
            start.replace('$', "\\$")
        )
    }
}

fn program(text: &mut String, name: &str, host: &str, script: &str, at: Duration) {
    let _ = write!(
        text,
        "\n[[program]]\nname = \"{name}\"\nhost = \"{host}\"\nstart = \"{}ms\"\ncommand = [\"bash\", \"-c\", '''{script}''']\n",
        at.as_millis()
    );
}

fn udp(
    name: &str,
    [from, to]: [usize; 2],
    address: [u8; 4],
    (rate, payload): (u64, usize),
    stop: Duration,
) -> Traffic {
    Traffic {
        name: name.to_owned(),
        kind: TrafficKind::Udp { rate, payload, adaptive: false },
        from: HostId(from),
        to: HostId(to),
        address: Ipv4Addr::from(address).into(),
        start: TRAFFIC,
        stop,
    }
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
