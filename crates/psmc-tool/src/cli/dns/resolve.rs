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
use psmc_service::cli;
use psmc_service::clock::unix_seconds;

use super::args::ResolveCommand;
use super::{CliError, DnsError, output};

pub(super) fn run(command: ResolveCommand) -> Result<(), CliError> {
    match command {
        ResolveCommand::Check { file } => cli::check(&file, Config::load, Config::summary),
        ResolveCommand::Run { file, log } => {
            let run = |config, file: &Path| daemon::run(config, Arc::new(ControlSockets), file);
            Ok(cli::run(&file, &log, Config::load, run)?)
        }
        ResolveCommand::Status { resolver, json } => {
            let status = ask(&resolver).map_err(DnsError::Status)?;
            let text = if json { output::json(&status)? } else { status.describe(unix_seconds()) };
            Ok(output::print(&text)?)
        }
    }
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
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread::{JoinHandle, spawn};

    use psmc_net::keys::PrivateKey;
    use tempfile::TempDir;

    use super::*;

    /// A psmcd that gives one answer to one request.
    fn psmcd(answer: &'static str) -> (TempDir, Tunnel, JoinHandle<String>) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("van.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
            writeln!(stream, "{answer}").unwrap();
            request
        });
        (directory, Tunnel { socket, peer: "hq".parse().unwrap() }, asked)
    }

    fn routes() -> TunnelRoutes {
        let key = |seed| PrivateKey::from_seed([seed; 32]).public();
        let relay = Relay { address: "192.0.2.7:5115".parse().unwrap(), key: key(7), gateway: Some(key(8)) };
        let policy = Some(Policy::PreferIndirect);
        TunnelRoutes { relays: vec![relay], expires_s: 600, serial: 5, policy, grants: vec!["g".to_owned()] }
    }

    #[test]
    fn routes_are_set_as_psmcd_takes_them() {
        let (_directory, tunnel, asked) = psmcd(r#"{"version":1,"result":"ok"}"#);
        ControlSockets.set(&tunnel, &routes()).unwrap();
        let key = |seed| PrivateKey::from_seed([seed; 32]).public().to_string();
        let wanted = serde_json::json!({
            "version": 1, "op": "routes_set", "peer": "hq", "expires": 600, "serial": 5, "policy": "prefer-indirect",
            "grants": ["g"],
            "routes": [{ "address": "192.0.2.7:5115", "public_key": key(7), "gateway": key(8) }],
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&asked.join().unwrap()).unwrap(), wanted);
    }

    #[test]
    fn what_psmcd_says_of_a_peer_is_understood() {
        let (_directory, tunnel, asked) = psmcd(
            r#"{"version":1,"result":"peer","value":{"peer":"hq","reached":true,"usable":true,"direct_well":false,"learned_up":2,"serial":5,"expires":600}}"#,
        );
        let state = ControlSockets.wait(&tunnel, Until::Usable, Duration::from_millis(250)).unwrap();
        let wanted = TunnelState {
            usable: true,
            direct_well: false,
            learned_up: true,
            serial: Some(5),
            expires_s: Some(600),
        };
        assert_eq!(state, wanted);
        let asked = asked.join().unwrap();
        assert!(asked.contains(r#""op":"peer_wait""#) && asked.contains(r#""timeout_ms":250"#), "{asked}");
    }

    #[test]
    fn a_refusal_and_a_missing_psmcd_are_told() {
        let (directory, tunnel, _asked) =
            psmcd(r#"{"version":1,"result":"error","value":{"message":"too old"}}"#);
        assert_eq!(ControlSockets.set(&tunnel, &routes()), Err(TunnelError("too old".to_owned())));
        drop(directory);
        let error = ControlSockets.clear(&tunnel).unwrap_err();
        assert!(error.to_string().contains("no psmcd answers on"), "{error}");
    }
}
