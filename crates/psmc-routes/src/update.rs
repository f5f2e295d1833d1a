//! Dynamic updates (RFC 2136) with TSIG (RFC 8945): how alternate routes get onto name servers.
//!
//! | module | what it has |
//! |---|---|
//! | [`TsigKey`] | the secret that a server knows its updaters by |
//! | [`Change`] | which records of a service are replaced by which |
//! | [`run()`], [`run_all`] | the change, or several, on many servers at once, with retries, and a [`Report`] of how it went |
//! | [`published`] | what a server has of a service |

mod change;
mod exchange;
mod key;
mod run;

use std::io;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::Name;
use thiserror::Error;

pub use crate::setting::{Server, ServerError};
pub use change::{Change, Scope};
pub use key::{TsigKey, TsigKeyError};
pub use run::{Mode, Patience, Report, ServerReport, Target, published, run, run_all};

/// Why a server has not done what it was asked.
#[derive(Debug, Error)]
pub enum UpdateError {
    /// There is no connection to be had.
    #[error("cannot connect: is a name server running there, and reachable by TCP?")]
    Connect(#[source] io::Error),
    /// The connection broke.
    #[error("connection lost")]
    Broken(#[source] io::Error),
    /// Nothing came in time.
    #[error("no answer within {0} ms")]
    Timeout(u128),
    /// The answer is no DNS message, or not one to this question.
    #[error("the answer is malformed: is this a name server?")]
    Malformed,
    /// The server knows no such key.
    #[error(
        "the server does not know the TSIG key: its configuration needs one of the same name and algorithm"
    )]
    BadKey,
    /// The server has another secret, or something changed the message.
    #[error("the server has another secret for the TSIG key: copy the secret again")]
    BadSignature,
    /// The clocks differ too much.
    #[error("the server's clock is {0} s ahead of this machine's: set both by NTP; TSIG tolerates 300 s")]
    BadTime(i128),
    /// The answer is not signed with our key, or signed wrongly.
    #[error(
        "the answer is not signed with the TSIG key: something else may be answering instead of the server"
    )]
    Unsigned,
    /// The key may not do it.
    #[error(
        "the server refuses: it has to let the key change the zone (BIND: allow-update or update-policy; Knot: acl \
         with action update; psmc-dns: update)"
    )]
    Refused,
    /// The server has no such zone, or is not its primary.
    #[error(
        "the server is not authoritative for the zone: name the zone as the server has it, and its primary"
    )]
    NotAuthoritative,
    /// The name is an alias.
    #[error(
        "the name is an alias (CNAME) of {0}, and can have no other records: publish the routes under another name, or under {0}"
    )]
    Alias(Name),
    /// The name belongs to another zone.
    #[error("the name is not in the zone: specify the zone that contains it")]
    NotInZone,
    /// The server had trouble of its own.
    #[error("the server failed (SERVFAIL): see its log")]
    ServerFailed,
    /// Anything else that it may say.
    #[error("the server answers {0}")]
    Other(ResponseCode),
    /// The server did not keep what it took.
    #[error(
        "the server accepted the update but does not serve the records: is another updater changing them?"
    )]
    NotServed,
}

impl UpdateError {
    /// Whether the same may succeed a moment later. Everything else takes a person.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Timeout(_)
            | Self::Malformed
            | Self::ServerFailed
            | Self::NotServed => true,
            Self::BadKey
            | Self::BadSignature
            | Self::BadTime(_)
            | Self::Unsigned
            | Self::Refused
            | Self::NotAuthoritative
            | Self::NotInZone
            | Self::Alias(_)
            | Self::Other(_) => false,
        }
    }

    /// The error that a response code stands for; `None` for success.
    fn of_code(code: ResponseCode) -> Option<Self> {
        if code == ResponseCode::NoError {
            return None;
        }
        let known = [
            (ResponseCode::ServFail, Self::ServerFailed),
            (ResponseCode::Refused, Self::Refused),
            (ResponseCode::NotAuth, Self::NotAuthoritative),
            (ResponseCode::NotZone, Self::NotInZone),
        ];
        let found = known.into_iter().find(|(known, _)| *known == code);
        Some(found.map_or(Self::Other(code), |(_, error)| error))
    }
}
