//! Which peer an inner address belongs to.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::joint::map::JointPrefixMap;

/// The networks of all peers and, for an address, the owner of the longest one that contains it.
///
/// A network may be claimed by several, of different priorities. It is owned by the one of the best standing, and among those of
/// the same by the one of the least priority.
///
/// The two families are apart: an IPv4-mapped IPv6 address is an IPv6 address like any other.
#[derive(Debug)]
pub(crate) struct AllowedIps<T: Copy> {
    owners: JointPrefixMap<IpNet, T>,
    /// Who claims each network, by priority.
    claims: BTreeMap<IpNet, BTreeMap<u8, T>>,
    /// The few that several claim: only these ever change hands.
    contested: BTreeSet<IpNet>,
    /// Of those that are not as good as can be.
    standings: BTreeMap<T, Standing>,
    /// What was looked up of late, each address in the slot of its hash.
    recent: Box<[Cell<Option<Found<T>>>]>,
    /// The broadcast addresses of this site's own networks.
    broadcasts: Vec<Ipv4Addr>,
}

/// How good it is to give packets to a peer; the better one is less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It works.
    #[default]
    Trusted,
    /// It works again, and shall show first that this lasts.
    OnTrial,
    /// No path to it works.
    Down,
}

/// An address, and whose it is.
type Found<T> = (IpAddr, Option<T>);

/// How many addresses are remembered: packets come in trains of the same few.
const RECENT: usize = 256;

/// RFC 5771, RFC 3927; RFC 4291, sections 2.7 and 2.5.6.
const MULTICAST_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4);
const LINK_LOCAL_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16);
const MULTICAST_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
const LINK_LOCAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);

impl<T: Copy> Default for AllowedIps<T> {
    fn default() -> Self {
        Self {
            owners: JointPrefixMap::new(),
            claims: BTreeMap::new(),
            contested: BTreeSet::new(),
            standings: BTreeMap::new(),
            recent: (0..RECENT).map(|_| Cell::new(None)).collect(),
            broadcasts: Vec::new(),
        }
    }
}

impl<T: Copy + Ord> AllowedIps<T> {
    /// Those of a site whose own networks have these broadcast addresses.
    pub(crate) fn new(broadcasts: Vec<Ipv4Addr>) -> Self {
        Self { broadcasts, ..Self::default() }
    }

    /// Who gets packets to `address`. What is meant for a link, or for a group, concerns a peer only if it was given a network
    /// of such addresses: a default route means hosts.
    pub(crate) fn lookup_destination(&self, address: IpAddr) -> Option<T> {
        let Some(kind) = self.kind_beyond_hosts(address) else { return self.lookup(address) };
        let (network, owner) = self.owners.get_lpm(&IpNet::from(address))?;
        kind.contains(&network).then_some(*owner)
    }

