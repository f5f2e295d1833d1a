//! Heavy aggregates: the longest prefixes of destinations that carry more than a share of all bytes.
//!
//! An attack on a host, or a crowd that visits it, shows as one prefix that carries most of what crosses a congested segment (ACC:
//! Mahajan et al., "Controlling high bandwidth aggregates in the network", 2002). Prefixes contain each other, so what a longer one
//! carries is not counted again for a shorter one: these are *hierarchical heavy hitters with discounted counts*. Here each level of
//! the hierarchy has a fixed number of counters that follow the heaviest prefixes (Mitzenmacher, Steinke and Thaler, "Hierarchical
//! heavy hitters with the Space Saving algorithm", ALENEX 2012).
//!
//! # How sure
//!
//! A counter is too high by at most 1/[`COUNTERS`] of all bytes, and says by how much. A prefix is reported only if it carries more
//! than the share *for certain*: what it carries at least, less what prefixes in it that are reported carry at most. So no prefix is
//! reported that does not carry the share by itself, and each is that carries more by (1 + number of those in it)/[`COUNTERS`].
//!
//! ```
//! use psmc_tomography::aggregates::{Aggregates, Ingress};
//!
//! let mut seen = Aggregates::new();
//! for host in 0..200 {
//!     // Half of all goes to one host, and the rest to all hosts of a network.
//!     seen.add("203.0.113.80".parse().unwrap(), Ingress(7), 1000);
//!     seen.add(std::net::Ipv4Addr::new(198, 51, 100, host).into(), Ingress(1), 1000);
//! }
//! let heavy = seen.heavy(0.2);
//! let prefixes: Vec<_> = heavy.iter().map(|aggregate| aggregate.prefix.to_string()).collect();
//! assert_eq!(prefixes, ["203.0.113.80/32", "198.51.100.0/24"]);
//! assert_eq!(heavy[0].ingresses, [(Ingress(7), 200_000)]);
//! ```

mod counters;

use std::net::IpAddr;

use ipnet::IpNet;

use counters::{Counters, Tally};

pub use counters::COUNTERS;

/// Lengths of prefixes that are told apart, the longest first. Steps of four bits: a network of a length between is reported as up to
/// eight longer ones, or as the shorter one.
const LENGTHS_V4: [u8; 7] = [32, 28, 24, 20, 16, 12, 8];

/// The same of IPv6: networks are given out in steps of eight bits or of four of them, and hosts change their last 64 bits at will.
const LENGTHS_V6: [u8; 8] = [128, 64, 56, 48, 40, 32, 24, 16];

/// Where traffic enters: a number for which the caller has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ingress(pub u32);

/// A prefix that carries more than a share by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// Its destinations.
    pub prefix: IpNet,
    /// The bytes that it carries at least, those of longer prefixes in it that are reported included.
    pub bytes: u64,
    /// How many more they may be.
    pub error: u64,
    /// The ingresses that it enters by, with their bytes, most first; up to eight, of which the last may be too high by what was
    /// counted for one that had to make room.
    pub ingresses: Vec<(Ingress, u64)>,
}

/// Counts bytes by prefix of destination, in bounded memory.
///
/// [`add`](Self::add) what crosses a segment, best by flow records or samples, for it takes a few microseconds; ask for what is
/// [`heavy`](Self::heavy); and [`halve`](Self::halve) at regular times, so that what has ended is forgotten.
#[derive(Clone, Debug)]
pub struct Aggregates {
    v4: Vec<Counters>,
    v6: Vec<Counters>,
    total: u64,
}

impl Default for Aggregates {
    fn default() -> Self {
        Self {
            v4: LENGTHS_V4.map(|_| Counters::default()).into(),
            v6: LENGTHS_V6.map(|_| Counters::default()).into(),
            total: 0,
        }
    }
}

