//! Alerts of programs that do not repeat themselves: they go on for as long as the program runs.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_service::socket::ClientError;

use crate::local::{Answer, Request, ask};

/// How long such an alert counts after the program has ended, in seconds: long enough for a coordinator to be replaced by
/// another, short enough for whoever pays for the relays.
const LASTS_S: u64 = 12;

/// How often it is renewed in that time.
const RENEWALS: u32 = 3;

/// The process is none.
#[derive(Debug, thiserror::Error)]
#[error("no process {0} is running: --while needs the PID of a running process")]
pub(super) struct NoProcess(u32);

/// What is to be done after a coordinator was asked to have an alert go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The same again, later.
    Renew,
    /// To raise it again.
    Raise,
    /// Nothing: somebody has cleared it.
    End,
}

/// Raises an alert, and renews it until the process has ended or somebody clears it. What cannot be asked now is asked
/// again.
pub(super) fn keep(socket: &Path, alert: &Request, process: u32) -> Result<(), NoProcess> {
    let started = started(process).ok_or(NoProcess(process))?;
    let Request::Alert { source, id, service, lasts, .. } = alert else { return Ok(()) };
    let seconds = lasts.unwrap_or(LASTS_S);
    let (source, id, service) = (source.clone(), id.clone(), service.clone());
    let renew = Request::Renew { source, id, service, lasts: Some(seconds) };
    let mut raise = alert.clone();
    if let Request::Alert { lasts, .. } = &mut raise {
        *lasts = Some(seconds);
    }
    let lasts = Duration::from_secs(seconds);
    let mut renewed = None;
    let mut then = Then::Raise;
    while then != Then::End && self::started(process) == Some(started) {
        let asked = Instant::now();
        let answer = match then {
            Then::Raise => ask(socket, &raise),
            Then::Renew | Then::End => ask(socket, &renew),
        };
        match &answer {
            Ok(Answer::Done) => renewed = Some(asked),
            Ok(_) => {}
            Err(error) => eprintln!("psmc-coordinator: {}", crate::error_chain(error)),
        }
        // The coordinator counts from later on, and has answered before now.
        let counts = renewed.is_some_and(|renewed| Instant::now() < renewed + lasts);
        then = next(then, &answer, counts);
        if then == Then::Renew || answer.is_err() {
            sleep(lasts / RENEWALS);
        }
    }
    Ok(())
}

/// `counts` says whether the alert would still count by its last renewal.
fn next(then: Then, answer: &Result<Answer, ClientError>, counts: bool) -> Then {
    match answer {
        Ok(Answer::Done) => Then::Renew,
        // It was not for want of renewals.
        Ok(Answer::NotOpen) if counts => Then::End,
        Ok(Answer::NotOpen) => Then::Raise,
        // What is refused for good, such as an unknown service, may be there after the next reading of the file.
        Ok(Answer::Status(_) | Answer::Events { .. } | Answer::Error { .. }) | Err(_) => then,
    }
}

/// When a process has started, in ticks since the machine has; `None` if there is none, or if it only waits to be buried. Two
/// processes of one number differ in that (proc(5), `/proc/pid/stat`).
fn started(process: u32) -> Option<u64> {
    // The name, in parentheses, may have anything in it.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let is_alive = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    fields.nth(18)?.parse().ok().filter(|_| is_alive)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_are_told_apart() {
        let this = std::process::id();
        assert!(started(this).is_some() && started(this) == started(this));
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(started(other.id()) >= started(this));
        other.kill().unwrap();
        // It waits to be buried for as long as nobody asks what has become of it.
        while started(other.id()).is_some() {
            std::thread::yield_now();
        }
        other.wait().unwrap();
        assert_eq!(started(other.id()), None);
    }

    #[test]
    fn an_alert_that_was_cleared_is_not_raised_again() {
        let no_answer = || Err(ClientError::Refused("no coordinator is leading".to_owned()));
        assert_eq!(next(Then::Raise, &no_answer(), false), Then::Raise);
        assert_eq!(next(Then::Raise, &Ok(Answer::Done), true), Then::Renew);
        assert_eq!(next(Then::Renew, &no_answer(), true), Then::Renew);
        assert_eq!(next(Then::Renew, &Ok(Answer::NotOpen), true), Then::End);
        assert_eq!(next(Then::Renew, &Ok(Answer::NotOpen), false), Then::Raise, "it has lapsed");
    }
}
