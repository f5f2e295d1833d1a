//! The processor that every packet needs first.

use std::collections::VecDeque;

use super::config::CpuConfig;
use crate::link::{Nanos, PacketInfo};

/// A packet as it came.
#[derive(Debug)]
pub(super) struct Raw<P> {
    pub(super) packet: P,
    pub(super) info: PacketInfo,
    /// The port by which it shall leave; none if it is for the router itself.
    pub(super) output: Option<usize>,
}

/// The processor, and the rings of the ports, which it serves one packet of each in turn.
#[derive(Debug)]
pub(super) struct Cpu<P> {
    control: Nanos,
    ring: usize,
    is_shared: bool,
    /// Packets, with the time that each takes.
    rings: Vec<VecDeque<(Raw<P>, Nanos)>>,
    turn: usize,
    waiting: usize,
    working: Option<(Nanos, Raw<P>)>,
}

impl<P> Cpu<P> {
    pub(super) fn new(config: &CpuConfig, ports: usize) -> Self {
        Self {
            control: config.control.into(),
            ring: config.ring,
            is_shared: config.is_shared,
            rings: (0..ports).map(|_| VecDeque::new()).collect(),
            turn: 0,
            waiting: 0,
            working: None,
        }
    }

    /// A packet comes by a port; it takes so long if it is not for the router itself. It comes back if there is no room.
    pub(super) fn handle(
        &mut self,
        raw: Raw<P>,
        cost: Nanos,
        input: usize,
        now: Nanos,
    ) -> Result<(), Raw<P>> {
        let cost = if raw.output.is_some() { cost } else { self.control };
        if self.working.is_none() {
            self.working = Some((now.after(cost), raw));
            return Ok(());
        }
        let ring = &mut self.rings[if self.is_shared { 0 } else { input }];
        if ring.len() >= self.ring {
            return Err(raw);
        }
        ring.push_back((raw, cost));
        self.waiting += 1;
        Ok(())
    }

    /// When it is done with the packet that it works on.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.working.as_ref().map(|(end, _)| *end)
    }

    /// The packet that it is done with by `now`; it goes on with the next one.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Raw<P>> {
        let (end, raw) = self.working.take_if(|(end, _)| *end <= now)?;
        self.working = self.next_packet().map(|(raw, cost)| (end.after(cost), raw));
        Some(raw)
    }

    fn next_packet(&mut self) -> Option<(Raw<P>, Nanos)> {
        if self.waiting == 0 {
            return None;
        }
        let count = self.rings.len();
        let port =
            (0..count).map(|step| (self.turn + step) % count).find(|port| !self.rings[*port].is_empty())?;
        self.turn = (port + 1) % count;
        self.waiting -= 1;
        self.rings[port].pop_front()
    }
}
