//! The daemon `psmcd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    psmcd::program::main()
}
