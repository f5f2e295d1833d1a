//! What a link promises, against theory and naive models.

mod timing;

use super::*;

const MBIT: u64 = 1_000_000;

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A link with numbers for packets, and the time it began.
struct Rig {
    link: Link<u64>,
    start: Instant,
    entered: u64,
}

impl Rig {
    fn new(config: LinkConfig) -> Self {
        Self::seeded(config, 1)
    }

    fn seeded(config: LinkConfig, seed: u64) -> Self {
        let start = Instant::now();
        Self { link: Link::new(config, seed, start), start, entered: 0 }
    }

    /// The next packet enters at this time from the start.
    fn enter(&mut self, len: usize, at: Duration) {
        self.link.handle_packet(self.entered, PacketInfo::new(len), self.start + at);
        self.entered += 1;
    }

    /// Packets that arrive until a time from the start, and when.
    fn arrivals(&mut self, until: Duration) -> Vec<(u64, Duration)> {
        std::iter::from_fn(|| self.link.poll_packet(self.start + until))
            .map(|arrival| (arrival.packet, arrival.at - self.start))
            .collect()
    }

    /// Packets dropped so far.
    fn dropped(&mut self) -> Vec<(u64, DropReason)> {
        std::iter::from_fn(|| self.link.poll_dropped()).collect()
    }

    /// When to poll next, from the start.
    fn timeout(&self) -> Option<Duration> {
        self.link.poll_timeout().map(|at| at - self.start)
    }
}
