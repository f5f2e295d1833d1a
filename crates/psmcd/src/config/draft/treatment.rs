//! How packets are treated: what a `[[peer]]` says of it, or else its `[site]`.

use std::time::Duration;

use psmc_core::{AdaptiveBuffer, ReorderPolicy, RepairKind, SchedulerKind};
use psmc_toml::{Complaint, SWITCH, Section};
use toml::Spanned;

use crate::config::model::Treatment;
use crate::config::value::{
    BUFFER_FACTOR, BUFFER_PACKETS, BUFFER_TIMEOUT, FIXED_BUFFER, REPAIR, Reorder, SCHEDULER,
};

/// The keys of a treatment.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct TreatmentDraft {
    pub(in crate::config) scheduler: Option<SchedulerKind>,
    pub(in crate::config) reorder: Option<Reorder>,
    pub(in crate::config) reorder_timeout: Option<Spanned<Duration>>,
    pub(in crate::config) reorder_packets: Option<Spanned<u16>>,
    pub(in crate::config) reorder_factor: Option<Spanned<u16>>,
    pub(in crate::config) reorder_least: Option<Spanned<u16>>,
    pub(in crate::config) reorder_most: Option<Spanned<u16>>,
    pub(in crate::config) repair: Option<RepairKind>,
    pub(in crate::config) ordered_udp: Option<bool>,
    pub(in crate::config) bad_path_rule: Option<Spanned<bool>>,
}

impl TreatmentDraft {
    pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Self {
        Self {
            scheduler: section.optional("scheduler", SCHEDULER, out),
            reorder: section.optional("reorder", Reorder::KIND, out),
            reorder_timeout: section.optional_at("reorder_timeout", BUFFER_TIMEOUT, out),
            reorder_packets: section.optional_at("reorder_packets", BUFFER_PACKETS, out),
            reorder_factor: section.optional_at("reorder_factor", BUFFER_FACTOR, out),
            reorder_least: section.optional_at("reorder_least", BUFFER_PACKETS, out),
            reorder_most: section.optional_at("reorder_most", BUFFER_PACKETS, out),
            repair: section.optional("repair", REPAIR, out),
            ordered_udp: section.optional("ordered_udp", SWITCH, out),
            bad_path_rule: section.optional_at("bad_path_rule", SWITCH, out),
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
            ordered_udp: self.ordered_udp.unwrap_or(false),
            bad_path_rule: self.bad_path_rule.is_some_and(Spanned::into_inner),
        }
    }

    fn reordering(&self) -> ReorderPolicy {
        let given = |number: &Option<Spanned<u16>>| number.as_ref().map(|number| *number.get_ref());
        let usual = AdaptiveBuffer::default();
        match self.reorder.unwrap_or_default() {
            Reorder::Deadline => ReorderPolicy::Deadline,
            Reorder::Off => ReorderPolicy::Off,
            Reorder::Fixed => ReorderPolicy::Fixed {
                timeout: self.reorder_timeout.as_ref().map_or(FIXED_BUFFER.0, |time| *time.get_ref()),
                packets: given(&self.reorder_packets).unwrap_or(FIXED_BUFFER.1),
            },
            Reorder::Adaptive => ReorderPolicy::Adaptive(AdaptiveBuffer {
                factor: given(&self.reorder_factor).unwrap_or(usual.factor),
                least: given(&self.reorder_least).unwrap_or(usual.least),
                most: given(&self.reorder_most).unwrap_or(usual.most),
                ..usual
            }),
        }
    }
}
