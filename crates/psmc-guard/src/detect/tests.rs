//! Attacks and what only looks like one, as series of samples.

use std::time::Duration;

use proptest::prelude::*;
use psmc_signal::AlertKind;

use super::*;

const TICK: Duration = Duration::from_millis(100);

/// A service under test, with time in ticks.
struct Trial {
    detector: ServiceDetector,
    begun: Option<u32>,
    over: Option<u32>,
    ticks: u32,
}

impl Trial {
    fn new(policy: Policy) -> Self {
        Self { detector: ServiceDetector::new(policy, |_| None), begun: None, over: None, ticks: 0 }
    }

    /// One that has seen this many packets per second for two minutes.
    fn used_to(packets: f64) -> Self {
        let mut watched = Self::new(Policy::default());
        watched.run(120, |tick| visitors(packets * jitter(tick)));
        assert_eq!(watched.begun, None);
        watched
    }

    /// Feeds samples for some seconds; `sample` gets the number of the tick from here on.
    fn run(&mut self, seconds: u32, sample: impl Fn(u32) -> Sample) {
        (self.begun, self.over, self.ticks) = (None, None, 0);
        for tick in 0..seconds * 10 {
            self.ticks = tick;
            match self.detector.handle_sample(&sample(tick), TICK, true) {
                Some(Change::Begun(_)) => self.begun = self.begun.or(Some(tick)),
                Some(Change::Over) => self.over = Some(tick),
                None => {}
            }
        }
    }
}

/// What visitors send: packets of 500 bytes, one in forty opens a connection, one in two hundred is of somebody new.
fn visitors(packets: f64) -> Sample {
    traffic(packets, packets * 4000.0, packets / 40.0, packets / 200.0)
}

fn traffic(packets: f64, bits: f64, syns: f64, new_sources: f64) -> Sample {
    let values = [packets, bits, syns, new_sources];
    Signal::ALL.into_iter().zip(values).collect()
}

