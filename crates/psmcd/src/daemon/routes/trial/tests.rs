use std::time::Instant;

use psmc_core::PathState;

use super::super::health::{LOOK_INTERVAL, Record};
use super::super::policy::{Judge, Seen, Way};
use super::*;
use crate::config::RoutePolicy;

/// The round trip of the idle path.
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// What a full queue adds to it.
const QUEUE: Duration = Duration::from_millis(50);

/// A flood that comes in pulses.
#[derive(Clone, Copy, Debug)]
struct Pulses {
    period_ms: u64,
    /// For how much of it the line is full.
    per_cent: u64,
    /// How many of the packets that meet a pulse are lost, in a hundred; the others wait.
    lost: u64,
}

/// A host that stands still now and then: what comes meanwhile comes all at once.
#[derive(Clone, Copy, Debug)]
struct Stutter {
    period_ms: u64,
    length_ms: u64,
}

/// A direct path that is probed, and what is decided.
struct World {
    start: Instant,
    ms: u64,
    record: Record,
    judge: Judge,
    pulses: Option<Pulses>,
    /// How many packets are lost in a hundred, always.
    noise: u64,
    /// By how much round trips vary, always.
    jitter_ms: u64,
    stutter: Option<Stutter>,
    /// The probes whose answers are held up, and when the first and the last one left.
    held: Option<(u64, [u64; 2])>,
    count: Count,
    round_trip: Duration,
    next_probe_ms: u64,
    random: u64,
    state: PathState,
    /// When other paths began to carry the data, in turns.
    moves: Vec<(u64, Way)>,
}

impl World {
    fn new(noise: u64) -> Self {
        Self {
            start: Instant::now(),
            ms: 0,
            record: Record::default(),
            judge: Judge::default(),
            pulses: None,
            noise,
            jitter_ms: 0,
            stutter: None,
            held: None,
            count: Count::default(),
            round_trip: ROUND_TRIP,
            next_probe_ms: 0,
            random: 1,
            state: PathState::Active,
            moves: Vec::new(),
        }
    }

    /// A number below 100 by chance.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % 100
    }

    /// Lets time pass, with a look every 100 ms.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 {
            let stands_still = self.stands_still();
            if !stands_still {
                self.let_go();
            }
            if self.ms >= self.next_probe_ms {
                if stands_still { self.hold() } else { self.probe() }
            }
            if u128::from(self.ms) % LOOK_INTERVAL.as_millis() == 0 {
                self.look();
            }
            self.ms += 1;
        }
    }

    fn probe(&mut self) {
        let meets = self
            .pulses
            .filter(|pulses| self.ms % pulses.period_ms * 100 < pulses.per_cent * pulses.period_ms);
        let percent = meets.map_or(self.noise, |pulses| pulses.lost.max(self.noise));
        let is_lost = self.draw() < percent;
        self.count = Count { settled: self.count.settled + 1, lost: self.count.lost + u64::from(is_lost) };
        let carries = self.judge.plan().way == Way::Direct;
        // Where there are data, the next packet is acknowledged before the silence is noticed.
        self.state = if is_lost && !carries { PathState::Suspect } else { PathState::Active };
        if !is_lost {
            let jitter = Duration::from_millis(self.jitter_ms * self.draw() / 100);
            self.round_trip = ROUND_TRIP + jitter + meets.map_or(Duration::ZERO, |_| QUEUE);
        }
        // From 30 to 70 ms, and a data path sees much more.
        let interval = if carries { 5 } else { 30 + self.draw() * 40 / 100 };
        self.next_probe_ms = self.ms + interval;
    }

    fn stands_still(&self) -> bool {
        let carries = self.judge.plan().way == Way::Direct;
        !carries && self.stutter.is_some_and(|stutter| self.ms % stutter.period_ms < stutter.length_ms)
    }

    /// A probe whose answer is held up.
    fn hold(&mut self) {
        let (count, [first, _]) = self.held.unwrap_or((0, [self.ms; 2]));
        self.held = Some((count + 1, [first, self.ms]));
        if first + 40 <= self.ms {
            self.state = PathState::Suspect;
        }
        self.next_probe_ms = self.ms + 20;
    }

    /// All that was held up arrives, the newest last.
    fn let_go(&mut self) {
        if let Some((count, [_, last])) = self.held.take() {
            self.count.settled += count;
            self.round_trip = ROUND_TRIP + Duration::from_millis(self.ms - last);
            self.state = PathState::Active;
        }
    }

    fn look(&mut self) {
        let way = self.judge.plan().way;
        let look = Look {
            at: self.start + Duration::from_millis(self.ms),
            state: self.state,
            counts: [self.count, Count::default()],
            round_trip: Some(self.round_trip),
            least_round_trip: Some(ROUND_TRIP),
        };
        let direct = self.record.look(look, way == Way::Direct);
        let is_proven = self.record.is_proven(self.judge.return_after());
        let seen = Seen { direct, is_proven, learned_works: true };
        let plan = self.judge.look(RoutePolicy::PreferDirect, seen, look.at);
        if plan.way != way {
            self.moves.push((self.ms, plan.way));
        }
    }

    /// What carried the data, in turns.
    fn ways(&self) -> Vec<Way> {
        self.moves.iter().map(|(_, way)| *way).collect()
    }
}

