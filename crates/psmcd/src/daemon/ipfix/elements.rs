//! What records have: the templates of psmcd, field by field. `docs/IPFIX.md` is made of this.

use std::net::IpAddr;
use std::sync::Arc;

use netflow_parser::variable_versions::field_value::{DataNumber, FieldValue};
use psmc_core::FlowRecord;

/// The length in a template of what says its own length in each record (RFC 7011 §7).
pub const VARIABLE: u16 = 65535;

/// A field of a template, and how a record has its value.
pub struct Field<R> {
    /// What the element is called.
    pub name: &'static str,
    /// Its number, that of IANA's registry or that among the elements of psmcd.
    pub number: u16,
    /// Whether it is one of psmcd's, under an enterprise number.
    pub is_own: bool,
    /// Bytes, or [`VARIABLE`].
    pub length: u16,
    /// What it means here.
    pub meaning: &'static str,
    pub(super) value: fn(&R) -> FieldValue,
}

impl<R> Field<R> {
    const fn iana(
        name: &'static str,
        number: u16,
        length: u16,
        meaning: &'static str,
        value: fn(&R) -> FieldValue,
    ) -> Self {
        Self { name, number, is_own: false, length, meaning, value }
    }

    const fn own(
        name: &'static str,
        number: u16,
        length: u16,
        meaning: &'static str,
        value: fn(&R) -> FieldValue,
    ) -> Self {
        Self { name, number, is_own: true, length, meaning, value }
    }
}

/// A template.
pub struct Template<R: 'static> {
    /// Its number, the same for as long as this file stays as it is.
    pub id: u16,
    /// How many of its first fields are a scope; none but in an options template.
    pub scopes: u16,
    /// What has records of it, in words.
    pub about: &'static str,
    /// Its fields, in order.
    pub parts: &'static [&'static [Field<R>]],
}

impl<R> Template<R> {
    /// Its fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field<R>> + use<R> {
        self.parts.iter().copied().flatten()
    }
}

/// What is told of a flow.
#[derive(Clone, Debug)]
pub struct FlowRow {
    pub(super) peer: Arc<str>,
    /// Milliseconds since 1970.
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    pub(super) record: FlowRecord,
}

/// What is told of a path.
#[derive(Clone, Debug, Default)]
pub struct PathRow {
    pub(super) peer: Arc<str>,
    pub(super) path: Arc<str>,
    pub(super) is_opened_here: bool,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) state: String,
    /// Since the record before, as all that follows but the last three.
    pub(super) sent: Carried,
    pub(super) received: Carried,
    pub(super) lost_packets: u64,
    pub(super) resent_packets: u64,
    pub(super) dropped_packets: u64,
    pub(super) round_trip_us: u32,
    pub(super) loss_ppm: u32,
    /// Bits per second.
    pub(super) rate: u64,
}

/// What is told of a class on a path.
#[derive(Clone, Debug, Default)]
pub struct ShareRow {
    pub(super) path: PathRow,
    pub(super) class: Arc<str>,
    pub(super) sent: Carried,
    pub(super) received: Carried,
}

/// What is told of a target of `[[sla.target]]`.
#[derive(Clone, Debug, Default)]
pub struct TargetRow {
    pub(super) name: String,
    pub(super) measured: String,
    pub(super) limits: String,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) state: &'static str,
    /// Milliseconds since 1970.
    pub(super) since_ms: u64,
    pub(super) breaches: u64,
    pub(super) broken: String,
    pub(super) at_fault: String,
    pub(super) round_trip_us: u32,
    pub(super) loss_to_ppm: u32,
    pub(super) loss_from_ppm: u32,
    /// Bits per second; `u64::MAX` if it is not known.
    pub(super) throughput: u64,
}

/// What is told of a segment that a target is measured on, or of a relay between two of them.
#[derive(Clone, Debug, Default)]
pub struct SegmentRow {
    pub(super) target: String,
    pub(super) path: String,
    pub(super) is_sent: bool,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) kind: &'static str,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    /// `u64::MAX` if they are not known, as the lost ones.
    pub(super) packets: u64,
    pub(super) lost_packets: u64,
    pub(super) loss_ppm: Interval,
    pub(super) delay_us: Interval,
    pub(super) untold: String,
}

