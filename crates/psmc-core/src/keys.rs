//! The keys of a session: one generation per control connection, several epochs per generation.
//!
//! A generation is installed for receiving before its label is told to the peer. It is used for sending by the
//! dialer once the acceptor's hello has arrived, and by the acceptor once a datagram has been opened with it:
//! so neither side ever seals with a key that the other one lacks, and no datagram is lost at a change. Only an
//! acceptor that has no other key uses it at once, because the dialer may have no path to be the first on;
//! nothing but probes can be lost then.

use std::time::{Duration, Instant};

use psmc_wire::crypto::{Aead, AuthError, KeySource, PacketKey, Role, TAG_LEN};
use psmc_wire::datagram::{EPOCHS_ON_WIRE, HEADER_LEN, Header, Marks, nonce};
use psmc_wire::{Label, PacketNumber, PathId};

/// A key seals for this long at the most (design §3; the same as WireGuard's REKEY_AFTER_TIME).
pub(crate) const KEY_LIFETIME: Duration = Duration::from_secs(120);

/// A key seals at most this many datagrams before it is rolled, whatever its age: a confidentiality bound for
/// AES-GCM with full-size datagrams (RFC 9001 appendix B.1.1 allows 2^28 of 2 KiB).
const KEY_DATAGRAMS: u64 = 1 << 27;

/// How long an older generation still opens datagrams after a newer one is in use: far longer than any
/// datagram stays on its way.
const OVERLAP: Duration = Duration::from_secs(10);

/// Generations kept at once: the one in use, those before and after it, and some of handshakes that ended halfway,
/// of which the peer may know or not.
const MAX_GENERATIONS: usize = 8;

/// The key with which a session seals.
pub(crate) struct SealingKey {
    label: Label,
    epoch: u8,
    key: Box<dyn PacketKey>,
    since: Instant,
    /// Whether the peer has acknowledged a datagram sealed with it, and so surely holds the next one too.
    acknowledged: bool,
    /// Datagrams sealed with it.
    sealed: u64,
}

