//! Networks of nodes around a shedder, with delays.

use std::collections::VecDeque;

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem};
use proptest::prelude::*;

use super::*;
use crate::MAX_RATE;

const CLASS: ClassId = ClassId(1);

/// What nodes are told and tell, each after a delay of its own, in steps of virtual time.
struct Net {
    shedder: Shedder,
    nodes: Vec<Place>,
    interval: Duration,
    now: Duration,
    /// Whether the server counts what arrives.
    counts: bool,
    arrived: f64,
    counted_from: Duration,
}

struct Place {
    demand: f64,
    /// One way.
    delay: Duration,
    /// What of what it passes is lost behind it.
    lost: f64,
    throttle: Option<f64>,
    rules: VecDeque<(Duration, Option<f64>)>,
    reports: VecDeque<(Duration, Report)>,
    offered: f64,
    passed: f64,
    reported: Duration,
}

const STEP: Duration = Duration::from_millis(10);

impl Net {
    fn new(config: Config, accepted: f64, demands: &[f64], delays: &[Duration], interval: Duration) -> Self {
        let mut shedder = Shedder::new(config);
        shedder.accept(CLASS, accepted).unwrap();
        let place = |(&demand, &delay): (&f64, &Duration)| Place {
            demand,
            delay,
            lost: 0.0,
            throttle: None,
            rules: VecDeque::new(),
            reports: VecDeque::new(),
            offered: 0.0,
            passed: 0.0,
            reported: Duration::ZERO,
        };
        let nodes = demands.iter().zip(delays.iter().cycle()).map(place).collect();
        let (now, zero) = (Duration::ZERO, Duration::ZERO);
        Self { shedder, nodes, interval, now, counts: false, arrived: 0.0, counted_from: zero }
    }

    /// Ten milliseconds, and what arrives at the server in them, per second.
    fn step(&mut self) -> f64 {
        self.now += STEP;
        let now = self.now;
        let mut arrived = 0.0;
        for (node, place) in (0..).map(NodeId).zip(&mut self.nodes) {
            arrived += place.step(now, self.interval);
            while let Some((_, report)) = place.reports.pop_front_if(|(at, _)| *at <= now) {
                self.shedder.report(node, CLASS, report, now).unwrap();
            }
        }
        self.arrived += arrived * STEP.as_secs_f64();
        if now - self.counted_from >= self.interval {
            let interval = now - std::mem::replace(&mut self.counted_from, now);
            let amount = std::mem::take(&mut self.arrived);
            if self.counts {
                self.shedder.arrived(CLASS, amount, interval, now).unwrap();
            }
            let rules = self.shedder.rules(now);
            for (node, place) in (0..).map(NodeId).zip(&mut self.nodes) {
                let rate = rules.iter().find(|rule| rule.node == node).map(|rule| rule.rate);
                place.rules.push_back((now + place.delay, rate));
            }
        }
        arrived
    }

    /// So many steps, and the mean of what arrived.
    fn run(&mut self, time: Duration) -> f64 {
        let steps = u32::try_from(time.as_millis() / STEP.as_millis()).unwrap();
        (0..steps).map(|_| self.step()).sum::<f64>() / f64::from(steps.max(1))
    }

    fn passing(&self) -> Vec<f64> {
        self.nodes.iter().map(Place::passing).collect()
    }

    fn demands(&self) -> Vec<f64> {
        self.nodes.iter().map(|place| place.demand).collect()
    }
}

impl Place {
    fn passing(&self) -> f64 {
        self.throttle.map_or(self.demand, |throttle| throttle.min(self.demand))
    }

    fn step(&mut self, now: Duration, interval: Duration) -> f64 {
        while let Some((_, throttle)) = self.rules.pop_front_if(|(at, _)| *at <= now) {
            self.throttle = throttle;
        }
        self.offered += self.demand * STEP.as_secs_f64();
        self.passed += self.passing() * STEP.as_secs_f64();
        if now - self.reported >= interval {
            let interval = now - std::mem::replace(&mut self.reported, now);
            let (offered, passed) = (std::mem::take(&mut self.offered), std::mem::take(&mut self.passed));
            self.reports.push_back((now + self.delay, Report { until: now, interval, offered, passed }));
        }
        self.passing() * (1.0 - self.lost)
    }
}

