//! The conditioners of a site: one for each class that has a profile.

use std::time::Instant;

use psmc_wire::PacketBuf;
use rand_core::Rng;

use crate::classify::{self, ClassConfig, ClassId, Classified};
use crate::condition::{Conditioner, Conditioning, Facts, Marked, Mode, Precedence, TcpFacts, set_dscp};

/// What a conditioner has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionerStatus {
    /// The class.
    pub class: String,
    /// How it is conditioned.
    pub conditioning: Conditioning,
    /// What was marked, by precedence.
    pub marked: [Marked; 3],
}

/// All conditioners of a site, by the classes' numbers.
#[derive(Debug)]
pub(crate) struct Conditioners {
    list: Vec<Option<Box<Entry>>>,
    key: u64,
    reads_tcp: bool,
    precedence_of_repairs: Precedence,
}

#[derive(Debug)]
struct Entry {
    class: String,
    conditioning: Conditioning,
    conditioner: Conditioner,
}

impl Conditioners {
    /// Those of these classes. The `key` is a secret of this site.
    pub(crate) fn new(classes: &[ClassConfig], key: u64) -> Self {
        let mut conditioners =
            Self { list: Vec::new(), key, reads_tcp: false, precedence_of_repairs: Precedence::Dp0 };
        conditioners.set_classes(classes);
        conditioners
    }

    /// Conditions these classes from now on. What is known of one that keeps its name and profile stays known, and its counters go on.
    pub(crate) fn set_classes(&mut self, classes: &[ClassConfig]) {
        let mut before = std::mem::take(&mut self.list);
        let key = self.key;
        let entry = |class: &ClassConfig| {
            let conditioning = class.conditioning?;
            let known =
                before.iter_mut().find(|known| known.as_ref().is_some_and(|known| known.class == class.name));
            Some(Entry::new(class, conditioning, known.and_then(Option::take), key))
        };
        self.list = classes.iter().map(entry).collect();
        let mut all = self.list.iter().flatten();
        self.reads_tcp = all.clone().any(|entry| entry.conditioner.reads_tcp());
        let conditions = all.any(|entry| entry.conditioning.mode != Mode::Off);
        // They are of use only if others are lost.
        self.precedence_of_repairs = if conditions { Precedence::Dp2 } else { Precedence::Dp0 };
    }

    /// Marks a packet that the site sends, in its header too where that is asked for.
    pub(crate) fn mark(
        &mut self,
        class: ClassId,
        headers: &Classified,
        packet: &mut PacketBuf,
        rng: &mut impl Rng,
        now: Instant,
    ) -> Precedence {
        let Some(entry) = self.list.get_mut(class.index()).and_then(Option::as_mut) else {
            return Precedence::Dp0;
        };
        let facts = Facts {
            flow: headers.flow,
            source: headers.source,
            destination: headers.destination,
            len: packet.len(),
            is_ce: headers.is_ce,
            tcp: if entry.conditioner.reads_tcp() { tcp_facts(packet.packet()) } else { None },
        };
        let precedence = entry.conditioner.mark(&facts, rng, now);
        if let Some(mark) = entry.conditioning.mark {
            set_dscp(packet.packet_mut(), mark.dscp(precedence));
        }
        precedence
    }

    /// A segment has come that answers those of a class' flow.
    pub(crate) fn on_reply(&mut self, class: ClassId, flow: u64, packet: &[u8], now: Instant) {
        if let Some(Some(entry)) = self.list.get_mut(class.index())
            && let Some(tcp) = tcp_facts(packet)
        {
            entry.conditioner.on_reply(flow, &tcp, now);
        }
    }

    /// Whether any of them wants to hear of replies.
    pub(crate) fn reads_tcp(&self) -> bool {
        self.reads_tcp
    }

    /// What repairs of packets are marked with.
    pub(crate) fn precedence_of_repairs(&self) -> Precedence {
        self.precedence_of_repairs
    }

    /// What they have done.
    pub(crate) fn status(&self) -> Vec<ConditionerStatus> {
        let status = |entry: &Entry| ConditionerStatus {
            class: entry.class.clone(),
            conditioning: entry.conditioning,
            marked: entry.conditioner.marked(),
        };
        self.list.iter().flatten().map(|entry| status(entry)).collect()
    }
}

impl Entry {
    fn new(class: &ClassConfig, conditioning: Conditioning, known: Option<Box<Self>>, key: u64) -> Box<Self> {
        let Conditioning { profile, mode, .. } = conditioning;
        let class = class.name.clone();
        match known {
            Some(same) if same.conditioner.profile() == profile && same.conditioner.mode() == mode => {
                Box::new(Self { class, conditioning, ..*same })
            }
            other => {
                let marked = other.map(|other| other.conditioner.marked()).unwrap_or_default();
                let conditioner = Conditioner::new(profile, mode, key).after(marked);
                Box::new(Self { class, conditioning, conditioner })
            }
        }
    }
}

/// What the TCP header of a packet says, if it has one.
fn tcp_facts(packet: &[u8]) -> Option<TcpFacts> {
    let tcp = packet.get(classify::tcp_header(packet)?.at..)?;
    let &[_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, ..] = tcp else { return None };
    let payload = tcp.len().saturating_sub(usize::from(offset >> 4) * 4);
    Some(TcpFacts {
        flags,
        seq: u32::from_be_bytes([s0, s1, s2, s3]),
        ack: u32::from_be_bytes([a0, a1, a2, a3]),
        payload: u32::try_from(payload).unwrap_or(u32::MAX),
    })
}
