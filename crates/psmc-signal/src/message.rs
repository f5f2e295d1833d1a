//! The messages.

use std::net::SocketAddr;

use psmc_net::framing::Framed;
use psmc_wire::Malformed;
use psmc_wire::control::LENGTH_LEN;
use serde::{Deserialize, Serialize};

/// The version of these messages.
pub const VERSION: u16 = 1;

/// Who dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A guard, beside the gateway of one or more services.
    Gateway,
    /// A client of services, which wants to know their alternate routes.
    Client,
    /// A site that watches what was promised to it, and tells what floods prefixes of services that it may speak of.
    Watcher,
}

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// More packets or bytes than the service is used to.
    Rate,
    /// More new TCP connections than the service is used to.
    Syn,
    /// More sources that were never seen before.
    NewSources,
    /// Packets to the service are lost before they arrive.
    Loss,
    /// Whatever somebody else has found.
    Other,
}

/// What was measured, per second where it is a rate; what was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Packets per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<f64>,
    /// Bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<f64>,
    /// TCP SYNs per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syns: Option<f64>,
    /// Sources per second that had not been seen before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sources: Option<f64>,
    /// Share of packets lost on the way, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

/// A service is under attack. The same identifier again is news of the same attack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// Names the attack, for whoever reports it: up to 64 characters.
    pub id: String,
    /// The service's name, such as `www.example.com`. A watcher, which knows no names, leaves it empty: it counts by `target`.
    pub service: String,
    /// The destination that is flooded, as address or prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The kind of attack.
    pub kind: AlertKind,
    /// What was measured.
    #[serde(default)]
    pub measured: Measured,
    /// What of it is usual there, where that is known.
    #[serde(default)]
    pub usual: Measured,
}

/// Where a mitigation stands in its life (after RFC 9132 §4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Relays are reserved and gateways registered there; no client is told yet.
    Prepared,
    /// It is wanted, and on its way.
    Requested,
    /// Gateways are registered at relays and routes are published.
    Active,
    /// It is active, and the service is reached.
    Effective,
    /// It is active, and the service is not reached as it should be.
    Ineffective,
    /// Clear the alert; routes last until they expire.
    Expiring,
    /// It is over.
    Withdrawn,
}

/// A relay for a gateway to register at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayOffer {
    /// Its name, for people.
    pub name: String,
    /// Where it takes UDP and TCP.
    pub address: SocketAddr,
    /// Its public key, in base64.
    pub public_key: String,
    /// What the site shows to be served there, as `psmc grant` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

/// What a gateway is to do for a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mitigation {
    /// Names it; the same identifier again replaces what was said before.
    pub id: u64,
    /// The service's name.
    pub service: String,
    /// Where it stands. [`Stage::Withdrawn`] ends it: `relays` is empty then.
    pub stage: Stage,
    /// The relays to be registered at.
    pub relays: Vec<RelayOffer>,
    /// When it ends unless it is renewed, in seconds since 1970 (UTC).
    pub expires: u64,
    /// Whether these are the last of its relays: [`Message::mitigation`] makes several of one that is long.
    #[serde(default = "yes")]
    pub is_last: bool,
}

/// A legitimate client of a service, which its gateway is to let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Its public key, in base64.
    pub public_key: String,
    /// Its addresses inside the tunnel, as prefixes.
    pub allowed_ips: Vec<String>,
}

