//! What is dropped here for the peer, of what goes to it; and what the peer is asked to drop of what comes from it. Section 18 of the
//! protocol.

use std::time::Instant;

use psmc_wire::control::Message;
use psmc_wire::shed::{Answer, Ask, Rule, What};
use thiserror::Error;

use super::Session;
use crate::classify::Classified;
use crate::ids::ConnectionId;
use crate::shared::Shared;
use crate::shed::{Bounds, Held, Register, ShedCounts};

/// Why the peer is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShedError {
    /// There is no such peer.
    #[error("there is no such peer")]
    Unknown,
    /// There is no control connection to it.
    #[error("not connected to the peer")]
    NotConnected,
    /// It is of a version that drops nothing for others.
    #[error("the peer cannot drop anything for others: upgrade it")]
    NotAble,
}

/// The rules of both directions.
#[derive(Debug)]
pub(super) struct Shedding {
    /// What the peer has here.
    register: Register,
    held: Held,
    counts: ShedCounts,
    /// Where its clock begins.
    origin: Instant,
    /// Whether the peer drops what it is asked to.
    pub(super) is_peer_able: bool,
    last_request: u32,
    /// What the peer said last.
    answer: Option<Box<Answer>>,
}

impl Shedding {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            register: Register::default(),
            held: Held::default(),
            counts: ShedCounts::default(),
            origin: now,
            is_peer_able: false,
            last_request: 0,
            answer: None,
        }
    }

    /// Whether a packet to the peer passes.
    pub(super) fn passes(&self, headers: &Classified, bytes: usize, now: Instant) -> bool {
        if self.held.is_empty() {
            return true;
        }
        let ends = (headers.source, headers.destination);
        let to_port = headers.ports.map(|[_, to]| to);
        self.held.passes_packet(ends, headers.protocol, to_port, bytes, self.clock(now))
    }

    /// In nanoseconds since the origin.
    fn clock(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Session {
    /// The peer wants something dropped here.
    pub(super) fn on_shed(&mut self, id: ConnectionId, ask: &Ask, shared: &mut Shared, now: Instant) {
        let allowed = &self.config.allowed_ips;
        let is_own = |what: &What| match what {
            What::Packets(packets) => allowed.iter().any(|prefix| prefix.contains(&packets.destination)),
            // A site hands datagrams on for nobody.
            What::Datagrams(_) | What::Label(..) => false,
        };
        let shedding = &mut self.shedding;
        let now = shedding.clock(now);
        let answer = shedding.register.handle(ask, Bounds::default(), is_own, &mut shedding.counts, now);
        shedding.held = shedding.register.held();
        shared.messages.push_back((id, Message::Shedding(answer)));
    }

    /// The peer says what it drops. What nobody has asked is not heeded.
    pub(super) fn on_shedding(&mut self, answer: Answer) {
        if answer.request == self.shedding.last_request {
            self.shedding.answer = Some(Box::new(answer));
        }
    }

    /// Asks the peer to drop this of what goes to this site, for so many milliseconds.
    pub(crate) fn shed(
        &mut self,
        rules: Vec<Rule>,
        serial: u64,
        lifetime_ms: u32,
        shared: &mut Shared,
    ) -> Result<(), ShedError> {
        let (connection, ..) = self.control.current().ok_or(ShedError::NotConnected)?;
        if !self.shedding.is_peer_able {
            return Err(ShedError::NotAble);
        }
        let shedding = &mut self.shedding;
        shedding.last_request = shedding.last_request.checked_add(1).unwrap_or(1);
        let ask = Ask { request: shedding.last_request, serial, lifetime_ms, rules };
        shared.messages.push_back((connection, Message::Shed(ask)));
        Ok(())
    }

    /// What the peer has answered last.
    pub(crate) fn shedding_answer(&self) -> Option<&Answer> {
        self.shedding.answer.as_deref()
    }

    /// What has become of what the peer wanted.
    pub(crate) fn shed_counts(&self) -> ShedCounts {
        self.shedding.counts
    }
}
