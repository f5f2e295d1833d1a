//! How many datagrams of a network are answered: a server must not be the one that floods others.
//!
//! Whoever asks by UDP can give another's address as its own. So responses to each network are counted, and beyond the limit
//! most questions get none; every few get one that is cut off, so that an honest resolver comes by TCP.

use std::net::IpAddr;

/// Counters, which networks share by a hash: some 512 KiB, whatever comes.
const SLOTS: usize = 1 << 16;

/// Beyond the limit, one question in so many gets a short response.
const SLIP: u32 = 4;

/// What a datagram gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A response.
    Answer,
    /// One that is cut off.
    Truncate,
    /// Nothing.
    Drop,
}

/// The counters of a socket.
#[derive(Debug)]
pub(super) struct Limiter {
    per_second: u32,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    second: u32,
    count: u32,
}

impl Limiter {
    /// Lets so many responses go to each network in a second.
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, slots: vec![Slot::default(); SLOTS] }
    }

    /// Counts a question of `from` in a second.
    pub(super) fn judge(&mut self, from: IpAddr, second: u32) -> Verdict {
        let slot = &mut self.slots[place(from)];
        if slot.second != second {
            *slot = Slot { second, count: 0 };
        }
        slot.count = slot.count.saturating_add(1);
        match slot.count.checked_sub(self.per_second) {
            None | Some(0) => Verdict::Answer,
            Some(beyond) if beyond % SLIP == 0 => Verdict::Truncate,
            Some(_) => Verdict::Drop,
        }
    }
}

/// The counter of a network: of 256 IPv4 addresses, or of a site's 2^72 of IPv6.
fn place(from: IpAddr) -> usize {
    let network = match from.to_canonical() {
        IpAddr::V4(ip) => u64::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => u64::try_from(ip.to_bits() >> 72).unwrap_or(0) | 1 << 63,
    };
    // Fibonacci hashing: the upper bits of the product depend on all of the network's.
    usize::try_from(network.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48).unwrap_or(0) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_share_and_others_theirs() {
        let mut limiter = Limiter::new(10);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let verdicts: Vec<Verdict> =
            (0..18_u8).map(|host| limiter.judge(IpAddr::from([192, 0, 2, host]), 5)).collect();
        assert!(verdicts[..10].iter().all(|verdict| *verdict == Verdict::Answer));
        assert_eq!(verdicts[10..].iter().filter(|verdict| **verdict == Verdict::Truncate).count(), 2);
        assert!(!verdicts[10..].contains(&Verdict::Answer));
        assert_eq!(limiter.judge(ip("192.0.3.1"), 5), Verdict::Answer);
        assert_eq!(limiter.judge(ip("192.0.2.1"), 6), Verdict::Answer);
        assert_ne!(place(ip("2001:db8:0:1::1")), place(ip("2001:db8:0:101::1")));
        assert_eq!(place(ip("2001:db8:0:1::1")), place(ip("2001:db8:0:1:ffff::1")));
    }
}
