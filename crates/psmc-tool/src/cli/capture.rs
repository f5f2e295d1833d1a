//! `psmc capture`: inner packets with the paths that they take, and the datagrams outside, for Wireshark.

mod filter;
mod outside;
mod pcapng;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use psmc_api::{CaptureSpec, CapturedPacket, Client, Request};
use psmc_service::daemon::{self, Signals, SystemError};
use psmcd::config::Name;

use super::args::Target;
use super::{CliError, connect, output};
use filter::Filter;
use outside::Ways;
use pcapng::Writer;

#[derive(Debug, Args)]
pub(super) struct CaptureArgs {
    /// Only what goes to this peer or comes from it
    #[arg(long, value_name = "PEER")]
    peer: Option<Name>,
    /// Only what takes this path
    #[arg(long, value_name = "NAME", requires = "peer")]
    path: Option<Name>,
    /// Only such packets: host ADDRESS, net NETWORK, port NUMBER, icmp, tcp, udp, joined by "and"
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: Filter,
    /// Also the tunnel's own datagrams, sealed as they are, with an interface for each path
    #[arg(long)]
    outside: bool,
    /// The file to write, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    write: PathBuf,
}

/// Why nothing is captured.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaptureError {
    #[error("a capture is no text: write it to a file with -w FILE, or into a pipe, such as `| tshark -r -`")]
    Terminal,
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot see what is outside: {0}; run it as root")]
    Outside(#[source] io::Error),
    #[error(transparent)]
    Signals(#[from] SystemError),
}

/// How often the daemon is asked for what has passed.
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(args: CaptureArgs, target: &Target) -> Result<(), CliError> {
    let mut client = connect(target)?;
    let failed = |source| CaptureError::Write { path: args.write.clone(), source };
    let mut writer = Writer::new(open(&args.write)?).map_err(failed)?;
    let (speaker, interrupted) = mpsc::channel();
    thread::spawn(move || drop(speaker.send(wait_for_interrupt())));
    let [peer, path] = [args.peer, args.path].map(|name| name.map(|name| name.to_string()));
    let spec = CaptureSpec { peer, path, packets: args.filter.packets };
    client.order(&Request::CaptureStart(spec.clone()))?;
    let mut outside =
        if args.outside { Some(Outside::watch().map_err(CaptureError::Outside)?) } else { None };
    let (mut packets, mut dropped, mut is_over) = (0, 0, false);
    while !is_over {
        is_over = match interrupted.recv_timeout(INTERVAL) {
            Ok(outcome) => outcome.map_err(CaptureError::from).map(|()| true)?,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let mut captured = client.captured()?;
        if let Some(outside) = &mut outside {
            outside.follow(&mut client, &spec)?;
            captured.packets.extend(outside.come.try_iter());
            captured.packets.sort_by_key(|packet| packet.unix_ns);
        }
        packets += captured.packets.len();
        dropped += captured.dropped;
        match captured
            .packets
            .iter()
            .try_for_each(|packet| writer.packet(packet))
            .and_then(|()| writer.flush())
        {
            Ok(()) => {}
            // Whoever reads has what he wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(failed(error).into()),
        }
    }
    client.order(&Request::CaptureStop)?;
    dropped += outside.map_or(0, |outside| outside.dropped.load(Ordering::Relaxed));
    if dropped > 0 {
        output::warn(&format!(
            "{dropped} packets came too fast, and are missing; narrow it down with --filter"
        ));
    }
    // If standard error is gone there is nobody left to tell.
    drop(writeln!(io::stderr(), "{packets} packets"));
    Ok(())
}

/// What is seen outside.
struct Outside {
    ways: Ways,
    /// When the paths were last asked for.
    asked: Option<Instant>,
    come: Receiver<CapturedPacket>,
    dropped: Arc<AtomicU64>,
}

/// Datagrams that wait for the next look.
const MAX_WAITING: usize = 1 << 14;

/// Paths come and go: how often they are asked for.
const PATHS_INTERVAL: Duration = Duration::from_secs(1);

impl Outside {
    fn watch() -> io::Result<Self> {
        let (sender, come) = mpsc::sync_channel(MAX_WAITING);
        let (ways, dropped) = (Ways::default(), Arc::new(AtomicU64::new(0)));
        outside::watch(ways.clone(), sender, dropped.clone())?;
        Ok(Self { ways, asked: None, come, dropped })
    }

    /// Sees the datagrams of the paths that there are now.
    fn follow(&mut self, client: &mut Client, spec: &CaptureSpec) -> Result<(), CliError> {
        if self.asked.is_some_and(|asked| asked.elapsed() < PATHS_INTERVAL) {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        self.ways.set(&client.paths(None)?, |peer, path| is(&spec.peer, peer) && is(&spec.path, path));
        Ok(())
    }
}

fn open(path: &Path) -> Result<Box<dyn Write>, CaptureError> {
    if path == Path::new("-") {
        let out = io::stdout();
        return if out.is_terminal() {
            Err(CaptureError::Terminal)
        } else {
            Ok(Box::new(BufWriter::new(out)))
        };
    }
    let file = File::create(path).map_err(|source| CaptureError::Write { path: path.to_owned(), source })?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Returns when somebody wants this to end.
fn wait_for_interrupt() -> Result<(), SystemError> {
    daemon::run(async {
        Signals::listen()?.next().await;
        Ok(())
    })
}
