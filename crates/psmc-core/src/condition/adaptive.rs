//! Marks by fair shares: what is below its share of the profile keeps DP0.
//!
//! Each packet has a label: the rate of its flow, times the number of flows that the busier of its two hosts has, so that a
//! thousand flows of a host count as one host. A label of less than the fair rate is DP0; of a larger one that part of packets
//! which the fair rate is of the label is DP0, and as large a part DP1. The fair rate is adjusted until what is DP0 fills the
//! profile (core-stateless fair queueing: Stoica, Shenker and Zhang 1998, §3).
//!
//! Token buckets bound what is marked, whatever the labels say: DP0 to the profile, DP1 to as much again, first packets of
//! flows at DP0 to a quarter of the profile. Half the burst is kept for labels below the fair rate. What the profile has to
//! spare is DP0, whoever sends it.

use std::time::{Duration, Instant};

use super::flows::{Flows, Found, Tick, Turns};
use super::hosts::Hosts;
use super::meter::Bucket;
use super::{Facts, Precedence, Profile};

/// The marker.
#[derive(Debug)]
pub(super) struct Adaptive {
    clock: Option<Clock>,
    flows: Flows,
    hosts: Hosts,
    /// The turns of first packets, of whatever flow: each has one only, and would always be the first in turns of its own.
    of_first: Turns,
    committed: Bucket,
    excess: Bucket,
    /// For first packets.
    starts: Bucket,
    fair: FairRate,
}

/// When packets came.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The first.
    origin: Instant,
    /// The last.
    last: Instant,
}

/// The fair rate, and what is needed to adjust it.
#[derive(Debug)]
struct FairRate {
    /// Bytes per second.
    rate: f32,
    /// What the profile promises, bytes per second.
    committed: f32,
    window: f64,
    /// Seconds in this window so far.
    elapsed: f64,
    /// Bytes in this window that had a share of DP0.
    wanted: f32,
    /// The largest label in this window.
    largest: f32,
}

impl Adaptive {
    pub(super) fn new(profile: Profile, key: u64) -> Self {
        let (committed, burst) = (profile.committed(), profile.burst());
        Self {
            clock: None,
            flows: Flows::new(),
            hosts: Hosts::new(key),
            of_first: Turns::default(),
            committed: Bucket::new(committed, burst),
            excess: Bucket::new(profile.peak() - committed, burst),
            starts: Bucket::new(committed * STARTS, (burst * STARTS).max(MIN_STARTS)),
            fair: FairRate::new(committed, burst),
        }
    }

    pub(super) fn mark(&mut self, packet: &Facts, now: Instant) -> Precedence {
        let tick = self.pass_time(now);
        let len = f32::from(u16::try_from(packet.len).unwrap_or(u16::MAX));
        let Found { flow, since, is_new, is_due } = self.flows.touch(packet.flow, tick);
        if is_due {
            flow.load = self.hosts.on_flow(packet.source, packet.destination, tick.epoch());
        }
        let label = flow.on_packet(len, since) * f32::from(flow.load);
        let share = self.fair.share_of(label);
        let turns = if is_new { &mut self.of_first } else { &mut flow.turns };
        let bytes = f64::from(len);
        let is_first = turns.is_first(share) && (!is_new || self.starts.take(bytes));
        if is_first {
            self.fair.wanted += len;
        }
        let floor = if is_first && share == 1.0 {
            0.0
        } else if is_first {
            RESERVE
        } else {
            SPARE
        };
        if self.committed.fullness() > floor && self.committed.take(bytes) {
            return Precedence::Dp0;
        }
        let is_second = turns.is_second(share / (1.0 - share).max(f32::EPSILON));
        if is_second && self.excess.take(bytes) { Precedence::Dp1 } else { Precedence::Dp2 }
    }

    fn pass_time(&mut self, now: Instant) -> Tick {
        let clock = self.clock.get_or_insert(Clock { origin: now, last: now });
        let since = now.saturating_duration_since(clock.last);
        clock.last = clock.last.max(now);
        let tick = Tick::of_micros(clock.last.saturating_duration_since(clock.origin).as_micros());
        if since > Duration::ZERO {
            let seconds = since.as_secs_f64();
            self.committed.fill(seconds);
            self.excess.fill(seconds);
            self.starts.fill(seconds);
            self.fair.pass_time(seconds);
        }
        tick
    }
}

/// The part of the profile that first packets of flows may have as DP0: enough for ten times as many handshakes as flows of ten packets
/// need, and so little that a flood of them takes nothing that matters from flows that go on.
const STARTS: f64 = 0.25;

/// Bytes of first packets that may come at once at least, so that small profiles let one of full size pass.
const MIN_STARTS: f64 = 3000.0;

/// The part of the bucket that is kept for flows below the fair rate: they find something when all of them send at once.
const RESERVE: f64 = 0.5;

/// The profile has something to spare when its bucket is fuller than this: an even load below the rate is DP0 as a whole, whatever
/// the flows' shares are.
const SPARE: f64 = 0.75;

impl FairRate {
    #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
    fn new(committed: f64, burst: f64) -> Self {
        let window = (burst / committed).clamp(MIN_WINDOW, MAX_WINDOW);
        let committed = committed as f32;
        Self { rate: committed, committed, window, elapsed: 0.0, wanted: 0.0, largest: 0.0 }
    }

    /// The part of packets with this label that is DP0, 0 to 1.
    fn share_of(&mut self, label: f32) -> f32 {
        self.largest = self.largest.max(label);
        if label <= self.rate { 1.0 } else { self.rate / label }
    }

    /// Adjusts the rate, if a window is over, by what was wanted beside what there is. A rate above all labels would mean nothing, and
    /// would take long to come down when it does.
    #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
    fn pass_time(&mut self, seconds: f64) {
        self.elapsed += seconds;
        if self.elapsed < self.window {
            return;
        }
        let available = self.committed * self.elapsed as f32;
        let ratio = (available / self.wanted.max(1.0)).clamp(1.0 / MAX_CHANGE, MAX_CHANGE);
        let rate = self.rate * (1.0 + ratio) / 2.0;
        self.rate = rate.min(self.largest).max(self.committed / MAX_HOSTS);
        (self.elapsed, self.wanted, self.largest) = (0.0, 0.0, 0.0);
    }
}

/// Seconds in which the fair rate is adjusted: CSFQ's 100 ms, or what fills the bucket if that is longer: at low rates fewer bytes
/// would say nothing.
const MIN_WINDOW: f64 = 0.1;
const MAX_WINDOW: f64 = 1.0;

/// The most that a window may say of the fair rate: a burst is no trend.
const MAX_CHANGE: f32 = 4.0;

/// A fair rate of less than this part of the profile would not let a packet a second pass of most profiles.
const MAX_HOSTS: f32 = 65_536.0;
