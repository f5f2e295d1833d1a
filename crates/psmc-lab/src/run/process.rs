//! A process of the run, and programs of the system that set up hosts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::Namespace;

use super::RunError;

/// A process of the run. It is killed on drop.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts a program on a host. What it prints is added to the file `log`.
    pub(super) fn start(host: &Namespace, command: &mut Command, log: &Path) -> io::Result<Self> {
        let log = OpenOptions::new().append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        host.spawn(command).map(Self)
    }

    /// How it has ended; `None` while it runs.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        // It is our child, so that the kernel knows.
        self.0.try_wait().ok().flatten()
    }

    /// Asks it to end.
    pub(super) fn ask_to_end(&self) {
        if let Ok(pid) = self.0.id().try_into() {
            // It fails for a process that has just ended.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Waits until it has ended, but not longer than this.
    pub(super) fn wait_until(&mut self, deadline: Instant) {
        while self.ended().is_none() && Instant::now() < deadline {
            sleep(POLL);
        }
    }

    /// Kills it, if it runs, and returns how it ended.
    pub(super) fn kill(&mut self) -> Option<ExitStatus> {
        // It fails for a process that has ended.
        let _ = self.0.kill();
        self.0.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An exit status as a shell shows it: 128 and the number of the signal for a process that was ended by one.
pub(super) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Makes an empty log, also where there was one of an earlier run.
pub(super) fn new_log(path: PathBuf) -> Result<PathBuf, RunError> {
    match File::create(&path) {
        Ok(_) => Ok(path),
        Err(source) => Err(RunError::File { path, source }),
    }
}

/// The end of a log: whole lines, [`OUTPUT`] bytes at most.
pub(super) fn end(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let cut = text.len().saturating_sub(OUTPUT);
    let start = match cut {
        0 => 0,
        _ => text[cut..].iter().position(|&byte| byte == b'\n').map_or(cut, |line| cut + line + 1),
    };
    String::from_utf8_lossy(&text[start..]).into_owned()
}

/// The last lines of a log, each behind the name of its writer.
pub(super) fn tail(log: &Path, name: &str) -> String {
    let text = fs::read(log).unwrap_or_else(|error| error.to_string().into_bytes());
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().map(|line| format!("{name}: {line}")).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// How often it is looked whether it has.
const POLL: Duration = Duration::from_millis(5);

/// How much of a log goes to the results: they are read by people, too.
const OUTPUT: usize = 64 * 1024;

/// How much of a log is shown when something has failed.
const LOG_LINES: usize = 10;

/// A program of the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
}

/// Translates addresses.
pub(super) const NFT: Tool = Tool { name: "nft", package: "nftables" };

/// Tells the kernel what MPTCP may use.
pub(super) const IP: Tool = Tool { name: "ip", package: "iproute2" };

impl Tool {
    /// Runs it on a host, with this to read, to its end.
    pub(super) fn run(
        self,
        (host, namespace): (&str, &Namespace),
        arguments: &[&str],
        input: &str,
    ) -> Result<(), RunError> {
        let mut command = Command::new(self.name);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = namespace.spawn(&mut command).and_then(|child| feed(child, input));
        let output =
            output.map_err(|source| RunError::Tool { tool: self.name, package: self.package, source })?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(RunError::ToolFailed { tool: self.name, host: host.to_owned(), message })
    }
}

fn feed(mut child: Child, input: &str) -> io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading all of it says why.
        drop(stdin.write_all(input.as_bytes()));
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_whole_lines() {
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "one\ntwo").unwrap();
        assert_eq!(end(log.path()), "one\ntwo");
        let line = "0123456789\n";
        fs::write(log.path(), line.repeat(OUTPUT)).unwrap();
        assert_eq!(end(log.path()), line.repeat((OUTPUT - 1) / line.len()));
    }
}
