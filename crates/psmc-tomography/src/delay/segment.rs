//! The delay of one segment.

use std::collections::VecDeque;
use std::time::Duration;

use super::floor::{Floor, Point};
use crate::counted::Count;
use crate::interval::{TAIL, quantile_ranks};
use crate::{Answer, Estimate, Unknown};

/// Packets whose delays are kept: enough for the 99th percentile and its interval.
const KEPT: usize = 1024;

/// Fewer packets than this tell nothing: the floor is that of the fastest of them.
const NEEDED: usize = 20;

/// A packet that is later than this was not on its way for so long, the clock was set. No queue of a network holds ten seconds.
const TOO_LATE: i64 = 10_000_000;

/// A packet cannot be so much faster than the fastest of a minute. A clock was set, or the path became another one; either way,
/// measuring begins anew.
const TOO_EARLY: i64 = 100_000;

/// How near packets must be to each other to make a new floor together, if they do not fit to the one that there is.
const AGREE: i64 = 1_000_000;

/// So many packets in a row that fit to each other, and not to those before, are the work of a clock that was set. One that came in
/// between from the past does not look like that, nor do times by chance.
const STRAYS: usize = 8;

/// The delay of a segment above its own minimum.
///
/// The minimum is that of the last minute; a drift of the clocks, up to 300 ppm, is taken out. A clock that is set by more than ten
/// seconds forward or by a tenth backward is noticed within eight packets: measuring begins anew, and until there is enough to go by
/// again the answer is [`Unknown::ClockSet`]. One that is set forward by less looks like a delay. Where most of the latest
/// times make no sense, the answer is [`Unknown::NoClock`].
///
/// Delays are in microseconds.
#[derive(Clone, Debug)]
pub struct Segment {
    first: usize,
    floor: Floor,
    recent: VecDeque<Point>,
    strays: Vec<Point>,
    /// A bit for each of the latest packets, the newest lowest: whether it did not fit.
    odd: u64,
    clocks_set: u64,
}

impl Segment {
    pub(super) fn new(first: usize) -> Self {
        Self {
            first,
            floor: Floor::default(),
            recent: VecDeque::new(),
            strays: Vec::new(),
            odd: 0,
            clocks_set: 0,
        }
    }

    /// A packet, by the clocks of both ends.
    pub(super) fn sample(&mut self, sent: i64, arrived: i64) {
        let Some(difference) = arrived.checked_sub(sent) else {
            self.odd = self.odd << 1 | 1;
            return;
        };
        let point = (sent, difference);
        if self.fits(point) {
            self.odd <<= 1;
            self.strays.clear();
            self.keep(point);
        } else {
            self.odd = self.odd << 1 | 1;
            self.stray(point);
        }
    }

    fn fits(&self, (sent, difference): Point) -> bool {
        let (Some(lowest), Some(newest)) = (self.floor.lowest(), self.floor.newest()) else { return true };
        let above = difference.saturating_sub(lowest);
        let is_old = sent < newest.saturating_sub(TOO_LATE);
        !is_old && (-TOO_EARLY..=TOO_LATE).contains(&above)
    }

    fn keep(&mut self, point: Point) {
        self.floor.add(point);
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(point);
    }

    fn stray(&mut self, point: Point) {
        let agrees = |other: &Point| {
            point.1.abs_diff(other.1) <= AGREE.unsigned_abs()
                && point.0.abs_diff(other.0) <= TOO_LATE.unsigned_abs()
        };
        if !self.strays.last().is_none_or(agrees) {
            self.strays.clear();
        }
        self.strays.push(point);
        if self.strays.len() == STRAYS {
            self.begin_anew();
        }
    }

    fn begin_anew(&mut self) {
        (self.floor, self.odd) = (Floor::default(), 0);
        self.recent.clear();
        self.clocks_set += 1;
        for point in std::mem::take(&mut self.strays) {
            self.keep(point);
        }
    }

