//! The signal channel's end that accepts: gateways and clients.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use psmc_net::keys::PublicKey;
use psmc_net::tls::Secured;
use psmc_signal::connection::{ConnectionError, Greeting, QUEUE};
use psmc_signal::{Message, Role};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::engine::Input;
use crate::error_chain;
use crate::seat::Standing;

/// Connections that are served at a time: four of each client that there can be, while old ones have not been missed yet.
const MAX_CONNECTIONS: usize = 8192;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Whoever has dialled and is let in.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The connection.
    pub session: SessionId,
    /// Who it is.
    pub key: PublicKey,
    /// What it is.
    pub role: Role,
    /// Where messages to it are put. When all of these are gone, the connection ends.
    pub outgoing: mpsc::Sender<Message>,
}

/// Who may shake hands: gateways, watchers and clients of the configuration.
#[must_use]
pub fn known_keys(config: &Config) -> BTreeSet<PublicKey> {
    let gateways = config.services.iter().filter_map(|service| service.gateway);
    let watchers = config.services.iter().flat_map(|service| service.watchers.iter().copied());
    gateways.chain(watchers).chain(config.clients.iter().map(|client| client.public_key)).collect()
}

/// What decides who is let in, and what hears them.
#[derive(Clone, Debug)]
pub struct Door {
    /// Who is known.
    pub config: watch::Receiver<Arc<Config>>,
    /// Whether anybody is let in at all.
    pub standing: watch::Receiver<Standing>,
    /// What hears what is said.
    pub engine: mpsc::Sender<Input>,
}

/// Serves all who come.
pub async fn serve(door: Door, mut accepted: mpsc::Receiver<(Secured, SocketAddr)>) {
    let mut connections = JoinSet::new();
    let numbers = AtomicU64::new(1);
    loop {
        tokio::select! {
            // What has ended makes room; a panic has been reported where it happened.
            Some(_) = connections.join_next() => {}
            next = accepted.recv() => {
                let Some((secured, from)) = next else { return };
                if connections.len() >= MAX_CONNECTIONS {
                    tracing::debug!(%from, "hung up: too many connections");
                    continue;
                }
                let session = SessionId(numbers.fetch_add(1, Ordering::Relaxed));
                let door = door.clone();
                connections.spawn(async move { door.serve_one(secured, from, session).await });
            }
        }
    }
}

impl Door {
    async fn serve_one(&self, secured: Secured, from: SocketAddr, session: SessionId) {
        let key = secured.peer;
        if let Err(end) = self.converse(secured, session).await {
            tracing::debug!(%from, %key, end = error_chain(&end), "a signal connection has ended");
        }
    }

    async fn converse(&self, secured: Secured, session: SessionId) -> Result<(), ConnectionError> {
        let key = secured.peer;
        let greeting = Greeting::receive(secured.stream).await?;
        let role = greeting.role;
        let standing = self.standing.borrow().refusal();
        if let Some(reason) =
            standing.or_else(|| refusal(&self.config.borrow(), key, role).map(str::to_owned))
        {
            greeting.refuse(reason).await;
            return Ok(());
        }
        let channel = greeting.welcome().await?;
        let (outgoing, mut to_send) = mpsc::channel(QUEUE);
        if self.engine.send(Input::Joined(Joined { session, key, role, outgoing })).await.is_err() {
            return Ok(());
        }
        let (incoming, mut said) = mpsc::channel(1);
        let pass_on = async {
            while let Some(message) = said.recv().await {
                if self.engine.send(Input::Said { session, message }).await.is_err() {
                    return;
                }
            }
        };
        let end = tokio::select! {
            error = channel.run(&mut to_send, &incoming) => Err(error),
            () = pass_on => Ok(()),
        };
        // Fails only when the engine has ended.
        let _ = self.engine.send(Input::Left(session)).await;
        end
    }
}

/// Why somebody whose key is known is not let in.
pub(crate) fn refusal(config: &Config, key: PublicKey, role: Role) -> Option<&'static str> {
    match role {
        Role::Gateway => {
            let speaks = config.services.iter().any(|service| service.gateway == Some(key));
            (!speaks).then_some("no [[service]] has this key as its `gateway`")
        }
        Role::Watcher => {
            let watches = config.services.iter().any(|service| service.watchers.contains(&key));
            (!watches).then_some("no [[service]] has this key among its `watchers`")
        }
        Role::Client => {
            let is_client = config.clients.iter().any(|client| client.public_key == key);
            (!is_client).then_some("no [[client]] has this key")
        }
    }
}
