//! A path that was cut and is back is in full use soon, and the paths that never were cut stay so.

use std::time::Duration;

use psmc_sim::link::{LinkConfig, QueueLimit};
use psmc_sim::{CongestionControl, TrafficKind};

use crate::world::{self, direction, ms, pair, secs};

/// The inner flow has found its rate by then, and the first link is cut.
const CUT_AT: Duration = Duration::from_secs(6);

/// So long it stays cut.
const CUT_FOR: Duration = Duration::from_secs(3);

/// What is looked at, from the return on.
const STEP: Duration = Duration::from_millis(500);
const STEPS: usize = 8;

/// Links in Mb/s, and what they carried in each step after the return.
struct Course {
    rates: Vec<f64>,
    carried: Vec<Vec<f64>>,
}

fn link(mbit: u64, delay: Duration) -> [LinkConfig; 2] {
    let there = LinkConfig { queue: QueueLimit::Time(ms(50)), ..direction(mbit, delay, 64) };
    [there.clone(), there]
}

/// The first of these links is cut, and mended, while one inner flow fills all of them.
fn course(rates: &[u64], links: &[[LinkConfig; 2]], control: CongestionControl, seed: u64) -> Course {
    let (mut lab, hosts, ids) = pair(seed, links);
    lab.tunnel(hosts, &ids, 0);
    let flow = TrafficKind::Tcp { congestion_control: control, flows: 1, bytes: None, buffer: 4 << 20 };
    lab.traffic(flow, hosts[0], hosts[1], "10.77.0.2", [ms(1000 + 37 * seed), secs(1000)]);
    lab.run_for(CUT_AT);
    lab.world.set_link_up(ids[0], false);
    lab.run_for(CUT_FOR);
    lab.world.set_link_up(ids[0], true);
    let bytes = |lab: &world::Lab, index: usize| lab.world.link_counters(ids[index])[0].carried_bytes;
    let mut carried = Vec::new();
    for _ in 0..STEPS {
        let before: Vec<_> = (0..ids.len()).map(|index| bytes(&lab, index)).collect();
        lab.run_for(STEP);
        let mbit =
            |index: usize| (bytes(&lab, index) - before[index]) as f64 * 8.0 / 1e6 / STEP.as_secs_f64();
        carried.push((0..ids.len()).map(mbit).collect());
    }
    Course { rates: rates.iter().map(|rate| *rate as f64).collect(), carried }
}

/// The courses with several seeds and inner congestion controls.
fn courses(rates: &[u64], links: &[[LinkConfig; 2]]) -> Vec<(String, Course)> {
    let each = [1, 2, 3, 4, 5]
        .into_iter()
        .flat_map(|seed| [CongestionControl::Cubic, CongestionControl::Reno].map(|control| (seed, control)));
    each.map(|(seed, control)| (format!("seed {seed}, {control:?}"), course(rates, links, control, seed)))
        .collect()
}

impl Course {
    /// The share that all links together were used to in a step.
    fn used(&self, step: usize) -> f64 {
        self.carried[step].iter().sum::<f64>() / self.rates.iter().sum::<f64>()
    }

    /// The same for one link.
    fn used_of(&self, link: usize, step: usize) -> f64 {
        self.carried[step][link] / self.rates[link]
    }
}

/// As in `psmc demo`: what one inner flow has on its way suffices for all links.
#[test]
fn a_short_path_that_is_back_is_in_full_use_at_once() {
    let rates = [40, 30, 20];
    let links = rates.map(|mbit| link(mbit, Duration::from_micros(100)));
    let courses = courses(&rates, &links);
    for (what, course) in &courses {
        assert!(course.used_of(0, 0) >= 0.9, "{what}: {:.1?}", course.carried);
        for step in 0..STEPS {
            let least = (1..rates.len()).map(|link| course.used_of(link, step)).fold(1.0, f64::min);
            let all_used = step == 0 || course.used(step) >= 0.94;
            assert!(least >= 0.8 && all_used, "{what}, step {step}: {:.1?}", course.carried);
        }
    }
    let used = courses.iter().flat_map(|(_, course)| (1..STEPS).map(|step| course.used(step)));
    let mean = used.sum::<f64>() / (courses.len() * (STEPS - 1)) as f64;
    assert!(mean >= 0.99, "{mean} as a rule");
}

/// Here an inner flow that has filled one path has not enough on its way for two: it has to grow first.
#[test]
fn a_longer_path_that_is_back_is_in_full_use_as_soon_as_the_flow_inside_allows() {
    let rates = [20, 20];
    let links = rates.map(|mbit| link(mbit, ms(10)));
    for (what, course) in courses(&rates, &links) {
        assert!(course.used_of(0, 0) >= 0.5 && course.used(0) >= 0.5, "{what}: {:.1?}", course.carried);
        for step in 1..STEPS {
            let least = if step < 2 { 0.7 } else { 0.9 };
            assert!(course.used(step) >= least, "{what}, step {step}: {:.1?}", course.carried);
        }
    }
}
