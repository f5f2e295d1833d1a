//! The seed's way to learn who is congested, and how much of a server's traffic crosses whom (§4.1 to §4.3, §6.2).
//!
//! A congested [`Router`] marks packets (RCN). A server that is overloaded answers marked ones with a mark (SCN), by which the router
//! learns of it and adds its address to some of the packets towards it; from those [`Samples`] the server estimates the share of its
//! traffic that crosses the router, which [`k_scaling`](crate::split::k_scaling) makes a rule of.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::NodeId;

/// What a router has added to a packet (figure 14): who it is, with which chance it adds that, and since which beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    /// The router.
    pub router: NodeId,
    /// The chance p_a with which it stamps, from 0 to 1.
    pub chance: f64,
    /// Another number each time it begins to stamp.
    pub sequence: u16,
}

/// The seed's parameters of a router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouterConfig {
    /// th_congest: the average queue, in packets, above which it is congested.
    pub threshold: f64,
    /// p_a: the chance that a packet towards a congested server is stamped.
    pub stamped: f64,
    /// The chance that a packet is marked while it is congested; "randomly" in the seed, which prints none.
    pub marked: f64,
    /// ℓ_Q: how many congested servers it remembers.
    pub servers: usize,
    /// How long it remembers one.
    pub age: Duration,
    /// The weight of the present queue in its average, as in RED.
    pub weight: f64,
}

/// A router's side: figures 5 and 6.
#[derive(Clone, Debug)]
pub struct Router {
    id: NodeId,
    config: RouterConfig,
    average: f64,
    /// CServs, the oldest first.
    servers: VecDeque<(u32, Duration)>,
    is_stamping: bool,
    sequence: u16,
}

impl Router {
    /// A router that is not congested.
    #[must_use]
    pub fn new(id: NodeId, config: RouterConfig) -> Self {
        Self { id, config, average: 0.0, servers: VecDeque::new(), is_stamping: false, sequence: 0 }
    }

    /// Follows the queue: so many packets are in it as one leaves.
    pub fn queue(&mut self, packets: usize) {
        self.average += self.config.weight * (packets as f64 - self.average);
        if !self.is_congested() {
            self.is_stamping = false;
        }
    }

    /// Whether the average queue is above the threshold.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.average > self.config.threshold
    }

    /// Whether a packet that leaves gets the mark RCN; `chance` is a random number from 0 to 1.
    #[must_use]
    pub fn marks(&self, chance: f64) -> bool {
        self.is_congested() && chance < self.config.marked
    }

    /// A packet with the mark SCN has come from this server.
    pub fn congested_server(&mut self, server: u32, now: Duration) {
        self.servers.retain(|(known, _)| *known != server);
        if self.servers.len() >= self.config.servers.max(1) {
            self.servers.pop_front();
        }
        self.servers.push_back((server, now));
    }

    /// What is added to a packet towards a server, if anything; `chance` is a random number from 0 to 1.
    pub fn stamp(&mut self, server: u32, chance: f64, now: Duration) -> Option<Stamp> {
        let is_known =
            |(known, at): &(u32, Duration)| *known == server && now.saturating_sub(*at) <= self.config.age;
        if !self.is_congested() || !self.servers.iter().any(is_known) {
            return None;
        }
        if !self.is_stamping {
            self.is_stamping = true;
            self.sequence = self.sequence.wrapping_add(1);
        }
        let Self { id, config, sequence, .. } = *self;
        let stamp = Stamp { router: id, chance: config.stamped, sequence };
        (chance < config.stamped).then_some(stamp)
    }
}

/// A server's side, of one class: how much of what has come crossed which router.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    total: u64,
    routers: BTreeMap<NodeId, Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    sequence: u16,
    chance: f64,
    stamped: u64,
    /// The total when the first of them came.
    since: u64,
}

/// Routers that are sampled at a time, beyond which the one with the fewest stamps makes room.
const MAX_ROUTERS: usize = 64;

impl Samples {
    /// A packet of the class has come, with these stamps.
    pub fn packet(&mut self, stamps: &[Stamp]) {
        self.total += 1;
        for stamp in stamps {
            self.note(stamp);
        }
    }

    /// The routers that more than `threshold` packets are estimated to have crossed since they were last asked for, with their shares
    /// of all packets, from 0 to 1. Counting begins anew for them.
    pub fn take_due(&mut self, threshold: f64) -> Vec<(NodeId, f64)> {
        let total = self.total;
        let due = |(&router, sample): (&NodeId, &Sample)| {
            let crossed = sample.stamped as f64 / sample.chance;
            let share = crossed / (total - sample.since).max(1) as f64;
            (crossed > threshold).then_some((router, share.min(1.0)))
        };
        let due: Vec<_> = self.routers.iter().filter_map(due).collect();
        for (router, _) in &due {
            self.routers.remove(router);
        }
        due
    }

