//! Key exchange within the session: new generations where no control connection brings any.
//!
//! ```text
//!  who begins                                          who answers
//!      │  REKEY: the generation before, label, public key   │
//!      │───────────────────────────────────────────────────▶│  installs the new generation, for opening
//!      │             REKEYED: that label, label, public key │
//!      │◀───────────────────────────────────────────────────│
//!      │  installs it, seals with it                        │
//!      │  datagrams                                         │
//!      │───────────────────────────────────────────────────▶│  seals with it from the first one that it opens
//! ```
//!
//! Each site begins one exchange at most for a generation, and answers one at most, always with the same answer: so that it is
//! no matter how often what is lost is repeated, and each pair of ephemeral keys yields one generation. An exchange counts
//! only while the generation before is the one in use, on either side, and its outcome has its place right behind that: so
//! both sites come to use generations in the same order, whatever control connections bring meanwhile.

use std::time::{Duration, Instant};

use psmc_wire::Label;
use psmc_wire::crypto::{BadPublicKey, KeyExchange, Role};
use psmc_wire::frame::RekeyFrame;

use super::KeyRing;
use super::generation::{Generation, NewKeys};

/// The site whose exchange does not prevail begins later, by this part of the time after which one is due (14 s of a quarter
/// of an hour): by then the other one's has come, as a rule.
const COURTESY: u32 = 64;

/// The shortest and the longest interval at which an exchange that has no answer is asked for again.
const REPEAT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A generation that is younger is not followed by another one: a peer in a hurry costs a curve's multiplications once a
/// second, not once a round trip.
const MIN_AGE: Duration = Duration::from_secs(1);

/// What one side says to the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExchangeFrame {
    Rekey(RekeyFrame),
    Rekeyed(RekeyFrame),
}

/// An exchange that this site has begun.
pub(super) struct Offer {
    /// Its own label of the generation before.
    before: Label,
    /// Its own label of the new one.
    pub(super) label: Label,
    /// The peer's label of the generation before.
    regarding: Label,
    exchange: Box<dyn KeyExchange>,
    begun_at: Instant,
    repeat_at: Instant,
    wait: Duration,
}

/// An exchange that the peer has begun.
pub(super) struct Answer {
    asked: RekeyFrame,
    told: RekeyFrame,
}

impl KeyRing {
    /// When the peer should be asked, or asked again, for an exchange.
    pub(crate) fn exchange_at(&self) -> Option<Instant> {
        let (_, used) = self.in_use().filter(|(_, used)| used.is_renewable)?;
        if let Some(offer) = self.offer_for(used) {
            return Some(offer.repeat_at);
        }
        let after = self.limits.exchange_after;
        let courtesy = if self.prevails { Duration::ZERO } else { after / COURTESY };
        (!self.has_answered(used)).then(|| used.born + after + courtesy)
    }

    /// Whether an exchange has been begun from the generation in use.
    pub(crate) fn has_offered(&self) -> bool {
        self.in_use().is_some_and(|(_, used)| self.offer_for(used).is_some())
    }

    fn offer_for(&self, used: &Generation) -> Option<&Offer> {
        self.offer.as_ref().filter(|offer| offer.before == used.label)
    }

