//! `psmc peer`

use super::CliError;
use super::args::PeerSetArgs;
use psmcd::api::{Client, Request};

pub(super) fn set(client: &mut Client, args: PeerSetArgs) -> Result<(), CliError> {
    let request =
        Request::PeerSet { peer: args.peer.to_string(), scheduler: args.scheduler.as_str().to_owned() };
    Ok(client.order(&request)?)
}
