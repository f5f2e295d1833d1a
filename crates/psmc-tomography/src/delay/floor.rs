//! The fastest that a segment can be, while the clocks of its ends drift apart.
//!
//! The difference between the clocks is a line in time, and packets lie on it or above, by what they waited. The line is estimated
//! as Moon, Skelly and Towsley do (INFOCOM 1999): of all lines below all points, the one with the least distance to them, which is
//! the edge of the lower convex hull that spans their mean time.

use std::collections::VecDeque;

/// A packet: when it was sent by the clock of one witness, and the difference to when it arrived by that of the next, both in µs.
pub(super) type Point = (i64, i64);

/// How long the fastest of a part of the window is looked for, in µs.
const SLOT: i64 = 1_000_000;

/// Slots of the window: a minute and a little, in which clocks that drift by 200 ppm part by 13 ms, and in which even a busy line is
/// idle for a moment.
const SLOTS: usize = 64;

/// How fast two clocks part at most. Crystals are specified for 100 ppm, and two of them may err in opposite directions; a line that
/// is steeper is no drift, but a delay that grows or falls.
const MAX_DRIFT: f64 = 300e-6;

/// The fastest packet of each second of the last minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor {
    slots: VecDeque<(i64, Point)>,
    /// The smallest difference in all slots.
    lowest: Option<i64>,
}

/// A line below all packets: the difference that a packet has which waits for nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    origin: i64,
    base: i64,
    offset: f64,
    slope: f64,
}

impl Floor {
    /// Adds a packet.
    pub(super) fn add(&mut self, point: Point) {
        let slot = point.0.div_euclid(SLOT);
        match self.slots.binary_search_by_key(&slot, |&(slot, _)| slot) {
            Ok(place) if point.1 < self.slots[place].1.1 => self.slots[place].1 = point,
            Ok(_) => return,
            Err(place) => self.slots.insert(place, (slot, point)),
        }
        self.forget_old();
    }

    fn forget_old(&mut self) {
        let newest = self.slots.back().map_or(0, |&(slot, _)| slot);
        while self.slots.front().is_some_and(|&(slot, _)| newest.saturating_sub(slot) >= SLOTS as i64) {
            self.slots.pop_front();
        }
        self.lowest = self.slots.iter().map(|&(_, (_, difference))| difference).min();
    }

    /// The smallest difference of the window.
    pub(super) fn lowest(&self) -> Option<i64> {
        self.lowest
    }

    /// The slot of the newest packet begins at this time.
    pub(super) fn newest(&self) -> Option<i64> {
        self.slots.back().map(|&(slot, _)| slot.saturating_mul(SLOT))
    }

    /// The line below all packets; `None` without any.
    pub(super) fn line(&self) -> Option<Line> {
        let &(_, (origin, _)) = self.slots.front()?;
        let base = self.lowest?;
        // Of numbers near to each other, floating point loses nothing.
        let points: Vec<(f64, f64)> = self
            .slots
            .iter()
            .map(|&(_, (at, difference))| {
                (at.saturating_sub(origin) as f64, difference.saturating_sub(base) as f64)
            })
            .collect();
        let slope = slope_below(&points).clamp(-MAX_DRIFT, MAX_DRIFT);
        let offset =
            points.iter().map(|&(at, difference)| difference - slope * at).fold(f64::INFINITY, f64::min);
        Some(Line { origin, base, offset, slope })
    }
}

impl Line {
    /// How far a packet is above it, in µs: 0 at least.
    pub(super) fn above(&self, point: Point) -> f64 {
        self.distance(point).max(0.0)
    }

    /// How fast the clocks part, in parts per million.
    pub(super) fn drift(&self) -> f64 {
        self.slope * 1e6
    }

    /// Below zero for a packet that was faster.
    fn distance(&self, (at, difference): Point) -> f64 {
        let floor = self.offset + self.slope * at.saturating_sub(self.origin) as f64;
        difference.saturating_sub(self.base) as f64 - floor
    }
}

/// The slope of the edge of the lower convex hull that spans the mean time. The points are in the order of time.
fn slope_below(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
    let hull = lower_hull(points);
    let spanning = hull.windows(2).find(|edge| edge[1].0 >= mean);
    spanning.map_or(0.0, |edge| (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0))
}

/// Andrew's monotone chain.
fn lower_hull(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., before, last] = hull[..]
            && (last.1 - before.1) * (point.0 - before.0) >= (point.1 - before.1) * (last.0 - before.0)
        {
            hull.pop();
        }
        // Two of one time would make an edge without a slope; the slots have one each, but a slot may begin where one ended.
        if hull.last().is_none_or(|last| last.0 < point.0) {
            hull.push(point);
        }
    }
    hull
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn floor(points: impl IntoIterator<Item = Point>) -> Floor {
        let mut floor = Floor::default();
        points.into_iter().for_each(|point| floor.add(point));
        floor
    }

    #[test]
    fn a_drift_is_no_delay() {
        // 200 µs each second, and every other second nobody is fast.
        let point = |second: i64| (SLOT * second, 200 * second + 15_000 * (second % 2));
        let line = floor((0..60).map(point)).line().unwrap();
        for second in 0..60 {
            let above = line.above(point(second));
            assert!((above - (15_000 * (second % 2)) as f64).abs() < 1.0, "{second}: {above}");
        }
    }

    #[test]
    fn a_delay_that_grows_fast_is_no_drift() {
        let line = floor((0..60).map(|second| (SLOT * second, 5000 * second))).line().unwrap();
        assert!(line.above((SLOT * 59, 5000 * 59)) > 200_000.0);
    }

    #[test]
    fn only_the_last_minute_counts() {
        let floor = floor((0..200).map(|second| (SLOT * second, if second == 0 { -99 } else { second })));
        assert_eq!(floor.slots.len(), SLOTS);
        assert_eq!(floor.lowest(), Some(200 - 64));
    }

    proptest! {
        #[test]
        fn no_packet_is_faster_than_the_floor(
            points in prop::collection::vec((0_i64..60_000_000, 0_i64..1_000_000), 1..100),
        ) {
            let line = floor(points.iter().copied()).line().unwrap();
            for point in points {
                prop_assert!(line.distance(point) > -1e-3 - SLOT as f64 * MAX_DRIFT);
            }
        }

        #[test]
        fn no_times_make_it_panic_or_grow(points in prop::collection::vec((any::<i64>(), any::<i64>()), 1..200)) {
            let floor = floor(points.iter().copied());
            prop_assert!(floor.slots.len() <= SLOTS);
            prop_assert!(points.iter().all(|&point| floor.line().unwrap().above(point).is_finite()));
        }

        /// Whatever drift clocks may have, packets that waited for nothing lie on the floor.
        #[test]
        fn the_line_of_the_fastest_is_found(ppm in -250_i64..250, offset in -1_000_000_000_i64..1_000_000_000) {
            let point = |second: i64| (SLOT * second, offset + ppm * second);
            let line = floor((0..50).map(point)).line().unwrap();
            for second in 0..50 {
                prop_assert!(line.above(point(second)) < 0.01);
            }
        }
    }
}
