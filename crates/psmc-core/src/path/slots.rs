//! Outages of a path that come back with a period, as those of satellite terminals do when they turn to the next satellite.
//!
//! When datagrams that were sent in a row are lost, and none in between arrives, the path has a gap. Gaps that follow each other at one
//! distance are slots: the path carries no data while the next one lasts, for other paths take it. Every eighth slot is used all the
//! same, to see whether it is there still.
//!
//! Times are counted in ticks, for gaps need no finer ones.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A tick is 2^23 ns, which is 8.4 ms: as exact as the datagrams of a call tell when a gap begins.
const TICK_BITS: u32 = 23;

/// So many ticks are remembered: 2.1 s.
const RING: u64 = 256;

/// A bit for each of them.
type Ring = [u64; 4];

/// After this time, 1.1 s, it is known of every datagram whether it has arrived.
const SETTLED: u64 = 128;

/// Shorter silences, 25 ms, are no gaps: queues that overflow make such.
const SHORTEST_GAP: u64 = 3;

/// In so many different ticks of a gap datagrams must have been lost: one or two may be lost by chance.
const FEWEST_LOST: u32 = 3;

/// A gap that nothing is known of for so long, 250 ms, has ended.
const UNSEEN: u64 = 30;

/// Longer outages, 500 ms, are no slots: a path that is away for that long is dead, and known as such.
const LONGEST_GAP: u64 = 60;

/// Periods from 5 s to two minutes: a path with shorter ones would rest for too much of its time, and longer ones take too long to learn.
const PERIODS: std::ops::RangeInclusive<f64> = 596.0..=14_305.0;

/// Gaps of a slot begin this near to their time: 42 ms, twice what lies between the datagrams of a call.
const TOLERANCE: f64 = 5.0;

/// Of the last seven times at which there should have been gaps, and before which there was one, so many must have had one. By chance
/// one time in fifty has, on paths that have a gap every few seconds.
const NEEDED: usize = 6;
const LOOKED_AT: u32 = 7;

/// Remembered gaps: twice as many as are needed.
const MAX_GAPS: usize = 16;

/// By so much earlier, and later, 34 ms, is a slot left alone: what is on its way to the place of the outage does not take the same time
/// always.
const MARGIN: f64 = 4.0;

/// After so many slots that were left alone the next one is used.
const UNTRIED: u32 = 7;

/// After so many slots during which datagrams have arrived there are none.
const DISPROVED: u32 = 2;

/// Datagrams of a row that were all lost: the ticks of the first and of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    first: u64,
    last: u64,
    /// In how many ticks any were lost.
    lost: u32,
}

/// Slots that were found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// When the last one began that was seen.
    begun: f64,
    period: f64,
    length: f64,
    /// How many were left alone since.
    untried: u32,
    /// In how many in a row something has arrived, and the number of the last of them since `begun`.
    disproved: u32,
    disproved_at: f64,
}

impl Found {
    /// The number of the slot around a tick, counted from the one that was seen last, and when that begins.
    fn around(&self, tick: u64) -> (f64, f64) {
        let middle = self.begun + self.length / 2.0;
        let number = ((tick as f64 - middle) / self.period).round();
        (number, self.begun + number * self.period)
    }
}

/// The slots of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// From the beginning of one to that of the next.
    pub period: Duration,
    /// How long nothing arrives.
    pub length: Duration,
    /// When one began.
    pub begun: Instant,
}

impl Slot {
    /// When the next one begins.
    #[must_use]
    pub fn next(&self, now: Instant) -> Instant {
        let since = now.saturating_duration_since(self.begun).as_secs_f64();
        self.begun + self.period.mul_f64((since / self.period.as_secs_f64()).floor() + 1.0)
    }
}

/// Learns the slots of a path from what arrives and what is lost.
///
/// Call [`on_arrived`](Self::on_arrived) and [`on_lost`](Self::on_lost) as it becomes known what has become of datagrams, then
/// [`settle`](Self::settle); and [`on_time`](Self::on_time) when [`edge`](Self::edge) says so. Each is harmless at any time.
#[derive(Debug)]
pub(super) struct Slots {
    epoch: Instant,
    /// In which of the last ticks datagrams were sent that have arrived, and that were lost.
    arrived: Ring,
    lost: Ring,
    /// Up to which tick, without it, these were looked at.
    looked: u64,
    gap: Option<Gap>,
    gaps: VecDeque<Gap>,
    found: Option<Found>,
    is_resting: bool,
    edge: Option<Instant>,
}

