//! The last hour of each path: a fixed number of samples of a fixed number of paths, less than a megabyte in all.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_api::watch::Traffic;
use psmc_api::{PathStatus, PeerStatus};
use serde::Serialize;

/// How far samples are apart.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Samples of an hour.
pub(super) const SAMPLES: usize = 720;

/// Paths with a past: those of one peer at most, or of many peers with few. Each takes 12 kB.
const MAX_PATHS: usize = 64;

/// The number of the sample that is due at that time.
pub(super) fn number(since_begun: Duration) -> u64 {
    since_begun.as_secs() / INTERVAL.as_secs()
}

/// The pasts of the paths of a site. Add samples of all its paths whenever they are due; numbers in between, for which there was no
/// time, stay empty.
#[derive(Debug, Default)]
pub(super) struct Hour {
    /// The number of the next sample.
    next: u64,
    paths: BTreeMap<Key, Past>,
}

/// What tells a path from others of a site, as people know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    peer: String,
    path: String,
    /// Whether this site has opened it: the peer may call one of its own the same.
    is_own: bool,
}

impl Key {
    pub(super) fn of(peer: &PeerStatus, path: &PathStatus) -> Self {
        Self { peer: peer.name.clone(), path: path.name.clone(), is_own: path.uplink.is_some() }
    }
}

/// How a path was at a time. What was not known is no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    up_mbps: f32,
    down_mbps: f32,
    rtt_ms: f32,
    loss_pct: f32,
}

/// Nothing is known.
const NOTHING: Sample =
    Sample { up_mbps: f32::NAN, down_mbps: f32::NAN, rtt_ms: f32::NAN, loss_pct: f32::NAN };

impl Sample {
    pub(super) fn of(path: &PathStatus, traffic: Option<&Traffic>) -> Self {
        let known = |value: Option<f64>| value.map_or(f32::NAN, thousandths);
        Self {
            up_mbps: known(traffic.map(|traffic| traffic.up_mbps)),
            down_mbps: known(traffic.map(|traffic| traffic.down_mbps)),
            rtt_ms: known(path.rtt_ms),
            loss_pct: thousandths(path.loss_pct),
        }
    }
}

/// As many digits as a plot shows, and no more to be sent.
#[expect(clippy::cast_possible_truncation, reason = "a plot shows no more digits")]
fn thousandths(value: f64) -> f32 {
    ((value * 1e3).round() / 1e3) as f32
}

/// The past of a path: a ring, in which a sample has the place of its number.
#[derive(Debug)]
struct Past {
    samples: Box<[Sample]>,
    /// The number of the latest sample.
    seen: u64,
}

impl Past {
    fn new() -> Self {
        Self { samples: vec![NOTHING; SAMPLES].into_boxed_slice(), seen: 0 }
    }
}

/// The place of a number in a ring.
fn place(number: u64) -> usize {
    usize::try_from(number % SAMPLES as u64).unwrap_or(0)
}

impl Hour {
    /// Adds the samples of a number. One that is there already stays.
    pub(super) fn add(&mut self, number: u64, samples: Vec<(Key, Sample)>) {
        if number < self.next {
            return;
        }
        let missed = self.next.max(number.saturating_sub(SAMPLES as u64 - 1))..=number;
        for past in self.paths.values_mut() {
            missed.clone().for_each(|number| past.samples[place(number)] = NOTHING);
        }
        self.paths.retain(|_, past| past.seen + SAMPLES as u64 > number);
        self.next = number + 1;
        for (key, sample) in samples {
            if let Some(past) = self.past(key, number) {
                past.samples[place(number)] = sample;
                past.seen = number;
            }
        }
    }

    /// The past of a path, perhaps in the place of the one that is gone longest; `None` if there are too many.
    fn past(&mut self, key: Key, number: u64) -> Option<&mut Past> {
        if !self.paths.contains_key(&key) && self.paths.len() >= MAX_PATHS {
            let gone = self.paths.iter().filter(|(_, past)| past.seen + 1 < number);
            let gone = gone.min_by_key(|(_, past)| past.seen).map(|(key, _)| key.clone())?;
            self.paths.remove(&gone);
        }
        Some(self.paths.entry(key).or_insert_with(Past::new))
    }

    /// The number of the next sample.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The samples of a peer's paths from the number `from` on, `most` of them at most.
    pub(super) fn since(&self, peer: &str, from: u64, most: usize) -> Part<'_> {
        let first = from.max(self.next.saturating_sub(SAMPLES as u64)).min(self.next);
        let numbers = first..self.next.min(first + most as u64);
        let of_peer = self.paths.iter().filter(|(key, _)| key.peer == peer);
        let paths = of_peer.map(|(key, past)| PathPart::new(key, past, numbers.clone()));
        Part {
            first,
            count: numbers.end - numbers.start,
            next: self.next,
            interval_s: INTERVAL.as_secs(),
            paths: paths.collect(),
        }
    }
}

