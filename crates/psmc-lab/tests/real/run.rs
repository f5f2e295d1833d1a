//! Scenarios in real time. These tests need root, for they make network namespaces.

mod events;
mod faults;
mod generators;
mod life;
mod programs;
mod tunnels;

use std::ops::Range;
use std::path::Path;

use psmc_lab::results::Results;
use psmc_lab::run::{RunError, RunOptions, run};
use psmc_lab::scenario::Scenario;

/// Hosts `a` and `b`, joined by links that are called like this, each with 20 Mbit/s and 5 ms of delay, for two seconds.
fn joined_by(links: &[&str]) -> String {
    let link = |name: &&str| {
        format!("[[link]]\nname = \"{name}\"\nbetween = [\"a\", \"b\"]\nrate = \"20mbit\"\ndelay = \"5ms\"\n")
    };
    "[scenario]\nname = \"test\"\nduration = \"2s\"\n".to_owned()
        + &links.iter().map(link).collect::<String>()
}

/// Runs a scenario that must run.
fn results(scenario: &str) -> Results {
    try_run(scenario, &quiet()).unwrap_or_else(|error| panic!("{error}: {error:?}"))
}

/// A queue that holds what a host sends at once after its processor stood still. To be added to a link.
const DEEP: &str = "queue = \"2000 packets\"\n";

/// The means over so many seconds that mean the same as `range` on a machine that never stands still: less than that may
/// pass meanwhile, and what was held up before may come on top.
fn tolerated(results: &Results, range: Range<f64>, seconds: f64) -> Range<f64> {
    let stalls = results.stalls.unwrap();
    let runs = 1.0 - stalls.share_percent / 100.0;
    // It takes two processors to send and to receive.
    range.start * runs * runs..range.end * (1.0 + stalls.longest_ms / 1000.0 / seconds)
}

/// How late what is due in this range of milliseconds may be, if the machine may stand still so many times until then.
fn late(results: &Results, range: Range<f64>, times: u32) -> Range<f64> {
    range.start..range.end + f64::from(times) * results.stalls.unwrap().longest_ms
}

fn try_run(text: &str, options: &RunOptions) -> Result<Results, RunError> {
    let scenario = Scenario::parse(text, Path::new("test.toml"));
    run(&scenario.unwrap_or_else(|error| panic!("{}", error.render(false))), options)
}

fn quiet() -> RunOptions {
    RunOptions { quiet: true, ..RunOptions::default() }
}

/// With the programs of this workspace.
fn with_programs() -> RunOptions {
    RunOptions { programs: psmc_testbed::programs::program("psmcd").parent().map(Path::to_owned), ..quiet() }
}
