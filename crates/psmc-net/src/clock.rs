//! The clock of the system.

use std::io;

use nix::errno::Errno;
use nix::libc::{self, STA_UNSYNC};

/// Whether something (NTP, PTP) keeps the clock of the system right, as far as the kernel knows (adjtimex(2)).
///
/// # Errors
/// Where the process may not ask.
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: all of it are numbers, for which zero is valid; with no mode set the kernel only fills it in.
    #[expect(unsafe_code, reason = "no crate of ours asks the kernel for that")]
    let status = unsafe {
        let mut told: libc::timex = std::mem::zeroed();
        Errno::result(libc::adjtimex(&raw mut told))?;
        told.status
    };
    Ok(status & STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_how_its_clock_is() {
        let asked = super::is_synchronised();
        assert!(asked.is_ok(), "{asked:?}");
    }
}
