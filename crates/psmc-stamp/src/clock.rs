//! Clocks: what they say, how STAMP writes it, and whether one was set while it was measured by.

use std::time::{Duration, Instant, SystemTime};

use psmc_net::clock::quality;
use stamp_suite::clock_format::ClockFormat;
use stamp_suite::error_estimate::ErrorEstimate;

/// What both clocks of this machine say at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The clock that nobody sets.
    pub monotonic: Instant,
    /// The clock of the system, since 1970.
    pub system: Duration,
}

/// Two clocks are read at the same moment if no more than this passes between: a fifth of what a delay may be wrong by.
const SAME_MOMENT: Duration = Duration::from_micros(20);

/// Tries at that. On a machine that is never so quick the last one counts.
const TRIES: usize = 4;

/// The longest that a datagram waits between the kernel and us, as far as is believed: longer, and the clock was set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

impl Reading {
    /// What they say now.
    #[must_use]
    pub fn now() -> Self {
        let mut reading = Self::try_now();
        for _ in 1..TRIES {
            if reading.1 <= SAME_MOMENT {
                break;
            }
            reading = Self::try_now();
        }
        reading.0
    }

    fn try_now() -> (Self, Duration) {
        let before = Instant::now();
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let took = before.elapsed();
        (Self { monotonic: before + took / 2, system }, took)
    }

    /// What they said when the clock of the system showed `system`, a moment ago; this reading where that cannot be.
    #[must_use]
    pub fn back_to(self, system: Option<Duration>) -> Self {
        let Some(system) = system else { return self };
        let ago = self.system.checked_sub(system).filter(|ago| *ago <= LONGEST_WAIT);
        let moment = ago.and_then(|ago| self.monotonic.checked_sub(ago));
        moment.map_or(self, |monotonic| Self { monotonic, system })
    }

    /// By how much the clock of the system was set between `before` and this, in nanoseconds.
    fn set_since(self, before: Self) -> i128 {
        let passed = self.monotonic.saturating_duration_since(before.monotonic);
        nanos_between(before.system, self.system) - nanos(passed)
    }

    /// Whether the clock of the system was set between `before` and this, by more than it is corrected in passing.
    pub(crate) fn was_set_since(self, before: Self) -> bool {
        let passed = self.monotonic.saturating_duration_since(before.monotonic);
        self.set_since(before).unsigned_abs() > nanos(allowance(passed)).unsigned_abs()
    }
}

/// By how much two clocks may part without one having been set: a thousandth, as the kernel slews by no more than that in sum with
/// the frequency that it corrects (adjtimex(2)), and what reading them is wrong by.
pub(crate) fn allowance(passed: Duration) -> Duration {
    Duration::from_millis(1) + passed / 1000
}

pub(crate) fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

pub(crate) fn nanos_between(from: Duration, to: Duration) -> i128 {
    nanos(to) - nanos(from)
}

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: i128 = 2_208_988_800;

/// Seconds until the 32 bits of a timestamp begin anew.
const ERA: i128 = 1 << 32;

/// A timestamp in the format of NTP (RFC 5905 section 6).
pub(crate) fn timestamp(system: Duration) -> u64 {
    let seconds = (i128::from(system.as_secs()) + NTP_EPOCH).rem_euclid(ERA);
    let fraction = (u64::from(system.subsec_nanos()) << 32) / 1_000_000_000;
    u64::try_from(seconds).unwrap_or_default() << 32 | fraction
}

/// What a timestamp says, in nanoseconds since 1970, in the era nearest to `near`; `None` if it is none.
pub(crate) fn read_timestamp(timestamp: u64, format: ClockFormat, near: Duration) -> Option<i128> {
    let (seconds, fraction) = (timestamp >> 32, timestamp & u64::from(u32::MAX));
    let (epoch, nanos) = match format {
        ClockFormat::NTP => (NTP_EPOCH, (fraction * 1_000_000_000) >> 32),
        ClockFormat::PTP if fraction < 1_000_000_000 => (0, fraction),
        ClockFormat::PTP => return None,
    };
    let near = i128::from(near.as_secs());
    let away = (i128::from(seconds) - epoch - near + ERA / 2).rem_euclid(ERA) - ERA / 2;
    Some((near + away) * 1_000_000_000 + i128::from(nanos))
}

