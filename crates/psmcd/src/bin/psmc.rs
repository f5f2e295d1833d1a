//! The control tool `psmc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmcd::cli::psmc()
}
