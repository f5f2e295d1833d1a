//! Presets: several settings of a peer or of a class by one word. What is written beside it wins.

use std::time::Duration;

use psmc_core::{Priority, RepairKind, SchedulerKind};
use psmc_toml::{Complaint, Section, choice};

use super::draft::TreatmentDraft;
use super::value::{DEFAULT_KEEPALIVE, Reorder};

choice! {
    /// What a peer or a class is for.
    pub enum Preset: "preset", such as "live" {
        /// For everything: what holds without a preset.
        Balanced = "balanced",
        /// Video and sound on their way to somebody who watches: nothing is lost, and nothing late.
        Live = "live",
        /// Links that cost by the byte: nothing is sent twice that need not be.
        Metered = "metered",
        /// Small packets that answer to each other: the first copy counts.
        Gaming = "gaming",
    }
}

/// A preset that a file has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which.
    pub preset: Preset,
    /// What it sets there, as a file would write it: without what the file writes itself.
    pub sets: Vec<String>,
}

/// Which paths are dear: those with a quota.
const DEAR: &str = "paths with a quota";

impl Chosen {
    /// That of a `[[peer]]`, if there is one.
    pub(super) fn of_peer(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let preset = section.optional("preset", Preset::KIND, out)?;
        let tier = preset.spares_quotas().then(|| format!("tier = \"secondary\" for {DEAR}"));
        let sets = written(&preset.keys_of_peer(), section).chain(tier).collect();
        Some(Self { preset, sets })
    }

    /// That of a `[[class]]`, if there is one.
    pub(super) fn of_class(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let preset = section.optional("preset", Preset::KIND, out)?;
        let says_paths = section.has("paths") || section.has("avoid");
        let avoid = (preset.spares_quotas() && !says_paths).then(|| format!("avoid = {DEAR}"));
        let sets = written(&preset.of_class().keys(), section).chain(avoid).collect();
        Some(Self { preset, sets })
    }
}

/// The keys that the section does not give itself, right or wrong, with their values.
fn written(keys: &[(&str, String)], section: &Section<'_>) -> impl Iterator<Item = String> {
    let new = keys.iter().filter(|(key, _)| !section.has(key));
    new.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().into_iter()
}

/// What a preset sets of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfClass {
    pub(super) priority: Priority,
    pub(super) weight: u16,
    pub(super) repair: RepairKind,
    pub(super) queue_protection: bool,
}

impl OfClass {
    fn keys(self) -> [(&'static str, String); 4] {
        let priority = match self.priority {
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        };
        [
            ("priority", format!("\"{priority}\"")),
            ("weight", self.weight.to_string()),
            ("repair", format!("\"{}\"", self.repair.name())),
            ("queue_protection", self.queue_protection.to_string()),
        ]
    }
}

impl Preset {
    /// How packets of a peer are treated. Repair symbols are no match for links that lose packets in bursts, so what must not be late
    /// leaves twice. What paths have reordered looks lost to protocols like SRT, which ask for it again.
    pub(super) fn treatment(self) -> TreatmentDraft {
        let treatment = |repair, ordered_udp| TreatmentDraft {
            scheduler: Some(SchedulerKind::Earliest),
            reorder: Some(Reorder::Deadline),
            repair: Some(repair),
            ordered_udp: Some(ordered_udp),
            ..TreatmentDraft::default()
        };
        match self {
            Self::Balanced => treatment(RepairKind::Auto, false),
            Self::Live => treatment(RepairKind::Duplicate, true),
            Self::Metered => treatment(RepairKind::Resend, false),
            Self::Gaming => treatment(RepairKind::Duplicate, false),
        }
    }

    /// How often an idle path is probed. What must not wait for a path that has died meanwhile asks every second; what is paid for by
    /// the byte as seldom as NATs bear it.
    pub(super) fn keepalive(self) -> Duration {
        match self {
            Self::Balanced => DEFAULT_KEEPALIVE,
            Self::Live | Self::Gaming => Duration::from_secs(1),
            Self::Metered => Duration::from_secs(25),
        }
    }

    /// How packets of a class are treated. Video is given most of a full path, for its priority ends with its share; who loads things
    /// in a game is no game while that builds a queue.
    pub(super) fn of_class(self) -> OfClass {
        let (priority, weight, repair) = match self {
            Self::Balanced => (Priority::Normal, 10, RepairKind::Auto),
            Self::Live => (Priority::High, 40, RepairKind::Duplicate),
            Self::Metered => (Priority::Low, 5, RepairKind::Resend),
            Self::Gaming => (Priority::High, 10, RepairKind::Duplicate),
        };
        OfClass { priority, weight, repair, queue_protection: self == Self::Gaming }
    }

    /// Whether paths with a quota are left to what needs them.
    pub(super) fn spares_quotas(self) -> bool {
        match self {
            Self::Metered => true,
            Self::Balanced | Self::Live | Self::Gaming => false,
        }
    }

    fn keys_of_peer(self) -> [(&'static str, String); 5] {
        let TreatmentDraft { scheduler, reorder, repair, ordered_udp, .. } = self.treatment();
        let quoted = |word: Option<&str>| format!("\"{}\"", word.unwrap_or_default());
        [
            ("scheduler", quoted(scheduler.map(SchedulerKind::name))),
            ("reorder", quoted(reorder.map(Reorder::as_str))),
            ("repair", quoted(repair.map(RepairKind::name))),
            ("ordered_udp", ordered_udp.unwrap_or_default().to_string()),
            ("keepalive", self.keepalive().as_secs().to_string()),
        ]
    }
}
