//! What `psmc-fetch` shows: how far it is, in a line, and in the end what came of it.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::{Fetched, Mirror, View, Wanted};
use psmc_service::units::{age, bytes, rate_mbps};

/// How far a download was some moments ago.
#[derive(Debug, Default)]
pub(super) struct Progress {
    seen: Vec<(Duration, u64)>,
}

impl Progress {
    /// Shows the line instead of the one before.
    pub(super) fn show(&mut self, view: &View<'_>) {
        let line = self.line(view);
        // If standard error is gone there is nobody left to show it to.
        drop(write!(io::stderr(), "\r\x1b[K{line}"));
    }

    /// Leaves no line behind.
    pub(super) fn end(&self) {
        if !self.seen.is_empty() {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }

    fn line(&mut self, view: &View<'_>) -> String {
        self.seen.retain(|(at, _)| *at + SPAN >= view.elapsed);
        self.seen.push((view.elapsed, view.arrived));
        let (since, before) = self.seen[0];
        let seconds = view.elapsed.saturating_sub(since).as_secs_f64();
        let rate = if seconds > 0.0 { (view.arrived - before) as f64 / seconds } else { 0.0 };
        let working = view.mirrors.iter().filter(|mirror| mirror.stayed()).count();
        let from =
            format!("{} from {working} of {} mirrors", rate_mbps(rate * 8.0 / 1e6), view.mirrors.len());
        let Some(length) = view.length else { return format!("{}, {from}", bytes(view.arrived)) };
        let percent = if length == 0 { 100 } else { percent(view.arrived, length) };
        let left = if rate > 0.0 { age((length - view.arrived) as f64 / rate) } else { "?".to_owned() };
        format!("{percent} % of {}, {from}, {left} left", bytes(length))
    }
}

fn percent(part: u64, whole: u64) -> u128 {
    u128::from(part) * 100 / u128::from(whole)
}

/// A download for people and programs. Units are in the names.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    file: String,
    /// Whether the file is there, with the hash that was asked for if one was.
    complete: bool,
    /// Why not.
    error: Option<String>,
    /// Of the whole file, if it is known.
    length: Option<u64>,
    /// What was there before.
    resumed_bytes: u64,
    /// What was fetched.
    bytes: u64,
    seconds: f64,
    mbps: f64,
    /// Whether the hash was checked.
    sha256_checked: bool,
    mirrors: Vec<MirrorReport>,
}

#[derive(Debug, Serialize)]
struct MirrorReport {
    url: String,
    /// The interface, or the address of this machine, by which it was asked, if one was named.
    interface: Option<String>,
    bytes: u64,
    /// While it took part.
    mbps: f64,
    /// Whether it took part until the end.
    ok: bool,
    failures: u32,
    /// The last of them.
    problem: Option<String>,
}

impl Report {
    pub(super) fn new(wanted: &Wanted, outcome: &Fetched) -> Self {
        let mirror = |mirror: &Mirror| MirrorReport {
            url: mirror.url().to_string(),
            interface: mirror.via().map(ToString::to_string),
            bytes: mirror.bytes(),
            mbps: mbps(mirror.bytes(), mirror.time(outcome.elapsed)),
            ok: mirror.stayed(),
            failures: mirror.failures(),
            problem: mirror.problem().map(str::to_owned),
        };
        let fetched = outcome.mirrors.iter().map(Mirror::bytes).sum();
        let complete = outcome.result.is_ok();
        Self {
            file: wanted.output.display().to_string(),
            complete,
            error: outcome.result.as_ref().err().map(|error| crate::error_chain(error)),
            length: outcome.length,
            resumed_bytes: outcome.resumed,
            bytes: fetched,
            seconds: round(outcome.elapsed.as_secs_f64()),
            mbps: mbps(fetched, outcome.elapsed),
            sha256_checked: complete && wanted.sha256.is_some(),
            mirrors: outcome.mirrors.iter().map(mirror).collect(),
        }
    }

    /// For people, of a file that is there.
    pub(super) fn text(&self) -> String {
        let checked = if self.sha256_checked { ", SHA-256 verified" } else { "" };
        let resumed = match self.resumed_bytes {
            0 => String::new(),
            before => format!(", {} were there before", bytes(before)),
        };
        let fetched = bytes(self.bytes);
        let head = format!(
            "{}: {fetched} in {:.1} s, {}{resumed}{checked}\n",
            self.file,
            self.seconds,
            rate_mbps(self.mbps)
        );
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(["MIRROR", "BYTES", "RATE", "PROBLEM"]);
        table.add_rows(self.mirrors.iter().map(MirrorReport::row));
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((2, 0));
            if (1..=2).contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("{head}{}\n", table.trim_fmt())
    }
}

impl MirrorReport {
    fn row(&self) -> [String; 4] {
        let problem = match (&self.problem, self.ok) {
            (None, _) => String::new(),
            (Some(problem), false) => format!("left out: {problem}"),
            (Some(problem), true) if self.failures == 1 => problem.clone(),
            (Some(problem), true) => format!("{} failures, the last: {problem}", self.failures),
        };
        let via = self.interface.as_ref().map_or_else(String::new, |via| format!(" by {via}"));
        [format!("{}{via}", self.url), bytes(self.bytes), rate_mbps(self.mbps), problem]
    }
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { round(bytes as f64 * 8.0 / 1e6 / seconds) } else { 0.0 }
}

/// To three decimals: no more of a measurement means anything.
fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// Over what time the rate is that is shown.
const SPAN: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let view = |seconds, arrived| View {
            length: Some(100_000_000),
            arrived,
            mirrors: &[],
            elapsed: Duration::from_secs(seconds),
        };
        let mut progress = Progress::default();
        let first = progress.line(&view(0, 0));
        assert_eq!(first, "0 % of 100.0 MB, 0.0 Mbit/s from 0 of 0 mirrors, ? left");
        progress.line(&view(10, 1_000_000));
        let line = progress.line(&view(12, 21_000_000));
        assert_eq!(line, "21 % of 100.0 MB, 80.0 Mbit/s from 0 of 0 mirrors, 7 s left");
        let line = progress.line(&View { length: None, ..view(12, 21_000_000) });
        assert_eq!(line, "21.0 MB, 80.0 Mbit/s from 0 of 0 mirrors");
    }
}
