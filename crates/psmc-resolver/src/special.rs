//! Names that no upstream server is asked for, because they mean something on this machine or in this network only.
//!
//! Whoever asks for them elsewhere tells strangers what they look for, and may be told to go to another resolver.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, AAAA, PTR, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::question::Question;
use super::reply::Reply;

/// The TTL of what is said here (RFC 6303 §3).
const TTL: u32 = 10_800;

/// What is under a special name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// This machine, itself and all names below (RFC 6761 §6.3).
    Loopback,
    /// This machine's name by its address (RFC 6303 §4.2).
    LoopbackReverse,
    /// Nothing: the name itself is there, without records.
    Empty,
    /// Nothing, not even the name itself.
    Nothing,
    /// What says how a resolver is reached encrypted: this one is not (RFC 9462 §6.1).
    Designation,
}

/// The names, and what is under them.
const NAMES: &[(&str, Kind)] = &[
    ("localhost", Kind::Loopback),
    // RFC 6761 §6.4, RFC 7686 §2.
    ("invalid", Kind::Nothing),
    ("onion", Kind::Nothing),
    // RFC 8375 §4.
    ("home.arpa", Kind::Empty),
    ("resolver.arpa", Kind::Designation),
    ("1.0.0.127.in-addr.arpa", Kind::LoopbackReverse),
    ("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa", Kind::LoopbackReverse),
    // RFC 6303 §4.
    ("10.in-addr.arpa", Kind::Empty),
    ("168.192.in-addr.arpa", Kind::Empty),
    ("0.in-addr.arpa", Kind::Empty),
    ("127.in-addr.arpa", Kind::Empty),
    ("254.169.in-addr.arpa", Kind::Empty),
    ("2.0.192.in-addr.arpa", Kind::Empty),
    ("100.51.198.in-addr.arpa", Kind::Empty),
    ("113.0.203.in-addr.arpa", Kind::Empty),
    ("255.255.255.255.in-addr.arpa", Kind::Empty),
    ("0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa", Kind::Empty),
    ("d.f.ip6.arpa", Kind::Empty),
    ("8.e.f.ip6.arpa", Kind::Empty),
    ("9.e.f.ip6.arpa", Kind::Empty),
    ("a.e.f.ip6.arpa", Kind::Empty),
    ("b.e.f.ip6.arpa", Kind::Empty),
    ("8.b.d.0.1.0.0.2.ip6.arpa", Kind::Empty),
];

/// The answer to a question for a special name; `None` for all others, and for those in `passed_on` and below, which the
/// upstream servers are to be asked for all the same.
pub(super) fn answer(question: &Question, passed_on: &[Name]) -> Option<Reply> {
    let name = question.name();
    let top = name.iter().next_back()?;
    if ![&b"arpa"[..], b"invalid", b"localhost", b"onion"].contains(&top) {
        return None;
    }
    let is_private = |labels: u8| (16..=31).contains(&labels);
    let is_shared = |labels: u8| (64..=127).contains(&labels);
    let found = NAMES
        .iter()
        .filter_map(|(apex, kind)| Some((Name::from_ascii(format!("{apex}.")).ok()?, *kind)))
        .find(|(apex, _)| apex.zone_of(name));
    let (apex, kind) = found
        // 172.16.0.0/12 (RFC 6303 §4.1), and 100.64.0.0/10 (RFC 7793).
        .or_else(|| Some((numbered(name, "172.in-addr.arpa.", is_private)?, Kind::Empty)))
        .or_else(|| Some((numbered(name, "100.in-addr.arpa.", is_shared)?, Kind::Empty)))?;
    if passed_on.iter().any(|passed| passed.zone_of(name)) {
        return None;
    }
    Some(reply(question, &apex, kind))
}

fn reply(question: &Question, apex: &Name, kind: Kind) -> Reply {
    let name = question.name();
    let is_apex = name == apex;
    let data = match (kind, question.kind()) {
        (Kind::Loopback, RecordType::A) => Some(RData::A(A::new(127, 0, 0, 1))),
        (Kind::Loopback, RecordType::AAAA) => Some(RData::AAAA(AAAA::new(0, 0, 0, 0, 0, 0, 0, 1))),
        (Kind::LoopbackReverse, RecordType::PTR) if is_apex => {
            Name::from_ascii("localhost.").ok().map(|name| RData::PTR(PTR(name)))
        }
        (_, RecordType::SOA) if is_apex => Some(soa(apex)),
        _ => None,
    };
    if let Some(data) = data {
        return Reply::of_records(vec![Record::from_rdata(name.clone(), TTL, data)]);
    }
    let is_there = match kind {
        Kind::Loopback => true,
        Kind::Empty | Kind::LoopbackReverse => is_apex,
        Kind::Designation => {
            is_apex || apex.prepend_label("_dns").is_ok_and(|designation| *name == designation)
        }
        Kind::Nothing => false,
    };
    let code = if is_there { ResponseCode::NoError } else { ResponseCode::NXDomain };
    let authorities = vec![Record::from_rdata(apex.clone(), TTL, soa(apex))];
    Reply { authorities, ..Reply::of_code(code) }
}

