//! `psmc trace`: the way of each path to a peer: uplink, routers, relays.

use std::fmt::{self, Write};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use clap::Args;
use psmc_api::{PathPing, PathState, PathStatus};
use psmc_net::keys::PublicKey;
use psmc_net::trace::{End, Hop, Trace, trace};
use psmcd::config::Name;
use serde::Serialize;

use super::args::Target;
use super::units::duration_ms;
use super::{CliError, connect, output};

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// The peer
    peer: Name,
    /// Only this path
    #[arg(long, value_name = "NAME")]
    path: Option<Name>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Why nothing was traced.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraceError {
    #[error("there is no peer `{0}`; `psmc status` lists those that there are")]
    NoPeer(Name),
    #[error("there is no such path to {0}; `psmc status` lists those that there are")]
    NoPaths(Name),
}

/// How long the paths themselves are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The ways of all paths to a peer.
#[derive(Debug, Serialize)]
struct Report {
    peer: String,
    paths: Vec<Way>,
}

/// The way of a path.
#[derive(Debug, Serialize)]
struct Way {
    path: String,
    state: PathState,
    interface: Option<String>,
    local: Option<String>,
    /// Where its datagrams go: to the peer, or to the first relay.
    remote: Option<String>,
    relays: Vec<String>,
    hops: Vec<Place>,
    end: WayEnd,
    /// Why it was not traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The round trip of the path as a whole, through its relays; absent if the peer has not answered on it.
    rtt_ms: Option<f64>,
}

/// Who has answered at a distance; nobody if `address` is absent.
#[derive(Debug, Serialize)]
struct Place {
    distance: u8,
    address: Option<IpAddr>,
    rtt_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum WayEnd {
    Arrived,
    Unreachable,
    Silent,
    NotTraced,
}

pub(super) fn run(args: &TraceArgs, target: &Target) -> Result<(), CliError> {
    let mut client = connect(target)?;
    let status = client.status()?;
    if let Ok(key) = status.site.public_key.parse::<PublicKey>() {
        // Else it would be the tunnel that is traced, where that is the way to everywhere.
        psmc_net::mark::set(psmcd::daemon::mark_of(key));
    }
    let peer = status.peers.into_iter().find(|peer| peer.name == args.peer.as_str());
    let peer = peer.ok_or_else(|| TraceError::NoPeer(args.peer.clone()))?;
    let is_wanted = |path: &PathStatus| args.path.as_ref().is_none_or(|name| name.as_str() == path.name);
    let paths: Vec<_> = peer.paths.into_iter().filter(is_wanted).collect();
    if paths.is_empty() {
        return Err(TraceError::NoPaths(args.peer.clone()).into());
    }
    let tracing: Vec<_> = paths.into_iter().map(|path| thread::spawn(move || way(path))).collect();
    let pings = client.ping(args.peer.as_str(), PATIENCE)?;
    // A thread that has panicked has said so.
    let ways = tracing.into_iter().filter_map(|tracing| tracing.join().ok());
    let paths = ways.map(|way| Way { rtt_ms: round_trip(&pings, &way.path), ..way }).collect();
    let report = Report { peer: peer.name, paths };
    Ok(output::print(&if args.json { output::json(&report)? } else { report.to_string() })?)
}

fn round_trip(pings: &[PathPing], path: &str) -> Option<f64> {
    pings.iter().find(|ping| ping.path == path)?.rtt_ms
}

/// Traces a path to where its datagrams go.
fn way(path: PathStatus) -> Way {
    let remote = path.remote.as_deref().and_then(|remote| remote.parse::<SocketAddr>().ok());
    let local = path.local.as_deref().and_then(|local| local.parse().ok());
    let traced = match remote {
        Some(remote) => trace(path.interface.as_deref(), local, remote.ip()),
        None => Err(io::Error::other("it has no address yet")),
    };
    let (Trace { hops, end }, error) = match traced {
        Ok(traced) => (traced, None),
        Err(error) => (Trace { hops: Vec::new(), end: End::Silent }, Some(error.to_string())),
    };
    let end = match (end, &error) {
        (_, Some(_)) => WayEnd::NotTraced,
        (End::Arrived, None) => WayEnd::Arrived,
        (End::Unreachable, None) => WayEnd::Unreachable,
        (End::Silent, None) => WayEnd::Silent,
    };
    let PathStatus { name, state, interface, local, remote, relays, .. } = path;
    let hops = hops.into_iter().map(Place::from).collect();
    Way { path: name, state, interface, local, remote, relays, hops, end, error, rtt_ms: None }
}

impl From<Hop> for Place {
    fn from(Hop { distance, answer }: Hop) -> Self {
        let (address, rtt) = answer.unzip();
        Self { distance, address, rtt_ms: rtt.map(|rtt| rtt.as_secs_f64() * 1e3) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, way) in self.paths.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            way.write(&self.peer, f)?;
        }
        Ok(())
    }
}

impl Way {
    fn write(&self, peer: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
        write!(f, "path {} ({}): ", self.path, self.state)?;
        if let Some(interface) = &self.interface {
            write!(f, "{interface}, ")?;
        }
        writeln!(f, "{} to {}", known(&self.local), known(&self.remote))?;
        for hop in &self.hops {
            let rtt = hop.rtt_ms.map(duration_ms).unwrap_or_default();
            let address = hop.address.map_or_else(|| "*".to_owned(), |address| address.to_string());
            writeln!(f, "{:4}  {address:<40} {rtt:>9}", hop.distance)?;
        }
        match (self.end, &self.error) {
            (WayEnd::Arrived, _) | (WayEnd::NotTraced, None) => {}
            (WayEnd::Unreachable, _) => writeln!(f, "      the last one says that it goes no further")?,
            (WayEnd::Silent, _) => {
                writeln!(f, "      nobody answers beyond; a firewall may drop what is sent or said")?
            }
            (WayEnd::NotTraced, Some(error)) => writeln!(f, "      not traced: {error}")?,
        }
        for relay in &self.relays {
            writeln!(f, "      relay {relay}")?;
        }
        let rtt = self.rtt_ms.map_or_else(|| "no answer".to_owned(), duration_ms);
        writeln!(f, "      {:<40} {rtt:>9}", format!("{peer}, on the path itself"))
    }
}
