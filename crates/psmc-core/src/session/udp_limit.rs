//! The rate that inner UDP without congestion control must not exceed (PSMC ch. IV, "UDP rate limit").
//!
//! TCP makes room for whoever doesn't; a limit that both sites agree on keeps such flows from taking everything.
//!
//! Inner TCP connections are told to send packets that fit into the datagrams of all paths.
//!
//! An MSS says what its sender wants to receive. So the one that comes from the peer bounds what this side will send,
//! over paths whose datagrams this side knows. The one that goes to the peer bounds what the peer will send; that its
//! datagrams are as large as ours is a guess, and the peer corrects it if it clamps, too.

use std::time::{Duration, Instant};

use psmc_wire::PacketBuf;

use super::Session;
use crate::clock::TokenBucket;
use crate::mss::{ClampMss, MssOption};
use crate::path::Path;
use crate::shared::Shared;

/// Bytes that may exceed the rate for a moment: a burst of segmentation offload.
const BURST: u64 = 64 << 10;

/// The time that a burst may last at a higher rate, which is what timers and schedulers are late by.
const BURST_TIME: Duration = Duration::from_millis(20);

/// The limit, and what has passed under it.
#[derive(Debug, Default)]
pub(super) struct UdpLimit {
    /// Bits per second, as this site is configured.
    own: Option<u64>,
    /// Bits per second, as the peer wishes.
    peers: Option<u64>,
    passed: TokenBucket,
}

impl UdpLimit {
    /// The limit that this site is configured with.
    pub(super) fn new(own: Option<u64>) -> Self {
        Self { own: own.filter(|&rate| rate > 0), ..Self::default() }
    }

    /// This site is configured otherwise.
    pub(super) fn set_own(&mut self, own: Option<u64>) {
        self.own = own.filter(|&rate| rate > 0);
    }

    /// The peer has told its limit, or is another one and has told none yet.
    pub(super) fn set_peers(&mut self, rate: Option<u64>) {
        self.peers = rate;
    }

    /// What both sites agree on: the smaller limit.
    pub(super) fn rate(&self) -> Option<u64> {
        self.own.into_iter().chain(self.peers).min()
    }

    /// Whether a packet of `len` bytes may pass.
    pub(super) fn admits(&mut self, len: usize, now: Instant) -> bool {
        let Some(rate) = self.rate() else {
            return true;
        };
        let time_of = |bytes: u64| Duration::from_secs_f64(bytes as f64 * 8.0 / rate as f64);
        self.passed.admits(time_of(len as u64), time_of(BURST).max(BURST_TIME), now)
    }
}

impl Session {
    /// Lowers the MSS that `packet` states, if it is a SYN, as the site is configured.
    pub(super) fn clamp_mss(&mut self, packet: &mut PacketBuf, shared: &Shared) {
        if let Some((option, limit)) = self.mss_to_lower(packet.packet(), shared.clamp_mss) {
            let checksum = packet.checksum();
            option.replace(packet.packet_mut(), checksum, limit);
            self.counters.mss_lowered += 1;
        }
    }

    /// The MSS in `packet` if it is too large, and what it should be.
    fn mss_to_lower(&self, packet: &[u8], clamp: ClampMss) -> Option<(MssOption, u16)> {
        let (option, limit) = match clamp {
            ClampMss::Off => return None,
            ClampMss::Auto => {
                let option = MssOption::find(packet)?;
                (option, option.within(self.least_room()?))
            }
            ClampMss::To(limit) => (MssOption::find(packet)?, limit),
        };
        (limit < option.value).then_some((option, limit))
    }

    /// The largest inner packet that every path carries in one piece which may carry data.
    pub(crate) fn least_room(&self) -> Option<usize> {
        self.paths.iter().filter(|path| path.rank().is_some()).map(Path::expected_room).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that pass in a second of twice the rate, in packets of `len`.
    fn passes(limit: &mut UdpLimit, rate: u64, len: usize, from: Instant) -> u64 {
        let packets = (2 * rate / 8) / len as u64;
        let at = |number: u64| from + Duration::from_secs(1).mul_f64(number as f64 / packets as f64);
        (0..packets).filter(|&number| limit.admits(len, at(number))).count() as u64 * len as u64
    }

    #[test]
    fn a_limit_holds_for_packets_of_every_size_and_lets_bursts_pass() {
        let start = Instant::now();
        for rate in [1_000_000, 20_000_000, 1_000_000_000] {
            for len in [60, 700, 1400] {
                let mut limit = UdpLimit::new(Some(rate));
                let burst = BURST.max(rate / 8 / 50);
                let first = passes(&mut limit, rate, len, start);
                let second = passes(&mut limit, rate, len, start + Duration::from_secs(1));
                let (least, most) = (rate / 8 + burst, rate / 8);
                assert!(
                    first.abs_diff(least.min(rate / 4)) <= 3000,
                    "{rate} {len}: {first} in the first second"
                );
                assert!(second.abs_diff(most) <= burst, "{rate} {len}: {second} in the second one");
            }
        }
    }

    #[test]
    fn the_smaller_limit_counts_and_without_any_all_passes() {
        let mut limit = UdpLimit::new(None);
        let now = Instant::now();
        assert!((0..10_000).all(|_| limit.admits(1400, now)));
        for (own, peers, rate) in [
            (None, Some(5), Some(5)),
            (Some(7), None, Some(7)),
            (Some(7), Some(5), Some(5)),
            (Some(0), None, None),
        ] {
            let mut limit = UdpLimit::new(own);
            limit.set_peers(peers);
            assert_eq!(limit.rate(), rate);
        }
    }
}
