//! What all benchmarks with competitors are asked, and how they end.

use std::error::Error;
use std::process::ExitCode;

/// What those are asked that measure several competitors in turn, several times.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// How many times each of them is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
    /// Only these, by name.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// What cargo tells every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Common {
    /// Those of all that are on this machine which are to be measured: whose names were given, or all of them.
    pub(crate) fn choose<T>(&self, all: Vec<T>, name: impl Fn(&T) -> String) -> Result<Vec<T>, String> {
        if let Some(unknown) = self.only.iter().find(|only| !all.iter().any(|one| name(one) == **only)) {
            return Err(format!("there is no {unknown} here"));
        }
        let is_chosen = |one: &T| self.only.is_empty() || self.only.contains(&name(one));
        Ok(all.into_iter().filter(is_chosen).collect())
    }
}

/// Runs a benchmark of that name, which makes network namespaces.
pub(crate) fn run(name: &str, benchmark: impl FnOnce() -> Result<(), Box<dyn Error>>) -> ExitCode {
    let outcome = if psmc_testbed::netns::is_privileged() {
        benchmark()
    } else {
        Err("run it as root, for it makes network namespaces".into())
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
