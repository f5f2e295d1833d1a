//! A thread that serves links, and its clock: from the time stamps of the kernel to what links go by.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use psmc_net::priority::prefer_this_thread;
use psmc_sim::link::LinkConfig;

use super::device::Device;
use super::health::Fatigue;
use super::wire::Wire;

/// What a worker is told.
#[derive(Debug)]
pub(super) enum Command {
    /// A direction of a link becomes like this.
    Change {
        /// The link, as the worker counts.
        wire: usize,
        /// The direction.
        direction: usize,
        /// What it becomes.
        config: Box<LinkConfig>,
        /// When this was said: what entered before is treated as before.
        at: Instant,
    },
    /// It is over.
    Stop,
}

/// A thread that serves links until this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    orders: Sender<Command>,
    bell: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start((wires, devices): (Vec<Wire>, Vec<Device>)) -> io::Result<Self> {
        let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (orders, commands) = channel();
        let descriptors = descriptors(&wires, &bell)?;
        let (thread, its_bell) = (thread::Builder::new().name("lab-emulator".to_owned()), Arc::clone(&bell));
        let thread =
            thread.spawn(move || Service::new(wires, devices, commands, its_bell).run(&descriptors))?;
        Ok(Self { orders, bell, thread: Some(thread) })
    }

    /// Tells the thread, which obeys in the order of the calls.
    pub(super) fn order(&self, command: Command) {
        // A thread that is gone has panicked, which is shown where it is joined; a bell that cannot be rung is ringing.
        let _ = self.orders.send(command);
        let _ = self.bell.write(1);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.order(Command::Stop);
        let panicked = self.thread.take().is_some_and(|thread| thread.join().is_err());
        assert!(!panicked || thread::panicking(), "the emulator's thread panicked");
    }
}

/// What the thread has.
struct Service {
    wires: Vec<Wire>,
    devices: Vec<Device>,
    commands: Receiver<Command>,
    bell: Arc<EventFd>,
    fatigue: Fatigue,
}

impl Service {
    /// To be called on the thread that will serve.
    fn new(wires: Vec<Wire>, devices: Vec<Device>, commands: Receiver<Command>, bell: Arc<EventFd>) -> Self {
        Self { wires, devices, commands, bell, fatigue: Fatigue::new() }
    }

    /// Serves until it is told to stop. `descriptors` are those to wait for.
    fn run(&mut self, descriptors: &[OwnedFd]) {
        let preferred = prefer_this_thread();
        self.wires.iter().for_each(|wire| wire.set_preferred(preferred));
        let mut descriptors: Vec<_> =
            descriptors.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        while self.obey() {
            let moved = self.wires.iter_mut().fold(false, |moved, wire| wire.turn() | moved);
            let passed =
                self.devices.iter_mut().fold(false, |passed, device| device.turn(&mut self.wires) | passed);
            self.fatigue.rest_if_due();
            if !moved && !passed {
                self.wait(&mut descriptors);
            }
        }
    }

    /// Carries out what was ordered; says whether to go on.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Change { wire, direction, config, at }) => {
                    self.wires[wire].change(direction, *config, at);
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Sleeps until shortly before there is something to do.
    fn wait(&self, descriptors: &mut [PollFd<'_>]) {
        let time = self.time_to_sleep();
        if time.is_some_and(|time| time.is_zero()) {
            return;
        }
        // An interrupted sleep is a short one.
        let woken = ppoll(descriptors, time.map(Into::into), None).unwrap_or(0);
        if woken > 0 {
            self.look_at(descriptors);
        }
    }

    /// `None` if there is nothing to wake up for.
    fn time_to_sleep(&self) -> Option<Duration> {
        let wires = self.wires.iter().filter_map(Wire::next_timeout);
        let due = wires.chain(self.devices.iter().filter_map(Device::next_timeout)).min()?;
        let left = due.saturating_duration_since(Instant::now());
        Some(left.saturating_sub(self.fatigue.time_ahead(left)))
    }

    fn look_at(&self, descriptors: &[PollFd<'_>]) {
        let returned = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
        if descriptors.iter().any(|fd| returned(fd).contains(PollFlags::POLLERR)) {
            self.wires.iter().for_each(Wire::clear_errors);
        }
        if descriptors.last().is_some_and(|bell| !returned(bell).is_empty()) {
            // It is silent again, and whatever was ordered before it rang is carried out next.
            let _ = self.bell.read();
        }
    }
}

/// What a thread waits for, the bell last: duplicates, so that the links can be changed while they are waited for.
fn descriptors(wires: &[Wire], bell: &EventFd) -> io::Result<Vec<OwnedFd>> {
    let of_wires = wires.iter().flat_map(Wire::descriptors);
    of_wires.chain([bell.as_fd()]).map(|fd| fd.try_clone_to_owned()).collect()
}

/// How far apart two readings of the same moment may be: more than they take, and less than anybody would notice.
const CLOCK_TOLERANCE: Duration = Duration::from_micros(1);

/// How often clocks are read until they agree; they mostly do at once.
const CLOCK_TRIES: usize = 4;

/// The same moment on two clocks: one that never jumps, and the one by which the kernel stamps packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Instant,
    wall: SystemTime,
}

impl Clock {
    /// Reads both, again if it was interrupted in between.
    pub(super) fn read() -> Self {
        let mut before = Instant::now();
        for _ in 0..CLOCK_TRIES {
            let (wall, now) = (SystemTime::now(), Instant::now());
            if now - before <= CLOCK_TOLERANCE {
                return Self { now, wall };
            }
            before = now;
        }
        Self { now: before, wall: SystemTime::now() }
    }

    /// When a packet came that has this stamp.
    pub(super) fn instant_of(self, stamp: SystemTime) -> Instant {
        // What came since the clocks were read takes another reading. What is from the future even then came before the
        // wall clock was set back.
        let clock = if stamp > self.wall { Self::read() } else { self };
        let age = clock.wall.duration_since(stamp).unwrap_or_default();
        clock.now.checked_sub(age).unwrap_or(clock.now)
    }

    /// What the other clock shows at this moment, which is not before.
    pub(super) fn wall_at(self, instant: Instant) -> SystemTime {
        self.wall + instant.saturating_duration_since(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_as_old_on_either_clock() {
        let clock = Clock::read();
        let age = Duration::from_millis(7);
        assert_eq!(clock.instant_of(clock.wall - age), clock.now - age);
        assert_eq!(clock.wall_at(clock.now + age), clock.wall + age);
    }

    #[test]
    fn a_stamp_since_the_reading_is_later_than_it() {
        let clock = Clock::read();
        let (before, stamp, after) = (Instant::now(), SystemTime::now(), Instant::now());
        let instant = clock.instant_of(stamp);
        assert!(before - CLOCK_TOLERANCE <= instant && instant <= after + CLOCK_TOLERANCE);
    }

    #[test]
    fn a_stamp_from_the_future_means_now() {
        let (before, clock) = (Instant::now(), Clock::read());
        let instant = clock.instant_of(clock.wall + Duration::from_secs(3600));
        assert!(before <= instant && instant <= Instant::now());
    }
}
