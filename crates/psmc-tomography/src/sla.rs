//! Whether a target is met: percentiles of delay, loss and throughput over a sliding window.
//!
//! ```text
//!                     enough observed, all within limits
//!   ┌─────────┐ ───────────────────────────────────────────▶ ┌─────────┐
//!   │ unknown │                                              │   met   │
//!   └─────────┘ ◀─────────────────────────────────────────── └─────────┘
//!        ▲  │          too little for a whole window           ▲   │ a limit is exceeded
//!        │  │                          well within all limits  │   │
//!        │  │                          for a whole window      │   ▼
//!        │  └──────────────────────────────────────────────▶ ┌─────────┐
//!        └────────────────────────────────────────────────── │  broken │
//!                                                            └─────────┘
//! ```
//!
//! A target that was broken is met again only once it was *well* within its limits ([`EASE`]) for a whole window. So what hovers at a
//! limit is one breach, and one event.
//!
//! ```
//! use std::time::Duration;
//!
//! use psmc_tomography::sla::{Change, Monitor, Target};
//!
//! let target = Target { loss: Some(0.005), ..Target::of_window(Duration::from_secs(10)) };
//! let mut monitor = Monitor::new(target);
//! let at = Duration::from_secs;
//! monitor.packets(at(1), 1000, 0);
//! assert!(matches!(monitor.judge(at(1)), Some(Change::Met)));
//! monitor.packets(at(2), 1000, 50);
//! assert!(matches!(monitor.judge(at(2)), Some(Change::Broken { .. })));
//! assert!(monitor.judge(at(3)).is_none());
//! ```

mod histogram;
mod window;

use std::time::Duration;

use crate::Unknown;
use window::Window;

/// What was promised. What is `None` is not promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The quantile of the delay, such as 0.95, and its limit in microseconds.
    pub delay: Option<(f64, u32)>,
    /// The share of packets that may be lost, 0 to 1.
    pub loss: Option<f64>,
    /// The least that must be delivered in bit/s, whenever as much is offered.
    pub throughput: Option<f64>,
    /// What is looked at together.
    pub window: Duration,
}

/// A part of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// [`Target::delay`].
    Delay,
    /// [`Target::loss`].
    Loss,
    /// [`Target::throughput`].
    Throughput,
}

/// What was measured in a window; each is `None` where there is too little to go by, or nothing was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The quantile of the delay in microseconds, no more than 1/64 too high.
    pub delay: Option<u32>,
    /// The share of packets that were later than the limit, which is exact. More than 1 − quantile breaks the promise.
    pub late: Option<f64>,
    /// The same of what is well within the limit.
    nearly_late: Option<f64>,
    /// The share of packets that was lost.
    pub loss: Option<f64>,
    /// What was delivered, in bit/s. Only measured while at least what was promised is offered.
    pub throughput: Option<f64>,
}

/// How a target stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Too little was observed.
    Unknown(Unknown),
    /// All that was promised and could be measured is kept.
    Met,
    /// Something was not kept, and not all is well since.
    Broken(Part),
}

/// How a target has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// There is too little to go by.
    Unknown(Unknown),
    /// The target is met, for the first time, or again.
    Met,
    /// The target is broken. One that was broken and is still not met again does not break anew.
    Broken {
        /// What was not kept.
        part: Part,
        /// What was measured.
        measured: Measured,
    },
}

/// Well within a limit is this much of it, or so much more of the throughput: a tenth, which is more than a window of a thousand
/// packets moves by chance.
pub const EASE: f64 = 0.1;

/// Packets in a window below which nothing is said about loss, and delays below which nothing is said about delay.
pub const NEEDED: u64 = 20;

/// Watches a target.
///
/// Tell it what is observed as it comes, by [`delay`](Self::delay), [`packets`](Self::packets) and [`bytes`](Self::bytes), and
/// [`judge`](Self::judge) at regular times, some ten times in a window. Times are since any moment that stays the same; a time before
/// that of the last call counts as that one. Memory is bounded by a constant.
#[derive(Clone, Debug)]
pub struct Monitor {
    target: Target,
    window: Window,
    state: State,
    since: Duration,
    /// Since when all was well, while the state is another one.
    well_since: Option<Duration>,
    breaches: u64,
}

