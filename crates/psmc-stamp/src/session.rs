//! The Session-Sender (RFC 8762 section 4.2) without clock and sockets: what is sent, and what is made of what comes.
//!
//! Nothing is believed but what gives back the number and the timestamp of a probe that was sent, from the address that it went to,
//! and with a key what is authentic. Whatever a reflector says of its own times, the round trip is that of the clock that nobody
//! sets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stamp_suite::error_estimate::ErrorEstimate;
use stamp_suite::packets::{
    AUTH_BASE_SIZE, AUTH_HMAC_OFFSET, ReflectedPacketAuthenticated, ReflectedPacketUnauthenticated,
    UNAUTH_BASE_SIZE,
};
use stamp_suite::sender::{build_auth_packet_with_tlvs, build_unauth_packet_with_tlvs};
use stamp_suite::tlv::{DirectMeasurementTlv, TlvList, TypedTlv};

use crate::answer::{Answer, ClockError, Oddities, Oddity, OneWay};
use crate::clock::{Reading, allowance, error_estimate, nanos, read_timestamp, timestamp};
use crate::key::Key;
use crate::loss::{Counters, Ledger, Losses, Witness};

/// The shortest time between two probes: with it a measurement takes 0.4 Mb/s, and no more than some percent of a core.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The longest time that an answer is waited for; a satellite and full buffers take a few seconds.
pub const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Probes of which something is remembered: enough for all that wait ([`MAX_PATIENCE`] of [`MIN_INTERVAL`]), and a megabyte at most.
const MAX_REMEMBERED: usize = 61_000;

/// Probes that are remembered at least, so that late and doubled answers are known as such.
const REMEMBERED: usize = 1_000;

/// One measurement of one reflector. Its contract: [`probe`](Self::probe), and send what it yields at once, which [`leaves`](Self::leaves) may be told of;
/// [`answer`](Self::answer) for each datagram that comes; [`give_up`](Self::give_up) when [`deadline`](Self::deadline) says so.
#[derive(Debug)]
pub struct Session {
    remote: SocketAddr,
    key: Option<Key>,
    /// Tells this session from others between the same addresses (RFC 8972 section 3).
    ssid: u16,
    patience: Duration,
    /// The number of the next probe. Numbers on the wire have 32 bits.
    next: u64,
    probes: BTreeMap<u64, Probe>,
    /// Those that wait for their answers.
    waiting: BTreeSet<u64>,
    /// The highest number that was answered.
    highest: Option<u64>,
    ledger: Ledger,
    oddities: Oddities,
    clocks: Option<Offset>,
    clock_sets: u64,
}

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct Probe {
    at: Reading,
    timestamp: u64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    /// By an answer that the reflector had given this number.
    Answered(u32),
    GivenUp,
}

/// How far the clocks are apart, as an answer says.
#[derive(Clone, Copy, Debug)]
struct Offset {
    at: Instant,
    /// Theirs less ours, in nanoseconds.
    theirs: i128,
    /// By how much that may be wrong: half the round trip, for the delays each way are not known apart.
    error: i128,
}

/// What both layouts of an answer have.
struct Fields {
    number: u32,
    sent: u64,
    received: u64,
    error_estimate: u16,
    ssid: u16,
    sequence: u32,
    timestamp: u64,
    hops: u8,
}

impl Session {
    /// A session with a reflector at `remote`, which gives a probe up after `patience`, up to [`MAX_PATIENCE`].
    #[must_use]
    pub fn new(remote: SocketAddr, key: Option<Key>, ssid: u16, patience: Duration) -> Self {
        Self {
            remote,
            key,
            ssid,
            patience: patience.min(MAX_PATIENCE),
            next: 0,
            probes: BTreeMap::new(),
            waiting: BTreeSet::new(),
            highest: None,
            ledger: Ledger::default(),
            oddities: Oddities::default(),
            clocks: None,
            clock_sets: 0,
        }
    }