/// A part of the last hour.
#[derive(Debug, Serialize)]
pub(super) struct Part<'a> {
    /// The number of the first sample.
    first: u64,
    /// How many there are of each path.
    count: u64,
    /// The number of the sample that is due next.
    next: u64,
    interval_s: u64,
    paths: Vec<PathPart<'a>>,
}

/// That of a path.
#[derive(Debug, Serialize)]
struct PathPart<'a> {
    name: &'a str,
    is_own: bool,
    up_mbps: Vec<f32>,
    down_mbps: Vec<f32>,
    rtt_ms: Vec<f32>,
    loss_pct: Vec<f32>,
}

impl<'a> PathPart<'a> {
    fn new(key: &'a Key, past: &Past, numbers: std::ops::Range<u64>) -> Self {
        let each = |field: fn(&Sample) -> f32| -> Vec<f32> {
            numbers.clone().map(|number| field(&past.samples[place(number)])).collect()
        };
        Self {
            name: &key.path,
            is_own: key.is_own,
            up_mbps: each(|sample| sample.up_mbps),
            down_mbps: each(|sample| sample.down_mbps),
            rtt_ms: each(|sample| sample.rtt_ms),
            loss_pct: each(|sample| sample.loss_pct),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: usize) -> Key {
        Key { peer: "hq".to_owned(), path: format!("path{path}"), is_own: true }
    }

    fn sample(up_mbps: f32) -> Sample {
        Sample { up_mbps, down_mbps: 0.0, rtt_ms: f32::NAN, loss_pct: 0.0 }
    }

    /// The rates of the first path of a part.
    fn rates(part: &Part<'_>) -> Vec<Option<f32>> {
        part.paths[0].up_mbps.iter().map(|rate| Some(*rate).filter(|rate| !rate.is_nan())).collect()
    }

    #[test]
    fn samples_have_the_places_of_their_numbers() {
        let mut hour = Hour::default();
        for number in [3, 4, 7] {
            hour.add(number, vec![(key(1), sample(number as f32))]);
        }
        // A second one of the same time is one too many.
        hour.add(7, vec![(key(1), sample(70.0))]);
        let part = hour.since("hq", 2, 100);
        assert_eq!((part.first, part.count, part.next), (2, 6, 8));
        assert_eq!(rates(&part), [None, Some(3.0), Some(4.0), None, None, Some(7.0)]);
        assert_eq!(rates(&hour.since("hq", 4, 2)), [Some(4.0), None]);
        assert!(hour.since("depot", 0, 100).paths.is_empty());
        let nothing = hour.since("hq", 100, 100);
        assert_eq!((nothing.first, nothing.count), (8, 0));
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut hour = Hour::default();
        hour.add(0, vec![(key(1), sample(1.5))]);
        let json = serde_json::to_string(&hour.since("hq", 0, 1)).unwrap();
        assert!(json.contains(r#""up_mbps":[1.5],"down_mbps":[0.0],"rtt_ms":[null]"#), "{json}");
    }

    #[test]
    fn an_hour_is_all_that_is_kept() {
        let mut hour = Hour::default();
        for number in 0..5 * SAMPLES as u64 {
            hour.add(number, vec![(key(1), sample(number as f32))]);
        }
        let part = hour.since("hq", 0, usize::MAX >> 1);
        assert_eq!((part.first, part.count), (4 * SAMPLES as u64, SAMPLES as u64));
        assert_eq!(rates(&part)[0], Some(4.0 * SAMPLES as f32));
        // A pause that is longer leaves nothing.
        hour.add(7 * SAMPLES as u64, Vec::new());
        assert!(hour.since("hq", 0, SAMPLES).paths.is_empty());
    }

    #[test]
    fn paths_are_bounded_and_those_that_are_gone_make_room() {
        let mut hour = Hour::default();
        let all = |paths: std::ops::Range<usize>| paths.map(|path| (key(path), sample(1.0))).collect();
        hour.add(0, all(0..MAX_PATHS + 10));
        assert_eq!(hour.paths.len(), MAX_PATHS);
        assert!(!hour.paths.contains_key(&key(MAX_PATHS)), "the first ones stay");
        // Two have gone, which takes a sample to be certain.
        hour.add(1, all(2..MAX_PATHS + 10));
        hour.add(2, all(2..MAX_PATHS + 10));
        assert_eq!(hour.paths.len(), MAX_PATHS);
        assert!(!hour.paths.contains_key(&key(0)) && !hour.paths.contains_key(&key(1)));
        assert!(hour.paths.contains_key(&key(MAX_PATHS + 1)));
    }
}
