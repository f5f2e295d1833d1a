//! When a path has become much slower.

/// Rounds in a row that have delivered much less than the path is believed to.
#[derive(Debug, Default)]
pub(crate) struct Fall {
    rounds: usize,
    /// The most that a round has delivered since the first of them, bytes per second.
    rate: u64,
}

impl Fall {
    /// A round delivered `bytes_per_s`: whether that was `slow`, or `None` if less was sent than the path would have taken.
    pub(crate) fn on_round(&mut self, bytes_per_s: u64, slow: Option<bool>) {
        self.rounds = match slow {
            Some(true) => self.rounds + 1,
            Some(false) => 0,
            None => self.rounds,
        };
        let is_first = self.rounds <= 1 && slow.is_some();
        self.rate = if is_first { bytes_per_s } else { self.rate.max(bytes_per_s) };
    }

    /// How fast the path is now, bytes per second, if it has become slower. The last round alone does not tell: it may be
    /// the window that limits it, which losses have made smaller.
    pub(crate) fn rate(&self) -> Option<u64> {
        (self.rounds >= FALL_ROUNDS).then_some(self.rate)
    }
}

/// One round may be slow by chance.
pub(crate) const FALL_ROUNDS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of rounds with these rates, slow or not.
    fn fallen(rounds: &[(u64, Option<bool>)]) -> Option<u64> {
        let mut fall = Fall::default();
        rounds.iter().for_each(|(rate, slow)| fall.on_round(*rate, *slow));
        fall.rate()
    }

    #[test]
    fn it_takes_two_slow_rounds_in_a_row() {
        assert_eq!(fallen(&[(30, Some(true))]), None);
        assert_eq!(fallen(&[(30, Some(true)), (90, Some(false)), (30, Some(true))]), None);
        assert_eq!(fallen(&[(30, Some(true)), (28, Some(true))]), Some(30));
    }

    #[test]
    fn what_came_since_the_first_one_counts() {
        assert_eq!(fallen(&[(95, None), (30, Some(true)), (40, None), (15, Some(true))]), Some(40));
    }
}
