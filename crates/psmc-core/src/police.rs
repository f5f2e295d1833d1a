//! Flows that heed no loss are held to what arrives of them (seed QoS §5; eq. 6 to 8).
//!
//! A flow that goes on sending what is dropped takes room from others all the way to where it is dropped. Where it enters, a
//! [`Police`] is told of each packet that wants to pass, of each that has arrived and of each that was dropped. From the drops it
//! finds the heaviest aggregates: a class, then prefixes of sources, then a flow. Those it watches, and what they do decides:
//!
//! ```text
//!              a tenth of all drops          loses a third in every round of 2 s, sends more than TCP
//!              or more                       would at that, and not a fifth less than before
//!   unknown ─────────────────▶ watched ─────────────────────────────────────▶ held down
//!      ▲                        │    ▲                                             │
//!      └────────────────────────┘    └─────────────────────────────────────────────┘
//!        no drops for 16 rounds              offers less than its limit, for 2 s
//! ```
//!
//! The limit is what is delivered of it: less by a twentieth when anything is still dropped, by half when others lose packets as
//! well, and more, a packet a round at first, when nothing is (AIMD). What headers say a flow to be keeps kinds apart and is not
//! believed: TCP that does not slow down is held as UDP is.
//!
//! [`Candidate`]s, whom somebody else suspects, are watched from their first drop on. Only what they do after that decides, too.
//!
//! There is one for each far end: others are those who share the way there.
//!
//! Everything is in fixed memory: 140 KiB for the sketch, made with the first drop, and 16 aggregates of 1 KiB.

mod aggregate;
mod limit;
mod report;
mod sketch;
mod watched;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use aggregate::{Aggregate, Candidate, Facts};
use psmc_wire::Bucket;
pub use psmc_wire::drops::Kind;
pub use report::{Entry, Report, Witness};
use sketch::Sketch;
pub use watched::Counts;
use watched::{Context, Watched};

use crate::classify::{ClassId, Classified};

/// Aggregates that are watched at most: with a tenth of all drops each there are ten, and some that are not heavy any more.
pub const MAX_WATCHED: usize = 16;

/// Candidates that are looked at: a few segments that are congested at the same time, with a few aggregates and ingresses each. Each
/// costs a comparison for each drop.
pub const MAX_CANDIDATES: usize = 16;

/// The share of all dropped bytes from which an aggregate is watched.
const SHARE: f64 = 0.1;

/// Drops from which shares of them say something: of so few a host of a thousand has one or two.
const MIN_DROPS: u64 = 64;

/// A round is no shorter: so many packets are of a slow flow, and a tunnel's round trip is not all of a flow's.
const MIN_ROUND: Duration = Duration::from_millis(200);

/// The round trip that is assumed while none is known.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_millis(50);

/// Others lose much if it is this share of what they send: what TCP keeps at in the slowest of paths is less.
const OTHERS_LOSE: f64 = 0.03;

/// Of fewer packets nothing is said of others.
const MIN_OTHERS: u32 = 8;

/// How limits are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoliceMode {
    /// What is delivered, by AIMD with a floor, for whoever heeds no losses.
    Police,
    /// Eq. 6 to 8, for all plain UDP that is dropped. They subtract bytes from a rate, and reach zero.
    Seed {
        /// `γ × linkbw / btlnkbw` where that is known; anything below one counts as one (seed QoS §5.2: "can be ignored").
        aggressiveness: f64,
    },
}

/// How a [`Police`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoliceConfig {
    /// How limits are found.
    pub mode: PoliceMode,
    /// No limit of [`PoliceMode::Police`] is lower, in bits per second, and who offers less than twice that is left alone.
    pub floor: u64,
}

impl Default for PoliceConfig {
    /// A floor of 256 kb/s: a call, or what else somebody waits for.
    fn default() -> Self {
        Self { mode: PoliceMode::Police, floor: 256_000 }
    }
}

/// Which aggregate a packet was taken for; to be kept with it until it has arrived or was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag(Option<NonZeroU16>);

