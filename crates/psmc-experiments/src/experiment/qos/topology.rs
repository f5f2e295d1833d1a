//! The seed's domain (figure 4): seven edge routers, five core routers, and the ways through it.
//!
//! ```text
//!   E1 ─20─ C1 ─20─┐                            ┌─20─ E6      delays in ms
//!   E2 ─10─ C2 ─30─┴─ C3 ────────40──────── C4 ─┤
//!   E4 ─40──┘         │                         └─10─ C5 ─10─ E7
//!                    E3 (10)                           └─40─ E5
//! ```

use std::time::Duration;

use psmc_sim::link::{Discipline, LinkConfig, QueueLimit};

/// A router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Router {
    Edge(u8),
    Core(u8),
}

use Router::{Core, Edge};

/// From an edge router to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    E1ToE6,
    E2ToE6,
    E3ToE6,
    E4ToE6,
    E1ToE7,
    E5ToE4,
}

impl Way {
    pub(super) const ALL: [Self; 6] =
        [Self::E1ToE6, Self::E2ToE6, Self::E3ToE6, Self::E4ToE6, Self::E1ToE7, Self::E5ToE4];

    pub(super) fn routers(self) -> &'static [Router] {
        match self {
            Self::E1ToE6 => &[Edge(1), Core(1), Core(3), Core(4), Edge(6)],
            Self::E2ToE6 => &[Edge(2), Core(2), Core(3), Core(4), Edge(6)],
            Self::E3ToE6 => &[Edge(3), Core(3), Core(4), Edge(6)],
            Self::E4ToE6 => &[Edge(4), Core(2), Core(3), Core(4), Edge(6)],
            Self::E1ToE7 => &[Edge(1), Core(1), Core(3), Core(4), Core(5), Edge(7)],
            Self::E5ToE4 => &[Edge(5), Core(5), Core(4), Core(3), Core(2), Edge(4)],
        }
    }

    /// Whether it crosses the bottleneck.
    pub(super) fn is_to_victim(self) -> bool {
        self.routers().ends_with(&[BOTTLENECK.0, BOTTLENECK.1])
    }

    /// Of all its links, in ms.
    pub(super) fn delay_ms(self) -> u64 {
        self.routers().windows(2).map(|ends| delay_ms(ends[0], ends[1])).sum()
    }
}

/// Where the attack is aimed at.
pub(super) const BOTTLENECK: (Router, Router) = (FORK, Edge(6));

/// Where the ways from E1 to E6 and E7 part.
pub(super) const FORK: Router = Core(4);

/// In bit/s: a queue in which the average is where RED drops all reds takes 82 ms, and the seed's delay rises by 80.
pub(super) const BOTTLENECK_RATE: u64 = 2_500_000;

/// Links of an edge router.
const EDGE_RATE: u64 = 20_000_000;

/// Links between core routers, which "have a higher capacity than other links".
const CORE_RATE: u64 = 50_000_000;

/// The queue of the bottleneck, in packets: a little more than RED lets the average of greens become.
pub(super) const BUFFER: usize = 60;

/// What the link from one router to the next one is like.
pub(super) fn link(from: Router, to: Router) -> LinkConfig {
    let delay = Duration::from_millis(delay_ms(from, to));
    if (from, to) == BOTTLENECK {
        let link = LinkConfig::new(BOTTLENECK_RATE, delay).with_discipline(Discipline::Rio { ecn: false });
        return link.with_queue(QueueLimit::Packets(BUFFER));
    }
    let is_core = matches!((from, to), (Core(_), Core(_)));
    LinkConfig::new(if is_core { CORE_RATE } else { EDGE_RATE }, delay)
}

/// The same both ways.
fn delay_ms(from: Router, to: Router) -> u64 {
    match (from.min(to), from.max(to)) {
        (Edge(1), _) | (Core(1), Core(3)) | (Edge(6), _) => 20,
        (Edge(4 | 5), _) | (Core(3), Core(4)) => 40,
        (Core(2), Core(3)) => 30,
        (Edge(_) | Core(_), _) => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_take_what_the_seed_says() {
        assert_eq!([Way::E1ToE6, Way::E1ToE7, Way::E5ToE4].map(Way::delay_ms), [100, 100, 160]);
        let to_victim = Way::ALL.into_iter().filter(|way| way.is_to_victim());
        assert_eq!(to_victim.collect::<Vec<_>>(), Way::ALL[..4]);
    }
}
