//! ExaBGP, by the named pipe of its API.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;

use super::BgpError;
use crate::server::flowspec::FlowRule;

/// What ExaBGP lowers larger rates to, in bytes per second.
const MAX_RATE: u64 = 1_000_000_000_000;

/// How long an answer may take; ExaBGP looks into its pipe every few milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Whether somebody reads the pipe.
pub(super) fn found(pipe: &Path) -> Result<(), BgpError> {
    open(pipe).map(drop)
}

/// Has it announce or withdraw a rule (`verb`). Both can be said again without harm.
pub(super) fn tell(pipe: &Path, verb: &str, rule: &FlowRule) -> Result<(), BgpError> {
    // Before it is asked: what nobody reads is lost. Where there is no such pipe, nothing is known of the outcome.
    let answers = read_without_waiting().read(true).open(pipe.with_extension("out")).ok();
    let mut to = open(pipe)?;
    let line = line(verb, rule);
    let failed = |source| BgpError::Pipe { pipe: pipe.to_owned(), source };
    to.write_all(line.as_bytes()).map_err(failed)?;
    match answers.map(answer) {
        Some(answer) if answer.starts_with("error") => Err(BgpError::ExaBgp(line.trim_end().to_owned())),
        Some(_) | None => Ok(()),
    }
}

/// The rule, in one line of ExaBGP's configuration language.
fn line(verb: &str, rule: &FlowRule) -> String {
    let is_v4 = rule.destination.addr().is_ipv4();
    let mut matched = format!("destination {};", rule.destination);
    if let Some(source) = rule.source {
        matched += &format!(" source {source};");
    }
    if let Some(protocol) = rule.protocol {
        let key = if is_v4 { "protocol" } else { "next-header" };
        matched += &format!(" {key} ={protocol};");
    }
    match rule.ports {
        Some((first, last)) if first == last => matched += &format!(" destination-port ={first};"),
        Some((first, last)) => matched += &format!(" destination-port >={first}&<={last};"),
        None => {}
    }
    let rate = rule.rate.min(MAX_RATE);
    format!("{verb} flow route {{ match {{ {matched} }} then {{ rate-limit {rate}; }} }}\n")
}

/// The pipe, if somebody reads it: who opens one that nobody reads waits for ever.
fn open(pipe: &Path) -> Result<File, BgpError> {
    let failed = |source| BgpError::Pipe { pipe: pipe.to_owned(), source };
    read_without_waiting().write(true).open(pipe).map_err(failed)
}

fn read_without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlag::O_NONBLOCK.bits());
    options
}

/// The first line that comes, if one does.
fn answer(mut answers: File) -> String {
    let started = Instant::now();
    let mut text = Vec::new();
    while started.elapsed() < PATIENCE && !text.contains(&b'\n') {
        let mut buffer = [0; 64];
        match answers.read(&mut buffer) {
            Ok(0) => sleep(LOOK),
            Ok(length) => text.extend(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(LOOK),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_lines_of_its_language() {
        let destination = "203.0.113.10/32".parse().unwrap();
        let rule =
            FlowRule { destination, source: None, protocol: Some(6), ports: Some((80, 90)), rate: 125_000 };
        let text = "announce flow route { match { destination 203.0.113.10/32; protocol =6; \
                    destination-port >=80&<=90; } then { rate-limit 125000; } }\n";
        assert_eq!(line("announce", &rule), text);
        let destination = "2001:db8::/32".parse().unwrap();
        let rule = FlowRule {
            destination,
            source: Some("2001:db8:7::/48".parse().unwrap()),
            protocol: Some(17),
            ports: Some((53, 53)),
            rate: u64::MAX,
        };
        let text = "withdraw flow route { match { destination 2001:db8::/32; source 2001:db8:7::/48; next-header =17; \
                    destination-port =53; } then { rate-limit 1000000000000; } }\n";
        assert_eq!(line("withdraw", &rule), text);
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("exabgp.in");
        assert!(matches!(found(&pipe), Err(BgpError::Pipe { .. })), "there is none");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(found(&pipe), Err(BgpError::Pipe { .. })), "nobody reads it");
        let reader = read_without_waiting().read(true).open(&pipe).unwrap();
        assert!(found(&pipe).is_ok());
        drop(reader);
    }
}
