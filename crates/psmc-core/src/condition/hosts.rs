//! How many flows each host has, by a sketch of a fixed size.

use std::net::IpAddr;

use siphasher::sip::SipHasher13;

/// Cells of a row, three times as many as a flood of forged sources has addresses in an epoch: hardly any host shares both of its cells.
const CELLS: usize = 1 << 15;

const ROWS: usize = 2;

/// A count-min sketch (Cormode and Muthukrishnan 2005) with conservative update, of the flows that have sent in an epoch, by host.
#[derive(Debug)]
pub(super) struct Hosts {
    rows: [Vec<Cell>; ROWS],
    /// For each end.
    secrets: [[u64; 3]; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    epoch: u16,
    /// Flows in that epoch.
    flows: u16,
    /// Flows in the one before.
    before: u16,
}

/// Which end of its flows a host is.
#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

impl Hosts {
    pub(super) fn new(key: u64) -> Self {
        let secret = |number: u64| SipHasher13::new_with_keys(key, number).hash(b"hosts");
        Self {
            rows: std::array::from_fn(|_| vec![Cell::default(); CELLS]),
            secrets: [[0, 1, 2], [3, 4, 5]].map(|numbers| numbers.map(secret)),
        }
    }

    /// A flow between two hosts sends for the first time in an epoch. Returns how many flows the busier of the two has.
    pub(super) fn on_flow(&mut self, source: IpAddr, destination: IpAddr, epoch: u16) -> u16 {
        let source = self.count(self.hash(source, End::Source), epoch);
        source.max(self.count(self.hash(destination, End::Destination), epoch))
    }

    fn count(&mut self, hash: u32, epoch: u16) -> u16 {
        // Another part of the hash for each row.
        let places: [usize; ROWS] = std::array::from_fn(|row| (hash >> (16 * row)) as usize % CELLS);
        let mut cells = [Cell::default(); ROWS];
        for ((cell, row), place) in cells.iter_mut().zip(&self.rows).zip(places) {
            *cell = row[place].at(epoch);
        }
        let least = cells.iter().map(|cell| cell.flows).min().unwrap_or(0);
        for ((mut cell, row), place) in cells.into_iter().zip(&mut self.rows).zip(places) {
            cell.flows = cell.flows.max(least.saturating_add(1));
            row[place] = cell;
        }
        let before = cells.iter().map(|cell| cell.before).min().unwrap_or(0);
        before.max(least.saturating_add(1))
    }

    /// Hosts of IPv6 are told apart by their first 64 bits: one of them has all addresses behind those.
    ///
    /// Pair-multiply-shift (Thorup 2015, High Speed Hashing for Integers and Strings): two hosts have any two hashes with the same chance, which is
    /// what the sketch needs, and nobody sees a hash. With SipHash a packet took 240 instructions more.
    fn hash(&self, host: IpAddr, end: End) -> u32 {
        let (high, low) = match host.to_canonical() {
            IpAddr::V4(host) => (0, host.to_bits()),
            IpAddr::V6(host) => {
                let [a, b, c, d, e, f, g, h, ..] = host.octets();
                (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
            }
        };
        let [one, other, sum] = self.secrets[end as usize];
        let product = one.wrapping_add(low.into()).wrapping_mul(other.wrapping_add(high.into()));
        (product.wrapping_add(sum) >> 32) as u32
    }
}

impl Cell {
    fn at(self, epoch: u16) -> Self {
        match epoch.wrapping_sub(self.epoch) {
            0 => self,
            1 => Self { epoch, flows: 0, before: self.flows },
            _ => Self { epoch, flows: 0, before: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0A00_0000 + number).into()
    }

    #[test]
    fn a_flood_counts_at_its_ends_and_hardly_anywhere_else() {
        let mut hosts = Hosts::new(7);
        let victim = host(1);
        for number in 0..10_000 {
            let load = hosts.on_flow(host(100 + number), victim, 3);
            assert!(u32::from(load) > number, "{load} flows after {number}");
        }
        let loads = (0..1000).map(|number| hosts.on_flow(host(50_000 + number), host(60_000 + number), 4));
        let crowded = loads.filter(|&load| load > 20).count();
        assert!(crowded <= 2, "{crowded}");
        assert!(hosts.on_flow(host(1_000_000), victim, 4) > 9_000, "those of the epoch before count");
        assert!(hosts.on_flow(host(1_000_000), victim, 6) < 10, "they are forgotten");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_host() {
        let mut hosts = Hosts::new(7);
        let address = |low: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, low).into();
        let loads: Vec<_> = (0..5).map(|low| hosts.on_flow(address(low), host(u32::from(low)), 0)).collect();
        assert_eq!(loads, [1, 2, 3, 4, 5]);
    }
}