/// News of a service's alternate routes, for a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    /// The service's name.
    pub service: String,
    /// The contents of an ALT record, in base64, signed by the service and sealed to the client's group where it has one;
    /// absent if there are no alternate routes any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What the client shows to be served by these relays, as `psmc grant` prints it.
    #[serde(default)]
    pub grants: Vec<String>,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Message {
    /// Dialler: who it is.
    Hello {
        /// The version it speaks.
        version: u16,
        /// What it is.
        role: Role,
        /// The services that it is about.
        services: Vec<String>,
    },
    /// Coordinator: go on.
    Welcome {
        /// The version it speaks.
        version: u16,
    },
    /// Coordinator: that is not done, and why, for a person. After [`Message::Hello`] it ends the connection.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
    /// Gateway or watcher: a service is under attack. Answered with [`Message::Noted`], or with [`Message::Declined`] to a watcher.
    Alert(Alert),
    /// Gateway or watcher: the attack of that name is over. Answered with [`Message::Noted`].
    Clear {
        /// The alert's.
        id: String,
        /// The service's name.
        service: String,
    },
    /// Coordinator: what was said is on disk.
    Noted {
        /// The alert's.
        id: String,
    },
    /// Coordinator, to watchers: what was said is not taken, and why, for a person. The connection goes on.
    Declined {
        /// The alert's.
        id: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Coordinator, to gateways: what to do, or a part of it. Answered with [`Message::Ready`] as soon as it is done.
    Mitigation(Mitigation),
    /// Coordinator, to gateways: who is let in, a part of the list.
    Clients {
        /// The service's name.
        service: String,
        /// Names the list of which this is a part.
        revision: u64,
        /// Some of them.
        clients: Vec<Client>,
        /// Whether that is the last part. Who is not in the list is not let in any more.
        is_last: bool,
    },
    /// Gateway: it is registered at these relays, and not at the others.
    Ready {
        /// The mitigation's.
        id: u64,
        /// The public keys of the relays.
        relays: Vec<String>,
        /// Whether these are the last ones: [`Message::ready`] makes several messages of many.
        #[serde(default = "yes")]
        is_last: bool,
    },
    /// Gateway, every second while a mitigation is active: how the service fares.
    Report {
        /// The service's name.
        service: String,
        /// What arrives at the direct address.
        direct: Measured,
        /// What arrives through relays.
        through_relays: Measured,
    },
    /// Gateway or client: a relay has failed.
    RelayFailed {
        /// The service's name.
        service: String,
        /// The relay's public key.
        relay: String,
        /// Why, for people.
        reason: String,
    },
    /// Coordinator, to clients: the alternate routes of a service have changed.
    Routes(Routes),
    /// Either side: it is still there. Every two seconds of silence; the other side is gone after six.
    Ping,
    /// What a later version says; to be passed over.
    #[serde(other)]
    Unknown,
}

/// A message without a word about parts is whole.
fn yes() -> bool {
    true
}

impl Framed for Message {
    fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(frame).map_err(|_| Malformed::Illegal("message of the signal channel"))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; LENGTH_LEN]);
        serde_json::to_writer(&mut *out, self).expect("a message has no maps and no errors of its own");
        let len = u32::try_from(out.len() - start - LENGTH_LEN).unwrap_or(u32::MAX);
        out[start..start + LENGTH_LEN].copy_from_slice(&len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(&mut out);
        out
    }

    #[test]
    fn messages_survive_the_way() {
        let alert = Message::Alert(Alert {
            id: "hq-1".to_owned(),
            service: "www.example.com".to_owned(),
            target: Some("203.0.113.10/32".to_owned()),
            kind: AlertKind::NewSources,
            measured: Measured { new_sources: Some(12_000.5), ..Measured::default() },
            usual: Measured::default(),
        });
        let routes = Message::Routes(Routes {
            service: "www.example.com".to_owned(),
            record: None,
            grants: Vec::new(),
        });
        for message in [alert, routes, Message::Ping, Message::Noted { id: "hq-1".to_owned() }] {
            let bytes = bytes(&message);
            assert_eq!(
                usize::try_from(u32::from_be_bytes(*bytes.first_chunk().unwrap())).unwrap(),
                bytes.len() - 4
            );
            assert_eq!(Message::decode(&bytes[LENGTH_LEN..]), Ok(message));
        }
    }

    #[test]
    fn later_versions_are_passed_over_and_nonsense_is_not() {
        assert_eq!(Message::decode(br#"{"type":"telepathy"}"#), Ok(Message::Unknown));
        assert!(Message::decode(br#"{"type":"alert"}"#).is_err());
        assert!(Message::decode(b"\xff").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes);
        }
    }
}