impl Slots {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            arrived: [0; 4],
            lost: [0; 4],
            looked: 0,
            gap: None,
            gaps: VecDeque::new(),
            found: None,
            is_resting: false,
            edge: None,
        }
    }

    /// A datagram that was sent then has arrived.
    pub(super) fn on_arrived(&mut self, sent_at: Instant) {
        let tick = self.tick(sent_at);
        set(&mut self.arrived, tick, tick >= self.looked);
    }

    /// A datagram that was sent then is lost.
    pub(super) fn on_lost(&mut self, sent_at: Instant) {
        let tick = self.tick(sent_at);
        set(&mut self.lost, tick, tick >= self.looked);
    }

    /// Looks at what is known for good.
    pub(super) fn settle(&mut self, now: Instant) {
        let end = self.tick(now).saturating_sub(SETTLED);
        while self.looked < end {
            if self.looked + RING < end && self.gap.is_none() && self.is_clear() {
                // Nothing was sent for so long.
                self.looked = end;
                return;
            }
            let tick = self.looked;
            let [has_arrived, is_lost] = [&mut self.arrived, &mut self.lost].map(|ring| take(ring, tick));
            self.looked += 1;
            self.look(tick, has_arrived, is_lost, now);
        }
    }

    fn is_clear(&self) -> bool {
        self.arrived.iter().chain(&self.lost).all(|word| *word == 0)
    }

    /// Whether the path should be left alone.
    pub(super) fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// When that changes.
    pub(super) fn edge(&self) -> Option<Instant> {
        self.edge
    }

    /// Some time has passed.
    pub(super) fn on_time(&mut self, now: Instant) {
        if self.edge.is_some_and(|edge| edge <= now) {
            self.plan(now);
        }
    }

    /// The slots, if there are any.
    pub(super) fn slot(&self) -> Option<Slot> {
        let Found { begun, period, length, .. } = self.found?;
        Some(Slot { period: span(period), length: span(length), begun: self.at(begun) })
    }

    fn look(&mut self, tick: u64, has_arrived: bool, is_lost: bool, now: Instant) {
        if has_arrived {
            self.end_gap(now);
            self.doubt(tick, now);
        } else if is_lost {
            let gap = self.gap.get_or_insert(Gap { first: tick, last: tick, lost: 0 });
            gap.last = tick;
            gap.lost += 1;
        } else if self.gap.is_some_and(|gap| tick > gap.last + UNSEEN) {
            self.end_gap(now);
        }
    }

    /// Something has arrived that was sent then. In the middle of a slot that says that there is none.
    fn doubt(&mut self, tick: u64, now: Instant) {
        let Some(found) = &mut self.found else { return };
        let (number, begins) = found.around(tick);
        let quarter = found.length / 4.0;
        let into = tick as f64 - begins;
        let is_within = quarter <= into && into <= 3.0 * quarter;
        if !is_within || number <= found.disproved_at {
            return;
        }
        found.disproved_at = number;
        found.disproved += 1;
        if found.disproved >= DISPROVED {
            self.found = None;
            self.gaps.clear();
        }
        self.plan(now);
    }

    fn end_gap(&mut self, now: Instant) {
        let Some(gap) = self.gap.take() else { return };
        let length = gap.last - gap.first + 1;
        if !(SHORTEST_GAP..=LONGEST_GAP).contains(&length) || gap.lost < FEWEST_LOST {
            return;
        }
        if self.gaps.len() >= MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
        if !self.found.as_mut().is_some_and(|found| found.heed(gap)) {
            self.found = find(&self.gaps).or(self.found);
        }
        self.plan(now);
    }

    /// Finds out whether the path should rest now, and when that changes.
    fn plan(&mut self, now: Instant) {
        let (before, tick) = (self.is_resting, self.tick(now));
        self.is_resting = false;
        let Some(found) = &mut self.found else {
            self.edge = None;
            return;
        };
        let length = found.length + 2.0 * MARGIN;
        let (_, begins) = found.around(tick);
        let mut begins = begins - MARGIN;
        if begins + length <= tick as f64 {
            begins += found.period;
        }
        let is_tried = found.untried >= UNTRIED || found.disproved > 0;
        self.is_resting = begins <= tick as f64 && !is_tried;
        if self.is_resting && !before {
            found.untried += 1;
        }
        let edge = if begins > tick as f64 { begins } else { begins + length };
        // A tick later at least, so that rounding does not ask again and again.
        self.edge = Some(self.at(edge.max(tick as f64 + 1.0)));
    }

    fn tick(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch);
        // Within 584 years.
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) >> TICK_BITS
    }

    fn at(&self, tick: f64) -> Instant {
        self.epoch + span(tick)
    }
}

