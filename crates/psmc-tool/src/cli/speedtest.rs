//! `psmc speedtest`: what each path to a peer carries, and what all carry together.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use ipnet::IpNet;
use psmc_api::{Client, FlowPin, PathState, PathStatus, Request, Status};
use psmcd::config::{Name, ValueError};
use psmcd::speedtest::{self, Amount, Direction, MAX_BYTES, MAX_TIME, PATIENCE, PORT, TestError};
use serde::Serialize;

use super::args::{Pause, Target};
use super::units::rate_mbps;
use super::{CliError, connect, output};

#[derive(Debug, Args)]
pub(super) struct SpeedtestArgs {
    /// The peer
    peer: Name,
    /// How long each measurement may take, up to 30s; there are two of each path, and two of all together
    #[arg(long, default_value = "5s", value_name = "TIME")]
    time: Pause,
    /// How much each measurement may carry, up to 10G
    #[arg(long, default_value = "500M", value_name = "BYTES")]
    bytes: Bytes,
    /// Measure only this path
    #[arg(long, value_name = "NAME")]
    path: Option<Name>,
    /// The peer's address in the tunnel, where the allowed_ips do not tell it
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Bytes, in powers of 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes(u64);

impl FromStr for Bytes {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (number, unit) = text.split_at(text.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
        let factor = match unit {
            "" => Some(1),
            "k" => Some(1000),
            "M" => Some(1_000_000),
            "G" => Some(1_000_000_000),
            _ => None,
        };
        let bytes = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
        let bytes = bytes.filter(|bytes| (1..=MAX_BYTES).contains(bytes));
        let wrong =
            || ValueError::new(format!("{text:?} is no number of bytes up to 10G"), "write 500M or 1G");
        bytes.map(Self).ok_or_else(wrong)
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpeedtestError {
    #[error("a measurement takes at most {} s: choose a shorter --time", MAX_TIME.as_secs())]
    TooLong,
    #[error("there is no peer `{0}`; `psmc status` lists those that there are")]
    NoPeer(Name),
    #[error("there is no path `{0}` that carries data; `psmc status` says why")]
    NoPath(Name),
    #[error("no path to {0} carries data; `psmc status` says why")]
    NoPaths(Name),
    #[error("the allowed_ips of {0} do not tell its address in the tunnel: give it with --address")]
    NoAddress(Name),
    #[error(
        "{peer} does not let its peers test: add `speedtest = true` to [site] in its file, and run `psmc reload` there"
    )]
    NotAllowed { peer: Name },
    #[error(
        "nothing answers at {address} in the tunnel: is that the address of {peer}? Give it with --address"
    )]
    Unreachable { peer: Name, address: SocketAddr, source: io::Error },
    #[error("path {path} failed during its test")]
    PathFailed { path: String },
    #[error(transparent)]
    Test(#[from] TestError),
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    peer: String,
    measurements: Vec<Measurement>,
}

/// The same of one path, or of all together.
#[derive(Debug, Serialize)]
struct Measurement {
    /// Its name; absent for all together.
    path: Option<String>,
    up: Measured,
    down: Measured,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Measured {
    bytes: u64,
    seconds: f64,
    mbps: f64,
}

impl From<Amount> for Measured {
    fn from(amount: Amount) -> Self {
        Self { bytes: amount.bytes, seconds: amount.microseconds as f64 / 1e6, mbps: amount.mbps() }
    }
}

pub(super) fn run(args: &SpeedtestArgs, target: &Target) -> Result<(), CliError> {
    if args.time.0 > MAX_TIME {
        return Err(SpeedtestError::TooLong.into());
    }
    let mut client = connect(target)?;
    let status = client.status()?;
    let paths = paths(&status, args)?;
    let mut tester = Tester { args, address: address(&status, args)?, client: &mut client };
    let mut measurements = Vec::new();
    for path in &paths {
        measurements.push(tester.measure(Some(path))?);
    }
    if args.path.is_none() && paths.len() > 1 {
        measurements.push(tester.measure(None)?);
    }
    let report = Report { peer: args.peer.to_string(), measurements };
    Ok(output::print(&if args.json { output::json(&report)? } else { table(&report) })?)
}

/// The paths to be measured.
fn paths(status: &Status, args: &SpeedtestArgs) -> Result<Vec<PathStatus>, SpeedtestError> {
    let peer = status.peers.iter().find(|peer| peer.name == args.peer.as_str());
    let peer = peer.ok_or_else(|| SpeedtestError::NoPeer(args.peer.clone()))?;
    let is_wanted = |path: &&PathStatus| args.path.as_ref().is_none_or(|name| name.as_str() == path.name);
    let paths: Vec<_> =
        peer.paths.iter().filter(is_wanted).filter(|path| carries(path.state)).cloned().collect();
    match (&args.path, paths.is_empty()) {
        (_, false) => Ok(paths),
        (Some(path), true) => Err(SpeedtestError::NoPath(path.clone())),
        (None, true) => Err(SpeedtestError::NoPaths(args.peer.clone())),
    }
}

fn carries(state: PathState) -> bool {
    matches!(state, PathState::Active | PathState::Standby)
}

/// Where the peer is in the tunnel: what `--address` says, else the first of its networks that is one host, else the first host of
/// one that this site is in: there `psmc init` puts the site that invites.
fn address(status: &Status, args: &SpeedtestArgs) -> Result<SocketAddr, SpeedtestError> {
    let peer = status.peers.iter().find(|peer| peer.name == args.peer.as_str());
    let networks =
        || peer.iter().flat_map(|peer| &peer.allowed_ips).filter_map(|net| net.parse::<IpNet>().ok());
    let own: Vec<IpAddr> = status
        .site
        .addresses
        .iter()
        .filter_map(|own| own.parse::<IpNet>().ok())
        .map(|own| own.addr())
        .collect();
    let host = || networks().find(|net| net.prefix_len() == net.max_prefix_len()).map(|net| net.addr());
    let around = || {
        networks()
            .find(|net| own.iter().any(|own| net.contains(own)))?
            .hosts()
            .find(|host| !own.contains(host))
    };
    let address = args.address.or_else(host).or_else(around);
    let address = address.ok_or_else(|| SpeedtestError::NoAddress(args.peer.clone()))?;
    Ok(SocketAddr::new(address, PORT))
}

/// Measures one thing after the other.
struct Tester<'a> {
    args: &'a SpeedtestArgs,
    address: SocketAddr,
    client: &'a mut Client,
}