impl Aggregates {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts bytes to a destination.
    pub fn add(&mut self, destination: IpAddr, ingress: Ingress, bytes: u64) {
        // The sum of what is counted in one level stays in range as well.
        let bytes = bytes.min(u64::MAX - self.total);
        self.total += bytes;
        let (address, levels, lengths) = match destination {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, &mut self.v4, &LENGTHS_V4[..]),
            IpAddr::V6(address) => (address.to_bits(), &mut self.v6, &LENGTHS_V6[..]),
        };
        for (level, &length) in levels.iter_mut().zip(lengths) {
            level.add(cut(address, length), ingress, bytes);
        }
    }

    /// All bytes that are counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest prefixes that carry more than a share (0 to 1) of all bytes, the heaviest first.
    #[must_use]
    pub fn heavy(&self, share: f64) -> Vec<Aggregate> {
        let least = share * self.total as f64;
        let v4 = heavy(&self.v4, &LENGTHS_V4, least);
        let v6 = heavy(&self.v6, &LENGTHS_V6, least);
        let v4 = v4.into_iter().map(|found| found.aggregate(|bits| IpAddr::V4(((bits >> 96) as u32).into())));
        let v6 = v6.into_iter().map(|found| found.aggregate(|bits| IpAddr::V6(bits.into())));
        let mut all: Vec<_> = v4.chain(v6).flatten().collect();
        all.sort_by_key(|aggregate| std::cmp::Reverse((aggregate.bytes, aggregate.prefix.prefix_len())));
        all
    }

    /// Counts everything so far for half.
    pub fn halve(&mut self) {
        self.total /= 2;
        self.v4.iter_mut().chain(&mut self.v6).for_each(Counters::halve);
    }
}

/// A prefix that is heavy, and whether one that contains it is too.
struct Found<'a> {
    bits: u128,
    length: u8,
    tally: &'a Tally,
    is_within: bool,
}

impl Found<'_> {
    fn aggregate(&self, address: impl Fn(u128) -> IpAddr) -> Option<Aggregate> {
        Some(Aggregate {
            prefix: IpNet::new(address(self.bits), self.length).ok()?,
            bytes: self.tally.at_least(),
            error: self.tally.error,
            ingresses: self.tally.ingresses(),
        })
    }
}

/// From the longest prefixes to the shortest: those that carry enough beside the ones in them that are found already. Of those,
/// only the shortest count, which contain the others.
fn heavy<'a>(levels: &'a [Counters], lengths: &[u8], least: f64) -> Vec<Found<'a>> {
    let mut found: Vec<Found<'a>> = Vec::new();
    for (level, &length) in levels.iter().zip(lengths) {
        let mut here = Vec::new();
        for (bits, tally) in level.iter() {
            let is_in = |inner: &&mut Found<'_>| !inner.is_within && cut(inner.bits, length) == bits;
            let inner: Vec<_> = found.iter_mut().filter(is_in).collect();
            let discount = inner.iter().fold(0_u64, |sum, inner| sum.saturating_add(inner.tally.bytes));
            let own = tally.at_least().saturating_sub(discount);
            if own > 0 && own as f64 > least {
                inner.into_iter().for_each(|inner| inner.is_within = true);
                here.push(Found { bits, length, tally, is_within: false });
            }
        }
        found.append(&mut here);
    }
    found
}

