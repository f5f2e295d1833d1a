//! Slots, and noise that must not look like any.

use super::*;

const PERIOD: Duration = Duration::from_secs(15);
const OUTAGE: Duration = Duration::from_millis(150);

/// A path on which a datagram is sent every so often, and what is known of its slots.
struct Sender {
    slots: Slots,
    start: Instant,
    now: Instant,
    every: Duration,
    /// When datagrams were lost although the path should not have been left alone.
    surprises: Vec<Duration>,
}

impl Sender {
    fn new(every: Duration) -> Self {
        let start = Instant::now();
        Self { slots: Slots::new(start), start, now: start, every, surprises: Vec::new() }
    }

    /// Sends until then; `is_lost` says what is lost, by the time since the start. What the path is spared is not sent.
    fn send_until(&mut self, end: Duration, mut is_lost: impl FnMut(Duration) -> bool) {
        while self.now < self.start + end {
            self.now += self.every;
            self.slots.on_time(self.now);
            self.slots.settle(self.now);
            if self.slots.is_resting() {
                continue;
            }
            // What becomes of it is known a round trip later, which settles no differently.
            if is_lost(self.now - self.start) {
                self.slots.on_lost(self.now);
                self.surprises.push(self.now - self.start);
            } else {
                self.slots.on_arrived(self.now);
            }
        }
    }

    fn found(&self) -> Option<Slot> {
        self.slots.slot()
    }
}

/// Outages at 12 s, 27 s, 42 s and 57 s of each minute.
fn starlink(at: Duration) -> bool {
    (at + Duration::from_secs(3)).as_nanos() % PERIOD.as_nanos() < OUTAGE.as_nanos()
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn slots_are_learned_from_a_call_and_left_alone() {
    let mut sender = Sender::new(millis(20));
    sender.send_until(Duration::from_secs(150), starlink);
    let slot = sender.found().expect("ten outages");
    assert!(slot.period.abs_diff(PERIOD) < millis(10), "{slot:?}");
    assert!(slot.length.abs_diff(OUTAGE) < millis(40), "{slot:?}");
    let into = (slot.next(sender.now) - sender.start + Duration::from_secs(3)).as_secs_f64() % 15.0;
    assert!(into.min(15.0 - into) < 0.04, "{into}");
    sender.surprises.clear();
    sender.send_until(Duration::from_secs(3600), starlink);
    // One in eight of 230 is used.
    let seconds: std::collections::BTreeSet<_> = sender.surprises.iter().map(Duration::as_secs).collect();
    assert!((20..=34).contains(&seconds.len()), "{seconds:?}");
    assert!(sender.found().is_some());
}

#[test]
fn slots_that_are_gone_are_forgotten() {
    let mut sender = Sender::new(millis(20));
    sender.send_until(Duration::from_secs(300), starlink);
    assert!(sender.found().is_some());
    sender.send_until(Duration::from_secs(300 + 9 * 15 + 30), |_| false);
    assert_eq!(sender.found(), None);
    assert!(!sender.slots.is_resting());
}

#[test]
fn slots_that_move_are_learned_anew() {
    let mut sender = Sender::new(millis(20));
    sender.send_until(Duration::from_secs(300), starlink);
    sender.send_until(Duration::from_secs(900), |at| starlink(at + Duration::from_secs(7)));
    let slot = sender.found().expect("there are slots again");
    let into = (slot.next(sender.now) - sender.start + Duration::from_secs(10)).as_secs_f64() % 15.0;
    assert!(into.min(15.0 - into) < 0.04, "{into}");
}

#[test]
fn an_idle_path_keeps_its_slots_and_learns_none() {
    let mut sender = Sender::new(millis(20));
    sender.send_until(Duration::from_secs(300), starlink);
    sender.now += Duration::from_secs(1500);
    sender.slots.on_time(sender.now);
    assert!(sender.found().is_some());
    let mut idle = Sender::new(Duration::from_secs(10));
    idle.send_until(Duration::from_secs(3600), starlink);
    assert_eq!(idle.found(), None);
}

#[test]
fn a_path_that_is_silent_for_seconds_has_no_slots() {
    let mut sender = Sender::new(millis(20));
    sender.send_until(Duration::from_secs(600), |at| at.as_millis() % 15_000 < 2000);
    assert_eq!(sender.found(), None);
}

/// Half an hour of outages at random, of random lengths: none of them is a slot.
#[test]
fn outages_at_random_are_no_slots() {
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let (mean, every) = (1.0 + 59.0 * dice.next(), 2 + seed);
        let mut sender = Sender::new(millis(every));
        let (mut from, mut until) = (0.0, 0.0);
        sender.send_until(Duration::from_secs(1800), |at| {
            let at = at.as_secs_f64();
            if at > until {
                from = at - mean * (1.0 - dice.next()).ln();
                until = from + 0.05 + 0.3 * dice.next();
            }
            from <= at
        });
        assert_eq!(sender.found(), None, "{seed}");
    }
}

/// Nor is what is lost by chance, in bursts or one by one.
#[test]
fn losses_at_random_are_no_slots() {
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let (loss, burst) = (0.4 * dice.next(), 1.0 + 11.0 * dice.next());
        let mut sender = Sender::new(millis(2 + seed));
        let mut is_bad = false;
        sender.send_until(Duration::from_secs(1200), |_| {
            let changes = if is_bad { 1.0 / burst } else { loss / burst };
            is_bad ^= dice.next() < changes;
            is_bad
        });
        assert_eq!(sender.found(), None, "{seed}");
    }
}

/// Other outages beside them, and losses at random, hide no slots.
#[test]
fn slots_are_found_among_noise() {
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let (period, length, loss) = (6.0 + 34.0 * dice.next(), 0.09 + 0.2 * dice.next(), 0.03 * dice.next());
        let mut sender = Sender::new(millis(20));
        let mut other = 100.0;
        sender.send_until(Duration::from_secs_f64(40.0 * period), |at| {
            let now = at.as_secs_f64();
            if now > other + 0.1 {
                other = now - 8.0 * period * (1.0 - dice.next()).ln();
            }
            now % period < length || other <= now || dice.next() < loss
        });
        let slot = sender.found();
        let is_right = slot.is_some_and(|slot| (slot.period.as_secs_f64() - period).abs() < 0.05);
        assert!(is_right, "{seed}: {slot:?}, not {period}");
    }
}

/// Numbers from 0 to 1, by SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
