//! A flow under attack, followed round by round.

use std::time::Duration;

use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::Pulses;
use crate::traffic::uniform;

/// What a flow that is attacked is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Victim {
    /// How its window grows and shrinks.
    pub law: Law,
    /// Its round trip, without queues.
    pub rtt: Duration,
    /// Bytes of payload of a segment.
    pub payload: usize,
    /// The largest window, in segments: what the path carries in a round trip.
    pub most: f64,
    /// What becomes of its segments during a pulse.
    pub meeting: Meeting,
}

/// What becomes of segments that meet a pulse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meeting {
    /// The chance of each to be lost.
    pub loss: f64,
    /// How far apart the segments of a round are where they meet it: the time that the line before takes for one.
    pub spacing: Duration,
}

/// How a window grows and shrinks. There is none for BBR: it does not answer single losses, and its model of the path makes
/// no window that a recursion could follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Reno as Linux has it: a segment more each round trip, whether acknowledgements are delayed or not, for it counts what
    /// they acknowledge.
    Reno,
    /// Reno as the seed has it, which counts acknowledgements, every other of which is left out: half a segment.
    RenoByAcks,
    /// CUBIC (RFC 9438), with fast convergence: back to 0.7.
    Cubic,
}

/// The smallest timeout beyond the round trip, Linux's `TCP_RTO_MIN`.
const MIN_TIMEOUT: f64 = 0.2;

/// What a probe for lost tails waits beyond two round trips, at least: RFC 8985 §7 with the acknowledgement delay of our
/// simulator.
const PROBE_DELAY: f64 = 0.01;

/// The initial window, in segments (RFC 6928).
const INITIAL: f64 = 10.0;

/// Periods that pass before anything is counted, and those that are: enough that two seeds differ by less than a percent.
const SETTLING: u32 = 200;
const COUNTED: u32 = 3000;

impl Victim {
    /// What the flow achieves, in bit/s of payload. Equal seeds give equal values.
    ///
    /// Rounds are a round trip apart, and the segments of one follow each other at the speed of the line. Each that meets a
    /// pulse is lost by chance. If any segment behind the first lost one arrives, the window shrinks and the round after it
    /// repairs (RFC 6675, RFC 8985), without growth. If none does, a probe goes first (RFC 8985 §7); if it is lost
    /// too, the timer runs out (RFC 6298, with Linux' minimum), and slow start begins.
    #[must_use]
    pub fn goodput(&self, pulses: &Pulses, seed: u64) -> f64 {
        let mut course = Course::new(self, pulses, seed);
        course.run(SETTLING);
        let (start, before) = (course.now, course.delivered);
        course.run(COUNTED);
        (course.delivered - before) * self.payload as f64 * 8.0 / (course.now - start)
    }
}

/// A flow, and the pulse that it meets next.
struct Course<'a> {
    victim: &'a Victim,
    pulses: &'a Pulses,
    rng: Pcg64Mcg,
    /// In seconds.
    now: f64,
    rtt: f64,
    /// From when to when the pulse lasts that is on, or comes next.
    pulse: [f64; 2],
    /// Pulses that are over.
    over: u32,
    window: Window,
    /// Segments that have arrived.
    delivered: f64,
}

/// What has become of the segments of a round.
struct Fate {
    lost: usize,
    /// Whether any arrived behind the first that was lost.
    is_known: bool,
}

impl<'a> Course<'a> {
    fn new(victim: &'a Victim, pulses: &'a Pulses, seed: u64) -> Self {
        Self {
            victim,
            pulses,
            rng: Pcg64Mcg::seed_from_u64(seed),
            now: 0.0,
            rtt: victim.rtt.as_secs_f64(),
            pulse: [0.0, pulses.length.as_secs_f64()],
            over: 0,
            window: Window::new(victim.law),
            delivered: 0.0,
        }
    }

    /// Goes on until so many more pulses are over.
    fn run(&mut self, pulses: u32) {
        let end = self.over + pulses;
        while self.over < end {
            self.round();
        }
    }

    fn round(&mut self) {
        self.window.size = self.window.size.min(self.victim.most);
        let fate = self.send(self.window.segments());
        if fate.lost == 0 {
            self.now += self.rtt;
            return self.window.grow(self.rtt);
        }
        if !fate.is_known {
            self.now += (2.0 * self.rtt + PROBE_DELAY).min(self.timeout());
            if self.send(1).lost > 0 {
                return self.time_out();
            }
        }
        self.now += self.rtt;
        self.window.shrink();
        self.repair(fate.lost);
    }

    /// Sends what was lost again, and as much new as the window then allows.
    fn repair(&mut self, lost: usize) {
        let mut left = lost;
        while left > 0 {
            let segments = self.window.segments();
            let fate = self.send(segments);
            if fate.lost == segments {
                return self.time_out();
            }
            // What was lost is sent first, so it is of that what is lost again.
            left = left.saturating_sub(segments) + fate.lost.min(left);
            self.now += self.rtt;
        }
    }

    /// Nothing comes back: one segment, twice as late each time that it is lost.
    fn time_out(&mut self) {
        self.window.collapse();
        let mut timeout = self.timeout();
        loop {
            self.now += timeout;
            timeout *= 2.0;
            if self.send(1).lost == 0 {
                self.now += self.rtt;
                return self.window.grow(self.rtt);
            }
        }
    }

    fn timeout(&self) -> f64 {
        self.rtt + MIN_TIMEOUT
    }

