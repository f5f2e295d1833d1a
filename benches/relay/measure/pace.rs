//! Datagrams that come one by one at an even rate: how long they take, and what each costs.

use std::error::Error;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

use super::{BUFFER, WARM_UP, readable};
use crate::forwarders::Raised;
use crate::kit::usage::Used;
use crate::lane::Lane;
use crate::load::Load;

/// What becomes of datagrams that come one by one at an even rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Datagrams that have arrived, per second.
    pub(crate) rate: f64,
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
    /// CPU time of the forwarder's processes, in microseconds per datagram; the kernel has none.
    pub(crate) process_us: Option<f64>,
    /// The share of the datagrams whose delay says nothing, because the sender was not running while they were on their
    /// way.
    pub(crate) left_out: f64,
}

/// A turn of the sender's loop that took longer than this was interrupted: by another program, or by the hypervisor.
const INTERRUPTED: Duration = Duration::from_micros(100);

/// Sends at an even rate, from a core of its own.
#[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
pub(crate) fn pace(raised: &mut Raised, rate: f64, time: Duration) -> Result<Pace, Box<dyn Error>> {
    for lane in &mut raised.lanes {
        lane.prepare(Load::PACED)?;
    }
    let mut metronome = Metronome::new(&mut raised.lanes, Duration::from_secs_f64(1.0 / rate));
    metronome.run(WARM_UP)?;
    metronome.forget();
    let (by, started) = (Used::by(&raised.processes)?, Instant::now());
    metronome.run(WARM_UP + time)?;
    let process = Used::by(&raised.processes)?.since(by);
    let Metronome { mut delays, arrived, .. } = metronome;
    if delays.is_empty() {
        return Err("nothing has come through of which the delay says anything".into());
    }
    delays.sort_unstable();
    let quantile = |hundredths: usize| delays[(delays.len() - 1) * hundredths / 100] as f64 / 1e3;
    Ok(Pace {
        rate: arrived as f64 / started.elapsed().as_secs_f64(),
        median_us: quantile(50),
        p99_us: quantile(99),
        process_us: (!raised.processes.is_empty()).then(|| process * 1e6 / arrived as f64),
        left_out: 1.0 - delays.len() as f64 / arrived as f64,
    })
}

/// Sends one datagram after the other. It never sleeps.
struct Metronome<'a> {
    lanes: &'a mut [Lane],
    interval: Duration,
    origin: Instant,
    buffer: Vec<u8>,
    next: usize,
    arrived: u64,
    /// In nanoseconds, of datagrams that were sent and received by a sender that was running all the time.
    delays: Vec<u64>,
    /// When the sender was interrupted most recently; what it has sent before then says nothing.
    interrupted: Duration,
}

impl<'a> Metronome<'a> {
    fn new(lanes: &'a mut [Lane], interval: Duration) -> Self {
        Self {
            lanes,
            interval,
            origin: Instant::now(),
            buffer: vec![0; BUFFER],
            next: 0,
            arrived: 0,
            delays: Vec::new(),
            interrupted: Duration::ZERO,
        }
    }

    /// Starts counting.
    fn forget(&mut self) {
        self.arrived = 0;
        self.delays.clear();
    }

    /// Sends until so much time has passed since its origin.
    fn run(&mut self, until: Duration) -> Result<(), Box<dyn Error>> {
        let mut now = self.origin.elapsed();
        let mut due = now;
        while now < until {
            if now >= due {
                self.lanes[self.next].send(Load::PACED, nanoseconds(self.origin.elapsed()))?;
                self.next = (self.next + 1) % self.lanes.len();
                // Nothing is made up for after an interruption: a burst would wait for itself.
                due = (due + self.interval).max(now);
            }
            let ready = readable(self.lanes, PollTimeout::ZERO)?;
            let began = std::mem::replace(&mut now, self.origin.elapsed());
            if now - began > INTERRUPTED {
                self.interrupted = now;
            }
            self.receive(&ready, now)?;
        }
        Ok(())
    }

    /// Takes what has arrived by now.
    fn receive(&mut self, ready: &[bool], now: Duration) -> Result<(), Box<dyn Error>> {
        let (now, interrupted) = (nanoseconds(now), nanoseconds(self.interrupted));
        let Self { lanes, buffer, arrived, delays, .. } = self;
        for (lane, _) in lanes.iter().zip(ready).filter(|(_, ready)| **ready) {
            *arrived += lane.receive(Load::PACED, buffer, |sent_at| {
                if sent_at > interrupted {
                    delays.push(now.saturating_sub(sent_at));
                }
            })?;
        }
        Ok(())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