/// What a packet in the tunnel was taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) tag: Tag,
    pub(crate) kind: Kind,
}

impl Marked {
    /// What has to be known of a packet with these headers.
    pub(crate) fn facts(self, headers: &Classified, bucket: Bucket, class: ClassId) -> Facts {
        Facts {
            source: headers.source,
            destination: headers.destination,
            ports: headers.ports,
            // There are sixteen at most.
            class: u8::try_from(class.index()).unwrap_or(u8::MAX),
            kind: self.kind,
            flow: bucket.number(),
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass(Tag),
    /// It is dropped: its aggregate is held down, and has had its share.
    Drop,
}

/// An aggregate that is watched.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateStatus {
    /// Which.
    pub aggregate: Aggregate,
    /// The newest of its packets.
    pub example: Option<Facts>,
    /// Whether it was, or is, dropped behind the far end, which reports that.
    pub is_reported: bool,
    /// Who suspects packets of it: the [`Candidate::told_by`] of a candidate that has lost some.
    pub suspected_by: Option<Arc<str>>,
    /// Bits per second that came, in the last round.
    pub offered: u64,
    /// Bits per second that arrived.
    pub delivered: u64,
    /// The share that was dropped of what was let pass.
    pub loss: f64,
    /// All that was counted.
    pub counts: Counts,
    /// How it is held down.
    pub limit: Option<LimitStatus>,
}

/// What a [`Police`] has counted since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoliceCounters {
    /// What became of aggregates while they were watched, of those that are forgotten as well.
    pub watched: Counts,
    /// How often one was held down.
    pub limits: u64,
    /// How many are held down at present.
    pub held: u64,
    /// Bits per second that may pass of these.
    pub held_rate: u64,
}

/// How an aggregate is held down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitStatus {
    /// Since when.
    pub since: Instant,
    /// Bits per second that pass.
    pub rate: u64,
    /// The share of its packets that was lost when it was found out.
    pub loss: f64,
}

/// Finds aggregates that heed no loss, and holds them down.
///
/// For each packet call [`offer`](Self::offer) when it comes, and then, if it passes, one of [`on_delivered`](Self::on_delivered)
/// and [`on_dropped`](Self::on_dropped) with its [`Tag`] as soon as its fate is known; or [`report`](Self::report) with what a
/// [`Witness`], or the far end, says of many that were dropped behind it. Call [`end_round`](Self::end_round) when [`due_at`](Self::due_at) says so; too early is harmless.
/// A packet of which nothing is ever said counts as neither.
#[derive(Debug)]
pub struct Police {
    config: PoliceConfig,
    sketch: Sketch,
    candidates: Vec<Candidate>,
    /// The closest first.
    watched: Vec<Watched>,
    last_tag: u16,
    others: Others,
    others_lose: bool,
    due_at: Option<Instant>,
    reported_at: Option<Instant>,
    /// Those of what is still watched are not in it.
    counters: PoliceCounters,
}

/// What became of everything that is not held down, in this round.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    delivered: u64,
    dropped: u64,
    packets: u32,
}

impl Police {
    /// Nobody is known yet. The secret keeps others from choosing addresses that share counters.
    #[must_use]
    pub fn new(config: PoliceConfig, secret: u64) -> Self {
        Self {
            config,
            sketch: Sketch::new(secret),
            candidates: Vec::new(),
            watched: Vec::new(),
            last_tag: 0,
            others: Others::default(),
            others_lose: false,
            due_at: None,
            reported_at: None,
            counters: PoliceCounters::default(),
        }
    }

    /// These are suspected from now on, and no others; up to [`MAX_CANDIDATES`]. Who is watched stays so.
    pub fn set_candidates(&mut self, candidates: &[Candidate]) {
        self.candidates = candidates.iter().take(MAX_CANDIDATES).cloned().collect();
    }

