//! The share of what a path is given that it loses.

use std::time::{Duration, Instant};

/// The weight of each datagram in the share that is lost: about a hundred count.
const LOSS_GAIN: f64 = 1.0 / 64.0;

/// About the last 250 datagrams: a burst is not what a path loses as a rule.
const LASTING_GAIN: f64 = 1.0 / 256.0;

/// A path that loses nearly all is not infinitely bad.
const LEAST_KEPT: f64 = 0.1;

/// A path that delivers this share is worth its repairs.
const MOSTLY_KEPT: f64 = 0.65;

/// A path that is hardly used tells little of what it loses. Within this time half of what was lost by rule is forgotten:
/// a lossy hour is no reason to leave a path alone for ever, and a minute is enough to try it again with little.
const HALF_LIFE: Duration = Duration::from_secs(20);

/// Shares of datagrams that were lost, 0 to 1.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Of the last datagrams.
    of_late: f64,
    /// Of the last datagrams, but for those that were too much for it while its rate was being found.
    unprovoked: f64,
    /// Of those, over a longer time, as it was when it was last looked at.
    lasting: f64,
    noted_at: Option<Instant>,
}

impl Losses {
    /// Of `settled` datagrams `lost` were lost.
    pub(super) fn note(&mut self, lost: usize, settled: usize, now: Instant) {
        if settled > 0 {
            let share = lost as f64 / settled as f64;
            self.of_late += (share - self.of_late) * weight(LOSS_GAIN, settled);
            self.unprovoked += (share - self.unprovoked) * weight(LOSS_GAIN, settled);
            let lasting = self.lasting(now);
            self.lasting = lasting + (share - lasting) * weight(LASTING_GAIN, settled);
            self.noted_at = Some(now);
        }
    }

    /// So many datagrams were lost that were sent to find out what the path carries: that is no fault of it.
    pub(super) fn note_provoked(&mut self, lost: usize) {
        self.of_late += (1.0 - self.of_late) * weight(LOSS_GAIN, lost);
    }

    /// The share of the last datagrams that was lost: about a hundred count.
    pub(super) fn of_late(&self) -> f64 {
        self.of_late
    }

    /// How often a packet has to be repaired on average, as far as it delays what comes behind.
    pub(super) fn risk(&self, now: Instant) -> f64 {
        self.unprovoked * self.repeated(now)
    }

    /// Whether that changes while nothing is noted.
    pub(super) fn fades(&self) -> bool {
        self.lasting >= 1.0 - MOSTLY_KEPT
    }

    /// What is lost over a longer time, as far as it is still worth anything.
    fn lasting(&self, now: Instant) -> f64 {
        let rested = self.noted_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.lasting * 0.5_f64.powf(rested.as_secs_f64() / HALF_LIFE.as_secs_f64())
    }

    /// How much worse than a loss by itself it is that what is sent again may be lost again: much, where a path loses
    /// most of what it is given and all that comes behind waits.
    fn repeated(&self, now: Instant) -> f64 {
        // It only becomes less while nothing is noted.
        if !self.fades() {
            return 1.0;
        }
        let kept = (1.0 - self.lasting(now)).max(LEAST_KEPT);
        if kept < MOSTLY_KEPT { 1.0 / (kept * kept) } else { 1.0 }
    }
}

/// The weight of so many datagrams, each of which has the weight `of_one`.
fn weight(of_one: f64, datagrams: usize) -> f64 {
    1.0 - (1.0 - of_one).powf(datagrams as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossy(now: Instant) -> Losses {
        let mut losses = Losses::default();
        (0..2000).for_each(|_| losses.note(1, 2, now));
        losses
    }

    #[test]
    fn a_path_that_loses_half_is_shunned_more_than_in_proportion() {
        let now = Instant::now();
        assert!(lossy(now).risk(now) > 1.5);
    }

    #[test]
    fn what_a_path_lost_because_it_was_given_too_much_is_no_risk() {
        let mut losses = Losses::default();
        losses.note(1, 100, Instant::now());
        let before = losses.risk(Instant::now());
        losses.note_provoked(1000);
        assert!(losses.of_late() > 0.99 && losses.risk(Instant::now()) <= before);
    }

    #[test]
    fn a_lossy_hour_is_forgotten_by_a_path_that_rests() {
        let now = Instant::now();
        let losses = lossy(now);
        let later = now + Duration::from_secs(60);
        assert!(losses.lasting(later) < 0.07, "{}", losses.lasting(later));
        assert!(losses.risk(later) < 0.51, "what a loss costs by itself");
    }

    #[test]
    fn a_path_that_goes_on_losing_is_not_forgiven() {
        let mut now = Instant::now();
        let mut losses = lossy(now);
        for _ in 0..6000 {
            now += Duration::from_millis(10);
            losses.note(1, 2, now);
        }
        assert!(losses.lasting(now) > 0.45, "{}", losses.lasting(now));
    }
}
