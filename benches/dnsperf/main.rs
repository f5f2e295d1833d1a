//! What our name server answers, beside BIND and Knot: questions a second, and how long one takes, with alternate routes in
//! the zone and without.
//!
//! `cargo bench -p psmc-dns --bench dnsperf -- --help` says how. The servers take turns, each started anew for every run, so
//! that whatever else the machine does meets all of them; each has one CPU to itself, and `dnsperf` the next one. Needs
//! root, two CPUs, and `dnsperf`; BIND's `named` and Knot's `knotd` are competitors where they are on the PATH.

mod measure;
#[path = "../kit/programs.rs"]
mod programs;
mod report;
mod servers;
#[path = "../kit/spread.rs"]
mod spread;
mod zone;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use psmc_net::netns::Namespace;

use measure::{Figures, measure};
use report::Row;
use servers::Kind;
use zone::{Load, Zone};

/// Measures what name servers answer.
#[derive(Parser)]
struct Args {
    /// How many times each server is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only these servers, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// What cargo tells every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dnsperf: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if !psmc_net::netns::is_privileged() {
        return Err("run it as root, for it makes network namespaces".into());
    }
    if programs::on_path("dnsperf").is_err() {
        return Err("there is no dnsperf on the PATH: install the package dnsperf".into());
    }
    let mut rows: Vec<Row> = chosen(&args.only)?.into_iter().map(Row::new).collect();
    let zones = [Zone::plain(), Zone::with_routes()?];
    for run in 1..=args.runs {
        for row in &mut rows {
            eprintln!("run {run} of {}: {}", args.runs, row.name());
            for (load, figures) in Load::ALL.into_iter().zip(&mut row.figures) {
                let zone = &zones[usize::from(load.has_routes())];
                figures.push(measure_one(row.kind, zone, load, args.seconds)?);
            }
        }
    }
    print!("{}", if args.json { report::json(&rows) } else { report::markdown(&rows) });
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<Kind>, String> {
    let mut found: Vec<Kind> = Kind::found().collect();
    if let Some(unknown) = only.iter().find(|name| !found.iter().any(|kind| kind.name() == **name)) {
        return Err(format!("there is no server {unknown} here"));
    }
    found.retain(|kind| only.is_empty() || only.iter().any(|name| name == kind.name()));
    Ok(found)
}

/// A server with a zone, started for one load.
fn measure_one(kind: Kind, zone: &Zone, load: Load, seconds: u32) -> Result<Figures, Box<dyn Error>> {
    let namespace = Namespace::new()?;
    let directory = tempfile::tempdir()?;
    let _server = kind.start(&namespace, directory.path(), zone)?;
    measure(&namespace, directory.path(), load, seconds)
}
