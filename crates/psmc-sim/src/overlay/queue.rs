//! How long a packet waits for a line behind others.

use std::time::Duration;

use crate::link::Dice;

/// The mean length of a packet of the traffic of others, in bits: that of the Internet is between 500 and 1000 bytes.
const MEAN_PACKET: f64 = 700.0 * 8.0;

/// One direction of a line, as those meet it whose packets are simulated.
///
/// The traffic of others arrives at random (Poisson), in packets of random length: a packet that finds none of ours there
/// waits as in a queue M/M/1. It finds nobody with the probability 1 − ρ; else its wait is exponential with the mean
/// s/(1 − ρ), s the mean time of a packet on the line. One that comes behind another of ours waits for that, and for what has
/// come from others in between, which is ρ of the time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// When the last packet of ours came, and when it was sent.
    last: Option<(Duration, Duration)>,
}

impl Queue {
    /// A packet of so many bits comes `now`, to a line with this rate and this load of others; says when its last bit is sent.
    pub(super) fn pass(
        &mut self,
        now: Duration,
        bits: f64,
        rate: f64,
        load: f64,
        dice: &mut Dice,
    ) -> Duration {
        let own = Duration::from_secs_f64(bits / rate);
        let start = match self.last.filter(|(_, sent)| *sent > now) {
            Some((came, sent)) => sent + (now - came).mul_f64(load),
            None => now + wait(rate, load, dice),
        };
        self.last = Some((now, start + own));
        start + own
    }
}

fn wait(rate: f64, load: f64, dice: &mut Dice) -> Duration {
    if dice.uniform() >= load {
        return Duration::ZERO;
    }
    let mean = MEAN_PACKET / rate / (1.0 - load);
    // 1 − u is never 0.
    Duration::from_secs_f64(-(1.0 - dice.uniform()).ln() * mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_empty_line_takes_what_comes_at_once() {
        let (mut queue, mut dice) = (Queue::default(), Dice::new(1));
        assert_eq!(queue.pass(SECOND, 1000.0, 1000.0, 0.0, &mut dice), 2 * SECOND);
        // Behind that one, and then long after both.
        assert_eq!(queue.pass(SECOND, 500.0, 1000.0, 0.0, &mut dice), SECOND.mul_f64(2.5));
        assert_eq!(queue.pass(10 * SECOND, 1000.0, 1000.0, 0.0, &mut dice), 11 * SECOND);
    }

    #[test]
    fn others_push_in_between_two_of_ours() {
        let (mut queue, mut dice) = (Queue::default(), Dice::new(1));
        let first = queue.pass(SECOND, 4000.0, 1000.0, 0.5, &mut dice);
        // Within the second between both half a second of others' packets has come.
        assert_eq!(queue.pass(2 * SECOND, 1000.0, 1000.0, 0.5, &mut dice), first + SECOND.mul_f64(1.5));
    }

    #[test]
    fn the_mean_wait_is_that_of_the_theory() {
        let mut dice = Dice::new(7);
        let rate = 10e6;
        for load in [0.3, 0.6, 0.9] {
            let runs = 40_000;
            let sum: Duration = (0..runs).map(|_| wait(rate, load, &mut dice)).sum();
            let mean = sum.as_secs_f64() / f64::from(runs);
            // ρ·s/(1 − ρ)
            let theory = load / (1.0 - load) * MEAN_PACKET / rate;
            assert!((mean / theory - 1.0).abs() < 0.05, "{load}: {mean} instead of {theory}");
        }
    }
}
