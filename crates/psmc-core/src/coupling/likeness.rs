//! Whether two paths stand in the same queue.
//!
//! Packets that pass a queue at one time wait equally long there, whichever path they belong to. So the queueing delays
//! of paths that share a bottleneck rise and fall together, and by the same amount; RFC 8382 compares summaries of such
//! delays, as it must where each flow has a receiver of its own. Here one sender knows all of them by one clock, and
//! compares them moment by moment.

use std::time::Duration;

/// Delays are compared as means over such a time: long enough for a few acknowledgements, and for paths of different
/// lengths behind the queue; short beside the seconds in which queues come and go. The smallest delays in two of them must
/// be alike, too: a host that is late delays what all of its paths carry by the same, but not all of it, as a queue does.
pub(super) const SLOT: Duration = Duration::from_millis(100);

/// A slot is judged so many slots later, when the acknowledgements of all paths have come.
const LAG: u64 = 5;

/// Slots that are kept: those that wait to be judged, the present one, and the last that was judged.
const KEPT: usize = 7;

/// About the last 3 s count.
const GAIN: f64 = 1.0 / 32.0;

/// Something under a second counts, where queues that were one may have parted.
const LATELY_GAIN: f64 = 1.0 / 8.0;

/// The weight of a slot in what a path delivers: half a second counts.
const USE_GAIN: f64 = 0.25;

/// Queues that vary by less, a standard deviation in seconds, say nothing: hosts are late by as much.
const LEAST_VARIATION: f64 = 0.001;

/// From this likeness on two queues are one, and below that they are two.
const ALIKE: f64 = 0.75;
const UNLIKE: f64 = 0.4;

/// For so many slots two queues must be alike, so that it is no accident: 3 s, or 2 s if what is configured lets expect it.
const ALIKE_SLOTS: u32 = 30;
const HINTED_SLOTS: u32 = 20;

/// A slot that is not alike makes good for so many that were.
const DOUBT: u32 = 3;

/// So often they must have risen above their means, or fallen below, together. What the same inner traffic does to
/// separate paths as it begins is one rise and one fall.
const TURNS: u32 = 3;

/// Each of them by so much of their standard deviation: a beginning that has filled both queues makes them alike for
/// seconds, whatever smaller ones do after it.
const TURN: f64 = 0.5;

/// Without any queue there is nothing to be fair about, and nothing that would show an error: after 5 s each path is on
/// its own again.
const QUIET_SLOTS: u32 = 50;

/// For so many slots in a row they must be unlike: paths that are held down together for no reason cost capacity.
const UNLIKE_SLOTS: u32 = 5;

/// The same for what they have been like lately, which shows it before the last 3 s do: a group of separate paths gives one
/// of them more than it carries, and holds the other one down.
const APART: f64 = 0.2;
const APART_SLOTS: u32 = 3;

/// The delays of a path, slot by slot, and how much it delivers.
#[derive(Debug, Default)]
pub(super) struct Queue {
    slots: [Slot; KEPT],
    acked: u64,
    /// Bytes per second.
    used: f64,
}

/// The delays in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    sum: Duration,
    least: Duration,
    count: u32,
}

/// How long a queue was, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Length {
    /// The mean delay in the newest slot of which all is known.
    pub(super) mean: f64,
    /// The smallest in that and in the one before.
    pub(super) least: f64,
}

impl Queue {
    /// Bytes have been acknowledged.
    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.acked += bytes;
    }

    /// A packet has left its last queue after such a time, so long before the end of the present slot.
    pub(super) fn on_sample(&mut self, delay: Duration, slot: u64, before_end: Duration) {
        let age = u64::try_from(before_end.as_nanos() / SLOT.as_nanos()).unwrap_or(u64::MAX);
        if age < LAG && age <= slot {
            let Slot { sum, least, count } = &mut self.slots[place(slot - age)];
            *least = if *count == 0 { delay } else { delay.min(*least) };
            *sum += delay;
            *count += 1;
        }
    }

    /// The slot of this number begins.
    pub(super) fn begin_slot(&mut self, slot: u64) {
        self.slots[place(slot)] = Slot::default();
        let rate = self.acked as f64 / SLOT.as_secs_f64();
        self.used += (rate - self.used) * USE_GAIN;
        self.acked = 0;
    }

    /// How long it was in the newest slot of which all is known; `slot` is the present one.
    pub(super) fn settled(&self, slot: u64) -> Option<Length> {
        let known = |age| Some(self.slots[place(slot.checked_sub(age)?)]).filter(|slot| slot.count > 0);
        let Slot { sum, least, count } = known(LAG)?;
        let least = known(LAG + 1).map_or(least, |before| before.least.min(least));
        Some(Length { mean: sum.as_secs_f64() / f64::from(count), least: least.as_secs_f64() })
    }

    /// What the path has delivered of late, bytes per second.
    pub(super) fn used(&self) -> f64 {
        self.used
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
fn place(slot: u64) -> usize {
    (slot % KEPT as u64) as usize
}

/// How much two queues are alike, and what follows from it.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    /// With [`GAIN`], and with [`LATELY_GAIN`].
    long: Comparisons,
    lately: Comparisons,
    alike: u32,
    unlike: u32,
    apart: u32,
    quiet: u32,
    turns: u32,
    /// Whether both are above their means.
    high: bool,
    shared: bool,
}

