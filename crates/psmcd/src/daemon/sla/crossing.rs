//! What fills the segments that are at fault: samples of inner packets in, aggregates out. Without clock and I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use psmc_api::{SlaAggregate, SlaCause, SlaIngress};
use psmc_core::{PeerId, Sample, Samples};
use psmc_tomography::aggregates::Ingress;
use psmc_tomography::survey::{Cause, Found, Survey};

/// Segments that are looked at at a time. More of them at fault at once are a fault of what they share.
const MAX_SEGMENTS: usize = 8;

/// Ingresses that have names; what enters elsewhere is counted as one. A flood from forged addresses comes from as many networks as
/// it likes.
const MAX_INGRESSES: usize = 4096;

/// So long it is counted what crosses the segments, once a target is broken; what an attack does in that time tells what it is.
const FIRST_ROUND: Duration = Duration::from_secs(60);

/// After that it is counted anew at the end of each such time, as long as a target is broken: an attack may end, and the loss go on.
const ROUND: Duration = Duration::from_secs(60);

/// For so long.
const NEXT_ROUNDS: Duration = Duration::from_secs(10);

/// Nothing is told before it was counted for so long.
const SETTLED: Duration = Duration::from_secs(2);

/// After this time it is told what there is, though more could become known.
const PATIENCE: Duration = Duration::from_secs(10);

/// A segment, by its ends.
pub(super) type Segment = (String, String);

/// Packets of one peer that take one path in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Passing {
    pub(super) peer: PeerId,
    pub(super) path: u32,
    pub(super) is_sent: bool,
}

/// What leads over the segments that are at fault at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Suspects(BTreeMap<Segment, Suspect>);

/// What leads over a segment, and what it carried before, each peer and direction by itself.
#[derive(Clone, Debug, Default, PartialEq)]
struct Suspect {
    passing: BTreeSet<Passing>,
    usual: BTreeMap<(PeerId, bool), Option<f64>>,
}

/// Counts what crosses the segments that are at fault.
///
/// Call [`suspect`](Self::suspect) and then [`advance`](Self::advance) at regular times, some four in a second, and hand over the
/// samples of the time between as long as [`is_counting`](Self::is_counting).
#[derive(Debug, Default)]
pub(super) struct Crossings {
    segments: BTreeMap<Segment, Crossing>,
    /// When the first of them was at fault.
    since: Option<Duration>,
    last: Duration,
    entries: Entries,
}

#[derive(Debug, Default)]
struct Crossing {
    suspect: Suspect,
    survey: Survey,
    counted: Duration,
    /// As it was last known.
    found: Vec<SlaAggregate>,
    /// Which of it looks like an attack: where it comes from, and where it goes.
    attacks: Vec<(IpNet, IpNet)>,
    is_told: bool,
}

/// Where packets enter.
#[derive(Debug, Default)]
struct Entries {
    numbers: BTreeMap<Entry, u32>,
    all: Vec<(Entry, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// What is sent: the network that it comes from.
    Network(IpNet),
    /// What comes: a path of a peer.
    Path(PeerId, u32),
}

impl Suspects {
    /// A path leads over a segment. `usual` is what was carried in that direction of all of the peer's paths before.
    pub(super) fn add(&mut self, segment: Segment, passing: Passing, usual: Option<f64>) {
        if !self.0.contains_key(&segment) && self.0.len() >= MAX_SEGMENTS {
            return;
        }
        let suspect = self.0.entry(segment).or_default();
        suspect.passing.insert(passing);
        suspect.usual.insert((passing.peer, passing.is_sent), usual);
    }
}

impl Suspect {
    /// What was carried before, of all together; `None` if that is not known of one of them.
    fn usual(&self) -> Option<f64> {
        self.usual.values().copied().sum()
    }
}

impl Crossings {
    /// These are at fault from now on, and others not any more.
    pub(super) fn suspect(&mut self, Suspects(suspects): Suspects, now: Duration) {
        self.segments.retain(|segment, _| suspects.contains_key(segment));
        for (segment, suspect) in suspects {
            self.segments.entry(segment).or_default().suspect = suspect;
        }
        if self.segments.is_empty() {
            *self = Self::default();
        } else if self.since.is_none() {
            (self.since, self.last) = (Some(now), now);
        }
    }

