//! What links carry.

use std::time::Duration;

use super::ticks;
use crate::measure::Carried;
use crate::results::LinkResult;
use crate::run::stage::Stage;
use crate::scenario::{LinkId, Scenario};
use crate::traffic::Clock;

/// What all links have carried, direction by direction.
#[derive(Debug)]
pub(in crate::run) struct Links(Vec<[Carried; 2]>);

impl Links {
    /// Looks at the end of each interval of the run.
    pub(in crate::run) async fn sample(stage: &Stage, clock: Clock) -> Self {
        let scenario = stage.scenario();
        let counters = |id: usize| stage.counters(LinkId(id));
        clock.sleep_until(Duration::ZERO).await;
        let mut links: Vec<_> = (0..scenario.links.len())
            .map(|id| counters(id).map(|counters| Carried::new(counters, scenario)))
            .collect();
        for at in ticks(clock, scenario.duration) {
            clock.sleep_until(at).await;
            for (id, directions) in links.iter_mut().enumerate() {
                let now = clock.now();
                directions.iter_mut().zip(counters(id)).for_each(|(it, counters)| it.add(at, now, counters));
            }
        }
        Self(links)
    }

    /// The results, in the order of the scenario.
    pub(in crate::run) fn results(self, scenario: &Scenario) -> Vec<LinkResult> {
        let links = self.0.into_iter().enumerate();
        links.flat_map(|(id, directions)| Carried::results(directions, scenario, LinkId(id))).collect()
    }
}
