//! What came of a fault.

use std::time::Duration;

use serde::Serialize;

use super::catalogue::Fault;
use super::network::{self, DAEMONS, HOSTS};
use super::watch::Sight;
use super::{Seen, stalled};
use crate::report::grid::{Cell, Grid};
use crate::results::{Results, Sample, TrafficResult};

/// A fault, and what came of it. Units are in the names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What `--only` calls it.
    pub name: String,
    /// In words.
    pub fault: String,
    /// The longest time without a datagram from the van to the headquarters, which sends one every 5 ms.
    pub silence_up_ms: f64,
    /// The same in the other direction.
    pub silence_down_ms: f64,
    /// Datagrams of both that were lost, of about 200 a second each.
    pub lost: u64,
    /// How long after the end of the fault the last datagram was sent that was lost; 0 if none was. `None` if they are still lost.
    pub whole_after_s: Option<f64>,
    /// How often daemons were started again.
    pub restarts: u64,
    /// How many descriptors the daemons have open in the end that they did not have before: the worst of them.
    pub fds: i64,
    /// By how much the memory of those that lived through it has grown, in kB: the worst of them.
    pub rss_kb: i64,
    /// What is wrong; nothing if all is well.
    pub complaints: Vec<String>,
    /// Whether it was made at all.
    pub was_run: bool,
}

/// The longest silence while another path is left.
const LONGEST_SILENCE: Duration = Duration::from_millis(150);

/// Descriptors that may be open for a moment: connections that come anew.
const SPARE_FDS: i64 = 2;

/// Before the end of a fault's time nothing is lost any more.
const QUIET: Duration = Duration::from_secs(1);

impl Row {
    /// What came of the only fault of a run.
    pub(super) fn of(fault: &Fault, seen: &Seen) -> Self {
        let [begin, end] = [network::start(0), network::start(1)];
        let mut row = Self::during(fault, seen, [begin, end]);
        for (daemon, plan) in DAEMONS.iter().enumerate() {
            let of_daemon = || seen.sights.iter().filter(|sight| sight.daemon == daemon);
            let before = of_daemon().rfind(|sight| sight.at < begin);
            let (Some(before), Some(after)) = (before, of_daemon().next_back()) else {
                row.complaints.push(format!("{} does not run", plan.name));
                continue;
            };
            row.note_leaks(*before, *after, plan.name);
        }
        row.complaints.extend(changed_rules(&seen.results));
        row
    }

    /// What the traffic has suffered of a fault between two times.
    pub(super) fn during(fault: &Fault, seen: &Seen, [begin, end]: [Duration; 2]) -> Self {
        let last_deed = fault.deeds.iter().map(|(after, _)| begin + *after).max().unwrap_or(begin);
        let streams = || seen.results.traffic.iter().filter(|stream| ["up", "down"].contains(&&*stream.name));
        let silence = |name: &str| {
            let streams = streams().filter(|stream| stream.name == name);
            streams
                .flat_map(|stream| within(&stream.gap_series_ms, begin, end))
                .map(|gap| gap.value)
                .fold(0.0, f64::max)
        };
        let losses = || streams().flat_map(|stream| within(&stream.loss_series_percent, begin, end));
        let last_loss = losses().filter(|loss| loss.value > 0.0).map(|loss| loss.at_s).fold(0.0, f64::max);
        let of_interval = network::DATAGRAMS as f64 * seen.interval.as_secs_f64() / 100.0;
        let lost = losses().map(|loss| loss.value * of_interval).sum::<f64>().round();
        let is_whole =
            last_loss + QUIET.as_secs_f64() <= end.as_secs_f64() && streams().all(has_arrived_at(end));
        let mut row = Self {
            name: fault.name.clone(),
            fault: fault.what.clone(),
            silence_up_ms: silence("up"),
            silence_down_ms: silence("down"),
            #[expect(clippy::cast_possible_truncation, reason = "a small whole number")]
            lost: lost as u64,
            whole_after_s: is_whole.then(|| (last_loss - last_deed.as_secs_f64()).max(0.0)),
            restarts: restarts(&seen.sights, begin, end),
            fds: 0,
            rss_kb: 0,
            complaints: Vec::new(),
            was_run: true,
        };
        if !is_whole {
            row.complaints.push("stuck: datagrams are still lost".to_owned());
        }
        let allowed = LONGEST_SILENCE + stalled(&seen.results);
        let longest = row.silence_up_ms.max(row.silence_down_ms);
        if fault.spares_a_path && longest > allowed.as_secs_f64() * 1e3 {
            row.complaints.push(format!("{longest:.0} ms of silence"));
        }
        row
    }

