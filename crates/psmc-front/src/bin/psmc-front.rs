//! The reverse proxy `psmc-front`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_front::cli::main()
}