    /// Whether samples are wanted.
    pub(super) fn is_counting(&self) -> bool {
        self.since.is_some_and(|since| is_in_round(self.last.saturating_sub(since)))
    }

    /// Takes what has passed since the last call, and how the path of a peer is called.
    pub(super) fn advance(
        &mut self,
        samples: &Samples,
        path_name: impl Fn(PeerId, u32) -> String,
        now: Duration,
    ) {
        let was_counting = self.is_counting();
        let elapsed = now.saturating_sub(self.last);
        self.last = now;
        if was_counting {
            for crossing in self.segments.values_mut() {
                for sample in &samples.packets {
                    crossing.note(sample, samples.every, &mut self.entries, &path_name);
                }
                crossing.advance(elapsed, &self.entries);
            }
        } else if self.is_counting() {
            // What has changed since the last round is to be seen.
            self.segments.values_mut().for_each(Crossing::begin_anew);
        }
    }

    /// What crosses these segments.
    pub(super) fn found(&self, segments: &BTreeSet<Segment>) -> Vec<SlaAggregate> {
        let found = segments.iter().filter_map(|segment| Some((segment, self.segments.get(segment)?)));
        let named = |(from, to): &Segment, aggregate: &SlaAggregate| SlaAggregate {
            from: from.clone(),
            to: to.clone(),
            ..aggregate.clone()
        };
        found
            .flat_map(|(segment, crossing)| crossing.found.iter().map(move |found| named(segment, found)))
            .collect()
    }

    /// What looks like an attack among what is sent over these segments: to which peers, from where, and where it goes.
    pub(super) fn attacks(
        &self,
        segments: &BTreeSet<Segment>,
    ) -> impl Iterator<Item = (PeerId, IpNet, IpNet)> {
        let crossings = segments.iter().filter_map(|segment| self.segments.get(segment));
        crossings.flat_map(|crossing| {
            let sent = crossing.suspect.passing.iter().filter(|passing| passing.is_sent);
            let peers: BTreeSet<_> = sent.map(|passing| passing.peer).collect();
            let of_peer = |peer| crossing.attacks.iter().map(move |(from, to)| (peer, *from, *to));
            peers.into_iter().flat_map(of_peer).collect::<Vec<_>>()
        })
    }

    /// What crosses any of the segments.
    pub(super) fn all(&self) -> impl Iterator<Item = &SlaAggregate> {
        self.segments.values().flat_map(|crossing| &crossing.found)
    }

    /// Whether something is known of all of these segments that no more is likely to be added to.
    pub(super) fn is_settled(&self, segments: &BTreeSet<Segment>) -> bool {
        let is_settled =
            |segment| self.segments.get(segment).is_some_and(|crossing: &Crossing| crossing.is_told);
        !segments.is_empty() && segments.iter().all(is_settled)
    }
}

/// Whether it is counted so long after the beginning.
fn is_in_round(elapsed: Duration) -> bool {
    let later = elapsed.as_secs() % ROUND.as_secs();
    elapsed < FIRST_ROUND || later >= (ROUND - NEXT_ROUNDS).as_secs()
}

impl Crossing {
    fn note(
        &mut self,
        sample: &Sample,
        every: u32,
        entries: &mut Entries,
        path_name: impl Fn(PeerId, u32) -> String,
    ) {
        let Sample { passage, source, destination, bytes } = *sample;
        let passing = Passing { peer: passage.peer, path: passage.path.0.into(), is_sent: passage.is_sent };
        if self.suspect.passing.contains(&passing) {
            let ingress = entries.number(&passing, source, path_name);
            self.survey.cross(source, destination, ingress, u64::from(bytes) * u64::from(every));
        } else if self.suspect.usual.contains_key(&(passage.peer, !passage.is_sent)) {
            self.survey.answer(source);
        }
    }

