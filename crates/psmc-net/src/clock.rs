//! The clock of the system.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::libc::{self, STA_UNSYNC};

/// The time since 1970; nothing where the clock is before that, which is wrong by more than any expiry forgives.
#[must_use]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The same in whole seconds.
#[must_use]
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// How right the clock of the system is, as far as the kernel knows (adjtimex(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quality {
    /// Whether something (NTP, PTP) keeps it right.
    pub is_synchronised: bool,
    /// By how much it may be wrong at most.
    pub max_error: Duration,
}

/// Whether something (NTP, PTP) keeps the clock of the system right, as far as the kernel knows (adjtimex(2)).
///
/// # Errors
/// Where the process may not ask.
pub fn is_synchronised() -> io::Result<bool> {
    quality().map(|quality| quality.is_synchronised)
}

/// How right the clock of the system is.
///
/// # Errors
/// Where the process may not ask.
pub fn quality() -> io::Result<Quality> {
    // SAFETY: all of it are numbers, for which zero is valid; with no mode set the kernel only fills it in.
    #[expect(unsafe_code, reason = "no crate of ours asks the kernel for that")]
    let told = unsafe {
        let mut told: libc::timex = std::mem::zeroed();
        Errno::result(libc::adjtimex(&raw mut told))?;
        told
    };
    let max_error = Duration::from_micros(u64::try_from(told.maxerror).unwrap_or_default());
    Ok(Quality { is_synchronised: told.status & STA_UNSYNC == 0, max_error })
}

/// What is worth being told of: less is what two clocks differ by that are not read at the same moment.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// For how long the system was suspended, which no [`Instant`](std::time::Instant) tells: `CLOCK_MONOTONIC` stands still meanwhile.
#[derive(Debug)]
pub struct Suspensions {
    told: Duration,
}

impl Suspensions {
    /// From now on.
    #[must_use]
    pub fn from_now_on() -> Self {
        Self { told: suspended() }
    }

    /// For how long it was since the last time that this was said.
    pub fn take(&mut self) -> Option<Duration> {
        let since = suspended().saturating_sub(self.told);
        (since >= WORTH_TELLING).then(|| {
            self.told += since;
            since
        })
    }
}

/// For how long the system was suspended since it was started.
fn suspended() -> Duration {
    read(libc::CLOCK_BOOTTIME).saturating_sub(read(libc::CLOCK_MONOTONIC))
}

/// What a clock shows; these two are in every kernel (clock_gettime(2)).
fn read(clock: libc::clockid_t) -> Duration {
    // SAFETY: the kernel fills in two numbers, for which zero is valid.
    #[expect(unsafe_code, reason = "no crate of ours asks the kernel for that")]
    let shown = unsafe {
        let mut shown: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut shown);
        shown
    };
    let nanos = u32::try_from(shown.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(shown.tv_sec).unwrap_or_default(), nanos)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_how_its_clock_is() {
        let asked = super::quality();
        assert!(asked.is_ok(), "{asked:?}");
        assert_eq!(super::is_synchronised().ok(), asked.ok().map(|quality| quality.is_synchronised));
    }
}