    /// The next probe, and its bytes, which have to be sent at once.
    pub fn probe(&mut self, at: Reading) -> (u32, Vec<u8>) {
        let (number, timestamp) = (self.next, timestamp(at.system));
        self.next += 1;
        self.probes.insert(number, Probe { at, timestamp, fate: Fate::Waits });
        self.waiting.insert(number);
        self.forget();
        let sequence = wire(number);
        let count = [DirectMeasurementTlv::new(sequence.wrapping_add(1)).to_raw()];
        let (error, ssid) = (error_estimate().to_wire(), Some(self.ssid));
        let bytes = match self.key.as_ref().map(Key::hmac) {
            None => build_unauth_packet_with_tlvs(sequence, timestamp, error, ssid, &count, None),
            Some(key) => {
                build_auth_packet_with_tlvs(sequence, timestamp, error, key, ssid, &count, Some(key))
            }
        };
        (sequence, bytes)
    }

    /// The latest probe is only sent at this moment: to make it took a while, which is no delay of the way.
    pub fn leaves(&mut self, at: Reading) {
        if let Some(mut latest) =
            self.probes.last_entry().filter(|latest| self.waiting.contains(latest.key()))
        {
            latest.get_mut().at = at;
        }
    }

    /// The latest probe could not be sent: it is neither answered nor lost, and the next one has its number.
    pub fn not_sent(&mut self) {
        let Some(latest) = self.next.checked_sub(1).filter(|latest| self.waiting.remove(latest)) else {
            return;
        };
        self.probes.remove(&latest);
        self.next = latest;
    }

    /// A datagram has come; what it says, if that is believed.
    pub fn answer(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        at: Reading,
        hops: Option<u8>,
    ) -> Option<Answer> {
        match self.try_answer(bytes, from, at, hops) {
            Ok(answer) => Some(answer),
            Err(oddity) => {
                self.oddities.count(oddity);
                None
            }
        }
    }

