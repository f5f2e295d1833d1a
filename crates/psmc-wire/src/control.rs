//! The messages of the control channel, and how they are framed on its byte stream.
//!
//! ```text
//! +--------------------+------------+------------------------+
//! | length of the rest | type       | body                   |
//! | 32 bits            | 8 bits     | as the type says       |
//! +--------------------+------------+------------------------+
//! ```

use std::net::SocketAddr;

use crate::counts::Counts;
use crate::crypto::Aead;
use crate::drops::Drops;
use crate::fields::{self, Malformed, Reader};
use crate::hop::Hop;
use crate::ids::{Incarnation, KeyBytes, Label, PathId};
use crate::probe::ProbeTokens;
use crate::shed::{Answer, Ask};

/// The version of the protocol that this crate speaks.
pub const VERSION: u16 = 1;

/// Bytes of the length field in front of each message.
pub const LENGTH_LEN: usize = 4;

/// The longest message, type and body, in bytes; a longer one ends the connection before it is read.
///
/// [`Counts`] of all paths is nearly as long, [`Answer`] has 4400 bytes at most, and no other message of this version exceeds 2700.
pub const MAX_MESSAGE: usize = 16 * 1024;

const HELLO: u8 = 1;
const PATH_INFO: u8 = 2;
const CLOSE: u8 = 3;
const LIMITS: u8 = 4;
const PATH_VIA: u8 = 5;
const ABOUT: u8 = 6;
const SEEN: u8 = 7;
const PROBE: u8 = 8;
const COUNTS_WANTED: u8 = 9;
const COUNTS: u8 = 10;
const DROPS: u8 = 11;
const SHED: u8 = 12;
const SHEDDING: u8 = 13;

/// The first message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the protocol that the sender speaks.
    pub version: u16,
    /// The sender's own incarnation.
    pub incarnation: Incarnation,
    /// The label for datagrams to the sender.
    pub label: Label,
    /// The AEAD that the sender's processor does faster. AES-256-GCM is used only if both prefer it.
    pub aead: Aead,
    /// The largest inner packet that the sender takes, in bytes.
    pub mtu: u16,
    /// What the sender calls itself; for people only.
    pub name: String,
    /// The extensions that the sender understands.
    pub capabilities: Capabilities,
}

/// Extensions of the protocol, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// The key exchange within a session.
    pub const REKEY: Self = Self(1);

    /// Byte streams, in which the sender ends TCP connections, and lets its peer do so.
    pub const STREAMS: Self = Self(2);

    /// Rules by which the sender drops what the peer cannot take of its own traffic.
    pub const SHED: Self = Self(4);

    /// These and `others`.
    #[must_use]
    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether all that are in `others` are in these, too.
    #[must_use]
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

/// Tells the peer about a path that the sender opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// The path.
    pub path: PathId,
    /// Its weight for the `wrr` scheduler.
    pub weight: u16,
    /// The rate it should not exceed in either direction, in bits per second.
    pub max_rate: Option<u64>,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub tier: Tier,
}

/// What a path is for; what is to be spared more is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Data.
    #[default]
    Primary,
    /// What the primary paths have no room for, and repairs.
    Secondary,
    /// Data when no primary and no secondary path works.
    Backup,
    /// Nothing: it is kept ready, and carries no data.
    Never,
}

impl Tier {
    /// All of them, the most used first.
    pub const ALL: [Self; 4] = [Self::Primary, Self::Secondary, Self::Backup, Self::Never];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Backup => "backup",
            Self::Never => "never",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Primary => 0,
            Self::Secondary => 1,
            Self::Backup => 2,
            Self::Never => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.code() == code)
    }
}

/// What the sender wants neither side to exceed in what it sends to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Inner UDP without congestion control, in bits per second.
    pub udp_rate: Option<u64>,
}

/// How the receiver reaches the sender on a path that the sender has led through a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathVia {
    /// The path, which the sender has opened.
    pub path: PathId,
    /// The key of the relay next to the receiver.
    pub relay: KeyBytes,
    /// Where that relay takes datagrams.
    pub address: SocketAddr,
    /// What datagrams to it must carry.
    pub hop: Hop,
}

/// What the sender is; for people only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its program and the version of that.
    pub software: String,
}

/// From which addresses the receiver's datagrams come, as the sender sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Paths, 255 at most, and the source of the newest datagram of each.
    pub paths: Vec<(PathId, SocketAddr)>,
}

