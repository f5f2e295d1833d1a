//! HyStart++ (RFC 9406): the end of slow start before packets are lost.

use std::time::Duration;

/// Judges from the round trips whether slow start has filled the path.
///
/// ```text
/// slow start ──(a round's delay rose)──────────> conservative slow start
/// conservative ──(the delay fell again)────────> slow start
/// conservative ──(five rounds)─────────────────> over
/// ```
#[derive(Debug, Default)]
pub(super) struct HyStart {
    current: Delay,
    last: Option<Duration>,
    conservative: Option<Conservative>,
}

/// The round trips of a round.
#[derive(Debug, Default)]
struct Delay {
    /// `currentRoundMinRTT`
    least: Option<Duration>,
    /// `rttSampleCount`
    samples: u64,
}

/// Conservative slow start.
#[derive(Debug)]
struct Conservative {
    /// `cssBaselineMinRtt`
    baseline: Duration,
    /// Rounds in it.
    rounds: u32,
}

impl HyStart {
    /// `datagrams` were acknowledged with this round trip. An acknowledgement here covers up to 16 datagrams, so
    /// each of them counts as a sample.
    pub(super) fn on_ack(&mut self, rtt: Duration, datagrams: u64) {
        self.current.least = Some(self.current.least.map_or(rtt, |least| least.min(rtt)));
        self.current.samples += datagrams.max(1);
        let Some(least) = self.current.least.filter(|_| self.current.samples >= N_RTT_SAMPLE) else {
            return;
        };
        match (&self.conservative, self.last) {
            (Some(css), _) if least < css.baseline => self.conservative = None,
            (None, Some(last)) if least >= last + threshold(last) => {
                self.conservative = Some(Conservative { baseline: least, rounds: 0 });
            }
            (Some(_) | None, _) => {}
        }
    }

    /// A round has ended; says whether slow start has, too.
    pub(super) fn on_round_end(&mut self) -> bool {
        let ended = std::mem::take(&mut self.current);
        self.last = ended.least.or(self.last);
        let Some(css) = &mut self.conservative else {
            return false;
        };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }

    /// By how much slower than in slow start the window grows.
    pub(super) fn divisor(&self) -> f64 {
        if self.conservative.is_some() { CSS_GROWTH_DIVISOR } else { 1.0 }
    }
}

/// `RttThresh`: the rise of the round trip that means a queue.
fn threshold(last: Duration) -> Duration {
    (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

/// The constants of RFC 9406 §4.3, by their names there.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u64 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A round of that round trip; says whether slow start ended with it.
    fn round(hystart: &mut HyStart, rtt: u64) -> bool {
        hystart.on_ack(ms(rtt), 8);
        hystart.on_round_end()
    }

    #[test]
    fn five_rounds_with_a_queue_end_slow_start() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, 40));
        assert!(!round(&mut hystart, 44));
        assert_eq!(hystart.divisor(), 1.0, "an eighth of 40 ms is 5");
        for n in 0..4 {
            assert!(!round(&mut hystart, 50 + n));
            assert_eq!(hystart.divisor(), 4.0);
        }
        assert!(round(&mut hystart, 60));
    }

    #[test]
    fn a_delay_that_falls_again_was_no_queue() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        round(&mut hystart, 60);
        assert_eq!(hystart.divisor(), 4.0);
        round(&mut hystart, 41);
        assert_eq!(hystart.divisor(), 1.0);
    }

    #[test]
    fn few_samples_prove_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        hystart.on_ack(ms(90), 7);
        assert_eq!(hystart.divisor(), 1.0);
        hystart.on_ack(ms(90), 1);
        assert_eq!(hystart.divisor(), 4.0);
    }

    #[test]
    fn the_threshold_is_bounded() {
        assert_eq!([8, 80, 800].map(|rtt| threshold(ms(rtt))), [ms(4), ms(10), ms(16)]);
    }
}