    fn note(&mut self, stamp: &Stamp) {
        // A chance of 0 stamps nothing, and no other is one.
        if !(stamp.chance > 0.0 && stamp.chance <= 1.0) {
            return;
        }
        if !self.routers.contains_key(&stamp.router) && self.routers.len() >= MAX_ROUTERS {
            let least = self.routers.iter().min_by_key(|(_, sample)| sample.stamped);
            if let Some(router) = least.map(|(&router, _)| router) {
                self.routers.remove(&router);
            }
        }
        let Stamp { router, chance, sequence } = *stamp;
        let fresh = Sample { sequence, chance, stamped: 0, since: self.total - 1 };
        let sample = self.routers.entry(router).or_insert(fresh);
        if sample.sequence != sequence {
            // It has not stamped for a while, of which nothing is known.
            *sample = fresh;
        }
        sample.stamped += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RouterConfig = RouterConfig {
        threshold: 15.0,
        stamped: 0.1,
        marked: 1.0,
        servers: 2,
        age: Duration::from_secs(5),
        weight: 1.0,
    };

    fn congested() -> Router {
        let mut router = Router::new(NodeId(7), CONFIG);
        router.queue(16);
        router
    }

    #[test]
    fn only_a_congested_router_stamps_and_only_towards_servers_that_it_knows() {
        let mut router = congested();
        assert_eq!(router.stamp(1, 0.0, Duration::ZERO), None);
        router.congested_server(1, Duration::ZERO);
        let stamp = Stamp { router: NodeId(7), chance: 0.1, sequence: 1 };
        assert_eq!(router.stamp(1, 0.05, Duration::ZERO), Some(stamp));
        assert_eq!(router.stamp(1, 0.1, Duration::ZERO), None, "by chance");
        assert_eq!(router.stamp(1, 0.05, Duration::from_secs(6)), None, "forgotten");
        router.queue(15);
        assert!(!router.marks(0.0));
        assert_eq!(router.stamp(1, 0.05, Duration::ZERO), None, "not congested");
        router.queue(16);
        assert_eq!(router.stamp(1, 0.05, Duration::ZERO), Some(Stamp { sequence: 2, ..stamp }));
    }

    #[test]
    fn the_oldest_server_makes_room() {
        let mut router = congested();
        for server in [1, 2, 1, 3] {
            router.congested_server(server, Duration::ZERO);
        }
        let known = [1, 2, 3].map(|server| router.stamp(server, 0.0, Duration::ZERO).is_some());
        assert_eq!(known, [true, false, true]);
    }

    #[test]
    fn shares_are_those_of_stamps_by_their_chance() {
        let mut samples = Samples::default();
        let stamp = |router, sequence| Stamp { router: NodeId(router), chance: 0.5, sequence };
        for number in 0..100 {
            // Three of four packets cross router 1, and half of those are stamped.
            let stamps = [stamp(1, 1)];
            samples.packet(if number % 8 < 3 { &stamps } else { &[] });
        }
        assert_eq!(samples.take_due(100.0), []);
        let due = samples.take_due(70.0);
        assert_eq!(due, [(NodeId(1), 0.78)]);
        assert_eq!(samples.take_due(0.0), [], "counting begins anew");
    }

    #[test]
    fn a_new_sequence_begins_anew() {
        let mut samples = Samples::default();
        let stamp = |sequence| [Stamp { router: NodeId(1), chance: 1.0, sequence }];
        (0..50).for_each(|_| samples.packet(&stamp(1)));
        (0..100).for_each(|_| samples.packet(&[]));
        (0..10).for_each(|_| samples.packet(&stamp(2)));
        assert_eq!(samples.take_due(5.0), [(NodeId(1), 1.0)]);
    }

    #[test]
    fn routers_are_bounded_and_nonsense_is_passed_over() {
        let mut samples = Samples::default();
        for router in 0..1000 {
            samples.packet(&[Stamp { router: NodeId(router), chance: 1.0, sequence: 1 }]);
        }
        assert_eq!(samples.routers.len(), MAX_ROUTERS);
        samples.packet(&[Stamp { router: NodeId(1), chance: f64::NAN, sequence: 1 }]);
        samples.packet(&[Stamp { router: NodeId(1), chance: 0.0, sequence: 1 }]);
        assert!(samples.take_due(0.0).iter().all(|(_, share)| *share <= 1.0));
    }
}
