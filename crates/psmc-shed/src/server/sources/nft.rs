//! Limits of somebody else's rules in nftables, as `nft -j` lists them (libnftables-json(5)).
//!
//! A rule is understood that has one `limit` of its own, matches nothing but the address or prefix of destination and source, the protocol, and
//! destination ports, by `==`, and ends with `drop` (`limit rate over …`) or `accept` (`limit rate …`). Counters and comments do not
//! count. Rules without a limit are passed over.

use psmc_net::nft::{NftError, nft};
use serde_json::Value;
use thiserror::Error;

use crate::class::{Class, Ports, Protocol};
use crate::config::{Chain, NftLimits};
use crate::router::register::MAX_RATE;

/// Why nothing can be said.
#[derive(Debug, Error)]
pub enum LimitsError {
    /// The rules cannot be read.
    #[error("{0}")]
    NotListed(String),
    /// nftables refuses.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// It says something else.
    #[error("unexpected output of `nft -j`")]
    Malformed(#[from] serde_json::Error),
    /// There is no rule of these packets.
    #[error("{chain} has no limit of {class}{}", others(.not_understood))]
    NoLimit {
        /// Where.
        chain: String,
        /// The packets.
        class: String,
        /// Rules with limits that are not understood, and why.
        not_understood: Vec<String>,
    },
    /// The rule limits packets.
    #[error("{chain} limits {class} by packets: add packet_bytes to the file, how large they are")]
    Packets {
        /// Where.
        chain: String,
        /// The packets.
        class: String,
    },
}

fn others(not_understood: &[String]) -> String {
    match not_understood {
        [] => String::new(),
        some => format!("; not understood are {}", some.join(", ")),
    }
}

/// What a limit is of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    Bytes(f64),
    Packets(f64),
}

/// A rule with a limit.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    /// Its packets, but for the destination if it has none: of every destination.
    destination: Option<ipnet::IpNet>,
    source: Option<ipnet::IpNet>,
    protocol: Option<Protocol>,
    ports: Option<Ports>,
    rate: Rate,
}

/// The limits of a chain, or of all chains of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    chain: String,
    limits: Vec<Limit>,
    not_understood: Vec<String>,
}

/// Lists a chain, or a table.
///
/// # Errors
/// [`LimitsError`].
pub(super) fn list(chain: &Chain) -> Result<Limits, LimitsError> {
    let mut arguments = vec!["-j", "list", if chain.chain.is_some() { "chain" } else { "table" }];
    arguments.extend([chain.family.as_str(), chain.table.as_str()]);
    arguments.extend(chain.chain.as_deref());
    let output = nft(&arguments, "")?;
    Ok(parse(&serde_json::from_slice(&output.stdout)?, chain.to_string()))
}

impl Limits {
    /// Bytes per second that rules let pass of a class: of those that are about its packets and no others, the lowest. A rule
    /// without a destination is about every one.
    ///
    /// # Errors
    /// [`LimitsError`].
    pub(super) fn of(&self, class: &Class, follow: &NftLimits) -> Result<u64, LimitsError> {
        let is_of = |limit: &&Limit| {
            limit.destination.is_none_or(|destination| destination == class.destination())
                && (limit.source, limit.protocol, limit.ports)
                    == (class.source(), class.protocol(), class.ports())
        };
        let (chain, class) = (self.chain.clone(), class.to_string());
        let mut lowest: Option<f64> = None;
        for limit in self.limits.iter().filter(is_of) {
            let rate = match (limit.rate, follow.packet_bytes) {
                (Rate::Bytes(rate), _) => rate,
                (Rate::Packets(rate), Some(bytes)) => rate * f64::from(bytes),
                (Rate::Packets(_), None) => return Err(LimitsError::Packets { chain, class }),
            };
            lowest = Some(lowest.map_or(rate, |lowest| lowest.min(rate)));
        }
        let Some(rate) = lowest else {
            return Err(LimitsError::NoLimit { chain, class, not_understood: self.not_understood.clone() });
        };
        // A limit beyond all lines is none.
        Ok(crate::server::engine::whole(rate).min(MAX_RATE))
    }
}

