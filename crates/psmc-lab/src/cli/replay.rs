//! `psmc-lab replay`

use std::path::PathBuf;
use std::process::ExitCode;

use super::{CliError, output};
use crate::device::DeviceProfile;
use crate::device::replay::replay_captures;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Captures of all ports of a device, in the order of its ports:
  psmc-lab replay --profile box.toml eth1.pcap eth2.pcap")]
pub(super) struct Args {
    /// The profile of the device
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,
    /// What each port has received and sent, in pcap or pcapng, taken at the same time by one clock
    #[arg(value_name = "CAPTURE", num_args = 2.., required = true)]
    captures: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let profile = DeviceProfile::load(&args.profile)?;
    let replayed = replay_captures(&profile, &args.captures).map_err(CliError::of)?;
    output::print(&replayed.table())?;
    Ok(ExitCode::SUCCESS)
}
