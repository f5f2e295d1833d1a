//! `psmc-lab networks`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use clap::ArgGroup;

use super::{CliError, output};
use crate::bench::{Bench, BenchArgs};
use crate::networks::{Drive, Flow, Inner, Plan, Record, Report, Source};
use crate::report::write_json;

#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("source").required(true),
    after_help = "\
A thousand networks, and how another build does on the same ones:
  psmc-lab networks --seeds 1000..1999 --json before.json
  psmc-lab networks --seeds 1000..1999 --against before.json
One of them with real packets:
  psmc-lab networks --seeds 1234 --real
The scenarios of one, for psmc-lab run and psmc-lab sim:
  psmc-lab networks --seeds 1234 --print-scenario"
)]
pub(super) struct Args {
    /// Generate random networks, one for each of these seeds: 1000..1999 with both ends, single ones, several with commas
    #[arg(long, value_name = "FIRST..LAST", group = "source")]
    seeds: Option<Numbers>,
    /// Generate them from a wider range: one to eight links, outages, changes of rate, losses in bursts, packets out of order
    #[arg(long, requires = "seeds")]
    wider: bool,
    /// Take networks whose rates were recorded: a CSV table, one row per second, with the columns `window` and one for
    /// each network, in Mbit/s
    #[arg(long, value_name = "FILE", group = "source", requires = "links")]
    drive: Option<PathBuf>,
    /// Over which networks of the record the tunnel goes
    #[arg(long, value_name = "NAMES", requires = "drive", value_delimiter = ',')]
    links: Vec<String>,
    /// Which windows of the record; all that are long enough if left out
    #[arg(long, value_name = "FIRST..LAST", requires = "drive")]
    windows: Option<Numbers>,
    /// A UDP flood instead of a TCP flow, so that only the tunnel limits the goodput
    #[arg(long, conflicts_with = "inner")]
    flood: bool,
    /// The congestion control of the flow
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    inner: Inner,
    /// End the connection of the flow at the sites, and measure a flood beside it
    #[arg(long, conflicts_with = "flood")]
    split: bool,
    /// How long each flow lasts; 10, or 20 of what was recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Run them in real time, with real programs and packets, one after the other, instead of simulating them
    #[arg(long)]
    real: bool,
    /// Write the figures of each network as JSON to this file; - is standard output, in the place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with what --json has written of the same networks
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Print the tables as Markdown
    #[arg(long)]
    markdown: bool,
    /// Plot the distribution of the tunnel's goodput into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    bench: BenchArgs,
}

/// Seeds or windows, each once.
#[derive(Clone, Debug, PartialEq)]
struct Numbers(Vec<u32>);

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let plan = args.plan()?;
    let other = args.against.as_deref().map(|path| plan.record(Vec::new(), args.real).load_like(path));
    let mut other = other.transpose().map_err(CliError::of)?;
    let mut bench = Bench::new(&args.bench, Some(plan.scenarios()));
    // Scenarios are printed one after the other as well.
    let record = if args.real || bench.prints_only() {
        plan.run(&mut bench, &args.bench)
    } else {
        plan.simulate(&args.bench)
    };
    if let Some(other) = &mut other {
        other.keep_common(&record);
    }
    if !bench.prints_only() && !record.is_empty() {
        args.report(&record, other.as_ref())?;
    }
    let is_complete = bench.prints_only() || record.len() == plan.numbers().len();
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn plan(&self) -> Result<Plan, CliError> {
        let flow = match (self.flood, self.split) {
            (true, _) => Flow::Flood,
            (_, true) => Flow::Split(self.inner),
            _ => Flow::Tcp(self.inner),
        };
        let Some(path) = &self.drive else {
            let seeds = self.seeds.iter().flat_map(|seeds| &seeds.0).copied().collect();
            let source = Source::Drawn { seeds, wider: self.wider };
            return Ok(Plan { source, flow, seconds: self.seconds.unwrap_or(SECONDS) });
        };
        let seconds = self.seconds.unwrap_or(SECONDS_OF_A_DRIVE);
        let drive = Drive::load(path, &self.links, seconds).map_err(CliError::of)?;
        let is_asked = |window: &u32| self.windows.as_ref().is_none_or(|asked| asked.0.contains(window));
        let windows = drive.windows().into_iter().filter(is_asked).collect();
        Ok(Plan { source: Source::Driven { drive, windows }, flow, seconds })
    }

    fn report(&self, record: &Record, other: Option<&Record>) -> Result<(), CliError> {
        let name = self.against.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
        let report = Report { record, other: other.map(|other| (&*name, other)) };
        if let Some(path) = &self.json {
            write_json(record, path).map_err(CliError::of)?;
        }
        if let Some(path) = &self.plot {
            report.write_plot(path).map_err(CliError::of)?;
        }
        match (self.json.as_deref() == Some(Path::new("-")), self.markdown) {
            (true, _) => {}
            (false, true) => output::print(&report.markdown())?,
            (false, false) => output::print(&report.text())?,
        }
        Ok(())
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let remedy = || format!("write numbers from 0 to {}, such as 1000..1999 or 7,12", u32::MAX);
        let mut numbers = std::collections::BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once("..").unwrap_or((part, part));
            let [Ok(first), Ok(last)] = [first, last].map(|end| end.trim().parse::<u32>()) else {
                return Err(remedy());
            };
            if first > last || last - first >= MOST {
                return Err(format!("{part:?} has none, or more than {MOST}"));
            }
            numbers.extend(first..=last);
        }
        Ok(Self(numbers.into_iter().collect()))
    }
}

/// Of networks that are drawn.
const SECONDS: u32 = 10;

/// Of those that were recorded, which change within seconds.
const SECONDS_OF_A_DRIVE: u32 = 20;

/// More networks than that take a day to simulate.
const MOST: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_single_ones_and_ranges() {
        let numbers = |text: &str| text.parse::<Numbers>().map(|numbers| numbers.0).ok();
        assert_eq!(numbers("1000..1002"), Some(vec![1000, 1001, 1002]));
        assert_eq!(numbers("9, 7..8,7"), Some(vec![7, 8, 9]));
        for bad in ["", "..", "3..1", "-1", "1...3", "1..", "a", "0..4294967295", "4294967296"] {
            assert_eq!(numbers(bad), None, "{bad:?}");
        }
    }
}
