//! Low-rate attacks on TCP, and what analysis says that they leave of a flow.
//!
//! The attack is a train of pulses ([`Pulses`]), each of which makes a router lose some packets of the flows that it meets. A
//! flow that backs off at each pulse is slow for all of the time, though the attack is quiet for most of it. Such trains
//! exist in virtual time only.
//!
//! There are two analyses. [`literature`] is that of the publication called ROUTER (§2.3), as it is printed.
//! [`Victim::goodput`] follows a flow round by round, with what the other one leaves out.

mod victim;

use std::time::Duration;

pub use victim::{Law, Meeting, Victim};

/// A train of pulses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulses {
    /// Packets per second during a pulse; 0 is taken for 1.
    pub rate: u64,
    /// Bytes of payload of a packet, by UDP.
    pub payload: usize,
    /// How long a pulse is.
    pub length: Duration,
    /// From the end of a pulse to the beginning of the next one.
    pub sleep: Duration,
    /// Up to how much longer each pulse and each sleep is, evenly distributed; without, pulses keep to a grid.
    pub jitter: Duration,
}

impl Pulses {
    /// With a sleep by which a pulse begins whenever a timer of this length has run out that the pulse before has started:
    /// tuned to the timeout of a flow, as the attack was first described (Kuzmanovic and Knightly, 2003).
    #[must_use]
    pub fn tuned_to(self, timeout: Duration) -> Self {
        Self { sleep: timeout.saturating_sub(self.length), ..self }
    }

    /// From the beginning of a pulse to that of the next one, on average.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.length + self.sleep + self.jitter
    }

    /// Bits per second on average if a packet is a frame of so many bytes (the seed's table 2.1).
    #[must_use]
    pub fn mean_rate(&self, frame: usize) -> f64 {
        let on = (self.length + self.jitter / 2).as_secs_f64();
        self.rate as f64 * frame as f64 * 8.0 * on / self.period().as_secs_f64()
    }

    /// When the packet of this number is sent, from the beginning of its pulse on.
    pub(crate) fn after(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What a flow of Reno achieves by the analysis of ROUTER, §2.3, in bit/s: each pulse halves the window, which grows by a
/// segment every two round trips while the attack sleeps, so that it is 3 t / (4 rtt) on average. `payload` are the bytes of
/// a segment that count.
#[must_use]
pub fn literature(sleep: Duration, rtt: Duration, payload: usize) -> f64 {
    let window = 3.0 * sleep.as_secs_f64() / (4.0 * rtt.as_secs_f64());
    window * payload as f64 * 8.0 / rtt.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulses(rate: u64, sleep: u64) -> Pulses {
        let [length, sleep] = [160, sleep].map(Duration::from_millis);
        Pulses { rate, payload: 18, length, sleep, jitter: Duration::ZERO }
    }

    /// ROUTER, table 2.1.
    #[test]
    fn mean_rates_are_as_printed() {
        let table = [
            (16_000, 500, 1.99),
            (16_000, 2000, 0.61),
            (85_000, 500, 10.55),
            (85_000, 2000, 3.22),
            (140_000, 500, 17.38),
            (140_000, 2000, 5.31),
        ];
        for (rate, sleep, printed) in table {
            let rate = pulses(rate, sleep).mean_rate(64) / 1e6;
            assert!((rate - printed).abs() < 0.006, "{rate} for {printed}");
        }
    }

    /// ROUTER, §2.3, with its figures: 2 s are 9.4 segments, of 1447 bytes.
    #[test]
    fn the_printed_analysis_is_a_window_by_a_round_trip() {
        let [sleep, rtt] = [2000, 160].map(Duration::from_millis);
        let goodput = literature(sleep, rtt, 1447);
        assert!((goodput - 9.375 * 1447.0 * 8.0 / 0.16).abs() < 1.0, "{goodput}");
    }

    #[test]
    fn a_train_can_be_tuned_to_a_timeout() {
        let tuned = pulses(1000, 500).tuned_to(Duration::from_secs(1));
        assert_eq!(tuned.period(), Duration::from_secs(1));
    }
}