    /// The addresses of the same kind, unless that is those of hosts.
    fn kind_beyond_hosts(&self, address: IpAddr) -> Option<IpNet> {
        match address {
            IpAddr::V4(v4) if v4.is_broadcast() || self.broadcasts.contains(&v4) => Some(address.into()),
            IpAddr::V4(v4) if v4.is_multicast() => Some(IpNet::V4(MULTICAST_V4)),
            IpAddr::V4(v4) if v4.is_link_local() => Some(IpNet::V4(LINK_LOCAL_V4)),
            IpAddr::V6(v6) if v6.is_multicast() => Some(IpNet::V6(MULTICAST_V6)),
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(IpNet::V6(LINK_LOCAL_V6)),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    }

    /// `owner` claims `net`, whose host bits don't matter, with this priority, unless somebody else does.
    ///
    /// # Errors
    /// That one.
    pub(crate) fn claim(&mut self, net: IpNet, priority: u8, owner: T) -> Result<(), T> {
        let net = net.trunc();
        let claims = self.claims.entry(net).or_default();
        match claims.get(&priority) {
            Some(other) if *other != owner => return Err(*other),
            Some(_) | None => claims.insert(priority, owner),
        };
        self.settle(net);
        Ok(())
    }

    /// `owner` does not claim this network any more.
    pub(crate) fn release(&mut self, net: IpNet, owner: T) {
        let net = net.trunc();
        if let Some(claims) = self.claims.get_mut(&net) {
            claims.retain(|_, other| *other != owner);
        }
        self.settle(net);
    }

    /// `owner` claims nothing any more, in time proportional to the number of all networks.
    pub(crate) fn release_all(&mut self, owner: T) {
        self.standings.remove(&owner);
        let nets: Vec<_> = self.claims.keys().filter(|net| self.is_claimed_by(net, owner)).copied().collect();
        nets.into_iter().for_each(|net| self.release(net, owner));
    }

    /// Who claims exactly this network with this priority.
    pub(crate) fn claimant(&self, net: IpNet, priority: u8) -> Option<T> {
        self.claims.get(&net.trunc())?.get(&priority).copied()
    }

    /// How good it is to give packets to `owner` from now on. Returns the networks that have another owner for that.
    pub(crate) fn set_standing(&mut self, owner: T, standing: Standing) -> Vec<IpNet> {
        match standing {
            Standing::Trusted => self.standings.remove(&owner),
            Standing::OnTrial | Standing::Down => self.standings.insert(owner, standing),
        };
        let mut moved: Vec<_> =
            self.contested.iter().filter(|net| self.is_claimed_by(net, owner)).copied().collect();
        moved.retain(|net| self.settle(*net));
        moved
    }

    /// Gives a network to the best of those who claim it. Says whether that is another one.
    fn settle(&mut self, net: IpNet) -> bool {
        let standing = |owner: &T| self.standings.get(owner).copied().unwrap_or_default();
        let claims = self.claims.get(&net).filter(|claims| !claims.is_empty());
        let best = claims.and_then(|claims| claims.values().min_by_key(|owner| standing(owner)).copied());
        if claims.is_some_and(|claims| claims.len() > 1) {
            self.contested.insert(net);
        } else {
            self.contested.remove(&net);
        }
        self.forget();
        match best {
            Some(best) => self.owners.insert(net, best) != Some(best),
            None => {
                self.claims.remove(&net);
                self.owners.remove(&net).is_some()
            }
        }
    }

    /// Whether an address belongs to `owner`, or would if all others who claim it were gone.
    pub(crate) fn may_be_from(&self, address: IpAddr, owner: T) -> bool {
        let network = || self.owners.get_lpm(&IpNet::from(address)).map(|(net, _)| net);
        self.lookup(address) == Some(owner) || network().is_some_and(|net| self.is_claimed_by(&net, owner))
    }

    fn is_claimed_by(&self, net: &IpNet, owner: T) -> bool {
        self.claims.get(net).is_some_and(|claims| claims.values().any(|other| *other == owner))
    }

    /// The networks that `owner` claims and that somebody else has.
    pub(crate) fn waits_for(&self, owner: T) -> Vec<IpNet> {
        let waits = |net: &&IpNet| self.is_claimed_by(net, owner) && self.owners.get(*net) != Some(&owner);
        self.contested.iter().filter(waits).copied().collect()
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
                let before = linear.insert(net, owner);
                before.into_iter().for_each(|before| allowed.release(net, before));
                prop_assert_eq!(allowed.claim(net, 1, owner), Ok(()));
            }
            for &address in &addresses {
                prop_assert_eq!(allowed.lookup(address), linear.lookup(address));
            }
            allowed.release_all(removed);
            linear.0.retain(|(_, owner)| *owner != removed);
            for &address in &addresses {
                prop_assert_eq!(allowed.lookup(address), linear.lookup(address));
            }
        }
    }

    #[test]
    fn a_default_route_means_hosts() {
        let broadcast = Ipv4Addr::new(10, 77, 0, 255);
        let mut allowed = AllowedIps::new(vec![broadcast]);
        give(&mut allowed, "0.0.0.0/0", 0);
        give(&mut allowed, "::/0", 0);
        give(&mut allowed, "10.77.0.0/24", 0);
        give(&mut allowed, "239.1.0.0/16", 1);
        let beyond = ["224.0.0.251", "255.255.255.255", "10.77.0.255", "169.254.1.1", "ff02::fb", "fe80::1"];
        let owner =
            |allowed: &AllowedIps<u8>, address: &str| allowed.lookup_destination(address.parse().unwrap());
        for address in beyond {
            assert_eq!(owner(&allowed, address), None, "{address}");
        }
        assert_eq!(owner(&allowed, "239.1.2.3"), Some(1));
        assert_eq!(owner(&allowed, "10.78.0.255"), Some(0), "a host, as far as anybody knows");
        assert_eq!(owner(&allowed, "2001:db8::1"), Some(0));
        for named in
            ["224.0.0.0/4", "255.255.255.255/32", "10.77.0.255/32", "169.254.0.0/16", "ff00::/8", "fe80::/10"]
        {
            give(&mut allowed, named, 2);
        }
        for address in beyond {
            assert_eq!(owner(&allowed, address), Some(2), "{address}");
        }
    }

    #[test]
    fn the_longest_network_wins_and_families_stay_apart() {
        let mut allowed = AllowedIps::default();
        assert_eq!(allowed.lookup(IpAddr::from([10, 1, 2, 3])), None);
        give(&mut allowed, "0.0.0.0/0", 0);
        give(&mut allowed, "10.0.0.0/8", 1);
        assert_eq!(allowed.claim("10.1.2.3/8".parse().unwrap(), 1, 2), Err(1));
        allowed.release("10.0.0.0/8".parse().unwrap(), 1);
        give(&mut allowed, "10.1.2.3/8", 2);
        give(&mut allowed, "10.1.2.3/32", 3);
        let owner = |address: &str| allowed.lookup(address.parse().unwrap());
        assert_eq!(owner("192.0.2.1"), Some(0));
        assert_eq!(owner("10.255.0.1"), Some(2));
        assert_eq!(owner("10.1.2.3"), Some(3));
        assert_eq!(owner("::ffff:10.1.2.3"), None);
    }

    #[test]
    fn the_best_of_those_who_claim_a_network_has_it() {
        let mut allowed = AllowedIps::default();
        let (net, host) = ("10.9.0.0/16".parse().unwrap(), "10.9.1.1".parse().unwrap());
        for (priority, owner) in [(2, 12), (1, 11), (3, 13)] {
            assert_eq!(allowed.claim(net, priority, owner), Ok(()));
        }
        assert_eq!(allowed.claim(net, 2, 14), Err(12), "one of each priority");
        assert_eq!(allowed.lookup(host), Some(11));
        assert_eq!(allowed.set_standing(11, Standing::Down), [net]);
        assert_eq!(allowed.lookup(host), Some(12));
        assert_eq!(allowed.waits_for(11), [net]);
        // Whoever it is, it may send from there.
        assert!([11, 12, 13].iter().all(|owner| allowed.may_be_from(host, *owner)));
        assert!(!allowed.may_be_from(host, 14));
        // While nobody is as good as can be, those on trial are better than those that do not work.
        assert_eq!(allowed.set_standing(11, Standing::OnTrial), []);
        assert_eq!(allowed.set_standing(12, Standing::Down), [net]);
        assert_eq!(allowed.lookup(host), Some(13));
        assert_eq!(allowed.set_standing(13, Standing::Down), [net]);
        assert_eq!(allowed.lookup(host), Some(11));
        assert_eq!(allowed.set_standing(11, Standing::Down), []);
        assert_eq!(allowed.lookup(host), Some(11), "of those that do not work the first");
        assert_eq!(allowed.set_standing(13, Standing::Trusted), [net]);
        allowed.release_all(13);
        assert_eq!(allowed.lookup(host), Some(11));
        allowed.release(net, 11);
        allowed.release(net, 12);
        assert_eq!((allowed.lookup(host), allowed.waits_for(11)), (None, Vec::new()));
    }

    fn give(allowed: &mut AllowedIps<u8>, net: &str, owner: u8) {
        assert_eq!(allowed.claim(net.parse().unwrap(), 1, owner), Ok(()));
    }
}
