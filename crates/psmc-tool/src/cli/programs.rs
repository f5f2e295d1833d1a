//! Programs that `psmc` also is, so that the demonstrations need no other one than itself.

use std::sync::Arc;

use clap::ValueEnum;
use psmc_service::logging;
use psmcd::program::Arguments;

use super::CliError;
use super::dns::{ControlSockets, DnsError};

/// A program that is part of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// `psmcd`
    Daemon,
    /// `psmc-relay`
    Relay,
    /// `psmc-dns serve`
    NameServer,
    /// `psmc-dns resolve`
    Resolver,
    /// `psmc-guard`
    Guard,
    /// `psmc-coordinator`
    Coordinator,
}

impl Program {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Relay => "relay",
            Self::NameServer => "name-server",
            Self::Resolver => "resolver",
            Self::Guard => "guard",
            Self::Coordinator => "coordinator",
        }
    }
}

/// Runs a program until it is told to stop.
pub(super) fn run(program: Program, args: &Arguments) -> Result<(), CliError> {
    if program == Program::Daemon {
        return Ok(psmcd::program::run(args)?);
    }
    let _log = logging::init(args.log_format, args.log.as_deref())?;
    match program {
        Program::Daemon => Ok(()),
        Program::Relay => {
            let config = psmc_relay::config::Config::load(&args.config)?;
            Ok(psmc_relay::relay::run(&config, &args.config)?)
        }
        Program::NameServer => {
            let config = psmc_dns::config::Config::load(&args.config)?;
            Ok(psmc_dns::daemon::run(config, &args.config)?)
        }
        Program::Resolver => {
            let config = psmc_dns::resolver::config::Config::load(&args.config)?;
            let ran = psmc_dns::resolver::daemon::run(config, Arc::new(ControlSockets), &args.config);
            Ok(ran.map_err(DnsError::Resolver)?)
        }
        Program::Guard => {
            let config = psmc_guard::config::Config::load(&args.config)?;
            Ok(psmc_guard::guard::run(config, &args.config)?)
        }
        Program::Coordinator => {
            let config = psmc_coordinator::config::Config::load(&args.config)?;
            Ok(psmc_coordinator::daemon::run(config, &args.config)?)
        }
    }
}
