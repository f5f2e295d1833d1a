//! Descriptors that are kept for clients of the control socket. When all others are in use, somebody wants to know why.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// So many clients are let in when there is no descriptor left: a person's, and those of what watches over the site.
const KEPT: usize = 4;

/// What Linux says when a process may have no more descriptors, and when the system may not (accept(2)).
const NO_MORE: [i32; 2] = [24, 23];

/// Descriptors of nothing, to be given up for ones of clients.
#[derive(Debug)]
pub(super) struct Reserve {
    kept: Vec<OwnedFd>,
}

impl Reserve {
    /// As many as there may be.
    pub(super) fn new() -> Self {
        let mut reserve = Self { kept: Vec::with_capacity(KEPT) };
        reserve.fill();
        reserve
    }

    /// Whether it is for want of descriptors that there is this error, and there is one now.
    pub(super) fn makes_room(&mut self, error: &io::Error) -> bool {
        error.raw_os_error().is_some_and(|code| NO_MORE.contains(&code)) && self.kept.pop().is_some()
    }

    /// Takes back what was given up, as far as there is any.
    pub(super) fn fill(&mut self) {
        while self.kept.len() < KEPT
            && let Ok(file) = File::open("/dev/null")
        {
            self.kept.push(file.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_a_few_times_and_for_want_of_descriptors_only() {
        let mut reserve = Reserve::new();
        assert!(!reserve.makes_room(&io::ErrorKind::ConnectionAborted.into()));
        for code in NO_MORE.into_iter().cycle().take(KEPT) {
            assert!(reserve.makes_room(&io::Error::from_raw_os_error(code)));
        }
        assert!(!reserve.makes_room(&io::Error::from_raw_os_error(NO_MORE[0])));
        reserve.fill();
        assert!(reserve.makes_room(&io::Error::from_raw_os_error(NO_MORE[0])));
    }
}