/// A path that has been left for a flood, which then becomes such pulses.
fn pulsed(pulses: Pulses, noise: u64) -> World {
    let mut world = World::new(noise);
    world.run(20);
    assert_eq!(world.ways(), []);
    world.pulses = Some(Pulses { period_ms: 1000, per_cent: 100, lost: 90 });
    world.run(2);
    assert_eq!(world.ways(), [Way::Learned]);
    world.pulses = Some(pulses);
    world
}

#[test]
fn between_the_pulses_of_an_attack_nobody_returns_and_after_it_everybody_does() {
    for period_ms in [100, 130, 200, 300, 500, 700, 1000, 1500, 2000] {
        for per_cent in [10, 20, 50, 80] {
            let pulses = Pulses { period_ms, per_cent, lost: 90 };
            let mut world = pulsed(pulses, 0);
            world.run(120);
            assert_eq!(world.ways(), [Way::Learned], "{pulses:?}: {:?}", world.moves);
            let end = world.ms;
            world.pulses = None;
            world.run(20);
            let (back, way) = world.moves[world.moves.len() - 1];
            assert_eq!((way, world.moves.len()), (Way::Direct, 2), "{pulses:?}");
            assert!((3500..8000).contains(&(back - end)), "{pulses:?}: {} ms", back - end);
        }
    }
}

#[test]
fn half_a_second_without_a_loss_between_two_pulses_is_well_and_proves_nothing() {
    let mut world = pulsed(Pulses { period_ms: 2000, per_cent: 10, lost: 90 }, 0);
    let mut well = 0;
    for _ in 0..60 {
        world.run(1);
        well += u32::from(world.record.look(last(&world), false) == Health::Well);
    }
    assert!(well > 10, "the path seemed well {well} times");
    assert_eq!(world.ways(), [Way::Learned]);
}

fn last(world: &World) -> Look {
    Look {
        at: world.start + Duration::from_millis(world.ms),
        state: world.state,
        counts: [world.count, Count::default()],
        round_trip: Some(world.round_trip),
        least_round_trip: Some(ROUND_TRIP),
    }
}

#[test]
fn a_full_queue_that_loses_nothing_is_no_proof() {
    let mut world = pulsed(Pulses { period_ms: 300, per_cent: 80, lost: 0 }, 0);
    world.run(120);
    assert_eq!(world.ways(), [Way::Learned], "{:?}", world.moves);
    world.pulses = None;
    world.run(15);
    assert_eq!(world.ways(), [Way::Learned, Way::Direct]);
}

#[test]
fn a_host_that_stutters_returns_all_the_same() {
    for (period_ms, length_ms) in [(500, 60), (1000, 120), (2000, 250), (3000, 280)] {
        let mut world = pulsed(Pulses { period_ms: 1000, per_cent: 100, lost: 90 }, 0);
        world.stutter = Some(Stutter { period_ms, length_ms });
        world.run(10);
        assert_eq!(world.ways(), [Way::Learned]);
        world.pulses = None;
        world.run(20);
        assert_eq!(world.ways(), [Way::Learned, Way::Direct], "{:?}: {:?}", world.stutter, world.moves);
    }
}

#[test]
fn delays_that_vary_are_no_queue() {
    let mut world = pulsed(Pulses { period_ms: 1000, per_cent: 100, lost: 90 }, 0);
    world.pulses = None;
    // One in four is longer than a queue would make it.
    world.jitter_ms = 40;
    world.run(60);
    assert_eq!(world.ways(), [Way::Learned, Way::Direct], "{:?}", world.moves);
}

#[test]
fn a_path_that_always_loses_some_is_as_good_as_before_with_these_losses() {
    let mut world = pulsed(Pulses { period_ms: 200, per_cent: 50, lost: 60 }, 3);
    world.run(60);
    assert_eq!(world.ways(), [Way::Learned], "{:?}", world.moves);
    world.pulses = None;
    world.run(40);
    assert_eq!(world.ways(), [Way::Learned, Way::Direct], "{:?}", world.moves);
}

#[test]
fn a_few_probes_prove_nothing_however_long_they_take() {
    let mut trial = Trial::default();
    let start = Instant::now();
    let look = |second: u64| Look {
        at: start + Duration::from_secs(second),
        state: PathState::Active,
        counts: [Count { settled: second, lost: 0 }, Count::default()],
        round_trip: Some(ROUND_TRIP),
        least_round_trip: Some(ROUND_TRIP),
    };
    let passed = |second| {
        trial.look(look(second), Health::Well, false);
        trial.is_passed(Duration::from_secs(10))
    };
    let passed: Vec<_> = (0..60).map(passed).collect();
    assert_eq!(passed.iter().position(|&passed| passed), Some(40));
}