impl SealingKey {
    /// When it should be rolled; not before the peer surely holds the next one.
    fn roll_at(&self) -> Option<Instant> {
        let lifetime = if self.sealed < KEY_DATAGRAMS { KEY_LIFETIME } else { Duration::ZERO };
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

/// The keys with which a generation opens: of the epoch last seen, the one before, and the one to come, so
/// that a forged datagram never causes a key to be derived.
struct OpeningKeys {
    epoch: u8,
    previous: Option<Box<dyn PacketKey>>,
    current: Box<dyn PacketKey>,
    next: Option<Box<dyn PacketKey>>,
}

struct Generation {
    label: Label,
    role: Role,
    aead: Aead,
    source: Box<dyn KeySource>,
    opening: OpeningKeys,
    /// Not yet there while an acceptor waits for the first datagram.
    sealing: Option<SealingKey>,
    peer_label: Label,
    retire_at: Option<Instant>,
}

impl Generation {
    fn sealing_key(&self, epoch: u8, now: Instant) -> SealingKey {
        let key = self.source.packet_key(self.aead, self.role, epoch);
        SealingKey { label: self.peer_label, epoch, key, since: now, acknowledged: false, sealed: 0 }
    }

    fn opening_key(&self, epoch: u8) -> Box<dyn PacketKey> {
        self.source.packet_key(self.aead, self.role.peer(), epoch)
    }

    /// Opens with the key of the epoch whose low bits are `epoch`. Returns whether it is the next one.
    fn open(
        &self,
        header: &Header,
        packet_number: PacketNumber,
        sealed: &mut [u8],
    ) -> Result<bool, AuthError> {
        let ahead = header.epoch.wrapping_sub(self.opening.epoch) % EPOCHS_ON_WIRE;
        let key = match ahead {
            0 => Some(&self.opening.current),
            1 => self.opening.next.as_ref(),
            _ if ahead == EPOCHS_ON_WIRE - 1 => self.opening.previous.as_ref(),
            _ => None,
        };
        let nonce = nonce(header.path, packet_number);
        key.ok_or(AuthError)?.open(nonce, &header.associated_data(), sealed)?;
        Ok(ahead == 1)
    }

    fn advance_opening(&mut self) {
        let Some(next) = self.opening.next.take() else {
            return;
        };
        self.opening.epoch += 1;
        self.opening.previous = Some(std::mem::replace(&mut self.opening.current, next));
        self.opening.next = self.opening.epoch.checked_add(1).map(|epoch| self.opening_key(epoch));
    }

    fn epoch_to_roll_to(&self, now: Instant) -> Option<u8> {
        let sealing = self.sealing.as_ref()?;
        let due = sealing.roll_at().is_some_and(|at| at <= now);
        // The 256th epoch, after eight hours without a control connection, seals until there is one again.
        sealing.epoch.checked_add(1).filter(|_| due)
    }
}

/// What a new generation is made of.
pub(crate) struct NewKeys {
    pub(crate) label: Label,
    pub(crate) peer_label: Label,
    pub(crate) role: Role,
    pub(crate) aead: Aead,
    pub(crate) source: Box<dyn KeySource>,
}

/// All keys of a session.
#[derive(Default)]
pub(crate) struct KeyRing {
    /// Oldest first.
    generations: Vec<Generation>,
    rolls: u64,
}

impl KeyRing {
    /// Installs a generation. Returns the label that became void because there were too many.
    pub(crate) fn install(&mut self, keys: NewKeys, now: Instant) -> Option<Label> {
        let opens = |epoch| keys.source.packet_key(keys.aead, keys.role.peer(), epoch);
        let opening = OpeningKeys { epoch: 0, previous: None, current: opens(0), next: Some(opens(1)) };
        let NewKeys { label, peer_label, role, aead, source } = keys;
        self.generations.push(Generation {
            label,
            role,
            aead,
            source,
            opening,
            sealing: None,
            peer_label,
            retire_at: None,
        });
        if role == Role::Dialer || self.sealing().is_none() {
            self.confirm(self.generations.len() - 1, now);
        }
        (self.generations.len() > MAX_GENERATIONS).then(|| self.remove_oldest_unused())
    }

    /// One that was ever in use stays as long as it can, however old: the peer may never have heard of those that
    /// came after.
    fn remove_oldest_unused(&mut self) -> Label {
        let older = &self.generations[..MAX_GENERATIONS];
        let unused = older.iter().position(|generation| generation.sealing.is_none());
        self.generations.remove(unused.unwrap_or(0)).label
    }

    /// Drops all generations. Returns their labels.
    pub(crate) fn clear(&mut self) -> Vec<Label> {
        self.generations.drain(..).map(|old| old.label).collect()
    }

    /// Opens `sealed` in place with the generation of `header`'s label.
    ///
    /// # Errors
    /// [`AuthError`] if no key of the generation opens it.
    pub(crate) fn open(
        &mut self,
        header: &Header,
        packet_number: PacketNumber,
        sealed: &mut [u8],
        now: Instant,
    ) -> Result<(), AuthError> {
        let index = self.generations.iter().rposition(|g| g.label == header.label).ok_or(AuthError)?;
        if self.generations[index].open(header, packet_number, sealed)? {
            self.generations[index].advance_opening();
        }
        if self.generations[index].sealing.is_none() && self.generations[index].retire_at.is_none() {
            self.confirm(index, now);
        }
        Ok(())
    }

    /// Starts to seal with a generation, and lets those before it retire.
    fn confirm(&mut self, index: usize, now: Instant) {
        let key = self.generations[index].sealing_key(0, now);
        self.generations[index].sealing = Some(key);
        for older in &mut self.generations[..index] {
            older.retire_at.get_or_insert(now + OVERLAP);
        }
    }

    /// The key to seal with: the newest one that the peer is known to hold.
    pub(crate) fn sealing(&self) -> Option<&SealingKey> {
        self.generations.iter().rev().find_map(|generation| generation.sealing.as_ref())
    }

    /// Whether the peer finds datagrams with this label: whoever knows it has seen one.
    pub(crate) fn is_peer_label(&self, label: Label) -> bool {
        self.generations.iter().any(|generation| generation.peer_label == label)
    }

    /// So many datagrams have been sealed with the sealing key.
    pub(crate) fn on_sealed(&mut self, datagrams: u64) {
        let newest = self.generations.iter_mut().rev().find_map(|generation| generation.sealing.as_mut());
        if let Some(sealing) = newest {
            sealing.sealed += datagrams;
        }
    }

    /// The peer has acknowledged a datagram that was sealed at `sent_at`.
    pub(crate) fn on_acknowledged(&mut self, sent_at: Instant) {
        let newest = self.generations.iter_mut().rev().find_map(|generation| generation.sealing.as_mut());
        if let Some(sealing) = newest.filter(|sealing| sealing.since <= sent_at) {
            sealing.acknowledged = true;
        }
    }

    /// Rolls the sealing key if it is old enough, and drops retired generations. Returns void labels.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Vec<Label> {
        if let Some(generation) = self.generations.iter_mut().rev().find(|g| g.sealing.is_some())
            && let Some(epoch) = generation.epoch_to_roll_to(now)
        {
            generation.sealing = Some(generation.sealing_key(epoch, now));
            self.rolls += 1;
        }
        let retired = |generation: &mut Generation| generation.retire_at.is_some_and(|at| at <= now);
        self.generations.extract_if(.., retired).map(|old| old.label).collect()
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let retire = self.generations.iter().filter_map(|generation| generation.retire_at).min();
        let roll = self.sealing().filter(|sealing| sealing.epoch < u8::MAX).and_then(SealingKey::roll_at);
        [retire, roll].into_iter().flatten().min()
    }

    /// How often the sealing key was rolled within its generation.
    pub(crate) fn rolls(&self) -> u64 {
        self.rolls
    }

    /// Since when the present sealing key is in use, and its epoch.
    pub(crate) fn sealing_since(&self) -> Option<(Instant, u8)> {
        self.sealing().map(|sealing| (sealing.since, sealing.epoch))
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing").field("generations", &self.generations.len()).finish_non_exhaustive()
    }
}
