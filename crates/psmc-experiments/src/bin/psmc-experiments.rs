//! The program `psmc-experiments`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_experiments::cli::main()
}
