//! What is measured of a forwarder that runs.

mod pace;

use std::error::Error;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::forwarders::Raised;
use crate::kit::usage::Used;
use crate::lane::Lane;
use crate::load::Load;

pub(crate) use pace::{Pace, pace};

/// What it costs to hand datagrams on, as many as can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) load: Load,
    /// Datagrams that have arrived, per second.
    pub(crate) rate: f64,
    /// CPU time of the forwarder's processes, in microseconds per datagram; the kernel has none.
    pub(crate) process_us: Option<f64>,
    /// CPU time of the whole machine, likewise: both ends, the network and the forwarder.
    pub(crate) machine_us: f64,
    /// The share of the datagrams that was lost.
    pub(crate) lost: f64,
}

/// Datagrams on their way at most: a burst of each session, which every socket buffer has room for.
const WINDOW: u64 = 256;

/// What has not arrived after this time, in milliseconds, is lost.
const LOST_AFTER_MS: u8 = 50;

/// A receive of joined datagrams is as long as the longest IP packet.
const BUFFER: usize = 1 << 16;

/// Time for everything to warm up: caches, neighbours, buffers that have not been touched.
const WARM_UP: Duration = Duration::from_millis(300);

/// Sends as fast as datagrams arrive, and says what that costs.
#[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
pub(crate) fn cost(raised: &mut Raised, load: Load, time: Duration) -> Result<Cost, Box<dyn Error>> {
    let mut loop_ = Loop::new(&mut raised.lanes, load)?;
    loop_.run(WARM_UP)?;
    (loop_.arrived, loop_.lost) = (0, 0);
    let (by, machine, started) = (Used::by(&raised.processes)?, Used::by_machine()?, Instant::now());
    loop_.run(time)?;
    let (elapsed, machine) = (started.elapsed(), Used::by_machine()?.since(machine));
    let process = Used::by(&raised.processes)?.since(by);
    let (arrived, lost) = (loop_.arrived, loop_.lost);
    loop_.drain()?;
    if arrived == 0 {
        return Err("nothing has come through".into());
    }
    let us = |seconds: f64| seconds * 1e6 / arrived as f64;
    Ok(Cost {
        load,
        rate: arrived as f64 / elapsed.as_secs_f64(),
        process_us: (!raised.processes.is_empty()).then(|| us(process)),
        machine_us: us(machine),
        lost: lost as f64 / (arrived + lost) as f64,
    })
}

/// Datagrams go in circles: whatever arrives makes room for more.
struct Loop<'a> {
    lanes: &'a mut [Lane],
    load: Load,
    buffer: Vec<u8>,
    next: usize,
    in_flight: u64,
    arrived: u64,
    lost: u64,
}

impl<'a> Loop<'a> {
    fn new(lanes: &'a mut [Lane], load: Load) -> Result<Self, Box<dyn Error>> {
        for lane in &mut *lanes {
            lane.prepare(load)?;
        }
        Ok(Self { lanes, load, buffer: vec![0; BUFFER], next: 0, in_flight: 0, arrived: 0, lost: 0 })
    }

    fn run(&mut self, time: Duration) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        while started.elapsed() < time {
            let burst = self.load.burst as u64;
            while self.in_flight + burst <= WINDOW {
                self.lanes[self.next].send(self.load, 0)?;
                self.next = (self.next + 1) % self.lanes.len();
                self.in_flight += burst;
            }
            self.receive()?;
        }
        Ok(())
    }

    /// Lets what is on its way arrive.
    fn drain(&mut self) -> Result<(), Box<dyn Error>> {
        while self.in_flight > 0 {
            self.receive()?;
        }
        Ok(())
    }

    /// Waits for datagrams and takes them; those that do not come are lost.
    fn receive(&mut self) -> Result<(), Box<dyn Error>> {
        let ready = readable(self.lanes, LOST_AFTER_MS.into())?;
        if !ready.contains(&true) {
            self.lost += self.in_flight;
            self.in_flight = 0;
        }
        for (lane, _) in self.lanes.iter().zip(ready).filter(|(_, ready)| *ready) {
            let count = lane.receive(self.load, &mut self.buffer, |_| ())?;
            self.arrived += count;
            self.in_flight = self.in_flight.saturating_sub(count);
        }
        Ok(())
    }
}

/// At which far ends something has arrived.
fn readable(lanes: &[Lane], timeout: PollTimeout) -> Result<Vec<bool>, Box<dyn Error>> {
    let mut fds: Vec<_> = lanes.iter().map(|lane| PollFd::new(lane.far.as_fd(), PollFlags::POLLIN)).collect();
    poll(&mut fds, timeout)?;
    Ok(fds.iter().map(|fd| fd.any().unwrap_or(false)).collect())
}
