//! Alternate routes: relays through which a service is reached when the direct way is dead.
//!
//! A [`RouteSet`] is what a service says of itself. It becomes [`SignedRoutes`] by the service's own key, and travels as
//! [`AltRecord`]s, in the open or sealed to a group of clients, or as SVCB records. Whoever reads records has claims:
//! only [`SignedRoutes::verify`] makes them a route set again. So a name server can withhold routes, but neither forge
//! nor move them to another name; a replay is bounded by serial and expiry.
//!
//! | module | what it has |
//! |---|---|
//! | [`update`] | how routes get onto name servers: dynamic updates with TSIG, to many servers at once |
//! | [`wire`] | messages and records as they travel, with whatever is in them |
//! | [`setting`] | what the configurations of all who have to do with routes have alike |
//!
//! `docs/DNS.md` specifies all of it to the bit.

mod alt;
mod seal;
mod set;
pub mod setting;
mod svcb;
pub mod update;
pub mod wire;

pub use alt::{ALT, AltRecord};
pub use seal::{GroupKey, SealedRoutes};
pub use set::{GROUP_TAG_LEN, GroupTag, MAX_LIFETIME_S, MAX_RELAYS, Relay, RouteSet, SignedRoutes, Validity};
pub use svcb::{SVCB_PREFIX, svcb_name, svcb_records, svcb_routes};

pub(crate) use psmc_service::error_chain;

use thiserror::Error;

/// Why a route set cannot be made, or records are not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// There are no relays, or too many.
    #[error("a route set has 1 to {MAX_RELAYS} relays, not {0}")]
    RelayCount(usize),
    /// Two entries lead to one address.
    #[error("the relay {0} is in the set twice")]
    Twice(std::net::SocketAddr),
    /// An address that nothing can be sent to.
    #[error("{0} is not the address and port of a relay")]
    Address(std::net::SocketAddr),
    /// A name that cannot have routes.
    #[error("{0} is not a valid service name: use an absolute host name")]
    Service(String),
    /// The bytes end too early, or go on.
    #[error("the record's length does not fit its contents")]
    Length,
    /// A record of a form that this release does not know.
    #[error("the record has the unknown form {0}: a newer release is needed")]
    Form(u8),
    /// An SVCB record that carries no route.
    #[error("the SVCB record is not an alternate route: {0}")]
    Svcb(&'static str),
    /// SVCB records of one set of which some are missing.
    #[error("incomplete set of SVCB records: {found} of {expected}")]
    Incomplete {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// The record is sealed to others, or was changed.
    #[error("the record is sealed with another group's key, or for another name")]
    Sealed,
    /// The signature is not the service's.
    #[error("the routes are not signed by the service")]
    Forged,
    /// The set has expired.
    #[error("the routes expired {0} s ago")]
    Expired(u64),
    /// The set lasts longer than anything may.
    #[error("the routes' lifetime of {0} s exceeds the limit of {MAX_LIFETIME_S} s")]
    TooLong(u64),
    /// The client has seen a newer set.
    #[error("the routes have the serial {found}, lower than {seen}, which was already seen")]
    Replayed {
        /// The serial of these.
        found: u64,
        /// The serial of newer ones.
        seen: u64,
    },
}

#[cfg(test)]
mod tests;
