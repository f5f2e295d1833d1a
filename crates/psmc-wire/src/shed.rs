//! What the owner of a destination has dropped of its own traffic, where that enters. Section 18 of the protocol.
//!
//! The same two messages go to relays and between sites: [`Ask`] says all that is wanted, and [`Answer`] what became of it and what
//! was counted. So who asks again renews, and learns at once what has come.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::fields::{self, Malformed, Reader};
use crate::hop::Hop;

/// Rules in one message at most: with those of the longest kind an answer has 4400 bytes.
pub const MAX_RULES: usize = 64;

/// The serial number of a question by which nothing is wanted: the answer tells what is held.
pub const ONLY_TELL: u64 = 0;

/// Inner packets, by their headers. All prefixes are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packets {
    /// Where they go.
    pub destination: IpNet,
    /// Where they come from; anywhere if `None`.
    pub source: Option<IpNet>,
    /// The number of their protocol; any if `None`.
    pub protocol: Option<u8>,
    /// The first and the last of their destination ports; any if `None`. Only with a protocol that has ports.
    pub ports: Option<(u16, u16)>,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Inner packets, where they are seen.
    Packets(Packets),
    /// Datagrams of sessions at a relay that go to whoever asks, of one drop precedence or of all.
    Datagrams(Option<u8>),
    /// Datagrams that go to the end of a session of which this is the hop: who knows the key of a label speaks for that end.
    Label(Hop, Option<u8>),
}

/// A rule that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it is about.
    pub what: What,
    /// Bytes that may pass per second; what comes is only counted if `None`.
    pub rate: Option<u64>,
}

/// All rules that are wanted, in place of those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Repeated in the answer; never 0.
    pub request: u32,
    /// Larger than that of any question before; [`ONLY_TELL`] wants nothing.
    pub serial: u64,
    /// How long the rules last unless they are asked for again, in milliseconds from when this arrives.
    pub lifetime_ms: u32,
    /// The rules, [`MAX_RULES`] at most.
    pub rules: Vec<Rule>,
}

/// What has become of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its rules are in force, but for those that are refused.
    Taken,
    /// It wanted nothing: what is in force is told.
    Told,
    /// Its serial number is no larger than that of one before. Nothing has changed; so with all that follow.
    Replayed,
    /// Its rules had no time to last.
    Expired,
    /// It has more rules than this owner may have here.
    TooMany,
    /// A reason that this version has no name for.
    Other(u8),
}

/// What has become of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in force.
    Taken,
    /// It is about what is not the asker's, or is not seen here.
    Foreign,
    /// Another one of the same question is about the same.
    Contradictory,
    /// It is none: ports of a protocol without any, or families mixed.
    Illegal,
    /// A reason that this version has no name for.
    Other(u8),
}

/// A rule as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The rule.
    pub rule: Rule,
    /// Whether it is in force.
    pub verdict: Verdict,
    /// Bytes that have come since it was first taken.
    pub offered: u64,
    /// Bytes of those that were dropped.
    pub dropped: u64,
}

/// What became of an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question's.
    pub request: u32,
    /// What became of it as a whole.
    pub outcome: Outcome,
    /// The largest serial number whose rules were taken.
    pub serial: u64,
    /// How long what is in force lasts, in milliseconds: no longer than its owner may have rules here.
    pub lasts_ms: u32,
    /// How many rules the asker may have here.
    pub max_rules: u8,
    /// The clock by which was counted, in microseconds since whenever.
    pub clock_us: u64,
    /// The rules of a question that was taken, in its order; else those in force.
    pub rules: Vec<Told>,
}

/// A rate that stands for none.
const ANY_RATE: u64 = u64::MAX;

/// A drop precedence that stands for all.
const ANY_PRECEDENCE: u8 = 255;

/// The type that stands for each kind of rule.
mod what {
    pub(super) const PACKETS: u8 = 1;
    pub(super) const DATAGRAMS: u8 = 2;
    pub(super) const LABEL: u8 = 3;
}

/// The bit that stands for each field that may be absent.
mod has {
    pub(super) const SOURCE: u8 = 1;
    pub(super) const PROTOCOL: u8 = 2;
    pub(super) const PORTS: u8 = 4;
}

