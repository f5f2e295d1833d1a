//! Which aggregates lose most: hierarchical heavy hitters in fixed memory, fed with what is dropped and nothing else.
//!
//! Each level of the hierarchy (a flow, an address, ever shorter prefixes, all of a class) has counters by Space Saving (Metwally,
//! Agrawal and El Abbadi, ICDT 2005), in sets of four as caches have, so that a packet costs the same however many there are. What
//! a closer aggregate that is heavy has lost is not counted again for a wider one (Mitzenmacher, Steinke and Thaler, ALENEX 2012).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::{Aggregate, Facts, Kind};

/// Levels, from a flow to all of a class.
const LEVELS: usize = 9;

/// Bits of the prefix at each level. The first is a flow of one address, the second all of that.
const LENGTHS_V4: [u8; LEVELS] = [32, 32, 28, 24, 20, 16, 12, 8, 0];

/// The same of IPv6. Hosts change their last 64 bits at will.
const LENGTHS_V6: [u8; LEVELS] = [128, 128, 64, 56, 48, 40, 32, 16, 0];

/// The level of one address. Those beyond are of several.
const ADDRESS: usize = 1;

/// Counters of a level: 64 sets. A count is too high by a fraction of a percent of all, and what is heavy has a tenth.
const SETS: usize = 64;
const WAYS: usize = 4;

/// A flood from many addresses takes some time to come from all of them, and one that has ended is forgotten within seconds.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// What is counted together at some level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    class: u8,
    kind: Kind,
    is_v6: bool,
    /// The prefix, with zeros behind it.
    bits: u128,
    flow: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    key: Key,
    /// At most.
    bytes: u64,
    /// How many of those may be of others that had the counter before.
    error: u64,
}

/// Counts bytes by aggregate. 140 KiB, made with the first drop.
#[derive(Debug)]
pub(super) struct Sketch {
    levels: Vec<Option<Counter>>,
    total: u64,
    packets: u64,
    secret: u64,
    halved_at: Option<Instant>,
}

/// An aggregate that is heavy, and at which level it was found.
#[derive(Clone, Copy, Debug)]
struct Found {
    key: Key,
    level: usize,
    bytes: u64,
    is_within: bool,
}

impl Sketch {
    /// Nothing counted yet. What is unknown to others keeps them from choosing addresses that share counters.
    pub(super) fn new(secret: u64) -> Self {
        Self { levels: Vec::new(), total: 0, packets: 0, secret: secret | 1, halved_at: None }
    }

    /// Counts a packet.
    pub(super) fn add(&mut self, packet: &Facts, bytes: u64) {
        if self.levels.is_empty() {
            self.levels.resize(LEVELS * SETS * WAYS, None);
        }
        self.total += bytes;
        self.packets += 1;
        let full = Key::of(packet);
        for level in 0..LEVELS {
            let key = full.at(level);
            let set = self.set_of(&key);
            let from = (level * SETS + set) * WAYS;
            count(&mut self.levels[from..from + WAYS], key, bytes);
        }
    }

    /// Packets counted.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// The closest aggregates that have more than a share of all bytes, without what closer ones have that are told.
    pub(super) fn heavy(&self, share: f64) -> Vec<Aggregate> {
        let least = share * self.total as f64;
        let mut found: Vec<Found> = Vec::new();
        for level in 0..LEVELS {
            let mut here = Vec::new();
            for counter in self.counters(level) {
                let inner =
                    found.iter_mut().filter(|inner| !inner.is_within && inner.key.at(level) == counter.key);
                let inner: Vec<_> = inner.collect();
                let of_inner: u64 = inner.iter().map(|inner| inner.bytes).sum();
                let own = (counter.bytes - counter.error).saturating_sub(of_inner);
                if own > 0 && own as f64 > least {
                    inner.into_iter().for_each(|inner| inner.is_within = true);
                    here.push(Found { key: counter.key, level, bytes: counter.bytes, is_within: false });
                }
            }
            found.append(&mut here);
        }
        merged(found)
    }

