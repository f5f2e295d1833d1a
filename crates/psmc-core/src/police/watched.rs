//! An aggregate that loses much: what it does after that, and what it is held to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limit::{Limit, Seen};
use super::report::Entry;
use super::{Aggregate, Facts, Kind, MIN_ROUND, PoliceMode, Tag};
use crate::clock::TokenBucket;

/// A share of losses below this says nothing: BBR keeps sending into up to a fifth, and so do radios. Of whoever heeds losses less
/// is lost once two round trips have passed.
const HEAVY_LOSS: f64 = 1.0 / 3.0;

/// For so long it must have gone on without a round of less: the longest round trips are 0.6 s, and what heeds losses needs three
/// of them to leave its slow start; video calls hear of losses once a second.
const PROOF: Duration = Duration::from_secs(2);

/// The same for what looks like TCP or QUIC: controllers by a model of the path (BBR) may send twice what is delivered for seconds, but
/// all lower their window to a few packets every ten seconds to find the least round trip (draft-ietf-ccwg-bbr, section 5.3.4.3).
const PROOF_OF_CONNECTIONS: Duration = Duration::from_secs(12);

/// An aggregate that offers a fifth less than it did is on its way down, and gets the time of a proof again.
const FALLING: f64 = 0.8;

/// How much more than TCP at its losses it must send (RFC 5348 §3.1). The equation knows neither the whole round trip nor which
/// losses belong together: each may make a factor of two.
const MARGIN: f64 = 4.0;

/// A round is judged once so many packets have arrived or been dropped; fewer tell no share of losses.
const MIN_SETTLED: u32 = 8;

/// Rounds are not longer, however few packets there are.
const MAX_ROUND: Duration = Duration::from_secs(2);

/// An aggregate that is not held down and of which so many rounds in a row lose nothing is no longer watched.
const QUIET_ROUNDS: u32 = 16;

/// Rounds over which it is measured what arrives.
const ROUNDS_OF_RATE: usize = 3;

/// What may go at once at the limited rate, and what may at least: batches and timers are so late, and two packets always fit.
const BURST: Duration = Duration::from_millis(50);
const BURST_BITS: u64 = 24_000;

/// Words of the set of flows: a bit for each number that a flow can have.
const WORDS: usize = 64;

/// An aggregate that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) tag: Tag,
    pub(super) aggregate: Aggregate,
    /// The newest of its packets.
    pub(super) example: Option<Facts>,
    /// Who suspects packets of it.
    pub(super) suspected_by: Option<Arc<str>>,
    pub(super) counts: Counts,
    round: Round,
    /// Bytes let pass of which nobody has said yet what became of them.
    unsettled: u64,
    pub(super) seen: Seen,
    /// Bytes that arrived in the last rounds, and how long these were; the oldest first.
    arrived: [(u64, Duration); ROUNDS_OF_RATE],
    evidence: Option<Evidence>,
    pub(super) held: Option<Held>,
    quiet_rounds: u32,
    /// Whether reports tell of it, which come only while something is dropped.
    pub(super) is_reported: bool,
    /// What of the counts was told to whoever sends it here.
    told: Counts,
}

/// What became of an aggregate since it is watched, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came.
    pub offered: u64,
    /// Dropped here because of the limit.
    pub held_back: u64,
    /// Arrived.
    pub delivered: u64,
    /// Dropped elsewhere.
    pub dropped: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.held_back += other.held_back;
        self.delivered += other.delivered;
        self.dropped += other.dropped;
    }
}

#[derive(Debug)]
struct Round {
    since: Instant,
    offered: u64,
    packets: u32,
    passed: u64,
    delivered: u64,
    dropped: u64,
    shaped: u64,
    /// Bytes that the far end of the tunnel has acknowledged, where reports tell of what is behind it.
    acknowledged: u64,
    /// Whether a report has told of it.
    is_told: bool,
    settled: u32,
    /// One bit for each flow that was seen.
    flows: [u64; WORDS],
}

/// Losses that go on.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    since: Instant,
    /// Bits per second then.
    offered: u64,
    rounds: u32,
}

