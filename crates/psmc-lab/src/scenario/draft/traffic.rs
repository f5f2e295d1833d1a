//! `[[traffic]]`

use std::ops::Range;
use std::time::Duration;

use psmc_toml::{Complaint, Name, Section};
use toml::Spanned;
use toml::de::DeTable;

use super::read::joined;
use crate::scenario::model::TrafficKind;
use crate::scenario::value::{
    Controller, ControllerName, Flag, Frequency, Ip, Reference, Size, StreamRate, Time, TrafficKindName,
    Whole,
};

pub(in crate::scenario) struct TrafficDraft {
    pub(in crate::scenario) place: Range<usize>,
    pub(in crate::scenario) name: Option<Spanned<Name>>,
    pub(in crate::scenario) kind: Option<TrafficKind>,
    pub(in crate::scenario) from: Option<Spanned<Reference>>,
    pub(in crate::scenario) to: Option<Spanned<Reference>>,
    /// `None` only where what the file says was complained about.
    pub(in crate::scenario) destination: Option<Destination>,
    pub(in crate::scenario) start: Option<Spanned<Time>>,
    pub(in crate::scenario) stop: Option<Spanned<Time>>,
}

/// How the file says which address of the receiver is meant.
pub(in crate::scenario) enum Destination {
    /// Not at all.
    Any,
    /// That in a tunnel or on a link.
    Via(Spanned<Reference>),
    /// This one.
    Address(Spanned<Ip>),
}

impl TrafficDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let (title, keys) = form(table);
        let section = Section::open(title, place, table, keys, out);
        let kind = section.required::<TrafficKindName>("kind", "or quic, udp, requests, ping", out);
        Self {
            place: section.place(),
            name: section.optional("name", out),
            kind: kind.and_then(|kind| self::kind(*kind.get_ref(), &section, out)),
            from: section.required("from", "the host that sends", out),
            to: section.required("to", "the host that receives", out),
            destination: Destination::read(&section, out),
            start: section.optional("start", out),
            stop: section.optional("stop", out),
        }
    }
}

impl Destination {
    /// `via` or `address`, not both.
    pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let via = section.optional("via", out);
        let address = section.optional("address", out);
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
fn form(table: &DeTable<'_>) -> (&'static str, &'static [&'static str]) {
    let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str()?.parse().ok());
    match kind {
        None => ("[[traffic]]", ANY),
        Some(TrafficKindName::Tcp) => ("[[traffic]] of the kind tcp", TCP),
        Some(TrafficKindName::Quic) => ("[[traffic]] of the kind quic", QUIC),
        Some(TrafficKindName::Udp) => ("[[traffic]] of the kind udp", UDP),
        Some(TrafficKindName::Requests) => ("[[traffic]] of the kind requests", REQUESTS),
        Some(TrafficKindName::Ping) => ("[[traffic]] of the kind ping", PING),
    }
}

const COMMON: &[&str] = &["name", "kind", "from", "to", "via", "address", "start", "stop"];
const TCP: &[&str] = &joined::<12>(COMMON, &["congestion_control", "flows", "bytes", "multipath"]);
const QUIC: &[&str] = &joined::<10>(COMMON, &["congestion_control", "bytes"]);
const UDP: &[&str] = &joined::<10>(COMMON, &["rate", "payload"]);
const REQUESTS: &[&str] = &joined::<12>(COMMON, &["congestion_control", "rate", "request", "response"]);
const PING: &[&str] = &joined::<10>(COMMON, &["interval", "payload"]);
/// Of every kind.
const ANY: &[&str] = &joined::<17>(TCP, &["rate", "payload", "request", "response", "interval"]);

fn kind(name: TrafficKindName, section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<TrafficKind> {
    match name {
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
        flows: section.optional::<Flows>("flows", out).map_or(1, |flows| flows.get_ref().size()),
        bytes: bytes(section, out),
        multipath: section.optional::<Flag>("multipath", out).is_some_and(|flag| flag.get_ref().0),
    }
}

fn congestion_control(section: &Section<'_>, out: &mut Vec<Complaint>) -> String {
    let name = section.optional::<Controller>("congestion_control", out);
    name.map_or("cubic".to_owned(), |name| name.into_inner().0)
}

/// More connections between two hosts than a thousand measure the kernel instead of the network.
type Flows = Whole<1, 1000>;

fn quic(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    let controller = section.optional::<ControllerName>("congestion_control", out);
    let controller = controller.map_or(ControllerName::Cubic, Spanned::into_inner);
    TrafficKind::Quic { congestion_control: controller.as_str().to_owned(), bytes: bytes(section, out) }
}

fn bytes(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<u64> {
    section.optional::<Size>("bytes", out).map(|bytes| bytes.get_ref().0)
}

fn udp(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<TrafficKind> {
    let rate = section.required::<StreamRate>("rate", "which UDP keeps whatever the network does", out);
    let payload = section.optional::<UdpPayload>("payload", out);
    Some(TrafficKind::Udp {
        rate: rate?.get_ref().0,
        payload: payload.map_or(1200, |payload| payload.get_ref().size()),
    })
}

/// Bytes of a UDP datagram over IPv4, after the number and the time that the generator puts first.
pub(super) type UdpPayload = Whole<16, 65_507>;

fn requests(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    let size = |key: &str, default: usize, out: &mut Vec<Complaint>| {
        let size = section.optional::<Size>(key, out).and_then(|size| usize::try_from(size.get_ref().0).ok());
        size.unwrap_or(default)
    };
    TrafficKind::Requests {
        congestion_control: congestion_control(section, out),
        rate: section.optional::<Frequency>("rate", out).map_or(10.0, |rate| rate.get_ref().0),
        request: size("request", 200, out),
        response: size("response", 10_000, out),
    }
}

fn ping(section: &Section<'_>, out: &mut Vec<Complaint>) -> TrafficKind {
    let interval = section.optional::<Time>("interval", out);
    if let Some(short) = interval.as_ref().filter(|interval| interval.get_ref().0 < LEAST_INTERVAL) {
        let remedy = format!("choose {LEAST_INTERVAL:?} or more");
        out.push(Complaint::new("pings as close as that are a flood", remedy).at(short.span()));
    }
    let payload = section.optional::<PingPayload>("payload", out);
    TrafficKind::Ping {
        interval: interval.map_or(Duration::from_millis(100), |interval| interval.get_ref().0),
        payload: payload.map_or(56, |payload| payload.get_ref().size()),
    }
}

/// Bytes of an echo request over IPv4, after the time that the generator puts first.
type PingPayload = Whole<8, 65_507>;

/// So many a second that a program can still tell them apart by when they are sent.
const LEAST_INTERVAL: Duration = Duration::from_micros(100);