impl Packets {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (family, has) = (reader.u8()?, reader.u8()?);
        if has & !(has::SOURCE | has::PROTOCOL | has::PORTS) != 0 {
            return Err(Malformed::Illegal("fields of a rule"));
        }
        let if_any = |bit| has & bit != 0;
        Ok(Self {
            destination: reader.prefix(family)?,
            source: if_any(has::SOURCE).then(|| reader.prefix(family)).transpose()?,
            protocol: if_any(has::PROTOCOL).then(|| reader.u8()).transpose()?,
            ports: if_any(has::PORTS).then(|| Ok((reader.u16()?, reader.u16()?))).transpose()?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let bit = |is_there, bit| if is_there { bit } else { 0 };
        let is_v4 = |prefix: IpNet| prefix.addr().is_ipv4();
        out.push(if is_v4(self.destination) { 4 } else { 6 });
        // One of the other family can be no source.
        let source = self.source.filter(|source| is_v4(*source) == is_v4(self.destination));
        out.push(
            bit(source.is_some(), has::SOURCE)
                | bit(self.protocol.is_some(), has::PROTOCOL)
                | bit(self.ports.is_some(), has::PORTS),
        );
        fields::prefix(self.destination, out);
        source.into_iter().for_each(|source| fields::prefix(source, out));
        out.extend(self.protocol);
        if let Some((first, last)) = self.ports {
            out.extend(first.to_be_bytes());
            out.extend(last.to_be_bytes());
        }
    }

    /// Whether a packet with these headers is one of them. What has no ports has none that are asked for.
    #[must_use]
    pub fn take(&self, source: IpAddr, destination: IpAddr, protocol: u8, to_port: Option<u16>) -> bool {
        self.destination.contains(&destination)
            && self.source.is_none_or(|prefix| prefix.contains(&source))
            && self.protocol.is_none_or(|own| own == protocol)
            && self
                .ports
                .is_none_or(|(first, last)| to_port.is_some_and(|port| (first..=last).contains(&port)))
    }
}

impl Rule {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let what = match reader.u8()? {
            what::PACKETS => What::Packets(Packets::decode(reader)?),
            what::DATAGRAMS => What::Datagrams(precedence(reader)?),
            what::LABEL => What::Label(reader.hop()?, precedence(reader)?),
            _ => return Err(Malformed::Illegal("kind of a rule")),
        };
        let rate = reader.u64()?;
        Ok(Self { what, rate: (rate != ANY_RATE).then_some(rate) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match &self.what {
            What::Packets(packets) => {
                out.push(what::PACKETS);
                packets.encode(out);
            }
            What::Datagrams(precedence) => {
                out.extend([what::DATAGRAMS, precedence.unwrap_or(ANY_PRECEDENCE)])
            }
            What::Label(hop, precedence) => {
                out.push(what::LABEL);
                fields::hop(hop, out);
                out.push(precedence.unwrap_or(ANY_PRECEDENCE));
            }
        }
        out.extend(self.rate.unwrap_or(ANY_RATE).to_be_bytes());
    }
}

fn precedence(reader: &mut Reader<'_>) -> Result<Option<u8>, Malformed> {
    match reader.u8()? {
        ANY_PRECEDENCE => Ok(None),
        precedence @ 0..=3 => Ok(Some(precedence)),
        _ => Err(Malformed::Illegal("drop precedence")),
    }
}

fn count(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    let count = usize::from(reader.u8()?);
    if count <= MAX_RULES { Ok(count) } else { Err(Malformed::Illegal("number of rules")) }
}

/// Appends how many of these there are, and those; what exceeds the bound is left out.
fn bounded<T>(all: &[T], out: &mut Vec<u8>, encode: impl Fn(&T, &mut Vec<u8>)) {
    let all = &all[..all.len().min(MAX_RULES)];
    out.push(u8::try_from(all.len()).unwrap_or(u8::MAX));
    all.iter().for_each(|one| encode(one, out));
}

/// The number of a question, which is never 0.
fn request(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    match reader.u32()? {
        0 => Err(Malformed::Illegal("request")),
        number => Ok(number),
    }
}

impl Ask {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            request: request(reader)?,
            serial: reader.u64()?,
            lifetime_ms: reader.u32()?,
            rules: (0..count(reader)?).map(|_| Rule::decode(reader)).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.request.to_be_bytes());
        out.extend(self.serial.to_be_bytes());
        out.extend(self.lifetime_ms.to_be_bytes());
        bounded(&self.rules, out, Rule::encode);
    }
}

impl Answer {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            request: request(reader)?,
            outcome: Outcome::from_code(reader.u8()?),
            serial: reader.u64()?,
            lasts_ms: reader.u32()?,
            max_rules: reader.u8()?,
            clock_us: reader.u64()?,
            rules: (0..count(reader)?).map(|_| Told::decode(reader)).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.request.to_be_bytes());
        out.push(self.outcome.code());
        out.extend(self.serial.to_be_bytes());
        out.extend(self.lasts_ms.to_be_bytes());
        out.push(self.max_rules);
        out.extend(self.clock_us.to_be_bytes());
        bounded(&self.rules, out, Told::encode);
    }
}

impl Told {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            rule: Rule::decode(reader)?,
            verdict: Verdict::from_code(reader.u8()?),
            offered: reader.u64()?,
            dropped: reader.u64()?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.rule.encode(out);
        out.push(self.verdict.code());
        out.extend(self.offered.to_be_bytes());
        out.extend(self.dropped.to_be_bytes());
    }
}

impl Outcome {
    fn code(self) -> u8 {
        match self {
            Self::Taken => 0,
            Self::Told => 1,
            Self::Replayed => 2,
            Self::Expired => 3,
            Self::TooMany => 4,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Taken,
            1 => Self::Told,
            2 => Self::Replayed,
            3 => Self::Expired,
            4 => Self::TooMany,
            code => Self::Other(code),
        }
    }
}