fn parse(listing: &Value, chain: String) -> Limits {
    let mut limits = Limits { chain, ..Limits::default() };
    for object in listing["nftables"].as_array().into_iter().flatten() {
        let rule = &object["rule"];
        let Some(expressions) = rule["expr"].as_array() else { continue };
        if expressions.iter().all(|expression| expression.get("limit").is_none()) {
            continue;
        }
        match limit(expressions) {
            Ok(limit) => limits.limits.push(limit),
            Err(what) => {
                let (chain, handle) = (rule["chain"].as_str().unwrap_or("?"), &rule["handle"]);
                limits.not_understood.push(format!("handle {handle} of {chain} ({what})"));
            }
        }
    }
    limits
}

/// The limit of a rule, or what of it is not understood.
fn limit(expressions: &[Value]) -> Result<Limit, String> {
    let mut found =
        Limit { destination: None, source: None, protocol: None, ports: None, rate: Rate::Bytes(0.0) };
    let mut over = None;
    let mut ends = None;
    for expression in expressions {
        let Some((kind, value)) = expression.as_object().and_then(|object| object.iter().next()) else {
            return Err("an expression without a name".to_owned());
        };
        match kind.as_str() {
            "counter" => {}
            "match" => matched(value, &mut found).ok_or_else(|| "a match of something else".to_owned())?,
            "limit" if over.is_none() => {
                found.rate = rate(value).ok_or_else(|| "a limit that refers to another".to_owned())?;
                over = Some(value["inv"].as_bool().unwrap_or(false));
            }
            "limit" => return Err("two limits".to_owned()),
            "drop" | "accept" => ends = Some(kind == "drop"),
            other => return Err(format!("`{other}`")),
        }
    }
    if over.is_some() && ends == over { Ok(found) } else { Err("another end than drop or accept".to_owned()) }
}

/// What a rule matches by one expression; `None` if that is not understood, or matches twice.
fn matched(value: &Value, found: &mut Limit) -> Option<()> {
    if value["op"] != "==" {
        return None;
    }
    let (left, right) = (&value["left"], &value["right"]);
    let payload = &left["payload"];
    let (protocol, field) = (payload["protocol"].as_str(), payload["field"].as_str());
    let is_protocol = left["meta"]["key"] == "l4proto"
        || matches!((protocol, field), (Some("ip"), Some("protocol")) | (Some("ip6"), Some("nexthdr")));
    if is_protocol {
        return set(&mut found.protocol, protocol_of(right)?);
    }
    match (protocol?, field?) {
        ("ip" | "ip6", "daddr") => set(&mut found.destination, net(right)?),
        ("ip" | "ip6", "saddr") => set(&mut found.source, net(right)?),
        ("th", "dport") => set(&mut found.ports, ports(right)?),
        (of, "dport") => {
            // `udp dport` after `meta l4proto udp` says it twice.
            set(&mut found.protocol, Protocol::parse(of)?)?;
            set(&mut found.ports, ports(right)?)
        }
        _ => None,
    }
}

fn set<T: PartialEq>(place: &mut Option<T>, value: T) -> Option<()> {
    let is_same = place.as_ref().is_none_or(|there| *there == value);
    *place = Some(value);
    is_same.then_some(())
}

fn protocol_of(value: &Value) -> Option<Protocol> {
    match value.as_u64() {
        Some(number) => u8::try_from(number).ok().map(Protocol),
        None => Protocol::parse(value.as_str()?),
    }
}

fn net(value: &Value) -> Option<ipnet::IpNet> {
    if let Some(address) = value.as_str() {
        return address.parse::<std::net::IpAddr>().ok().map(ipnet::IpNet::from);
    }
    let prefix = &value["prefix"];
    let len = u8::try_from(prefix["len"].as_u64()?).ok()?;
    ipnet::IpNet::new(prefix["addr"].as_str()?.parse().ok()?, len).ok()
}

fn ports(value: &Value) -> Option<Ports> {
    let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    if let Some(port) = port(value) {
        return Ports::new(port, port);
    }
    Ports::new(port(value["range"].get(0)?)?, port(value["range"].get(1)?)?)
}

