//! The line that shows how far it is.

use std::io::{self, Write};
use std::time::Duration;

use crate::View;
use psmc_service::units::{age, bytes, rate_mbps};

/// Over what time the rate is that is shown.
const SPAN: Duration = Duration::from_secs(3);

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