/// A value with the ends of its interval, each of which may be [`CANNOT_BE_TOLD`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    pub(super) value: u32,
    pub(super) low: u32,
    pub(super) high: u32,
}

/// What stands for a number that is not known.
pub const CANNOT_BE_TOLD: u32 = u32::MAX;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// Of a flow of IPv4.
pub const FLOW_V4: Template<FlowRow> = Template {
    id: 256,
    scopes: 0,
    about: "a flow of IPv4",
    parts: &[&addresses([("sourceIPv4Address", 8), ("destinationIPv4Address", 12)], 4), UPPER, COUNTS],
};

/// Of a flow of IPv6.
pub const FLOW_V6: Template<FlowRow> = Template {
    id: 257,
    scopes: 0,
    about: "a flow of IPv6",
    parts: &[&addresses([("sourceIPv6Address", 27), ("destinationIPv6Address", 28)], 16), UPPER, COUNTS],
};

/// Of flows that there was no room for, together.
pub const OTHERS: Template<FlowRow> = Template {
    id: 258,
    scopes: 0,
    about: "flows for which there was no room, counted together for each peer, direction and class",
    parts: &[COUNTS],
};

/// Of a path.
pub const PATH: Template<PathRow> = Template {
    id: 259,
    scopes: 3,
    about: "a path of a peer, and how it is",
    parts: &[
        &[
            Field::own(
                "psmcPeerName",
                PEER_NAME,
                VARIABLE,
                "the peer, as the configuration calls it",
                |row| text(&row.peer),
            ),
            Field::own(
                "psmcPathName",
                PATH_NAME,
                VARIABLE,
                "the path, as whoever has opened it calls it",
                |row| text(&row.path),
            ),
            Field::own(
                "psmcPathOpenedBy",
                OPENED_BY,
                VARIABLE,
                "`site` or `peer`: both may call one of theirs the same",
                opened_by,
            ),
        ],
        &[
            Field::iana(
                "observationTimeMilliseconds",
                323,
                8,
                "when that was so; the numbers are those since the record before",
                |row| number(row.at_ms),
            ),
            Field::own(
                "psmcPathState",
                7,
                VARIABLE,
                "as `psmc status` has it: `active`, `standby`, `suspect`, `dead`, `probing`, `closing`",
                |row| text(&row.state),
            ),
            Field::own("psmcPathSentOctetDeltaCount", 8, 8, "bytes sent on it, UDP payload", |row| {
                number(row.sent.bytes)
            }),
            Field::own("psmcPathSentPacketDeltaCount", 9, 8, "datagrams sent on it", |row| {
                number(row.sent.packets)
            }),
            Field::own(
                "psmcPathReceivedOctetDeltaCount",
                10,
                8,
                "bytes received on it, UDP payload",
                |row| number(row.received.bytes),
            ),
            Field::own("psmcPathReceivedPacketDeltaCount", 11, 8, "datagrams received on it", |row| {
                number(row.received.packets)
            }),
            Field::own("psmcPathLostPacketDeltaCount", 12, 8, "datagrams sent and found lost", |row| {
                number(row.lost_packets)
            }),
            Field::own(
                "psmcPathResentPacketDeltaCount",
                13,
                8,
                "inner packets that it had lost, or kept too long, and that were sent again",
                |row| number(row.resent_packets),
            ),
            Field::own(
                "psmcPathDroppedPacketDeltaCount",
                14,
                8,
                "inner packets that its own queue dropped",
                |row| number(row.dropped_packets),
            ),
            Field::own(
                "psmcPathRoundTripMicroseconds",
                15,
                4,
                "smoothed round trip; 0 before it is known",
                |row| number32(row.round_trip_us),
            ),
            Field::own(
                "psmcPathLossPartsPerMillion",
                16,
                4,
                "the share of the last hundred datagrams that was lost",
                |row| number32(row.loss_ppm),
            ),
            Field::own(
                "psmcPathRate",
                17,
                8,
                "the rate at which it delivers at its best, bit/s; 0 before it is known",
                |row| number(row.rate),
            ),
        ],
    ],
};

