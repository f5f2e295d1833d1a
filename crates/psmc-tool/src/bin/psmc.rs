//! The control tool `psmc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_tool::cli::psmc()
}
