//! The rate that a server bears, found from a sign that it is overloaded where nobody can say the rate itself.

use std::time::Duration;

use crate::is_rate;

/// What is accepted falls to this part of what arrived when the server was overloaded. CUBIC's is 0.7 (RFC 9438 §4.6); here the
/// excess stands in queues of the server for an interval or two and not for a round trip of everybody, so that less has to be given up.
pub const DECREASE: f64 = 0.85;

/// No decrease takes more than this, whatever arrived: a moment without traffic is no proof that nothing is borne.
const LEAST_PART: f64 = 0.5;

/// What is accepted grows only while at least this part of it arrives: beyond what comes nothing can be learnt.
pub const USED: f64 = 0.75;

/// The most that an increase may be, as a part of what is accepted, per second: the server is asked whether it bears it many times
/// on the way to twice the rate.
const MAX_GROWTH: f64 = 0.05;

/// The longest step that an increase is computed for: after a pause nobody knows what was borne in it.
const MAX_STEP: Duration = Duration::from_secs(2);

/// How a [`Finder`] behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Where it begins, and what is accepted while nothing is known: the operator's word, per second.
    pub start: f64,
    /// The least that is accepted, per second.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// How long a decrease takes to show: until nodes have the new rule, and what stands in queues has been served. Neither the
    /// next decrease nor an increase comes sooner.
    pub settle: Duration,
    /// How long it takes to come back to the rate at which the server was overloaded.
    pub climb: Duration,
    /// For how long the sign may be missing before the operator's word counts instead.
    pub patience: Duration,
}

impl Config {
    /// From this rate, between those bounds; decreases settle for 3 s, the climb back takes 20 s, and a sign may be missing for 5 s.
    #[must_use]
    pub fn new(start: f64, least: f64, most: f64) -> Self {
        Self {
            start,
            least,
            most,
            settle: Duration::from_secs(3),
            climb: Duration::from_secs(20),
            patience: Duration::from_secs(5),
        }
    }
}

/// Finds the rate that a server bears.
///
/// At every interval say either [`handle_sign`](Self::handle_sign), whether the server was overloaded in it and what arrived, or
/// [`handle_silence`](Self::handle_silence), if that could not be had; [`rate`](Self::rate) is what to accept. To say it more or less often
/// changes little, for growth is by time.
///
/// A sign of overload takes the rate to [`DECREASE`] of what arrived. From there it grows as CUBIC's window does (RFC 9438
/// §4.2): fast at first, flat where the server was overloaded last, which is where the knee most likely still is, and
/// faster again beyond it, to find what has become free. In units of the knee, with t the time in which the rate was used:
///
/// ```text
/// rate(t) = knee · (1 + (1 - DECREASE) · ((t - climb) / climb)³)
/// ```
///
/// # Bounds
///
/// - A server that bears c, tells of overload within `settle`, and is offered more, accepts from 0.8 c to 1.1 c once the finder has
///   seen one overload that was not of its start.
/// - Without demand the rate stays: growth counts only time in which [`USED`] of the rate arrived.
/// - The rate is from `least` to `most`, whatever is said.
#[derive(Clone, Debug)]
pub struct Finder {
    config: Config,
    rate: f64,
    /// The rate at which the server was last overloaded, or where it began.
    knee: f64,
    /// For how long the rate was used since the last decrease, of what counts towards growth.
    used: Duration,
    /// When the last decrease was.
    decreased: Option<Duration>,
    /// When the last sign came.
    heard: Option<Duration>,
}

