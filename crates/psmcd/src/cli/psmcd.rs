//! The daemon's `main`.

use std::process::ExitCode;

use clap::Parser;

use super::args::Psmcd;
use super::{CliError, output};
use crate::config::Config;
use crate::{daemon, logging};

/// Runs the daemon `psmcd` with the arguments of the process.
pub fn psmcd() -> ExitCode {
    output::finish(run(&Psmcd::parse()))
}

/// Runs the daemon until it is told to stop.
pub(super) fn run(args: &Psmcd) -> Result<(), CliError> {
    logging::init(args.log_format, args.log.as_deref())?;
    let config = Config::load(&args.config)?;
    Ok(daemon::run(config)?)
}

/// Runs a relay until it is told to stop.
pub(super) fn relay(args: &Psmcd) -> Result<(), CliError> {
    logging::init(args.log_format, args.log.as_deref())?;
    let config = psmc_relay::config::Config::load(&args.config)?;
    Ok(psmc_relay::relay::run(&config, &args.config)?)
}
