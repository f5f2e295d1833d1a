//! Which way probes are lost: what was sent here, had come there, and is back.
//!
//! A reflector that answers Direct Measurement (RFC 8972 section 4.5) says how many probes have come to it. One that is stateful
//! (RFC 8762 section 4.3.1) numbers its answers, which tells the same, if it is known to be one: while nothing was lost on the way
//! there its numbers are those of the probes, as a stateless one's are.

/// What an answer says of the probes until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Probes that were sent up to the one that it answers.
    pub sent: u64,
    /// Probes that had come to the reflector.
    pub received: u64,
}

/// Probes of which it is known what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many were sent and are answered or given up.
    pub sent: u64,
    /// How many were answered in time.
    pub answered: u64,
    /// Lost on the way there; `None` if the reflector does not tell.
    pub forward: Option<u64>,
    /// Lost on the way back, or at the reflector; `None` if the reflector does not tell.
    pub backward: Option<u64>,
}

impl Losses {
    /// Probes that were not answered in time.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent - self.answered
    }

    /// Those of which is not known which way they were lost: all, if the reflector does not tell, or those after the last answer.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.lost() - self.forward.unwrap_or_default() - self.backward.unwrap_or_default()
    }
}

/// How an answer tells what has come to the reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// It counts.
    Counter(Counters),
    /// It numbers its answers.
    Number(Counters),
}

/// Adds up what answers say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    sent: u64,
    answered: u64,
    /// The most that answers have said, apart from each other, for they come in any order.
    latest: Option<Counters>,
    /// Probes that came to the reflector more than once.
    doubled: u64,
    /// Whether it is known that the reflector counts.
    counts: bool,
    /// Whether the reflector has forgotten its counts, or what it says cannot be.
    is_unreliable: bool,
}

impl Ledger {
    pub(crate) fn answered(&mut self) {
        self.sent += 1;
        self.answered += 1;
    }

    pub(crate) fn lost(&mut self) {
        self.sent += 1;
    }

    /// A probe was given up, and its answer has come after all; it stays lost.
    pub(crate) fn doubled_there(&mut self) {
        self.doubled += 1;
    }

    /// What an answer says, late or not; whether that can be.
    pub(crate) fn hear(&mut self, witness: Witness) -> bool {
        let counters = match witness {
            Witness::Counter(counters) => {
                self.counts = true;
                counters
            }
            Witness::Number(counters) => {
                self.counts |= counters.sent != counters.received;
                counters
            }
        };
        let Some(latest) = self.latest else {
            self.latest = Some(counters);
            return true;
        };
        let since = counters.sent.saturating_sub(latest.sent);
        if counters.received < latest.received && counters.received <= since {
            // It has forgotten all that had come before these.
            self.is_unreliable = true;
            return false;
        }
        let (sent, received) = (latest.sent.max(counters.sent), latest.received.max(counters.received));
        self.latest = Some(Counters { sent, received });
        true
    }

    pub(crate) fn losses(&self) -> Losses {
        let (sent, answered) = (self.sent, self.answered);
        let mut losses = Losses { sent, answered, forward: None, backward: None };
        let Some(latest) = self.latest.filter(|_| !self.is_unreliable) else { return losses };
        if !self.counts && losses.lost() > 0 {
            return losses;
        }
        // More than were sent cannot have come.
        let Some(forward) = latest.sent.checked_sub(latest.received.saturating_sub(self.doubled)) else {
            return losses;
        };
        let known = latest.sent.min(sent).saturating_sub(answered);
        let forward = forward.min(known);
        (losses.forward, losses.backward) = (Some(forward), Some(known - forward));
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(sent: u64, received: u64) -> Witness {
        Witness::Counter(Counters { sent, received })
    }

    fn ledger(answered: usize, lost: usize, heard: &[Witness]) -> Ledger {
        let mut ledger = Ledger::default();
        (0..answered).for_each(|_| ledger.answered());
        (0..lost).for_each(|_| ledger.lost());
        for witness in heard {
            ledger.hear(*witness);
        }
        ledger
    }

    fn ways(ledger: &Ledger) -> (Option<u64>, Option<u64>, u64) {
        let losses = ledger.losses();
        (losses.forward, losses.backward, losses.unknown())
    }

    #[test]
    fn counts_tell_which_way() {
        assert_eq!(ways(&ledger(7, 3, &[counter(10, 9)])), (Some(1), Some(2), 0));
        // Nothing is known of those after the last answer.
        assert_eq!(ways(&ledger(7, 5, &[counter(10, 9)])), (Some(1), Some(2), 2));
        assert_eq!(ways(&ledger(0, 5, &[])), (None, None, 5));
        // The probe before the last one came after it.
        assert_eq!(ways(&ledger(10, 0, &[counter(10, 9), counter(9, 10)])), (Some(0), Some(0), 0));
        assert_eq!(ways(&ledger(10, 0, &[counter(9, 10), counter(10, 9)])), (Some(0), Some(0), 0));
    }

    #[test]
    fn numbers_tell_once_they_differ() {
        let number = |sent, received| Witness::Number(Counters { sent, received });
        assert_eq!(ways(&ledger(9, 1, &[number(10, 10)])), (None, None, 1));
        assert_eq!(ways(&ledger(8, 2, &[number(10, 9)])), (Some(1), Some(1), 0));
        assert_eq!(ways(&ledger(10, 0, &[number(10, 10)])), (Some(0), Some(0), 0));
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        assert_eq!(ways(&ledger(9, 1, &[counter(10, 11)])), (None, None, 1));
        let mut restarted = ledger(9, 1, &[counter(9, 9)]);
        assert!(!restarted.hear(counter(10, 1)));
        assert_eq!(ways(&restarted), (None, None, 1));
        let mut doubled = ledger(10, 0, &[counter(10, 11)]);
        doubled.doubled_there();
        assert_eq!(ways(&doubled), (Some(0), Some(0), 0));
    }
}
