//! Space Saving (Metwally, Agrawal and El Abbadi, ICDT 2005): a fixed number of counters for the heaviest of any number of keys.

use std::collections::{BTreeMap, BTreeSet};

use super::Ingress;

/// Counters of a level. Each is too high by at most 1/256 of all bytes, which tells shares of a few percent.
pub const COUNTERS: usize = 256;

/// Ingresses of a prefix: an attack that enters by more than eight is everywhere.
const INGRESSES: usize = 8;

/// The heaviest prefixes of one length.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    tallies: BTreeMap<u128, Tally>,
    /// By bytes, so that the lightest comes first.
    order: BTreeSet<(u64, u128)>,
}

/// What is counted of a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Bytes at most.
    pub(super) bytes: u64,
    /// How many of those may be of others that had the counter before.
    pub(super) error: u64,
    ingresses: Vec<(Ingress, u64)>,
}

impl Counters {
    pub(super) fn add(&mut self, key: u128, ingress: Ingress, bytes: u64) {
        let tally = match self.tallies.get_mut(&key) {
            Some(tally) => {
                self.order.remove(&(tally.bytes, key));
                tally
            }
            None => {
                let inherited = if self.tallies.len() < COUNTERS { 0 } else { self.forget_lightest() };
                let tally = Tally { bytes: inherited, error: inherited, ingresses: Vec::new() };
                self.tallies.entry(key).or_insert(tally)
            }
        };
        tally.bytes += bytes;
        tally.enter(ingress, bytes);
        self.order.insert((tally.bytes, key));
    }

    /// Makes room, and says what was counted there.
    fn forget_lightest(&mut self) -> u64 {
        let Some((bytes, key)) = self.order.pop_first() else { return 0 };
        self.tallies.remove(&key);
        bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u128, &Tally)> {
        self.tallies.iter().map(|(&key, tally)| (key, tally))
    }

    /// Counts everything for half.
    pub(super) fn halve(&mut self) {
        self.tallies.retain(|_, tally| tally.halve());
        self.order = self.tallies.iter().map(|(&key, tally)| (tally.bytes, key)).collect();
    }
}

impl Tally {
    /// Bytes that are certain.
    pub(super) fn at_least(&self) -> u64 {
        self.bytes - self.error
    }

    /// The ingresses, most bytes first.
    pub(super) fn ingresses(&self) -> Vec<(Ingress, u64)> {
        let mut ingresses = self.ingresses.clone();
        ingresses.sort_by_key(|&(ingress, bytes)| (std::cmp::Reverse(bytes), ingress));
        ingresses
    }

    fn enter(&mut self, ingress: Ingress, bytes: u64) {
        if let Some((_, sum)) = self.ingresses.iter_mut().find(|(known, _)| *known == ingress) {
            *sum += bytes;
            return;
        }
        if self.ingresses.len() < INGRESSES {
            self.ingresses.push((ingress, bytes));
            return;
        }
        if let Some(lightest) = self.ingresses.iter_mut().min_by_key(|(_, sum)| *sum) {
            *lightest = (ingress, lightest.1 + bytes);
        }
    }

    /// What is certain stays certain. Says whether anything is left.
    fn halve(&mut self) -> bool {
        let certain = self.at_least() / 2;
        self.bytes /= 2;
        self.error = self.bytes - certain;
        self.ingresses.iter_mut().for_each(|(_, sum)| *sum /= 2);
        self.ingresses.retain(|&(_, sum)| sum > 0);
        self.bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_heaviest_stay() {
        let mut counters = Counters::default();
        for key in 0..10_000 {
            counters.add(key, Ingress(0), 1);
            counters.add(77, Ingress(u32::try_from(key % 100).unwrap()), 10);
        }
        assert_eq!((counters.tallies.len(), counters.order.len()), (COUNTERS, COUNTERS));
        let heaviest = &counters.tallies[&77];
        assert!(
            heaviest.at_least() >= 100_000 && heaviest.error <= 110_000 / COUNTERS as u64,
            "{heaviest:?}"
        );
        assert_eq!(heaviest.ingresses.len(), INGRESSES);
    }

    #[test]
    fn halves_of_what_is_certain_stay_certain() {
        let mut tally = Tally { bytes: 11, error: 5, ingresses: vec![(Ingress(1), 1)] };
        assert!(tally.halve());
        assert_eq!(tally, Tally { bytes: 5, error: 2, ingresses: vec![] });
        assert!(tally.halve());
        assert_eq!(tally, Tally { bytes: 2, error: 1, ingresses: vec![] });
        assert!(tally.halve());
        assert!(!tally.halve());
    }
}
