//! A table of a fixed number of flows, from which the one goes that was used longest ago.

/// No slot.
const NONE: u32 = u32::MAX;

/// Values by keys, in slots that are allocated once.
#[derive(Debug)]
pub(super) struct Lru<T> {
    slots: Vec<Slot<T>>,
    /// The first slot of each chain of keys; a power of two of them.
    heads: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Debug)]
struct Slot<T> {
    key: u64,
    value: T,
    /// The next one of its chain.
    chain: u32,
    newer: u32,
    older: u32,
}

impl<T: Default> Lru<T> {
    /// Room for so many.
    pub(super) fn new(capacity: usize) -> Self {
        let heads = vec![NONE; capacity.next_power_of_two()];
        Self { slots: Vec::with_capacity(capacity), heads, newest: NONE, oldest: NONE, capacity }
    }

    /// The value of `key`, if it is known; it is used now.
    pub(super) fn get(&mut self, key: u64) -> Option<&mut T> {
        let at = self.find(key)?;
        self.unlink(at);
        self.link(at);
        Some(&mut self.slots[at as usize].value)
    }

    /// A new value for a key that is not known. The one used longest ago makes room, and is returned.
    pub(super) fn insert(&mut self, key: u64) -> Option<T> {
        let (at, removed) = if self.slots.len() < self.capacity {
            let at = u32::try_from(self.slots.len()).unwrap_or(NONE);
            self.slots.push(Slot { key, value: T::default(), chain: NONE, newer: NONE, older: NONE });
            (at, None)
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.unchain(at);
            let slot = &mut self.slots[at as usize];
            slot.key = key;
            (at, Some(std::mem::take(&mut slot.value)))
        };
        let head = self.head(key);
        self.slots[at as usize].chain = std::mem::replace(&mut self.heads[head], at);
        self.link(at);
        removed
    }

    fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.heads[self.head(key)];
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.key == key {
                return Some(at);
            }
            at = slot.chain;
        }
        None
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits of a hash are wanted")]
    fn head(&self, key: u64) -> usize {
        key as usize & (self.heads.len() - 1)
    }

    fn unchain(&mut self, at: u32) {
        let Slot { key, chain, .. } = self.slots[at as usize];
        let head = self.head(key);
        if self.heads[head] == at {
            self.heads[head] = chain;
            return;
        }
        let mut before = self.heads[head];
        while self.slots[before as usize].chain != at {
            before = self.slots[before as usize].chain;
        }
        self.slots[before as usize].chain = chain;
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link(&mut self, at: u32) {
        let second = std::mem::replace(&mut self.newest, at);
        match self.slots.get_mut(second as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
        let slot = &mut self.slots[at as usize];
        (slot.newer, slot.older) = (NONE, second);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list in the order of use.
        #[test]
        fn it_forgets_what_was_used_longest_ago(
            capacity in 1_usize..9,
            keys in prop::collection::vec(0_u64..24, 0..300),
        ) {
            let mut table = Lru::<u32>::new(capacity);
            let mut model = VecDeque::<(u64, u32)>::new();
            for (turn, key) in (1..).zip(keys) {
                let known = model.iter().position(|(other, _)| *other == key).and_then(|at| model.remove(at));
                let value = table.get(key).map(|value| std::mem::replace(value, turn));
                prop_assert_eq!(value, known.map(|(_, value)| value));
                if known.is_none() {
                    let oldest = if model.len() == capacity { model.pop_back() } else { None };
                    prop_assert_eq!(table.insert(key), oldest.map(|(_, value)| value));
                    *table.get(key).expect("it is there") = turn;
                }
                model.push_front((key, turn));
            }
        }
    }
}
