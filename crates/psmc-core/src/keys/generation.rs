//! One generation of keys: what it seals and opens with, and for how long.

use std::time::{Duration, Instant};

use psmc_wire::crypto::{Aead, AuthError, KeySource, PacketKey, Role, TAG_LEN};
use psmc_wire::datagram::{EPOCHS_ON_WIRE, HEADER_LEN, Header, Marks, nonce};
use psmc_wire::{Label, PacketNumber, PathId};

use super::OVERLAP;
use crate::batch::MAX_SEGMENTS;
use crate::config::KeyLimits;

/// A key seals for this long at the most while the peer answers (design §3; the same as WireGuard's REKEY_AFTER_TIME).
const KEY_LIFETIME: Duration = Duration::from_secs(120);

/// How many times as long keys last with a site that knows of no exchange within the session: a day instead of an hour.
/// Without a control connection it has no way to new ones, and releases that know of no end have gone on for ever.
const WITHOUT_EXCHANGE: u32 = 24;

/// A batch is sealed as a whole: so much before the limit none is begun.
const BATCH_MARGIN: u64 = MAX_SEGMENTS as u64;

/// The key with which a session seals.
pub(crate) struct SealingKey {
    label: Label,
    pub(super) epoch: u8,
    key: Box<dyn PacketKey>,
    pub(super) since: Instant,
    /// Whether the peer has acknowledged a datagram sealed with it, and so surely holds the next one too.
    pub(super) acknowledged: bool,
    /// Datagrams sealed with it.
    pub(super) sealed: u64,
}

impl SealingKey {
    /// When it should be rolled; not before the peer surely holds the next one.
    pub(super) fn roll_at(&self, limits: &KeyLimits) -> Option<Instant> {
        let lifetime = if self.sealed < limits.datagrams / 2 { KEY_LIFETIME } else { Duration::ZERO };
        self.acknowledged.then(|| self.since + lifetime)
    }

    /// Seals `datagram` in place: room for the header, the plain sealed part, room for the tag.
    pub(crate) fn seal(&self, path: PathId, packet_number: PacketNumber, datagram: &mut [u8]) {
        let header = Header {
            epoch: self.epoch % EPOCHS_ON_WIRE,
            marks: Marks::default(),
            path,
            label: self.label,
            packet_number: packet_number.truncated(),
        };
        let (head, rest) = datagram.split_at_mut(HEADER_LEN);
        let (payload, tag) = rest.split_at_mut(rest.len() - TAG_LEN);
        head.copy_from_slice(&header.encode());
        let sealed = self.key.seal(nonce(path, packet_number), &header.associated_data(), payload);
        tag.copy_from_slice(&sealed);
    }
}

/// A key with which a generation opens.
struct OpeningKey {
    key: Box<dyn PacketKey>,
    /// Datagrams opened with it.
    opened: u64,
}

impl OpeningKey {
    fn new(key: Box<dyn PacketKey>) -> Self {
        Self { key, opened: 0 }
    }
}

/// The keys with which a generation opens: of the epoch last seen, the one before, and the one to come, so
/// that a forged datagram never causes a key to be derived.
struct OpeningKeys {
    epoch: u8,
    previous: Option<OpeningKey>,
    current: OpeningKey,
    next: Option<OpeningKey>,
}

/// What a new generation is made of.
pub(crate) struct NewKeys {
    pub(crate) label: Label,
    pub(crate) peer_label: Label,
    pub(crate) role: Role,
    pub(crate) aead: Aead,
    pub(crate) source: Box<dyn KeySource>,
    /// Whether both sites understand an exchange of keys within the session.
    pub(crate) is_renewable: bool,
}

/// The keys that come from one control connection, or from one exchange within the session.
pub(super) struct Generation {
    pub(super) label: Label,
    role: Role,
    pub(super) aead: Aead,
    pub(super) source: Box<dyn KeySource>,
    opening: OpeningKeys,
    /// Not yet there while an acceptor waits for the first datagram.
    pub(super) sealing: Option<SealingKey>,
    pub(super) peer_label: Label,
    pub(super) retire_at: Option<Instant>,
    /// When its secret came to be.
    pub(super) born: Instant,
    pub(super) is_renewable: bool,
    /// Whether it comes from an exchange within the session.
    pub(super) is_exchanged: bool,
}

