//! `psmc dns resolve`: the local resolver, which asks psmcd over its control socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use psmc_api::{Client, ClientError, PeerReport, RouteSet, RouteSpec, RouteStatus, WaitFor};
use psmc_resolver::config::Config;
use psmc_resolver::daemon;
use psmc_resolver::status::ask;
use psmc_resolver::tunnels::{
    FailedRelay, Policy, Tunnel, TunnelError, TunnelRoutes, TunnelState, Tunnels, Until,
};
use psmc_routes::Relay;
use psmc_routes::update::unix_now;
use psmc_service::logging;

use super::args::ResolveCommand;
use super::{CliError, DnsError, output};

pub(super) fn run(command: ResolveCommand) -> Result<(), CliError> {
    match command {
        ResolveCommand::Check { file } => check(&file),
        ResolveCommand::Run(args) => {
            let _log = logging::init(args.log_format, args.log.as_deref())?;
            let config = Config::load(&args.file)?;
            Ok(daemon::run(config, Arc::new(ControlSockets), &args.file).map_err(DnsError::Resolver)?)
        }
        ResolveCommand::Status { resolver, json } => {
            let status = ask(&resolver).map_err(DnsError::Status)?;
            let text = if json { output::json(&status)? } else { status.describe(unix_now()) };
            Ok(output::print(&text)?)
        }
    }
}

fn check(file: &Path) -> Result<(), CliError> {
    let config = Config::load(file)?;
    Ok(output::print(&format!("{} is right. It means:\n\n{}", file.display(), config.summary()))?)
}

/// Whichever psmcd a service's tunnel names, over its control socket. Each call has a connection of its own, so that one
/// that waits holds up no other.
#[derive(Debug)]
struct ControlSockets;

impl Tunnels for ControlSockets {
    fn set(&self, tunnel: &Tunnel, routes: &TunnelRoutes) -> Result<(), TunnelError> {
        let relays: Vec<RouteSpec> = routes.relays.iter().map(spec).collect();
        let set = RouteSet {
            routes: &relays,
            expires: routes.expires_s,
            serial: routes.serial,
            policy: routes.policy.map(Policy::as_str),
            grants: &routes.grants,
        };
        call(tunnel, |client| client.set_routes(tunnel.peer.as_str(), set))
    }

    fn clear(&self, tunnel: &Tunnel) -> Result<(), TunnelError> {
        call(tunnel, |client| client.clear_routes(tunnel.peer.as_str()))
    }

    fn wait(&self, tunnel: &Tunnel, until: Until, patience: Duration) -> Result<TunnelState, TunnelError> {
        let until = match until {
            Until::Usable => WaitFor::Usable,
            Until::Trouble => WaitFor::Trouble,
        };
        call(tunnel, |client| client.wait_for_peer(tunnel.peer.as_str(), until, patience)).map(state)
    }

    fn failed(&self, tunnel: &Tunnel) -> Result<Vec<FailedRelay>, TunnelError> {
        let peers = call(tunnel, |client| client.routes(Some(tunnel.peer.as_str())))?;
        let routes = peers.into_iter().flat_map(|peer| peer.routes.routes);
        let failed = |route: RouteStatus| Some(FailedRelay { key: route.public_key, reason: route.failed? });
        Ok(routes.filter_map(failed).collect())
    }
}

fn call<T>(
    tunnel: &Tunnel,
    ask: impl FnOnce(&mut Client) -> Result<T, ClientError>,
) -> Result<T, TunnelError> {
    let answer = Client::connect(&tunnel.socket).and_then(|mut client| ask(&mut client));
    answer.map_err(|error| TunnelError(crate::error_chain(&error)))
}

fn spec(relay: &Relay) -> RouteSpec {
    RouteSpec {
        address: relay.address,
        public_key: relay.key.to_string(),
        gateway: relay.gateway.as_ref().map(ToString::to_string),
    }
}

fn state(report: PeerReport) -> TunnelState {
    TunnelState {
        usable: report.usable,
        direct_well: report.direct_well,
        learned_up: report.learned_up > 0,
        serial: report.serial,
        expires_s: report.expires,
    }
}

#[cfg(test)]
mod tests;
