//! Spreads a path's packets over time.

use std::time::{Duration, Instant};

use crate::batch::MAX_BATCH_BYTES;

/// How a path is paced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Bytes per second; 0 counts as 1.
    pub(crate) rate: u64,
    /// Bytes that may leave at once after a pause, where that is more than the bucket holds by itself.
    pub(crate) burst: u64,
}

impl From<u64> for Pace {
    fn from(rate: u64) -> Self {
        Self { rate, burst: 0 }
    }
}

/// A token bucket.
///
/// Ask [`admits`](Self::admits) whether a packet may go now, or [`ready_at`](Self::ready_at) when it may, and report what
/// went with [`on_sent`](Self::on_sent). Packets that may not wait (acknowledgements,
/// probes) are reported all the same: they take the bucket into debt, and data waits for them.
/// The pace is an argument each time, since the congestion controller owns it.
///
/// **Batches.** Once the bucket is empty nothing more may go until it holds what leaves in [`BATCH_NANOS`], or a batch of
/// the largest size: the kernel takes many datagrams for little more than the price of one. Where that is less than a
/// datagram, on paths of up to 100 Mbit/s, it makes no difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// What is in the bucket as of `filled`, in [`UNIT`]s; negative while in debt.
    credit: i64,
    filled: Instant,
    /// A datagram of the largest size, in the same.
    datagram: i64,
    /// Whether the bucket was empty, and has not held a batch since.
    exhausted: bool,
}

/// Parts of a byte in which the bucket is counted: what a rate of 1 byte/s brings in a nanosecond. So nothing is rounded,
/// and nothing but a product is computed with every packet. The largest bucket has less than 2^54 of them.
const UNIT: i64 = 1_000_000_000;

impl Pacer {
    /// A full bucket, for datagrams of at most `datagram_size` bytes.
    pub(crate) fn new(datagram_size: u16, now: Instant) -> Self {
        let datagram = i64::from(datagram_size) * UNIT;
        Self { credit: USUAL_BURST * UNIT, filled: now, datagram, exhausted: false }
    }

    /// When `bytes` may be sent at that pace: `now`, or later. A batch larger than the bucket may go when the bucket is full.
    pub(crate) fn ready_at(&self, now: Instant, bytes: u64, pace: impl Into<Pace>) -> Instant {
        let pace = pace.into();
        let missing = self.wanted(bytes, pace).min(self.burst(pace)) - self.credit_at(now, pace);
        let Ok(missing) = u64::try_from(missing) else { return now };
        // The bucket may have been looked at later than `now`: then it fills from there.
        self.filled.max(now) + Duration::from_nanos(missing.div_ceil(pace.rate.max(1))).min(LONGEST_WAIT)
    }

    /// Whether `bytes` may be sent now at that pace.
    pub(crate) fn admits(&self, bytes: u64, now: Instant, pace: impl Into<Pace>) -> bool {
        let pace = pace.into();
        // As a rule there is no need to know how much the bucket has filled.
        let wanted = self.wanted(bytes, pace);
        wanted <= self.credit.min(self.burst(pace)) || wanted <= self.credit_at(now, pace)
    }

    /// `bytes` were sent now at that pace.
    pub(crate) fn on_sent(&mut self, bytes: u64, pace: impl Into<Pace>, now: Instant) {
        let pace = pace.into();
        let credit = self.credit_at(now, pace);
        self.credit = credit.saturating_sub(in_units(bytes));
        self.filled = self.filled.max(now);
        let refills = self.exhausted && credit < batch(pace.rate);
        self.exhausted = refills || self.credit < self.datagram;
    }

    /// What must be in the bucket for `bytes` to go.
    fn wanted(&self, bytes: u64, pace: Pace) -> i64 {
        let bytes = in_units(bytes);
        if self.exhausted { bytes.max(batch(pace.rate)) } else { bytes }
    }