    /// A quantile (0 to 1) of the delay above the minimum, of the newest packets: so many, or all that are kept if there are not.
    ///
    /// The interval is between order statistics, and so right whatever the distribution.
    ///
    /// # Errors
    /// [`Unknown::TooFew`], [`Unknown::ClockSet`] or [`Unknown::NoClock`]. The further out the quantile, the more packets its interval
    /// needs: 72 for the 95th percentile.
    pub fn quantile(&self, quantile: f64, newest: usize) -> Answer {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(Unknown::NotANumber);
        }
        let mut delays = self.delays(newest)?;
        delays.sort_by(f64::total_cmp);
        let (low, high) =
            quantile_ranks(delays.len(), quantile, TAIL).ok_or_else(|| too_few(delays.len()))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length, rounded down"
        )]
        let rank = (quantile * delays.len() as f64) as usize;
        Estimate::new(delays[rank.clamp(low, high)], delays[low], delays[high])
    }

    /// Of the newest packets, how many were later than the fastest by more than a limit, in microseconds; those are the count's lost
    /// ones.
    ///
    /// # Errors
    /// [`Unknown::TooFew`], [`Unknown::ClockSet`] or [`Unknown::NoClock`].
    pub fn late(&self, limit: u32, newest: usize) -> Result<Count, Unknown> {
        let delays = self.delays(newest)?;
        let punctual = delays.iter().filter(|&&delay| delay <= f64::from(limit)).count();
        Count::new(delays.len() as u64, punctual as u64).ok_or(Unknown::NotANumber)
    }

    /// Packets that were sent in so much time before the newest one, by the clock of the near end: what to ask for, if more than the
    /// newest so many are of no interest.
    #[must_use]
    pub fn within(&self, time: Duration) -> usize {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let since = self.recent.iter().map(|point| point.0).max().unwrap_or_default().saturating_sub(time);
        self.recent.iter().filter(|point| point.0 >= since).count()
    }

    /// How often measuring began anew, for a clock was set.
    #[must_use]
    pub fn clocks_set(&self) -> u64 {
        self.clocks_set
    }

    /// How fast the clock of the far end gains on that of the near one, in parts per million; `None` without packets.
    ///
    /// From the fastest packets of a minute: the longer it was measured, and the less packets wait, the better it is.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        self.floor.line().map(|line| line.drift())
    }

    /// How long packets took above the floor, the newest last.
    fn delays(&self, newest: usize) -> Result<Vec<f64>, Unknown> {
        if self.odd.count_ones() > u64::BITS / 2 {
            return Err(Unknown::NoClock(self.first, self.first + 1));
        }
        if self.recent.len() < NEEDED {
            let is_new = self.clocks_set > 0;
            return Err(if is_new { self.clock_set() } else { too_few(self.recent.len()) });
        }
        let Some(line) = self.floor.line() else { return Err(too_few(0)) };
        let skip = self.recent.len().saturating_sub(newest);
        Ok(self.recent.iter().skip(skip).map(|&point| line.above(point)).collect())
    }

    fn clock_set(&self) -> Unknown {
        Unknown::ClockSet(self.first, self.first + 1)
    }
}