    fn has_answered(&self, used: &Generation) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.asked.regarding == used.label)
    }

    /// Begins an exchange from the generation in use, if there is one. `label` is for what will come of it.
    pub(crate) fn begin_exchange(&mut self, label: Label, now: Instant) {
        self.offer = self.in_use().map(|(_, used)| Offer {
            before: used.label,
            label,
            regarding: used.peer_label,
            exchange: used.source.exchange(),
            begun_at: now,
            repeat_at: now,
            wait: REPEAT.0,
        });
    }

    /// What the peer has to be told; it will be told again after two round trips, and then less and less often.
    pub(crate) fn take_rekey(&mut self, round_trip: Duration, now: Instant) -> Option<ExchangeFrame> {
        let offer = self.offer.as_mut().filter(|offer| offer.repeat_at <= now)?;
        offer.repeat_at = now + offer.wait.max(2 * round_trip);
        offer.wait = (2 * offer.wait).min(REPEAT.1);
        let public_key = offer.exchange.public_key();
        Some(ExchangeFrame::Rekey(RekeyFrame { regarding: offer.regarding, label: offer.label, public_key }))
    }

    /// Gives up an exchange that begins from a generation which is not in use any more. Returns its label.
    pub(super) fn take_stale_offer(&mut self) -> Option<Label> {
        let used = self.in_use().map(|(_, used)| used.label);
        self.offer.take_if(|offer| used != Some(offer.before)).map(|offer| offer.label)
    }

    /// What was answered to `asked` before, if it was.
    pub(crate) fn answered(&self, asked: &RekeyFrame) -> Option<ExchangeFrame> {
        let answer = self.answer.as_ref().filter(|answer| answer.asked == *asked)?;
        Some(ExchangeFrame::Rekeyed(answer.told))
    }

    /// Whether the peer may begin an exchange so.
    pub(crate) fn may_answer(&self, asked: &RekeyFrame, now: Instant) -> bool {
        self.in_use().is_some_and(|(_, used)| {
            let ours_prevails = self.prevails && self.offer_for(used).is_some();
            used.label == asked.regarding
                && used.is_renewable
                && used.is_alive(&self.limits, now)
                && used.born + MIN_AGE <= now
                && !self.has_answered(used)
                && !ours_prevails
        })
    }

    /// Installs, for opening, what follows from an exchange that [may be answered](Self::may_answer). An own one gives way.
    /// Returns the answer, and labels that are void.
    ///
    /// # Errors
    /// [`BadPublicKey`] if nothing follows from it.
    pub(crate) fn answer(
        &mut self,
        asked: &RekeyFrame,
        label: Label,
        now: Instant,
    ) -> Result<(ExchangeFrame, Vec<Label>), BadPublicKey> {
        let (index, used) = self.in_use().ok_or(BadPublicKey)?;
        let exchange = used.source.exchange();
        let source = exchange.keys(Role::Acceptor, &asked.public_key)?;
        let (peer_label, aead) = (asked.label, used.aead);
        let keys = NewKeys { label, peer_label, role: Role::Acceptor, aead, source, is_renewable: true };
        self.generations.insert(index + 1, Generation::new(keys, true, now));
        let given_up = self.offer.take().map(|offer| offer.label);
        let void = given_up.into_iter().chain(self.remove_surplus(index + 1)).collect();
        let told = RekeyFrame { regarding: asked.label, label, public_key: exchange.public_key() };
        self.answer = Some(Answer { asked: *asked, told });
        Ok((ExchangeFrame::Rekeyed(told), void))
    }

    /// The peer has answered: if the exchange still counts, its outcome is in use from here on. Returns whether it does, and
    /// labels that are void.
    ///
    /// # Errors
    /// [`BadPublicKey`] if nothing follows from the answer.
    pub(crate) fn on_rekeyed(
        &mut self,
        told: &RekeyFrame,
        now: Instant,
    ) -> Result<(bool, Option<Label>), BadPublicKey> {
        let Some((index, used)) = self.in_use() else { return Ok((false, None)) };
        let Some(offer) = self.offer_for(used).filter(|offer| offer.label == told.regarding) else {
            return Ok((false, None));
        };
        let source = offer.exchange.keys(Role::Dialer, &told.public_key)?;
        let (label, peer_label, aead) = (offer.label, told.label, used.aead);
        let keys = NewKeys { label, peer_label, role: Role::Dialer, aead, source, is_renewable: true };
        let generation = Generation::new(keys, true, offer.begun_at);
        self.generations.insert(index + 1, generation);
        self.offer = None;
        self.confirm(index + 1, now);
        Ok((true, self.remove_surplus(index + 1)))
    }
}
