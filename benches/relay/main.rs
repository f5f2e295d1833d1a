//! What it costs to hand datagrams on: psmc-relay beside coturn and beside the kernel's own forwarding.
//!
//! `cargo bench -p psmc-relay --bench relay -- --help` says how. Three hosts in a row are network namespaces, joined by
//! veth pairs; the forwarder runs on the one in the middle. They take turns, each started anew for every run, so that
//! whatever else the machine does meets all of them. Needs root, and two cores; with coturn's `turnserver` on the PATH,
//! that is a competitor.

#[path = "../kit/args.rs"]
mod args;
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use args::Common;
use forwarders::{Forwarder, Psmc};
use load::Load;
use network::Network;
use report::Row;

/// How many sessions share the datagrams.
const SESSIONS: usize = 16;

/// Measures what it costs to hand datagrams on.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: Common,
    /// Chains of 1 to 4 relays instead of competitors.
    #[arg(long, conflicts_with = "only")]
    chains: bool,
    /// Another build of psmc-relay than the one beside the benchmark.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_psmc-relay"), hide_default_value = true)]
    program: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    args::run("relay", || run(&args))
}

fn run(Args { common, chains, program }: &Args) -> Result<(), Box<dyn Error>> {
    let forwarders = if *chains {
        Psmc::chains(program)
    } else {
        common.choose(forwarders::found(program), |one| one.name())?
    };
    let mut rows: Vec<_> = forwarders.iter().map(|forwarder| Row::new(forwarder.as_ref(), *chains)).collect();
    for run in 1..=common.runs {
        // At what rate the others are asked for their delays.
        let mut half = None;
        for (forwarder, row) in forwarders.iter().zip(&mut rows) {
            eprintln!("run {run} of {}: {}", common.runs, row.name);
            measure_all(forwarder.as_ref(), Duration::from_secs(common.seconds.into()), &mut half, row)?;
        }
    }
    print!("{}", if common.json { report::json(&rows) } else { report::table(&rows) });
    Ok(())
}

/// All that is measured of one forwarder, on fresh hosts.
fn measure_all(
    forwarder: &dyn Forwarder,
    time: Duration,
    half: &mut Option<f64>,
    row: &mut Row,
) -> Result<(), Box<dyn Error>> {
    // Before the hosts are made, whose programs run where they were.
    cpu::pin(cpu::FORWARDER)?;
    let network = Network::new()?;
    let mut raised = forwarder.raise(&network, SESSIONS)?;
    cpu::check(&raised.processes, cpu::FORWARDER)?;
    network.far_receives_on(cpu::FORWARDER)?;
    for (load, costs) in Load::all().zip(&mut row.together) {
        costs.push(measure::cost(&mut raised, load, time)?);
    }
    cpu::pin(cpu::TESTER)?;
    network.far_receives_on(cpu::TESTER)?;
    for (load, costs) in Load::all().zip(&mut row.apart) {
        costs.push(measure::cost(&mut raised, load, time)?);
    }
    // One core that wakes another for each datagram would cost more than what is measured.
    network.far_receives_in_the_call()?;
    let steady = measure::pace(&mut raised, STEADY_RATE, time)?;
    row.steady.push(steady);
    // The first one, ours, says at what rate its core is busy for half of the time; whoever has no process is measured at
    // the same one.
    let own = steady.process_us.map(|us| 0.5e6 / us);
    *half = half.or(own);
    row.half.push(measure::pace(&mut raised, own.or(*half).unwrap_or(STEADY_RATE), time)?);
    Ok(())
}

/// Datagrams per second of a relay that has something to do, but not much; and where nobody says what half the load is.
const STEADY_RATE: f64 = 50_000.0;
