//! Goodput of one TCP flow through a tunnel over one unshaped path, ours beside others', in alternating runs.
//!
//! `cargo bench --bench throughput -- --help` says how. Two hosts are network namespaces, the path between them a veth
//! pair. Every run sets its tunnel up anew, so that no run inherits anything, and the tunnels take turns, so that
//! whatever else the machine does meets all of them. Needs root, iperf3 and ping; with `wg` and wireguard-go on the
//! PATH, that is a competitor.

mod hosts;
mod measure;
mod report;
mod tunnels;

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../kit/mod.rs"]
mod kit;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use hosts::Hosts;
use report::Row;
use tunnels::Tunnel;

/// Measures the goodput of one TCP flow through each tunnel.
#[derive(Parser)]
struct Args {
    /// How many times each tunnel is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only these tunnels, by name.
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
            eprintln!("throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if !psmc_net::netns::is_privileged() {
        return Err("run it as root, for it makes network namespaces".into());
    }
    let tunnels = chosen(&args.only)?;
    let mut rows = tunnels.iter().map(|tunnel| Row::new(tunnel.as_ref())).collect::<Vec<_>>();
    for run in 1..=args.runs {
        for (tunnel, row) in tunnels.iter().zip(&mut rows) {
            eprintln!("run {run} of {}: {}", args.runs, tunnel.name());
            row.bits_per_second.push(measured(tunnel.as_ref(), args.seconds)?);
        }
    }
    print!("{}", if args.json { report::json(&rows) } else { report::table(&rows) });
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<Box<dyn Tunnel>>, String> {
    let mut tunnels = tunnels::found();
    let known = |name: &String| tunnels.iter().any(|tunnel| tunnel.name() == name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        return Err(format!("there is no tunnel {unknown} here"));
    }
    tunnels.retain(|tunnel| only.is_empty() || only.iter().any(|name| name == tunnel.name()));
    Ok(tunnels)
}

/// Goodput through `tunnel` on fresh hosts, in bits per second.
fn measured(tunnel: &dyn Tunnel, seconds: u32) -> Result<f64, Box<dyn Error>> {
    let hosts = Hosts::new()?;
    let raised = tunnel.raise(&hosts)?;
    measure::wait_for_echo(&hosts, raised.server)?;
    measure::tcp_goodput(&hosts, raised.server, seconds)
}
