//! Lines of the log of which there may be any number: some of them are said, the others counted.

use std::time::{Duration, Instant};

/// How long it takes until lines are said again.
const PERIOD: Duration = Duration::from_secs(60);

/// Lines of one kind about one thing.
#[derive(Debug)]
pub(super) struct Often {
    most: u32,
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Often {
    /// At most so many are said in a minute.
    pub(super) fn new(most: u32) -> Self {
        Self { most, since: None, said: 0, left_out: 0 }
    }

    /// There is another line. Returns how many were left out before it, if it is to be said.
    pub(super) fn note(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| since + PERIOD <= now) {
            self.since = Some(now);
            self.said = 0;
        }
        if self.said >= self.most {
            self.left_out += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_are_said_and_the_others_counted() {
        let start = Instant::now();
        let mut often = Often::new(3);
        let said: Vec<_> = (0..10).map(|second| often.note(start + Duration::from_secs(second))).collect();
        assert_eq!(said[..4], [Some(0), Some(0), Some(0), None]);
        assert_eq!(often.note(start + PERIOD), Some(7));
        assert_eq!(often.note(start + PERIOD), Some(0));
    }
}