/// Of a class on a path.
pub const SHARE: Template<ShareRow> = Template {
    id: 260,
    scopes: 4,
    about: "a class on a path",
    parts: &[&[
        Field::own("psmcPeerName", PEER_NAME, VARIABLE, "the peer", |row| text(&row.path.peer)),
        Field::own("psmcPathName", PATH_NAME, VARIABLE, "the path", |row| text(&row.path.path)),
        Field::own("psmcPathOpenedBy", OPENED_BY, VARIABLE, "`site` or `peer`", |row| opened_by(&row.path)),
        Field::own("psmcClassName", CLASS_NAME, VARIABLE, "the class", |row| text(&row.class)),
        Field::iana(
            "observationTimeMilliseconds",
            323,
            8,
            "when that was so; the numbers are those since the record before",
            |row| number(row.path.at_ms),
        ),
        Field::own(
            "psmcShareSentOctetDeltaCount",
            18,
            8,
            "inner bytes that the path was given: those of each copy, and each time that a packet was sent again",
            |row| number(row.sent.bytes),
        ),
        Field::own("psmcShareSentPacketDeltaCount", 19, 8, "inner packets that it was given", |row| {
            number(row.sent.packets)
        }),
        Field::own("psmcShareReceivedOctetDeltaCount", 20, 8, "inner bytes that have come on it", |row| {
            number(row.received.bytes)
        }),
        Field::own("psmcShareReceivedPacketDeltaCount", 21, 8, "inner packets that have come on it", |row| {
            number(row.received.packets)
        }),
    ]],
};

/// Of a segment, or a relay.
pub const SEGMENT: Template<SegmentRow> = Template {
    id: 261,
    scopes: 5,
    about: "a segment that a target is measured on, as it was in the target's window",
    parts: &[
        &[
            Field::own("psmcTargetName", TARGET_NAME, VARIABLE, "the target", |row| text(&row.target)),
            Field::own(
                "psmcPathName",
                PATH_NAME,
                VARIABLE,
                "the path; `-` on the way to a reflector",
                |row| text(&row.path),
            ),
            Field::iana(
                "flowDirection",
                61,
                1,
                "1 (egress): on the way from this site; 0 (ingress): to it",
                |row| number8(row.is_sent.into()),
            ),
            Field::own("psmcSegmentFrom", 24, VARIABLE, "who is at its beginning", |row| text(&row.from)),
            Field::own("psmcSegmentTo", 25, VARIABLE, "who is at its end", |row| text(&row.to)),
        ],
        &[
            Field::own(
                "psmcSegmentKind",
                26,
                VARIABLE,
                "`segment`, between two neighbours; `relay`, within the one that is at both ends",
                |row| text(row.kind),
            ),
            Field::iana("observationTimeMilliseconds", 323, 8, "when that was so", |row| number(row.at_ms)),
            Field::own("psmcSegmentPacketCount", 27, 8, "datagrams that have entered it", |row| {
                number(row.packets)
            }),
            Field::own(
                "psmcSegmentLostPacketCount",
                28,
                8,
                "datagrams among them that never left it",
                |row| number(row.lost_packets),
            ),
            Field::own("psmcSegmentLossPartsPerMillion", 29, 4, "the share that it loses", |row| {
                number32(row.loss_ppm.value)
            }),
            Field::own(
                "psmcSegmentLossLowPartsPerMillion",
                30,
                4,
                "the lower end of its 95 % interval",
                |row| number32(row.loss_ppm.low),
            ),
            Field::own("psmcSegmentLossHighPartsPerMillion", 31, 4, "the upper end", |row| {
                number32(row.loss_ppm.high)
            }),
            Field::own(
                "psmcSegmentDelayMicroseconds",
                32,
                4,
                "the median of what datagrams take above the fastest one",
                |row| number32(row.delay_us.value),
            ),
            Field::own(
                "psmcSegmentDelayLowMicroseconds",
                33,
                4,
                "the lower end of its 95 % interval",
                |row| number32(row.delay_us.low),
            ),
            Field::own("psmcSegmentDelayHighMicroseconds", 34, 4, "the upper end", |row| {
                number32(row.delay_us.high)
            }),
            Field::own("psmcSegmentUntold", 35, VARIABLE, "why something of that cannot be told", |row| {
                text(&row.untold)
            }),
        ],
    ],
};