/// Asks for answers to questions about a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What is wanted.
    pub step: ProbeStep,
    /// What questions and answers carry.
    pub tokens: ProbeTokens,
}

/// What is wanted of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeStep {
    /// Questions shall be answered.
    Open,
    /// One more answer shall go to where the newest question came from.
    Answer,
    /// Nothing more.
    End,
}

/// Why a side ends a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It goes away; the peer may drop the session.
    Shutdown,
    /// A newer connection has taken over.
    Superseded,
    /// It doesn't speak the other side's version.
    Version,
    /// The other side broke the protocol.
    Protocol,
    /// A reason that this version has no name for.
    Other(u16),
}

impl CloseReason {
    fn code(self) -> u16 {
        match self {
            Self::Shutdown => 0,
            Self::Superseded => 1,
            Self::Version => 2,
            Self::Protocol => 3,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Shutdown,
            1 => Self::Superseded,
            2 => Self::Version,
            3 => Self::Protocol,
            code => Self::Other(code),
        }
    }
}

/// A message of the control channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who speaks, and how to reach it.
    Hello(Hello),
    /// A path that the sender opened.
    PathInfo(PathInfo),
    /// The rates that both sides keep to.
    Limits(Limits),
    /// The relay through which a path of the sender leads.
    PathVia(PathVia),
    /// What the sender is.
    About(About),
    /// Where the receiver's datagrams come from.
    Seen(Seen),
    /// The sender asks what a NAT makes of its sockets.
    Probe(Probe),
    /// The sender wants to know what the receiver has counted; the number is repeated in the answer.
    CountsWanted(u32),
    /// What the sender has counted, because it was asked.
    Counts(Counts),
    /// What the sender could not carry on of what the receiver has sent.
    Drops(Drops),
    /// The sender wants some of what goes to it dropped where it enters. Only for peers with [`Capabilities::SHED`].
    Shed(Ask),
    /// What became of that.
    Shedding(Answer),
    /// The sender ends the connection.
    Close(CloseReason),
    /// A type that a later version may have defined: to be passed over.
    Unknown(u8),
}

impl Message {
    /// Reads a message from its type and body, without the length in front.
    ///
    /// Bytes behind the fields of this version are passed over: later versions may add fields.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or illegal.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            HELLO => decode_hello(&mut reader).map(Self::Hello),
            PATH_INFO => decode_path_info(&mut reader).map(Self::PathInfo),
            LIMITS => decode_limits(&mut reader).map(Self::Limits),
            PATH_VIA => decode_path_via(&mut reader).map(Self::PathVia),
            ABOUT => Ok(Self::About(About { software: reader.short_str("software")?.to_owned() })),
            SEEN => decode_seen(&mut reader).map(Self::Seen),
            PROBE => decode_probe(&mut reader).map(Self::Probe),
            COUNTS_WANTED => Ok(Self::CountsWanted(reader.u32()?)),
            COUNTS => Counts::decode(&mut reader).map(Self::Counts),
            DROPS => Drops::decode(&mut reader).map(Self::Drops),
            SHED => Ask::decode(&mut reader).map(Self::Shed),
            SHEDDING => Answer::decode(&mut reader).map(Self::Shedding),
            CLOSE => Ok(Self::Close(CloseReason::from_code(reader.u16()?))),
            unknown => Ok(Self::Unknown(unknown)),
        }
    }

    /// Appends the message, its length in front, to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; LENGTH_LEN]);
        match self {
            Self::Hello(hello) => encode_hello(hello, out),
            Self::PathInfo(info) => encode_path_info(info, out),
            Self::Limits(limits) => {
                out.push(LIMITS);
                fields::rate(limits.udp_rate, out);
            }
            Self::PathVia(via) => encode_path_via(via, out),
            Self::About(about) => {
                out.push(ABOUT);
                fields::short_str(&about.software, out);
            }
            Self::Seen(seen) => encode_seen(seen, out),
            Self::Probe(probe) => encode_probe(probe, out),
            Self::CountsWanted(request) => {
                out.push(COUNTS_WANTED);
                out.extend(request.to_be_bytes());
            }
            Self::Counts(counts) => {
                out.push(COUNTS);
                counts.encode(out);
            }
            Self::Drops(drops) => {
                out.push(DROPS);
                drops.encode(out);
            }
            Self::Shed(ask) => {
                out.push(SHED);
                ask.encode(out);
            }
            Self::Shedding(answer) => {
                out.push(SHEDDING);
                answer.encode(out);
            }
            Self::Close(reason) => {
                out.push(CLOSE);
                out.extend(reason.code().to_be_bytes());
            }
            Self::Unknown(kind) => out.push(*kind),
        }
        let len = u32::try_from(out.len() - start - LENGTH_LEN).unwrap_or(u32::MAX);
        out[start..start + LENGTH_LEN].copy_from_slice(&len.to_be_bytes());
    }
}

