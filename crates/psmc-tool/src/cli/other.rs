//! Commands that are programs of their own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use psmc_service::programs::{self, NotInstalled};

/// What such a command is told, all of it for the program.
#[derive(Debug, Args)]
pub(super) struct OtherArgs {
    /// Its own arguments; `--help` names them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    args: Vec<OsString>,
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum OtherError {
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error("cannot run {program}")]
    Exec { program: &'static str, source: io::Error },
}

/// Has `program` take the place of this process, so that signals and its exit status need nobody to hand them on.
pub(super) fn run(program: &'static str, args: &OtherArgs) -> Result<(), OtherError> {
    let source = Command::new(programs::find(program)?).args(&args.args).exec();
    Err(OtherError::Exec { program, source })
}
