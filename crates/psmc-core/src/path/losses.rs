//! The share of what a path is given that it loses.

/// The weight of each datagram in the share that is lost: about a hundred count.
const LOSS_GAIN: f64 = 1.0 / 64.0;

/// About the last 250 datagrams: the burst that a path loses while its rate is found is not what it loses as a rule.
const LASTING_GAIN: f64 = 1.0 / 256.0;

/// A path that loses nearly all is not infinitely bad.
const LEAST_KEPT: f64 = 0.1;

/// A path that delivers this share is worth its repairs.
const MOSTLY_KEPT: f64 = 0.65;

/// How much more a packet that is sent again shuns losses.
const AGAIN_RISK: f64 = 4.0;

/// Shares of datagrams that were lost, 0 to 1.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Of the last datagrams.
    of_late: f64,
    /// Over a longer time.
    lasting: f64,
}

impl Losses {
    /// Of `settled` datagrams `lost` were lost.
    pub(super) fn note(&mut self, lost: usize, settled: usize) {
        if settled > 0 {
            let share = lost as f64 / settled as f64;
            let gain = |of_one: f64| 1.0 - (1.0 - of_one).powf(settled as f64);
            self.of_late += (share - self.of_late) * gain(LOSS_GAIN);
            self.lasting += (share - self.lasting) * gain(LASTING_GAIN);
        }
    }

    /// How often a packet has to be repaired on average, as far as it delays what comes behind. One that is sent
    /// `again` is late already, and others wait for it.
    pub(super) fn risk(&self, again: bool) -> f64 {
        let risk = if again { AGAIN_RISK * self.of_late } else { self.of_late };
        risk * self.repeated()
    }

    /// How much worse than a loss by itself it is that what is sent again may be lost again: much, where a path loses
    /// most of what it is given and all that comes behind waits.
    fn repeated(&self) -> f64 {
        let kept = (1.0 - self.lasting).max(LEAST_KEPT);
        if kept < MOSTLY_KEPT { 1.0 / (kept * kept) } else { 1.0 }
    }
}
