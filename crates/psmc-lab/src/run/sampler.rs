//! What links and paths do over time.

mod links;
mod paths;

use std::time::Duration;

use crate::traffic::Clock;

pub(super) use links::Links;
pub(super) use paths::Paths;

/// The ends of all intervals of a run.
fn ticks(clock: Clock, duration: Duration) -> impl Iterator<Item = Duration> {
    let next = move |at: &Duration| (*at < duration).then(|| (*at + clock.interval()).min(duration));
    std::iter::successors(Some(Duration::ZERO), next).skip(1)
}
