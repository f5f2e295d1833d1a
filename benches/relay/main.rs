//! What it costs to hand datagrams on: psmc-relay beside coturn and beside the kernel's own forwarding.
//!
//! `cargo bench -p psmc-relay --bench relay -- --help` says how. Three hosts in a row are network namespaces, joined by
//! veth pairs; the forwarder runs on the one in the middle. They take turns, each started anew for every run, so that
//! whatever else the machine does meets all of them. Needs root, and two cores; with coturn's `turnserver` on the PATH,
//! that is a competitor.

mod cpu;
mod forwarders;
mod lane;
mod load;
mod measure;
mod network;
mod report;

#[path = "../kit/mod.rs"]
mod kit;
#[path = "../../crates/psmc-relay/tests/program/harness/site.rs"]
#[expect(clippy::unwrap_used, reason = "a relay that does not answer ends the benchmark")]
mod site;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use forwarders::{Forwarder, Psmc};
use load::Load;
use network::Network;
use report::Row;

/// How many sessions share the datagrams.
const SESSIONS: usize = 16;

/// Measures what it costs to hand datagrams on.
#[derive(Parser)]
struct Args {
    /// How many times each forwarder is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only these forwarders, by name. Added delays need the kernel.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Chains of 1 to 4 relays instead of competitors.
    #[arg(long, conflicts_with = "only")]
    chains: bool,
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
            eprintln!("relay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if !psmc_net::netns::is_privileged() {
        return Err("run it as root, for it makes network namespaces".into());
    }
    let forwarders = if args.chains { Psmc::chains() } else { chosen(&args.only)? };
    let mut rows: Vec<_> =
        forwarders.iter().map(|forwarder| Row::new(forwarder.as_ref(), args.chains)).collect();
    for run in 1..=args.runs {
        // At what rate the others are asked for their delays.
        let mut half = None;
        for (forwarder, row) in forwarders.iter().zip(&mut rows) {
            eprintln!("run {run} of {}: {}", args.runs, row.name);
            measure_all(forwarder.as_ref(), Duration::from_secs(args.seconds.into()), &mut half, row)?;
        }
    }
    print!("{}", if args.json { report::json(&rows) } else { report::table(&rows) });
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<Box<dyn Forwarder>>, String> {
    let mut forwarders = forwarders::found();
    let known = |name: &String| forwarders.iter().any(|forwarder| forwarder.name() == *name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        return Err(format!("there is no forwarder {unknown} here"));
    }
    forwarders.retain(|forwarder| only.is_empty() || only.contains(&forwarder.name()));
    Ok(forwarders)
}

/// All that is measured of one forwarder, on fresh hosts.
fn measure_all(
    forwarder: &dyn Forwarder,
    time: Duration,
    half: &mut Option<f64>,
    row: &mut Row,
) -> Result<(), Box<dyn Error>> {
    let network = Network::new()?;
    cpu::pin(&[cpu::FORWARDER])?;
    let mut raised = forwarder.raise(&network, SESSIONS)?;
    for (load, costs) in Load::all().zip(&mut row.costs) {
        costs.push(measure::cost(&mut raised, load, time)?);
    }
    // The first one, ours, says what half its load is; whoever has no process is measured at the same rate.
    let own = row.half_load();
    let rate = own.or(*half).unwrap_or(FALLBACK_RATE);
    *half = half.or(own);
    cpu::pin(&[cpu::TESTER])?;
    row.delays.push(measure::delay(&mut raised, rate, time)?);
    Ok(())
}

/// Datagrams per second at which delays are measured if nobody says what half the load is.
const FALLBACK_RATE: f64 = 50_000.0;
