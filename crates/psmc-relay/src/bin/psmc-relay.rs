//! The relay `psmc-relay`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_relay::cli::main()
}