    /// Of a fault that could not be made here.
    pub(super) fn not_run(fault: &Fault) -> Self {
        Self {
            name: fault.name.clone(),
            fault: fault.what.clone(),
            silence_up_ms: 0.0,
            silence_down_ms: 0.0,
            lost: 0,
            whole_after_s: None,
            restarts: 0,
            fds: 0,
            rss_kb: 0,
            complaints: Vec::new(),
            was_run: false,
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.complaints.is_empty()
    }

    /// In a line.
    pub(super) fn summary(&self) -> String {
        let Self { name, silence_up_ms, silence_down_ms, lost, complaints, .. } = self;
        if !self.was_run {
            return format!("{name}: not run, for Debian's package faketime is not there");
        }
        let verdict = if self.is_good() { "good".to_owned() } else { complaints.join("; ") };
        format!("{name}: silence {silence_up_ms:.0} and {silence_down_ms:.0} ms, {lost} lost: {verdict}")
    }

    fn note_leaks(&mut self, before: Sight, after: Sight, name: &str) {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let fds = signed(after.fds) - signed(before.fds);
        self.fds = self.fds.max(fds);
        if fds > SPARE_FDS {
            self.complaints.push(format!("{name} has {fds} more descriptors open"));
        }
        if before.pid == after.pid {
            self.rss_kb = self.rss_kb.max(signed(after.rss_kb) - signed(before.rss_kb));
        }
    }
}

/// The rows as a table.
#[must_use]
pub fn table(rows: &[Row]) -> Grid {
    let header = [
        "name",
        "fault",
        "silence there (ms)",
        "back (ms)",
        "lost",
        "whole after (s)",
        "restarts",
        "fds",
        "memory (kB)",
        "what is wrong",
    ];
    Grid::new(&header).with_rows(rows.iter().map(cells))
}

fn cells(row: &Row) -> Vec<Cell> {
    let names = [Cell::text(format!("`{}`", row.name)), Cell::text(row.fault.clone())];
    if !row.was_run {
        return [&names[..], &[const { Cell::Absent }; 7], &[Cell::text("not run: needs Debian's faketime")]]
            .concat();
    }
    let wrong = if row.is_good() { Cell::Absent } else { Cell::text(row.complaints.join("; ")) };
    let numbers = [
        Cell::fixed(row.silence_up_ms, 0),
        Cell::fixed(row.silence_down_ms, 0),
        Cell::Number(row.lost.to_string()),
        row.whole_after_s.map_or(Cell::Absent, |seconds| Cell::fixed(seconds, 1)),
        Cell::Number(row.restarts.to_string()),
        Cell::Number(row.fds.to_string()),
        Cell::Number(row.rss_kb.to_string()),
        wrong,
    ];
    [&names[..], &numbers].concat()
}

/// The samples of intervals that end in a time.
fn within(series: &[Sample], begin: Duration, end: Duration) -> impl Iterator<Item = &Sample> {
    let range = begin.as_secs_f64()..=end.as_secs_f64();
    series.iter().filter(move |sample| range.contains(&sample.at_s))
}

/// Whether something of a stream arrived shortly before a time.
fn has_arrived_at(end: Duration) -> impl Fn(&TrafficResult) -> bool {
    move |stream| {
        within(&stream.goodput_series_mbps, end.saturating_sub(QUIET), end).any(|rate| rate.value > 0.0)
    }
}

/// How often a daemon became another process.
fn restarts(sights: &[Sight], begin: Duration, end: Duration) -> u64 {
    let of_daemon = |daemon: usize| {
        let sights = sights.iter().filter(move |sight| sight.daemon == daemon && sight.at <= end);
        let pids: Vec<_> = sights.map(|sight| (sight.at, sight.pid)).collect();
        pids.windows(2).filter(|pair| pair[0].1 != pair[1].1 && pair[1].0 > begin).count()
    };
    (0..DAEMONS.len()).map(|daemon| of_daemon(daemon) as u64).sum()
}

/// Rules and routes that are there in the end and were not before, or the other way round.
pub(super) fn changed_rules(results: &Results) -> Vec<String> {
    let output = |host: &str, when: &str| {
        let name = network::rules_name(host, when);
        results
            .programs
            .iter()
            .find(|program| program.name == name)
            .and_then(|program| program.output.clone())
    };
    let changed = |host: &&str| {
        let (Some(before), Some(after)) = (output(host, "before"), output(host, "after")) else {
            return Some(format!("nobody has looked at the rules of {host}"));
        };
        let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        let (before, after) = (lines(&before), lines(&after));
        let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("without {line:?}"));
        let new = after.iter().filter(|line| !before.contains(line)).map(|line| format!("with {line:?}"));
        let differences: Vec<_> = gone.chain(new).collect();
        (!differences.is_empty()).then(|| format!("{host} is left {}", differences.join(", ")))
    };
    HOSTS.iter().filter_map(changed).collect()
}