fn rate(value: &Value) -> Option<Rate> {
    let number = value["rate"].as_f64()?;
    let seconds = match value["per"].as_str()? {
        "second" => 1.0,
        "minute" => 60.0,
        "hour" => 3_600.0,
        "day" => 86_400.0,
        "week" => 604_800.0,
        _ => return None,
    };
    let per_second = number / seconds;
    match value.get("rate_unit").and_then(Value::as_str) {
        None | Some("packets") => Some(Rate::Packets(per_second)),
        Some("bytes") => Some(Rate::Bytes(per_second)),
        Some("kbytes") => Some(Rate::Bytes(per_second * 1024.0)),
        Some("mbytes") => Some(Rate::Bytes(per_second * 1024.0 * 1024.0)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use psmc_testbed::netns::Namespace;

    use super::*;
    use crate::class::tests::class;

    const RULES: &str = "table inet t {
chain input { type filter hook input priority 0
tcp dport 443 limit rate over 10 mbytes/second burst 64 kbytes drop
ip daddr 203.0.113.10 udp dport 80-90 counter limit rate 1000/second accept
ip daddr 203.0.113.0/24 meta l4proto icmp limit rate over 120 bytes/minute drop comment \"pings\"
ip6 daddr 2001:db8::/32 limit rate over 5 kbytes/second drop
tcp dport 22 accept
meta mark 7 tcp dport 80 limit rate over 7 bytes/second drop
udp dport { 5, 6 } limit rate over 7 bytes/second drop
tcp dport 25 limit rate 7 bytes/second drop
tcp dport 26 limit rate over 7 bytes/second log drop
tcp dport 443 limit rate over 9 mbytes/second drop
ip saddr 192.0.2.0/24 tcp dport 443 limit rate over 3 mbytes/second drop
}
chain other {
tcp dport 99 limit rate over 1 bytes/second drop
}
}
";

    fn follow(text: &str, packet_bytes: Option<u16>) -> NftLimits {
        NftLimits { chain: Chain::parse(text).unwrap(), packet_bytes }
    }

    #[test]
    fn rules_are_understood_as_nftables_lists_them() {
        let namespace = Namespace::new().expect("this test needs root");
        let limits = namespace.run(|| {
            nft(&["-f", "-"], RULES).unwrap();
            list(&Chain::parse("inet t input").unwrap()).unwrap()
        });
        let of = |text: &str, bytes| limits.of(&class(text), &follow("inet t input", bytes));
        assert_eq!(of("203.0.113.10/32 tcp 443", None).unwrap(), 9 << 20, "the lowest of two");
        assert_eq!(of("203.0.113.10/32 tcp 443 from 192.0.2.0/24", None).unwrap(), 3 << 20);
        assert_eq!(of("203.0.113.0/24 icmp", None).unwrap(), 2);
        assert_eq!(of("2001:db8::/32", None).unwrap(), 5 * 1024);
        assert_eq!(of("203.0.113.10/32 udp 80-90", Some(500)).unwrap(), 500_000);
        let error = of("203.0.113.10/32 udp 80-90", None).unwrap_err().to_string();
        assert!(error.contains("packet_bytes"), "{error}");
        let error = of("203.0.113.10/32 tcp 80", None).unwrap_err().to_string();
        assert!(
            error.starts_with("inet t input has no limit of 203.0.113.10/32 tcp 80; not understood are"),
            "{error}"
        );
        assert_eq!(limits.not_understood.len(), 4, "{:?}", limits.not_understood);
        assert!(of("203.0.113.10/32 tcp 99", None).is_err(), "that is in another chain");
        let table = namespace.run(|| list(&Chain::parse("inet t").unwrap()).unwrap());
        assert_eq!(table.of(&class("203.0.113.10/32 tcp 99"), &follow("inet t", None)).unwrap(), 1);
        let error = namespace.run(|| list(&Chain::parse("inet t nowhere").unwrap())).unwrap_err();
        assert!(crate::error_chain(&error).contains("No such file"), "{error}");
    }
}
