//! The round trip of a path that carries a load, without any queue.

use std::time::{Duration, Instant};

use crate::windowed::WindowedMin;

/// The smallest round trips of rounds that carried a load.
///
/// A path whose delay varies and which keeps the order of its packets is never as fast under load as it is for a single packet, and of many
/// rounds the fastest is as rare as a slow one. What it is as a rule shows just after queues were drained: the fastest round of each
/// cycle of probing, on average.
#[derive(Debug, Default)]
pub(crate) struct LoadedRtt {
    least: WindowedMin,
    /// The smallest of this cycle, and the mean of those of cycles, the last of which weighs a quarter.
    cycle: Option<Duration>,
    mean: Option<Duration>,
}

impl LoadedRtt {
    /// A round whose queue is not ours had `least` for its smallest round trip.
    pub(crate) fn on_round(&mut self, least: Duration, now: Instant) {
        self.least.update(least, now);
    }

    /// The same of a round between two probes.
    pub(crate) fn on_cruise(&mut self, least: Duration) {
        self.cycle = Some(self.cycle.map_or(least, |before| before.min(least)));
    }

    /// The path is probed again, or will not be for long.
    pub(crate) fn end_cycle(&mut self) {
        if let Some(least) = self.cycle.take() {
            self.mean = Some(self.mean.map_or(least, |mean| (mean * 3 + least) / 4));
        }
    }

    /// The smallest of the last seconds, if it is more than `min_rtt`, that of a single packet.
    pub(crate) fn least(&self, min_rtt: Duration) -> Duration {
        self.least.get().unwrap_or(min_rtt).max(min_rtt)
    }

    /// The mean of those of cycles, within `slack` of the smallest: a queue of others is in all of them.
    pub(crate) fn typical(&self, min_rtt: Duration, slack: Duration) -> Duration {
        let least = self.least(min_rtt);
        self.mean.map_or(least, |mean| mean.clamp(least, least + slack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_rule_it_is_longer_than_the_fastest_round() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        let mut rtt = LoadedRtt::default();
        assert_eq!(rtt.typical(ms(10), ms(5)), ms(10), "nothing was seen");
        for cycle in [[25, 22], [23, 26], [24, 22], [16, 20]] {
            for least in cycle {
                rtt.on_round(ms(least), now);
                rtt.on_cruise(ms(least));
            }
            rtt.end_cycle();
        }
        assert_eq!(rtt.least(ms(10)), ms(16));
        assert!((ms(20)..ms(22)).contains(&rtt.typical(ms(10), ms(8))));
        assert_eq!(rtt.typical(ms(10), ms(3)), ms(19), "others may have a queue in all of them");
    }
}
