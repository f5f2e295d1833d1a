//! `psmc register`

use std::fmt::Write;
use std::net::IpAddr;
use std::str::FromStr;

use clap::{Args, Subcommand};

use super::routes::relay_text;
use super::{CliError, output};
use psmc_api::{Client, RegisterSpec, RegistrationStatus};
use psmcd::config::{InterfaceName, ValueError};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RegisterArgs {
    #[command(subcommand)]
    command: Option<RegisterCommand>,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum RegisterCommand {
    /// Register with these relays, beside those of the configuration, in place of those that were named before
    Set(RegisterSetArgs),
}

#[derive(Debug, Args)]
struct RegisterSetArgs {
    /// A relay and its public key: 198.51.100.7:5115=KEY; may be given several times, and not at all to leave all. Behind a
    /// comma, the local address or the interface by which this site registers there
    #[arg(long = "relay", value_name = "ADDRESS:PORT=KEY[,UPLINK]")]
    relays: Vec<RegisterText>,
    /// What may be shown to the relays: a line that `psmc grant` prints; may be given several times
    #[arg(long = "grant", value_name = "LINE")]
    grants: Vec<String>,
}

/// A relay as a person writes it.
#[derive(Clone, Debug)]
struct RegisterText(RegisterSpec);

impl FromStr for RegisterText {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (address, public_key, uplink) = relay_text(text)?;
        let local = uplink.and_then(|text| text.parse::<IpAddr>().ok());
        let interface = match (uplink, local) {
            (Some(name), None) => Some(name.parse::<InterfaceName>()?.to_string()),
            (Some(_), Some(_)) | (None, _) => None,
        };
        Ok(Self(RegisterSpec { address, public_key: public_key.to_string(), local, interface }))
    }
}

pub(super) fn run(client: &mut Client, args: RegisterArgs) -> Result<(), CliError> {
    let Some(RegisterCommand::Set(set)) = args.command else {
        let relays = client.registrations()?;
        let text = if args.json { output::json(&relays)? } else { text(&relays) };
        return Ok(output::print(&text)?);
    };
    let relays: Vec<_> = set.relays.into_iter().map(|relay| relay.0).collect();
    Ok(client.set_registrations(&relays, &set.grants)?)
}

fn text(relays: &[RegistrationStatus]) -> String {
    let mut text = String::new();
    for relay in relays {
        let _ = writeln!(text, "{}", summary(relay));
    }
    if relays.is_empty() { "no relays\n".to_owned() } else { text }
}

/// A registration in a line.
pub(super) fn summary(registration: &RegistrationStatus) -> String {
    let RegistrationStatus { relay, registered, error, added, public_key: _ } = registration;
    let added = if added.is_some() { " (added)" } else { "" };
    match (registered, error) {
        (true, _) => format!("{relay}{added}"),
        (false, Some(error)) => format!("{relay}{added}: not yet: {error}"),
        (false, None) => format!("{relay}{added}: not yet"),
    }
}
