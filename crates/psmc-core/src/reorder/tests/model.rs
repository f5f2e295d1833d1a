//! The rules of reordering, written down without a thought for speed: numbers and clocks don't wrap here.

use std::collections::{BTreeMap, BTreeSet};

use super::ReorderPolicy;

/// How far ahead and back the rules reach.
const SPAN: u64 = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct ModelArrival {
    pub(super) bucket: u16,
    pub(super) number: u64,
    pub(super) ordered: bool,
    pub(super) sent_us: u64,
    pub(super) spread_us: u64,
    pub(super) patience_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: u64,
    deadline_us: u64,
    sent_us: u64,
}

#[derive(Debug, Default)]
struct ModelBucket {
    next: u64,
    seen: BTreeSet<u64>,
    held: BTreeMap<u64, Held>,
    overtaken: Option<(u64, u64)>,
}

/// All buckets of a session.
#[derive(Debug)]
pub(super) struct Model {
    policy: ReorderPolicy,
    held_packets: usize,
    buckets: BTreeMap<u16, ModelBucket>,
    pub(super) delivered: u64,
    pub(super) duplicates: u64,
    pub(super) late: u64,
    pub(super) skipped: u64,
}

impl Model {
    pub(super) fn new(policy: ReorderPolicy, held_packets: usize) -> Self {
        Self {
            policy,
            held_packets,
            buckets: BTreeMap::new(),
            delivered: 0,
            duplicates: 0,
            late: 0,
            skipped: 0,
        }
    }

    pub(super) fn insert(&mut self, arrival: ModelArrival, id: u64, now_us: u64) -> Vec<u64> {
        let mut out = self.place(arrival, id, now_us);
        out.extend(self.handle_timeout(now_us));
        while self.held() > self.held_packets {
            let Some((_, bucket, number)) = self.first(|held| held.deadline_us) else {
                break;
            };
            out.extend(self.give_up(bucket, number + 1));
        }
        out
    }

    pub(super) fn handle_timeout(&mut self, now_us: u64) -> Vec<u64> {
        let mut out = Vec::new();
        while let Some((_, bucket, number)) =
            self.first(|held| held.deadline_us).filter(|first| first.0 <= now_us)
        {
            out.extend(self.give_up(bucket, number + 1));
        }
        out
    }

    pub(super) fn release_before(&mut self, horizon_us: u64) -> Vec<u64> {
        let mut out = Vec::new();
        if self.policy != ReorderPolicy::Deadline {
            return out;
        }
        while let Some((_, bucket, number)) =
            self.first(|held| held.sent_us).filter(|first| first.0 < horizon_us)
        {
            out.extend(self.give_up(bucket, number + 1));
        }
        out
    }

    pub(super) fn held(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.held.len()).sum()
    }

    pub(super) fn next_timeout(&self) -> Option<u64> {
        self.first(|held| held.deadline_us).map(|first| first.0)
    }

    /// The smallest key of all that is held, its bucket, and the largest number that has it there.
    fn first(&self, key: impl Fn(&Held) -> u64) -> Option<(u64, u16, u64)> {
        let of_bucket = |(&bucket, state): (&u16, &ModelBucket)| {
            let smallest = state.held.values().map(&key).min()?;
            let number = state.held.iter().rev().find(|(_, held)| key(held) == smallest)?.0;
            Some((smallest, bucket, *number))
        };
        self.buckets.iter().filter_map(of_bucket).min()
    }

    fn place(&mut self, arrival: ModelArrival, id: u64, now_us: u64) -> Vec<u64> {
        let ModelArrival { bucket, number, .. } = arrival;
        let deadline_us = now_us + self.hold_us(arrival.spread_us.saturating_add(arrival.patience_us));
        let mut out = Vec::new();
        let state = self.buckets.entry(bucket).or_default();
        if let Some((overtaker, _)) = state.overtaken.take_if(|(_, due)| *due <= now_us)
            && overtaker > state.next
        {
            out.extend(self.give_up(bucket, overtaker + 1));
        }
        if number >= self.buckets[&bucket].next + SPAN {
            out.extend(self.give_up(bucket, number));
        }
        let state = self.buckets.get_mut(&bucket).unwrap();
        let known = state.seen.last().is_none_or(|&newest| number + SPAN > newest);
        if known && !state.seen.insert(number) {
            self.duplicates += 1;
            return out;
        }
        if number > state.next && arrival.ordered && self.policy != ReorderPolicy::Off {
            state
                .held
                .insert(number, Held { id, deadline_us, sent_us: arrival.sent_us + arrival.patience_us });
            out.extend(self.deliver_first_three_if_full(bucket));
            return out;
        }
        if number > state.next && state.overtaken.is_none_or(|(overtaker, _)| overtaker <= state.next) {
            state.overtaken = Some((number, deadline_us));
        }
        self.late += u64::from(number < state.next);
        self.delivered += 1;
        out.push(id);
        if number == state.next {
            out.extend(self.give_up(bucket, number));
        }
        out
    }

    fn hold_us(&self, spread_us: u64) -> u64 {
        match self.policy {
            ReorderPolicy::Deadline => spread_us,
            ReorderPolicy::Fixed { timeout, .. } => u64::try_from(timeout.as_micros()).unwrap(),
            ReorderPolicy::Adaptive(_) => panic!("the model does not measure"),
            ReorderPolicy::Off => 0,
        }
    }

    fn deliver_first_three_if_full(&mut self, bucket: u16) -> Vec<u64> {
        let held = &self.buckets[&bucket].held;
        let size = match self.policy {
            ReorderPolicy::Fixed { packets, .. } => packets.into(),
            ReorderPolicy::Deadline | ReorderPolicy::Adaptive(_) | ReorderPolicy::Off => usize::MAX,
        };
        match held.keys().nth(2).copied().or(held.keys().next_back().copied()) {
            Some(third) if held.len() >= size => self.give_up(bucket, third + 1),
            _ => Vec::new(),
        }
    }

    /// Goes on from `target`, or from where the run of what has been seen there ends.
    fn give_up(&mut self, bucket: u16, target: u64) -> Vec<u64> {
        let state = self.buckets.get_mut(&bucket).unwrap();
        let newest = state.seen.last().copied();
        let mut out = Vec::new();
        while state.next < target || state.seen.contains(&state.next) {
            if newest.is_none_or(|newest| newest < state.next) {
                self.skipped += target - state.next;
                state.next = target;
                break;
            }
            self.skipped += u64::from(!state.seen.contains(&state.next));
            out.extend(state.held.remove(&state.next).map(|held| held.id));
            state.next += 1;
        }
        self.delivered += out.len() as u64;
        out
    }
}