    /// What is in the bucket as of `now`.
    fn credit_at(&self, now: Instant, pace: Pace) -> i64 {
        let burst = self.burst(pace);
        if now <= self.filled {
            return self.credit.min(burst);
        }
        let nanos = u64::try_from((now - self.filled).as_nanos()).unwrap_or(u64::MAX);
        self.credit.saturating_add(brought(pace.rate.max(1), nanos)).min(burst)
    }

    fn burst(&self, Pace { rate, burst }: Pace) -> i64 {
        let most = brought(rate, LATE_NANOS).clamp(USUAL_BURST * UNIT, MAX_BURST * UNIT);
        let usual = brought(rate, BURST_NANOS).min(most).max(MIN_BURST_DATAGRAMS * self.datagram);
        usual.max(in_units(burst).min(MAX_BURST * UNIT))
    }
}

/// What an empty bucket must hold before anything goes again.
fn batch(rate: u64) -> i64 {
    brought(rate, BATCH_NANOS).min(MAX_BATCH_BYTES as i64 * UNIT)
}

/// What a rate brings in so many nanoseconds.
fn brought(rate: u64, nanos: u64) -> i64 {
    i64::try_from(rate.saturating_mul(nanos)).unwrap_or(i64::MAX)
}

fn in_units(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(UNIT)
}

/// Timers of a busy host fire 1 to 3 ms late: a bucket of 4 ms loses no rate to them.
pub(crate) const BURST: Duration = Duration::from_nanos(BURST_NANOS);
const BURST_NANOS: u64 = 4_000_000;

/// A tenth of the round trip between neighbouring cities: nobody notices that it takes so much longer.
const BATCH_NANOS: u64 = 100_000;

/// Two datagrams, so that one that fits exactly does not empty the bucket.
const MIN_BURST_DATAGRAMS: i64 = 2;

/// A bottleneck with 20 ms of queue at 100 Mb/s holds this much in one piece, in bytes.
const USUAL_BURST: i64 = 256 * 1024;

/// From 1 Gb/s on that is less than what the kernel's timers, which count milliseconds, are late by.
const LATE_NANOS: u64 = 2_000_000;

/// The largest bucket, in bytes: 2 ms at 67 Gb/s. Rates that are no limit at all must not overflow it.
const MAX_BURST: i64 = 16 << 20;

