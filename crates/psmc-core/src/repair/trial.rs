//! Whether what a path loses is lost because of the repairs themselves.
//!
//! A radio loses the same share of little as of much. What lets pass so many datagrams a second, and drops the rest without a queue
//! that would show, loses less of less: there each repair takes the place of a packet, and who answers losses by more repairs keeps it
//! full for ever. So while a path loses much, half as many are sent for a moment, and what happens then decides:
//!
//! ```text
//!                 much is lost            less is lost, by as much as sending less explains
//!   all repairs ──────────────▶ half? ────────────────────────────────────────────▶ half ──▶ a quarter? …
//!     ▲   ▲                       │                                                  │ ▲
//!     │   └───────────────────────┘              after a rest                        ▼ │ more is lost, likewise
//!     │        it makes no difference                                            all? ─┘
//!     └────────────────────────────────────────────────────────────────────────────┘
//!                                 it makes no difference
//! ```
//!
//! Each comparison that changes nothing makes the next rest twice as long.

use std::time::{Duration, Instant};

use psmc_wire::PathId;

/// Shares of losses below this need few repairs, which fill nothing.
const MUCH: f64 = 0.1;

/// Halvings of the repairs that are sent; the last one leaves none.
const LEVELS: u8 = 4;

/// Of so many datagrams a share of a third is known to within a fortieth.
const DATAGRAMS: u64 = 400;

/// The lesser of two rates that are compared is at most this part of the other: of a little less nothing is learned.
const LESS: f64 = 0.75;

/// Standard deviations by which the shares of losses must differ: chance does that once in fifty comparisons, and after the next one
/// all repairs are back.
const DEVIATIONS: f64 = 2.0;

/// Something else is tried so long after the last change, and twice as long after each comparison that has changed nothing.
const FIRST_REST: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// When two rates were too much alike to tell anything, which is so while the plan is changing, it is tried again after this time.
const SHORT_REST: Duration = Duration::from_secs(1);

/// A rest is over when so much more is lost than when it began.
const MORE: f64 = 0.1;

/// Whoever has sent nothing for so long was not sending at the rate of the window.
const GAP: Duration = Duration::from_millis(300);

/// A loss is noticed a round trip after its datagram was sent, and told to us a tenth of a second later.
const LATE: Duration = Duration::from_millis(200);

/// What has become known of a path since the last time.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    pub(super) path: PathId,
    /// Datagrams that have arrived or were lost, and those that were lost.
    pub(super) settled: u64,
    pub(super) lost: u64,
    pub(super) round_trip: Duration,
}

/// What was seen of a path at one level.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    settled: u64,
    lost: u64,
    time: Duration,
}

/// How many repairs are sent of those that were planned.
#[derive(Debug)]
pub(super) struct Trial {
    /// How often the repairs are halved.
    level: u8,
    comparison: Option<Comparison>,
    windows: Vec<(PathId, Window)>,
    /// What is told from then on was sent at this level.
    counts_from: Option<Instant>,
    looked_at: Option<Instant>,
    rest: Duration,
    rests_until: Option<Instant>,
    /// The share that was lost of the path that loses most when the rest began.
    known: f64,
    /// Sixteenths of repairs that are due still.
    owed: u32,
}

/// The level is another one to see what that changes on this path.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    path: PathId,
    /// The level before, and what was seen then.
    level: u8,
    window: Window,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            level: 0,
            comparison: None,
            windows: Vec::new(),
            counts_from: None,
            looked_at: None,
            rest: FIRST_REST,
            rests_until: None,
            known: 0.0,
            owed: 0,
        }
    }
}

impl Trial {
    /// How many of so many planned repairs are to be sent: the right part of them over time.
    pub(super) fn share(&mut self, planned: u8) -> u8 {
        if self.level == 0 {
            return planned;
        }
        let sixteenths = if self.level < LEVELS { 16 >> self.level } else { 0 };
        self.owed += u32::from(planned) * sixteenths;
        let due = self.owed / 16;
        self.owed %= 16;
        u8::try_from(due).unwrap_or(planned)
    }

