//! `[[traffic]]`

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use psmc_toml::{Complaint, NAME, Name, SWITCH, Section, draft, keys};
use toml::Spanned;
use toml::de::DeTable;

use crate::scenario::model::TrafficKind;
use crate::scenario::value::{
    CONTROLLER, ControllerName, FLOWS, FREQUENCY, IP, PING_PAYLOAD, REFERENCE, SIZE, STREAM_RATE, TIME,
    TrafficKindName, UDP_PAYLOAD,
};

draft! {
    /// The keys of all kinds.
    pub(in crate::scenario) struct TrafficDraft(section, out) {
        name: Option<Spanned<Name>> = optional_at(NAME),
        kind: Option<TrafficKind> = { kind(section, out) },
        from: Option<Spanned<String>> = required_at(REFERENCE, "the host that sends"),
        to: Option<Spanned<String>> = required_at(REFERENCE, "the host that receives"),
        /// `None` only where what the file says was complained about.
        ["via", "address"] destination: Option<Destination> = { Destination::read(section, out) },
        start: Option<Spanned<Duration>> = optional_at(TIME),
        stop: Option<Spanned<Duration>> = optional_at(TIME),
        [] place: Range<usize> = { section.place() },
    }
}

/// How the file says which address of the receiver is meant.
pub(in crate::scenario) enum Destination {
    /// Not at all.
    Any,
    /// That in a tunnel or on a link.
    Via(Spanned<String>),
    /// This one.
    Address(Spanned<IpAddr>),
}

impl Destination {
    /// `via` or `address`, not both.
    pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let via = section.optional_at("via", REFERENCE, out);
        let address = section.optional_at("address", IP, out);
        match (section.key_place("via"), section.key_place("address")) {
            (Some(first), Some(second)) => {
                let complaint = Complaint::new(
                    "`via` stands for an address, and one is given too",
                    "keep one of the two",
                );
                out.push(complaint.at(second).because_of(first, "and here"));
                None
            }
            (Some(_), None) => via.map(Self::Via),
            (None, Some(_)) => address.map(Self::Address),
            (None, None) => Some(Self::Any),
        }
    }
}

/// What complaints call a section, and the keys that it can have, by its kind.
pub(super) fn form(table: &DeTable<'_>) -> (&'static str, &'static [&'static str]) {
    let kind = table.get("kind").and_then(|kind| TrafficKindName::KIND.read(kind.get_ref().as_str()?).ok());
    match kind {
        None => ("[[traffic]]", ANY),
        Some(TrafficKindName::Tcp) => ("[[traffic]] of the kind tcp", TCP),
        Some(TrafficKindName::Quic) => ("[[traffic]] of the kind quic", QUIC),
        Some(TrafficKindName::Udp) => ("[[traffic]] of the kind udp", UDP),
        Some(TrafficKindName::Requests) => ("[[traffic]] of the kind requests", REQUESTS),
        Some(TrafficKindName::Ping) => ("[[traffic]] of the kind ping", PING),
    }
}

const TCP: &[&str] = keys![TrafficDraft::KEYS, &["congestion_control", "flows", "bytes", "multipath"]];
const QUIC: &[&str] = keys![TrafficDraft::KEYS, &["congestion_control", "bytes"]];
const UDP: &[&str] = keys![TrafficDraft::KEYS, &["rate", "payload", "adaptive"]];
const REQUESTS: &[&str] = keys![TrafficDraft::KEYS, &["congestion_control", "rate", "request", "response"]];
const PING: &[&str] = keys![TrafficDraft::KEYS, &["interval", "payload"]];
/// Of every kind.
const ANY: &[&str] = keys![TCP, &["rate", "payload", "adaptive", "request", "response", "interval"]];

fn kind(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<TrafficKind> {
    match section.required("kind", TrafficKindName::KIND, "or quic, udp, requests, ping", out)? {
        TrafficKindName::Tcp => Some(tcp(section, out)),
        TrafficKindName::Quic => Some(quic(section, out)),
        TrafficKindName::Udp => udp(section, out),
        TrafficKindName::Requests => Some(requests(section, out)),
        TrafficKindName::Ping => Some(ping(section, out)),
    }
}

fn tcp(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    TrafficKind::Tcp {
        congestion_control: congestion_control(section, out),
        flows: section.optional("flows", FLOWS, out).unwrap_or(1),
        bytes: bytes(section, out),
        multipath: section.optional("multipath", SWITCH, out).unwrap_or(false),
    }
}

fn congestion_control(section: &Section<'_>, out: &mut Vec<Complaint>) -> String {
    section.optional("congestion_control", CONTROLLER, out).unwrap_or_else(|| "cubic".to_owned())
}

fn quic(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    let controller = section.optional("congestion_control", ControllerName::KIND, out);
    let controller = controller.unwrap_or(ControllerName::Cubic);
    TrafficKind::Quic { congestion_control: controller.as_str().to_owned(), bytes: bytes(section, out) }
}

fn bytes(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<u64> {
    section.optional("bytes", SIZE, out)
}

fn udp(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<TrafficKind> {
    let rate = section.required("rate", STREAM_RATE, "which UDP keeps whatever the network does", out);
    let payload = section.optional("payload", UDP_PAYLOAD, out).unwrap_or(1200);
    let adaptive = section.optional("adaptive", SWITCH, out).unwrap_or(false);
    Some(TrafficKind::Udp { rate: rate?, payload, adaptive })
}

fn requests(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    let size = |key: &str, default: usize, out: &mut Vec<Complaint>| {
        let size = section.optional(key, SIZE, out).and_then(|size| usize::try_from(size).ok());
        size.unwrap_or(default)
    };
    TrafficKind::Requests {
        congestion_control: congestion_control(section, out),
        rate: section.optional("rate", FREQUENCY, out).unwrap_or(10.0),
        request: size("request", 200, out),
        response: size("response", 10_000, out),
    }
}

fn ping(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    let interval = section.optional_at("interval", TIME, out);
    if let Some(short) = interval.as_ref().filter(|interval| *interval.get_ref() < LEAST_INTERVAL) {
        let remedy = format!("choose {LEAST_INTERVAL:?} or more");
        out.push(Complaint::new("pings as close as that are a flood", remedy).at(short.span()));
    }
    let payload = section.optional("payload", PING_PAYLOAD, out).unwrap_or(56);
    TrafficKind::Ping { interval: interval.map_or(Duration::from_millis(100), Spanned::into_inner), payload }
}

/// So many a second that a program can still tell them apart by when they are sent.
const LEAST_INTERVAL: Duration = Duration::from_micros(100);
