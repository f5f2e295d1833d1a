//! The window that losses impose.

use super::percent;

/// How much may be in flight after losses, until rounds without any have shown that more may (`BBR.inflight_longterm`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossCeiling(u64);

impl Default for LossCeiling {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl LossCeiling {
    /// In bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }

    /// Nothing is known of losses any more.
    pub(crate) fn lift(&mut self) {
        *self = Self::default();
    }

    /// What was lost had been sent to try whether the path takes more than it is believed to hold.
    pub(crate) fn limit(&mut self, held: u64) {
        self.0 = self.0.min(held);
    }

    /// A round has lost this share of what was sent in a `window`, and has delivered so much.
    pub(crate) fn lower(&mut self, window: u64, lost_percent: u64, delivered: u64) {
        let share = LOSS_BACKOFF_PERCENT.min(100 - lost_percent);
        self.0 = percent(window, share).max(delivered);
    }

    /// Nothing was lost: back to what the path is believed to hold at once, beyond it only as far as probes go unharmed.
    pub(crate) fn raise(&mut self, held: u64, is_probe: bool) {
        if self.0 < held || is_probe {
            self.0 = self.0.saturating_add(self.0 / CEILING_GROWTH);
        }
    }
}

/// After loss the window sinks at most to this (`BBR.Beta`).
const LOSS_BACKOFF_PERCENT: u64 = 70;

/// A clean round raises the ceiling by an eighth: three make good for one lossy round.
const CEILING_GROWTH: u64 = 8;