    /// Takes over what has become known of all paths.
    pub(super) fn note(&mut self, news: impl Iterator<Item = News> + Clone, now: Instant) {
        let time = now.saturating_duration_since(self.looked_at.replace(now).unwrap_or(now));
        let longest = news.clone().map(|news| news.round_trip).max().unwrap_or_default();
        if now < *self.counts_from.get_or_insert(now + LATE + longest) {
            return;
        }
        if time > GAP {
            return self.windows.clear();
        }
        self.windows.retain(|(path, _)| news.clone().any(|news| news.path == *path));
        for news in news {
            let known = self.windows.iter().position(|(path, _)| *path == news.path);
            let place = known.unwrap_or_else(|| {
                self.windows.push((news.path, Window::default()));
                self.windows.len() - 1
            });
            self.windows[place].1.add(&news, time);
        }
        self.compare(now);
    }

    fn compare(&mut self, now: Instant) {
        let Some(before) = self.comparison else { return self.begin(false, now) };
        match self.windows.iter().find(|(path, _)| *path == before.path) {
            // It is gone, and all that was found out with it.
            None => *self = Self::default(),
            Some((_, window)) if window.settled < DATAGRAMS => {}
            Some((_, window)) => {
                let is_fewer = self.level > before.level;
                let (more, fewer) =
                    if is_fewer { (&before.window, window) } else { (window, &before.window) };
                // Where little is lost with more of them, too, there is nothing to tell.
                let harmless = !is_fewer && more.share() < MUCH;
                let verdict = if harmless { Some(false) } else { more.is_due_to_load(fewer) };
                self.known = if is_fewer { more.share() } else { fewer.share() };
                self.conclude(before.level, verdict.map(|is_due_to_load| is_due_to_load == is_fewer), now);
            }
        }
    }

    /// Stays at the level that was tried, or goes back to the one before.
    fn conclude(&mut self, before: u8, stays: Option<bool>, now: Instant) {
        let is_fewer = self.level > before;
        self.comparison = None;
        let rest = match stays {
            Some(true) => FIRST_REST,
            Some(false) => (self.rest * 2).min(LONGEST_REST),
            None => SHORT_REST,
        };
        self.rests_until = Some(now + rest);
        if stays.is_some() {
            self.rest = rest;
        }
        if stays == Some(true) {
            self.begin(is_fewer, now);
        } else {
            self.move_to(before);
        }
    }

    /// Tries another level, if it is time: fewer repairs at once, if that `has_helped` just now.
    fn begin(&mut self, has_helped: bool, now: Instant) {
        let seen = self.windows.iter().filter(|(_, window)| window.settled >= DATAGRAMS);
        let Some(&(path, window)) = seen.max_by_key(|(_, window)| window.lost) else { return };
        let is_much = window.share() >= MUCH;
        let level = self.level;
        let rests = self.rests_until.is_some_and(|until| now < until) && window.share() < self.known + MORE;
        let next = match (is_much && has_helped, rests, level) {
            (true, _, ..LEVELS) => Some(level + 1),
            (_, false, 1..) => Some(level - 1),
            (_, false, 0) if is_much => Some(1),
            (_, _, _) => None,
        };
        self.windows.clear();
        if let Some(next) = next {
            self.comparison = Some(Comparison { path, level, window });
            self.move_to(next);
        }
    }

    fn move_to(&mut self, level: u8) {
        self.windows.clear();
        (self.level, self.counts_from) = (level, None);
    }
}

impl Window {
    fn add(&mut self, news: &News, time: Duration) {
        self.settled += news.settled;
        self.lost += news.lost;
        self.time += time;
    }

    fn share(&self) -> f64 {
        self.lost as f64 / self.settled.max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.settled as f64 / self.time.as_secs_f64().max(1e-3)
    }

