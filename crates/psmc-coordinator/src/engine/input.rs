//! What comes in.

use std::sync::Arc;
use std::time::Duration;

use psmc_signal::{Alert, Message};
use tokio::sync::oneshot;

use crate::config::Config;
use crate::publish::Published;
use crate::relay::News;
use crate::signal::{Joined, SessionId};
use crate::status::Status;

/// Why an order is not carried out. The text is for whoever gave it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Nobody knows that service.
    #[error("there is no service {0:?} here: `psmc-coordinator status` lists those there are")]
    UnknownService(String),
    /// Nobody knows that client.
    #[error("there is no client {0:?} here: the configuration lists those there are")]
    UnknownClient(String),
    /// A name that is too long to be kept.
    #[error("an alert's id has 1 to {MAX_ID} characters")]
    Id,
    /// There is no such alert to be renewed: it was cleared, or has lapsed.
    #[error("the alert {0:?} is not open: raise it anew")]
    NotOpen(String),
    /// Another coordinator decides, or none; why, for people.
    #[error("{0}")]
    NotLeading(String),
    /// What was ordered is done, but could not be kept, so that a restart may forget it; why, for people.
    #[error("it counts, but could not be kept, and may be forgotten: {0}")]
    NotKept(String),
}

/// Why nothing is done here, for whoever wants something done. `trouble` is what keeps this coordinator from leading, if it is
/// not that another one does.
#[must_use]
pub fn not_leading(leader: Option<&str>, trouble: Option<&str>) -> String {
    match (leader, trouble) {
        (Some(leader), _) => format!("this coordinator stands by, and {leader} leads: ask there"),
        (None, Some(trouble)) => format!("this coordinator stands by, and cannot lead: {trouble}"),
        (None, None) => "this coordinator stands by, and nobody leads: try again in a moment".to_owned(),
    }
}

/// The longest identifier of an alert, as the signal channel says.
pub const MAX_ID: usize = 64;

/// What somebody wants done.
#[derive(Clone, Debug)]
pub enum Order {
    /// A service is attacked.
    Alert {
        /// Who says so: alerts of different sources are different, whatever their identifiers.
        source: String,
        /// What is said.
        alert: Box<Alert>,
        /// For how long it counts unless it is renewed; as the configuration says for the source, if that is `None`.
        lasts: Option<Duration>,
    },
    /// An attack goes on.
    Renew {
        /// Whose alert it was.
        source: String,
        /// The alert's identifier.
        id: String,
        /// The service's name.
        service: String,
        /// For how long it counts unless it is renewed again, as above.
        lasts: Option<Duration>,
    },
    /// An attack is over.
    Clear {
        /// Whose alert it was.
        source: String,
        /// The alert's identifier.
        id: String,
        /// The service's name.
        service: String,
    },
    /// Relays are to be kept ready for a service.
    Prepare {
        /// Its name.
        service: String,
    },
    /// Whatever is done for a service ends.
    Withdraw {
        /// Its name.
        service: String,
    },
    /// A client misbehaves, or is trusted again.
    Block {
        /// Its name.
        client: String,
        /// Whether it is told nothing from here on.
        blocked: bool,
    },
}

/// What happens.
#[derive(Debug)]
pub enum Input {
    /// Somebody wants something done. `done` is told when it was kept.
    Order {
        /// What.
        order: Order,
        /// Who waits for it.
        done: oneshot::Sender<Result<(), OrderError>>,
    },
    /// Somebody asks how things are.
    Status(oneshot::Sender<Status>),
    /// A gateway or a client is there.
    Joined(Joined),
    /// It says something.
    Said {
        /// On which connection.
        session: SessionId,
        /// What.
        message: Message,
    },
    /// It is gone.
    Left(SessionId),
    /// A relay has answered, or has not.
    Relay(News),
    /// A name server has routes, or does not take them.
    Published(Published),
    /// The file was read anew.
    Configured(Arc<Config>),
}
