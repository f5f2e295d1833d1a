//! How packets are treated: what a `[[peer]]` says of it, or else its `[site]`.

use std::time::Duration;

use psmc_core::{AdaptiveBuffer, ReorderPolicy, RepairKind, SchedulerKind};
use psmc_toml::{SWITCH, draft};
use toml::Spanned;

use crate::config::model::Treatment;
use crate::config::value::{
    BUFFER_FACTOR, BUFFER_PACKETS, BUFFER_TIMEOUT, FIXED_BUFFER, REPAIR, Reorder, SCHEDULER, Tcp,
};

draft! {
    /// The keys of a treatment.
    #[derive(Clone, Debug, Default)]
    pub(in crate::config) struct TreatmentDraft(section, out) with or {
        scheduler: Option<SchedulerKind> = optional(SCHEDULER),
        reorder: Option<Reorder> = optional(Reorder::KIND),
        repair: Option<RepairKind> = optional(REPAIR),
        reorder_timeout: Option<Spanned<Duration>> = optional_at(BUFFER_TIMEOUT),
        reorder_packets: Option<Spanned<u16>> = optional_at(BUFFER_PACKETS),
        reorder_factor: Option<Spanned<u16>> = optional_at(BUFFER_FACTOR),
        reorder_least: Option<Spanned<u16>> = optional_at(BUFFER_PACKETS),
        reorder_most: Option<Spanned<u16>> = optional_at(BUFFER_PACKETS),
        ordered_udp: Option<bool> = optional(SWITCH),
        bad_path_rule: Option<Spanned<bool>> = optional_at(SWITCH),
        tcp: Option<Tcp> = optional(Tcp::KIND),
    }
}

impl TreatmentDraft {
    /// The treatment, with defaults for what nobody says.
    pub(in crate::config) fn build(self) -> Treatment {
        Treatment {
            scheduler: self.scheduler.unwrap_or_default(),
            reorder: self.reordering(),
            repair: self.repair.unwrap_or_default(),
            ordered_udp: self.ordered_udp.unwrap_or(false),
            bad_path_rule: self.bad_path_rule.is_some_and(Spanned::into_inner),
            tcp: self.tcp.unwrap_or_default(),
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