/// Reads the length field of a message.
///
/// # Errors
/// [`Malformed::Illegal`] if no message is that long; nothing should be allocated or read for it.
pub fn message_length(field: [u8; LENGTH_LEN]) -> Result<usize, Malformed> {
    let len = u32::from_be_bytes(field) as usize;
    if (1..=MAX_MESSAGE).contains(&len) { Ok(len) } else { Err(Malformed::Illegal("message length")) }
}

fn decode_hello(reader: &mut Reader<'_>) -> Result<Hello, Malformed> {
    Ok(Hello {
        version: reader.u16()?,
        incarnation: match reader.u64()? {
            0 => return Err(Malformed::Illegal("incarnation")),
            number => Incarnation(number),
        },
        label: Label(reader.u32()?),
        aead: match reader.u8()? {
            1 => Aead::Aes256Gcm,
            2 => Aead::ChaCha20Poly1305,
            _ => return Err(Malformed::Illegal("AEAD")),
        },
        mtu: reader.u16()?,
        name: reader.short_str("name")?.to_owned(),
        // Who knows of no extensions ends here.
        capabilities: match reader.is_empty() {
            true => Capabilities::default(),
            false => Capabilities(reader.u32()?),
        },
    })
}

fn encode_hello(hello: &Hello, out: &mut Vec<u8>) {
    out.push(HELLO);
    out.extend(hello.version.to_be_bytes());
    out.extend(hello.incarnation.0.to_be_bytes());
    out.extend(hello.label.0.to_be_bytes());
    out.push(match hello.aead {
        Aead::Aes256Gcm => 1,
        Aead::ChaCha20Poly1305 => 2,
    });
    out.extend(hello.mtu.to_be_bytes());
    fields::short_str(&hello.name, out);
    out.extend(hello.capabilities.0.to_be_bytes());
}

fn decode_path_info(reader: &mut Reader<'_>) -> Result<PathInfo, Malformed> {
    Ok(PathInfo {
        path: PathId(reader.u16()?),
        weight: match reader.u16()? {
            0 => return Err(Malformed::Illegal("weight")),
            weight => weight,
        },
        max_rate: reader.rate()?,
        name: reader.short_str("name")?.to_owned(),
        // Who knows of no tiers ends here.
        tier: match reader.is_empty() {
            true => Tier::default(),
            false => Tier::from_code(reader.u8()?).ok_or(Malformed::Illegal("tier"))?,
        },
    })
}

fn decode_limits(reader: &mut Reader<'_>) -> Result<Limits, Malformed> {
    Ok(Limits { udp_rate: reader.rate()? })
}

fn decode_path_via(reader: &mut Reader<'_>) -> Result<PathVia, Malformed> {
    Ok(PathVia {
        path: PathId(reader.u16()?),
        relay: KeyBytes(reader.array()?),
        address: reader.address()?,
        hop: reader.hop()?,
    })
}

fn encode_path_via(via: &PathVia, out: &mut Vec<u8>) {
    out.push(PATH_VIA);
    out.extend(via.path.0.to_be_bytes());
    out.extend(via.relay.0);
    fields::address(via.address, out);
    fields::hop(&via.hop, out);
}

fn decode_seen(reader: &mut Reader<'_>) -> Result<Seen, Malformed> {
    let count = reader.u8()?;
    let paths = (0..count).map(|_| Ok((PathId(reader.u16()?), reader.address()?)));
    Ok(Seen { paths: paths.collect::<Result<_, _>>()? })
}

fn encode_seen(seen: &Seen, out: &mut Vec<u8>) {
    let paths = &seen.paths[..seen.paths.len().min(usize::from(u8::MAX))];
    out.push(SEEN);
    out.push(u8::try_from(paths.len()).unwrap_or(u8::MAX));
    for (path, from) in paths {
        out.extend(path.0.to_be_bytes());
        fields::address(*from, out);
    }
}

fn decode_probe(reader: &mut Reader<'_>) -> Result<Probe, Malformed> {
    let step = match reader.u8()? {
        1 => ProbeStep::Open,
        2 => ProbeStep::Answer,
        3 => ProbeStep::End,
        _ => return Err(Malformed::Illegal("step")),
    };
    Ok(Probe { step, tokens: ProbeTokens { question: reader.array()?, answer: reader.array()? } })
}