/// How right the clock of this machine is, as STAMP says it; unsynchronised if the kernel does not tell.
pub(crate) fn error_estimate() -> ErrorEstimate {
    let Ok(quality) = quality() else { return ErrorEstimate::unsynchronized() };
    estimate_of(quality.is_synchronised, quality.max_error)
}

/// The error is `multiplier` × 2^(`scale` − 32) seconds; the multiplier must not be zero (RFC 8762 section 4.2.1).
fn estimate_of(is_synchronised: bool, error: Duration) -> ErrorEstimate {
    let mut units = (error.as_nanos() << 32).div_ceil(1_000_000_000).max(1);
    let mut scale = 0;
    while units > u128::from(u8::MAX) && scale < MAX_SCALE {
        units = units.div_ceil(2);
        scale += 1;
    }
    let multiplier = u8::try_from(units).unwrap_or(u8::MAX);
    ErrorEstimate { synchronized: is_synchronised, z_flag: false, scale, multiplier }
}

/// The scale has six bits.
const MAX_SCALE: u8 = 63;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn timestamps_say_what_they_were_made_of(seconds in 0u64..10_000_000_000, nanos in 0u32..1_000_000_000, off in -1000i64..1000) {
            let system = Duration::new(seconds, nanos);
            let near = Duration::from_secs(seconds.saturating_add_signed(off));
            let read = read_timestamp(timestamp(system), ClockFormat::NTP, near).unwrap();
            prop_assert!((read - super::nanos(system)).abs() <= 1, "{read}");
            let ptp = (seconds & 0xffff_ffff) << 32 | u64::from(nanos);
            prop_assert_eq!(read_timestamp(ptp, ClockFormat::PTP, near), Some(super::nanos(system)));
        }

        #[test]
        fn any_timestamp_is_read_or_refused(timestamp: u64, near in 0u64..u64::MAX / 2) {
            for format in [ClockFormat::NTP, ClockFormat::PTP] {
                let _ = read_timestamp(timestamp, format, Duration::from_secs(near));
            }
        }

        #[test]
        fn an_estimate_is_no_less_than_the_error(micros in 0u64..100_000_000) {
            let error = Duration::from_micros(micros);
            let estimate = estimate_of(true, error);
            let told = estimate.error_seconds();
            prop_assert!(estimate.multiplier > 0 && told >= error.as_secs_f64(), "{told}");
            prop_assert!(told <= error.as_secs_f64() * 1.02 + 1e-9, "{told}");
        }
    }

    #[test]
    fn timestamps_agree_with_those_of_the_library() {
        let now = Reading::now();
        let theirs = stamp_suite::time::generate_timestamp(ClockFormat::NTP);
        let read = read_timestamp(theirs, ClockFormat::NTP, now.system).unwrap();
        let apart = read - nanos(now.system);
        assert!((-1..10_000_000_000).contains(&apart), "{apart}");
    }

    #[test]
    fn the_time_of_the_kernel_is_believed_unless_the_clock_was_set() {
        let now = Reading {
            monotonic: Instant::now() + Duration::from_secs(10),
            system: Duration::from_secs(1000),
        };
        let early = now.back_to(Some(Duration::from_millis(999_990)));
        assert_eq!(now.monotonic - early.monotonic, Duration::from_millis(10));
        assert!(!now.was_set_since(early));
        for odd in [Some(Duration::from_secs(1001)), Some(Duration::from_secs(900)), None] {
            assert_eq!(now.back_to(odd), now);
        }
        let set = Reading { system: now.system + Duration::from_secs(3600), ..now };
        assert!(set.was_set_since(early) && early.was_set_since(set));
    }
}
