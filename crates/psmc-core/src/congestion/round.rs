//! What a round trip has shown.

use std::time::Duration;

use super::percent;

/// What happened since the last round's end.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Bytes acknowledged, and declared lost.
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    /// The smallest round-trip time in it.
    pub(crate) min_rtt: Option<Duration>,
}

impl Round {
    /// Whether more was lost than chance explains, in datagrams of `datagram_size` bytes, `min_rtt` being the
    /// path's best.
    pub(crate) fn is_lossy(&self, datagram_size: u64, min_rtt: Duration) -> bool {
        let limit = if self.saw_queue(min_rtt) { LOSSY_PERCENT } else { LOSSY_UNQUEUED_PERCENT };
        self.lost >= LOSSY_DATAGRAMS * datagram_size && self.lost_percent() >= limit
    }

    /// The share of the round that was lost, 0 to 100.
    pub(crate) fn lost_percent(&self) -> u64 {
        self.lost * 100 / (self.acked + self.lost).max(1)
    }

    /// Whether no packet of the round found the bottleneck's queue short, `min_rtt` being the path's best.
    pub(crate) fn saw_queue(&self, min_rtt: Duration) -> bool {
        self.min_rtt.is_some_and(|rtt| rtt > min_rtt + min_rtt / 4 + QUEUE_TOLERANCE)
    }
}

/// Whether sending more has made the path deliver more.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// The rate that has to be exceeded, bytes per second.
    baseline: u64,
    /// Rounds in which it was.
    pub(crate) grown: u32,
    /// Rounds since it last was.
    pub(crate) stalled: u32,
}

impl Growth {
    /// Growth is what exceeds `baseline` bytes per second.
    pub(crate) fn above(baseline: u64) -> Self {
        Self { baseline, ..Self::default() }
    }

    /// A round delivered `bytes_per_s`; it has grown if that is `target` percent of the last growth's.
    pub(crate) fn on_round(&mut self, bytes_per_s: u64, target: u64) -> bool {
        let grew = bytes_per_s >= percent(self.baseline, target);
        if grew {
            *self = Self { baseline: bytes_per_s, grown: self.grown + 1, stalled: 0 };
        } else {
            self.stalled += 1;
        }
        grew
    }
}

/// `BBR.LossThresh` of draft-ietf-ccwg-bbr is 2 %; radio links lose as much without any congestion.
const LOSSY_PERCENT: u64 = 5;

/// Without any queue
/// a loss is rather the radio's than congestion, unless it is as heavy as a policer's when a probe exceeds it.
const LOSSY_UNQUEUED_PERCENT: u64 = 15;

/// Of few datagrams one is soon 5 %.
const LOSSY_DATAGRAMS: u64 = 4;

/// Late acknowledgements and late hosts look like a queue of this length.
const QUEUE_TOLERANCE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn is_lossy(acked: u64, lost: u64, min_rtt: Duration) -> bool {
        Round { acked, lost, min_rtt: Some(min_rtt) }.is_lossy(1000, RTT)
    }

    #[test]
    fn a_few_lost_datagrams_are_chance() {
        let queued = 2 * RTT;
        assert!(!is_lossy(10_000, 3000, queued), "three of thirteen");
        assert!(!is_lossy(98_000, 2000, queued), "2 %");
        assert!(is_lossy(90_000, 10_000, queued), "10 %");
    }

    #[test]
    fn without_a_queue_only_heavy_loss_is_congestion() {
        assert!(!is_lossy(90_000, 10_000, RTT), "10 %");
        assert!(is_lossy(80_000, 20_000, RTT), "20 %");
        assert!(!Round::default().is_lossy(1000, RTT), "nothing sent");
    }

    #[test]
    fn growth_counts_from_the_last_growth() {
        let mut growth = Growth::above(100);
        growth.on_round(120, 110);
        growth.on_round(125, 110);
        assert_eq!((growth.grown, growth.stalled), (1, 1));
        growth.on_round(132, 110);
        assert_eq!((growth.grown, growth.stalled), (2, 0));
    }
}
