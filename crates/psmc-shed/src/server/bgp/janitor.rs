//! A process of its own that withdraws what an agent has left that was killed.
//!
//! It waits until its standard input ends, which is when the agent does, however that happens; then it withdraws what is written
//! down.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{BgpError, read, withdraw, write};
use crate::config::BgpDaemon;

/// What a janitor is told on its command line.
#[derive(Clone, Debug, clap::Args)]
pub struct JanitorArgs {
    /// What is written down.
    state: PathBuf,
    /// Where GoBGP's API is.
    #[arg(long, conflicts_with = "exabgp", required_unless_present = "exabgp")]
    gobgp: Option<SocketAddr>,
    /// ExaBGP's pipe.
    #[arg(long)]
    exabgp: Option<PathBuf>,
}

/// A janitor that waits. When this is dropped, it looks whether there is something to do.
#[derive(Debug)]
pub(super) struct Janitor(Child);

impl Janitor {
    /// Starts one; without it, rules that a killed agent leaves are withdrawn when the next one starts.
    pub(super) fn start(daemon: &BgpDaemon, state: &Path) -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        let mut command = Command::new(program);
        command.arg("janitor").arg(state);
        match daemon {
            BgpDaemon::GoBgp(address) => command.arg("--gobgp").arg(address.to_string()),
            BgpDaemon::ExaBgp(pipe) => command.arg("--exabgp").arg(pipe),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().map(Self).ok()
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It takes as long as the daemon, which has withdrawn everything already.
        let _ = self.0.wait();
    }
}

/// Waits for the agent's end, and withdraws what it has left.
///
/// # Errors
/// [`BgpError`]; the rest is left for the next agent.
pub fn run(args: &JanitorArgs) -> Result<(), BgpError> {
    // Nothing comes; however it ends, the agent is gone.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let daemon = match (args.gobgp, &args.exabgp) {
        (Some(address), _) => BgpDaemon::GoBgp(address),
        (None, Some(pipe)) => BgpDaemon::ExaBgp(pipe.clone()),
        (None, None) => return Ok(()),
    };
    let left = read(&args.state).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    left.iter().try_for_each(|rule| withdraw(&daemon, rule))?;
    write(&args.state, &[])
}
