//! HyStart (Ha and Rhee, 2011): an end of slow start before packets are lost.

use std::time::{Duration, Instant};

/// Below this window, in segments, no slow start ends: there is nothing to be seen yet.
const MIN_WINDOW: f64 = 16.0;

/// Acknowledgements no farther apart than this are of one train.
const TRAIN_SPACING: Duration = Duration::from_millis(2);

/// Samples of a round from which its delay is judged.
const MIN_SAMPLES: u32 = 8;

/// The increase of the delay that ends slow start: an eighth of it, within these bounds.
const MIN_INCREASE: Duration = Duration::from_millis(4);
const MAX_INCREASE: Duration = Duration::from_millis(16);

/// What it has seen of the present round trip, and of all.
#[derive(Debug, Default)]
pub(super) struct HyStart {
    min_delay: Option<Duration>,
    round: Option<Round>,
}

#[derive(Debug)]
struct Round {
    started_at: Instant,
    last_ack_at: Instant,
    /// When everything up to here has arrived, the round is over.
    until: u64,
    samples: u32,
    delay: Duration,
}

impl HyStart {
    /// Begins anew, after a loss of everything.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Looks at an acknowledgement in slow start; says whether slow start should end.
    pub(super) fn should_end(
        &mut self,
        window: f64,
        rtt: Option<Duration>,
        acknowledged: u64,
        sent: u64,
        now: Instant,
    ) -> bool {
        let Some(rtt) = rtt else {
            return false;
        };
        let min_delay = self.min_delay.map_or(rtt, |min| min.min(rtt));
        self.min_delay = Some(min_delay);
        let round = match &mut self.round {
            Some(round) if acknowledged < round.until => round,
            ended => ended.insert(Round {
                started_at: now,
                last_ack_at: now,
                until: sent,
                samples: 0,
                delay: Duration::MAX,
            }),
        };
        let train_ends = round.train_passes(min_delay / 2, now);
        round.delay = round.delay.min(rtt);
        round.samples += 1;
        let increase = (min_delay / 8).clamp(MIN_INCREASE, MAX_INCREASE);
        let delayed = round.samples >= MIN_SAMPLES && round.delay > min_delay + increase;
        window >= MIN_WINDOW && (train_ends || delayed)
    }
}

impl Round {
    /// Whether acknowledgements have come one close behind the other for longer than `limit`: then the packets of
    /// this round fill the path.
    fn train_passes(&mut self, limit: Duration, now: Instant) -> bool {
        if now.saturating_duration_since(self.last_ack_at) > TRAIN_SPACING {
            return false;
        }
        self.last_ack_at = now;
        now.saturating_duration_since(self.started_at) > limit
    }
}