/// The max–min optimum, by linear programs: the least is made as much as possible, then the least of the others, and so on.
fn optimum(accepted: f64, demands: &[f64]) -> Vec<f64> {
    let mut fixed: Vec<Option<f64>> = vec![None; demands.len()];
    while fixed.contains(&None) {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let least = problem.add_var(1.0, (0.0, f64::INFINITY));
        let mut sum = LinearExpr::empty();
        for (demand, fixed) in demands.iter().zip(&fixed) {
            let share = problem.add_var(0.0, fixed.map_or((0.0, *demand), |share| (share, share)));
            sum.add(share, 1.0);
            if fixed.is_none() {
                problem.add_constraint([(share, 1.0), (least, -1.0)], ComparisonOp::Ge, 0.0);
            }
        }
        problem.add_constraint(sum, ComparisonOp::Le, accepted);
        let level = problem.solve().unwrap().into_solution().unwrap().var_value(least);
        let is_sated =
            |(demand, fixed): (&f64, &Option<f64>)| fixed.is_none() && *demand <= level * (1.0 + 1e-9);
        let sated: Vec<_> = demands.iter().zip(&fixed).map(is_sated).collect();
        let none = !sated.contains(&true);
        for ((fixed, demand), is_sated) in fixed.iter_mut().zip(demands).zip(sated) {
            if is_sated || (none && fixed.is_none()) {
                *fixed = Some(level.min(*demand));
            }
        }
    }
    fixed.into_iter().flatten().collect()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn delays() -> impl Strategy<Value = Vec<Duration>> {
    proptest::collection::vec((0u64..30).prop_map(|tens| ms(tens * 10)), 8)
}

/// What a headroom of a tenth may add, and noise of computing.
const WITH_HEADROOM: f64 = 1.1 + 1e-9;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Six reports suffice: one that says what is offered, and those that are under way until its rules are known everywhere.
    #[test]
    fn the_optimum_is_reached_within_six_reports_under_delay(
        accepted in 1.0..1e6,
        shares in proptest::collection::vec(0.0..3.0, 1..12),
        delays in delays(),
    ) {
        let demands: Vec<f64> = shares.iter().map(|share| share * accepted).collect();
        let mut net = Net::new(Config::default(), accepted, &demands, &delays, ms(200));
        net.run(ms(200) * 6);
        let best = optimum(accepted, &demands);
        for (passing, best) in net.passing().iter().zip(&best) {
            prop_assert!(*passing >= 0.95 * best, "{:?}, not {best:?}", net.passing());
        }
        let sum: f64 = net.passing().iter().sum();
        prop_assert!(sum <= accepted * (1.0 + 1e-9), "{sum} of {accepted}");
    }

    /// Whatever is offered, and however that changes.
    #[test]
    fn throttles_are_never_more_than_the_headroom_above_what_is_accepted(
        accepted in 1.0..1e6,
        turns in proptest::collection::vec(proptest::collection::vec(0.0..3.0, 8), 1..6),
        delays in delays(),
    ) {
        let mut net = Net::new(Config::default(), accepted, &[0.0; 8], &delays, ms(100));
        for turn in turns {
            for (place, share) in net.nodes.iter_mut().zip(&turn) {
                place.demand = share * accepted;
            }
            for _ in 0..100 {
                net.step();
                let offered = net.shedder.offered(CLASS, net.now).unwrap();
                let sum: f64 = net.shedder.rules(net.now).iter().map(|rule| rule.rate).sum();
                // Once less is offered than accepted, more may pass than is.
                prop_assert!(offered <= accepted || sum <= accepted * WITH_HEADROOM, "{sum} of {accepted}");
            }
            // The bound on what is on its way: a second after the last change no rule of before is left.
            let demand: f64 = net.demands().iter().sum();
            let passing: f64 = net.passing().iter().sum();
            prop_assert!(passing <= accepted.min(demand) * WITH_HEADROOM, "{passing} of {accepted}");
        }
    }

    #[test]
    fn a_shift_of_demand_is_followed_within_a_second(
        accepted in 100.0..1e6,
        many in 1.0..4.0,
        few in 0.0..0.2,
        delay in 0u64..20,
        count in 2usize..8,
    ) {
        let mut demands = vec![few * accepted; count];
        demands[0] = many * accepted;
        let mut net = Net::new(Config::default(), accepted, &demands, &[ms(delay * 10)], ms(200));
        net.run(ms(5000));
        net.nodes[0].demand = few * accepted;
        net.nodes[1].demand = many * accepted;
        net.run(ms(1000));
        let used = net.run(ms(200)) / accepted.min(net.demands().iter().sum());
        prop_assert!((0.95..=WITH_HEADROOM).contains(&used), "{used}");
    }

    /// What a liar says does not change what others get beyond the share that an honest node would take of them.
    #[test]
    fn who_overstates_gets_no_more_than_the_others(claim in 1.0..1e6, delays in delays()) {
        let demands = [300.0, 300.0, 300.0, 300.0];
        let mut net = Net::new(Config::default(), 400.0, &demands, &delays, ms(200));
        let liar = NodeId(9);
        for _ in 0..50 {
            net.run(ms(200));
            let report = Report { until: net.now, interval: ms(200), offered: claim * 400.0, passed: 0.0 };
            net.shedder.report(liar, CLASS, report, net.now).unwrap();
        }
        let sum: f64 = net.passing().iter().sum();
        prop_assert!(sum >= 0.95 * 400.0, "what the liar does not use goes to the others: {:?}", net.passing());
    }

    /// The same of one that also says that it lets everything pass, of which nothing arrives.
    #[test]
    fn who_invents_traffic_idles_no_server(claim in 1.0..1e6, delays in delays()) {
        let demands = [300.0, 300.0, 300.0, 300.0];
        let mut net = Net::new(Config::default(), 400.0, &demands, &delays, ms(200));
        net.counts = true;
        let liar = NodeId(9);
        let mut last = 0.0;
        for _ in 0..50 {
            last = net.run(ms(200));
            let amount = claim * 400.0;
            let report = Report { until: net.now, interval: ms(200), offered: amount, passed: amount };
            net.shedder.report(liar, CLASS, report, net.now).unwrap();
        }
        prop_assert!((0.9 * 400.0..=1.1 * 400.0).contains(&last), "{last}");
    }

    #[test]
    fn nonsense_is_refused_and_changes_nothing(
        node in 0u32..4,
        until in -3000i64..3000,
        interval in 0u64..5000,
        offered in proptest::num::f64::ANY,
        passed in proptest::num::f64::ANY,
    ) {
        let mut net = Net::new(Config::default(), 400.0, &[300.0; 4], &[ms(50)], ms(200));
        net.run(ms(5000));
        let before = net.shedder.rules(net.now);
        let until = Duration::from_millis(u64::try_from(5000 + until).unwrap());
        let report = Report { until, interval: ms(interval), offered, passed };
        let seconds = report.interval.as_secs_f64();
        let outcome = net.shedder.report(NodeId(node), CLASS, report, net.now);
        let is_sane = offered >= 0.0 && offered <= MAX_RATE * seconds && (0.0..=offered).contains(&passed);
        prop_assert!(is_sane || outcome.is_err(), "{report:?}");
        if outcome.is_err() {
            prop_assert_eq!(net.shedder.rules(net.now), before);
            prop_assert_eq!(net.shedder.refused().values().sum::<u64>(), 1);
        }
    }
}

