//! The tool `psmc-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_lab::cli::psmc_lab()
}
