//! Traffic classes: which packets belong together, and what share of the paths is theirs.

use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::Classified;
use crate::condition::Conditioning;

/// The most classes of a site. CAKE, the queue discipline that has most, has eight; twice that leaves room.
pub const MAX_CLASSES: usize = 16;

/// The weight of a class that says nothing of it.
pub const DEFAULT_WEIGHT: u16 = 10;

/// The largest weight: a round of all classes remains short.
const MAX_WEIGHT: u16 = 100;

/// A traffic class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// What people call it.
    pub name: String,
    /// Which packets belong to it.
    pub packets: ClassMatch,
    /// Whose turn it is first among classes that have not used up their shares.
    pub priority: Priority,
    /// Its share of the bytes while classes compete, beside their weights; 1 to 100.
    pub weight: u16,
    /// What happens to those of its packets that a path loses, if not what the peer is configured with.
    pub repair: Option<RepairKind>,
    /// What it may send, and how what it sends is marked; `None` if it has no profile, and all is DP0.
    pub conditioning: Option<Conditioning>,
    /// Whether a flow that builds a queue here is put among what belongs to no class (RFC 9957).
    pub queue_protection: bool,
    /// The paths that its packets prefer.
    pub paths: PathPreference,
    /// Whether its TCP connections are ended at the sites, if not what the peer is configured with.
    pub split: Option<bool>,
}

/// Which paths packets of a class prefer, by the names of paths, whichever site has opened them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathPreference {
    /// Those that they go over while one of these works; empty for all.
    pub paths: Vec<String>,
    /// Those that they go over only if no other works.
    pub avoid: Vec<String>,
    /// Whether they wait where others would be taken.
    pub strict: bool,
}

impl PathPreference {
    /// Whether all paths are alike.
    pub(crate) fn is_none(&self) -> bool {
        self.paths.is_empty() && self.avoid.is_empty()
    }

    /// How well a path of that name suits: the less the better.
    pub(crate) fn detour(&self, name: &str) -> Detour {
        let is_among = |names: &[String]| names.iter().any(|other| other == name);
        if is_among(&self.avoid) {
            Detour::Avoided
        } else if self.paths.is_empty() || is_among(&self.paths) {
            Detour::None
        } else {
            Detour::Other
        }
    }
}

/// How well a path suits a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detour {
    /// It is one of those that the class prefers.
    None,
    /// It is one of the others.
    Other,
    /// It is to be avoided.
    Avoided,
}

/// What a packet must be: all that is said here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassMatch {
    /// It has one of these differentiated services code points (RFC 2474), one bit each; 0 for any.
    pub dscp: u64,
    /// It has one of these protocols, by IANA's numbers; empty for any.
    pub protocols: Vec<u8>,
    /// One of its two ports is in one of these ranges; empty for any, and for none at all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// It comes from one of these networks; empty for any.
    pub sources: Vec<IpNet>,
    /// It goes to one of these networks; empty for any.
    pub destinations: Vec<IpNet>,
}

/// Which class goes first, among those that have not used up their shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others.
    High,
    /// In the middle.
    #[default]
    Normal,
    /// When nobody else has anything.
    Low,
}

/// How a session makes good what its paths lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RepairKind {
    /// What is lost is sent again, on the path where it arrives first. What paths carry that lose much is followed by
    /// repairs, too, while there is room for them.
    #[default]
    Auto,
    /// What is lost is sent again, and nothing else.
    Resend,
    /// Every packet leaves on two paths, if there are two; what both lose stays lost.
    Duplicate,
    /// Packets are followed by repairs, on other paths where there are some, from which the peer computes what is
    /// lost (Reed-Solomon); what is beyond that stays lost.
    Fec,
    /// What is lost stays lost.
    Off,
}

impl RepairKind {
    /// All of them, the default first.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Resend, Self::Duplicate, Self::Fec, Self::Off];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Resend => "resend",
            Self::Duplicate => "duplicate",
            Self::Fec => "fec",
            Self::Off => "off",
        }
    }
}

impl ClassConfig {
    /// The class of what belongs to no other.
    #[must_use]
    pub fn best_effort() -> Self {
        Self {
            name: "best-effort".to_owned(),
            packets: ClassMatch::default(),
            priority: Priority::Normal,
            weight: DEFAULT_WEIGHT,
            repair: None,
            conditioning: None,
            queue_protection: false,
            paths: PathPreference::default(),
            split: None,
        }
    }