/// How an aggregate is held down.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) since: Instant,
    pub(super) limit: Limit,
    /// The losses by which it was found out.
    pub(super) loss: f64,
    /// Since when it has offered less than the limit.
    calm_since: Option<Instant>,
    passed: TokenBucket,
}

/// What the site knows beside the aggregate itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) mode: PoliceMode,
    pub(super) floor: u64,
    pub(super) round_trip: Duration,
    pub(super) others_lose: bool,
}

impl Watched {
    pub(super) fn new(tag: Tag, aggregate: Aggregate, now: Instant) -> Self {
        Self {
            tag,
            aggregate,
            example: None,
            suspected_by: None,
            counts: Counts::default(),
            round: Round::new(now),
            unsettled: 0,
            seen: Seen::default(),
            arrived: [(0, Duration::ZERO); ROUNDS_OF_RATE],
            evidence: None,
            held: None,
            quiet_rounds: 0,
            is_reported: false,
            told: Counts::default(),
        }
    }

    /// One of its packets has come. Says whether it may pass.
    pub(super) fn offer(&mut self, packet: &Facts, bytes: u64, now: Instant) -> bool {
        self.example = Some(*packet);
        self.counts.offered += bytes;
        self.round.offered += bytes;
        self.round.packets += 1;
        let flow = usize::from(packet.flow);
        self.round.flows[flow / 64 % WORDS] |= 1 << (flow % 64);
        let passes = self.held.as_mut().is_none_or(|held| held.admits(bytes, now));
        if passes {
            self.round.passed += bytes;
            self.unsettled += bytes;
        } else {
            self.counts.held_back += bytes;
        }
        passes
    }

    /// Bytes have arrived: at the far end of the tunnel, and whether any further reports tell, if there are such.
    pub(super) fn on_delivered(&mut self, bytes: u64) {
        if self.is_reported {
            self.round.acknowledged += bytes;
            return;
        }
        let bytes = self.settle(bytes);
        self.counts.delivered += bytes;
        self.round.delivered += bytes;
    }

    /// Bytes were dropped.
    pub(super) fn on_dropped(&mut self, bytes: u64) {
        let bytes = self.settle(bytes);
        self.counts.dropped += bytes;
        self.round.dropped += bytes;
    }

    /// A report has told of it. If that is of more than has passed, it is believed in proportion.
    pub(super) fn on_report(&mut self, entry: &Entry) {
        let told = [entry.delivered, entry.dropped, entry.shaped];
        let sum: u128 = told.iter().map(|&bytes| u128::from(bytes)).sum();
        let most = u128::from(self.unsettled).min(sum);
        let part = |bytes: u64| u64::try_from(u128::from(bytes) * most / sum.max(1)).unwrap_or_default();
        let [delivered, dropped, shaped] = told.map(part);
        self.unsettled -= delivered + dropped + shaped;
        self.counts.delivered += delivered;
        self.counts.dropped += dropped + shaped;
        self.round.delivered += delivered;
        self.round.dropped += dropped;
        self.round.shaped += shaped;
        self.is_reported = true;
        self.round.is_told = true;
        // It is about many packets.
        self.round.settled = self.round.settled.max(MIN_SETTLED);
    }

    /// What became of it since this was last asked, and the newest of its packets, if something was dropped or held back.
    pub(super) fn take_losses(&mut self) -> Option<(Entry, Facts)> {
        let before = std::mem::replace(&mut self.told, self.counts);
        let entry = Entry {
            aggregate: self.aggregate,
            delivered: self.counts.delivered - before.delivered,
            dropped: self.counts.dropped - before.dropped,
            shaped: self.counts.held_back - before.held_back,
        };
        (entry.dropped + entry.shaped > 0).then_some((entry, self.example?))
    }

    /// It is what `part` was a part of.
    pub(super) fn take_over(&mut self, part: Self) {
        self.counts.add(&part.counts);
        self.told.add(&part.told);
        self.is_reported |= part.is_reported;
        let older = |one: &Evidence, other: &Evidence| one.since <= other.since;
        match (&mut self.evidence, part.evidence) {
            (Some(own), Some(of_part)) if older(own, &of_part) => own.rounds = own.rounds.max(of_part.rounds),
            (own, Some(of_part)) => *own = Some(of_part),
            (_, None) => {}
        }
        self.held = self.held.take().or(part.held);
        self.suspected_by = self.suspected_by.take().or(part.suspected_by);
    }