/// Of a target.
pub const TARGET: Template<TargetRow> = Template {
    id: 262,
    scopes: 1,
    about: "a target of `[[sla.target]]`, and how it stands",
    parts: &[&[
        Field::own("psmcTargetName", TARGET_NAME, VARIABLE, "the target", |row| text(&row.name)),
        Field::own("psmcTargetMeasured", 23, VARIABLE, "the peer or reflector that it is about", |row| {
            text(&row.measured)
        }),
        Field::own("psmcTargetLimits", 36, VARIABLE, "what was promised, in words", |row| text(&row.limits)),
        Field::iana("observationTimeMilliseconds", 323, 8, "when that was so", |row| number(row.at_ms)),
        Field::own("psmcTargetState", 37, VARIABLE, "`met`, `broken` or `unknown`", |row| text(row.state)),
        Field::own("psmcTargetSinceMilliseconds", 38, 8, "since when, in milliseconds since 1970", |row| {
            number(row.since_ms)
        }),
        Field::own("psmcTargetBreachCount", 39, 8, "how often it was broken since psmcd watches it", |row| {
            number(row.breaches)
        }),
        Field::own("psmcTargetBroken", 40, VARIABLE, "what is not kept, as in `psmc sla --json`", |row| {
            text(&row.broken)
        }),
        Field::own("psmcTargetAtFault", 41, VARIABLE, "the segments at fault, the surest first", |row| {
            text(&row.at_fault)
        }),
        Field::own(
            "psmcTargetRoundTripMicroseconds",
            42,
            4,
            "the round trip at the quantile that was promised",
            |row| number32(row.round_trip_us),
        ),
        Field::own(
            "psmcTargetLossToPartsPerMillion",
            43,
            4,
            "lost on the way there; to a reflector, and back",
            |row| number32(row.loss_to_ppm),
        ),
        Field::own("psmcTargetLossFromPartsPerMillion", 44, 4, "lost on the way from the peer", |row| {
            number32(row.loss_from_ppm)
        }),
        Field::own(
            "psmcTargetThroughput",
            45,
            8,
            "what was carried, bit/s, if as much as was promised was offered",
            |row| number(row.throughput),
        ),
    ]],
};

// Numbers of elements of psmcd that several templates have.
const TARGET_NAME: u16 = 22;
const PEER_NAME: u16 = 1;
const CLASS_NAME: u16 = 2;
const PATH_NAME: u16 = 5;
const OPENED_BY: u16 = 6;

const UPPER: &[Field<FlowRow>] = &[
    Field::iana("sourceTransportPort", 7, 2, "0 where there are no ports, and of fragments", |row| {
        number16(row.record.flow.map_or(0, |flow| flow.ports[0]))
    }),
    Field::iana("destinationTransportPort", 11, 2, "the same", |row| {
        number16(row.record.flow.map_or(0, |flow| flow.ports[1]))
    }),
    Field::iana(
        "protocolIdentifier",
        4,
        1,
        "the upper-layer protocol, behind IPv6 extension headers",
        |row| number8(row.record.flow.map_or(0, |flow| flow.protocol)),
    ),
    Field::iana("ipClassOfService", 5, 1, "that of the first packet", |row| {
        number8(row.record.flow.map_or(0, |flow| flow.tos))
    }),
    Field::iana("tcpControlBits", 6, 2, "all flags that its TCP segments had", |row| {
        number16(row.record.flow.map_or(0, |flow| flow.tcp_flags.into()))
    }),
];

