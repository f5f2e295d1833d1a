//! Scenarios in real time. These tests need root, for they make network namespaces.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its scenario has failed")]

#[path = "../../../../tests/common/mod.rs"]
mod common;
mod events;
mod generators;
mod life;
mod programs;
mod tunnels;

use std::path::Path;

use psmc_lab::results::Results;
use psmc_lab::run::{RunError, RunOptions, run};
use psmc_lab::scenario::Scenario;

/// Hosts `a` and `b`, joined by links that are called like this, each with 20 Mbit/s and 5 ms of delay.
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

fn try_run(text: &str, options: &RunOptions) -> Result<Results, RunError> {
    let scenario = Scenario::parse(text, Path::new("test.toml"));
    run(&scenario.unwrap_or_else(|error| panic!("{}", error.render(false))), options)
}

fn quiet() -> RunOptions {
    RunOptions { quiet: true, ..RunOptions::default() }
}

/// With the programs of this workspace.
fn with_programs() -> RunOptions {
    RunOptions { programs: common::program("psmcd").parent().map(Path::to_owned), ..quiet() }
}
