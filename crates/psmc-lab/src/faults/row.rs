//! What came of a fault.

use std::time::Duration;

use serde::Serialize;

use super::catalogue::Fault;
use super::network::{self, Bed};
use super::tunnel::DATAGRAMS;
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
    /// The longest time without a datagram from the van to the headquarters, which sends one every 5 ms; or, if the fault is about a
    /// daemon that is asked whether it serves, without an answer of that.
    pub silence_up_ms: f64,
    /// The same in the other direction; or of the other daemons, the worst of them.
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
    /// Whether it is about a daemon that is asked whether it serves.
    pub is_service: bool,
    /// Whether it was made at all.
    pub was_run: bool,
}

/// The longest silence while another path is left.
const LONGEST_SILENCE: Duration = Duration::from_millis(150);

/// Descriptors that may be open for a moment: connections that come anew.
const SPARE_FDS: i64 = 2;

/// What is open throughout such a time in the end has leaked.
const LATELY: Duration = Duration::from_secs(2);

/// Before the end of a fault's time nothing is lost any more.
const QUIET: Duration = Duration::from_secs(1);

impl Row {
    /// What came of the only fault of a run.
    pub(super) fn of(fault: &Fault, seen: &Seen) -> Self {
        let [begin, end] = [network::start(0), network::start(1)];
        let mut row = Self::during(fault, seen, [begin, end]);
        for (daemon, plan) in fault.bed.daemons.iter().enumerate() {
            let of_daemon = || seen.sights.iter().filter(|sight| sight.daemon == daemon);
            let before = of_daemon().rfind(|sight| sight.at < begin);
            let (Some(before), Some(last)) = (before, of_daemon().next_back()) else {
                row.complaints.push(format!("{} does not run", plan.name));
                continue;
            };
            let lately = of_daemon().filter(|sight| sight.pid == last.pid && sight.at + LATELY >= last.at);
            let fds = lately.map(|sight| sight.fds).min().unwrap_or(last.fds);
            row.note_leaks(*before, Sight { fds, ..*last }, plan.name);
        }
        row.complaints.extend(changed_rules(fault.bed, &seen.results));
        row
    }

    /// What came of a fault between two times.
    pub(super) fn during(fault: &Fault, seen: &Seen, range: [Duration; 2]) -> Self {
        match fault.about {
            Some(daemon) => Self::of_service(fault, daemon, seen, range),
            None => Self::of_traffic(fault, seen, range),
        }
    }

    /// What a daemon that is asked, and the others, have suffered of a fault.
    fn of_service(fault: &Fault, daemon: &str, seen: &Seen, [begin, end]: [Duration; 2]) -> Self {
        let answers = |name: &str| answers(&seen.results, name);
        let others = fault.bed.probes.iter().filter(|probe| probe.daemon != daemon);
        let of_others = others.map(|probe| longest_gap(&answers(probe.daemon), [begin, end]));
        let own = answers(daemon);
        let last_deed = fault.deeds.iter().map(|(after, _)| begin + *after).max().unwrap_or(begin);
        let serves_in_the_end = own.last().is_some_and(|last| *last + QUIET >= end);
        let back = own.iter().find(|at| **at >= last_deed).filter(|_| serves_in_the_end);
        let mut row = Self {
            silence_up_ms: longest_gap(&own, [begin, end]).as_secs_f64() * 1e3,
            silence_down_ms: of_others.max().unwrap_or_default().as_secs_f64() * 1e3,
            whole_after_s: back.map(|at| at.saturating_sub(last_deed).as_secs_f64()),
            restarts: restarts(&seen.sights, begin, end),
            was_run: true,
            ..Self::not_run(fault)
        };
        if back.is_none() {
            row.complaints.push("stuck: it does not answer".to_owned());
        }
        let allowed = (LONGEST_SILENCE + stalled(&seen.results)).as_secs_f64() * 1e3;
        if fault.spares_a_path && row.silence_up_ms > allowed {
            row.complaints.push(format!("{:.0} ms of silence", row.silence_up_ms));
        }
        if row.silence_down_ms > allowed {
            row.complaints.push(format!("{:.0} ms of silence of another daemon", row.silence_down_ms));
        }
        row
    }