/// Between 0.6 and 1.4, and never the same pattern.
fn jitter(tick: u32) -> f64 {
    0.6 + f64::from(tick.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 * 0.8
}

#[test]
fn a_flood_is_found_within_six_samples_and_its_end_too() {
    let mut watched = Trial::used_to(2000.0);
    watched.run(20, |tick| visitors(20_000.0 * jitter(tick)));
    assert!(watched.begun.unwrap() < 6, "{:?}", watched.begun);
    assert_eq!(watched.detector.attack().unwrap().kind, AlertKind::Rate);
    assert_eq!(watched.over, None);
    watched.run(60, |tick| visitors(2000.0 * jitter(tick)));
    let over = watched.over.unwrap();
    assert!((300..360).contains(&over), "{over}");
    assert_eq!(watched.begun, None);
}

#[test]
fn nothing_is_learned_from_an_attack() {
    let mut watched = Trial::used_to(2000.0);
    let before = watched.detector.learned(Signal::Packets);
    watched.run(3600, |_| visitors(50_000.0));
    let after = watched.detector.learned(Signal::Packets);
    assert_eq!(before.high, after.high);
    watched.run(60, |tick| visitors(2000.0 * jitter(tick)));
    watched.run(10, |_| visitors(50_000.0));
    assert!(watched.begun.unwrap() < 6);
}

#[test]
fn twice_the_visitors_are_no_attack_and_a_crowd_that_grows_is_none() {
    let mut watched = Trial::used_to(2000.0);
    watched.run(120, |tick| visitors(4000.0 * jitter(tick)));
    assert_eq!(watched.begun, None);
    // Ten times within half an hour.
    watched.run(1800, |tick| visitors((2000.0 + 10.0 * f64::from(tick) / 10.0) * jitter(tick)));
    assert_eq!(watched.begun, None);
}

#[test]
fn a_day_and_a_night_are_no_attack() {
    let mut watched = Trial::used_to(1000.0);
    // A day of 24 hours, from 200 to 3800 packets per second; one sample in a hundred stands for all.
    let day = 864_000;
    for tick in (0..2 * day).step_by(100) {
        let angle = f64::from(tick) / f64::from(day) * std::f64::consts::TAU;
        let packets = (2000.0 + 1800.0 * angle.sin()) * jitter(tick);
        let change = watched.detector.handle_sample(&visitors(packets), TICK * 100, true);
        assert_eq!(change, None, "tick {tick}");
    }
}

#[test]
fn a_burst_is_no_attack_and_pulses_are() {
    let mut watched = Trial::used_to(2000.0);
    watched.run(60, |tick| visitors(if tick < 3 { 100_000.0 } else { 2000.0 }));
    assert_eq!(watched.begun, None);
    // 200 ms of each second.
    watched.run(30, |tick| visitors(if tick % 10 < 2 { 40_000.0 } else { 2000.0 }));
    assert!(watched.begun.is_some_and(|tick| tick < 100), "{:?}", watched.begun);
    assert_eq!(watched.over, None);
}

#[test]
fn a_flood_that_swells_is_found_before_it_is_large() {
    let mut watched = Trial::used_to(2000.0);
    // From nothing to 100,000 packets per second within 100 s.
    watched.run(100, |tick| visitors(2000.0 + 100.0 * f64::from(tick)));
    let begun = watched.begun.unwrap();
    assert!(begun < 150, "{begun}");
}

#[test]
fn syns_of_few_bits_are_found() {
    let mut watched = Trial::used_to(2000.0);
    // 500 SYNs of 60 bytes: 240 kb/s beside 8 Mb/s, and a quarter more packets.
    watched.run(10, |_| traffic(2500.0, 8e6 + 240e3, 550.0, 10.0));
    assert!(watched.begun.unwrap() < 6);
    assert_eq!(watched.detector.attack().unwrap().kind, AlertKind::Syn);
}

#[test]
fn new_sources_alone_are_found() {
    let mut watched = Trial::used_to(2000.0);
    watched.run(10, |_| traffic(2500.0, 8e6, 50.0, 500.0));
    assert!(watched.begun.unwrap() < 6);
    assert_eq!(watched.detector.attack().unwrap().kind, AlertKind::NewSources);
}

#[test]
fn loss_is_an_attack_if_the_line_is_busy() {
    let mut watched = Trial::used_to(2000.0);
    watched.detector.handle_loss(Some(0.4));
    watched.run(10, |_| visitors(500.0));
    assert_eq!(watched.begun, None);
    watched.run(10, |_| visitors(2500.0));
    assert!(watched.begun.unwrap() < 6);
    assert_eq!(watched.detector.attack().unwrap().kind, AlertKind::Loss);
    watched.detector.handle_loss(Some(0.0));
    watched.run(60, |_| visitors(2000.0));
    assert!(watched.over.is_some());
}

#[test]
fn what_is_fixed_counts_from_the_start() {
    let fixed = [(Signal::Bits, 9e6)].into_iter().collect();
    let mut watched = Trial::new(Policy { fixed, ..Policy::default() });
    watched.run(10, |_| visitors(2000.0));
    assert_eq!(watched.begun, None);
    watched.run(10, |_| visitors(2500.0));
    assert!(watched.begun.unwrap() < 6);
}

#[test]
fn what_was_learned_survives() {
    let before = Trial::used_to(2000.0);
    let detector = ServiceDetector::new(Policy::default(), |signal| Some(before.detector.learned(signal)));
    let mut watched = Trial { detector, ..Trial::new(Policy::default()) };
    watched.run(5, |_| visitors(20_000.0));
    assert!(watched.begun.unwrap() < 6);
}

#[test]
fn a_busy_service_is_learned_before_it_is_judged() {
    let mut watched = Trial::new(Policy::default());
    watched.run(300, |tick| visitors(80_000.0 * jitter(tick)));
    assert_eq!(watched.begun, None);
}

#[test]
fn a_late_sample_is_no_proof() {
    let mut watched = Trial::used_to(2000.0);
    let change = watched.detector.handle_sample(&visitors(90_000.0), TICK * 30, true);
    assert_eq!(change, None);
}

proptest! {
    /// Nothing below the floors, and nothing below twice the usual, is an attack, in whatever order.
    #[test]
    fn little_is_no_attack(values in proptest::collection::vec(0.0..1.0_f64, 1..400), usual in 100.0..50_000.0_f64) {
        let mut watched = Trial::used_to(usual);
        watched.run(40, |tick| visitors(values[tick as usize % values.len()] * usual * 2.0));
        prop_assert_eq!(watched.begun, None);
        let floors = |share: f64| traffic(999.0 * share, 1.9e6 * share, 99.0 * share, 49.0 * share);
        let mut silent = Trial::used_to(1.0);
        silent.run(40, |tick| floors(values[tick as usize % values.len()]));
        prop_assert_eq!(silent.begun, None);
    }

    /// Ten times the usual is found within six samples, whatever is usual, and however it was learned.
    #[test]
    fn ten_times_is_always_found(usual in 500.0..200_000.0_f64, times in 10.0..1000.0_f64) {
        let mut watched = Trial::used_to(usual);
        watched.run(2, |tick| visitors(usual * times * jitter(tick)));
        prop_assert!(watched.begun.is_some_and(|tick| tick < 6), "{:?}", watched.begun);
    }

    /// Whatever comes: an attack ends once it is calm, and begins only if there was none.
    #[test]
    fn attacks_take_turns(values in proptest::collection::vec(0.0..1e6_f64, 1..600)) {
        let mut watched = Trial::used_to(1000.0);
        let mut is_attacked = false;
        for value in values {
            match watched.detector.handle_sample(&visitors(value), TICK, true) {
                Some(Change::Begun(_)) => { prop_assert!(!is_attacked); is_attacked = true; }
                Some(Change::Over) => { prop_assert!(is_attacked); is_attacked = false; }
                None => {}
            }
            prop_assert_eq!(watched.detector.attack().is_some(), is_attacked);
        }
        watched.run(60, |_| visitors(500.0));
        prop_assert!(watched.detector.attack().is_none());
    }
}
