//! Paths that behave towards others on their bottleneck as one flow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_wire::PathId;

use super::likeness::Queue;
use super::{find, may_join};
use crate::congestion::rate::RateSample;
use crate::congestion::{AckSample, CongestionConfig, Controller};
use crate::path::{Feedback, Path, Share};
use crate::roster::Roster;

/// However little a path uses, this part of an equal share is left to it, so that it may show that it wants more.
const LEAST_PART: f64 = 1.0 / 16.0;

/// If paths with this part of the whole had nothing to send, the round says nothing of the bottleneck.
const IDLE_PART: f64 = 0.25;

/// Acknowledgements cover up to 16 datagrams or 5 ms: shorter rounds would measure those.
const LEAST_ROUND: Duration = Duration::from_millis(20);

/// A path that has told nothing for so many rounds delivers nothing.
const STALE_ROUNDS: u32 = 4;

/// Whatever its part, a path may have so many datagrams in flight, or it would stall on late acknowledgements.
const LEAST_DATAGRAMS: u64 = 2;

/// Paths behind one bottleneck, and the controller for all of them.
///
/// The controller sees one flow: its rate is the sum of theirs, its round trip their mean one with the queue that each
/// of them measures. What it allows is divided by what they use. Their own controllers rest meanwhile.
#[derive(Debug)]
pub(super) struct Group {
    kind: CongestionConfig,
    controller: Box<dyn Controller>,
    /// Sorted by id.
    members: Vec<Member>,
    round_began: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    id: PathId,
    /// Of the whole, 0 to 1.
    part: f64,
    /// What it has last delivered, bytes per second, and when that was measured.
    rate: Option<(u64, Instant)>,
    idle: bool,
}

/// Round trips of a group: means by the parts of its members.
#[derive(Clone, Copy, Debug)]
struct RoundTrips {
    min: Duration,
    smoothed: Duration,
}

impl Group {
    /// A group of paths that have been on their own, and which goes on with what they deliver together.
    pub(super) fn new(
        ids: Vec<PathId>,
        paths: &[Path],
        queues: &BTreeMap<PathId, Queue>,
        now: Instant,
    ) -> Self {
        let first = ids.first().and_then(|id| find(paths, *id));
        let kind = first.map_or_else(CongestionConfig::default, |path| path.config.congestion);
        let size = first.map_or(0, Path::datagram_ceiling);
        let used: f64 = ids.iter().filter_map(|id| queues.get(id)).map(Queue::used).sum();
        let mut controller = kind.build(size);
        let group = Self { kind, controller: kind.build(size), members: Vec::new(), round_began: now }
            .with_members(ids);
        let smoothed = group.round_trips(paths).smoothed;
        controller.adopt(bytes(used), smoothed, now);
        Self { controller, ..group }
    }

    /// The same with these members.
    pub(super) fn with_members(mut self, mut ids: Vec<PathId>) -> Self {
        ids.sort_unstable();
        let part = 1.0 / ids.len().max(1) as f64;
        let known = |id: &PathId| self.members.iter().find(|member| member.id == *id).copied();
        let member = |id| known(&id).unwrap_or(Member { id, part, rate: None, idle: false });
        self.members = ids.into_iter().map(member).collect();
        self
    }

    pub(super) fn has(&self, id: PathId) -> bool {
        self.members.iter().any(|member| member.id == id)
    }

    /// Whether most of its members are among these.
    pub(super) fn is_mostly(&self, ids: &[PathId]) -> bool {
        let kept = self.members.iter().filter(|member| ids.contains(&member.id)).count();
        2 * kept > self.members.len()
    }

    /// Whether all of its members are still there, and work.
    pub(super) fn is_whole(&self, paths: &[Path]) -> bool {
        let belongs = |path: &Path| may_join(path) && path.config.congestion == self.kind;
        self.members.iter().all(|member| find(paths, member.id).is_some_and(belongs))
    }

