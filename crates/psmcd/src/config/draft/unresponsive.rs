//! `[unresponsive]`

use psmc_core::police::{PoliceConfig, PoliceMode};
use psmc_toml::{RATE, Rate, draft};

use crate::config::value::Unresponsive;

draft! {
    /// `[unresponsive]`
    pub(in crate::config) struct UnresponsiveDraft(section, out) {
        mode: Option<Unresponsive> = optional(Unresponsive::KIND),
        floor: Option<Rate> = optional(RATE),
    }
}

impl UnresponsiveDraft {
    /// How flows that heed no loss are held down, if they are.
    pub(super) fn build(self) -> Option<PoliceConfig> {
        let mode = match self.mode.unwrap_or_default() {
            Unresponsive::Off => return None,
            Unresponsive::Police => PoliceMode::Police,
            // What eq. 6 multiplies by needs the rates of links that a site does not know.
            Unresponsive::Seed => PoliceMode::Seed { aggressiveness: 1.0 },
        };
        let floor = self.floor.map_or(PoliceConfig::default().floor, |rate| rate.bits_per_second());
        Some(PoliceConfig { mode, floor })
    }
}
