//! `psmc path`

use super::args::{MaxRate, PathAddArgs, PathSetArgs, StateArg};
use super::{CliError, output, table};
use psmc_api::{Client, PathSpec, PeerPaths, RateLimit, Request, WantedState};
use psmcd::config::{Name, Rate, Weight};

pub(super) fn list(client: &mut Client, peer: Option<Name>, json: bool) -> Result<(), CliError> {
    let paths = client.paths(peer.as_ref().map(Name::as_str))?;
    let text = if json { output::json(&paths)? } else { text(&paths) };
    Ok(output::print(&text)?)
}

fn text(peers: &[PeerPaths]) -> String {
    let peers = peers.iter().map(|peer| {
        format!("peer {}\n{}{}", peer.peer, table::paths(&peer.paths), table::reasons(&peer.paths))
    });
    peers.collect::<Vec<_>>().join("\n")
}

pub(super) fn add(client: &mut Client, args: PathAddArgs) -> Result<(), CliError> {
    let path = PathSpec {
        name: args.path.to_string(),
        interface: args.interface.map(|name| name.to_string()),
        address: args.address.map(|address| address.get()),
        relays: args.relays.iter().map(ToString::to_string).collect(),
        endpoint: args.endpoint.map(|endpoint| endpoint.to_string()),
        weight: args.weight.map(Weight::get),
        max_rate_bits_per_second: args.max_rate.map(Rate::bits_per_second),
        mtu: args.mtu.map(|mtu| mtu.get()),
        congestion: args.congestion.map(|congestion| congestion.as_str().to_owned()),
    };
    if let Some(note) = client.order_noted(&Request::PathAdd { peer: args.peer.to_string(), path })? {
        output::warn(&note);
    }
    Ok(())
}

pub(super) fn remove(client: &mut Client, peer: Name, path: Name) -> Result<(), CliError> {
    Ok(client.order(&Request::PathRemove { peer: peer.to_string(), path: path.to_string() })?)
}

pub(super) fn set(client: &mut Client, args: PathSetArgs) -> Result<(), CliError> {
    let request = Request::PathSet {
        peer: args.peer.to_string(),
        path: args.path.to_string(),
        weight: args.weight.map(Weight::get),
        max_rate: args.max_rate.map(|limit| match limit {
            MaxRate::None => RateLimit::None,
            MaxRate::Limit(rate) => RateLimit::BitsPerSecond(rate.bits_per_second()),
        }),
        state: args.state.map(|state| match state {
            StateArg::Active => WantedState::Active,
            StateArg::Standby => WantedState::Standby,
        }),
        congestion: args.congestion.map(|congestion| congestion.as_str().to_owned()),
    };
    Ok(client.order(&request)?)
}