    /// Whether nothing speaks against forgetting it.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_none() && self.evidence.is_none()
    }

    /// Whether it has lost nothing for long.
    pub(super) fn is_over(&self) -> bool {
        self.held.is_none() && self.quiet_rounds >= QUIET_ROUNDS
    }

    /// Judges the round, if it has shown enough.
    pub(super) fn end_round(&mut self, context: &Context, now: Instant) {
        let took = now.saturating_duration_since(self.round.since);
        // No report by the time of the next one says that nothing was dropped.
        let patience = if self.is_reported { context.round_trip.max(MIN_ROUND) * 2 } else { MAX_ROUND };
        let says_enough = self.round.settled >= MIN_SETTLED || took >= patience || self.is_below_limit(took);
        if took.is_zero() || !says_enough {
            return;
        }
        let round = std::mem::replace(&mut self.round, Round::new(now));
        if self.is_reported {
            // What no report has told of arrived long ago.
            self.unsettled = self.unsettled.min(round.passed.saturating_mul(4));
        }
        self.seen = round.seen(took, context.others_lose, self.is_reported);
        self.arrived.rotate_left(1);
        self.arrived[ROUNDS_OF_RATE - 1] = (round.delivered(self.seen.loss, self.is_reported), took);
        self.seen.carried = rate(
            self.arrived.iter().map(|(bytes, _)| bytes).sum(),
            self.arrived.iter().map(|(_, took)| took).sum(),
        );
        self.quiet_rounds = if round.dropped + round.shaped > 0 { 0 } else { self.quiet_rounds + 1 };
        match &mut self.held {
            Some(held) => {
                if held.follow(&self.seen, round.since, now) {
                    self.held = None;
                    self.evidence = None;
                }
            }
            None => self.judge(&round, context, now),
        }
    }

    fn judge(&mut self, round: &Round, context: &Context, now: Instant) {
        let seen = &self.seen;
        let is_guilty = match context.mode {
            // Every drop changes the profile; who heeds them is told by the headers (seed QoS §5.1).
            PoliceMode::Seed { .. } => self.aggregate.kind == Kind::Plain && round.dropped + round.shaped > 0,
            PoliceMode::Police => {
                let is_heavy = seen.loss >= HEAVY_LOSS && seen.offered > context.floor.saturating_mul(2);
                if !is_heavy || round.is_friendly(self.aggregate.kind, seen, context.round_trip) {
                    self.evidence = None;
                    return;
                }
                let fresh = Evidence { since: round.since, offered: seen.offered, rounds: 0 };
                let evidence = self.evidence.get_or_insert(fresh);
                evidence.rounds += 1;
                if (seen.offered as f64) < evidence.offered as f64 * FALLING {
                    *evidence = Evidence { since: now, offered: seen.offered, rounds: 0 };
                }
                let proof = match self.aggregate.kind {
                    Kind::Plain => PROOF,
                    Kind::Tcp | Kind::Quic => {
                        // What it falls from need not be what it had when the losses began.
                        evidence.offered = evidence.offered.max(seen.offered);
                        PROOF_OF_CONNECTIONS
                    }
                };
                evidence.rounds >= 3 && now.saturating_duration_since(evidence.since) >= proof
            }
        };
        if is_guilty {
            self.held = Some(Held {
                since: now,
                limit: Limit::new(context.mode, context.floor, seen),
                loss: seen.loss,
                calm_since: None,
                passed: TokenBucket::default(),
            });
        }
    }

    /// Takes bytes off those of which nothing was known: nobody can have lost, or got, what was not sent.
    fn settle(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.unsettled);
        self.unsettled -= bytes;
        if bytes > 0 {
            self.round.settled += 1;
        }
        bytes
    }

    /// Few packets settle where few come: that is known without waiting for them.
    fn is_below_limit(&self, took: Duration) -> bool {
        self.held.as_ref().is_some_and(|held| rate(self.round.offered, took) < held.limit.rate())
    }
}

