//! A network with conditioned edges, traffic of several hosts, and what is seen of it.

use std::net::IpAddr;
use std::time::Duration;

use psmc_core::condition::Profile;
use psmc_sim::{CongestionControl, Seen, TcpSetup, TrafficId, TrafficKind, TrafficSetup};

use super::edge::{Marking, mark};
use super::network::{Line, Network, Node, Queues};

/// What is compared: how edge routers mark, if they do, and what queues all routers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) marking: Option<Marking>,
    pub(super) queues: Queues,
}

impl Variant {
    /// How many there are.
    pub(super) const COUNT: usize = 6;

    /// Whether it is what psmcd does by itself.
    pub(super) fn is_ours(self) -> bool {
        self.marking == Some(Marking::Adaptive)
    }

    /// The seed's comparison, with a state of so many flows in its routers, then ours, then queues alone.
    pub(super) fn all(flows: usize) -> [Self; Self::COUNT] {
        let marked = |name, marking| Self { name, marking: Some(marking), queues: Queues::Rio };
        [
            marked("standard", Marking::Standard),
            marked("the seed's", Marking::Seed(flows)),
            marked("the seed's with all state", Marking::SeedMax),
            marked("ours", Marking::Adaptive),
            Self { name: "no marks", marking: None, queues: Queues::Rio },
            Self { name: "FQ-CoDel", marking: None, queues: Queues::FqCoDel },
        ]
    }
}

/// Places in [`Variant::all`].
pub(super) const STANDARD: usize = 0;
pub(super) const MAX: usize = 2;
pub(super) const OURS: usize = 3;
pub(super) const FQ_CODEL: usize = 5;

/// Traffic from a host to another one; what is delivered of it counts from [`Scene::settled`] on.
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    pub(super) from: Node,
    pub(super) to: Node,
    pub(super) kind: TrafficKind,
}

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) lines: Vec<Line>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) profile: Profile,
    /// Before that nothing counts.
    pub(super) settled: Duration,
    pub(super) end: Duration,
}

/// What was seen of an aggregate once all had settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) bytes: u64,
    /// Seconds from when something was sent or asked for until it had arrived, or begun to.
    pub(super) delays: Vec<f64>,
    pub(super) first_delays: Vec<f64>,
    pub(super) broken: u32,
}

impl Scene {
    /// Plays it: what was seen of each aggregate.
    pub(super) fn play(&self, variant: Variant, seed: u64) -> Vec<Outcome> {
        let mut network = Network::build(&self.lines, variant.queues, seed);
        if let Some(marking) = variant.marking {
            mark(&mut network, marking, self.profile, seed);
        }
        for aggregate in &self.aggregates {
            self.start(aggregate, &mut network);
        }
        let mut outcomes = vec![Outcome::default(); self.aggregates.len()];
        let begun = network.start + self.settled;
        let mut until = Duration::ZERO;
        while until < self.end {
            until = self.end.min(until + STEP);
            network.world.run_until(network.start + until);
            while let Some(seen) = network.world.poll_observation() {
                if seen.at >= begun {
                    outcomes[seen.traffic.0].note(seen.what, |sent_at| (seen.at - sent_at).as_secs_f64());
                }
            }
        }
        outcomes
    }

    /// Bits per second of payload, of each aggregate.
    pub(super) fn rates(&self, outcomes: &[Outcome]) -> Vec<f64> {
        let time = (self.end - self.settled).as_secs_f64();
        outcomes.iter().map(|outcome| outcome.bytes as f64 * 8.0 / time).collect()
    }

    fn start(&self, aggregate: &Aggregate, network: &mut Network) -> TrafficId {
        let Aggregate { from, to, kind } = aggregate;
        let address: IpAddr = network.address(to);
        let (from, to) = (network.host(from), network.host(to));
        let (start, stop) = (network.start, network.start + self.end);
        network.world.add_traffic(TrafficSetup { kind: kind.clone(), from, to, address, start, stop })
    }
}

impl Outcome {
    fn note(&mut self, what: Seen, since: impl Fn(std::time::Instant) -> f64) {
        match what {
            Seen::Delivered(bytes) => self.bytes += bytes,
            Seen::Begun { sent_at } => self.first_delays.push(since(sent_at)),
            Seen::Arrived { sent_at, .. } => self.delays.push(since(sent_at)),
            Seen::Broken => self.broken += 1,
            Seen::Sent | Seen::Done => {}
        }
    }
}

/// The seed's TCP (§6): packets of 1024 bytes, a window of up to 64 of them, ECN. It has NewReno; ours repairs several losses
/// in a round trip (SACK, RACK), and halves its window as that does.
pub(super) const TCP: TcpSetup =
    TcpSetup { congestion_control: CongestionControl::Reno, mtu: 1024, buffer: 64 * PAYLOAD, ecn: true };

/// The same with another congestion control. BBR does not heed marks, so it does not ask for them.
pub(super) fn tcp(congestion_control: CongestionControl) -> TcpSetup {
    TcpSetup { congestion_control, ecn: congestion_control != CongestionControl::Bbr, ..TCP }
}

/// What a packet of 1024 bytes carries, beside headers of IPv4 and TCP with timestamps.
pub(super) const PAYLOAD: usize = 1024 - 52;

/// Bytes of a full packet.
pub(super) const PACKET: f64 = 1024.0;

/// Observations are taken out after so much virtual time: in between they are kept in memory.
const STEP: Duration = Duration::from_millis(500);