    fn advance(&mut self, elapsed: Duration, entries: &Entries) {
        self.survey.advance(elapsed);
        self.counted = self.counted.saturating_add(elapsed);
        if self.counted < SETTLED {
            return;
        }
        let found = self.survey.found(self.suspect.usual());
        let is_known = found.iter().all(|found| found.cause != Cause::CannotBeTold) && !found.is_empty();
        self.is_told |= is_known || self.counted >= PATIENCE;
        let attacks = found.iter().filter(|found| found.cause == Cause::Attack);
        let entered = |found: &Found| {
            let networks = found.ingresses.iter().filter_map(|(ingress, _)| entries.network(*ingress));
            networks.map(|network| (network, found.prefix)).collect::<Vec<_>>()
        };
        self.attacks = attacks.flat_map(entered).collect();
        self.found = found.iter().map(|found| in_api(found, entries)).collect();
    }

    fn begin_anew(&mut self) {
        (self.survey, self.counted) = (Survey::new(), Duration::ZERO);
    }
}

impl Entries {
    fn number(
        &mut self,
        passing: &Passing,
        source: IpAddr,
        path_name: impl Fn(PeerId, u32) -> String,
    ) -> Ingress {
        let entry = if passing.is_sent {
            Entry::Network(network(source))
        } else {
            Entry::Path(passing.peer, passing.path)
        };
        if let Some(number) = self.numbers.get(&entry) {
            return Ingress(*number);
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        if self.all.len() >= MAX_INGRESSES {
            return Ingress(number);
        }
        let name = match entry {
            Entry::Network(network) => network.to_string(),
            Entry::Path(peer, path) => path_name(peer, path),
        };
        self.all.push((entry, name));
        self.numbers.insert(entry, number);
        Ingress(number)
    }

    fn name(&self, ingress: Ingress) -> String {
        self.get(ingress).map_or_else(|| "elsewhere".to_owned(), |(_, name)| name.clone())
    }

    /// The network that it is, if it is one.
    fn network(&self, ingress: Ingress) -> Option<IpNet> {
        match self.get(ingress)?.0 {
            Entry::Network(network) => Some(network),
            Entry::Path(..) => None,
        }
    }

    fn get(&self, Ingress(number): Ingress) -> Option<&(Entry, String)> {
        self.all.get(usize::try_from(number).ok()?)
    }
}

/// The network of a source: what is given to one customer, or to one site, at the least.
fn network(source: IpAddr) -> IpNet {
    let length = if source.is_ipv4() { 24 } else { 64 };
    IpNet::new(source, length).map_or_else(|_| source.into(), |net| net.trunc())
}

fn in_api(found: &Found, entries: &Entries) -> SlaAggregate {
    let ingress = |&(ingress, share): &(Ingress, f64)| SlaIngress {
        name: entries.name(ingress),
        share_pct: share * 100.0,
    };
    SlaAggregate {
        from: String::new(),
        to: String::new(),
        prefix: found.prefix.to_string(),
        share_pct: found.share * 100.0,
        rate_mbps: found.rate / 1e6,
        ingresses: found.ingresses.iter().map(ingress).collect(),
        sources: found.sources,
        source_addresses: found.few_sources.iter().map(ToString::to_string).collect(),
        answered_pct: found.answered * 100.0,
        risen: found.risen,
        cause: match found.cause {
            Cause::CannotBeTold => SlaCause::CannotBeTold,
            Cause::Usual => SlaCause::Usual,
            Cause::Crowd => SlaCause::Crowd,
            Cause::Attack => SlaCause::Attack,
        },
    }
}

#[cfg(test)]
mod tests;