#[test]
fn there_are_no_rules_before_there_is_overload_nor_long_after_it() {
    let mut net = Net::new(Config::default(), 400.0, &[100.0, 100.0], &[ms(50)], ms(200));
    net.run(ms(2000));
    assert_eq!(net.shedder.rules(net.now), []);
    net.nodes[0].demand = 1000.0;
    net.run(ms(1000));
    assert_eq!(net.shedder.rules(net.now).len(), 2);
    net.nodes[0].demand = 100.0;
    net.run(ms(2000));
    assert_eq!(net.shedder.rules(net.now).len(), 2, "they end by steps");
    net.run(ms(9000));
    assert_eq!(net.shedder.rules(net.now), []);
    assert!(net.passing() == [100.0, 100.0]);
}

/// What passes is never above the limit, so that a machine that looked at that would relax, and be flooded, again and again.
#[test]
fn rules_stay_while_more_is_offered_than_accepted() {
    let mut net = Net::new(Config::default(), 400.0, &[1000.0, 100.0], &[ms(50)], ms(200));
    net.run(ms(1000));
    for _ in 0..600 {
        let arrived = net.run(ms(100));
        assert!((0.95 * 400.0..=400.0 + 1e-6).contains(&arrived), "{arrived}");
    }
}

#[test]
fn a_shedder_that_is_started_anew_lets_no_flood_through() {
    let mut net = Net::new(Config::default(), 400.0, &[1000.0, 1000.0], &[ms(50)], ms(200));
    net.run(ms(2000));
    net.shedder = Shedder::new(Config::default());
    net.shedder.accept(CLASS, 400.0).unwrap();
    for (node, place) in (0..).map(NodeId).zip(&net.nodes) {
        net.shedder.adopt(node, CLASS, place.throttle.unwrap(), net.now).unwrap();
    }
    for _ in 0..50 {
        let arrived = net.run(ms(20));
        assert!(arrived <= 400.0 * WITH_HEADROOM, "{arrived}");
    }
}

