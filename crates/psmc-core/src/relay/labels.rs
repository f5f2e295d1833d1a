//! Which session a label means: found by one look at a table, where forged labels miss.

use psmc_wire::Label;

use super::session::Side;

/// Slots for each label that can be in use, so that a random label meets a free slot at the second try, on average.
const SLOTS_PER_LABEL: usize = 2;

/// Of the label's bits the lowest eight tell the worker, those above the slot.
const WORKER_BITS: u32 = 8;

/// Which of `workers` owns the session of a label.
///
/// Any load balancer in front of the workers computes the same, for instance from the eighth byte of a datagram.
#[must_use]
pub fn worker_of(label: Label, workers: u8) -> u8 {
    label.0.to_be_bytes()[3] % workers.max(1)
}

/// The labels in use.
#[derive(Debug)]
pub(super) struct Labels {
    slots: Vec<Slot>,
    worker: u8,
    workers: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// 0 if it is free; no label is 0.
    label: u32,
    entry: Entry,
}

/// What a label stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where the session is.
    pub(super) session: u32,
    /// From which of its sides datagrams with this label come.
    pub(super) from: Side,
}

impl Labels {
    /// Room for `labels` of them, all of which belong to this worker.
    pub(super) fn new(labels: usize, (worker, workers): (u8, u8)) -> Self {
        let count = (labels * SLOTS_PER_LABEL).next_power_of_two();
        Self { slots: vec![Slot::default(); count], worker, workers }
    }

    /// What a label stands for, if anything.
    pub(super) fn find(&self, label: Label) -> Option<Entry> {
        let slot = self.slots[self.slot_of(label)];
        (slot.label == label.0 && label.0 != 0).then_some(slot.entry)
    }

    /// A new label for `entry`, made of random numbers. There must be room.
    pub(super) fn insert(&mut self, entry: Entry, mut random: impl FnMut() -> u32) -> Label {
        loop {
            let label = Label(random());
            let slot = self.slot_of(label);
            let is_ours = worker_of(label, self.workers) == self.worker;
            if label.0 != 0 && is_ours && self.slots[slot].label == 0 {
                self.slots[slot] = Slot { label: label.0, entry };
                return label;
            }
        }
    }

    /// Makes a label free again.
    pub(super) fn remove(&mut self, label: Label) {
        if self.find(label).is_some() {
            let slot = self.slot_of(label);
            self.slots[slot] = Slot::default();
        }
    }

    fn slot_of(&self, label: Label) -> usize {
        (label.0 >> WORKER_BITS) as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rand_core::Rng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_map(seed: u128, workers in 1u8..5, steps in proptest::collection::vec(any::<u16>(), 1..300)) {
            let mut rng = Pcg64Mcg::new(seed);
            let worker = workers - 1;
            let mut labels = Labels::new(64, (worker, workers));
            let mut model = BTreeMap::new();
            for (session, step) in (0..).zip(steps) {
                if model.len() < 64 && step % 3 > 0 {
                    let entry = Entry { session, from: Side::Far };
                    let label = labels.insert(entry, || rng.next_u32());
                    prop_assert_eq!(worker_of(label, workers), worker);
                    prop_assert_eq!(model.insert(label, entry), None);
                } else if let Some(&label) = model.keys().nth(usize::from(step) % model.len().max(1)) {
                    labels.remove(label);
                    model.remove(&label);
                    prop_assert_eq!(labels.find(label), None);
                }
                let forged = Label(rng.next_u32());
                prop_assert_eq!(labels.find(forged), model.get(&forged).copied());
            }
            for (label, entry) in model {
                prop_assert_eq!(labels.find(label), Some(entry));
            }
        }
    }

    #[test]
    fn no_label_is_zero() {
        let mut labels = Labels::new(4, (0, 1));
        let mut random = [0, 0, 5].into_iter();
        let entry = Entry { session: 1, from: Side::Near };
        assert_eq!(labels.insert(entry, || random.next().unwrap()), Label(5));
        assert_eq!(labels.find(Label(0)), None);
    }
}
