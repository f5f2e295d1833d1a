//! The clock of the system.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{self, STA_UNSYNC};

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

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_how_its_clock_is() {
        let asked = super::quality();
        assert!(asked.is_ok(), "{asked:?}");
        assert_eq!(super::is_synchronised().ok(), asked.ok().map(|quality| quality.is_synchronised));
    }
}
