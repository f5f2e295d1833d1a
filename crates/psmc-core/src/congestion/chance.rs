//! What is lost by chance.

use std::time::{Duration, Instant};

/// What the path loses whether there is a queue or not.
#[derive(Debug)]
pub(crate) struct ChanceLoss {
    /// The share that is lost, 0 to 1, and what weight the last round has in it.
    share: f64,
    gain: f64,
}

impl Default for ChanceLoss {
    fn default() -> Self {
        Self::over(CHANCE_ROUNDS)
    }
}

impl ChanceLoss {
    /// Nothing has been lost yet; about so many `rounds` will count.
    pub(crate) fn over(rounds: u32) -> Self {
        Self { share: 0.0, gain: f64::from(rounds).recip() }
    }

    /// A round that was not lossy, of many datagrams, lost `lost` bytes of `sent`.
    pub(crate) fn on_round(&mut self, lost: u64, sent: u64) {
        self.share += (lost as f64 / sent.max(1) as f64 - self.share) * self.gain;
    }

    /// At least this share, 0 to 1, was seen to be lost by chance.
    pub(crate) fn learn(&mut self, share: f64) {
        self.share = self.share.max(share);
    }

    /// The bytes to send for `arriving` to arrive.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most twice as many")]
    pub(crate) fn sent_for(&self, arriving: u64) -> u64 {
        (arriving as f64 / (1.0 - self.share.min(MOST_MADE_GOOD))) as u64
    }

    /// Whether it is more than who sends a little more from time to time makes good for, on a path whose delays vary, or do not.
    pub(crate) fn is_felt(&self, varies: impl FnOnce() -> bool) -> bool {
        self.share >= FELT || (self.share >= FELT_IN_MEANS && varies())
    }

    /// The share that is lost, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// The bytes of `sent` that chance loses at most: three standard deviations above the mean, of a Poisson
    /// distribution.
    #[expect(clippy::cast_possible_truncation, reason = "a count of datagrams, rounded up")]
    pub(crate) fn most(&self, sent: u64, datagram_size: u64) -> u64 {
        let mean = self.share * sent as f64 / datagram_size as f64;
        let most = (mean + 3.0 * mean.sqrt()).ceil();
        datagram_size.saturating_mul(most as u64)
    }
}

/// How what is lost answers to what is sent.
///
/// A queue that overflows, as a policer does, lets pass what it lets pass: of half as much it drops much less. A radio loses the same share of
/// little as of much; and who takes that for congestion, and gives way at each loss, ends at a few packets per round trip.
#[derive(Debug, Default)]
pub(crate) struct LossResponse(Option<Watch>);

/// What was sent in a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Bytes per second.
    pub(crate) rate: u64,
    pub(crate) bytes: u64,
    /// How many of them were lost.
    pub(crate) lost: u64,
}

#[derive(Debug)]
struct Watch {
    since: Instant,
    /// The rate that lost much, bytes per second.
    rate: u64,
    /// What was sent at more than half of it, and at no more than that.
    much: Tally,
    little: Tally,
    /// Rounds in a row of the second kind.
    little_rounds: u32,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: u64,
    lost: u64,
}

impl Tally {
    fn add(&mut self, sent: &Sent) {
        self.sent += sent.bytes;
        self.lost += sent.lost;
    }

