//! `psmc routes` and `psmc register`: relays that a running daemon has learned, and those at which it is a gateway.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::{Args, Subcommand};
use psmc_net::keys::PublicKey;
use psmc_service::clock::{since_1970, unix_seconds};

use super::args::Life;
use super::{CliError, output, units};
use psmc_api::{
    Carrier, Client, PeerRoutes, RegisterSpec, RegistrationStatus, RouteSet, RouteSpec, RouteStatus,
    RoutesStatus,
};
use psmcd::config::{InterfaceName, Name, RoutePolicy, ValueError};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RoutesArgs {
    #[command(subcommand)]
    command: Option<RoutesCommand>,
    /// Only those to this peer
    peer: Option<Name>,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum RoutesCommand {
    /// Also reach a peer over these relays for a limited time; replaces the previous set
    Set(RoutesSetArgs),
    /// End the learned routes to a peer
    Clear {
        /// The peer
        peer: Name,
    },
}

#[derive(Debug, Args)]
struct RoutesSetArgs {
    /// The peer that they lead to
    peer: Name,
    /// A relay with which the peer is registered, and its public key: 198.51.100.7:5115=KEY; may be given several times, the
    /// preferred one first. Behind a comma, the key under which the peer is registered
    #[arg(long = "relay", value_name = "ADDRESS:PORT=KEY[,GATEWAY]", required = true)]
    relays: Vec<RouteText>,
    /// Validity, such as 10m or 1h
    #[arg(long = "for", value_name = "TIME")]
    life: Life,
    /// When they are used: prefer-direct, prefer-indirect or on-failure; default: as configured
    #[arg(long, value_name = "NAME")]
    policy: Option<RoutePolicy>,
    /// Serial number of the set, which must not decrease [default: milliseconds since 1970]
    #[arg(long, value_name = "N")]
    serial: Option<u64>,
    /// A grant (a line printed by `psmc grant`); may be repeated
    #[arg(long = "grant", value_name = "LINE")]
    grants: Vec<String>,
}

/// A route as a person writes it.
#[derive(Clone, Debug)]
struct RouteText(RouteSpec);

impl FromStr for RouteText {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (address, public_key, gateway) = relay_text(text)?;
        let gateway =
            gateway.map(|key| Ok::<_, ValueError>(public_key_text(key)?.to_string())).transpose()?;
        Ok(Self(RouteSpec { address, public_key: public_key.to_string(), gateway }))
    }
}

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
    /// Register with these relays, in addition to those of the configuration; replaces an earlier list
    Set(RegisterSetArgs),
}