const COUNTS: &[Field<FlowRow>] = &[
    Field::iana("flowDirection", 61, 1, "1 (egress): to the peer; 0 (ingress): from the peer", |row| {
        number8(row.record.is_sent.into())
    }),
    Field::own("psmcPeerName", PEER_NAME, VARIABLE, "the peer, as the configuration calls it", |row| {
        text(&row.peer)
    }),
    Field::own(
        "psmcClassName",
        CLASS_NAME,
        VARIABLE,
        "the class into which this site's rules put it",
        |row| text(&row.record.class),
    ),
    Field::iana(
        "octetDeltaCount",
        1,
        8,
        "bytes of inner packets with their IP headers, as `psmc status` counts them",
        |row| number(row.record.counts.bytes),
    ),
    Field::iana("packetDeltaCount", 2, 8, "inner packets, as `psmc status` counts them", |row| {
        number(row.record.counts.packets)
    }),
    Field::iana("droppedOctetDeltaCount", 132, 8, "bytes among them that the queue dropped", |row| {
        number(row.record.counts.dropped_bytes)
    }),
    Field::iana("droppedPacketDeltaCount", 133, 8, "packets among them that the queue dropped", |row| {
        number(row.record.counts.dropped_packets)
    }),
    Field::own(
        "psmcResentPacketDeltaCount",
        3,
        8,
        "how often its packets were sent again, because a path had lost them or seemed to have",
        |row| number(row.record.counts.resent_packets),
    ),
    Field::own(
        "psmcRecoveredPacketDeltaCount",
        4,
        8,
        "received packets that were lost and computed from repairs",
        |row| number(row.record.counts.recovered_packets),
    ),
    Field::iana("flowStartMilliseconds", 152, 8, "when the first packet of the record passed", |row| {
        number(row.first_ms)
    }),
    Field::iana("flowEndMilliseconds", 153, 8, "when the last one did", |row| number(row.last_ms)),
    Field::iana(
        "flowEndReason",
        136,
        1,
        "1 idle; 2 it goes on; 3 a TCP connection has ended; 4 the peer was removed, the configuration changed or psmcd ends; 5 no room",
        |row| number8(row.record.end as u8),
    ),
];

/// The inner addresses, by the names and numbers that they have in their family.
const fn addresses([source, destination]: [(&'static str, u16); 2], length: u16) -> [Field<FlowRow>; 2] {
    [
        Field::iana(source.0, source.1, length, "inner source address", |row| address(row, |of| of.0)),
        Field::iana(destination.0, destination.1, length, "inner destination address", |row| {
            address(row, |of| of.1)
        }),
    ]
}

fn address(row: &FlowRow, which: fn((IpAddr, IpAddr)) -> IpAddr) -> FieldValue {
    match row.record.flow.map(|flow| which((flow.source, flow.destination))) {
        Some(IpAddr::V4(v4)) => FieldValue::Ip4Addr(v4),
        Some(IpAddr::V6(v6)) => FieldValue::Ip6Addr(v6),
        None => FieldValue::Vec(Vec::new()),
    }
}

fn opened_by(row: &PathRow) -> FieldValue {
    text(if row.is_opened_here { "site" } else { "peer" })
}

/// A text of at least one byte: the encoder takes no empty one.
fn text(text: &str) -> FieldValue {
    let text = if text.is_empty() { "-" } else { text };
    FieldValue::Vec(text.as_bytes().to_vec())
}

fn number(value: u64) -> FieldValue {
    FieldValue::DataNumber(DataNumber::U64(value))
}

fn number32(value: u32) -> FieldValue {
    FieldValue::DataNumber(DataNumber::U32(value))
}

fn number16(value: u16) -> FieldValue {
    FieldValue::DataNumber(DataNumber::U16(value))
}

fn number8(value: u8) -> FieldValue {
    FieldValue::DataNumber(DataNumber::U8(value))
}
