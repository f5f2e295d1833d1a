//! What a link promises, against theory and naive models. Seeds are fixed: a bound of four standard deviations that
//! holds once holds always.

mod codel;
mod flows;
mod impairments;
mod jitter;
mod properties;
mod queueing;
mod red;
mod timing;
mod traces;

use std::sync::Arc;

use super::*;

const MBIT: u64 = 1_000_000;

/// Far behind the end of all tests.
const END: Duration = Duration::from_secs(1_000_000);

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn chance(chance: f64) -> Probability {
    Probability::new(chance).unwrap()
}

/// Whether a mean of `n` independent values of this standard deviation is as theory has it, within four of its own.
fn assert_mean(measured: f64, theory: f64, deviation: f64, n: f64) {
    let allowed = 4.0 * deviation / n.sqrt();
    assert!((measured - theory).abs() <= allowed, "{measured} is not {theory} ± {allowed}");
}

/// Whether so many of `n` have happened as this chance lets expect.
fn assert_share(happened: usize, n: usize, chance: f64) {
    let n = n as f64;
    assert_mean(happened as f64 / n, chance, (chance * (1.0 - chance)).sqrt(), n);
}

/// Exponentially distributed times of this mean: the gaps of a Poisson process.
fn exponential(dice: &mut Dice, mean: Duration) -> Duration {
    mean.mul_f64(-(1.0 - dice.uniform()).ln())
}

/// A link with numbers for packets, and the time it began.
struct Rig {
    link: Link<usize>,
    start: Instant,
    entered: usize,
}

impl Rig {
    fn new(config: LinkConfig) -> Self {
        let start = Instant::now();
        Self { link: Link::new(config, 1, start), start, entered: 0 }
    }

    /// The next packet enters at this time from the start.
    fn enter(&mut self, len: usize, at: Duration) {
        self.enter_with(PacketInfo::new(len), at);
    }

    fn enter_with(&mut self, info: PacketInfo, at: Duration) {
        self.link.handle_packet(self.entered, info, self.start + at);
        self.entered += 1;
    }

    fn reconfigure(&mut self, config: LinkConfig, at: Duration) {
        self.link.reconfigure(config, self.start + at);
    }

    /// What arrives until a time from the start.
    fn poll(&mut self, until: Duration) -> Vec<Arrival<usize>> {
        std::iter::from_fn(|| self.link.poll_packet(self.start + until)).collect()
    }

    /// The packets among it, and when they arrive.
    fn arrivals(&mut self, until: Duration) -> Vec<(usize, Duration)> {
        let start = self.start;
        self.poll(until).into_iter().map(|arrival| (arrival.packet, arrival.at - start)).collect()
    }

    /// Packets dropped so far.
    fn dropped(&mut self) -> Vec<(usize, DropReason)> {
        std::iter::from_fn(|| self.link.poll_dropped()).collect()
    }

    /// When to poll next, from the start.
    fn timeout(&self) -> Option<Duration> {
        self.link.poll_timeout().map(|at| at - self.start)
    }
}