/// No wait is longer, because an `Instant` must be able to hold its end.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::congestion::bytes_in;

    const SIZE: u16 = 1400;

    fn send_when_ready(pacer: &mut Pacer, now: Instant, bytes: u64, rate: u64) -> Instant {
        let at = pacer.ready_at(now, bytes, rate);
        pacer.on_sent(bytes, rate, at);
        at
    }

    #[test]
    fn a_full_bucket_goes_at_once_and_then_the_rate_holds() {
        let start = Instant::now();
        let mut pacer = Pacer::new(SIZE, start);
        let rate = 125_000;
        let mut at = start;
        for _ in 0..102 {
            at = send_when_ready(&mut pacer, at, 1400, rate);
        }
        let spread = at - start;
        assert!(spread.abs_diff(Duration::from_millis(1120)) < Duration::from_millis(1), "{spread:?}");
    }

    #[test]
    fn late_timers_lose_no_rate() {
        let start = Instant::now();
        let mut pacer = Pacer::new(SIZE, start);
        let (rate, mut at, mut sent) = (12_500_000, start, 0u64);
        while at < start + Duration::from_secs(1) {
            while pacer.ready_at(at, 1400, rate) <= at {
                pacer.on_sent(1400, rate, at);
                sent += 1400;
            }
            at = pacer.ready_at(at, 1400, rate) + Duration::from_millis(3);
        }
        assert!(sent >= 12_400_000, "{sent}");
    }

    #[test]
    fn fast_paths_lose_no_rate_to_timers_that_count_milliseconds() {
        let start = Instant::now();
        let mut pacer = Pacer::new(SIZE, start);
        let rate = 1_250_000_000;
        let (mut at, mut sent) = (start, 0);
        while at < start + Duration::from_secs(1) {
            while pacer.admits(1400, at, rate) {
                pacer.on_sent(1400, rate, at);
                sent += 1400;
            }
            let ready = pacer.ready_at(at, 1400, rate) - start;
            at = start + Duration::from_millis(u64::try_from(ready.as_millis()).unwrap() + 1);
        }
        assert!(sent >= rate / 100 * 99, "{sent}");
    }

    #[test]
    fn debt_is_paid_before_data_goes() {
        let now = Instant::now();
        let mut pacer = Pacer::new(SIZE, now);
        pacer.on_sent(10_000 + 2800, 100_000, now);
        assert!(!pacer.admits(1, now, 100_000));
        assert_eq!(pacer.ready_at(now, 1000, 100_000), now + Duration::from_millis(110));
    }

    #[test]
    fn an_empty_bucket_fills_for_a_batch() {
        let start = Instant::now();
        let (mut pacer, rate) = (Pacer::new(SIZE, start), 125_000_000);
        let mut batches = Vec::new();
        let mut now = start;
        while now < start + Duration::from_millis(20) {
            let before = batches.len();
            batches.push(0);
            while pacer.admits(1400, now, rate) {
                pacer.on_sent(1400, rate, now);
                batches[before] += 1;
            }
            now = pacer.ready_at(now, 1400, rate);
        }
        // The first is all that the bucket held.
        assert!(batches[1..].iter().all(|&count| (8..=9).contains(&count)), "{batches:?}");
    }

    #[test]
    fn what_does_not_empty_the_bucket_never_waits() {
        let start = Instant::now();
        let (mut pacer, rate) = (Pacer::new(SIZE, start), 125_000_000);
        for step in 0..10_000 {
            let now = start + step * Duration::from_micros(20);
            assert!(pacer.admits(1400, now, rate), "packet {step}");
            pacer.on_sent(1400, rate, now);
        }
    }

    #[test]
    fn looking_often_at_a_slow_bucket_costs_nothing() {
        let start = Instant::now();
        let mut pacer = Pacer::new(SIZE, start);
        pacer.on_sent(2800, 1000, start);
        for micros in 1..=1_000_000u64 {
            pacer.on_sent(0, 1000, start + Duration::from_micros(micros));
        }
        let end = start + Duration::from_secs(1);
        assert!(pacer.admits(1000, end, 1000) && !pacer.admits(1001, end, 1000));
    }

    proptest! {
        #[test]
        fn never_lets_more_than_burst_and_rate_pass(
            rate in 1_000u64..2_000_000_000,
            steps in proptest::collection::vec((0u64..5_000_000, 1u64..1500), 1..300),
        ) {
            let start = Instant::now();
            let mut pacer = Pacer::new(1500, start);
            let most = bytes_in(rate, Duration::from_nanos(LATE_NANOS)).max(256 * 1024);
            let burst = bytes_in(rate, Duration::from_nanos(BURST_NANOS)).clamp(3000, most);
            // (time, bytes) of all that went; no interval may hold more than the bucket and the rate allow.
            let mut went: Vec<(Instant, u64)> = Vec::new();
            let mut now = start;
            for (wait, bytes) in steps {
                now += Duration::from_nanos(wait);
                if pacer.ready_at(now, bytes, rate) <= now {
                    pacer.on_sent(bytes, rate, now);
                    went.push((now, bytes));
                }
            }
            for from in 0..went.len() {
                let mut sum = 0;
                for (at, bytes) in &went[from..] {
                    sum += bytes;
                    prop_assert!(sum <= burst + bytes_in(rate, *at - went[from].0) + 1);
                }
            }
        }

        #[test]
        fn is_ready_when_it_said_it_would_be(
            rate in 1_000u64..2_000_000_000, spent in 0u64..400_000, bytes in 1u64..100_000,
        ) {
            let now = Instant::now();
            let mut pacer = Pacer::new(1500, now);
            pacer.on_sent(spent, rate, now);
            let at = pacer.ready_at(now, bytes, rate);
            prop_assert_eq!(pacer.ready_at(at, bytes, rate), at);
        }
    }
}
