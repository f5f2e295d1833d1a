//! The coordinator `psmc-coordinator`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_coordinator::cli::main()
}
