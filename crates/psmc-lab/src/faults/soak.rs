//! Faults drawn by chance, one after another: what daemons are like after an hour of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use super::catalogue::Fault;
use super::network::{self, LEAD, SLOT};
use super::row::{Row, changed_rules};
use super::tunnel::TUNNEL;
use super::watch::Sight;
use super::{FaultOptions, FaultsError, Seen, enter, faketime, run_in_turn};
use crate::report::grid::{Cell, Grid};

/// What came of a soak. Units are in the names.
#[derive(Clone, Debug, Serialize)]
pub struct Soak {
    /// How long it took.
    pub minutes: u32,
    /// What the faults were drawn from.
    pub seed: u64,
    /// Every fault, in the order in which they were made.
    pub rows: Vec<Row>,
    /// What the daemons held.
    pub daemons: Vec<Held>,
    /// Lines of logs that were there twice or more in a second, without their digits, with the number of such seconds.
    pub repeated: Vec<(String, usize)>,
    /// What is wrong; nothing if all is well.
    pub complaints: Vec<String>,
}

/// What a daemon held, early and late: the median of what was seen of it [`SETTLED`] after a start.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Which.
    pub daemon: String,
    /// Its own memory in kB, early and late.
    pub rss_kb: [u64; 2],
    /// Its open descriptors, early and late.
    pub fds: [u64; 2],
}

/// Makes faults for so many minutes. To be called before the process starts its second thread.
///
/// # Errors
/// [`FaultsError`]; a fault that does harm is none.
pub fn make_soak(minutes: u32, seed: u64, options: &FaultOptions) -> Result<Soak, FaultsError> {
    let library = faketime();
    let all: Vec<Fault> = super::chosen(&options.only)?
        .into_iter()
        .filter(|fault| !fault.needs_faketime || library.is_some())
        .filter(|fault| std::ptr::eq(fault.bed, &TUNNEL))
        .collect();
    if all.is_empty() {
        return Err(FaultsError::NotInASoak);
    }
    enter()?;
    let count = (Duration::from_secs(60 * u64::from(minutes)).saturating_sub(LEAD)).div_duration_f64(SLOT);
    #[expect(clippy::cast_possible_truncation, reason = "a small number")]
    let faults = draw(&all, (count as usize).max(1), seed);
    let needs_library = faults.iter().any(|fault| fault.needs_faketime);
    let seen = run_in_turn(
        ("soak", &TUNNEL),
        &faults,
        seed,
        library.as_deref().filter(|_| needs_library).map(Path::new),
        options,
    )?;
    Ok(Soak::of(minutes, seed, &faults, &seen))
}

/// Draws faults. After the [`WARM_UP`] none ends the headquarters' daemon, so that one lives through all that is left.
fn draw(all: &[Fault], count: usize, seed: u64) -> Vec<&Fault> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let lasting: Vec<&Fault> = all.iter().filter(|fault| fault.ends != Some(LASTS)).collect();
    let every: Vec<&Fault> = all.iter().collect();
    let one = |number: usize| {
        let among = if lasting.is_empty() || share(number, count) < WARM_UP { &every } else { &lasting };
        #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
        among[random.next_u64() as usize % among.len()]
    };
    (0..count).map(one).collect()
}

fn share(number: usize, count: usize) -> f64 {
    number as f64 / count.max(1) as f64
}

impl Soak {
    fn of(minutes: u32, seed: u64, faults: &[&Fault], seen: &Seen) -> Self {
        let row = |(number, fault): (usize, &&Fault)| {
            Row::during(fault, seen, [network::start(number), network::start(number + 1)])
        };
        let rows: Vec<_> = faults.iter().enumerate().map(row).collect();
        let end = network::duration(faults.len());
        let daemons: Vec<_> =
            (0..TUNNEL.daemons.len()).filter_map(|daemon| Held::of(&seen.sights, daemon, end)).collect();
        let repeated: Vec<_> = TUNNEL
            .daemons
            .iter()
            .zip(&seen.logs)
            .flat_map(|(daemon, log)| repeated(daemon.name, log))
            .collect();
        let of_rows = rows.iter().filter(|row| !row.is_good());
        let of_rows = of_rows.map(|row| format!("{}: {}", row.name, row.complaints.join("; ")));
        let mut complaints: Vec<_> = of_rows.chain(daemons.iter().flat_map(Held::complaints)).collect();
        complaints.extend(
            repeated.iter().map(|(line, seconds)| format!("in {seconds} seconds twice or more: {line}")),
        );
        complaints.extend(changed_rules(&TUNNEL, &seen.results));
        if daemons.len() < TUNNEL.daemons.len() {
            complaints.push("not all daemons were seen early and late".to_owned());
        }
        Self { minutes, seed, rows, daemons, repeated, complaints }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.complaints.is_empty()
    }

    /// The faults by name: how often each was made, and the worst of what came of it.
    #[must_use]
    pub fn faults(&self) -> Grid {
        let mut by_name: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        self.rows.iter().for_each(|row| by_name.entry(&row.name).or_default().push(row));
        let most =
            |rows: &[&Row], value: fn(&Row) -> f64| rows.iter().map(|row| value(row)).fold(0.0, f64::max);
        let cells = |(name, rows): (&str, Vec<&Row>)| {
            vec![
                Cell::text(format!("`{name}`")),
                Cell::count(rows.len()),
                Cell::fixed(most(&rows, |row| row.silence_up_ms), 0),
                Cell::fixed(most(&rows, |row| row.silence_down_ms), 0),
                Cell::count(rows.iter().map(|row| row.lost).max().unwrap_or_default()),
                Cell::fixed(most(&rows, |row| row.whole_after_s.unwrap_or(f64::INFINITY)), 1),
            ]
        };
        let header = ["fault", "times", "silence there (ms)", "back (ms)", "lost", "whole after (s)"];
        Grid::new(&header).with_rows(by_name.into_iter().map(cells))
    }

