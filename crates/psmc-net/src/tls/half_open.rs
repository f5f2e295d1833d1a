//! Which handshakes may go on when there are too many.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

/// Handshakes in progress at most, in all. Each holds up to 64 KiB of unfinished message, so 32 MiB together.
pub(super) const MAX_IN_ALL: usize = 512;

/// Handshakes in progress at most from one source: sites behind one address translator share it.
pub(super) const MAX_PER_SOURCE: usize = 32;

/// The handshakes in progress, oldest first; `T` stands for one of them.
///
/// Room for a new one is made at the cost of the oldest. So a flood of connections that never finish only shortens the
/// time that each has, and a peer that finishes in two round trips still gets through.
/// A search looks at every entry, which for this many costs less than the system call that accepts a connection.
#[derive(Debug)]
pub(super) struct HalfOpen<T> {
    entries: VecDeque<(IpAddr, T)>,
}

impl<T> HalfOpen<T> {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new() }
    }

    /// Adds one from `ip`, and yields the one that has to go for it.
    pub(super) fn add(&mut self, ip: IpAddr, handshake: T) -> Option<T> {
        let source = source(ip);
        let victim = self.victim(source).and_then(|index| self.entries.remove(index));
        self.entries.push_back((source, handshake));
        victim.map(|(_, handshake)| handshake)
    }

    /// Forgets the one that is over; nothing happens if it was evicted before.
    pub(super) fn remove(&mut self, is_over: impl Fn(&T) -> bool) {
        if let Some(index) = self.entries.iter().position(|(_, handshake)| is_over(handshake)) {
            self.entries.remove(index);
        }
    }

    /// Where the one is that must make room for another one from `source`.
    fn victim(&self, source: IpAddr) -> Option<usize> {
        let mut same = self.entries.iter().enumerate().filter(|(_, (other, _))| *other == source);
        let oldest = same.next().map(|(index, _)| index);
        if same.count() + 1 >= MAX_PER_SOURCE {
            return oldest;
        }
        (self.entries.len() >= MAX_IN_ALL).then_some(0)
    }
}

/// What counts as one source: an IPv4 address, or the /64 that an IPv6 site can draw addresses from at will
/// (RFC 6177 §2).
fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_source_loses_its_own_oldest() {
        let mut half_open = HalfOpen::new();
        assert_eq!(half_open.add(ip("192.0.2.1"), 1000), None);
        for n in 0..MAX_PER_SOURCE {
            assert_eq!(half_open.add(ip("192.0.2.2"), n), None);
        }
        assert_eq!(half_open.add(ip("192.0.2.2"), 2000), Some(0));
        assert_eq!(half_open.add(ip("::ffff:192.0.2.2"), 2001), Some(1));
    }

    #[test]
    fn when_all_is_full_the_oldest_goes() {
        let mut half_open = HalfOpen::new();
        for n in 0..MAX_IN_ALL {
            let address = Ipv6Addr::from_bits((n as u128) << 64);
            assert_eq!(half_open.add(address.into(), n), None);
        }
        assert_eq!(half_open.add(ip("2001:db8::1"), 2000), Some(0));
        assert_eq!(half_open.entries.len(), MAX_IN_ALL);
    }

    #[test]
    fn what_is_over_makes_room() {
        let mut half_open = HalfOpen::new();
        for n in 0..MAX_PER_SOURCE {
            half_open.add(ip("192.0.2.2"), n);
        }
        half_open.remove(|n| *n == 7);
        half_open.remove(|n| *n == 7);
        assert_eq!(half_open.add(ip("192.0.2.2"), 1000), None);
    }

    #[test]
    fn an_ipv6_prefix_is_one_source() {
        assert_eq!(source(ip("2001:db8::1")), source(ip("2001:db8::ffff:ffff:ffff:ffff")));
        assert_ne!(source(ip("2001:db8::1")), source(ip("2001:db8:0:1::1")));
        assert_ne!(source(ip("192.0.2.1")), source(ip("192.0.2.2")));
    }
}