/// The first `length` bits, of one at least.
fn cut(bits: u128, length: u8) -> u128 {
    bits & (u128::MAX << (u128::BITS - u32::from(length)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn prefixes(aggregates: &[Aggregate]) -> Vec<String> {
        aggregates.iter().map(|aggregate| aggregate.prefix.to_string()).collect()
    }

    #[test]
    fn a_longer_prefix_takes_its_bytes_from_a_shorter_one() {
        let mut seen = Aggregates::new();
        for host in 0..100_u8 {
            seen.add([10, 0, 0, 1].into(), Ingress(1), 100);
            seen.add([10, 0, 0, host].into(), Ingress(2), 10);
            seen.add([172, 16, host, 1].into(), Ingress(3), 100);
        }
        // The host has 10,010; the rest of its network 990 in 256 addresses, which is too little; 172.16.0.0/16 has as much as it.
        assert_eq!(prefixes(&seen.heavy(0.4)), ["10.0.0.1/32", "172.16.0.0/16"]);
        let heavy = seen.heavy(0.04);
        assert!(prefixes(&heavy).contains(&"10.0.0.0/24".to_owned()), "{heavy:?}");
        let whole =
            heavy.iter().find(|aggregate| aggregate.prefix.prefix_len() == 24 && aggregate.bytes == 11_000);
        assert_eq!(whole.unwrap().ingresses, [(Ingress(1), 10_000), (Ingress(2), 1000)]);
    }

    #[test]
    fn both_families_are_of_one_whole() {
        let mut seen = Aggregates::new();
        for interface in 0..1000_u16 {
            seen.add([0x2001, 0xdb8, 0, 0x42, 0, 0, 0, interface].into(), Ingress(1), 10);
            seen.add([192, 0, 2, 1].into(), Ingress(1), 5);
        }
        assert_eq!(prefixes(&seen.heavy(0.5)), ["2001:db8:0:42::/64"]);
        assert_eq!(prefixes(&seen.heavy(0.3)), ["2001:db8:0:42::/64", "192.0.2.1/32"]);
        assert_eq!(prefixes(&seen.heavy(0.7)), Vec::<String>::new());
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let mut seen = Aggregates::new();
        assert_eq!(seen.heavy(0.0), []);
        seen.add([192, 0, 2, 1].into(), Ingress(1), 1000);
        (0..5).for_each(|_| seen.halve());
        seen.add([198, 51, 100, 1].into(), Ingress(1), 1000);
        assert_eq!(prefixes(&seen.heavy(0.1)), ["198.51.100.1/32"]);
        (0..20).for_each(|_| seen.halve());
        assert_eq!((seen.heavy(0.0), seen.total()), (vec![], 0));
    }

    /// What prefixes of IPv4 carry, in a map without bounds.
    fn exact(traffic: &[([u8; 4], u16)], length: u8) -> BTreeMap<u128, u64> {
        let mut exact = BTreeMap::new();
        for &(address, bytes) in traffic {
            let bits = u128::from(u32::from_be_bytes(address)) << 96;
            *exact.entry(cut(bits, length)).or_default() += u64::from(bytes);
        }
        exact
    }

    fn bits(aggregate: &Aggregate) -> u128 {
        match aggregate.prefix.network() {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn traffic(octets: u8) -> impl Strategy<Value = Vec<([u8; 4], u16)>> {
        let address = (0..octets, 0..octets, 0..octets, 0..octets).prop_map(|(a, b, c, d)| [a, b, c, d]);
        prop::collection::vec((address, 1..1500_u16), 1..1000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever the traffic: a prefix that is reported carries what is said of it, and the share beside those in it.
        #[test]
        fn nothing_is_reported_that_is_not_heavy(traffic in prop_oneof![traffic(3), traffic(255)], share in prop_oneof![0.002..0.01_f64, 0.01..0.5]) {
            let mut seen = Aggregates::new();
            traffic.iter().for_each(|&(address, bytes)| seen.add(address.into(), Ingress(0), bytes.into()));
            let heavy = seen.heavy(share);
            for aggregate in &heavy {
                let length = aggregate.prefix.prefix_len();
                let truth = exact(&traffic, length)[&bits(aggregate)];
                prop_assert!((aggregate.bytes..=aggregate.bytes + aggregate.error).contains(&truth));
                prop_assert!(aggregate.error <= seen.total() / COUNTERS as u64);
                let within = |other: &&Aggregate| other.prefix != aggregate.prefix && aggregate.prefix.contains(&other.prefix);
                let inner: Vec<_> = heavy.iter().filter(within).collect();
                let is_top = |one: &&&Aggregate| !inner.iter().any(|other| other.prefix != one.prefix && other.prefix.contains(&one.prefix));
                let discount: u64 = inner.iter().filter(is_top).map(|one| exact(&traffic, one.prefix.prefix_len())[&bits(one)]).sum();
                prop_assert!((truth - discount) as f64 > share * seen.total() as f64);
            }
        }

        /// A host that carries the share and the bound more is found among any others.
        #[test]
        fn a_heavy_host_is_found(traffic in traffic(255), share in 0.05..0.5_f64) {
            let mut seen = Aggregates::new();
            let others: u64 = traffic.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
            let bound = share + 1.0 / COUNTERS as f64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
            let mine = (others as f64 * bound / (1.0 - bound)) as u64 + 2;
            let half = traffic.len() / 2;
            traffic[..half].iter().for_each(|&(address, bytes)| seen.add(address.into(), Ingress(0), bytes.into()));
            seen.add([255, 1, 2, 3].into(), Ingress(9), mine);
            traffic[half..].iter().for_each(|&(address, bytes)| seen.add(address.into(), Ingress(0), bytes.into()));
            let heavy = seen.heavy(share);
            prop_assert!(prefixes(&heavy).contains(&"255.1.2.3/32".to_owned()), "{:?}", heavy);
        }
    }
}