    /// Gives each member the part that it has used of late.
    pub(super) fn divide(&mut self, queues: &BTreeMap<PathId, Queue>) {
        let used = |id: PathId| queues.get(&id).map_or(0.0, Queue::used).max(1.0);
        let whole: f64 = self.members.iter().map(|member| used(member.id)).sum();
        let least = LEAST_PART / self.members.len() as f64;
        for member in &mut self.members {
            member.part = used(member.id) / whole * (1.0 - LEAST_PART) + least;
        }
    }

    /// A member has learnt something: the controller learns it too, and all get what it then allows.
    pub(super) fn on_feedback(&mut self, paths: &mut Roster, id: PathId, feedback: &Feedback, now: Instant) {
        let inflight = self.members.iter().filter_map(|member| find(paths, member.id));
        let inflight = inflight.map(|path| path.sent.inflight_bytes()).sum();
        if feedback.lost > 0 {
            self.controller.on_loss(feedback.lost, inflight, now);
        }
        if feedback.marked {
            self.controller.on_marks(now);
        }
        let round_trips = self.round_trips(paths);
        let sample = AckSample { inflight, ..self.sample(id, feedback, round_trips, now) };
        self.controller.on_ack(&sample, now);
        self.hand_out(paths, round_trips);
    }

    fn sample(&mut self, id: PathId, feedback: &Feedback, whole: RoundTrips, now: Instant) -> AckSample {
        let sample = feedback.sample;
        let own = sample.min_rtt.unwrap_or_default();
        let moved = |rtt: Duration| whole.min + rtt.saturating_sub(own);
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            member.rate = sample.rate.map(|rate| (rate.bytes_per_s, now)).or(member.rate);
            member.idle |= feedback.idle;
        }
        AckSample {
            rate: sample.rate.map(|rate| self.whole_rate(&rate, whole.smoothed.max(LEAST_ROUND), now)),
            rtt: sample.rtt.map(moved),
            min_rtt: sample.min_rtt.map(|_| whole.min),
            smoothed_rtt: sample.smoothed_rtt.map(moved),
            ..sample
        }
    }

    /// What all deliver, as one of them has just measured its own.
    fn whole_rate(&mut self, own: &RateSample, round: Duration, now: Instant) -> RateSample {
        let fresh = |member: &&Member| member.rate.is_some_and(|(_, at)| now < at + STALE_ROUNDS * round);
        let rates = self.members.iter().filter(fresh).filter_map(|member| member.rate);
        let bytes_per_s = rates.map(|(rate, _)| rate).sum();
        let idle: f64 = self.members.iter().filter(|member| member.idle).map(|member| member.part).sum();
        let round_ended = own.round_ended && now >= self.round_began + round;
        if round_ended {
            self.round_began = now;
            self.members.iter_mut().for_each(|member| member.idle = false);
        }
        RateSample { bytes_per_s, app_limited: idle > IDLE_PART, stretched: own.stretched, round_ended }
    }

    fn round_trips(&self, paths: &[Path]) -> RoundTrips {
        let mean = |of: fn(&Path) -> Duration| {
            let parts = self
                .members
                .iter()
                .filter_map(|member| Some(of(find(paths, member.id)?).mul_f64(member.part)));
            parts.sum()
        };
        RoundTrips { min: mean(|path| 2 * path.propagation()), smoothed: mean(Path::smoothed_rtt) }
    }

    fn hand_out(&self, paths: &mut Roster, whole: RoundTrips) {
        let (window, pacing_rate) = (self.controller.window() as f64, self.controller.pacing_rate() as f64);
        let bandwidth = self.controller.bandwidth().map_or(pacing_rate, |rate| rate as f64);
        for member in &self.members {
            let Some(index) = paths.index_of(member.id) else { continue };
            let path = &mut paths[index];
            // A longer way holds more at the same rate.
            let longer = path.smoothed_rtt().as_secs_f64() / whole.smoothed.as_secs_f64().max(f64::EPSILON);
            let least = LEAST_DATAGRAMS * u64::from(path.datagram_ceiling());
            let share = Share {
                window: bytes(window * member.part * longer).max(least),
                pacing_rate: bytes(pacing_rate * member.part).max(1),
                bandwidth: bytes(bandwidth * member.part).max(1),
            };
            path.couple(share);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "conversion saturates, and none is negative"
)]
fn bytes(number: f64) -> u64 {
    number as u64
}
