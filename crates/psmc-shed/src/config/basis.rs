//! From where it is known how much of a class a server accepts: the keys of `from` in `[[accept]]`.

use std::fmt::{self, Display};
use std::path::PathBuf;

use psmc_toml::{Complaint, FILE, Kind, RATE, Rate, Section, ValueError, choice, within};

use super::bits;
use super::draft::only;

/// From where it is known how much of a class is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The file says it.
    File,
    /// Somebody else's rules in nftables have limits.
    Nft(NftLimits),
    /// It is found by a sign of overload.
    Measured(Measured),
}

/// Limits of somebody else's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftLimits {
    /// Where they are.
    pub chain: Chain,
    /// How large packets are taken to be, where a limit counts packets.
    pub packet_bytes: Option<u16>,
}

/// A chain of nftables, or a table with all its chains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain {
    /// The family, such as `inet`.
    pub family: String,
    /// The table.
    pub table: String,
    /// The chain; all of the table if `None`.
    pub chain: Option<String>,
}

/// What is accepted is found by a sign of overload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The sign.
    pub sign: Sign,
    /// The least that is accepted, in bytes per second.
    pub least: u64,
    /// The most.
    pub most: u64,
}

/// A sign of overload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A listen queue has had no room.
    ListenQueue,
    /// Something was stalled for more than this part of the time.
    Pressure {
        /// For want of what.
        resource: Resource,
        /// Percent of the time.
        percent: u64,
    },
    /// More than so many requests wait in HAProxy.
    HaProxy {
        /// Its stats socket.
        socket: PathBuf,
        /// For which backend.
        backend: String,
        /// How many.
        above: u64,
    },
}

choice! {
    /// What the kernel tells the pressure of.
    pub enum Resource: "resource", such as "cpu" {
        /// Processors.
        Cpu = "cpu",
        /// Memory.
        Memory = "memory",
        /// Disks.
        Io = "io",
    }
}

choice! {
    /// What `from` says.
    enum From: "source of what is accepted", such as "listen-queue" {
        Nft = "nft",
        ListenQueue = "listen-queue",
        CpuPressure = "cpu-pressure",
        MemoryPressure = "memory-pressure",
        IoPressure = "io-pressure",
        HaProxy = "haproxy",
    }
}

/// The keys that belong to some value of `from`.
const KEYS: &[&str] = &["chain", "packet_bytes", "min_rate", "max_rate", "above", "socket", "backend"];

impl From {
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Nft => &["chain", "packet_bytes"],
            Self::ListenQueue => &["min_rate", "max_rate"],
            Self::CpuPressure | Self::MemoryPressure | Self::IoPressure => &["min_rate", "max_rate", "above"],
            Self::HaProxy => &["socket", "backend", "above", "min_rate", "max_rate"],
        }
    }
}

/// What a section says of it; `rate` is what it says itself.
pub(super) fn read(section: &Section<'_>, rate: Option<Rate>, out: &mut Vec<Complaint>) -> Option<Basis> {
    if !section.has("from") {
        only(section, "[[accept]] without from", "", KEYS, &[], out)?;
        return Some(Basis::File);
    }
    let from = section.optional("from", From::KIND, out)?;
    only(section, "from", from.as_str(), KEYS, from.keys(), out)?;
    let sign = match from {
        From::Nft => {
            let chain =
                section.required("chain", CHAIN, "the chain whose rules have limits, or its table", out);
            let packet_bytes = section.optional("packet_bytes", PACKET_BYTES, out);
            return Some(Basis::Nft(NftLimits { chain: chain?, packet_bytes }));
        }
        From::ListenQueue => Sign::ListenQueue,
        // Where nothing waits processors are idle half of the time at least; who waits for memory or disks loses it.
        From::CpuPressure => pressure(section, Resource::Cpu, 50, out),
        From::MemoryPressure => pressure(section, Resource::Memory, 10, out),
        From::IoPressure => pressure(section, Resource::Io, 30, out),
        From::HaProxy => {
            let socket =
                section.required("socket", FILE.like("\"/run/haproxy/admin.sock\""), "its stats socket", out);
            let backend = section.required("backend", BACKEND, "as HAProxy's file names it", out);
            let above = section.optional("above", WAITING, out).unwrap_or(10);
            Sign::HaProxy { socket: socket?, backend: backend?, above }
        }
    };
    let least = section.required("min_rate", RATE.like("\"8mbit\""), "what is accepted at least", out);
    let most = section.required_at("max_rate", RATE.like("\"800mbit\""), "what is accepted at most", out);
    let (least, most, rate) = (least?, most?, rate?);
    let place = most.span();
    let most = most.into_inner();
    if !(least..=most).contains(&rate) {
        let reason = format!("the rate, {rate}, is not between min_rate and max_rate");
        out.push(Complaint::new(reason, "it is where the search begins: change one of the three").at(place));
        return None;
    }
    let bytes = |rate: Rate| rate.bits_per_second() / 8;
    Some(Basis::Measured(Measured { sign, least: bytes(least), most: bytes(most) }))
}