    /// When [`give_up`](Self::give_up) has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let oldest = self.probes.get(self.waiting.first()?)?;
        Some(oldest.at.monotonic + self.patience)
    }

    /// The next probe that was not answered in time, if there is one.
    pub fn give_up(&mut self, now: Instant) -> Option<u32> {
        if self.deadline()? > now {
            return None;
        }
        let number = self.waiting.pop_first()?;
        self.probes.get_mut(&number)?.fate = Fate::GivenUp;
        self.ledger.lost();
        Some(wire(number))
    }

    /// A probe could not be delivered, as somebody says.
    pub fn undeliverable(&mut self) {
        self.oddities.count(Oddity::Undeliverable);
    }

    /// What was lost, and which way.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.ledger.losses()
    }

    /// What was odd.
    #[must_use]
    pub fn oddities(&self) -> &Oddities {
        &self.oddities
    }

    /// How often a clock was set, here or there, as far as it was noticed.
    #[must_use]
    pub fn clock_sets(&self) -> u64 {
        self.clock_sets
    }

    fn try_answer(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        at: Reading,
        hops: Option<u8>,
    ) -> Result<Answer, Oddity> {
        let (fields, number, probe) = self.recognise(bytes, from)?;
        let witness = self.witness(bytes, &fields, number);
        self.see_that_it_is_awaited(probe.fate, fields.number, witness)?;
        self.waiting.remove(&number);
        self.probes.insert(number, Probe { fate: Fate::Answered(fields.number), ..probe });
        self.ledger.answered();
        if !self.ledger.hear(witness) {
            self.oddities.count(Oddity::Implausible);
        }
        let is_reordered = self.highest.is_some_and(|highest| highest > number);
        if is_reordered {
            self.oddities.count(Oddity::Reordered);
        }
        self.highest = self.highest.max(Some(number));
        let (round_trip, one_way) = self.delays(&fields, probe.at, at);
        let counters = match witness {
            Witness::Counter(counters) => Some(counters),
            Witness::Number(_) => None,
        };
        Ok(Answer {
            sequence: fields.sequence,
            round_trip,
            one_way,
            clocks: [ours(), theirs(fields.error_estimate)],
            hops_there: Some(fields.hops).filter(|hops| *hops > 0),
            hops_back: hops,
            counters,
            is_reordered,
        })
    }

    /// What an answer says, and to which probe.
    fn recognise(&self, bytes: &[u8], from: SocketAddr) -> Result<(Fields, u64, Probe), Oddity> {
        if from != self.remote {
            return Err(Oddity::OtherAddress);
        }
        let fields = Fields::read(bytes, self.key.as_ref())?;
        let number = self.number_of(fields.sequence).ok_or(Oddity::Unasked)?;
        let probe = *self.probes.get(&number).ok_or(Oddity::Unasked)?;
        let is_ours = fields.timestamp == probe.timestamp && (fields.ssid == self.ssid || fields.ssid == 0);
        if is_ours { Ok((fields, number, probe)) } else { Err(Oddity::Unasked) }
    }

    /// Of an answer with this number, to a probe with such a fate. One that nobody waits for may still tell what was lost.
    fn see_that_it_is_awaited(&mut self, fate: Fate, number: u32, witness: Witness) -> Result<(), Oddity> {
        match fate {
            Fate::Waits => Ok(()),
            Fate::Answered(by) => {
                // It was the probe that came there twice, unless it is the same answer.
                if by != number {
                    self.ledger.doubled_there();
                    self.ledger.hear(witness);
                }
                Err(Oddity::Doubled)
            }
            Fate::GivenUp => {
                self.ledger.hear(witness);
                Err(Oddity::Late)
            }
        }
    }

    /// Of which probe a number on the wire is: the latest one with these 32 bits.
    fn number_of(&self, sequence: u32) -> Option<u64> {
        let latest = self.next.checked_sub(1)?;
        latest.checked_sub(u64::from(wire(latest).wrapping_sub(sequence)))
    }

    /// What the answer says of how many probes have come to the reflector.
    fn witness(&mut self, bytes: &[u8], fields: &Fields, number: u64) -> Witness {
        let sent = number + 1;
        let counters = |received| Counters { sent, received: extended(received, sent) };
        let by_number = Witness::Number(counters(fields.number.wrapping_add(1)));
        match count_of(bytes, self.key.as_ref()) {
            Ok(Some(count)) if count.sender_tx_count == wire(sent) => {
                Witness::Counter(counters(count.reflector_rx_count))
            }
            Ok(None) => by_number,
            Ok(Some(_)) | Err(Malformed) => {
                self.oddities.count(Oddity::MalformedExtensions);
                by_number
            }
        }
    }

    /// The round trip, and the delays each way.
    fn delays(&mut self, fields: &Fields, sent: Reading, back: Reading) -> (Duration, OneWay) {
        let whole = back.monotonic.saturating_duration_since(sent.monotonic);
        let format = ErrorEstimate::from_wire(fields.error_estimate).clock_format();
        let read = |timestamp| read_timestamp(timestamp, format, sent.system);
        let there = read(fields.received).zip(read(fields.sent));
        // Nobody holds an answer back for longer than it was away.
        let held = there.map(|(came, left)| left - came).filter(|held| (0..=nanos(whole)).contains(held));
        let Some(((came, left), held)) = there.zip(held) else {
            self.oddities.count(Oddity::Implausible);
            return (whole, OneWay::Implausible);
        };
        let held = Duration::from_nanos(u64::try_from(held).unwrap_or_default());
        let round_trip = whole.saturating_sub(held);
        let forward = came - nanos(sent.system);
        let backward = nanos(back.system) - left;
        let was_set = self.was_set(sent, back, forward - backward, round_trip);
        let one_way = if was_set {
            self.clock_sets += 1;
            OneWay::ClockSet
        } else {
            OneWay::Measured { forward: signed(forward), backward: signed(backward) }
        };
        (round_trip, one_way)
    }

    /// Whether a clock was set, here while the probe was away, or anywhere since the answer before: how far two clocks are apart is
    /// known to half a round trip. `skew` is twice that.
    fn was_set(&mut self, sent: Reading, back: Reading, skew: i128, round_trip: Duration) -> bool {
        if back.was_set_since(sent) {
            self.clocks = None;
            return true;
        }
        let offset = Offset { at: back.monotonic, theirs: skew / 2, error: nanos(round_trip) / 2 };
        let Some(before) = self.clocks.replace(offset) else { return false };
        let passed = offset.at.saturating_duration_since(before.at);
        let possible = offset.error + before.error + nanos(allowance(passed));
        (offset.theirs - before.theirs).abs() > possible
    }

    /// Forgets probes of which nothing is expected any more. One that waits and is too old for the memory is lost.
    fn forget(&mut self) {
        while self.probes.len() > REMEMBERED {
            let Some(number) = self.probes.first_key_value().map(|(number, _)| *number) else { return };
            if self.waiting.contains(&number) && self.probes.len() <= MAX_REMEMBERED {
                return;
            }
            if self.waiting.remove(&number) {
                self.ledger.lost();
            }
            self.probes.remove(&number);
        }
    }
}