impl Tester<'_> {
    /// Both directions, on a path or wherever the scheduler puts it.
    fn measure(&mut self, path: Option<&PathStatus>) -> Result<Measurement, CliError> {
        let up = self.test(path, Direction::Up)?;
        let down = self.test(path, Direction::Down)?;
        if let Some(path) = path {
            let peers = self.client.paths(Some(self.args.peer.as_str()))?;
            let mut now = peers.iter().flat_map(|peer| &peer.paths).filter(|now| now.id == path.id);
            // Others have carried it since.
            if !now.any(|now| carries(now.state)) {
                return Err(SpeedtestError::PathFailed { path: path.name.clone() }.into());
            }
        }
        Ok(Measurement { path: path.map(|path| path.name.clone()), up: up.into(), down: down.into() })
    }

    fn test(&mut self, path: Option<&PathStatus>, direction: Direction) -> Result<Amount, CliError> {
        let args = self.args;
        let stream = self.connect()?;
        if let Some(path) = path {
            let ends = stream.local_addr().and_then(|source| Ok((source, stream.peer_addr()?)));
            let (source, destination) = ends.map_err(|error| SpeedtestError::Test(error.into()))?;
            let timeout_ms = millis(args.time.0 + 3 * PATIENCE);
            let (peer, path) = (args.peer.to_string(), path.name.clone());
            self.client.order(&Request::FlowPin(FlowPin { peer, path, source, destination, timeout_ms }))?;
        }
        let request = speedtest::Request {
            direction,
            path: path.and_then(|path| u16::try_from(path.id).ok()),
            milliseconds: millis(args.time.0),
            bytes: args.bytes.0,
        };
        Ok(speedtest::test(stream, &request).map_err(SpeedtestError::from)?)
    }

    fn connect(&self) -> Result<TcpStream, SpeedtestError> {
        let (peer, address) = (self.args.peer.clone(), self.address);
        TcpStream::connect_timeout(&address, PATIENCE).map_err(|source| {
            if source.kind() == io::ErrorKind::ConnectionRefused {
                SpeedtestError::NotAllowed { peer }
            } else {
                SpeedtestError::Unreachable { peer, address, source }
            }
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn table(report: &Report) -> String {
    let row = |measurement: &Measurement| {
        let name = measurement.path.as_deref().unwrap_or("together");
        [name.to_owned(), rate_mbps(measurement.up.mbps), rate_mbps(measurement.down.mbps)]
    };
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["PATH", "UP", "DOWN"])
        .add_rows(report.measurements.iter().map(row));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::watch::testing;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SpeedtestArgs,
    }

    #[test]
    fn a_number_of_bytes_has_a_unit_and_an_end() {
        assert_eq!("500M".parse(), Ok(Bytes(500_000_000)));
        assert_eq!(["7", "7k", "10G"].map(|text| text.parse::<Bytes>().unwrap().0), [7, 7000, MAX_BYTES]);
        for wrong in ["", "M", "0", "11G", "5T", "-5M", "0.5G", "99999999999999999999G"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_peer_is_found_by_its_networks() {
        let args = |more: &[&str]| Line::parse_from([&["speedtest", "hq"], more].concat()).args;
        for (allowed_ips, more, expected) in [
            (&["192.168.0.0/16", "10.77.0.1/32"][..], &[][..], Some("10.77.0.1")),
            (&["10.77.0.0/24", "fd77::/64"], &[], Some("10.77.0.1")),
            (&["192.168.0.0/16"], &[], None),
            (&["10.77.0.1/32"], &["--address", "10.77.0.9"], Some("10.77.0.9")),
        ] {
            let mut status = testing::status(vec![testing::peer("hq", Vec::new())]);
            status.site.addresses = vec!["10.77.0.2/24".to_owned()];
            status.peers[0].allowed_ips = allowed_ips.iter().map(ToString::to_string).collect();
            let found = address(&status, &args(more)).ok().map(|found| found.ip().to_string());
            assert_eq!(found.as_deref(), expected, "{allowed_ips:?}");
        }
    }
}
