//! The keys of a session: one generation per control connection, or exchange within the session, and several epochs per
//! generation.
//!
//! A generation is installed for receiving before its label is told to the peer. It is used for sending by the
//! dialer once the acceptor's hello has arrived, and by the acceptor once a datagram has been opened with it:
//! so neither side ever seals with a key that the other one lacks, and no datagram is lost at a change. Only an
//! acceptor that has no other key uses it at once, because the dialer may have no path to be the first on;
//! nothing but probes can be lost then. An exchange within the session goes the same way: who begins it is the dialer.
//!
//! No generation lasts for ever: see [`KeyLimits`].

mod exchange;
mod generation;

use std::time::{Duration, Instant};

use psmc_wire::crypto::{AuthError, Role};
use psmc_wire::datagram::Header;
use psmc_wire::{Label, PacketNumber};

use crate::config::KeyLimits;
pub(crate) use exchange::ExchangeFrame;
use exchange::{Answer, Offer};
use generation::Generation;
pub(crate) use generation::{NewKeys, SealingKey};

/// How long an older generation still opens datagrams after a newer one is in use: far longer than any
/// datagram stays on its way.
pub(crate) const OVERLAP: Duration = Duration::from_secs(10);

/// Generations kept at once: the one in use, those before and after it, and some of handshakes that ended halfway,
/// of which the peer may know or not.
const MAX_GENERATIONS: usize = 8;

/// All keys of a session.
pub(crate) struct KeyRing {
    limits: KeyLimits,
    /// Whether an exchange of this site prevails over one that the peer begins at the same time.
    prevails: bool,
    /// Oldest first, in the order in which the peer comes to use them.
    generations: Vec<Generation>,
    offer: Option<Offer>,
    answer: Option<Answer>,
    rolls: u64,
    /// Generations that have come into use.
    used: u64,
    /// Those of them that come from exchanges within the session.
    exchanged: u64,
    /// Since when the generation in use may seal no more.
    ended_at: Option<Instant>,
}

impl KeyRing {
    /// No keys. The site with the smaller public key prevails where both begin an exchange.
    pub(crate) fn new(limits: KeyLimits, smaller_key: bool) -> Self {
        Self {
            limits,
            prevails: smaller_key,
            generations: Vec::new(),
            offer: None,
            answer: None,
            rolls: 0,
            used: 0,
            exchanged: 0,
            ended_at: None,
        }
    }

    /// Installs a generation. Returns the label that became void because there were too many.
    pub(crate) fn install(&mut self, keys: NewKeys, now: Instant) -> Option<Label> {
        let role = keys.role;
        self.generations.push(Generation::new(keys, false, now));
        if role == Role::Dialer || self.sealing(now).is_none() {
            self.confirm(self.generations.len() - 1, now);
        }
        self.remove_surplus(self.generations.len() - 1)
    }

    /// Removes a generation if there are too many, but not the one at `newest`. One that was ever in use stays as long as it
    /// can, however old: the peer may never have heard of those that came after.
    fn remove_surplus(&mut self, newest: usize) -> Option<Label> {
        if self.generations.len() <= MAX_GENERATIONS {
            return None;
        }
        let mut others = self.generations.iter().enumerate().filter(|(index, _)| *index != newest);
        let unused = others.find(|(_, generation)| generation.sealing.is_none()).map(|(index, _)| index);
        Some(self.generations.remove(unused.unwrap_or(0)).label)
    }

    /// Drops all generations, and the exchange that is under way. Returns the labels that are void.
    pub(crate) fn clear(&mut self) -> Vec<Label> {
        self.answer = None;
        let offered = self.offer.take().map(|offer| offer.label);
        self.generations.drain(..).map(|old| old.label).chain(offered).collect()
    }

    /// Opens `sealed` in place with the generation of `header`'s label.
    ///
    /// # Errors
    /// [`AuthError`] if no key of the generation opens it, or may open anything any more.
    pub(crate) fn open(
        &mut self,
        header: &Header,
        packet_number: PacketNumber,
        sealed: &mut [u8],
        now: Instant,
    ) -> Result<(), AuthError> {
        let index = self.generations.iter().rposition(|g| g.label == header.label).ok_or(AuthError)?;
        let generation = &mut self.generations[index];
        if generation.opens_until(&self.limits) <= now {
            return Err(AuthError);
        }
        generation.open(header, packet_number, sealed, &self.limits)?;
        if generation.sealing.is_none() && generation.retire_at.is_none() {
            self.confirm(index, now);
        }
        Ok(())
    }