/// How the mean delays of two queues have varied, and how the smallest ones have.
#[derive(Debug, Default)]
struct Comparisons {
    means: Comparison,
    leasts: Comparison,
}

/// How two delays have varied of late, in seconds.
#[derive(Debug, Default)]
struct Comparison {
    mean: Option<[f64; 2]>,
    variance: [f64; 2],
    covariance: f64,
}

impl Likeness {
    /// What the two queues were like in one slot; says whether they are now taken for something else.
    pub(super) fn on_slot(&mut self, lengths: (Length, Length), hinted: bool) -> bool {
        self.lately.on_slot(lengths, LATELY_GAIN);
        let above = self.long.on_slot(lengths, GAIN);
        self.count_turns(above);
        let was_shared = self.shared;
        self.judge(if hinted { HINTED_SLOTS } else { ALIKE_SLOTS });
        was_shared != self.shared
    }

    /// Whether the two are taken for one.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Takes in by how much each of them is above its mean.
    fn count_turns(&mut self, [a, b]: [f64; 2]) {
        let least = LEAST_VARIATION.max(TURN * self.long.leasts.deviation());
        let turned = if self.high { a.max(b) < -least } else { a.min(b) > least };
        self.high ^= turned;
        self.turns += u32::from(turned);
    }

    /// Paths with short queues, or with queues that stay as they are, are for a while what they were before.
    fn judge(&mut self, needed: u32) {
        let [likeness, lately] = [&self.long, &self.lately].map(Comparisons::likeness);
        let count = |counter: u32, holds: bool| if holds { counter + 1 } else { 0 };
        self.unlike = count(self.unlike, likeness.is_some_and(|likeness| likeness <= UNLIKE));
        self.apart = count(self.apart, lately.is_some_and(|likeness| likeness <= APART));
        self.quiet = count(self.quiet, likeness.is_none());
        let is_alike = likeness.is_some_and(|likeness| likeness >= ALIKE);
        self.alike = if is_alike { self.alike + 1 } else { self.alike.min(needed).saturating_sub(DOUBT) };
        if self.alike == 0 {
            self.turns = 0;
        }
        let proven = self.alike >= needed && self.turns >= TURNS;
        let refuted = self.unlike >= UNLIKE_SLOTS || self.apart >= APART_SLOTS || self.quiet >= QUIET_SLOTS;
        self.shared = (self.shared || proven) && !refuted;
    }
}

impl Comparisons {
    /// Takes in a slot, with the weight `gain`; says by how much each queue's smallest delay is above its mean.
    fn on_slot(&mut self, (a, b): (Length, Length), gain: f64) -> [f64; 2] {
        self.means.on_slot([a.mean, b.mean], gain);
        self.leasts.on_slot([a.least, b.least], gain)
    }

    /// The smaller one of both.
    fn likeness(&self) -> Option<f64> {
        let both = self.means.likeness().zip(self.leasts.likeness());
        both.map(|(means, leasts)| means.min(leasts))
    }
}

impl Comparison {
    /// Takes in a slot, with the weight `gain`; says by how much each is above its mean.
    fn on_slot(&mut self, [a, b]: [f64; 2], gain: f64) -> [f64; 2] {
        let [mean_a, mean_b] = self.mean.unwrap_or([a, b]);
        let [from_a, from_b] = [a - mean_a, b - mean_b];
        self.mean = Some([mean_a + gain * from_a, mean_b + gain * from_b]);
        let fade = |old: f64, new: f64| (1.0 - gain) * (old + gain * new);
        self.variance = [fade(self.variance[0], from_a * from_a), fade(self.variance[1], from_b * from_b)];
        self.covariance = fade(self.covariance, from_a * from_b);
        [from_a, from_b]
    }

    /// The standard deviation of both.
    fn deviation(&self) -> f64 {
        (self.variance.iter().sum::<f64>() / 2.0).sqrt()
    }

    /// One minus the variance of the difference, in proportion to what it would be if one queue knew nothing of the other:
    /// 1 for one queue, about 0 for two. Unlike a correlation it asks that they vary by the same amount; and a part of
    /// the delays that is always there, and may be taken for propagation, makes no difference.
    fn likeness(&self) -> Option<f64> {
        let both = self.variance[0] + self.variance[1];
        (both >= 2.0 * LEAST_VARIATION * LEAST_VARIATION).then(|| 2.0 * self.covariance / both)
    }
}

#[cfg(test)]
mod tests;
