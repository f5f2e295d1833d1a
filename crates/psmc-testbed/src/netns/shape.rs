//! Links that are as slow as we like.

use std::process::Command;
use std::time::Duration;

use super::{Namespace, NetnsError};

/// How much a shaped link queues before it drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// As much as it sends in this time; at least a microsecond.
    Delay(Duration),
    /// This many bytes.
    Bytes(u32),
}

impl Namespace {
    /// Limits what leaves through the interface called `name` to `bits_per_second` by a token bucket of
    /// `burst_bytes`, replacing an earlier limit.
    ///
    /// `rtnetlink` knows no token bucket filter, so this runs `tc` of iproute2.
    ///
    /// # Errors
    /// [`NetnsError::Tool`] without `tc`, [`NetnsError::ToolFailed`] when it fails: most often, that there is no
    /// such interface or that the kernel lacks `sch_tbf`.
    pub fn shape(
        &self,
        name: &str,
        bits_per_second: u64,
        burst_bytes: u32,
        queue: Queue,
    ) -> Result<(), NetnsError> {
        let mut tc = Command::new("tc");
        tc.args(["qdisc", "replace", "dev", name, "root", "tbf"]);
        tc.args(["rate", &format!("{bits_per_second}bit"), "burst", &format!("{burst_bytes}b")]);
        match queue {
            Queue::Delay(delay) => tc.args(["latency", &format!("{}us", delay.as_micros().max(1))]),
            Queue::Bytes(bytes) => tc.args(["limit", &format!("{bytes}b")]),
        };
        self.run_tool(&mut tc)
    }

    /// Has this host lose all UDP datagrams to `port`, those that come as well as those that it sends, without a word to
    /// anybody. All else goes on, connections of TCP to the same port too. That lasts as long as the namespace.
    ///
    /// Runs `ip` of iproute2: rules of routing that come before the local addresses.
    ///
    /// # Errors
    /// As [`shape`](Self::shape): a kernel without rules of routing cannot do it.
    pub fn swallow_udp(&self, port: u16) -> Result<(), NetnsError> {
        let port = port.to_string();
        for rule in [
            &["add", "pref", "2", "lookup", "local"] as &[&str],
            &["del", "pref", "0"],
            &["add", "pref", "1", "ipproto", "udp", "dport", &port, "blackhole"],
        ] {
            self.run_tool(Command::new("ip").arg("rule").args(rule))?;
        }
        Ok(())
    }

    fn run_tool(&self, tool: &mut Command) -> Result<(), NetnsError> {
        let outcome = self.run(|| tool.output());
        let command = format!("{tool:?}").replace('"', "");
        let output = match outcome {
            Ok(output) => output,
            Err(source) => return Err(NetnsError::Tool { command, source }),
        };
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(NetnsError::ToolFailed { command, message })
    }
}
