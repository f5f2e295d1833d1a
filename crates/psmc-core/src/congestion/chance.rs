//! What is lost by chance.

/// What the path loses whether there is a queue or not.
#[derive(Debug)]
pub(crate) struct ChanceLoss {
    /// The share that is lost, 0 to 1, and what weight the last round has in it.
    share: f64,
    gain: f64,
}

impl ChanceLoss {
    /// Nothing has been lost yet; about so many `rounds` will count.
    pub(crate) fn over(rounds: u32) -> Self {
        Self { share: 0.0, gain: f64::from(rounds).recip() }
    }

    /// A round that was not lossy, of many datagrams, lost `lost` bytes of `sent`.
    pub(crate) fn on_round(&mut self, lost: u64, sent: u64) {
        self.share += (lost as f64 / sent.max(1) as f64 - self.share) * self.gain;
    }

    /// The share that is lost, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// The bytes of `sent` that chance loses at most: three standard deviations above the mean, of a Poisson
    /// distribution.
    #[expect(clippy::cast_possible_truncation, reason = "a count of datagrams, rounded up")]
    pub(crate) fn most(&self, sent: u64, datagram_size: u64) -> u64 {
        let mean = self.share * sent as f64 / datagram_size as f64;
        let most = (mean + 3.0 * mean.sqrt()).ceil();
        datagram_size.saturating_mul(most as u64)
    }
}
