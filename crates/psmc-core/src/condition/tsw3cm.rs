//! The time sliding window three colour marker (RFC 2859).

use std::time::Instant;

use rand_core::Rng;

use super::meter::{SlidingWindow, uniform};
use super::{Precedence, Profile};

/// Marks by the rate of a class alone.
#[derive(Debug)]
pub(super) struct Tsw3cm {
    committed: f64,
    peak: f64,
    rate: SlidingWindow,
}

/// The share of what passes that exceeds a class' rates at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    /// The committed rate: P0, or P1 + P2, of RFC 2859 §3; p of the seed's equation 1.
    pub(super) committed: f64,
    /// The peak rate: P1 of RFC 2859 §3.
    pub(super) peak: f64,
}

impl Tsw3cm {
    pub(super) fn new(profile: Profile) -> Self {
        Self { committed: profile.committed(), peak: profile.peak(), rate: SlidingWindow::default() }
    }

    /// Marks a packet of so many bytes.
    pub(super) fn mark(&mut self, len: usize, rng: &mut impl Rng, now: Instant) -> Precedence {
        self.measure(len, now).mark(1.0, rng)
    }

    /// A packet of so many bytes passes; says how much exceeds the profile.
    pub(super) fn measure(&mut self, len: usize, now: Instant) -> Excess {
        let rate = self.rate.on_packet(len, now);
        let above = |limit: f64| ((rate - limit) / rate).max(0.0);
        Excess { committed: above(self.committed), peak: above(self.peak) }
    }
}

impl Excess {
    /// The mark of a packet of a flow whose packets exceed `factor` times as often as others'.
    pub(super) fn mark(self, factor: f64, rng: &mut impl Rng) -> Precedence {
        let chance = uniform(rng);
        if chance < self.peak * factor {
            Precedence::Dp2
        } else if chance < self.committed * factor {
            Precedence::Dp1
        } else {
            Precedence::Dp0
        }
    }
}