    /// Whether packets need not be offered: nobody is watched.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.watched.is_empty()
    }

    /// A packet of so many bytes wants to pass.
    pub fn offer(&mut self, packet: &Facts, bytes: usize, now: Instant) -> Verdict {
        let Some(watched) = self.watched.iter_mut().find(|watched| watched.aggregate.takes(packet)) else {
            return Verdict::Pass(Tag::default());
        };
        if watched.offer(packet, bytes as u64, now) { Verdict::Pass(watched.tag) } else { Verdict::Drop }
    }

    /// So many bytes of a packet with this tag have arrived.
    pub fn on_delivered(&mut self, tag: Tag, bytes: usize) {
        if let Some(others) = self.settle(tag, |watched| watched.on_delivered(bytes as u64)) {
            others.delivered += bytes as u64;
        }
    }

    /// A packet that has passed was dropped.
    pub fn on_dropped(&mut self, packet: &Facts, tag: Tag, bytes: usize, now: Instant) {
        if !self.suspect(packet, tag, now) {
            self.sketch.add(packet, bytes as u64);
        }
        self.due_at.get_or_insert(now + MIN_ROUND);
        if let Some(others) = self.settle(tag, |watched| watched.on_dropped(bytes as u64)) {
            others.dropped += bytes as u64;
        }
    }

    /// A witness says what has arrived and what was dropped, of all that passes here. More than one in half of the shortest round
    /// is not heeded, and nothing that it says exceeds what has passed.
    pub fn report(&mut self, report: &Report, now: Instant) {
        if !self.is_welcome(now) {
            return;
        }
        for entry in report.entries.iter().take(MAX_WATCHED) {
            if let Some(watched) = self.watch(entry.aggregate, now) {
                watched.on_report(entry);
            }
        }
        self.others.delivered = self.others.delivered.saturating_add(report.delivered);
        self.others.dropped = self.others.dropped.saturating_add(report.dropped);
        self.others.packets = self.others.packets.saturating_add(MIN_OTHERS);
    }

    /// When [`end_round`](Self::end_round) is due. Nothing is while nobody is watched and nothing dropped.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Judges what the last round has shown, and returns whether it is over. `round_trip` is that to the far end, as far as it is
    /// known.
    pub fn end_round(&mut self, round_trip: Option<Duration>, now: Instant) -> bool {
        if self.due_at.is_none_or(|at| now < at) {
            return false;
        }
        let others = std::mem::take(&mut self.others);
        self.others_lose = others.lose(self.others_lose);
        let round_trip = round_trip.unwrap_or(UNKNOWN_ROUND_TRIP);
        let PoliceConfig { mode, floor } = self.config;
        let context = Context { mode, floor, round_trip, others_lose: self.others_lose };
        for watched in &mut self.watched {
            let was_held = watched.held.is_some();
            watched.end_round(&context, now);
            self.counters.limits += u64::from(!was_held && watched.held.is_some());
        }
        let over = self.watched.extract_if(.., |watched| watched.is_over());
        over.for_each(|watched| self.counters.watched.add(&watched.counts));
        if self.sketch.packets() >= MIN_DROPS {
            for aggregate in self.sketch.heavy(SHARE) {
                let _ = self.watch(aggregate, now);
            }
        }
        self.sketch.forget(now);
        let is_over = self.watched.is_empty() && self.sketch.packets() == 0;
        self.due_at = (!is_over).then(|| now + round_trip.max(MIN_ROUND));
        true
    }

    /// What became of those that are watched since this was last asked, as far as something was dropped or held back, each with the
    /// newest of its packets: for whoever sends them here. To be asked when a round is over.
    pub fn take_losses(&mut self) -> impl Iterator<Item = (Entry, Facts)> {
        self.watched.iter_mut().filter_map(Watched::take_losses)
    }

    /// Those that are watched, the closest first.
    pub fn aggregates(&self) -> impl Iterator<Item = AggregateStatus> {
        self.watched.iter().map(Watched::status)
    }

    /// The fate of a packet with this tag is known, of which `note` tells its aggregate. Yields the others, if it is one of them:
    /// whatever is not held down.
    fn settle(&mut self, tag: Tag, note: impl FnOnce(&mut Watched)) -> Option<&mut Others> {
        if let Some(watched) = self.tagged(tag) {
            let is_held = watched.held.is_some();
            note(watched);
            if is_held {
                return None;
            }
        }
        self.others.packets += 1;
        Some(&mut self.others)
    }

    /// A packet was dropped. Says whether it is a candidate's, which is watched then and need not be found.
    fn suspect(&mut self, packet: &Facts, tag: Tag, now: Instant) -> bool {
        let Some(candidate) = self.candidates.iter().find(|candidate| candidate.takes(packet)) else {
            return false;
        };
        let (aggregate, told_by) = (candidate.like(packet), Arc::clone(&candidate.told_by));
        let is_watched = self.tagged(tag).is_some();
        let watched = if is_watched { self.tagged(tag) } else { self.watch(aggregate, now) };
        watched.map(|watched| watched.suspected_by = Some(told_by)).is_some()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> PoliceCounters {
        let mut counters = self.counters;
        self.watched.iter().for_each(|watched| counters.watched.add(&watched.counts));
        for held in self.watched.iter().filter_map(|watched| watched.held.as_ref()) {
            counters.held += 1;
            counters.held_rate = counters.held_rate.saturating_add(held.limit.rate());
        }
        counters
    }

    fn tagged(&mut self, tag: Tag) -> Option<&mut Watched> {
        tag.0?;
        self.watched.iter_mut().find(|watched| watched.tag == tag)
    }

    fn is_welcome(&mut self, now: Instant) -> bool {
        if self.reported_at.is_some_and(|at| now < at + MIN_ROUND / 2) {
            return false;
        }
        self.reported_at = Some(now);
        self.due_at.get_or_insert(now + MIN_ROUND);
        true
    }

    /// The aggregate, or the one that it is part of, watched from now on if neither was; if there is room, or can be made. One of
    /// which parts are watched takes over what is known of those: a flood does not come evenly from everywhere.
    fn watch(&mut self, aggregate: Aggregate, now: Instant) -> Option<&mut Watched> {
        let is_known =
            |watched: &Watched| watched.aggregate == aggregate || aggregate.is_part_of(&watched.aggregate);
        if let Some(place) = self.watched.iter().position(is_known) {
            return self.watched.get_mut(place);
        }
        let parts = self.watched.extract_if(.., |watched| watched.aggregate.is_part_of(&aggregate));
        let parts: Vec<_> = parts.collect();
        if self.watched.len() >= MAX_WATCHED {
            let idle = self.watched.iter().position(Watched::is_idle)?;
            let gone = self.watched.remove(idle);
            self.counters.watched.add(&gone.counts);
        }
        self.last_tag = self.last_tag.checked_add(1).unwrap_or(1);
        let mut watched = Watched::new(Tag(NonZeroU16::new(self.last_tag)), aggregate, now);
        parts.into_iter().for_each(|part| watched.take_over(part));
        let closeness = aggregate.closeness();
        let place = self.watched.partition_point(|other| other.aggregate.closeness() >= closeness);
        self.watched.insert(place, watched);
        self.watched.get_mut(place)
    }
}

impl Others {
    /// Whether they lose much; as before if they are too few to tell.
    fn lose(self, before: bool) -> bool {
        let all = self.delivered.saturating_add(self.dropped);
        if self.packets < MIN_OTHERS || all == 0 {
            return before && self.packets > 0;
        }
        self.dropped as f64 >= OTHERS_LOSE * all as f64
    }
}

impl Watched {
    fn status(&self) -> AggregateStatus {
        AggregateStatus {
            aggregate: self.aggregate,
            example: self.example,
            is_reported: self.is_reported,
            suspected_by: self.suspected_by.clone(),
            offered: self.seen.offered,
            delivered: self.seen.delivered,
            loss: self.seen.loss,
            counts: self.counts,
            limit: self.held.as_ref().map(|held| LimitStatus {
                since: held.since,
                rate: held.limit.rate(),
                loss: held.loss,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