    fn share(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

impl LossResponse {
    /// A round of datagrams of `datagram_size` bytes has ended; whether `much` of it was lost. Returns the share, 0 to 1, that is lost
    /// whatever is sent, once that has been seen.
    pub(crate) fn on_round(
        &mut self,
        sent: &Sent,
        much: bool,
        datagram_size: u64,
        now: Instant,
    ) -> Option<f64> {
        self.0.take_if(|watch| now > watch.since + WATCH);
        let Some(watch) = self.0.as_mut().filter(|watch| !much || sent.rate <= watch.rate) else {
            self.0 = much.then(|| Watch::new(sent, now));
            return None;
        };
        watch.on_round(sent);
        if watch.little.sent < LITTLE_DATAGRAMS * datagram_size {
            return None;
        }
        let (before, now) = (watch.much.share(), watch.little.share());
        self.0 = None;
        // If what passes had stayed the same, twice as large a share of half as much would have passed.
        let answered = (2.0 * before - 1.0).max(0.0);
        (now > before.midpoint(answered)).then_some(now)
    }
}

impl Watch {
    fn new(sent: &Sent, now: Instant) -> Self {
        let mut much = Tally::default();
        much.add(sent);
        Self { since: now, rate: sent.rate, much, little: Tally::default(), little_rounds: 0 }
    }

    fn on_round(&mut self, sent: &Sent) {
        if 2 * sent.rate > self.rate {
            self.little_rounds = 0;
            self.much.add(sent);
            return;
        }
        self.little_rounds += 1;
        // What was sent before is reported lost later.
        if self.little_rounds > LATE_ROUNDS {
            self.little.add(sent);
        }
    }
}

/// So many rounds tell what chance loses.
const CHANCE_ROUNDS: u32 = 16;

/// Of the quarter that a probe sends more, a fifth. Where rates are means little of a probe is left, but less is not told from what probes themselves
/// make overflow.
const FELT: f64 = 0.05;
const FELT_IN_MEANS: f64 = 0.015;

/// A path that loses more is as good as dead: nobody makes good for that.
const MOST_MADE_GOOD: f64 = 0.5;

/// Rates that were sent longer ago are not to be compared.
const WATCH: Duration = Duration::from_secs(10);

/// Of so many datagrams a share of a fifth is known to within a twentieth.
const LITTLE_DATAGRAMS: u64 = 64;

/// A loss is noticed a round after it, and may be of the round before.
const LATE_ROUNDS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of rounds in which so many thousand bytes per second were sent, 50 ms each, of which `lost` loses so many per mille.
    fn response(rates: &[u64], mut lost: impl FnMut(u64) -> u64) -> Option<f64> {
        let (mut response, mut now) = (LossResponse::default(), Instant::now());
        rates.iter().find_map(|rate| {
            now += Duration::from_millis(50);
            let (bytes, per_mille) = (50 * rate, lost(*rate));
            let sent = Sent { rate: 1000 * rate, bytes, lost: bytes * per_mille / 1000 };
            response.on_round(&sent, per_mille > 150, 100, now)
        })
    }

    /// A sender that gives way.
    const FALLING: [u64; 14] = [1000, 900, 800, 700, 600, 500, 450, 400, 400, 400, 400, 400, 400, 400];

    #[test]
    fn what_is_lost_of_little_as_of_much_is_lost_by_chance() {
        for share in [200, 300, 600] {
            let learnt = response(&FALLING, |_| share).expect("seen");
            assert!((1000.0 * learnt - share as f64).abs() < 1.0, "{share}: {learnt}");
        }
    }

    #[test]
    fn what_lets_pass_what_it_lets_pass_loses_nothing_by_chance() {
        for limit in [100, 300, 500, 800] {
            let lost = |rate: u64| 1000 - (1000 * limit / rate).min(1000);
            assert_eq!(response(&FALLING, lost), None, "{limit}");
        }
    }

    #[test]
    fn who_does_not_give_way_learns_nothing() {
        assert_eq!(response(&[1000; 100], |_| 200), None);
        assert_eq!(response(&[400; 100], |_| 100), None, "not much");
    }

    #[test]
    fn losses_of_what_was_sent_before_do_not_count() {
        let rates = [1000, 1000, 400, 400, 400, 400, 400, 400, 400];
        let mut rounds = 0;
        let lost = |_| {
            rounds += 1;
            if rounds <= 4 { 200 } else { 0 }
        };
        assert_eq!(response(&rates, lost), None);
    }

    #[test]
    fn as_much_is_sent_as_has_to_be_for_the_rest_to_arrive() {
        let mut chance = ChanceLoss::default();
        assert_eq!(chance.sent_for(800), 800);
        chance.learn(0.2);
        assert_eq!(chance.sent_for(800), 1000);
        chance.learn(0.99);
        assert_eq!(chance.sent_for(800), 1600, "not a hundred times as much");
    }
}