impl Target {
    /// One that promises nothing yet.
    #[must_use]
    pub fn of_window(window: Duration) -> Self {
        Self { delay: None, loss: None, throughput: None, window }
    }

    /// The first part that is not kept, or not well kept.
    fn broken(&self, measured: &Measured, is_well: bool) -> Option<Part> {
        let (late, factor) = if is_well { (measured.nearly_late, 1.0 - EASE) } else { (measured.late, 1.0) };
        let delay = self.delay.zip(late).is_some_and(|((quantile, _), late)| late > 1.0 - quantile);
        let loss = self.loss.zip(measured.loss).is_some_and(|(limit, loss)| loss > limit * factor);
        let throughput = self.throughput.zip(measured.throughput);
        let throughput = throughput.is_some_and(|(limit, throughput)| throughput * factor < limit);
        let parts = [(Part::Delay, delay), (Part::Loss, loss), (Part::Throughput, throughput)];
        parts.into_iter().find_map(|(part, is_broken)| is_broken.then_some(part))
    }
}

impl Monitor {
    /// One that has observed nothing.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            window: Window::new(target.window),
            state: State::Unknown(Unknown::TooFew { have: 0, need: NEEDED }),
            since: Duration::ZERO,
            well_since: None,
            breaches: 0,
        }
    }

    /// A packet took so long, in microseconds.
    pub fn delay(&mut self, now: Duration, delay: u32) {
        let slot = self.window.at(now);
        slot.delays.add(delay);
        if let Some((_, limit)) = self.target.delay {
            slot.late += u64::from(delay > limit);
            slot.nearly_late += u64::from(f64::from(delay) > f64::from(limit) * (1.0 - EASE));
        }
    }

    /// So many packets were sent, of which so many were lost.
    pub fn packets(&mut self, now: Duration, sent: u64, lost: u64) {
        let slot = self.window.at(now);
        slot.sent = slot.sent.saturating_add(sent);
        slot.lost = slot.lost.saturating_add(lost.min(sent));
    }

    /// So many bytes were offered to be sent, and so many have arrived.
    pub fn bytes(&mut self, now: Duration, offered: u64, delivered: u64) {
        let slot = self.window.at(now);
        slot.offered = slot.offered.saturating_add(offered);
        slot.delivered = slot.delivered.saturating_add(delivered);
    }

    /// Looks at the window, and says what has changed since the last time.
    pub fn judge(&mut self, now: Duration) -> Option<Change> {
        let measured = self.measured(now);
        let now = self.window.now();
        let broken = self.target.broken(&measured, false);
        let is_well = self.target.broken(&measured, true).is_none();
        self.well_since = is_well.then(|| self.well_since.unwrap_or(now));
        let next = match (self.state, broken) {
            _ if measured == Measured::default() => State::Unknown(self.too_few()),
            (State::Broken(part), _) if !self.has_been_well(now) => State::Broken(part),
            (_, Some(part)) => State::Broken(part),
            (_, None) => State::Met,
        };
        let is_same = std::mem::discriminant(&next) == std::mem::discriminant(&self.state);
        self.since = if is_same { self.since } else { now };
        self.state = next;
        if is_same { None } else { Some(self.entered(measured)) }
    }

    fn entered(&mut self, measured: Measured) -> Change {
        match self.state {
            State::Unknown(unknown) => Change::Unknown(unknown),
            State::Met => Change::Met,
            State::Broken(part) => {
                self.breaches += 1;
                Change::Broken { part, measured }
            }
        }
    }

    fn has_been_well(&self, now: Duration) -> bool {
        self.well_since.is_some_and(|since| now.saturating_sub(since) >= self.target.window)
    }

    fn too_few(&self) -> Unknown {
        let total = self.window.total();
        let have = total.sent.max(total.delays.count());
        Unknown::TooFew { have, need: NEEDED.max(have + 1) }
    }

    /// What was measured in the window that ends now.
    pub fn measured(&mut self, now: Duration) -> Measured {
        self.window.advance(now);
        let total = self.window.total();
        let is_enough = |count: u64| count >= NEEDED;
        let loss = is_enough(total.sent).then(|| total.lost as f64 / total.sent as f64);
        let bits =
            |bytes: u64| bytes as f64 * 8.0 / self.window.covered().as_secs_f64().max(f64::MIN_POSITIVE);
        let demanded =
            self.target.throughput.filter(|&limit| bits(total.offered) >= limit && self.window.is_full());
        let delay = self.target.delay.filter(|_| is_enough(total.delays.count()));
        let share = |count: u64| delay.map(|_| count as f64 / total.delays.count() as f64);
        Measured {
            delay: delay.and_then(|(quantile, _)| total.delays.quantile(quantile)),
            late: share(total.late),
            nearly_late: share(total.nearly_late),
            loss: self.target.loss.and(loss),
            throughput: demanded.map(|_| bits(total.delivered)),
        }
    }

    /// How it stands, as of the last [`judge`](Self::judge).
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Since when it stands so.
    #[must_use]
    pub fn since(&self) -> Duration {
        self.since
    }

    /// How often the target was broken.
    #[must_use]
    pub fn breaches(&self) -> u64 {
        self.breaches
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watched(target: Target) -> Monitor {
        Monitor::new(Target { window: WINDOW, ..target })
    }

    /// What has changed, of a loss in each second.
    fn changes(
        monitor: &mut Monitor,
        seconds: std::ops::Range<u64>,
        lost: impl Fn(u64) -> u64,
    ) -> Vec<Change> {
        let changes = seconds.filter_map(|second| {
            monitor.packets(at(second), 1000, lost(second));
            monitor.judge(at(second))
        });
        changes.collect()
    }

    fn loss_target() -> Target {
        Target { loss: Some(0.005), ..Target::of_window(WINDOW) }
    }

    #[test]
    fn one_breach_is_one_event() {
        let mut monitor = watched(loss_target());
        assert_eq!(changes(&mut monitor, 0..20, |_| 0), [Change::Met]);
        // It hovers at the limit for a minute.
        let hovers = changes(&mut monitor, 20..80, |second| if second / 7 % 2 == 0 { 9 } else { 3 });
        assert!(matches!(hovers[..], [Change::Broken { part: Part::Loss, .. }]), "{hovers:?}");
        assert_eq!(changes(&mut monitor, 80..120, |_| 0), [Change::Met]);
        assert_eq!(monitor.breaches(), 1);
    }

    #[test]
    fn it_is_met_again_after_a_whole_window_that_is_well() {
        let mut monitor = watched(loss_target());
        changes(&mut monitor, 0..1, |_| 100);
        assert_eq!((monitor.state(), monitor.since()), (State::Broken(Part::Loss), at(0)));
        // At 10 s the loss has left the window, and from then on it has to be well for as long.
        assert_eq!(changes(&mut monitor, 1..20, |_| 0), []);
        assert_eq!(changes(&mut monitor, 20..22, |_| 0), [Change::Met]);
    }

    /// 4.8 of 1,000 are within the limit of 5, but not well within it.
    #[test]
    fn a_breach_is_over_only_well_within_the_limit() {
        let mut monitor = watched(Target { loss: Some(0.005), ..Target::of_window(WINDOW) });
        let mut run = |seconds: std::ops::Range<u64>, lost| -> State {
            seconds.for_each(|second| {
                monitor.packets(at(second), 10_000, lost);
                monitor.judge(at(second));
            });
            monitor.state()
        };
        assert_eq!(run(0..20, 48), State::Met);
        assert_eq!(run(20..40, 60), State::Broken(Part::Loss));
        assert_eq!(run(40..100, 48), State::Broken(Part::Loss));
        assert_eq!(run(100..130, 44), State::Met);
    }

    #[test]
    fn without_traffic_nothing_is_known() {
        let mut monitor = watched(loss_target());
        assert_eq!(monitor.judge(at(1)), None);
        monitor.packets(at(2), 19, 19);
        assert_eq!(monitor.judge(at(2)), None);
        assert_eq!(monitor.state(), State::Unknown(Unknown::TooFew { have: 19, need: 20 }));
        monitor.packets(at(3), 1, 0);
        assert!(matches!(monitor.judge(at(3)), Some(Change::Broken { .. })));
        assert!(matches!(monitor.judge(at(60)), Some(Change::Unknown(_))));
        // What is broken when traffic comes back is a breach of its own.
        monitor.packets(at(70), 100, 50);
        assert!(matches!(monitor.judge(at(70)), Some(Change::Broken { .. })));
        assert_eq!(monitor.breaches(), 2);
    }

    #[test]
    fn delay_is_a_percentile() {
        let mut monitor = watched(Target { delay: Some((0.95, 60_000)), ..Target::of_window(WINDOW) });
        for packet in 0..1000 {
            monitor.delay(at(1), if packet % 25 == 0 { 500_000 } else { 20_000 });
        }
        assert_eq!(monitor.judge(at(1)), Some(Change::Met));
        (0..100).for_each(|_| monitor.delay(at(2), 500_000));
        assert!(matches!(monitor.judge(at(2)), Some(Change::Broken { part: Part::Delay, .. })));
    }

    /// 58 and 62 ms are of one class of the histogram or the next, but the limit is between them.
    #[test]
    fn a_limit_is_exact() {
        for (delay, is_met) in [(58_000, true), (60_000, true), (60_001, false)] {
            let mut monitor = watched(Target { delay: Some((0.95, 60_000)), ..Target::of_window(WINDOW) });
            (0..100).for_each(|_| monitor.delay(at(1), delay));
            assert_eq!(matches!(monitor.judge(at(1)), Some(Change::Met)), is_met, "{delay}");
        }
    }

    #[test]
    fn throughput_counts_only_while_it_is_asked_for() {
        let mut monitor = watched(Target { throughput: Some(20e6), ..Target::of_window(WINDOW) });
        let mut run = |seconds: std::ops::Range<u64>, offered, delivered| -> Vec<Change> {
            let changes = seconds.filter_map(|second| {
                monitor.bytes(at(second), offered, delivered);
                monitor.judge(at(second))
            });
            changes.collect()
        };
        // 8 Mb/s offered, and 32 Mb/s of which all or a quarter arrive.
        assert_eq!(run(0..20, 1_000_000, 1_000_000), []);
        assert_eq!(run(20..40, 4_000_000, 4_000_000), [Change::Met]);
        let slow = run(40..60, 4_000_000, 1_000_000);
        assert!(matches!(slow[..], [Change::Broken { part: Part::Throughput, .. }]), "{slow:?}");
    }

    proptest! {
        /// Whatever is observed whenever: breaches alternate with recoveries, and time may go back.
        #[test]
        fn no_observations_make_it_panic_or_break_twice(
            observed in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>()), 1..200),
        ) {
            let target = Target { delay: Some((0.95, 1000)), loss: Some(0.1), throughput: Some(1e6), window: WINDOW };
            let mut monitor = Monitor::new(target);
            let mut last = None;
            for (now, sent, lost, delay) in observed {
                let now = Duration::from_millis(u64::from(now % 100_000));
                monitor.packets(now, sent, lost);
                monitor.bytes(now, sent, lost);
                (0..20).for_each(|_| monitor.delay(now, delay));
                let Some(change) = monitor.judge(now) else { continue };
                let kind = std::mem::discriminant(&change);
                prop_assert_ne!(last, Some(kind));
                last = Some(kind);
            }
        }
    }
}
