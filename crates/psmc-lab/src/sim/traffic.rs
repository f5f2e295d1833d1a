//! Streams of traffic, and what is seen of them.

use std::time::{Duration, Instant};

use psmc_sim::{HostId, Observation, Seen, TrafficKind, TrafficSetup, World};

use super::LINGER;
use crate::measure::{Deliveries, Latencies, Measured, Tally};
use crate::results::TrafficResult;
use crate::scenario::{self, Scenario, Traffic};

/// All streams of a scenario.
pub(super) struct Streams {
    start: Instant,
    records: Vec<Record>,
}

/// What was seen of a stream.
struct Record {
    stop: Duration,
    deliveries: Deliveries,
    tally: Tally,
    latencies: Latencies,
    late: u64,
    broken: bool,
    done: bool,
}

impl Streams {
    /// Lets all streams begin, each at its time. The run begins at this moment.
    pub(super) fn start(scenario: &Scenario, kinds: Vec<TrafficKind>, world: &mut World) -> Self {
        let start = world.now();
        for (traffic, kind) in scenario.traffic.iter().zip(kinds) {
            world.add_traffic(setup(traffic, kind, start));
        }
        let record = |traffic: &Traffic| Record::new(traffic, scenario.sample_interval);
        Self { start, records: scenario.traffic.iter().map(record).collect() }
    }

    /// Takes down what was seen since the last time.
    pub(super) fn observe(&mut self, world: &mut World) {
        while let Some(Observation { traffic, at, what }) = world.poll_observation() {
            // Nobody looks at floods.
            if let Some(record) = self.records.get_mut(traffic.0) {
                record.add(at - self.start, what, self.start);
            }
        }
    }

    /// The results, in the order of the scenario.
    pub(super) fn results(self, scenario: &Scenario) -> Vec<TrafficResult> {
        scenario
            .traffic
            .iter()
            .zip(self.records)
            .map(|(traffic, record)| record.into_result(traffic))
            .collect()
    }
}

impl Record {
    fn new(traffic: &Traffic, interval: Duration) -> Self {
        Self {
            stop: traffic.stop,
            deliveries: Deliveries::new(interval, traffic.start),
            tally: Tally::new(interval),
            latencies: Latencies::default(),
            late: 0,
            broken: false,
            done: false,
        }
    }

    fn add(&mut self, at: Duration, what: Seen, start: Instant) {
        match what {
            Seen::Delivered(bytes) if at <= self.stop => self.deliveries.add(at, bytes),
            Seen::Sent => self.tally.sent(at),
            Seen::Arrived { sent_at, late } if at <= self.stop + LINGER => {
                let sent_at = sent_at - start;
                self.tally.arrived(sent_at);
                self.latencies.add(at, at.saturating_sub(sent_at));
                self.late += u64::from(late);
            }
            // It comes too late to count, or nobody asks how it has begun.
            Seen::Delivered(_) | Seen::Arrived { .. } | Seen::Begun { .. } => {}
            Seen::Done => self.done = true,
            Seen::Broken => self.broken = true,
        }
    }

    fn into_result(self, traffic: &Traffic) -> TrafficResult {
        let error = self.error(traffic);
        let is_udp = matches!(traffic.kind, scenario::TrafficKind::Udp { .. });
        let Self { deliveries, tally, latencies, late, .. } = self;
        let end = if self.done { deliveries.last() } else { self.stop };
        let latencies = if is_udp { latencies.beyond_smallest() } else { latencies };
        let measured = Measured { deliveries, tally, latencies, reordered: is_udp.then_some(late) };
        measured.into_result(traffic, end, error)
    }

    /// Why it was not what it should have been.
    fn error(&self, traffic: &Traffic) -> Option<String> {
        let (arrived, wanted) = (self.deliveries.bytes(), wanted(&traffic.kind));
        if self.broken {
            return Some("connection lost".to_owned());
        }
        match wanted {
            Some(wanted) if !self.done => {
                Some(format!("timed out: only {arrived} of {wanted} bytes arrived"))
            }
            Some(_) => None,
            None => (arrived == 0 && !self.is_idle()).then(|| "nothing arrived".to_owned()),
        }
    }

    /// Whether a stream of requests has not asked for anything.
    fn is_idle(&self) -> bool {
        self.tally.total_sent() == 0
    }
}

/// How much is to arrive, if that is known.
fn wanted(kind: &scenario::TrafficKind) -> Option<u64> {
    match kind {
        scenario::TrafficKind::Tcp { bytes, flows, .. } => bytes.map(|bytes| bytes * *flows as u64),
        scenario::TrafficKind::Quic { bytes, .. } => *bytes,
        scenario::TrafficKind::Udp { .. }
        | scenario::TrafficKind::Requests { .. }
        | scenario::TrafficKind::Ping { .. } => None,
    }
}

fn setup(traffic: &Traffic, kind: TrafficKind, start: Instant) -> TrafficSetup {
    TrafficSetup {
        kind,
        from: HostId(traffic.from.0),
        to: HostId(traffic.to.0),
        address: traffic.address,
        start: start + traffic.start,
        stop: start + traffic.stop,
    }
}