/// The zone of a name under `parent` whose next label is a number that is in question.
fn numbered(name: &Name, parent: &str, is_in_question: impl Fn(u8) -> bool) -> Option<Name> {
    let parent = Name::from_ascii(parent).ok()?;
    let labels = parent.iter().count() + 1;
    if !parent.zone_of(name) || name.iter().count() < labels {
        return None;
    }
    let zone = name.trim_to(labels);
    let number: u8 = std::str::from_utf8(zone.iter().next()?).ok()?.parse().ok()?;
    is_in_question(number).then_some(zone)
}

/// The SOA record that says how long there is nothing (RFC 6303 §3).
fn soa(apex: &Name) -> RData {
    let nobody = Name::from_ascii("nobody.invalid.").unwrap_or_default();
    RData::SOA(SOA::new(apex.clone(), nobody, 1, 3600, 1200, 604_800, TTL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(name: &str, kind: RecordType) -> Option<(ResponseCode, Vec<String>)> {
        let reply = answer(&Question::new(&Name::from_ascii(name).unwrap(), kind), &[])?;
        assert!(reply.lifetime().is_some(), "{name}: it may be kept");
        Some((reply.code, reply.answers.iter().map(|record| record.data.to_string()).collect()))
    }

    #[test]
    fn special_names_are_answered_here() {
        let there = |data: &str| Some((ResponseCode::NoError, vec![data.to_owned()]));
        let (nothing, empty) =
            (Some((ResponseCode::NXDomain, vec![])), Some((ResponseCode::NoError, vec![])));
        assert_eq!(ask("localhost.", RecordType::A), there("127.0.0.1"));
        assert_eq!(ask("x.LocalHost.", RecordType::AAAA), there("::1"));
        assert_eq!(ask("localhost.", RecordType::MX), empty);
        assert_eq!(ask("1.0.0.127.in-addr.arpa.", RecordType::PTR), there("localhost."));
        let v6 = format!("1.{}ip6.arpa.", "0.".repeat(31));
        assert_eq!(ask(&v6, RecordType::PTR), there("localhost."));
        assert_eq!(ask("_dns.resolver.arpa.", RecordType::SVCB), empty, "clients stay");
        assert_eq!(ask("home.arpa.", RecordType::A), empty);
        for name in [
            "abc.onion.",
            "invalid.",
            "nas.home.arpa.",
            "x.resolver.arpa.",
            "1.1.168.192.in-addr.arpa.",
            "1.0.16.172.in-addr.arpa.",
            "1.0.31.172.in-addr.arpa.",
            "1.0.64.100.in-addr.arpa.",
            "2.0.0.127.in-addr.arpa.",
            "1.d.f.ip6.arpa.",
            "1.8.e.f.ip6.arpa.",
        ] {
            assert_eq!(ask(name, RecordType::PTR), nothing, "{name}");
        }
        for name in [
            "example.com.",
            "notlocalhost.",
            "onion.example.",
            "arpa.",
            "1.0.15.172.in-addr.arpa.",
            "1.0.32.172.in-addr.arpa.",
            "172.in-addr.arpa.",
            "1.0.63.100.in-addr.arpa.",
            "1.0.128.100.in-addr.arpa.",
            "8.8.8.8.in-addr.arpa.",
            "c.e.f.ip6.arpa.",
            "printer.local.",
        ] {
            assert_eq!(ask(name, RecordType::PTR), None, "{name}");
        }
    }

    #[test]
    fn a_network_can_have_such_names_of_its_own() {
        let passed_on = [Name::from_ascii("168.192.in-addr.arpa.").unwrap()];
        let ask =
            |name| answer(&Question::new(&Name::from_ascii(name).unwrap(), RecordType::PTR), &passed_on);
        assert!(ask("1.1.168.192.in-addr.arpa.").is_none() && ask("1.1.1.10.in-addr.arpa.").is_some());
    }
}
