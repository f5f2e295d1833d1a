//! Rattan (the crate `rattan`), another emulator in user space, to be measured in the same way.
//!
//! It makes its own namespaces: that of its left host, where it runs a command of ours, and its own between the two. The
//! right host is the namespace in which it is started.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns};
use psmc_net::packet::PacketPort;
use psmc_net::priority::prefer_this_thread_and_its_children;
use psmc_sim::link::{LinkConfig, Loss, Rate};
use psmc_testbed::netns::Namespace;

use super::AccuracyError;
use super::course::MAX_FRAME;
use super::stream::Ends;

/// What its left host runs: says which instance this is, and ends when we do.
const COMMAND: [&str; 3] = ["sh", "-c", "echo \"instance $RATTAN_ID\"; read _"];

/// As many packets as the lab's queue holds by default.
const QUEUE: &str = "{\"packet_limit\": 1000}";

/// A running instance. It removes what it has made when this is dropped.
#[derive(Debug)]
pub(super) struct Rattan {
    child: Child,
    /// Closing it ends the command on the left host, and the instance with it.
    command: Option<ChildStdin>,
    /// What it prints, which is little, is not read to its end; but it may print.
    _output: Option<BufReader<ChildStdout>>,
    right: Namespace,
}

/// The program, if it is on the PATH.
pub(super) fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join("rattan")).find(|program| program.is_file())
}

impl Rattan {
    /// Starts an instance that treats packets from left to right as `config` says, of which it knows rate, delay and
    /// random loss.
    pub(super) fn start(program: &Path, config: &LinkConfig) -> Result<(Self, Ends), AccuracyError> {
        let right = Namespace::new()?;
        let mut command = Command::new(program);
        command.arg("link").args(arguments(config)).arg("--").args(COMMAND);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawn = || {
            // The lab does this by itself, and where others are busy it decides who wins.
            prefer_this_thread_and_its_children();
            command.spawn()
        };
        // Not by the namespace, which would kill it: it has to clean up.
        let mut child = right.run(spawn).map_err(AccuracyError::Rattan)?;
        let command = child.stdin.take();
        let mut output = child.stdout.take().map(BufReader::new);
        let name = output.as_mut().and_then(instance).ok_or(AccuracyError::RattanSilent)?;
        let rattan = Self { child, command, _output: output, right };
        let ends = rattan.ends(&name)?;
        Ok((rattan, ends))
    }

    /// The number of its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn ends(&self, name: &str) -> Result<Ends, AccuracyError> {
        let left = File::open(format!("/run/netns/ns-left-{name}")).map_err(AccuracyError::Rattan)?;
        let open_left = || -> Result<PacketPort, AccuracyError> {
            setns(&left, CloneFlags::CLONE_NEWNET).map_err(|errno| AccuracyError::Rattan(errno.into()))?;
            Ok(PacketPort::open(&format!("vL1-L-{name}"), MAX_FRAME)?)
        };
        let sender = thread::scope(|scope| scope.spawn(open_left).join());
        let sender = sender.unwrap_or(Err(AccuracyError::RattanSilent))?;
        let receiver = self.right.run(|| PacketPort::open(&format!("vR1-R-{name}"), MAX_FRAME))?;
        Ok(Ends { sender, receiver })
    }
}

impl Drop for Rattan {
    fn drop(&mut self) {
        drop(self.command.take());
        // It ends by itself; an error would mean that it has already.
        let _ = self.child.wait();
    }
}

/// What its left host says, among its own warnings.
fn instance(output: &mut impl BufRead) -> Option<String> {
    let mut lines = output.lines().map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix("instance ").map(str::to_owned))
}

fn arguments(config: &LinkConfig) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: String| arguments.extend([format!("--uplink-{name}"), value]);
    if let Rate::Fixed(bits) = config.rate {
        add("bandwidth", format!("{bits}bps"));
        add("queue", "droptail".to_owned());
        add("queue-args", QUEUE.to_owned());
    }
    add("delay", format!("{}us", config.delay.as_micros()));
    if let Loss::Random(chance) = config.loss {
        add("loss", chance.get().to_string());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psmc_sim::link::Probability;

    use super::*;

    #[test]
    fn a_wire_has_a_delay_of_nothing() {
        assert_eq!(arguments(&LinkConfig::default()), ["--uplink-delay", "0us"]);
    }

    #[test]
    fn what_both_know_is_handed_over() {
        let config = LinkConfig {
            rate: Rate::Fixed(10_000_000),
            delay: Duration::from_millis(20),
            loss: Loss::Random(Probability::new(0.01).expect("a chance")),
            ..LinkConfig::default()
        };
        let joined = arguments(&config).join(" ");
        let expected = "--uplink-bandwidth 10000000bps --uplink-queue droptail --uplink-queue-args \
                        {\"packet_limit\": 1000} --uplink-delay 20000us --uplink-loss 0.01";
        assert_eq!(joined, expected);
    }
}
