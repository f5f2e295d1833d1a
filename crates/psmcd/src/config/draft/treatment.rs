//! How packets are treated: what a `[[peer]]` says of it, or else its `[site]`.

use psmc_toml::{Complaint, Section};
use toml::Spanned;

use crate::config::model::{Reordering, Treatment};
use crate::config::value::{BufferFactor, BufferPackets, BufferTimeout, Reorder, Repair, Scheduler, Switch};

/// The keys of a treatment.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct TreatmentDraft {
    pub(in crate::config) scheduler: Option<Scheduler>,
    pub(in crate::config) reorder: Option<Reorder>,
    pub(in crate::config) reorder_timeout: Option<Spanned<BufferTimeout>>,
    pub(in crate::config) reorder_packets: Option<Spanned<BufferPackets>>,
    pub(in crate::config) reorder_factor: Option<Spanned<BufferFactor>>,
    pub(in crate::config) reorder_least: Option<Spanned<BufferPackets>>,
    pub(in crate::config) reorder_most: Option<Spanned<BufferPackets>>,
    pub(in crate::config) repair: Option<Repair>,
    pub(in crate::config) ordered_udp: Option<Switch>,
    pub(in crate::config) bad_path_rule: Option<Spanned<Switch>>,
}

impl TreatmentDraft {
    pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Self {
        Self {
            scheduler: section.optional("scheduler", out).map(Spanned::into_inner),
            reorder: section.optional("reorder", out).map(Spanned::into_inner),
            reorder_timeout: section.optional("reorder_timeout", out),
            reorder_packets: section.optional("reorder_packets", out),
            reorder_factor: section.optional("reorder_factor", out),
            reorder_least: section.optional("reorder_least", out),
            reorder_most: section.optional("reorder_most", out),
            repair: section.optional("repair", out).map(Spanned::into_inner),
            ordered_udp: section.optional("ordered_udp", out).map(Spanned::into_inner),
            bad_path_rule: section.optional("bad_path_rule", out),
        }
    }

    /// This one, with what it does not say taken from `other`.
    pub(in crate::config) fn or(&self, other: &Self) -> Self {
        let own = self.clone();
        let other = other.clone();
        Self {
            scheduler: own.scheduler.or(other.scheduler),
            reorder: own.reorder.or(other.reorder),
            reorder_timeout: own.reorder_timeout.or(other.reorder_timeout),
            reorder_packets: own.reorder_packets.or(other.reorder_packets),
            reorder_factor: own.reorder_factor.or(other.reorder_factor),
            reorder_least: own.reorder_least.or(other.reorder_least),
            reorder_most: own.reorder_most.or(other.reorder_most),
            repair: own.repair.or(other.repair),
            ordered_udp: own.ordered_udp.or(other.ordered_udp),
            bad_path_rule: own.bad_path_rule.or(other.bad_path_rule),
        }
    }

    /// The treatment, with defaults for what nobody says.
    pub(in crate::config) fn build(self) -> Treatment {
        Treatment {
            scheduler: self.scheduler.unwrap_or_default(),
            reorder: self.reordering(),
            repair: self.repair.unwrap_or_default(),
            ordered_udp: self.ordered_udp.is_some_and(|switch| switch.0),
            bad_path_rule: self.bad_path_rule.is_some_and(|switch| switch.get_ref().0),
        }
    }

    fn reordering(&self) -> Reordering {
        let packets = |given: &Option<Spanned<BufferPackets>>, default| {
            given.as_ref().map_or(default, |packets| *packets.get_ref())
        };
        match self.reorder.unwrap_or_default() {
            Reorder::Deadline => Reordering::Deadline,
            Reorder::Off => Reordering::Off,
            Reorder::Fixed => Reordering::Fixed {
                timeout: self.reorder_timeout.as_ref().map(|ms| *ms.get_ref()).unwrap_or_default(),
                packets: packets(&self.reorder_packets, BufferPackets::FIXED),
            },
            Reorder::Adaptive => Reordering::Adaptive {
                factor: self.reorder_factor.as_ref().map(|factor| *factor.get_ref()).unwrap_or_default(),
                least: packets(&self.reorder_least, BufferPackets::LEAST),
                most: packets(&self.reorder_most, BufferPackets::MOST),
            },
        }
    }
}
