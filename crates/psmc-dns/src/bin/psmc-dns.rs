//! The name server `psmc-dns`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmc_dns::cli::main()
}