impl Finder {
    /// Accepts `config.start`, or the nearest bound. Bounds that are the wrong way round, or no rates, are both the start.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let start = if is_rate(config.start) { config.start } else { 0.0 };
        let bounds = is_rate(config.least) && is_rate(config.most) && config.least <= config.most;
        let (least, most) = if bounds { (config.least, config.most) } else { (start, start) };
        let start = start.clamp(least, most);
        let config = Config { start, least, most, ..config };
        Self { config, rate: start, knee: start, used: config.climb, decreased: None, heard: None }
    }

    /// What to accept, per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether the rate is one that was found, not the operator's word for want of signs.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.heard.is_some()
    }

    /// Whether the server was overloaded in the interval that ends `now`, and what arrived in it, per second. What arrived is taken
    /// for the rate if it is no rate.
    pub fn handle_sign(&mut self, overloaded: bool, arriving: f64, now: Duration) {
        let arriving = if is_rate(arriving) { arriving } else { self.rate };
        let step = self.heard.map_or(Duration::ZERO, |heard| now.saturating_sub(heard)).min(MAX_STEP);
        self.heard = Some(self.heard.map_or(now, |heard| heard.max(now)));
        if self.decreased.is_some_and(|last| now.saturating_sub(last) < self.config.settle) {
            return;
        }
        if overloaded {
            self.decrease(arriving, now);
        } else if arriving >= USED * self.rate {
            self.increase(step);
        }
    }

    /// The sign could not be had, or is nonsense. After the configured patience the rate is the start again, and what was found is
    /// forgotten.
    pub fn handle_silence(&mut self, now: Duration) {
        if self.heard.is_some_and(|heard| now.saturating_sub(heard) >= self.config.patience) {
            *self = Self::new(self.config);
        }
    }

    fn decrease(&mut self, arriving: f64, now: Duration) {
        // Who sends less than the least cannot be what the server is overloaded by.
        if arriving < self.config.least {
            return;
        }
        let borne = arriving.min(self.rate);
        self.knee = borne.max(LEAST_PART * self.rate);
        self.rate = (DECREASE * borne).max(LEAST_PART * self.rate).clamp(self.config.least, self.config.most);
        (self.used, self.decreased) = (Duration::ZERO, Some(now));
    }

    fn increase(&mut self, step: Duration) {
        let climb = self.config.climb.as_secs_f64();
        self.used = self.used.saturating_add(step);
        let beyond = if climb > 0.0 { (self.used.as_secs_f64() - climb) / climb } else { 1.0 };
        let wanted = self.knee * (1.0 + (1.0 - DECREASE) * beyond.powi(3));
        let most = self.rate * (1.0 + MAX_GROWTH * step.as_secs_f64());
        self.rate = wanted.clamp(self.rate, most).clamp(self.config.least, self.config.most);
        if wanted > most {
            // Time that growth has not followed must not wait to be made up for.
            self.used = self.used.saturating_sub(step);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "what does not change is the same number")]

    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(500);

    /// A server that serves so much, with a queue in front, and nodes that let pass what is accepted, one second late.
    struct Server {
        finder: Finder,
        now: Duration,
        capacity: f64,
        offered: f64,
        queue: f64,
        /// Rates that nodes have been told, the oldest first.
        on_the_way: [f64; 2],
    }

    impl Server {
        fn new(config: Config, capacity: f64, offered: f64) -> Self {
            let finder = Finder::new(config);
            let rate = finder.rate();
            Self { finder, now: Duration::ZERO, capacity, offered, queue: 0.0, on_the_way: [rate; 2] }
        }

        /// Half a second; the queue has room for a fifth of a second, and what finds none is the sign.
        fn tick(&mut self) -> f64 {
            let passed = self.offered.min(self.on_the_way[0]);
            self.on_the_way = [self.on_the_way[1], self.finder.rate()];
            let seconds = TICK.as_secs_f64();
            self.queue = (self.queue + (passed - self.capacity) * seconds).max(0.0);
            let room = 0.2 * self.capacity;
            let overloaded = self.queue > room;
            self.queue = self.queue.min(room);
            self.now += TICK;
            self.finder.handle_sign(overloaded, passed, self.now);
            self.finder.rate()
        }

        /// The lowest and the highest rate of so many seconds.
        fn range(&mut self, seconds: u32) -> (f64, f64) {
            (0..2 * seconds)
                .map(|_| self.tick())
                .fold((f64::MAX, 0.0), |(low, high): (f64, f64), rate| (low.min(rate), high.max(rate)))
        }
    }

    fn config() -> Config {
        Config::new(1000.0, 10.0, 100_000.0)
    }

    fn in_band(range: (f64, f64), capacity: f64) -> bool {
        range.0 >= 0.8 * capacity && range.1 <= 1.1 * capacity
    }

    #[test]
    fn it_finds_what_is_borne_and_stays_near_it() {
        for capacity in [50.0, 300.0, 1000.0, 4000.0] {
            let mut server = Server::new(config(), capacity, 50_000.0);
            server.range(200);
            let range = server.range(600);
            assert!(in_band(range, capacity), "{capacity}: {range:?}");
        }
    }

    #[test]
    fn it_follows_a_step_of_capacity_both_ways() {
        let mut server = Server::new(config(), 1000.0, 50_000.0);
        server.range(100);
        server.capacity = 250.0;
        server.range(30);
        let range = server.range(300);
        assert!(in_band(range, 250.0), "{range:?}");
        server.capacity = 2000.0;
        server.range(150);
        let range = server.range(300);
        assert!(in_band(range, 2000.0), "{range:?}");
    }

    #[test]
    fn without_demand_it_does_not_wind_up() {
        let mut server = Server::new(config(), 1000.0, 50_000.0);
        server.range(100);
        server.offered = 100.0;
        server.range(5);
        let before = server.finder.rate();
        assert_eq!(server.range(3600), (before, before));
        // The flood that follows finds the limit where it was.
        server.offered = 50_000.0;
        let range = server.range(60);
        assert!(in_band(range, 1000.0), "{range:?}");
    }

    #[test]
    fn overload_by_somebody_else_takes_no_more_than_the_bounds_allow() {
        let mut finder = Finder::new(config());
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            now += TICK;
            finder.handle_sign(true, 5.0, now);
        }
        assert_eq!(finder.rate(), 1000.0, "nothing of it arrives");
        for _ in 0..1000 {
            now += TICK;
            finder.handle_sign(true, 50_000.0, now);
        }
        assert_eq!(finder.rate(), 10.0);
    }

    #[test]
    fn a_lost_sign_is_passed_over_and_a_lasting_silence_is_not() {
        let mut server = Server::new(config(), 300.0, 50_000.0);
        server.range(100);
        let found = server.finder.rate();
        for _ in 0..9 {
            server.now += TICK;
            server.finder.handle_silence(server.now);
        }
        assert_eq!((server.finder.rate(), server.finder.is_found()), (found, true));
        server.now += TICK;
        server.finder.handle_silence(server.now);
        assert_eq!((server.finder.rate(), server.finder.is_found()), (1000.0, false));
        server.range(100);
        let range = server.range(100);
        assert!(in_band(range, 300.0), "it begins again: {range:?}");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            numbers in (any::<f64>(), any::<f64>(), any::<f64>()),
            signs in prop::collection::vec((any::<bool>(), any::<f64>(), 0_u64..10_000), 0..200),
        ) {
            let mut finder = Finder::new(Config::new(numbers.0, numbers.1, numbers.2));
            let (least, most) = (finder.config.least, finder.config.most);
            for (overloaded, arriving, ms) in signs {
                finder.handle_sign(overloaded, arriving, Duration::from_millis(ms));
                prop_assert!(is_rate(finder.rate()) && (least..=most).contains(&finder.rate()));
            }
        }

        #[test]
        fn it_is_near_any_capacity_that_it_may_have(capacity in 20.0..50_000.0) {
            let mut server = Server::new(config(), capacity, 1e6);
            server.range(400);
            let range = server.range(400);
            prop_assert!(in_band(range, capacity), "{capacity}: {range:?}");
        }
    }
}