#[derive(Debug, Args)]
struct RegisterSetArgs {
    /// A relay and its public key: 198.51.100.7:5115=KEY; may be given several times, and not at all to leave all. Behind a
    /// comma, the local address or the interface by which this site registers there
    #[arg(long = "relay", value_name = "ADDRESS:PORT=KEY[,UPLINK]")]
    relays: Vec<RegisterText>,
    /// A grant (a line printed by `psmc grant`); may be repeated
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

/// `ADDRESS:PORT=KEY`, and what stands behind a comma.
fn relay_text(text: &str) -> Result<(SocketAddr, PublicKey, Option<&str>), ValueError> {
    let remedy = "write address, port and public key, such as 198.51.100.7:5115=KEY";
    let wrong = |reason: String| ValueError::new(reason, remedy);
    let (address, rest) = text.split_once('=').ok_or_else(|| wrong(format!("{text:?} has no key")))?;
    let address = address.parse().map_err(|_| wrong(format!("{address:?} is no address with a port")))?;
    let (key, more) = rest.split_once(',').map_or((rest, None), |(key, more)| (key, Some(more)));
    Ok((address, public_key_text(key)?, more))
}

fn public_key_text(text: &str) -> Result<PublicKey, ValueError> {
    text.parse().map_err(|_| {
        ValueError::new(format!("{text:?} is no public key"), "give what `psmc pubkey` prints, whole")
    })
}

pub(super) fn run(client: &mut Client, args: RoutesArgs) -> Result<(), CliError> {
    match args.command {
        Some(RoutesCommand::Set(args)) => set(client, args),
        Some(RoutesCommand::Clear { peer }) => Ok(client.clear_routes(peer.as_str())?),
        None => show(client, args.peer.as_ref(), args.json),
    }
}

fn set(client: &mut Client, args: RoutesSetArgs) -> Result<(), CliError> {
    let now = since_1970();
    let routes: Vec<_> = args.relays.into_iter().map(|route| route.0).collect();
    let set = RouteSet {
        routes: &routes,
        expires: (now + args.life.0).as_secs(),
        serial: args.serial.unwrap_or_else(|| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
        policy: args.policy.map(RoutePolicy::as_str),
        grants: &args.grants,
    };
    Ok(client.set_routes(args.peer.as_str(), set)?)
}

fn show(client: &mut Client, peer: Option<&Name>, json: bool) -> Result<(), CliError> {
    let routes = client.routes(peer.map(Name::as_str))?;
    let text = if json { output::json(&routes)? } else { routes_text(&routes) };
    Ok(output::print(&text)?)
}

fn routes_text(peers: &[PeerRoutes]) -> String {
    let mut text = String::new();
    for peer in peers {
        let _ = writeln!(text, "peer {}: {}", peer.peer, routes_summary(&peer.routes));
        for RouteStatus { relay, address, public_key, paths, failed } in &peer.routes.routes {
            let paths = if paths.is_empty() { "no path".to_owned() } else { paths.join(", ") };
            let failed = failed.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
            let _ = writeln!(text, "  {relay}  {address}  {public_key}  {paths}{failed}");
        }
    }
    text
}

/// Learned routes in a line.
pub(super) fn routes_summary(routes: &RoutesStatus) -> String {
    let now = unix_seconds();
    let count = match routes.routes.len() {
        0 => "no learned routes".to_owned(),
        1 => "1 learned route".to_owned(),
        count => format!("{count} learned routes"),
    };
    let mut text = format!("{count}, {}", routes.policy);
    let carrier = match routes.carrier {
        Carrier::Direct => "in reserve",
        Carrier::Learned => "in use",
    };
    if let Some(expires) = routes.expires {
        let left = units::age(expires.saturating_sub(now) as f64);
        let _ = write!(text, ", {carrier}, for {left}");
    }
    if let Some(serial) = routes.serial {
        let _ = write!(text, ", serial {serial}");
    }
    if !routes.direct_well {
        text.push_str(", the direct path is unhealthy");
    }
    text
}

pub(super) fn register(client: &mut Client, args: RegisterArgs) -> Result<(), CliError> {
    let Some(RegisterCommand::Set(set)) = args.command else {
        let relays = client.registrations()?;
        let text = if args.json { output::json(&relays)? } else { registrations_text(&relays) };
        return Ok(output::print(&text)?);
    };
    let relays: Vec<_> = set.relays.into_iter().map(|relay| relay.0).collect();
    Ok(client.set_registrations(&relays, &set.grants)?)
}

fn registrations_text(relays: &[RegistrationStatus]) -> String {
    let mut text = String::new();
    for relay in relays {
        let _ = writeln!(text, "{}", registration_summary(relay));
    }
    if relays.is_empty() { "no relays\n".to_owned() } else { text }
}

/// A registration in a line.
pub(super) fn registration_summary(registration: &RegistrationStatus) -> String {
    let RegistrationStatus { relay, registered, error, added, public_key: _ } = registration;
    let added = if added.is_some() { " (added)" } else { "" };
    match (registered, error) {
        (true, _) => format!("{relay}{added}"),
        (false, Some(error)) => format!("{relay}{added}: not yet: {error}"),
        (false, None) => format!("{relay}{added}: not yet"),
    }
}
