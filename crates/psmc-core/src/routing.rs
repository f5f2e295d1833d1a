//! Which peer an inner address belongs to.

use std::cell::Cell;
use std::net::IpAddr;

use ipnet::IpNet;
use prefix_trie::joint::map::JointPrefixMap;

/// The networks of all peers and, for an address, the owner of the longest one that contains it.
///
/// The two families are apart: an IPv4-mapped IPv6 address is an IPv6 address like any other.
#[derive(Debug)]
pub(crate) struct AllowedIps<T: Copy> {
    owners: JointPrefixMap<IpNet, T>,
    /// What was looked up of late, each address in the slot of its hash.
    recent: Box<[Cell<Option<Found<T>>>]>,
}

/// An address, and whose it is.
type Found<T> = (IpAddr, Option<T>);

/// How many addresses are remembered: packets come in trains of the same few.
const RECENT: usize = 256;

impl<T: Copy> Default for AllowedIps<T> {
    fn default() -> Self {
        Self { owners: JointPrefixMap::new(), recent: (0..RECENT).map(|_| Cell::new(None)).collect() }
    }
}

impl<T: Copy + PartialEq> AllowedIps<T> {
    /// Gives `net`, whose host bits don't matter, to `owner`; returns the owner it is taken from.
    pub(crate) fn insert(&mut self, net: IpNet, owner: T) -> Option<T> {
        self.forget();
        self.owners.insert(net, owner)
    }

    /// Takes a network from whoever owns it.
    pub(crate) fn remove(&mut self, net: IpNet) {
        self.forget();
        self.owners.remove(&net);
    }

    /// The owner of exactly this network.
    pub(crate) fn owner(&self, net: IpNet) -> Option<T> {
        self.owners.get(&net).copied()
    }

    /// Takes every network from `owner`, in time proportional to the number of all networks.
    pub(crate) fn remove_all(&mut self, owner: T) {
        self.forget();
        self.owners.retain(|_, other| *other != owner);
    }

    /// The owner of the longest network that contains `address`.
    ///
    /// Visits at most 7 nodes for IPv4 and 26 for IPv6, however many networks there are.
    pub(crate) fn lookup(&self, address: IpAddr) -> Option<T> {
        let slot = &self.recent[slot(address)];
        if let Some((_, owner)) = slot.get().filter(|(known, _)| *known == address) {
            return owner;
        }
        let owner = self.owners.get_lpm(&IpNet::from(address)).map(|(_, owner)| *owner);
        slot.set(Some((address, owner)));
        owner
    }

    fn forget(&self) {
        self.recent.iter().for_each(|slot| slot.set(None));
    }
}

/// Where an address is remembered. Whoever aims at a slot costs others a look into the tree, no more.
fn slot(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let [high, low] = [address.to_bits() >> 64, address.to_bits()];
            #[expect(clippy::cast_possible_truncation, reason = "the halves of the address")]
            let folded = high as u64 ^ low as u64;
            folded
        }
    };
    // Fibonacci hashing: the first byte of the product depends on all of the address.
    let [first, ..] = bits.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    usize::from(first)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// All networks in a list: what [`AllowedIps`] must agree with.
    #[derive(Default)]
    struct Linear(Vec<(IpNet, u8)>);

    impl Linear {
        fn insert(&mut self, net: IpNet, owner: u8) -> Option<u8> {
            let previous = self.0.iter().position(|(other, _)| *other == net.trunc());
            let previous = previous.map(|index| self.0.swap_remove(index).1);
            self.0.push((net.trunc(), owner));
            previous
        }

        fn lookup(&self, address: IpAddr) -> Option<u8> {
            let containing = self.0.iter().filter(|(net, _)| net.contains(&address));
            containing.max_by_key(|(net, _)| net.prefix_len()).map(|(_, owner)| *owner)
        }
    }

    /// Addresses that differ in few places, so that networks nest and collide.
    fn address() -> impl Strategy<Value = IpAddr> {
        let v4 = (any::<u32>(), 0u32..33).prop_map(|(bits, shift)| {
            let bits = bits.checked_shl(shift).unwrap_or(0) & 0xC103_0183;
            IpAddr::from(Ipv4Addr::from_bits(bits))
        });
        let v6 = (any::<u128>(), 0u32..129).prop_map(|(bits, shift)| {
            let bits = bits.checked_shl(shift).unwrap_or(0) & (0xC103 << 112 | 0x8001 << 60 | 0x8003);
            IpAddr::from(Ipv6Addr::from_bits(bits))
        });
        prop_oneof![v4, v6]
    }

    fn net() -> impl Strategy<Value = IpNet> {
        (address(), any::<u8>()).prop_map(|(address, len)| {
            let widest = IpNet::from(address).max_prefix_len();
            IpNet::new(address, len % (widest + 1)).unwrap()
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_linear_scan(
            nets in prop::collection::vec((net(), 0u8..5), 0..60),
            removed in 0u8..5,
            addresses in prop::collection::vec(address(), 1..60),
        ) {
            let (mut allowed, mut linear) = (AllowedIps::default(), Linear::default());
            for (net, owner) in nets {
                prop_assert_eq!(allowed.insert(net, owner), linear.insert(net, owner));
            }
            for &address in &addresses {
                prop_assert_eq!(allowed.lookup(address), linear.lookup(address));
            }
            allowed.remove_all(removed);
            linear.0.retain(|(_, owner)| *owner != removed);
            for &address in &addresses {
                prop_assert_eq!(allowed.lookup(address), linear.lookup(address));
            }
        }
    }

    #[test]
    fn the_longest_network_wins_and_families_stay_apart() {
        let mut allowed = AllowedIps::default();
        assert_eq!(allowed.lookup(IpAddr::from([10, 1, 2, 3])), None);
        allowed.insert("0.0.0.0/0".parse().unwrap(), 0);
        allowed.insert("10.0.0.0/8".parse().unwrap(), 1);
        assert_eq!(allowed.insert("10.1.2.3/8".parse().unwrap(), 2), Some(1));
        allowed.insert("10.1.2.3/32".parse().unwrap(), 3);
        let owner = |address: &str| allowed.lookup(address.parse().unwrap());
        assert_eq!(owner("192.0.2.1"), Some(0));
        assert_eq!(owner("10.255.0.1"), Some(2));
        assert_eq!(owner("10.1.2.3"), Some(3));
        assert_eq!(owner("::ffff:10.1.2.3"), None);
    }
}
