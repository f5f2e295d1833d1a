//! What a tunnel carries over unshaped paths, and what that costs: ours beside others', in alternating runs.
//!
//! `cargo bench --bench throughput -- --help` says how. Two hosts are network namespaces, the paths between them veth
//! pairs. Every run sets its tunnel up anew, so that no run inherits anything, and the tunnels take turns, so that
//! whatever else the machine does meets all of them. Needs root, iperf3 and ping. Competitors are those on the PATH:
//! wireguard-go, boringtun-cli and gotatun, if `wg` is there, openvpn with `openssl`, and nebula with `nebula-cert`. `null` is the limit: what TUN and UDP themselves cost.

mod hosts;
mod load;
mod measure;
mod null;
mod report;
mod tunnels;

#[path = "../kit/mod.rs"]
mod kit;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use hosts::Hosts;
use load::{UdpSink, UdpSource};
use measure::Measure;
use null::NullEnd;
use report::Row;
use tunnels::{Found, Tunnel};

/// Measures what each tunnel carries, and what that costs.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
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
    /// What is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    measure: Vec<Measure>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// What cargo tells every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What was measured of a tunnel in one run.
type Figures = Vec<(Measure, f64)>;

/// What the benchmark has itself do.
#[derive(Subcommand)]
enum Part {
    #[command(hide = true)]
    NullEnd(NullEnd),
    #[command(hide = true)]
    UdpSource(UdpSource),
    #[command(hide = true)]
    UdpSink(UdpSink),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.part {
        Some(Part::NullEnd(end)) => end.run(),
        Some(Part::UdpSource(source)) => source.run(),
        Some(Part::UdpSink(sink)) => sink.run(),
        None => run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if !psmc_testbed::netns::is_privileged() {
        return Err("run it as root, for it makes network namespaces".into());
    }
    let tunnels = chosen(&args.only)?;
    let mut rows = tunnels.iter().map(|tunnel| Row::new(tunnel.as_ref())).collect::<Vec<_>>();
    for run in 1..=args.runs {
        for (tunnel, row) in tunnels.iter().zip(&mut rows) {
            eprintln!("run {run} of {}: {}", args.runs, tunnel.name());
            for (measure, figure) in measure_patiently(tunnel.as_ref(), args)? {
                row.push(measure, figure);
            }
        }
    }
    let print = if args.json { report::json } else { report::table };
    print!("{}", print(&rows, &args.measure));
    Ok(())
}

/// The tunnels that are to be measured, by the names in `only`, or all of them; those that can't be are named.
fn chosen(only: &[String]) -> Result<Vec<Box<dyn Tunnel>>, String> {
    let Found { mut tunnels, absent } = Found::here();
    for name in only {
        if let Some((_, why)) = absent.iter().find(|(absent, _)| absent == name) {
            return Err(format!("{name} can't be measured: {why}"));
        }
        if !tunnels.iter().any(|tunnel| tunnel.name() == name) {
            return Err(format!("there is no tunnel {name}"));
        }
    }
    if only.is_empty() {
        absent.iter().for_each(|(name, why)| eprintln!("without {name}: {why}"));
        return Ok(tunnels);
    }
    tunnels.retain(|tunnel| only.iter().any(|name| name == tunnel.name()));
    Ok(tunnels)
}

/// Measures `tunnel`, again if that fails and it may be tried once more: that shall not cost the figures of all others.
fn measure_patiently(tunnel: &dyn Tunnel, args: &Args) -> Result<Figures, Box<dyn Error>> {
    let mut left = tunnel.attempts();
    loop {
        left -= 1;
        match measure(tunnel, args) {
            Err(error) if left > 0 => {
                eprintln!("throughput: once more, for {} has failed: {error}", tunnel.name());
            }
            outcome => return outcome,
        }
    }
}

/// Measures `tunnel` on fresh hosts.
fn measure(tunnel: &dyn Tunnel, args: &Args) -> Result<Figures, Box<dyn Error>> {
    let hosts = Hosts::new(tunnel.links())?;
    let raised = tunnel.raise(&hosts)?;
    measure::wait_for_echo(&hosts, raised.server)?;
    let mut figures = Figures::new();
    for &measure in &args.measure {
        if let Some(figure) = measure.of(&hosts, &raised, args.seconds)? {
            figures.push((measure, figure));
        }
    }
    Ok(figures)
}
