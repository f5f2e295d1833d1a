//! What a session has counted of its paths by colour, for this site's own use and for the peer (section 16 of the protocol).

use std::time::{Duration, Instant};

use psmc_wire::control::Message;
use psmc_wire::counts::{Counts, MAX_COUNTED_PATHS};

use super::Session;
use super::receive::Refusal;
use crate::event::Event;
use crate::ids::ConnectionId;
use crate::path::{Path, Teller};
use crate::shared::Shared;

/// Questions of the peer that come sooner after one that was answered are not: an answer is as long as a hundred questions.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Who has asked, and whom.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// That of this site which has not been answered, or the last one that was.
    asked: u32,
    is_open: bool,
    /// When the peer was last answered.
    answered_at: Option<Instant>,
}

impl Session {
    /// What this site has counted, as of now. Delay samples are told once to whoever asks here, and once to the peer.
    pub(super) fn counts(&mut self, request: u32, teller: Teller, now: Instant) -> Counts {
        let clock_us = self.clock.micros(now);
        let paths = self.paths.iter_mut().take(MAX_COUNTED_PATHS).map(|path| Path::counts(path, teller));
        Counts { request, clock_us, paths: paths.collect() }
    }

    /// Asks the peer what it has counted. Says whether there is a connection for that.
    pub(super) fn ask_for_counts(&mut self, shared: &mut Shared) -> bool {
        let Some((connection, ..)) = self.control.current() else { return false };
        self.questions.asked = self.questions.asked.wrapping_add(1);
        self.questions.is_open = true;
        shared.messages.push_back((connection, Message::CountsWanted(self.questions.asked)));
        true
    }

    /// The peer asks.
    pub(super) fn on_counts_wanted(
        &mut self,
        connection: ConnectionId,
        request: u32,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let is_soon = self.questions.answered_at.is_some_and(|at| now < at + MIN_INTERVAL);
        if !is_soon {
            self.questions.answered_at = Some(now);
            let counts = self.counts(request, Teller::Peer, now);
            shared.messages.push_back((connection, Message::Counts(counts)));
        }
        Ok(())
    }

    /// The peer answers. What it was not asked for is not passed on.
    pub(super) fn on_counts(&mut self, counts: Counts, shared: &mut Shared) -> Result<(), Refusal> {
        if !self.questions.is_open || counts.request != self.questions.asked {
            return Err(Refusal::OutOfTurn);
        }
        self.questions.is_open = false;
        shared.events.push_back(Event::Counts { peer: self.peer, counts: Box::new(counts) });
        Ok(())
    }
}