fn pressure(section: &Section<'_>, resource: Resource, usual: u64, out: &mut Vec<Complaint>) -> Sign {
    Sign::Pressure { resource, percent: section.optional("above", PERCENT, out).unwrap_or(usual) }
}

impl Chain {
    /// A chain, or a table, of a text such as `inet filter input`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let (family, table, chain) = (words.next()?, words.next()?, words.next());
        // They are words of a command.
        let is_name = |name: &String| {
            name.len() <= 128
                && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.chars().all(|of| of.is_ascii_alphanumeric() || "_-./".contains(of))
        };
        let is_family = matches!(family.as_str(), "inet" | "ip" | "ip6" | "netdev" | "bridge");
        let names = is_name(&table) && chain.as_ref().is_none_or(is_name);
        (is_family && names && words.next().is_none()).then_some(Self { family, table, chain })
    }
}

impl Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.table)?;
        self.chain.as_ref().map_or(Ok(()), |chain| write!(f, " {chain}"))
    }
}

impl Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("the file"),
            Self::Nft(follow) => write!(f, "the limits of {}", follow.chain),
            Self::Measured(Measured { sign, least, most }) => {
                write!(f, "{sign}, from {} to {}", bits(*least), bits(*most))
            }
        }
    }
}

impl Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListenQueue => f.write_str("full listen queues"),
            Self::Pressure { resource, percent } => {
                write!(f, "stalls for {} above {percent} %", resource.as_str())
            }
            Self::HaProxy { backend, above, .. } => {
                write!(f, "more than {above} requests that wait in HAProxy for {backend}")
            }
        }
    }
}

/// A chain.
const CHAIN: Kind<Chain> = Kind::text("\"inet filter input\"", |text| {
    let remedy = "write family, table and chain, such as \"inet filter input\", or family and table";
    Chain::parse(text).ok_or_else(|| ValueError::new(format!("{text:?} is no table or chain"), remedy))
});

/// The size of packets.
const PACKET_BYTES: Kind<u16> = Kind::number("1500", |text| {
    within(
        text,
        20..=65_535,
        format_args!("{text} bytes are no packet"),
        "write their size with IP's header, such as 1500",
    )
});

/// Percent of the time.
const PERCENT: Kind<u64> = Kind::number("50", |text| {
    within(
        text,
        1..=99,
        format_args!("{text} is no percentage of time for this"),
        "write percent, from 1 to 99",
    )
});

/// Requests that wait.
const WAITING: Kind<u64> = Kind::number("10", |text| {
    within(text, 0..=1_000_000, format_args!("{text} is no number of requests"), "write how many may wait")
});

/// A backend, as HAProxy names them.
const BACKEND: Kind<String> = Kind::text("\"app\"", |text| {
    let is_name =
        !text.is_empty() && text.chars().all(|of| of.is_ascii_alphanumeric() || "-_.:".contains(of));
    let remedy = "write the word after `backend` or `listen` in HAProxy's file";
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(ValueError::new(format!("{text:?} is no backend"), remedy))
    }
});
