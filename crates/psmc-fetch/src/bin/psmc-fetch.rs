//! The program `psmc-fetch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_fetch::cli::main()
}
