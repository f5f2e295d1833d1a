//! How much is sent while losses are repaired: proportional rate reduction (RFC 6937).

/// A repair that is going on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// What had been sent when it began: when all of that is acknowledged, it is over.
    pub(super) until: u64,
    /// What was in flight then.
    before: u64,
    delivered: u64,
    sent: u64,
}

impl Recovery {
    /// Begins, with everything before `until` sent and `in_flight` of it not known to have arrived.
    pub(super) fn new(until: u64, in_flight: u64) -> Self {
        Self { until, before: in_flight.max(1), delivered: 0, sent: 0 }
    }

    /// So many bytes left.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// The window after an acknowledgement of `delivered` bytes, on the way to `target`.
    pub(super) fn window(&mut self, delivered: u64, in_flight: u64, target: u64, mss: u64) -> u64 {
        self.delivered += delivered;
        let may_send = if in_flight > target {
            (self.delivered * target).div_ceil(self.before).saturating_sub(self.sent)
        } else {
            let caught_up = self.delivered.saturating_sub(self.sent).max(delivered) + mss;
            caught_up.min(target - in_flight)
        };
        // The first repair leaves in any case.
        in_flight + may_send.max(if self.sent == 0 { mss } else { 0 })
    }
}
