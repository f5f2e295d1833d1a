//! Short floods that come again and again: what low-rate attacks on TCP are made of. They exist in virtual time only.

use std::time::{Duration, Instant};

use super::chance::uniform;
use super::{Desk, Generator, Place};
use crate::pulses::Pulses;
use crate::stack::{UdpOwner, UdpPort, UdpSource};

/// Sends pulses. Nobody takes them.
#[derive(Debug)]
pub(super) struct PulseTrain {
    pulses: Pulses,
    payload: Vec<u8>,
    start: Instant,
    /// When the pulse begins that is sent, or comes next, and when it ends.
    pulse: Option<[Instant; 2]>,
    /// Packets of that pulse that were sent.
    sent: u64,
    next: Option<Instant>,
    port: Option<u16>,
}

impl PulseTrain {
    pub(super) fn new(place: &Place, pulses: Pulses) -> Self {
        Self {
            payload: vec![0; pulses.payload],
            pulses,
            start: place.start,
            pulse: None,
            sent: 0,
            next: Some(place.start),
            port: None,
        }
    }

    fn port(&mut self, desk: &mut Desk<'_>) -> u16 {
        *self.port.get_or_insert_with(|| {
            let socket = UdpPort { owner: UdpOwner::Traffic(desk.id), bound: None };
            // A host that has no port left sends nothing that anybody could answer.
            desk.stack.udp.open_any(desk.place.from, socket).unwrap_or_default()
        })
    }

    /// A pulse from `at` on.
    fn pulse_at(&self, at: Instant, desk: &mut Desk<'_>) -> [Instant; 2] {
        [at, at + self.pulses.length + extra(self.pulses.jitter, desk)]
    }
}

/// Up to so much longer.
fn extra(jitter: Duration, desk: &mut Desk<'_>) -> Duration {
    if jitter.is_zero() { Duration::ZERO } else { jitter.mul_f64(uniform(desk.rng)) }
}

impl Generator for PulseTrain {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.next = None;
            return;
        }
        let [begin, end] = match self.pulse {
            Some(pulse) => pulse,
            None => self.pulse_at(self.start, desk),
        };
        let port = self.port(desk);
        let source = UdpSource { host: desk.place.from, local: None, port, bound: None };
        desk.stack.send_datagram(&source, desk.place.remote, &self.payload);
        self.sent += 1;
        // From the number, so that nothing adds up.
        let next = begin + self.pulses.after(self.sent);
        let (pulse, next) = if next < end {
            ([begin, end], next)
        } else {
            self.sent = 0;
            let begin = end + self.pulses.sleep + extra(self.pulses.jitter, desk);
            (self.pulse_at(begin, desk), begin)
        };
        (self.pulse, self.next) = (Some(pulse), Some(next));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}
