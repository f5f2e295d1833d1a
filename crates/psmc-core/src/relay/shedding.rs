//! What a relay drops for those to whom it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use psmc_wire::Label;
use psmc_wire::ids::KeyBytes;

use crate::shed::Held;

/// The rules of all sites. While there are none, a datagram costs two comparisons.
#[derive(Debug, Default)]
pub(super) struct Shedding {
    sites: BTreeMap<KeyBytes, Arc<Held>>,
    labels: BTreeMap<Label, Arc<Held>>,
}

impl Shedding {
    /// Puts the rules of a site in place of those that it had.
    pub(super) fn set(&mut self, site: KeyBytes, rules: Option<Arc<Held>>) {
        if let Some(before) = self.sites.remove(&site) {
            self.labels.retain(|_, held| !Arc::ptr_eq(held, &before));
        }
        if let Some(rules) = rules {
            self.labels.extend(rules.labels().map(|label| (Label(label), rules.clone())));
            self.sites.insert(site, rules);
        }
    }

    /// Whether a datagram passes that goes to a site, and to the end whose own datagrams come with this label. A rule for the label
    /// counts before those for the site.
    pub(super) fn passes(
        &self,
        site: Option<KeyBytes>,
        label: Label,
        mark: u8,
        bytes: usize,
        now: u64,
    ) -> bool {
        if let Some(held) = self.labels.get(&label) {
            return held.passes_label(label.0, mark, bytes, now);
        }
        if self.sites.is_empty() {
            return true;
        }
        let held = site.and_then(|site| self.sites.get(&site));
        held.is_none_or(|held| held.passes_datagram(mark, bytes, now))
    }

    /// The rules of a site for inner packets.
    pub(super) fn of(&self, site: KeyBytes) -> Option<&Held> {
        self.sites.get(&site).map(Arc::as_ref)
    }

    /// Forgets what has ended.
    pub(super) fn forget(&mut self, now: u64) {
        self.sites.retain(|_, held| !held.has_ended(now));
        self.labels.retain(|_, held| !held.has_ended(now));
    }
}