    /// What a site without configuration has: `voice`, `background` and `best-effort`, by the code points that
    /// applications set.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let by_dscp = |dscp| ClassMatch { dscp, ..ClassMatch::default() };
        let (voice, background) = ("voice".to_owned(), "background".to_owned());
        vec![
            // Half of best effort's weight: a third of the paths is more than calls and routing need, and what claims
            // to be a call cannot push everybody else aside.
            Self {
                name: voice,
                packets: by_dscp(VOICE),
                priority: Priority::High,
                weight: DEFAULT_WEIGHT / 2,
                queue_protection: true,
                ..Self::best_effort()
            },
            Self {
                name: background,
                packets: by_dscp(BACKGROUND),
                priority: Priority::Low,
                weight: 1,
                ..Self::best_effort()
            },
            Self::best_effort(),
        ]
    }
}

/// EF (RFC 3246), VA (RFC 5865), NQB (RFC 9956), and CS6 and CS7 for the network's own protocols (RFC 4594 §3).
const VOICE: u64 = 1 << 46 | 1 << 44 | 1 << 45 | 1 << 48 | 1 << 56;

/// LE (RFC 8622) and CS1, which was its predecessor (RFC 3662).
const BACKGROUND: u64 = 1 << 1 | 1 << 8;

impl ClassMatch {
    pub(crate) fn takes(&self, packet: &Classified) -> bool {
        let in_range = |port: &u16| self.ports.iter().any(|range| range.contains(port));
        (self.dscp == 0 || self.dscp >> packet.dscp & 1 == 1)
            && (self.protocols.is_empty() || self.protocols.contains(&packet.protocol))
            && (self.ports.is_empty() || packet.ports.iter().flatten().any(in_range))
            && is_in(packet.source, &self.sources)
            && is_in(packet.destination, &self.destinations)
    }
}

fn is_in(address: std::net::IpAddr, networks: &[IpNet]) -> bool {
    networks.is_empty() || networks.iter().any(|network| network.contains(&address))
}

/// A class of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId(u8);

impl ClassId {
    /// The class at this place of a list.
    pub(crate) fn at(index: usize) -> Self {
        Self(u8::try_from(index).unwrap_or_default())
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// All classes of a site.
#[derive(Debug)]
pub(crate) struct Classes {
    /// In the order in which they are asked, but for the first one, which is not asked: it takes what is left.
    list: Vec<ClassConfig>,
}

impl Classes {
    /// The last of `configs` takes what belongs to no other, whatever it says; surplus ones are left out. Without
    /// any there is best effort alone.
    pub(crate) fn new(mut configs: Vec<ClassConfig>) -> Self {
        let last = configs.pop().unwrap_or_else(ClassConfig::best_effort);
        configs.truncate(MAX_CLASSES - 1);
        configs.insert(0, last);
        for class in &mut configs {
            class.weight = class.weight.clamp(1, MAX_WEIGHT);
        }
        Self { list: configs }
    }

    /// The class of a packet: the first that takes it.
    pub(crate) fn of(&self, packet: &Classified) -> ClassId {
        let mut asked = (0..).zip(&self.list).skip(1);
        asked.find(|(_, class)| class.packets.takes(packet)).map(|(id, _)| ClassId(id)).unwrap_or_default()
    }

    /// What happens to packets of a class that a path loses, if the class says so.
    pub(crate) fn repair(&self, class: ClassId) -> Option<RepairKind> {
        self.list.get(class.index()).and_then(|config| config.repair)
    }

    /// Whether TCP connections of a class are ended at the sites, if the class says so.
    pub(crate) fn splits(&self, class: ClassId) -> Option<bool> {
        self.list.get(class.index()).and_then(|config| config.split)
    }

    /// Whether those of any class are.
    pub(crate) fn split_any(&self) -> bool {
        self.list.iter().any(|config| config.split == Some(true))
    }

    /// Whether packets of a class wait rather than take paths that it does not prefer.
    pub(crate) fn is_strict(&self, class: ClassId) -> bool {
        self.list.get(class.index()).is_some_and(|config| config.paths.strict && !config.paths.is_none())
    }

    /// The classes, by id.
    pub(crate) fn list(&self) -> &[ClassConfig] {
        &self.list
    }
}

#[cfg(test)]
mod tests;