#[test]
fn what_is_lost_on_the_way_is_made_up_for() {
    let mut net = Net::new(Config::default(), 400.0, &[1000.0, 1000.0], &[ms(50)], ms(200));
    net.counts = true;
    net.nodes.iter_mut().for_each(|place| place.lost = 0.2);
    net.run(ms(10_000));
    let arrived = net.run(ms(1000));
    assert!((0.97 * 400.0..=1.03 * 400.0).contains(&arrived), "{arrived}");
    // No more than a half is made up for: behind the nodes everything may be full.
    net.nodes.iter_mut().for_each(|place| place.lost = 0.99);
    net.run(ms(10_000));
    let passing: f64 = net.passing().iter().sum();
    assert!(passing <= 800.0 * WITH_HEADROOM, "{passing}");
}

#[test]
fn what_comes_by_no_node_is_left_room_for() {
    let mut net = Net::new(Config::default(), 400.0, &[1000.0, 1000.0], &[ms(50)], ms(200));
    net.run(ms(2000));
    for _ in 0..50 {
        net.run(ms(200));
        let arriving: f64 = net.passing().iter().sum::<f64>() + 100.0;
        net.shedder.arrived(CLASS, arriving * 0.2, ms(200), net.now).unwrap();
    }
    let passing: f64 = net.passing().iter().sum();
    assert!((290.0..=310.0).contains(&passing), "{passing}");
}

/// The seed's own division, beside ours: after drops whoever is throttled to a share arrives with that share, however much it is
/// offered.
#[test]
fn the_seeds_method_keeps_the_shares_that_it_has_found() {
    let demands = [1000.0, 1000.0, 1000.0, 200.0];
    let unfair = |method| {
        let config = Config { method, ..Config::default() };
        let mut net = Net::new(config, 400.0, &demands, &[ms(50)], ms(200));
        net.nodes[0].demand = 100.0;
        net.run(ms(3000));
        net.nodes[0].demand = 1000.0;
        net.run(ms(3000));
        net.passing()[0]
    };
    assert!(unfair(Method::MaxMin) > 95.0);
    assert!(unfair(Method::Seed { k: 1.0 }) < 50.0);
}

#[test]
fn nodes_and_classes_are_bounded() {
    let mut shedder = Shedder::new(Config::default());
    let classes = (0..5000).filter(|class| shedder.accept(ClassId(*class), 1.0).is_ok()).count();
    assert_eq!(classes, MAX_CLASSES);
    let report = |until| Report { until, interval: ms(100), offered: 10.0, passed: 10.0 };
    let mut nodes = |ids: std::ops::Range<u32>, now| {
        ids.filter(|node| shedder.report(NodeId(*node), ClassId(0), report(now), now).is_ok()).count()
    };
    assert_eq!(nodes(0..5000, ms(100)), MAX_NODES);
    assert_eq!(nodes(6000..6001, ms(200)), 0);
    assert_eq!(nodes(6000..6010, ms(3000)), 10, "others have said nothing for long");
    assert_eq!(shedder.refused()[&Refusal::TooMany], 5000 - 1024 + 5000 - 1024 + 1);
}

#[test]
fn reports_that_come_twice_or_overtake_each_other_count_once() {
    let mut shedder = Shedder::new(Config::default());
    shedder.accept(CLASS, 100.0).unwrap();
    let report = |until, offered| Report { until: ms(until), interval: ms(100), offered, passed: 0.0 };
    let mut hand_over = |report| shedder.report(NodeId(1), CLASS, report, ms(400));
    assert_eq!(hand_over(report(300, 50.0)), Ok(()));
    assert_eq!(hand_over(report(300, 50.0)), Err(Refusal::Overtaken));
    assert_eq!(hand_over(report(200, 1.0)), Err(Refusal::Overtaken));
    assert_eq!(hand_over(report(500, 1.0)), Err(Refusal::NotOfThisTime));
    assert_eq!(shedder.offered(CLASS, ms(400)), Some(500.0));
    assert_eq!(shedder.report(NodeId(1), ClassId(2), report(300, 1.0), ms(400)), Err(Refusal::UnknownClass));
}
