//! Which addresses are those of which peer of psmcd's: asked of its control socket again and again, since peers come and go, and one
//! stands in for another.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use psmc_api::{Client, ClientError, PeerStatus};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::proxy::Front;

/// How often psmcd is asked: a peer that takes another one's networks over is known within a second.
const EVERY: Duration = Duration::from_secs(1);

/// The networks of psmcd's peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(Vec<(IpNet, String)>);

impl Peers {
    /// What psmcd says of its peers, but for the networks for which they stand by.
    fn told(peers: &[PeerStatus]) -> Self {
        let of = |peer: &PeerStatus| {
            let networks = peer.allowed_ips.iter().filter(|network| !peer.stands_by_for.contains(network));
            let networks = networks.filter_map(|network| network.parse::<IpNet>().ok());
            networks.map(|network| (network, peer.name.clone())).collect::<Vec<_>>()
        };
        Self(peers.iter().flat_map(of).collect())
    }

    /// The peer that packets from this address come from: that of the smallest network, as psmcd has it.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Option<&str> {
        let having = self.0.iter().filter(|(network, _)| network.contains(&address));
        having.max_by_key(|(network, _)| network.prefix_len()).map(|(_, name)| name.as_str())
    }
}

/// Asks psmcd for ever, while a class needs it. Where psmcd does not answer nobody is known: no packet comes from a peer then either.
pub(crate) async fn follow(front: Arc<Front>) {
    let mut client = None;
    let mut is_failing = false;
    loop {
        let state = front.state();
        if state.config.uses_peers() {
            let socket = state.config.psmcd.as_ref().map(|socket| socket.as_path().to_owned());
            let (kept, told) = ask(client.take(), socket).await;
            client = kept;
            match told {
                Ok(peers) => {
                    is_failing = false;
                    front.set_peers(peers);
                }
                Err(error) => {
                    front.set_peers(Peers::default());
                    if !std::mem::replace(&mut is_failing, true) {
                        let error = crate::error_chain(&error);
                        tracing::warn!(
                            error,
                            "psmcd does not say who its peers are; no request is of a class of one"
                        );
                    }
                }
            }
        }
        sleep(EVERY).await;
    }
}

type Connection = (Client, Option<PathBuf>);

/// Asks once, on the connection that is there if it leads to the same socket.
async fn ask(
    kept: Option<Connection>,
    socket: Option<PathBuf>,
) -> (Option<Connection>, Result<Peers, ClientError>) {
    let asked = spawn_blocking(move || {
        let connected = match kept.filter(|(_, of)| *of == socket) {
            Some((client, _)) => Ok(client),
            None => match &socket {
                Some(path) => Client::connect(path),
                None => Client::connect_to_only_site(),
            },
        };
        let mut client = match connected {
            Ok(client) => client,
            Err(error) => return (None, Err(error)),
        };
        match client.status() {
            Ok(status) => (Some((client, socket)), Ok(Peers::told(&status.peers))),
            Err(error) => (None, Err(error)),
        }
    });
    // It ends with the program only.
    asked.await.unwrap_or((None, Err(ClientError::NoAnswer { program: "psmcd" })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_network_says_whose_an_address_is() {
        let networks = [("10.0.0.0/8", "hq"), ("10.1.0.0/16", "van"), ("2001:db8::/32", "hq")];
        let peers = Peers(networks.map(|(network, name)| (network.parse().unwrap(), name.to_owned())).into());
        for (address, name) in [
            ("10.1.2.3", Some("van")),
            ("10.2.2.3", Some("hq")),
            ("2001:db8::1", Some("hq")),
            ("192.0.2.1", None),
        ] {
            assert_eq!(peers.of(address.parse().unwrap()), name, "{address}");
        }
    }
}
