//! How long datagrams stand in the queues of the direction in which a path carries them.

use std::time::{Duration, Instant};

use crate::windowed::WindowedMin;

/// Queueing delay, from differences between the peer's clock and ours.
///
/// A round trip grows with the queues of both directions, and with late acknowledgements; what this site sends
/// stands only in those of its own direction.
#[derive(Debug, Default)]
pub(crate) struct ForwardDelay {
    least: WindowedMin,
    /// The newest one, on a scale of its own.
    latest: Duration,
}

impl ForwardDelay {
    /// A datagram sent at `sent_us` by our clock arrived at `received_us` by the peer's: microseconds, wrapping,
    /// from origins that have nothing to do with each other. Returns its queueing delay.
    pub(crate) fn update(&mut self, sent_us: u32, received_us: u32, now: Instant) -> Duration {
        let difference = i64::from(received_us.wrapping_sub(sent_us).cast_signed());
        // Only differences between differences mean anything: moved to where none is negative.
        let moved = Duration::from_micros(difference.abs_diff(i64::from(i32::MIN)));
        self.least.update(moved, now);
        self.latest = moved;
        moved.saturating_sub(self.least.get().unwrap_or(moved))
    }

    /// The newest delay, propagation and an offset included that is always the same: unlike the queueing delay it does not
    /// jump when the least delay is forgotten.
    pub(crate) fn latest_delay(&self) -> Duration {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_with_any_offset_show_the_same_queue() {
        let now = Instant::now();
        for offset in [0u32, 1, 5_000_000, u32::MAX - 3, 1 << 30, 3 << 30] {
            let mut forward = ForwardDelay::default();
            let mut measure = |sent: u32, delay: u32| {
                forward.update(sent, sent.wrapping_add(delay).wrapping_add(offset), now).as_micros()
            };
            assert_eq!(measure(100, 10_000), 0, "{offset}");
            assert_eq!(measure(u32::MAX, 12_000), 2_000, "{offset}");
            assert_eq!(measure(5, 10_000), 0, "{offset}");
        }
    }
}