    /// Counts everything so far for half, once a second; to be called more often.
    pub(super) fn forget(&mut self, now: Instant) {
        let last = *self.halved_at.get_or_insert(now);
        if now < last + HALF_LIFE {
            return;
        }
        self.halved_at = Some(now);
        (self.total, self.packets) = (self.total / 2, self.packets / 2);
        for slot in &mut self.levels {
            if let Some(counter) = slot {
                counter.error = counter.error.div_ceil(2);
                counter.bytes /= 2;
                if counter.bytes <= counter.error {
                    *slot = None;
                }
            }
        }
    }

    fn counters(&self, level: usize) -> impl Iterator<Item = &Counter> {
        let size = if self.levels.is_empty() { 0 } else { SETS * WAYS };
        self.levels[level * size..(level + 1) * size].iter().flatten()
    }

    /// Multiplication and folding by a secret: enough for sixty-four sets that nobody outside shall choose.
    fn set_of(&self, key: &Key) -> usize {
        let fold = |word: u128| {
            let product = word.wrapping_mul(u128::from(self.secret) << 64 | 0x9e37_79b9_7f4a_7c15);
            (product >> 64) ^ product
        };
        let rest =
            u128::from(key.flow.map_or(0, |flow| u32::from(flow) + 1)) << 8 | u128::from(key.class) << 2;
        let mixed = fold(fold(key.bits) ^ rest ^ key.kind as u128) >> 40;
        usize::try_from(mixed % SETS as u128).unwrap_or_default()
    }
}

/// Counts in a set of counters; who has none there takes over that of the lightest, with all it has counted.
fn count(set: &mut [Option<Counter>], key: Key, bytes: u64) {
    if let Some(counter) = set.iter_mut().flatten().find(|counter| counter.key == key) {
        counter.bytes += bytes;
        return;
    }
    let weight = |slot: &&mut Option<Counter>| slot.as_ref().map_or(0, |counter| counter.bytes);
    if let Some(lightest) = set.iter_mut().min_by_key(weight) {
        let error = lightest.as_ref().map_or(0, |counter| counter.bytes);
        *lightest = Some(Counter { key, bytes: error + bytes, error });
    }
}

/// Prefixes of several addresses that are neighbours are one: a flood that happens to be spread over four /24 is a /22.
fn merged(mut found: Vec<Found>) -> Vec<Aggregate> {
    found.sort_by_key(|one| (one.level, one.key));
    let mut merged: Vec<(Key, usize, u8)> = Vec::new();
    for one in found {
        let length = one.key.length(one.level);
        match merged.last_mut() {
            Some((key, level, shared))
                if one.level > ADDRESS
                    && *level == one.level
                    && one.level + 1 < LEVELS
                    && key.at(one.level + 1) == one.key.at(one.level + 1) =>
            {
                let common = (key.bits ^ one.key.bits).leading_zeros();
                *shared = u8::try_from(common).unwrap_or(u8::MAX).min(*shared);
                key.bits = cut(key.bits, *shared);
            }
            Some(_) | None => merged.push((one.key, one.level, length)),
        }
    }
    merged.into_iter().filter_map(|(key, _, length)| key.aggregate(length)).collect()
}

impl Key {
    fn of(packet: &Facts) -> Self {
        let (bits, is_v6) = match packet.source {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, false),
            IpAddr::V6(address) => (address.to_bits(), true),
        };
        Self { class: packet.class, kind: packet.kind, is_v6, bits, flow: Some(packet.flow) }
    }

    fn length(&self, level: usize) -> u8 {
        if self.is_v6 { LENGTHS_V6[level] } else { LENGTHS_V4[level] }
    }

    fn at(self, level: usize) -> Self {
        let flow = self.flow.filter(|_| level < ADDRESS);
        Self { bits: cut(self.bits, self.length(level)), flow, ..self }
    }

    fn aggregate(&self, length: u8) -> Option<Aggregate> {
        let address = if self.is_v6 {
            IpAddr::V6(self.bits.into())
        } else {
            IpAddr::V4(u32::try_from(self.bits >> 96).ok()?.into())
        };
        let prefix = IpNet::new(address, length).ok()?;
        Some(Aggregate {
            class: Some(self.class),
            kind: self.kind,
            prefix,
            destinations: None,
            flow: self.flow,
        })
    }
}

/// The first `length` bits.
fn cut(bits: u128, length: u8) -> u128 {
    bits & u128::MAX.checked_shl(u128::BITS - u32::from(length)).unwrap_or(0)
}
