//! Which packets have copies although they are sent again if they are lost.

use std::time::{Duration, Instant};

use crate::token_bucket::TokenBucket;

/// The longest that have: a question, a frame of voice, a step of a game. What is longer is rather part of something that takes
/// its time.
const MAX_LEN: usize = 600;

/// Copies take at most this part of what the paths carry, or [`LEAST`] bytes per second where that is no more than a quarter
/// of it: little is known of paths that carry little.
const SHARE: u64 = 20;
const LEAST: u64 = 20_000;
const LEAST_SHARE: u64 = 4;

/// So many bytes may go at once.
const BURST: u64 = 8 << 10;

/// What copies have taken of late.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    taken: TokenBucket,
}

impl Copies {
    /// Whether a packet of `len` bytes may have a copy, the paths carrying `rate` bytes per second together.
    pub(crate) fn admits(&mut self, len: usize, rate: u64, now: Instant) -> bool {
        let budget = (rate / SHARE).max(LEAST.min(rate / LEAST_SHARE)).max(1);
        let time_of = |bytes: u64| Duration::from_secs_f64(bytes as f64 / budget as f64);
        len <= MAX_LEN && self.taken.admits(time_of(len as u64), time_of(BURST), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of copies in ten seconds, beside packets of `len` bytes each millisecond.
    fn copied(len: usize, rate: u64) -> u64 {
        let (mut copies, start) = (Copies::default(), Instant::now());
        let admitted = |at| copies.admits(len, rate, start + Duration::from_millis(at));
        (0..10_000).map(admitted).filter(|admitted| *admitted).count() as u64 * len as u64
    }

    #[test]
    fn copies_take_a_small_part_of_the_paths() {
        for (rate, budget) in [(10_000_000, 500_000), (300_000, 20_000), (8_000, 2_000)] {
            for len in [60, 600] {
                let bytes = copied(len, rate);
                let least = (10 * budget).min(10_000 * len as u64);
                assert!((least..=least + BURST).contains(&bytes), "{bytes} of {rate} bytes/s");
            }
        }
    }

    #[test]
    fn long_packets_have_none() {
        assert_eq!(copied(MAX_LEN + 1, 10_000_000), 0);
    }
}