impl Found {
    /// There was another gap. Says whether it is that of a slot, which tells when that was.
    fn heed(&mut self, gap: Gap) -> bool {
        let (number, begins) = self.around(gap.first);
        let late = gap.first as f64 - begins;
        // The longer none was seen the less is known when they begin.
        let tolerance = TOLERANCE + number.clamp(0.0, TOLERANCE);
        if late < -tolerance || late > self.length + MARGIN + tolerance {
            return false;
        }
        if late <= tolerance && number > 0.0 {
            // Of what it is late or early the period has its share, and chance the rest.
            self.period += late / number / 4.0;
            self.begun = begins + late / 2.0;
            (self.untried, self.disproved, self.disproved_at) = (0, 0, 0.0);
            self.length -= 1.0;
        }
        // What still was lost after the slot belongs to it.
        let reached = gap.last as f64 - self.around(gap.first).1 + 1.0;
        self.length = self.length.max(reached).min(LONGEST_GAP as f64);
        true
    }
}

/// The slots that the last of these gaps belongs to.
fn find(gaps: &VecDeque<Gap>) -> Option<Found> {
    let newest = gaps.back()?;
    // The further two gaps are from each other the better is the period known.
    let pairs = gaps.iter().flat_map(|gap| {
        let distance = (newest.first - gap.first) as f64;
        (1..=LOOKED_AT).map(move |periods| distance / f64::from(periods))
    });
    let mut periods: Vec<f64> = pairs.filter(|period| PERIODS.contains(period)).collect();
    // Of a period and its multiples the period.
    periods.sort_unstable_by(f64::total_cmp);
    periods.into_iter().find_map(|period| slots_of(period, newest, gaps))
}

/// The slots of that period up to the `newest` gap, if there are such.
fn slots_of(period: f64, newest: &Gap, gaps: &VecDeque<Gap>) -> Option<Found> {
    let nearest = |number: u32| {
        let at = newest.first as f64 - f64::from(number) * period;
        let near = gaps.iter().filter(move |gap| (gap.first as f64 - at).abs() <= TOLERANCE);
        Some((number, near.min_by_key(|gap| gap.first)?))
    };
    let hits: Vec<(u32, &Gap)> = (1..=LOOKED_AT).filter_map(nearest).collect();
    let (_, oldest) = hits.last()?;
    let within = gaps.iter().filter(|gap| gap.first >= oldest.first).count();
    // Where there are many others the hits are by chance.
    let others = within.saturating_sub(hits.len() + 1);
    if hits.len() < NEEDED || others > hits.len() / 2 {
        return None;
    }
    let (begun, period) = line(&hits, newest);
    let lengths = hits.iter().map(|(_, gap)| *gap).chain([newest]).map(|gap| gap.last - gap.first + 1);
    Some(Found {
        begun,
        period,
        length: lengths.max().unwrap_or(SHORTEST_GAP) as f64,
        untried: 0,
        disproved: 0,
        disproved_at: 0.0,
    })
}

/// When the newest of these gaps began, and the period, by the line with the least squares.
fn line(hits: &[(u32, &Gap)], newest: &Gap) -> (f64, f64) {
    let points = || {
        let earlier =
            hits.iter().map(|(number, gap)| (-f64::from(*number), gap.first as f64 - newest.first as f64));
        earlier.chain([(0.0, 0.0)])
    };
    let count = points().count() as f64;
    let (x, y) = points().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let covariance: f64 = points().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = points().map(|point| (point.0 - x) * (point.0 - x)).sum();
    let period = covariance / variance;
    (newest.first as f64 + y - x * period, period)
}

fn set(ring: &mut Ring, tick: u64, is_open: bool) {
    let (word, bit) = place(ring, tick);
    *word |= u64::from(is_open) << bit;
}

fn take(ring: &mut Ring, tick: u64) -> bool {
    let (word, bit) = place(ring, tick);
    let was_set = *word >> bit & 1 == 1;
    *word &= !(1 << bit);
    was_set
}

/// Where the bit of a tick is.
fn place(ring: &mut Ring, tick: u64) -> (&mut u64, u64) {
    let [first, second, third, fourth] = ring;
    let word = match tick / 64 % 4 {
        0 => first,
        1 => second,
        2 => third,
        _ => fourth,
    };
    (word, tick % 64)
}

fn span(ticks: f64) -> Duration {
    Duration::from_nanos(1 << TICK_BITS).mul_f64(ticks.max(0.0))
}

#[cfg(test)]
mod tests;