impl Generation {
    pub(super) fn new(keys: NewKeys, is_exchanged: bool, born: Instant) -> Self {
        let NewKeys { label, peer_label, role, aead, source, is_renewable } = keys;
        let opens = |epoch| OpeningKey::new(source.packet_key(aead, role.peer(), epoch));
        let opening = OpeningKeys { epoch: 0, previous: None, current: opens(0), next: Some(opens(1)) };
        Self {
            label,
            role,
            aead,
            source,
            opening,
            sealing: None,
            peer_label,
            retire_at: None,
            born,
            is_renewable,
            is_exchanged,
        }
    }

    /// From when on nothing is sealed with its keys.
    pub(super) fn seals_until(&self, limits: &KeyLimits) -> Instant {
        let times = if self.is_renewable { 1 } else { WITHOUT_EXCHANGE };
        self.born + limits.seal_for * times
    }

    /// From when on it is forgotten, and nothing is opened with its keys: both ends count from about the same moment.
    pub(super) fn opens_until(&self, limits: &KeyLimits) -> Instant {
        self.seals_until(limits) + OVERLAP
    }

    /// Whether datagrams may be sealed with it, once it is in use.
    pub(super) fn is_alive(&self, limits: &KeyLimits, now: Instant) -> bool {
        let spent = |key: &SealingKey| key.sealed + BATCH_MARGIN > limits.datagrams;
        now < self.seals_until(limits) && !self.sealing.as_ref().is_some_and(spent)
    }

    pub(super) fn sealing_key(&self, epoch: u8, now: Instant) -> SealingKey {
        let key = self.source.packet_key(self.aead, self.role, epoch);
        SealingKey { label: self.peer_label, epoch, key, since: now, acknowledged: false, sealed: 0 }
    }

    fn opening_key(&self, epoch: u8) -> OpeningKey {
        OpeningKey::new(self.source.packet_key(self.aead, self.role.peer(), epoch))
    }

    /// Opens with the key of the epoch whose low bits are in `header`.
    ///
    /// # Errors
    /// [`AuthError`] if that does not open it, or has opened as much as it may.
    pub(super) fn open(
        &mut self,
        header: &Header,
        packet_number: PacketNumber,
        sealed: &mut [u8],
        limits: &KeyLimits,
    ) -> Result<(), AuthError> {
        let ahead = header.epoch.wrapping_sub(self.opening.epoch) % EPOCHS_ON_WIRE;
        let key = match ahead {
            0 => Some(&mut self.opening.current),
            1 => self.opening.next.as_mut(),
            _ if ahead == EPOCHS_ON_WIRE - 1 => self.opening.previous.as_mut(),
            _ => None,
        };
        let key = key.ok_or(AuthError)?;
        // A site of an older version may seal more with the last of its epochs.
        if self.is_renewable && key.opened >= limits.datagrams {
            return Err(AuthError);
        }
        let nonce = nonce(header.path, packet_number);
        key.key.open(nonce, &header.associated_data(), sealed)?;
        key.opened += 1;
        if ahead == 1 {
            self.advance_opening();
        }
        Ok(())
    }

    fn advance_opening(&mut self) {
        let Some(next) = self.opening.next.take() else {
            return;
        };
        self.opening.epoch += 1;
        self.opening.previous = Some(std::mem::replace(&mut self.opening.current, next));
        self.opening.next = self.opening.epoch.checked_add(1).map(|epoch| self.opening_key(epoch));
    }

    pub(super) fn epoch_to_roll_to(&self, limits: &KeyLimits, now: Instant) -> Option<u8> {
        let sealing = self.sealing.as_ref()?;
        let due = sealing.roll_at(limits).is_some_and(|at| at <= now);
        // The 256th epoch, after eight hours with a site that knows of no exchange, seals until its generation ends.
        sealing.epoch.checked_add(1).filter(|_| due)
    }
}