impl Verdict {
    fn code(self) -> u8 {
        match self {
            Self::Taken => 0,
            Self::Foreign => 1,
            Self::Contradictory => 2,
            Self::Illegal => 3,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Taken,
            1 => Self::Foreign,
            2 => Self::Contradictory,
            3 => Self::Illegal,
            code => Self::Other(code),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hop::HopKey;
    use crate::ids::Label;

    fn packets() -> impl Strategy<Value = Packets> {
        let v4 = (any::<[u8; 4]>(), 0..=32u8).prop_map(|(bits, len)| (IpAddr::from(bits), len));
        let v6 = (any::<[u8; 16]>(), 0..=128u8).prop_map(|(bits, len)| (IpAddr::from(bits), len));
        let net = |(address, len)| IpNet::new(address, len).expect("as long as an address").trunc();
        let pair = prop_oneof![(v4.clone(), v4), (v6.clone(), v6)];
        let rest = (any::<bool>(), any::<Option<u8>>(), any::<Option<(u16, u16)>>());
        (pair, rest).prop_map(move |((to, from), (has_source, protocol, ports))| Packets {
            destination: net(to),
            source: has_source.then(|| net(from)),
            protocol,
            ports,
        })
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let precedence = || proptest::option::of(0u8..4);
        let hop = (any::<u32>(), any::<[u8; 16]>())
            .prop_map(|(label, key)| Hop { label: Label(label), key: HopKey(key) });
        let what = prop_oneof![
            packets().prop_map(What::Packets),
            precedence().prop_map(What::Datagrams),
            (hop, precedence()).prop_map(|(hop, precedence)| What::Label(hop, precedence)),
        ];
        (what, proptest::option::of(0..ANY_RATE)).prop_map(|(what, rate)| Rule { what, rate })
    }

    pub(crate) fn ask() -> impl Strategy<Value = Ask> {
        (1u32.., any::<u64>(), any::<u32>(), proptest::collection::vec(rule(), 0..6))
            .prop_map(|(request, serial, lifetime_ms, rules)| Ask { request, serial, lifetime_ms, rules })
    }

    pub(crate) fn answer() -> impl Strategy<Value = Answer> {
        let told = (rule(), any::<u8>(), any::<[u64; 2]>()).prop_map(|(rule, code, [offered, dropped])| {
            Told { rule, verdict: Verdict::from_code(code), offered, dropped }
        });
        let numbers = (1u32.., any::<u64>(), any::<u32>(), any::<u8>(), any::<u64>());
        (numbers, any::<u8>(), proptest::collection::vec(told, 0..6)).prop_map(
            |((request, serial, lasts_ms, max_rules, clock_us), code, rules)| {
                let outcome = Outcome::from_code(code);
                Answer { request, outcome, serial, lasts_ms, max_rules, clock_us, rules }
            },
        )
    }

    fn refused(bytes: &[u8]) -> Option<Malformed> {
        Rule::decode(&mut Reader::new(bytes)).err()
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let packets = Packets {
            destination: "203.0.113.10/32".parse().expect("a prefix"),
            source: None,
            protocol: Some(17),
            ports: Some((9, 9)),
        };
        let mut bytes = Vec::new();
        Rule { what: What::Packets(packets), rate: Some(5) }.encode(&mut bytes);
        for (place, value, what) in [
            (0, 9, "kind of a rule"),
            (1, 5, "address family"),
            (2, 8, "fields of a rule"),
            (3, 33, "prefix length"),
            (3, 31, "no refusal"),
        ] {
            let mut odd = bytes.clone();
            odd[place] = value;
            let expected = (what != "no refusal").then_some(Malformed::Illegal(what));
            assert_eq!(refused(&odd), expected, "{what}");
        }
        let mut odd = bytes.clone();
        odd[3] = 24;
        assert_eq!(refused(&odd), Some(Malformed::Illegal("prefix")), "it has bits behind the prefix");
        assert_eq!(refused(&[what::DATAGRAMS, 4]), Some(Malformed::Illegal("drop precedence")));
        let many = [&[0, 0, 0, 1][..], &[0; 12], &[65]].concat();
        assert_eq!(Ask::decode(&mut Reader::new(&many)), Err(Malformed::Illegal("number of rules")));
    }

    #[test]
    fn packets_are_known_by_their_headers() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let web = Packets {
            destination: "203.0.113.0/24".parse().expect("a prefix"),
            source: Some("198.51.100.0/25".parse().expect("a prefix")),
            protocol: Some(6),
            ports: Some((80, 90)),
        };
        let (from, to) = (ip("198.51.100.7"), ip("203.0.113.9"));
        assert!(web.take(from, to, 6, Some(85)));
        for (from, to, protocol, port) in [
            (ip("198.51.100.200"), to, 6, Some(85)),
            (from, ip("203.0.114.9"), 6, Some(85)),
            (from, to, 17, Some(85)),
            (from, to, 6, Some(91)),
            (from, to, 6, None),
        ] {
            assert!(!web.take(from, to, protocol, port));
        }
    }
}
