//! How fast segments arrive (draft-cheng-iccrg-delivery-rate-estimation).

use std::time::{Duration, Instant};

/// What has arrived so far. Each transmission takes a [`stamp`](Self::stamp) along, with which its arrival is reported.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Bytes that have arrived.
    delivered: u64,
    /// When that was known.
    delivered_at: Option<Instant>,
    /// When the newest segment was sent that has arrived.
    sent_at: Option<Instant>,
    /// Until so many bytes have arrived, samples say how much there was to send.
    limited_until: Option<u64>,
    /// The newest segment that has arrived since the last sample, and when it was sent.
    newest: Option<(Stamp, Instant)>,
}

/// What had arrived when a segment was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: Instant,
    sent_at: Instant,
    is_limited: bool,
}

/// What has arrived between the transmission of a segment and the news of its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSample {
    pub(super) bytes: u64,
    /// The longer one of what it took to send them and of what it took to acknowledge them: acknowledgements come in bunches.
    pub(super) interval: Duration,
    /// Bytes that had arrived when the segment was sent.
    pub(super) before: u64,
    /// Whether there was too little to send to find out what the path carries.
    pub(super) is_limited: bool,
}

impl Delivery {
    /// For a segment that is sent; `is_first` if none is on its way.
    pub(super) fn stamp(&mut self, is_first: bool, now: Instant) -> Stamp {
        if is_first {
            (self.delivered_at, self.sent_at) = (Some(now), Some(now));
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at.unwrap_or(now),
            sent_at: self.sent_at.unwrap_or(now),
            is_limited: self.limited_until.is_some(),
        }
    }

    /// A segment of so many bytes has arrived, which was sent at that time.
    pub(super) fn on_arrived(&mut self, bytes: u64, stamp: Stamp, sent_at: Instant, now: Instant) {
        self.delivered += bytes;
        self.delivered_at = Some(now);
        if self.newest.is_none_or(|(_, newest)| sent_at >= newest) {
            self.newest = Some((stamp, sent_at));
            self.sent_at = Some(sent_at);
        }
    }

    /// All that was to be sent is on its way, so many bytes.
    pub(super) fn limit(&mut self, in_flight: u64) {
        self.limited_until = Some(self.delivered + in_flight);
    }

    /// Whether there is too little to send.
    pub(super) fn is_limited(&self) -> bool {
        self.limited_until.is_some()
    }

    /// What an acknowledgement says, after all that it acknowledges was reported. A time shorter than the shortest round trip
    /// says nothing.
    pub(super) fn take_sample(&mut self, min_rtt: Duration, now: Instant) -> Option<RateSample> {
        self.limited_until.take_if(|until| self.delivered > *until);
        let (stamp, sent_at) = self.newest.take()?;
        let sending = sent_at.saturating_duration_since(stamp.sent_at);
        let interval = sending.max(now.saturating_duration_since(stamp.delivered_at));
        (!interval.is_zero() && interval >= min_rtt).then(|| RateSample {
            bytes: self.delivered - stamp.delivered,
            interval,
            before: stamp.delivered,
            is_limited: stamp.is_limited,
        })
    }

    /// Bytes that have arrived.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Ten segments leave at once and arrive 1 ms apart after 20 ms; each of them has the next one sent.
    #[test]
    fn the_rate_is_that_of_what_arrives() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        let mut flying: Vec<_> = (0..10)
            .map(|number| (delivery.stamp(number == 0, start), start, start + ms(20 + number)))
            .collect();
        let mut samples = Vec::new();
        for number in 0..30 {
            let (stamp, sent_at, now) = flying[number];
            delivery.on_arrived(1000, stamp, sent_at, now);
            samples.push(delivery.take_sample(ms(20), now).unwrap());
            flying.push((delivery.stamp(false, now), now, now + ms(20)));
        }
        let of = |number: usize| (samples[number].bytes, samples[number].interval, samples[number].before);
        assert_eq!(of(9), (10_000, ms(29), 0));
        // Those that were sent while these arrived were sent in as much time from the first one on.
        assert_eq!(of(19), (10_000, ms(29), 10_000));
        assert_eq!(of(29), (10_000, ms(20), 20_000));
    }

    /// Acknowledgements that were held up and come all at once do not make the path faster.
    #[test]
    fn bunches_of_acknowledgements_do_not_count_as_a_rate() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        let sent: Vec<_> = (0..10)
            .map(|number| (delivery.stamp(number == 0, start + ms(10 * number)), start + ms(10 * number)))
            .collect();
        let now = start + ms(200);
        for (stamp, sent_at) in sent {
            delivery.on_arrived(1000, stamp, sent_at, now);
        }
        let sample = delivery.take_sample(ms(20), now).unwrap();
        assert_eq!((sample.bytes, sample.interval), (10_000, ms(200)));
    }

    #[test]
    fn what_there_was_to_send_is_told_from_what_the_path_carries() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        let first = delivery.stamp(true, start);
        delivery.limit(1000);
        let second = delivery.stamp(false, start);
        delivery.on_arrived(1000, first, start, start + ms(20));
        assert!(!delivery.take_sample(ms(20), start + ms(20)).unwrap().is_limited);
        delivery.on_arrived(1000, second, start, start + ms(21));
        assert!(delivery.take_sample(ms(20), start + ms(21)).unwrap().is_limited);
        assert!(!delivery.is_limited(), "all of it has arrived");
        let third = delivery.stamp(true, start + ms(30));
        delivery.on_arrived(1000, third, start + ms(30), start + ms(40));
        assert_eq!(delivery.take_sample(ms(20), start + ms(40)), None, "shorter than any round trip");
    }
}
