//! What our name server answers, beside BIND and Knot: questions a second, and how long one takes, with alternate routes in
//! the zone and without.
//!
//! `cargo bench -p psmc-dns --bench dnsperf -- --help` says how. The servers take turns, each started anew for every run, so
//! that whatever else the machine does meets all of them; each has one CPU to itself, and `dnsperf` the next one. Needs
//! root, two CPUs, and `dnsperf`; BIND's `named` and Knot's `knotd` are competitors where they are on the PATH.

#[path = "../kit/args.rs"]
mod args;
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
use psmc_testbed::netns::Namespace;

use args::Common;
use measure::{Figures, measure};
use report::Row;
use servers::Kind;
use zone::{Load, Zone};

/// Measures what name servers answer.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: Common,
}

fn main() -> ExitCode {
    let Args { common } = Args::parse();
    args::run("dnsperf", || run(&common))
}

fn run(args: &Common) -> Result<(), Box<dyn Error>> {
    if programs::on_path("dnsperf").is_err() {
        return Err("there is no dnsperf on the PATH: install the package dnsperf".into());
    }
    let servers = args.choose(Kind::found().collect(), |kind| kind.name().to_owned())?;
    let mut rows: Vec<Row> = servers.into_iter().map(Row::new).collect();
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

/// A server with a zone, started for one load.
fn measure_one(kind: Kind, zone: &Zone, load: Load, seconds: u32) -> Result<Figures, Box<dyn Error>> {
    let namespace = Namespace::new()?;
    let directory = tempfile::tempdir()?;
    let _server = kind.start(&namespace, directory.path(), zone)?;
    measure(&namespace, directory.path(), load, seconds)
}