fn wire(number: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "numbers on the wire begin anew")]
    let sequence = number as u32;
    sequence
}

/// A count of 32 bits, near to `sent`, as one that does not begin anew.
fn extended(count: u32, sent: u64) -> u64 {
    sent.saturating_add_signed(count.wrapping_sub(wire(sent)).cast_signed().into())
}

fn signed(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn ours() -> ClockError {
    let estimate = error_estimate();
    ClockError { is_synchronised: estimate.synchronized, seconds: estimate.error_seconds() }
}

/// A multiplier of zero means that the reflector does not know (RFC 8762 section 4.2.1 forbids it).
fn theirs(wire: u16) -> ClockError {
    let estimate = ErrorEstimate::from_wire(wire);
    let is_synchronised = estimate.synchronized && estimate.multiplier > 0;
    ClockError { is_synchronised, seconds: estimate.error_seconds() }
}

/// Extensions of an answer that cannot be read, or are not authentic.
struct Malformed;

/// What the extension Direct Measurement says, if the reflector has filled it in.
fn count_of(bytes: &[u8], key: Option<&Key>) -> Result<Option<DirectMeasurementTlv>, Malformed> {
    let base = if key.is_some() { AUTH_BASE_SIZE } else { UNAUTH_BASE_SIZE };
    let Some(tail) = bytes.get(base..).filter(|tail| !tail.is_empty()) else { return Ok(None) };
    let list = TlvList::parse(tail).map_err(|_| Malformed)?;
    if let Some(key) = key {
        list.hmac_tlv().ok_or(Malformed)?;
        list.verify_hmac(key.hmac(), &bytes[..4], tail).map_err(|_| Malformed)?;
    }
    let is_spoilt = |flags: stamp_suite::tlv::TlvFlags| flags.malformed || flags.integrity_failed;
    if list.iter().any(|tlv| is_spoilt(tlv.flags)) {
        return Err(Malformed);
    }
    let counts = list.non_hmac_tlvs().iter().find(|tlv| tlv.tlv_type == DirectMeasurementTlv::TYPE);
    let Some(counts) = counts.filter(|counts| counts.is_processable()) else { return Ok(None) };
    DirectMeasurementTlv::from_raw(counts).map(Some).map_err(|_| Malformed)
}

impl Fields {
    /// Reads an answer, which must be authentic if there is a key.
    fn read(bytes: &[u8], key: Option<&Key>) -> Result<Self, Oddity> {
        // The library has two types for the two layouts, whose fields have the same names.
        macro_rules! fields_of {
            ($packet:expr) => {
                Self {
                    number: $packet.sequence_number,
                    sent: $packet.timestamp,
                    received: $packet.receive_timestamp,
                    error_estimate: $packet.error_estimate,
                    ssid: $packet.ssid,
                    sequence: $packet.sess_sender_seq_number,
                    timestamp: $packet.sess_sender_timestamp,
                    hops: $packet.sess_sender_ttl,
                }
            };
        }
        let Some(key) = key else {
            let packet = ReflectedPacketUnauthenticated::from_bytes(bytes).map_err(|_| Oddity::Truncated)?;
            return Ok(fields_of!(packet));
        };
        let packet = ReflectedPacketAuthenticated::from_bytes(bytes).map_err(|_| Oddity::Truncated)?;
        if !key.hmac().verify(&bytes[..AUTH_HMAC_OFFSET], &packet.hmac) {
            return Err(Oddity::WrongHmac);
        }
        Ok(fields_of!(packet))
    }
}

#[cfg(test)]
mod tests;
