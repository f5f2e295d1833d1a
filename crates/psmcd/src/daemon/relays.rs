//! The site's side of relays: connections to them, sessions there for paths, and byte streams through them.
//!
//! | module | what it has |
//! |---|---|
//! | `client` | one connection to a relay: requests and answers |
//! | `reach` | byte streams to where only relays lead |
//! | `grants` | what this site may show to relays that do not know it |
//! | `registration` | one relay at which this site is a gateway |
//! | `gateway` | which relays these are |
//! | `chain` | the sessions of one path, at each of its relays |
//! | `keeper` | the task that keeps them for as long as the path lives |
//! | `judge` | whether a path is so bad that another relay should have it |
//! | `measure` | how good paths are beside each other |
//! | `known` | the relays that this site knows, and what it has to do with them |
//! | `spares` | the relays that take the place of those that fail |

mod chain;
mod client;
mod gateway;
mod grants;
mod judge;
mod keeper;
mod known;
mod measure;
mod reach;
mod registration;
mod spares;

pub(super) use chain::{Destination, Wanted};
pub(super) use client::RelayCounts;
pub(super) use grants::{Grants, GrantsFor};
pub(super) use keeper::{Keeper, KeeperSpec, Keeping, RelayReading};
pub(super) use known::{Lead, Relays};
pub(super) use measure::LOOK_INTERVAL;
use measure::Looks;
pub(super) use reach::{BoxedStream, Caller, Goal, LocalEnd, reach};
pub(super) use spares::Spares;

use psmc_net::tls::TlsError;
use psmc_net::tls::tcp::TcpError;
use psmc_wire::relay::{Refusal, Refused};
use thiserror::Error;

use crate::config::Name;

/// Why a relay is of no use at the moment.
#[derive(Debug, Error)]
pub(super) enum RelayError {
    /// Its name, or that of what it shall lead to, has no address.
    #[error("cannot resolve `{0}`: check the name, or the resolver")]
    Unresolved(crate::config::Endpoint),
    /// TCP did not connect.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The handshake failed, or the connection was lost.
    #[error("the relay {relay} cannot be used")]
    Tls {
        /// The relay.
        relay: Name,
        /// What went wrong.
        source: TlsError,
    },
    /// Somebody called through it, and did not show that he may.
    #[error("a call through the relay {relay} failed")]
    Call {
        /// The relay.
        relay: Name,
        /// What went wrong.
        source: TlsError,
    },
    /// It does not do what it was asked for.
    #[error("refused by the relay {relay}: {}", refused.text)]
    Refused {
        /// The relay.
        relay: Name,
        /// Its answer.
        refused: Refused,
    },
    /// It says what makes no sense.
    #[error("protocol violation by the relay {relay}")]
    Protocol {
        /// The relay.
        relay: Name,
    },
    /// It does not answer.
    #[error("the relay {relay} does not answer")]
    Silent {
        /// The relay.
        relay: Name,
    },
}

impl RelayError {
    /// Whether it is not for the relay to help: the gateway is not there.
    pub(super) fn is_of_gateway(&self) -> bool {
        matches!(self, Self::Refused { refused, .. } if refused.reason == Refusal::NoGateway)
    }
}
