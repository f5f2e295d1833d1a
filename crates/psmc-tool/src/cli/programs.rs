//! Programs that `psmc` also is, so that the demonstration needs no other one than itself.

use psmcd::logging;
use psmcd::program::Arguments;

use super::CliError;

/// Runs a relay until it is told to stop.
pub(super) fn relay(args: &Arguments) -> Result<(), CliError> {
    logging::init(args.log_format, args.log.as_deref())?;
    let config = psmc_relay::config::Config::load(&args.config)?;
    Ok(psmc_relay::relay::run(&config, &args.config)?)
}