    /// Sends so many segments, one behind the other.
    fn send(&mut self, segments: usize) -> Fate {
        let mut fate = Fate { lost: 0, is_known: false };
        for number in 0..segments {
            let at = self.now + number as f64 * self.victim.meeting.spacing.as_secs_f64();
            if self.is_on(at) && uniform(&mut self.rng) < self.victim.meeting.loss {
                fate.lost += 1;
            } else {
                self.delivered += 1.0;
                fate.is_known |= fate.lost > 0;
            }
        }
        fate
    }

    /// Whether a pulse is on; times must not fall by more than a round.
    fn is_on(&mut self, at: f64) -> bool {
        while at >= self.pulse[1] {
            let begin = self.pulse[1] + self.pulses.sleep.as_secs_f64() + self.extra();
            self.pulse = [begin, begin + self.pulses.length.as_secs_f64() + self.extra()];
            self.over += 1;
        }
        at >= self.pulse[0]
    }

    fn extra(&mut self) -> f64 {
        self.pulses.jitter.as_secs_f64() * uniform(&mut self.rng)
    }
}

/// A window, in segments.
struct Window {
    law: Law,
    size: f64,
    threshold: f64,
    /// CUBIC's: the window before it shrank last, what a flow of Reno's growth would have, and the seconds since.
    plateau: f64,
    estimate: f64,
    age: f64,
}

impl Window {
    /// RFC 9438 §4.2, §4.6 and §4.1: C, and beta of CUBIC.
    const CUBIC_C: f64 = 0.4;
    const CUBIC_BETA: f64 = 0.7;

    fn new(law: Law) -> Self {
        Self { law, size: INITIAL, threshold: f64::INFINITY, plateau: 0.0, estimate: 0.0, age: 0.0 }
    }

    /// Whole segments, at least one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a window is a small positive number"
    )]
    fn segments(&self) -> usize {
        self.size.max(1.0) as usize
    }

    /// A round without losses.
    fn grow(&mut self, rtt: f64) {
        if self.size < self.threshold {
            self.size = (2.0 * self.size).min(self.threshold.max(self.size));
            return;
        }
        match self.law {
            Law::Reno => self.size += 1.0,
            Law::RenoByAcks => self.size += 0.5,
            Law::Cubic => self.grow_cubic(rtt),
        }
    }

    fn grow_cubic(&mut self, rtt: f64) {
        let beta = Self::CUBIC_BETA;
        self.age += rtt;
        self.estimate += 3.0 * (1.0 - beta) / (1.0 + beta);
        let distance = (self.plateau * (1.0 - beta) / Self::CUBIC_C).cbrt();
        // Equation 1, a round trip ahead; a round adds half of the window at most (§4.4).
        let target = Self::CUBIC_C * (self.age + rtt - distance).powi(3) + self.plateau;
        self.size = target.clamp(self.size, 1.5 * self.size).max(self.estimate);
    }

    fn shrink(&mut self) {
        let beta = match self.law {
            Law::Reno | Law::RenoByAcks => 0.5,
            Law::Cubic => Self::CUBIC_BETA,
        };
        // Fast convergence (RFC 9438 §4.7).
        self.plateau = if self.size < self.plateau { self.size * (1.0 + beta) / 2.0 } else { self.size };
        self.threshold = (beta * self.size).max(2.0);
        self.size = self.threshold;
        (self.estimate, self.age) = (self.size, 0.0);
    }

    fn collapse(&mut self) {
        self.shrink();
        self.size = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulses(length: u64, sleep: u64) -> Pulses {
        let [length, sleep, jitter] = [length, sleep, 10].map(Duration::from_millis);
        Pulses { rate: 1, payload: 18, length, sleep, jitter }
    }

    fn victim(law: Law, loss: f64) -> Victim {
        let meeting = Meeting { loss, spacing: Duration::from_micros(120) };
        Victim { law, rtt: Duration::from_millis(160), payload: 1448, most: 1000.0, meeting }
    }

    /// The seed's assumptions, but for a growth of a segment each round: a window of 2 α halves every time, α being what it
    /// grows by in a period less the round of repair, so it is 1.5 α on average.
    #[test]
    fn one_loss_a_pulse_is_the_closed_form() {
        let train = pulses(160, 4000);
        let growth = (train.period().as_secs_f64() - 0.16) / 0.16;
        let expected = 1.5 * growth * 1448.0 * 8.0 / 0.16;
        let goodput = victim(Law::Reno, 0.1).goodput(&train, 1);
        assert!((goodput / expected - 1.0).abs() < 0.1, "{goodput} of {expected}");
        let by_acks = victim(Law::RenoByAcks, 0.1).goodput(&train, 1);
        assert!((by_acks / goodput - 0.5).abs() < 0.05, "{by_acks} of {goodput}");
    }

    #[test]
    fn no_loss_is_what_the_path_carries() {
        let goodput = victim(Law::Cubic, 0.0).goodput(&pulses(160, 500), 1);
        assert!((goodput - 1000.0 * 1448.0 * 8.0 / 0.16).abs() < 1.0, "{goodput}");
    }

    #[test]
    fn timeouts_cost_more_than_halved_windows() {
        let train = pulses(320, 680);
        let some = victim(Law::Reno, 0.3).goodput(&train, 1);
        let all = victim(Law::Reno, 1.0).goodput(&train, 1);
        assert!(all < 0.5 * some, "{all} of {some}");
    }

    #[test]
    fn cubic_loses_less_of_its_window() {
        let train = pulses(160, 2000);
        let [reno, cubic] = [Law::Reno, Law::Cubic].map(|law| victim(law, 0.2).goodput(&train, 1));
        assert!(cubic > reno, "{cubic} and {reno}");
        assert!((victim(Law::Reno, 0.2).goodput(&train, 2) / reno - 1.0).abs() < 0.02);
    }
}
