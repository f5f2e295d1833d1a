//! The guard `psmc-guard`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_guard::cli::main()
}