    /// Whether less is lost of what was sent in `fewer`, and that because it was less: the share is nearer to what it would be if as
    /// much as here had passed, whatever is sent, than to what it is here. `None` if the rates are too much alike to tell.
    fn is_due_to_load(&self, fewer: &Self) -> Option<bool> {
        if fewer.rate() > LESS * self.rate() {
            return None;
        }
        let (before, after) = (self.share(), fewer.share());
        let explained = (1.0 - (1.0 - before) * self.rate() / fewer.rate()).max(0.0);
        let parts = 1.0 / self.settled.max(1) as f64 + 1.0 / fewer.settled.max(1) as f64;
        let deviation = (before * (1.0 - before) * parts).sqrt();
        Some(after < before.midpoint(explained) && before - after > DEVIATIONS * deviation)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const PATH: PathId = PathId(1);

    /// So many seconds of 100 packets/s and as many repairs as are planned for each, on a path that loses `lost` of what is sent in a
    /// tenth of a second. Returns the repairs of each packet in the last second, and the most after the first five.
    fn play(trial: &mut Trial, seconds: u64, planned: u8, mut lost: impl FnMut(u64) -> u64) -> (f64, f64) {
        let (start, mut sent) = (trial.looked_at.unwrap_or_else(Instant::now), Vec::new());
        // What is sent is known 50 ms later: half of it with the next tick.
        let mut before = 0;
        for tick in 1..=10 * seconds {
            let now = start + Duration::from_millis(100) * u32::try_from(tick).unwrap();
            let repairs: u64 = (0..10).map(|_| u64::from(trial.share(planned))).sum();
            sent.push(repairs);
            let settled = before;
            before = 10 + repairs;
            let news =
                News { path: PATH, settled, lost: lost(settled), round_trip: Duration::from_millis(50) };
            trial.note(std::iter::once(news), now);
        }
        let per_packet = |ticks: &[u64]| ticks.iter().sum::<u64>() as f64 / (10 * ticks.len()) as f64;
        let last = per_packet(&sent[sent.len() - 10..]);
        (last, sent.iter().skip(50).map(|repairs| *repairs as f64 / 10.0).fold(0.0, f64::max))
    }

    /// Of so many datagrams that many, by chance.
    fn by_chance(share: f64) -> impl FnMut(u64) -> u64 {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        move |settled| {
            let mut draw = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 11) as f64 / (1u64 << 53) as f64
            };
            (0..settled).filter(|_| draw() < share).count() as u64
        }
    }

    #[test]
    fn repairs_that_fill_what_drops_them_are_given_up() {
        // 500 datagrams a second pass.
        let (last, _) = play(&mut Trial::default(), 6, 7, |settled| settled.saturating_sub(50));
        assert!(last <= 4.0, "{last} repairs for each packet");
    }

    #[test]
    fn where_packets_alone_are_too_many_there_are_none() {
        let (last, _) = play(&mut Trial::default(), 8, 7, |settled| settled.saturating_sub(8));
        assert!(last < 0.1, "{last} repairs for each packet");
    }

    #[test]
    fn what_is_lost_by_chance_is_repaired_as_planned() {
        for share in [0.05, 0.2, 0.37, 0.6] {
            let mut trial = Trial::default();
            let mut lost = by_chance(share);
            let mut all = 0.0;
            for _ in 0..60 {
                all += play(&mut trial, 10, 8, &mut lost).0;
            }
            // In one of the last seconds of each ten they may be half as many.
            assert!(all / 60.0 > 7.0, "{} repairs for each packet at {share}", all / 60.0);
        }
    }

    #[test]
    fn they_come_back_where_it_is_chance_again() {
        let mut trial = Trial::default();
        play(&mut trial, 10, 7, |settled| settled.saturating_sub(8));
        let (last, _) = play(&mut trial, 300, 7, by_chance(0.3));
        assert!(last > 3.0, "{last} repairs for each packet");
    }

    #[test]
    fn parts_of_repairs_add_up() {
        for (level, of_hundred) in [(0, 300), (1, 150), (2, 75), (3, 37), (4, 0)] {
            let mut trial = Trial { level, ..Trial::default() };
            let sent: u32 = (0..100).map(|_| u32::from(trial.share(3))).sum();
            assert_eq!(sent, of_hundred, "{level}");
        }
    }
}
