//! The arguments of `psmc dns`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use hickory_proto::rr::Name;
use psmc_routes::update::{Mode, Patience, Server, Target, TsigKey};
use psmc_routes::{MAX_LIFETIME_S, Relay};
use psmc_service::cli::LogArgs;

use super::DnsError;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DnsCommand {
    /// Change the alternate routes of a service on its name servers
    ///
    /// Any server that takes dynamic updates with TSIG will do: BIND, Knot, psmc-dns. All are changed at once, each by
    /// itself; one that is not reached is tried again. docs/DNS.md says what is published.
    Reroute {
        #[command(subcommand)]
        command: Box<RerouteCommand>,
    },
    /// Resolve names on this machine, with the alternate routes of services
    ///
    /// A local resolver: forwards queries, caches answers, and gives psmcd the alternate routes of services
    /// before their names are answered. docs/DNS.md says how it is set up.
    Resolve {
        #[command(subcommand)]
        command: ResolveCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ResolveCommand {
    /// Check a resolver's configuration, and print a summary
    Check {
        /// The configuration, in TOML
        file: PathBuf,
    },
    /// Resolve, in the foreground
    Run {
        /// The configuration, in TOML
        file: PathBuf,
        #[command(flatten)]
        log: LogArgs,
    },
    /// Show what a running resolver does
    Status {
        /// The resolver's control socket, such as /run/psmc-dns/local.sock
        #[arg(value_name = "SOCKET")]
        resolver: PathBuf,
        /// As JSON, for tools
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RerouteCommand {
    /// Publish relays through which a service is reached
    #[command(after_help = "\
Example:
  psmc dns reroute publish www.example.com --server 192.0.2.53 --tsig-key up.key --service-key www.key \\
    --relay 198.51.100.7:5115=y6s…= --relay 203.0.113.9:5115=Q1m…=")]
    Publish(PublishArgs),
    /// Withdraw the routes
    Withdraw(WithdrawArgs),
    /// Publish the same relays again, with a new expiry
    Refresh(RefreshArgs),
}

/// Which service, and where.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    /// The service's name
    #[arg(value_name = "NAME", value_parser = absolute)]
    pub(super) service: Name,
    /// The zone that contains it [default: the name without its first label]
    #[arg(long, value_name = "NAME", value_parser = absolute)]
    zone: Option<Name>,
    /// A name server of the zone that accepts updates, with alternative addresses after commas; may be repeated
    #[arg(long = "server", required = true, value_name = "ADDRESS")]
    servers: Vec<Server>,
    /// The file with the TSIG key, as `tsig-keygen` writes it
    #[arg(long, value_name = "FILE")]
    tsig_key: PathBuf,
    /// Attempts per server
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Timeout per attempt, in milliseconds
    #[arg(long, default_value_t = 2000, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    timeout: u64,
    /// Change nothing, and print what would be sent, as `nsupdate` reads it
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl TargetArgs {
    pub(super) fn target(&self) -> Result<Target, DnsError> {
        Ok(Target {
            zone: self.zone.clone().unwrap_or_else(|| self.service.base_name()),
            key: TsigKey::read(&self.tsig_key)?,
            servers: self.servers.clone(),
            patience: Patience { attempts: self.attempts, timeout: Duration::from_millis(self.timeout) },
        })
    }

    pub(super) fn mode(&self) -> Mode {
        if self.dry_run { Mode::DryRun } else { Mode::Change }
    }
}

/// How a set is signed.
#[derive(Debug, Args)]
pub(super) struct SigningArgs {
    /// The file with the service's private key: that of the site that clients have as their peer
    #[arg(long, value_name = "FILE")]
    pub(super) service_key: PathBuf,
    /// Validity of the routes, in seconds
    #[arg(long, default_value_t = 600, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=MAX_LIFETIME_S))]
    pub(super) lifetime: u64,
    /// TTL of the records, in seconds
    #[arg(long, default_value_t = 10, value_name = "S")]
    pub(super) ttl: u32,
    /// The file with a group's key: only this group can read the routes
    #[arg(long, value_name = "FILE")]
    pub(super) group_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PublishArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    pub(super) signing: SigningArgs,
    /// A relay and its public key, and the key of the gateway behind it where that is not the service's own; the
    /// preferred one first
    #[arg(long = "relay", required = true, value_name = "ADDRESS:PORT=KEY[,GATEWAY]")]
    relays: Vec<RelayArg>,
    /// Publish them as SVCB records too
    #[arg(long, conflicts_with = "group_key")]
    pub(super) svcb: bool,
}

impl PublishArgs {
    pub(super) fn relays(&self) -> Vec<Relay> {
        self.relays.iter().map(|relay| relay.0).collect()
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WithdrawArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The file with a group's key: take back this group's routes instead of everyone's
    #[arg(long, value_name = "FILE")]
    pub(super) group_key: Option<PathBuf>,
    /// Take back everyone's and all groups'
    #[arg(long, conflicts_with = "group_key")]
    pub(super) all: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RefreshArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    pub(super) signing: SigningArgs,
}

#[derive(Clone, Copy, Debug)]
struct RelayArg(Relay);

impl FromStr for RelayArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, keys) = text.split_once('=').ok_or("write ADDRESS:PORT=KEY")?;
        let address: SocketAddr = address
            .parse()
            .map_err(|_| format!("{address:?} is no address and port, such as 198.51.100.7:5115"))?;
        let key = |text: &str| text.parse().map_err(|error| format!("{text:?} is no public key: {error}"));
        let (relay, gateway) = keys.split_once(',').map_or((keys, None), |(relay, gw)| (relay, Some(gw)));
        Ok(Self(Relay { address, key: key(relay)?, gateway: gateway.map(key).transpose()? }))
    }
}

/// A name from the root, whether or not a dot ends it.
fn absolute(text: &str) -> Result<Name, String> {
    let mut name = Name::from_utf8(text).map_err(|error| error.to_string())?.to_lowercase();
    name.set_fqdn(true);
    if name.is_root() { Err("it is empty".to_owned()) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

    #[test]
    fn a_relay_has_a_key_and_may_have_a_gateway() {
        let relay = |text: String| text.parse::<RelayArg>().map(|relay| relay.0);
        let plain = relay(format!("198.51.100.7:5115={KEY}")).unwrap();
        assert_eq!((plain.address.port(), plain.key, plain.gateway), (5115, KEY.parse().unwrap(), None));
        let gateway = relay(format!("[2001:db8::7]:5115={KEY},{KEY}")).unwrap();
        assert_eq!(gateway.gateway, Some(KEY.parse().unwrap()));
        for bad in ["198.51.100.7:5115", "198.51.100.7=x", "198.51.100.7:5115=x", &format!("relay={KEY}")] {
            assert!(relay(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_absolute() {
        assert_eq!(absolute("WWW.example.com").unwrap(), absolute("www.example.com.").unwrap());
        assert!(absolute("").is_err() && absolute(".").is_err());
    }
}
