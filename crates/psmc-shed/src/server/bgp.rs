//! BGP daemons of the operator's own, which announce rules of Flowspec for us: GoBGP by its command `gobgp`, ExaBGP by the named
//! pipe of its API.
//!
//! Neither forgets a rule by itself. So what is announced is written down before, and withdrawn when the agent ends, when it starts
//! anew, and by a janitor, a process of its own, when it was killed.

mod exabgp;
mod gobgp;
mod janitor;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_toml::Name;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::flowspec::FlowRule;
use crate::config::BgpDaemon;
use janitor::Janitor;

pub use janitor::{JanitorArgs, run as run_janitor};

/// How often all is said again: a daemon that was started anew has forgotten everything.
const AGAIN: Duration = Duration::from_secs(10);

/// After how long what has failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How long a daemon may take to withdraw everything at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why a daemon announces nothing.
#[derive(Debug, Error)]
pub enum BgpError {
    /// The command is not there.
    #[error("cannot run `gobgp`: install gobgpd")]
    NoTool(#[source] io::Error),
    /// It refuses.
    #[error("`gobgp` says: {0}")]
    GoBgp(String),
    /// The daemon speaks another version of the API than the command.
    #[error(
        "`gobgp` ({command}) does not know the API of the gobgpd at {address}: install those of one version"
    )]
    OtherVersion {
        /// The version of the command.
        command: String,
        /// Where the daemon is.
        address: SocketAddr,
    },
    /// Nobody reads the pipe.
    #[error("cannot write to {}: is ExaBGP running, with this pipe?", pipe.display())]
    Pipe {
        /// The pipe.
        pipe: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// ExaBGP refuses.
    #[error("ExaBGP does not understand: {0}")]
    ExaBgp(String),
    /// It cannot be written down what is announced, without which nothing is.
    #[error("cannot write {}", file.display())]
    State {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How it goes with a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Whether it announces what is wanted.
    pub is_current: bool,
    /// Which program was found.
    pub found: Option<String>,
    /// Why it does not.
    pub error: Option<String>,
}

/// The file in which it is written down what a daemon was told.
pub(crate) fn state_file(base: &Path, upstream: &Name) -> PathBuf {
    base.with_extension(format!("{upstream}.json"))
}

/// Has one daemon announce what is wanted. When this is dropped, it withdraws everything.
#[derive(Debug)]
pub struct Announcer {
    wanted: watch::Sender<Vec<FlowRule>>,
}

impl Announcer {
    /// Of this daemon; the future does the work, and calls `told` with how it goes.
    pub fn new(
        daemon: BgpDaemon,
        state: PathBuf,
        told: impl Fn(Told) + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (wanted, to_do) = watch::channel(Vec::new());
        (Self { wanted }, work(Books { daemon, state, announced: Vec::new(), janitor: None }, to_do, told))
    }

    /// Says what is wanted from here on.
    pub fn announce(&self, rules: Vec<FlowRule>) {
        self.wanted.send_if_modified(|wanted| {
            let is_news = *wanted != rules;
            *wanted = rules;
            is_news
        });
    }
}

/// Waits for what announcers leave behind, but not for ever.
pub async fn farewell(work: JoinHandle<()>) {
    // Who takes longer is cleaned up behind by the janitor.
    let _ = timeout(FAREWELL, work).await;
}

async fn work(mut books: Books, mut to_do: watch::Receiver<Vec<FlowRule>>, told: impl Fn(Told) + Send) {
    // An agent that was killed may have left rules.
    books.announced = read(&books.state).unwrap_or_default();
    let mut is_last = false;
    loop {
        let wanted = if is_last { Vec::new() } else { to_do.borrow_and_update().clone() };
        let worked = spawn_blocking(move || {
            let outcome = books.bring_to(&wanted);
            (books, outcome)
        });
        // A panic was reported where it happened.
        let Ok((kept, outcome)) = worked.await else { return };
        books = kept;
        let (found, error) = match outcome {
            Ok(found) => (found, None),
            Err(error) => (None, Some(crate::error_chain(&error))),
        };
        let pause = if error.is_none() { AGAIN } else { RETRY };
        told(Told { is_current: error.is_none(), found, error });
        if is_last {
            return;
        }
        is_last = matches!(timeout(pause, to_do.changed()).await, Ok(Err(_)));
    }
}

/// What a daemon was told.
#[derive(Debug)]
struct Books {
    daemon: BgpDaemon,
    state: PathBuf,
    /// What it may announce at present.
    announced: Vec<FlowRule>,
    janitor: Option<Janitor>,
}

impl Books {
    /// Has the daemon announce this, and nothing else of ours. Says which program it found.
    fn bring_to(&mut self, wanted: &[FlowRule]) -> Result<Option<String>, BgpError> {
        if self.announced.is_empty() && wanted.is_empty() {
            return found(&self.daemon);
        }
        let over = |rule: &&FlowRule| !wanted.iter().any(|wanted| wanted.is_of_same_packets(rule));
        let gone: Vec<FlowRule> = self.announced.iter().filter(over).cloned().collect();
        // Written down before: whoever finds it withdraws more than there is, at worst.
        let both: Vec<FlowRule> = wanted.iter().chain(&gone).cloned().collect();
        write(&self.state, &both)?;
        self.announced = both;
        if self.janitor.is_none() {
            self.janitor = Janitor::start(&self.daemon, &self.state);
        }
        let found = found(&self.daemon)?;
        for rule in &gone {
            withdraw(&self.daemon, rule)?;
        }
        for rule in wanted {
            announce(&self.daemon, rule)?;
        }
        write(&self.state, wanted)?;
        self.announced = wanted.to_vec();
        Ok(found)
    }
}

fn found(daemon: &BgpDaemon) -> Result<Option<String>, BgpError> {
    match daemon {
        BgpDaemon::GoBgp(address) => gobgp::found(*address).map(Some),
        BgpDaemon::ExaBgp(pipe) => exabgp::found(pipe).map(|()| None),
    }
}

fn announce(daemon: &BgpDaemon, rule: &FlowRule) -> Result<(), BgpError> {
    match daemon {
        BgpDaemon::GoBgp(address) => gobgp::tell(*address, "add", rule),
        BgpDaemon::ExaBgp(pipe) => exabgp::tell(pipe, "announce", rule),
    }
}

fn withdraw(daemon: &BgpDaemon, rule: &FlowRule) -> Result<(), BgpError> {
    match daemon {
        BgpDaemon::GoBgp(address) => gobgp::tell(*address, "del", rule),
        BgpDaemon::ExaBgp(pipe) => exabgp::tell(pipe, "withdraw", rule),
    }
}

/// What is written down; nothing if there is no file, or none of ours.
fn read(state: &Path) -> Option<Vec<FlowRule>> {
    serde_json::from_slice(&fs::read(state).ok()?).ok()
}

fn write(state: &Path, rules: &[FlowRule]) -> Result<(), BgpError> {
    let text = serde_json::to_vec(rules).expect("rules have no maps and no errors of their own");
    let beside = state.with_extension("new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, state));
    written.map_err(|source| BgpError::State { file: state.to_owned(), source })
}