fn too_few(have: usize) -> Unknown {
    Unknown::TooFew { have: have as u64, need: NEEDED.max(have + 1) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// A packet each 10 ms that takes 5 ms and a little.
    fn run(segment: &mut Segment, packets: std::ops::Range<i64>, clock: impl Fn(i64) -> (i64, i64)) {
        for packet in packets {
            let (sent, arrived) = clock(packet * 10_000);
            segment.sample(sent, arrived + 5000 + packet * 7919 % 100);
        }
    }

    #[test]
    fn a_clock_that_jumps_by_an_hour_is_noticed() {
        for jump in [HOUR, -HOUR] {
            for (sender, receiver) in [(jump, 0), (0, jump), (jump, jump)] {
                let mut segment = Segment::new(3);
                run(&mut segment, 0..200, |at| (at, at));
                run(&mut segment, 200..210, |at| (at + sender, at + receiver));
                run(&mut segment, 210..400, |at| (at + sender, at + receiver));
                let p50 = segment.quantile(0.5, 100).unwrap();
                assert!(p50.value() < 150.0, "{sender} {receiver}: {p50:?}");
            }
        }
    }

    #[test]
    fn after_a_jump_it_says_so_until_there_is_enough() {
        let mut segment = Segment::new(3);
        run(&mut segment, 0..10, |at| (at, at));
        assert_eq!(segment.quantile(0.5, 100), Err(Unknown::TooFew { have: 10, need: 20 }));
        run(&mut segment, 10..200, |at| (at, at));
        // Up to the eighth packet it might be anything, and what was before stands.
        run(&mut segment, 200..207, |at| (at, at + HOUR));
        assert_eq!((segment.clocks_set(), segment.late(1000, 100).map(Count::lost)), (0, Ok(0)));
        run(&mut segment, 207..210, |at| (at, at + HOUR));
        assert_eq!((segment.clocks_set(), segment.late(1000, 100)), (1, Err(Unknown::ClockSet(3, 4))));
        run(&mut segment, 210..230, |at| (at, at + HOUR));
        assert_eq!(segment.late(1000, 100).map(Count::lost), Ok(0));
    }

    #[test]
    fn a_small_step_back_begins_anew_and_a_late_packet_does_not() {
        let mut segment = Segment::new(0);
        run(&mut segment, 0..200, |at| (at, at));
        run(&mut segment, 200..230, |at| (at, at + 3_000_000));
        assert_eq!(segment.clocks_set(), 0);
        assert_eq!(segment.late(2_000_000, 30).map(Count::lost), Ok(30));
        run(&mut segment, 230..260, |at| (at, at - 500_000));
        assert_eq!(segment.clocks_set(), 1);
        assert_eq!(segment.late(2_000_000, 30).map(Count::lost), Ok(0));
    }

    #[test]
    fn a_drift_of_200_ppm_is_taken_out() {
        for ppm in [-200, 200] {
            let mut segment = Segment::new(0);
            run(&mut segment, 0..12_000, |at| (at, at + at * ppm / 1_000_000));
            let p95 = segment.quantile(0.95, 1000).unwrap();
            assert!(p95.value() < 300.0, "{ppm}: {p95:?}");
            let drift = segment.drift().unwrap();
            assert!((drift - ppm as f64).abs() < 5.0, "{drift} instead of {ppm}");
        }
    }

    #[test]
    fn the_newest_are_also_those_of_a_time() {
        let mut segment = Segment::new(0);
        assert_eq!(segment.within(Duration::MAX), 0);
        run(&mut segment, 0..200, |at| (at, at));
        assert_eq!(segment.within(Duration::from_millis(500)), 51);
        // One in ten of them is timed.
        (200..250).step_by(10).for_each(|packet| run(&mut segment, packet..packet + 1, |at| (at, at)));
        assert_eq!(segment.within(Duration::from_millis(410)), 5 + 1);
        assert_eq!(segment.within(Duration::MAX), 205);
    }

    #[test]
    fn nonsense_is_called_so() {
        let mut segment = Segment::new(1);
        run(&mut segment, 0..200, |at| (at, at));
        run(&mut segment, 200..300, |at| (at, at.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())));
        assert_eq!(segment.quantile(0.5, 100), Err(Unknown::NoClock(1, 2)));
        segment.sample(i64::MIN, i64::MAX);
        segment.sample(i64::MAX, i64::MIN);
        run(&mut segment, 300..400, |at| (at, at));
        assert!(segment.quantile(0.5, 100).unwrap().value() < 150.0);
    }

    #[test]
    fn quantiles_have_intervals_of_order_statistics() {
        let mut segment = Segment::new(0);
        (0..100).for_each(|packet| segment.sample(packet * 1000, packet * 1000 + packet * 100));
        // A rising delay that is steeper than any drift: the floor rises by 300 ppm of it.
        let p50 = segment.quantile(0.5, 100).unwrap();
        assert!(p50.low() < p50.value() && p50.value() < p50.high());
        assert!(p50.covers(5000.0 - 0.3 * 50.0), "{p50:?}");
        assert_eq!(segment.quantile(1.5, 100), Err(Unknown::NotANumber));
        assert!(matches!(segment.quantile(0.999, 100), Err(Unknown::TooFew { .. })));
    }
}
