//! What packets are taken together, and how closely.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use psmc_wire::drops::Kind;

/// What has to be known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// The ports of both, where there are any.
    pub ports: Option<[u16; 2]>,
    /// The number of its class.
    pub class: u8,
    /// What its headers promise.
    pub kind: Kind,
    /// A number that packets of its flow have in common, below 4096; others may share it.
    pub flow: u16,
}

/// Packets of one class and kind, from one prefix, and if that is one address perhaps of one flow; or only those to another prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The number of the class. What a peer tells of may be of any.
    pub class: Option<u8>,
    /// What the headers promise.
    pub kind: Kind,
    /// Where they come from. The prefix of length 0 is all of the class.
    pub prefix: IpNet,
    /// Where they go, if not all of them are meant.
    pub destinations: Option<IpNet>,
    /// The number of the flow, if it is one.
    pub flow: Option<u16>,
}

impl Aggregate {
    /// Whether a packet is one of these.
    #[must_use]
    pub fn takes(&self, packet: &Facts) -> bool {
        self.kind == packet.kind
            && self.class.is_none_or(|class| class == packet.class)
            && self.flow.is_none_or(|flow| flow == packet.flow)
            && self.prefix.contains(&packet.source)
            && self.destinations.is_none_or(|prefix| prefix.contains(&packet.destination))
    }

    /// Whether it is one of several prefixes that make up another one, which is not all of a class. A flow and an address are
    /// by themselves.
    pub(super) fn is_part_of(&self, whole: &Self) -> bool {
        let spread = |prefix: &IpNet| (1..prefix.max_prefix_len()).contains(&prefix.prefix_len());
        self != whole
            && (self.class, self.kind, self.destinations) == (whole.class, whole.kind, whole.destinations)
            && spread(&self.prefix)
            && spread(&whole.prefix)
            && whole.prefix.contains(&self.prefix)
    }

    /// How closely it is told: a flow of an address most, then longer prefixes, and of one prefix what goes to fewer others. What a
    /// peer tells of is before all: what it says is about all of these packets, and what is known here of some of them besides
    /// belongs to the same account.
    pub(super) fn closeness(&self) -> (bool, bool, u8, Option<u8>) {
        let destinations = self.destinations.map(|prefix| prefix.prefix_len());
        (self.class.is_none(), self.flow.is_some(), self.prefix.prefix_len(), destinations)
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.kind.name(), self.prefix)?;
        if let Some(destinations) = self.destinations {
            write!(f, " to {destinations}")?;
        }
        if self.flow.is_some() { f.write_str(", one flow") } else { Ok(()) }
    }
}

/// Packets that somebody else suspects of filling what is congested. Nothing is done to them for that, but they are watched from their
/// first drop on, and not only once a tenth of all drops are theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where they come from.
    pub sources: IpNet,
    /// Where they go.
    pub destinations: IpNet,
    /// On whose behalf they are suspected, for people.
    pub told_by: Arc<str>,
}

impl Candidate {
    pub(super) fn takes(&self, packet: &Facts) -> bool {
        self.sources.contains(&packet.source) && self.destinations.contains(&packet.destination)
    }

    /// Those of them that are like this one.
    pub(super) fn like(&self, packet: &Facts) -> Aggregate {
        let (prefix, destinations) = (self.sources, Some(self.destinations));
        Aggregate { class: Some(packet.class), kind: packet.kind, prefix, destinations, flow: None }
    }
}
