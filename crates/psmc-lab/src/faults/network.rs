//! The networks in which faults are made, as scenarios. Daemons run as their units have them: a second after one has ended it is started
//! again.

use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::keys::PrivateKey;

use super::catalogue::{Deed, Fault};
use super::tunnel;
use crate::scenario::{ConfigError, Scenario};

/// A network with daemons.
pub(super) struct Bed {
    /// All that run.
    pub(super) daemons: &'static [Daemon],
    /// All hosts, each of which has rules and routes.
    pub(super) hosts: &'static [&'static str],
    /// The links between them, as a scenario has them.
    pub(super) links: &'static str,
    /// How it is found out whether a daemon serves; none where traffic tells.
    pub(super) probes: &'static [Probe],
    /// Writes the configurations of all daemons to a directory: `NAME.toml`, with keys of their own.
    pub(super) write: fn(&Path) -> io::Result<()>,
}

impl fmt::Debug for Bed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bed").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// A daemon, and the host it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Daemon {
    /// Its name here, in the names of files as well.
    pub(super) name: &'static str,
    pub(super) host: &'static str,
    /// What is typed to start it.
    pub(super) command: &'static str,
}

/// A question to a daemon, asked again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Which daemon.
    pub(super) daemon: &'static str,
    /// Who asks.
    pub(super) host: &'static str,
    /// A command of bash, which succeeds if there is an answer, within a second.
    pub(super) command: &'static str,
}

/// What stands on the command line of a program that looks at rules and routes: without counters and ages, which change, and
/// addresses that devices have by chance.
const RULES: &str = "{ ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; nft list ruleset; } | \
    sed -e 's/ expires [0-9]*sec//' -e 's/packets [0-9]* bytes [0-9]*//' \
    -e 's/fe80::[0-9a-f:]*/fe80::/' | sort";

/// When everything is up, so that the first fault may begin.
pub(super) const LEAD: Duration = Duration::from_secs(5);

/// From the beginning of a fault to that of the next: more than a daemon needs that was ended.
pub(super) const SLOT: Duration = Duration::from_secs(8);

/// When traffic and probes start: daemons have started by then.
pub(super) const TRAFFIC: Duration = Duration::from_secs(3);

/// How long before the first fault, and before the end, rules are looked at.
const MARGIN: Duration = Duration::from_secs(1);

/// How long a daemon that has ended waits for its start, as in its unit.
const PAUSE_S: u32 = 1;

/// The scenario of these faults, one after another, all of one bed. `faketime` is the library by which clocks are set, if any are.
///
/// # Errors
/// If the text is wrong.
pub(super) fn scenario(
    (name, bed): (&str, &Bed),
    faults: &[&Fault],
    seed: u64,
    faketime: Option<&Path>,
) -> Result<Scenario, ConfigError> {
    let mut scenario = Scenario::parse(&text((name, bed), faults, seed, faketime), Path::new(name))?;
    scenario.traffic = tunnel::traffic(&scenario);
    Ok(scenario)
}

/// All of it but the traffic.
fn text((name, bed): (&str, &Bed), faults: &[&Fault], seed: u64, faketime: Option<&Path>) -> String {
    let duration = duration(faults.len());
    let mut text =
        format!("[scenario]\nname = \"{name}\"\nduration = \"{}s\"\nseed = {seed}\n", duration.as_secs());
    text.push_str(bed.links);
    for daemon in bed.daemons {
        program(&mut text, daemon.name, daemon.host, &daemon.supervised(faketime), Duration::ZERO);
    }
    for probe in bed.probes {
        program(&mut text, &probe_name(probe.daemon), probe.host, &probe.repeated(), TRAFFIC);
        text.push_str("output = true\n");
    }
    for host in bed.hosts {
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

/// The program that asks a daemon.
pub(super) fn probe_name(daemon: &str) -> String {
    format!("probe-{daemon}")
}

impl Daemon {
    /// Where its process says who it is.
    pub(super) fn pid_file(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.pid", self.name))
    }

    /// A shell that starts it, again and again. What it keeps is on a file system of its own, for that may be full.
    fn supervised(&self, faketime: Option<&Path>) -> String {
        let Self { name, command, .. } = self;
        let clock = faketime.map_or_else(String::new, |library| {
            format!(
                "echo +0 > {name}.clock; export FAKETIME_TIMESTAMP_FILE={{dir}}/{name}.clock FAKETIME_CACHE_DURATION=1 \
                 FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD={}; ",
                library.display()
            )
        });
        let disk = format!("[ ! -d state-{name} ] || mount -t tmpfs -o size={DISK} none state-{name}");
        let start = format!("{clock}echo $$ > {name}.pid; exec {command}");
        format!(
            "cd {{dir}} && exec unshare --mount sh -c \"{disk}; while :; do sh -c '{}'; sleep {PAUSE_S}; done\"",
            start.replace('$', "\\$")
        )
    }
}

/// How much a daemon may keep.
const DISK: &str = "256k";

impl Probe {
    /// Asks until the program is ended, and prints after how many microseconds there was an answer, each on a line.
    fn repeated(&self) -> String {
        format!(
            "cd {{dir}}; began=${{EPOCHREALTIME/[.,]/}}; while :; do \
             if {{ {}; }} > /dev/null 2>&1; then echo $(( ${{EPOCHREALTIME/[.,]/}} - began )); fi; sleep 0.01; done",
            self.command
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

/// The text with what stands for the directory (`HERE`), and for keys: of `VAN`, `VAN_SECRET` and `VAN_PUBLIC`.
pub(super) fn fill(text: &str, directory: &Path, keys: &[(&str, &PrivateKey)]) -> String {
    let text = text.replace("HERE", &directory.display().to_string());
    keys.iter().fold(text, |text, (name, key)| {
        text.replace(&format!("{name}_SECRET"), &key.to_base64())
            .replace(&format!("{name}_PUBLIC"), &key.public().to_string())
    })
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