impl Held {
    fn admits(&mut self, bytes: u64, now: Instant) -> bool {
        let rate = self.limit.rate();
        if rate == 0 {
            return false;
        }
        let time_of = |bits: u64| Duration::from_secs_f64(bits as f64 / rate as f64);
        self.passed.admits(time_of(bytes * 8), BURST.max(time_of(BURST_BITS)), now)
    }

    /// A round is over that began at `began`. Says whether the limit may go: what comes has been less for as long as it took to
    /// find the aggregate out.
    fn follow(&mut self, seen: &Seen, began: Instant, now: Instant) -> bool {
        self.limit.follow(seen);
        if seen.offered >= self.limit.rate() {
            self.calm_since = None;
            return false;
        }
        let since = *self.calm_since.get_or_insert(began);
        now.saturating_duration_since(since) >= PROOF
    }
}

impl Round {
    fn new(since: Instant) -> Self {
        Self {
            since,
            offered: 0,
            packets: 0,
            passed: 0,
            delivered: 0,
            dropped: 0,
            shaped: 0,
            acknowledged: 0,
            is_told: false,
            settled: 0,
            flows: [0; WORDS],
        }
    }

    fn seen(&self, took: Duration, others_lose: bool, is_reported: bool) -> Seen {
        let lost = self.dropped + self.shaped;
        // Where no report came nothing was dropped behind the far end.
        let arrived = if is_reported && !self.is_told { self.acknowledged } else { self.delivered };
        let settled = arrived + lost;
        let loss = if settled == 0 { 0.0 } else { lost as f64 / settled as f64 };
        let delivered = rate(self.delivered(loss, is_reported), took);
        Seen {
            offered: rate(self.offered, took),
            delivered,
            carried: delivered,
            loss,
            dropped: self.dropped,
            shaped: self.shaped,
            took,
            others_lose,
        }
    }

    /// Bytes that arrived. The time that a report is about is not that of the round; its shares are.
    fn delivered(&self, loss: f64, is_reported: bool) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of some bytes")]
        let of_passed = (self.passed as f64 * (1.0 - loss)) as u64;
        if is_reported { of_passed } else { self.delivered }
    }

    /// Whether it sends no more than a few times what as many TCP connections would at these losses. Plain UDP counts as one,
    /// however many flows it claims to be.
    fn is_friendly(&self, kind: Kind, seen: &Seen, round_trip: Duration) -> bool {
        let flows = match kind {
            Kind::Tcp | Kind::Quic => self.flows(),
            Kind::Plain => 1.0,
        };
        let packet = self.offered as f64 / f64::from(self.packets.max(1));
        seen.offered as f64 <= MARGIN * flows * tcp_rate(packet, round_trip, seen.loss)
    }

    /// How many there are about, by linear counting (Whang et al. 1990).
    fn flows(&self) -> f64 {
        let places = 64.0 * WORDS as f64;
        let taken: u32 = self.flows.iter().map(|word| word.count_ones()).sum();
        -places * (1.0 - f64::from(taken) / (places + 1.0)).ln()
    }
}

/// Bits per second of a TCP connection with packets of so many bytes (RFC 5348 §3.1, eq. 1, with b = 1).
fn tcp_rate(packet: f64, round_trip: Duration, loss: f64) -> f64 {
    let round_trip = round_trip.as_secs_f64();
    // TCP's timer is not shorter than this (Linux).
    let timeout = (4.0 * round_trip).max(0.2);
    let per_packet = round_trip * (2.0 * loss / 3.0).sqrt()
        + timeout * 3.0 * (3.0 * loss / 8.0).sqrt() * loss * (1.0 + 32.0 * loss * loss);
    packet * 8.0 / per_packet
}

/// Bits per second.
fn rate(bytes: u64, took: Duration) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate that is not negative"
    )]
    let rate = (bytes as f64 * 8.0 / took.as_secs_f64()) as u64;
    rate
}