fn encode_probe(probe: &Probe, out: &mut Vec<u8>) {
    out.push(PROBE);
    out.push(match probe.step {
        ProbeStep::Open => 1,
        ProbeStep::Answer => 2,
        ProbeStep::End => 3,
    });
    out.extend(probe.tokens.question);
    out.extend(probe.tokens.answer);
}

fn encode_path_info(info: &PathInfo, out: &mut Vec<u8>) {
    out.push(PATH_INFO);
    out.extend(info.path.0.to_be_bytes());
    out.extend(info.weight.to_be_bytes());
    fields::rate(info.max_rate, out);
    fields::short_str(&info.name, out);
    out.push(info.tier.code());
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ipnet::IpNet;
    use proptest::prelude::*;

    use super::*;
    use crate::counts::{Arrived, MAX_SAMPLES, PathCounts};
    use crate::drops::{DropsOf, Kind};
    use crate::hop::HopKey;

    fn message() -> impl Strategy<Value = Message> {
        let aead = prop_oneof![Just(Aead::Aes256Gcm), Just(Aead::ChaCha20Poly1305)];
        let name = "[a-zé-]{0,40}";
        let hello = (any::<u16>(), 1u64.., any::<u32>(), aead, any::<u16>(), name, any::<u32>()).prop_map(
            |(version, incarnation, label, aead, mtu, name, capabilities)| {
                Message::Hello(Hello {
                    version,
                    incarnation: Incarnation(incarnation),
                    label: Label(label),
                    aead,
                    mtu,
                    name,
                    capabilities: Capabilities(capabilities),
                })
            },
        );
        let tier = prop::sample::select(&Tier::ALL);
        let info = (any::<u16>(), 1u16.., proptest::option::of(1u64..), name, tier).prop_map(
            |(path, weight, max_rate, name, tier)| {
                Message::PathInfo(PathInfo { path: PathId(path), weight, max_rate, name, tier })
            },
        );
        let close = any::<u16>().prop_map(|code| Message::Close(CloseReason::from_code(code)));
        let limits = proptest::option::of(1u64..).prop_map(|udp_rate| Message::Limits(Limits { udp_rate }));
        let via =
            (any::<u16>(), any::<[u8; 32]>(), any::<[u8; 4]>(), 1u16.., any::<u32>(), any::<[u8; 16]>())
                .prop_map(|(path, relay, ip, port, label, key)| {
                    let hop = Hop { label: Label(label), key: HopKey(key) };
                    let address = SocketAddr::from((ip, port));
                    Message::PathVia(PathVia { path: PathId(path), relay: KeyBytes(relay), address, hop })
                });
        let about = "[a-zé. -]{0,40}".prop_map(|software| Message::About(About { software }));
        let step = prop_oneof![Just(ProbeStep::Open), Just(ProbeStep::Answer), Just(ProbeStep::End)];
        let probe = (step, any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(step, question, answer)| {
            Message::Probe(Probe { step, tokens: ProbeTokens { question, answer } })
        });
        let wanted = any::<u32>().prop_map(Message::CountsWanted);
        let unknown = (SHEDDING + 1..).prop_map(Message::Unknown);
        let of_today = prop_oneof![hello, info, close, limits, via, about, seen(), probe, wanted];
        prop_oneof![of_today, counts(), drops(), shed(), unknown]
    }

    /// Some paths, seen from addresses of either version.
    fn seen() -> impl Strategy<Value = Message> {
        let ip = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 14]>().prop_map(|low| {
                let mut octets = [0x20; 16];
                octets[2..].copy_from_slice(&low);
                IpAddr::from(octets)
            }),
        ];
        let from = (ip, 1u16..).prop_map(SocketAddr::from);
        let path = (any::<u16>().prop_map(PathId), from);
        proptest::collection::vec(path, 0..=255).prop_map(|paths| Message::Seen(Seen { paths }))
    }

    fn drops() -> impl Strategy<Value = Message> {
        let prefix =
            |bits: u32, len: u8| IpNet::new(IpAddr::from(bits.to_be_bytes()), len).expect("up to 32").trunc();
        let of = (0usize..3, any::<[u32; 2]>(), [0..=32u8, 0..=32u8], any::<[u64; 3]>()).prop_map(
            move |(kind, [from, to], [from_len, to_len], [delivered, dropped, held_back])| DropsOf {
                kind: Kind::ALL[kind],
                sources: prefix(from, from_len),
                destinations: prefix(to, to_len),
                delivered,
                dropped,
                held_back,
            },
        );
        proptest::collection::vec(of, 0..=16).prop_map(|of| Message::Drops(Drops { of }))
    }

    fn shed() -> impl Strategy<Value = Message> {
        prop_oneof![
            crate::shed::tests::ask().prop_map(Message::Shed),
            crate::shed::tests::answer().prop_map(Message::Shedding)
        ]
    }

    fn counts() -> impl Strategy<Value = Message> {
        let sample = any::<[u32; 3]>().prop_map(|[number, sent_us, received_us]| Arrived {
            number,
            sent_us,
            received_us,
        });
        let samples = proptest::collection::vec(sample, 0..=MAX_SAMPLES);
        let path = (any::<u16>(), any::<[u64; 2]>(), any::<[u64; 2]>(), samples).prop_map(
            |(path, sent, received, samples)| PathCounts { path: PathId(path), sent, received, samples },
        );
        let paths = proptest::collection::vec(path, 0..4);
        (any::<u32>(), any::<u64>(), paths)
            .prop_map(|(request, clock_us, paths)| Message::Counts(Counts { request, clock_us, paths }))
    }

    proptest! {
        #[test]
        fn messages_survive_the_wire(message in message()) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let (length, body) = bytes.split_first_chunk().expect("a length");
            prop_assert_eq!(message_length(*length), Ok(body.len()));
            prop_assert_eq!(Message::decode(body), Ok(message));
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Message::decode(&bytes);
        }

        #[test]
        fn truncated_messages_are_refused(message in message(), cut in 1usize..8) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let body = &bytes[LENGTH_LEN..];
            // One without its last field is what older sites send.
            let is_older = matches!(message, Message::PathInfo(_)) && cut == 1
                || matches!(message, Message::Hello(_)) && cut == 4;
            if !matches!(message, Message::Unknown(_)) && !is_older {
                prop_assert!(Message::decode(&body[..body.len() - cut.min(body.len())]).is_err());
            }
        }
    }

    #[test]
    fn absurd_lengths_are_refused() {
        for len in [0, 16 * 1024 + 1, u32::MAX] {
            assert!(message_length(len.to_be_bytes()).is_err(), "{len}");
        }
        assert_eq!(message_length(1u32.to_be_bytes()), Ok(1));
    }

    #[test]
    fn a_long_name_is_cut_where_a_character_ends() {
        let name = "é".repeat(200);
        let info = PathInfo { path: PathId(0), weight: 1, max_rate: None, name, tier: Tier::default() };
        let mut bytes = Vec::new();
        Message::PathInfo(info).encode(&mut bytes);
        let Ok(Message::PathInfo(read)) = Message::decode(&bytes[LENGTH_LEN..]) else { panic!("not read") };
        assert_eq!(read.name, "é".repeat(127));
    }

    #[test]
    fn a_hello_without_capabilities_has_none() {
        let hello = Hello {
            version: VERSION,
            incarnation: Incarnation(1),
            label: Label(2),
            aead: Aead::Aes256Gcm,
            mtu: 1400,
            name: "van".to_owned(),
            capabilities: Capabilities::REKEY,
        };
        let mut bytes = Vec::new();
        Message::Hello(hello.clone()).encode(&mut bytes);
        let older = &bytes[LENGTH_LEN..bytes.len() - 4];
        let none = Capabilities::default();
        assert_eq!(Message::decode(older), Ok(Message::Hello(Hello { capabilities: none, ..hello })));
        assert!(!none.contains(Capabilities::REKEY) && Capabilities(7).contains(Capabilities::REKEY));
    }

    #[test]
    fn a_path_of_which_no_tier_is_told_is_a_primary_one() {
        let tier = Tier::Never;
        let info = PathInfo { path: PathId(2), weight: 1, max_rate: None, name: "lte".to_owned(), tier };
        let mut bytes = Vec::new();
        Message::PathInfo(info.clone()).encode(&mut bytes);
        let (code, older) = bytes[LENGTH_LEN..].split_last().expect("it has a tier");
        let read = |body: &[u8]| Message::decode(body);
        let primary = PathInfo { tier: Tier::Primary, ..info };
        assert_eq!((*code, read(older)), (3, Ok(Message::PathInfo(primary))));
        assert_eq!(read(&[older, &[4]].concat()), Err(Malformed::Illegal("tier")));
    }
}
