//! `psmc-lab profile`

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::{CliError, output};
use crate::bench::say;
use crate::device::probe::{Calibration, ProbeOptions, Row, SIZES, calibrate, plots, probe, table};
use crate::report::{ReportError, write_json};
use crate::scenario::value::LINK_RATE;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A router whose ports have networks of their own, of which this machine has an address at each port:
  psmc-lab profile --ports eth1,eth2,eth3,eth4 -o box.toml
What the ports of this machine add, with cables in the place of the device, and then without that:
  psmc-lab profile --calibrate --ports eth1,eth2 -o cables.json
  psmc-lab profile --ports eth1,eth2 --calibration cables.json -o box.toml
In a scenario, between links:
  [[router]]
  host = \"box\"
  profile = \"box.toml\"")]
pub(super) struct Args {
    /// The interfaces that lead to ports of the device, at least two. If they have IPv4 addresses it is a router, otherwise a
    /// switch
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    ports: Vec<String>,
    /// Write the profile to this file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The addresses of the router at these ports; the first one of each network if left out
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    gateways: Vec<Ipv4Addr>,
    /// How fast the ports of the device are, such as 100mbit; as the drivers say if left out
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<u64>,
    /// Bytes on the line besides an IP packet: 18 for the header and checksum of Ethernet, 38 with preamble and gap
    #[arg(long, value_name = "BYTES", default_value_t = 18, value_parser = framing)]
    framing: usize,
    /// Lengths of packets, from the IP header on
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size, default_values_t = SIZES)]
    sizes: Vec<usize>,
    /// What the device is called; like the file if left out
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Measure what the machine adds, with cables in the place of the device
    #[arg(long, conflicts_with_all = ["rate", "framing", "name", "calibration", "resume", "json", "plots"])]
    calibrate: bool,
    /// What the machine adds, as --calibrate has written it; otherwise that is measured on virtual Ethernet
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Go on where an earlier run was interrupted
    #[arg(long)]
    resume: bool,
    /// Write all that was seen as JSON to this file; - is standard output, in the place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw delays by length, and losses under load, as SVG files in this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Show nothing while it measures
    #[arg(long, short)]
    quiet: bool,
}

fn rate(text: &str) -> Result<u64, String> {
    LINK_RATE.read(text).map_err(|error| error.to_string())
}

fn framing(text: &str) -> Result<usize, String> {
    bounded(text, 0, 1000)
}

fn size(text: &str) -> Result<usize, String> {
    bounded(text, 46, 65_535)
}

fn bounded(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("not from {least} to {most}"))
}

/// All that was seen.
#[derive(Debug, Serialize)]
struct Report<'a> {
    calibration: &'a Calibration,
    trials: &'a [Row],
    profile: String,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut note = |what: &str| {
        if !args.quiet {
            say(what);
        }
    };
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if args.calibrate {
        let calibration = calibrate(&args.ports, &args.gateways, &sizes, &mut note).map_err(CliError::of)?;
        write_json(&calibration, &args.output).map_err(CliError::of)?;
        output::print(&format!("{}\n", calibration.summary()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stem = args.output.file_stem().map_or_else(|| "device".into(), |stem| stem.to_string_lossy());
    let options = ProbeOptions {
        ports: args.ports.clone(),
        gateways: args.gateways.clone(),
        rate: args.rate,
        framing: args.framing,
        sizes,
        name: args.name.clone().unwrap_or_else(|| stem.into_owned()),
        journal: Some(args.journal()?),
        calibration: args.calibration.as_deref().map(read_calibration).transpose()?,
    };
    let probed = probe(&options, &mut note).map_err(CliError::of)?;
    let text = probed.profile.to_toml();
    let failed = |source| CliError::of(ReportError::Write { path: args.output.clone(), source });
    fs::write(&args.output, &text).map_err(failed)?;
    if let Some(directory) = &args.plots {
        plots(&probed, directory).map_err(CliError::of)?;
    }
    if let Some(path) = &args.json {
        let report = Report { calibration: &probed.calibration, trials: &probed.trials, profile: text };
        write_json(&report, path).map_err(CliError::of)?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        output::print(&table(&probed))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Beside the profile. What is there of an earlier run is of use only if the user says so.
    fn journal(&self) -> Result<PathBuf, CliError> {
        let mut name = self.output.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        if !self.resume && path.exists() {
            let failed = |source| CliError::of(ReportError::Write { path: path.clone(), source });
            fs::remove_file(&path).map_err(failed)?;
        }
        Ok(path)
    }
}

/// Why a calibration can't be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}, which `psmc-lab profile --calibrate` should have written", path.display())]
struct CalibrationError {
    path: PathBuf,
    source: std::io::Error,
}

fn read_calibration(path: &Path) -> Result<Calibration, CliError> {
    let read = fs::read(path).and_then(|text| Ok(serde_json::from_slice::<Calibration>(&text)?));
    read.map_err(|source| CliError::of(CalibrationError { path: path.to_owned(), source }))
}
