//! The program `psmc-manual`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_manual::main()
}
