//! What a server and its routers say to each other.
//!
//! A connection is TLS 1.3 between keys that both sides know, dialled by the server under [`ALPN`]; its messages are JSON in the
//! frames of other control connections (a length of four bytes before each). A router says at once which rules it has of this
//! server. The server says what it wants, all of it, and says it again before that expires. The router answers each
//! [`Message::Rules`], and tells twice a second what has come.

use psmc_net::framing::Framed;
use psmc_wire::Malformed;
use psmc_wire::control::LENGTH_LEN;
use serde::{Deserialize, Serialize};

/// What both sides name in the ALPN extension (RFC 7301).
pub const ALPN: &[u8] = b"psmc-shed/1";

/// Rules of a server that a router takes at most, whatever its file says: as many as are in a message with room to spare.
pub const MAX_RULES: usize = 64;

/// A rule that a server wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// What the server calls it: a name as files have them.
    pub name: String,
    /// The destination, a prefix.
    pub destination: String,
    /// Where packets come from, a prefix; anywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The protocol's number; any protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The first and the last destination port; any port if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// Bytes of IP packets per second that may pass; absent to have arrivals counted only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

/// All rules that a server wants of a router, in place of those it wanted before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Larger than that of any message before, over restarts too: milliseconds since 1970 at least.
    pub serial: u64,
    /// When they end unless they are said again, in milliseconds since 1970 (UTC).
    pub expires_ms: u64,
    /// The rules.
    pub rules: Vec<Wanted>,
}

/// Why a router does not take a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Its destination is not this server's.
    Foreign,
    /// Another rule of the same message says something else of the same packets.
    Contradictory,
    /// It is none: no name, no prefix, no range of ports, or a rate beyond all lines.
    Illegal,
    /// A word of a later version.
    #[serde(other)]
    Other,
}

/// A rule that a router does not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The rule.
    pub name: String,
    /// Why.
    pub reason: Reason,
}

/// Why a router takes nothing of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decline {
    /// Its serial number is no larger than one that came before.
    Replayed,
    /// It had ended before it came.
    Expired,
    /// It has more rules than this server may have here.
    TooMany,
    /// A word of a later version.
    #[serde(other)]
    Other,
}

/// What has come for a rule since it was installed, in bytes of IP packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The rule.
    pub name: String,
    /// What has come.
    pub offered: u64,
    /// What of it was dropped.
    pub dropped: u64,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Message {
    /// Server: what it wants.
    Rules(Rules),
    /// Router, at once: what it has of this server, from another connection. The server's first rules go on from there.
    Held {
        /// The rules, with their rates.
        rules: Vec<Wanted>,
    },
    /// Router: it is installed, but for what is refused.
    Taken {
        /// The message's.
        serial: u64,
        /// For how many milliseconds it is: no longer than this server may have rules here.
        lasts_ms: u64,
        /// What is not installed.
        refused: Vec<Refusal>,
    },
    /// Router: nothing of it is taken, and nothing has changed.
    Declined {
        /// The message's.
        serial: u64,
        /// Why.
        reason: Decline,
        /// How many rules this server may have here.
        max_rules: usize,
    },
    /// Router: what has come.
    Report {
        /// When that was counted, in milliseconds of a clock of the router's own that never goes back.
        at_ms: u64,
        /// Whether limits are enforced at present.
        enforced: bool,
        /// What has come for each rule that is installed.
        counts: Vec<Count>,
    },
    /// What a later version says; to be passed over.
    #[serde(other)]
    Unknown,
}

impl Framed for Message {
    fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(frame).map_err(|_| Malformed::Illegal("message of psmc-shed"))
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
    use proptest::prelude::*;
    use psmc_wire::control::MAX_MESSAGE;

    use super::*;

    fn bytes(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(&mut out);
        out
    }

    fn longest() -> [Message; 4] {
        let name = "x".repeat(32);
        let wanted = Wanted {
            name: name.clone(),
            destination: "2001:0db8:1111:2222:3333:4444:5555:6666/128".to_owned(),
            source: Some("2001:0db8:1111:2222:3333:4444:5555:6666/128".to_owned()),
            protocol: Some(132),
            ports: Some((u16::MAX, u16::MAX)),
            rate: Some(u64::MAX),
        };
        let rules = Rules { serial: u64::MAX, expires_ms: u64::MAX, rules: vec![wanted; MAX_RULES] };
        let refused = vec![Refusal { name: name.clone(), reason: Reason::Contradictory }; MAX_RULES];
        let count = Count { name, offered: u64::MAX, dropped: u64::MAX };
        [
            Message::Held { rules: rules.rules.clone() },
            Message::Rules(rules),
            Message::Taken { serial: u64::MAX, lasts_ms: u64::MAX, refused },
            Message::Report { at_ms: u64::MAX, enforced: false, counts: vec![count; MAX_RULES] },
        ]
    }

    #[test]
    fn the_longest_messages_may_be_sent() {
        for message in longest() {
            let bytes = bytes(&message);
            assert!(bytes.len() <= MAX_MESSAGE, "{}", bytes.len());
            assert_eq!(Message::decode(&bytes[LENGTH_LEN..]).unwrap(), message);
        }
    }

    #[test]
    fn later_words_are_passed_over_and_nonsense_is_not() {
        assert_eq!(Message::decode(br#"{"type":"telepathy"}"#), Ok(Message::Unknown));
        let later = br#"{"type":"declined","serial":1,"reason":"tired","max_rules":1}"#;
        assert!(matches!(Message::decode(later), Ok(Message::Declined { reason: Decline::Other, .. })));
        for bad in [
            &br#"{"type":"rules"}"#[..],
            br#"{"type":"rules","serial":1,"expires_ms":2,"rules":[{"name":"a","destination":"x","rate":-1}]}"#,
            br#"{"type":"rules","serial":1,"expires_ms":2,"rules":[{"name":"a","destination":"x","rate":1e999}]}"#,
            b"\xff",
        ] {
            assert!(Message::decode(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes);
        }
    }
}