    /// Starts to seal with a generation, and lets those before it retire.
    fn confirm(&mut self, index: usize, now: Instant) {
        let key = self.generations[index].sealing_key(0, now);
        self.generations[index].sealing = Some(key);
        self.used += 1;
        self.exchanged += u64::from(self.generations[index].is_exchanged);
        self.ended_at = None;
        for older in &mut self.generations[..index] {
            older.retire_at.get_or_insert(now + OVERLAP);
        }
    }

    /// The newest generation that the peer is known to hold, and where it stands.
    fn in_use(&self) -> Option<(usize, &Generation)> {
        self.generations.iter().enumerate().rfind(|(_, generation)| generation.sealing.is_some())
    }

    /// The key to seal with: the newest one that the peer is known to hold, unless it has reached its end.
    pub(crate) fn sealing(&self, now: Instant) -> Option<&SealingKey> {
        let (_, generation) = self.in_use()?;
        generation.sealing.as_ref().filter(|_| generation.is_alive(&self.limits, now))
    }

    fn newest_sealing(&mut self) -> Option<&mut SealingKey> {
        self.generations.iter_mut().rev().find_map(|generation| generation.sealing.as_mut())
    }

    /// All keys are older by so much than the clock says.
    pub(crate) fn age(&mut self, by: Duration) {
        for generation in &mut self.generations {
            generation.born = generation.born.checked_sub(by).unwrap_or(generation.born);
        }
    }

    /// When the oldest keys that open anything came to be.
    pub(crate) fn oldest_born(&self) -> Option<Instant> {
        self.generations.iter().map(|generation| generation.born).min()
    }

    /// Whether the peer finds datagrams with this label: whoever knows it has seen one.
    pub(crate) fn is_peer_label(&self, label: Label) -> bool {
        self.generations.iter().any(|generation| generation.peer_label == label)
    }

    /// So many datagrams have been sealed with the sealing key.
    pub(crate) fn on_sealed(&mut self, datagrams: u64) {
        if let Some(sealing) = self.newest_sealing() {
            sealing.sealed += datagrams;
        }
    }

    /// The peer has acknowledged a datagram that was sealed at `sent_at`. What left at the moment at which the key came into use may
    /// have been sealed with the one before.
    pub(crate) fn on_acknowledged(&mut self, sent_at: Instant) {
        if let Some(sealing) = self.newest_sealing().filter(|sealing| sealing.since < sent_at) {
            sealing.acknowledged = true;
        }
    }

    /// Rolls the sealing key if it is old enough, and drops what has retired or reached its end. Returns void labels.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Vec<Label> {
        let limits = self.limits;
        if let Some(generation) = self.generations.iter_mut().rev().find(|g| g.sealing.is_some())
            && let Some(epoch) = generation.epoch_to_roll_to(&limits, now)
        {
            generation.sealing = Some(generation.sealing_key(epoch, now));
            self.rolls += 1;
        }
        if self.is_unnoticed_end(now) {
            self.ended_at = Some(now);
        }
        let void = self.take_stale_offer();
        let is_over = |generation: &mut Generation| {
            generation.retire_at.is_some_and(|at| at <= now) || generation.opens_until(&limits) <= now
        };
        self.generations.extract_if(.., is_over).map(|old| old.label).chain(void).collect()
    }

    fn is_unnoticed_end(&self, now: Instant) -> bool {
        self.ended_at.is_none() && self.in_use().is_some_and(|(_, used)| !used.is_alive(&self.limits, now))
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let limits = &self.limits;
        let over = self.generations.iter().map(|generation| {
            let end = generation.opens_until(limits);
            generation.retire_at.map_or(end, |at| at.min(end))
        });
        let roll = self.sealing(now).filter(|sealing| sealing.epoch < u8::MAX);
        let end = self.sealing(now).and_then(|_| self.in_use()).map(|(_, used)| used.seals_until(limits));
        let noticed = self.is_unnoticed_end(now).then_some(now);
        [over.min(), roll.and_then(|sealing| sealing.roll_at(limits)), end, noticed]
            .into_iter()
            .flatten()
            .min()
    }

    /// How often the sealing key was rolled within its generation.
    pub(crate) fn rolls(&self) -> u64 {
        self.rolls
    }

    /// How many generations have come into use, and how many of these by exchanges within the session.
    pub(crate) fn generations_used(&self) -> (u64, u64) {
        (self.used, self.exchanged)
    }

    /// Since when nothing may be sealed, because the keys have reached their end and there are no others.
    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.ended_at
    }

    /// Since when the newest sealing key is in use, and its epoch.
    pub(crate) fn sealing_since(&self) -> Option<(Instant, u8)> {
        let (_, generation) = self.in_use()?;
        generation.sealing.as_ref().map(|sealing| (sealing.since, sealing.epoch))
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing").field("generations", &self.generations.len()).finish_non_exhaustive()
    }
}
