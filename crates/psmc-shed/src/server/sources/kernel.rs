//! Signs of overload that the kernel counts: connections that listen queues had no room for, and pressure stall information (the
//! kernel's `Documentation/accounting/psi.rst`).

use std::fs;
use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::config::Resource;

/// The counters of the network namespace of this process.
const NETSTAT: &str = "/proc/net/netstat";

/// How much more than all of an interval may be stalled: clocks of both counters differ, and an interval is half a second.
const MAX_SHARE: u64 = 150;

/// Why nothing can be said.
#[derive(Debug, Error)]
pub enum KernelError {
    /// A file cannot be read.
    #[error("cannot read {file}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no PSI.
    #[error(
        "the kernel has no {0}: it needs CONFIG_PSI, and psi=1 on its command line if that is off by default"
    )]
    NoPressure(String),
    /// A file has not what it should have.
    #[error("{0} has not what is expected in it")]
    Malformed(String),
    /// A counter has gone back.
    #[error("a counter that only rises has fallen")]
    Backwards,
    /// More time was stalled than there was.
    #[error("{0} % of the time was stalled, which cannot be")]
    TooMuch(u64),
}

/// Connections that a listen queue of this network namespace had no room for, since it began.
///
/// # Errors
/// [`KernelError`].
pub(super) fn listen_drops() -> Result<u64, KernelError> {
    let text = fs::read_to_string(NETSTAT)
        .map_err(|source| KernelError::Unreadable { file: NETSTAT.to_owned(), source })?;
    parse_netstat(&text).ok_or_else(|| KernelError::Malformed(NETSTAT.to_owned()))
}

/// Microseconds in which something was stalled for want of a resource, since the machine started.
///
/// # Errors
/// [`KernelError`].
pub(super) fn stalled(resource: Resource) -> Result<u64, KernelError> {
    let file = format!("/proc/pressure/{}", resource.as_str());
    let text = fs::read_to_string(&file).map_err(|source| match (source.kind(), source.raw_os_error()) {
        // The files are there if PSI is off, and cannot be opened then.
        (io::ErrorKind::NotFound, _) | (_, Some(EOPNOTSUPP)) => KernelError::NoPressure(file.clone()),
        _ => KernelError::Unreadable { file: file.clone(), source },
    })?;
    parse_pressure(&text).ok_or(KernelError::Malformed(file))
}

/// What the kernel says where PSI is off (`psi_cpu_open` and its like).
const EOPNOTSUPP: i32 = 95;

/// The percentage of an interval in which something was stalled for `stalled` microseconds.
///
/// # Errors
/// [`KernelError::TooMuch`].
pub(super) fn share(stalled: u64, interval: Duration) -> Result<u64, KernelError> {
    let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX).max(1);
    let percent = stalled.saturating_mul(100) / interval;
    if percent > MAX_SHARE { Err(KernelError::TooMuch(percent)) } else { Ok(percent) }
}

/// `ListenDrops`, which has all of `ListenOverflows` in it. The columns differ between kernels; a line with names stands before
/// that with numbers.
fn parse_netstat(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, numbers) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
    names.zip(numbers).find(|(name, _)| *name == "ListenDrops")?.1.parse().ok()
}

/// The `total` of the line `some`.
fn parse_pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits\nTcpExt: 1 20 30 4\n\
                    IpExt: InNoRoutes ListenDrops\nIpExt: 5 6\n";
        assert_eq!(parse_netstat(text), Some(30));
        for bad in
            ["", "TcpExt: ListenDrops\n", "TcpExt: ListenDrops\nTcpExt: -1\n", "TcpExt: Other\nTcpExt: 1\n"]
        {
            assert_eq!(parse_netstat(bad), None, "{bad}");
        }
    }

    #[test]
    fn pressure_is_the_time_in_which_some_were_stalled() {
        let text = "some avg10=99.86 avg60=99.37 avg300=96.33 total=14735091955\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse_pressure(text), Some(14_735_091_955));
        for bad in ["", "full avg10=0.00 total=7\n", "some avg10=0.00\n", "some total=x\n"] {
            assert_eq!(parse_pressure(bad), None, "{bad}");
        }
        let half = Duration::from_millis(500);
        assert_eq!((share(0, half).unwrap(), share(250_000, half).unwrap()), (0, 50));
        assert!(matches!(share(1_000_000, half), Err(KernelError::TooMuch(200))));
    }
}
