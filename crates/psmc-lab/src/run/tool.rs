//! Programs of the system that set up hosts.

use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};

use psmc_testbed::netns::Namespace;

use super::RunError;

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