    /// What the traffic has suffered of a fault between two times.
    fn of_traffic(fault: &Fault, seen: &Seen, [begin, end]: [Duration; 2]) -> Self {
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
        let of_interval = DATAGRAMS as f64 * seen.interval.as_secs_f64() / 100.0;
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
            is_service: false,
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
            is_service: fault.about.is_some(),
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

/// The rows as two tables: of tunnels, and of other daemons. Empty ones are left out.
#[must_use]
pub fn tables(rows: &[Row]) -> Vec<Grid> {
    let of_tunnels = ["silence there (ms)", "back (ms)", "lost", "whole after (s)"];
    let of_others = ["silent (ms)", "others (ms)", "back after (s)"];
    let table = |is_service: bool, middle: &[&'static str]| {
        let header = [&["name", "fault"][..], middle, &["restarts", "fds", "memory (kB)", "what is wrong"]];
        let rows: Vec<_> = rows.iter().filter(|row| row.is_service == is_service).map(cells).collect();
        (!rows.is_empty()).then(|| Grid::new(&header.concat()).with_rows(rows))
    };
    [table(false, &of_tunnels), table(true, &of_others)].into_iter().flatten().collect()
}

fn cells(row: &Row) -> Vec<Cell> {
    let names = [Cell::text(format!("`{}`", row.name)), Cell::text(row.fault.clone())];
    if !row.was_run {
        let numbers = vec![Cell::Absent; if row.is_service { 6 } else { 7 }];
        return [&names[..], &numbers, &[Cell::text("not run: needs Debian's faketime")]].concat();
    }
    let wrong = if row.is_good() { Cell::Absent } else { Cell::text(row.complaints.join("; ")) };
    let silences = [Cell::fixed(row.silence_up_ms, 0), Cell::fixed(row.silence_down_ms, 0)];
    let lost = (!row.is_service).then(|| Cell::Number(row.lost.to_string()));
    let numbers = [
        row.whole_after_s.map_or(Cell::Absent, |seconds| Cell::fixed(seconds, 1)),
        Cell::Number(row.restarts.to_string()),
        Cell::Number(row.fds.to_string()),
        Cell::Number(row.rss_kb.to_string()),
        wrong,
    ];
    [&names[..], &silences, lost.as_slice(), &numbers].concat()
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

/// When a daemon has answered who asks it all the time.
fn answers(results: &Results, daemon: &str) -> Vec<Duration> {
    let name = network::probe_name(daemon);
    let asked = results.programs.iter().find(|program| program.name == name);
    let lines = asked.and_then(|program| program.output.as_deref()).unwrap_or_default().lines();
    lines
        .filter_map(|line| Some(network::TRAFFIC + Duration::from_micros(line.trim().parse().ok()?)))
        .collect()
}

/// The longest time in a range without an answer.
fn longest_gap(answers: &[Duration], [begin, end]: [Duration; 2]) -> Duration {
    let before = answers.iter().rfind(|at| **at < begin).copied().unwrap_or(begin);
    let within = answers.iter().copied().filter(|at| (begin..end).contains(at));
    let times: Vec<_> = std::iter::once(before).chain(within).collect();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let last = times.last().filter(|last| **last + QUIET < end).map(|last| end - *last);
    gaps.chain(last).max().unwrap_or_default()
}

/// How often a daemon became another process.
fn restarts(sights: &[Sight], begin: Duration, end: Duration) -> u64 {
    let of_daemon = |daemon: usize| {
        let sights = sights.iter().filter(move |sight| sight.daemon == daemon && sight.at <= end);
        let pids: Vec<_> = sights.map(|sight| (sight.at, sight.pid)).collect();
        pids.windows(2).filter(|pair| pair[0].1 != pair[1].1 && pair[1].0 > begin).count()
    };
    let daemons = sights.iter().map(|sight| sight.daemon + 1).max().unwrap_or_default();
    (0..daemons).map(|daemon| of_daemon(daemon) as u64).sum()
}

/// Rules and routes that are there in the end and were not before, or the other way round.
pub(super) fn changed_rules(bed: &Bed, results: &Results) -> Vec<String> {
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
    bed.hosts.iter().filter_map(changed).collect()
}
