//! The program `psmc-demo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_demo::cli::main()
}
