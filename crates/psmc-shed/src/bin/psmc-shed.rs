//! The agent `psmc-shed`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_shed::cli::main()
}