    /// What the daemons held.
    #[must_use]
    pub fn held(&self) -> Grid {
        let cells = |held: &Held| {
            let numbers = [held.rss_kb[0], held.rss_kb[1], held.fds[0], held.fds[1]];
            std::iter::once(Cell::text(held.daemon.clone())).chain(numbers.map(Cell::count)).collect()
        };
        let header = ["daemon", "memory early (kB)", "late (kB)", "descriptors early", "late"];
        Grid::new(&header).with_rows(self.daemons.iter().map(cells))
    }
}

impl Held {
    /// `None` if it was not seen early or not seen late.
    fn of(sights: &[Sight], daemon: usize, end: Duration) -> Option<Self> {
        let sights: Vec<&Sight> = sights.iter().filter(|sight| sight.daemon == daemon).collect();
        let born = |sight: &Sight| {
            sights.iter().find(|other| other.pid == sight.pid).map_or(sight.at, |first| first.at)
        };
        let settled: Vec<&&Sight> = sights.iter().filter(|sight| sight.at >= born(sight) + SETTLED).collect();
        let between = |[from, to]: [f64; 2]| {
            let range = end.mul_f64(from)..end.mul_f64(to);
            settled.iter().filter(move |sight| range.contains(&sight.at))
        };
        let medians = |value: fn(&Sight) -> u64| {
            let median = |when| median(between(when).map(|sight| value(sight)).collect());
            Some([median(EARLY)?, median(LATE)?])
        };
        let daemon = TUNNEL.daemons[daemon].name.to_owned();
        Some(Self { daemon, rss_kb: medians(|sight| sight.rss_kb)?, fds: medians(|sight| sight.fds)? })
    }

    fn complaints(&self) -> Vec<String> {
        let [early, late] = self.rss_kb.map(|kb| kb as f64);
        let grown = (late > early * (1.0 + FLAT))
            .then(|| format!("{} has grown from {early} to {late} kB", self.daemon));
        let [before, after] = self.fds;
        let open =
            (after > before).then(|| format!("{} has {after} descriptors open, after {before}", self.daemon));
        grown.into_iter().chain(open).collect()
    }
}

/// The lines of a log, without time and digits, that stand there twice or more with the same second.
fn repeated(daemon: &str, log: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for line in log.lines() {
        // 2025-12-02T04:05:06.123456Z  INFO …
        let Some((time, text)) = line.split_once(' ').filter(|(time, _)| time.ends_with('Z')) else {
            continue;
        };
        let text = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        *counts.entry((time.get(..19).unwrap_or(time), text)).or_default() += 1;
    }
    let mut seconds: BTreeMap<String, usize> = BTreeMap::new();
    for ((_, text), _) in counts.into_iter().filter(|(_, count)| *count > 1) {
        *seconds.entry(format!("{daemon}: {}", text.trim())).or_default() += 1;
    }
    seconds.into_iter().collect()
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The daemon that lives through all but the warm-up.
const LASTS: &str = "hq";

/// The part of the time in which daemons come to have what they need.
const WARM_UP: f64 = 0.1;

/// What is early, and what is late, as parts of the time.
const EARLY: [f64; 2] = [0.15, 0.4];
const LATE: [f64; 2] = [0.75, 1.0];

/// How long after its start a daemon has what it needs.
const SETTLED: Duration = Duration::from_secs(15);

/// By how much memory may grow.
const FLAT: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::catalogue;

    #[test]
    fn the_same_seed_draws_the_same_faults_and_the_headquarters_last() {
        let all = catalogue::all();
        let names = |seed| draw(&all, 400, seed).iter().map(|fault| fault.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
        let faults = draw(&all, 400, 7);
        assert!(faults[..40].iter().any(|fault| fault.ends.is_some()));
        assert!(faults[40..].iter().all(|fault| fault.ends != Some(LASTS)));
        assert!(faults[40..].iter().any(|fault| fault.ends == Some("van")));
    }

    #[test]
    fn lines_that_come_twice_a_second_are_found() {
        let log = "2025-12-02T04:05:06.1Z  INFO path 1 is dead\n2025-12-02T04:05:06.9Z  INFO path 2 is dead\n\
                   2025-12-02T04:05:07.0Z  INFO path 3 is dead\n2025-12-02T04:05:07.1Z  INFO roamed\n";
        assert_eq!(repeated("van", log), [("van: INFO path  is dead".to_owned(), 1)]);
    }

    #[test]
    fn memory_is_compared_of_daemons_that_have_settled() {
        let sight = |second: u64, rss_kb| Sight {
            at: Duration::from_secs(second),
            daemon: 1,
            pid: 9,
            fds: 20,
            rss_kb,
        };
        let end = Duration::from_secs(100);
        let growing: Vec<_> = (0..100).map(|second| sight(second, 1000 + 10 * second)).collect();
        let held = Held::of(&growing, 1, end).unwrap();
        assert_eq!((held.fds, held.complaints().len()), ([20, 20], 1));
        let flat: Vec<_> =
            (0..100).map(|second| sight(second, if second < 15 { 100 } else { 1000 })).collect();
        assert!(Held::of(&flat, 1, end).unwrap().complaints().is_empty());
        assert!(Held::of(&flat, 0, end).is_none());
    }
}
