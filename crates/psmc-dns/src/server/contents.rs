//! What a server serves: its zones, and the keys that it knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use hickory_proto::rr::{Name, RecordType};

use super::Hosted;
use psmc_routes::update::TsigKey;

/// Zones and keys, which the configuration replaces together.
#[derive(Debug, Default)]
pub struct Contents {
    zones: BTreeMap<Name, Arc<Hosted>>,
    keys: Vec<TsigKey>,
}

impl Contents {
    /// These zones and keys.
    #[must_use]
    pub fn new(zones: impl IntoIterator<Item = Arc<Hosted>>, keys: Vec<TsigKey>) -> Self {
        let zones = zones.into_iter().map(|zone| (zone.origin().clone(), zone)).collect();
        Self { zones, keys }
    }

    /// The zones, by name.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Hosted>> {
        self.zones.values()
    }

    /// The zone of this name.
    #[must_use]
    pub fn zone(&self, origin: &Name) -> Option<&Arc<Hosted>> {
        self.zones.get(&origin.to_lowercase())
    }

    /// The TSIG keys.
    pub(super) fn keys(&self) -> &[TsigKey] {
        &self.keys
    }

    /// The zone that a name is in. The DS records of a zone are in the one above it.
    pub(super) fn zone_of(&self, name: &Name, kind: RecordType) -> Option<&Arc<Hosted>> {
        let name = name.to_lowercase();
        let labels = name.iter().count();
        let above = usize::from(kind == RecordType::DS && labels > 0);
        let mut candidates = (0..=labels - above).rev().map(|labels| name.trim_to(labels));
        let found = candidates.find_map(|origin| self.zones.get(&origin));
        found.or_else(|| self.zones.get(&name))
    }
}
