//! New keys for a session that goes on, and the end of old ones.

use std::time::{Duration, Instant};

use psmc_wire::frame::RekeyFrame;

use super::Session;
use super::receive::Refusal;
use crate::event::Event;
use crate::shared::Shared;

impl Session {
    /// Rolls, renews and ends keys as it is due.
    pub(super) fn tend_keys(&mut self, shared: &mut Shared, now: Instant) {
        let had_ended = self.keys.ended_at().is_some();
        let void = self.keys.handle_timeout(now);
        shared.release_labels(void);
        self.spent.give_free(self.keys.oldest_born().unwrap_or(now));
        if self.keys.ended_at().is_some() && !had_ended {
            shared.events.push_back(Event::KeysEnded { peer: self.peer });
            self.control.want(now);
        }
        if self.keys.sealing(now).is_some() && self.keys.exchange_at().is_some_and(|at| at <= now) {
            self.ask_for_exchange(shared, now);
        }
    }

    /// The machine was suspended for so long.
    pub(crate) fn note_suspended(&mut self, time: Duration) {
        self.keys.age(time);
    }

    /// Asks the peer for an exchange of keys, on the path that answers soonest. Without one it is asked as soon as there is.
    fn ask_for_exchange(&mut self, shared: &mut Shared, now: Instant) {
        let Some(carrier) = self.carrier() else { return };
        if !self.keys.has_offered() {
            let label = shared.allocate_label(self.peer);
            self.keys.begin_exchange(label, now);
        }
        let round_trip = self.paths[carrier].smoothed_rtt();
        self.paths[carrier].carried_exchange = self.keys.take_rekey(round_trip, now);
    }

    /// The peer begins an exchange of keys, or asks again.
    pub(super) fn on_rekey(
        &mut self,
        index: usize,
        asked: &RekeyFrame,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let before = self.keys.answered(asked);
        if before.is_none() && !self.keys.may_answer(asked, now) {
            return Ok(());
        }
        let answer = match before {
            Some(answer) => answer,
            None => self.answer_exchange(asked, shared, now)?,
        };
        let carrier = self.carrier().unwrap_or(index);
        self.paths[carrier].carried_exchange = Some(answer);
        Ok(())
    }

    fn answer_exchange(
        &mut self,
        asked: &RekeyFrame,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<crate::keys::ExchangeFrame, Refusal> {
        let label = shared.allocate_label(self.peer);
        let Ok((answer, void)) = self.keys.answer(asked, label, now) else {
            shared.release_labels([label]);
            return Err(Refusal::Malformed);
        };
        shared.release_labels(void);
        Ok(answer)
    }

    /// The peer has answered. It seals with the new keys from the first datagram on that it gets under them: so that is sent
    /// at once.
    pub(super) fn on_rekeyed(
        &mut self,
        told: &RekeyFrame,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let (counts, void) = self.keys.on_rekeyed(told, now).map_err(|_| Refusal::Malformed)?;
        shared.release_labels(void);
        if counts {
            for path in &mut self.paths {
                path.liveness.probe_now(now);
            }
        }
        Ok(())
    }
}
