//! `psmc peer`

use super::args::PeerSetArgs;
use super::{CliError, path};
use crate::api::{Client, Request};

pub(super) fn set(client: &mut Client, args: PeerSetArgs) -> Result<(), CliError> {
    let request =
        Request::PeerSet { peer: args.peer.to_string(), scheduler: args.scheduler.as_str().to_owned() };
    path::command(client, &request)
}
