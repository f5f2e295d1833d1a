//! What is shown while it runs, on standard error, so that the results have standard output for themselves.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use psmc_api::PathState;
use psmc_service::units;

/// How often a terminal is redrawn: often enough to look alive, and seldom enough to be read.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);

/// How often a line is added to a log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Characters in a bar.
const BAR: u32 = 24;

/// The live view.
pub(super) struct View {
    is_terminal: bool,
    /// How many lines at the end of the screen are to be redrawn.
    drawn: usize,
}

/// A moment of the transfer.
pub(super) struct Frame {
    /// Since its start.
    pub(super) elapsed: Duration,
    /// What arrives now.
    pub(super) mbps: f64,
    /// Bytes that arrived.
    pub(super) arrived: u64,
    /// Bytes to arrive.
    pub(super) size: u64,
    pub(super) lanes: Vec<Lane>,
}

/// A path at that moment.
pub(super) struct Lane {
    pub(super) name: String,
    /// What it sends now.
    pub(super) mbps: f64,
    /// What it could.
    pub(super) limit_mbps: f64,
    pub(super) rtt_ms: Option<f64>,
    pub(super) state: PathState,
}

impl View {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), drawn: 0 }
    }

    /// How often [`show`](Self::show) should be called.
    pub(super) const fn interval(&self) -> Duration {
        if self.is_terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL }
    }

    /// Adds a line that stays.
    pub(super) fn note(&mut self, text: &str) {
        self.clear();
        print(&format!("{text}\n"));
    }

    /// Shows a moment, on a terminal in the place of the one before.
    pub(super) fn show(&mut self, frame: &Frame) {
        if !self.is_terminal {
            return print(&format!("{}\n", line(frame)));
        }
        let lines = lines(frame);
        let text: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
        print(&(back(self.drawn) + &text));
        self.drawn = lines.len();
    }

    /// Removes the moment that is shown on a terminal.
    pub(super) fn clear(&mut self) {
        if self.drawn > 0 {
            print(&(back(self.drawn) + "\x1b[J"));
            self.drawn = 0;
        }
    }
}

/// The control sequence that goes back over lines already drawn (ECMA-48, CUU).
fn back(lines: usize) -> String {
    match lines {
        0 => String::new(),
        _ => format!("\x1b[{lines}A\r"),
    }
}

fn print(text: &str) {
    // If standard error is gone nobody looks.
    drop(io::stderr().write_all(text.as_bytes()));
}

/// A moment as several lines with bars.
fn lines(frame: &Frame) -> Vec<String> {
    let mut lines: Vec<_> = frame.lanes.iter().map(lane).collect();
    lines.push(format!(
        "  {:<6} {} {:>5.1} Mbit/s   {:.0} % of {}, {:.1} s",
        "total",
        bar(share(frame)),
        frame.mbps,
        share(frame) * 100.0,
        units::bytes(frame.size),
        frame.elapsed.as_secs_f64()
    ));
    lines
}

fn lane(lane: &Lane) -> String {
    format!(
        "  {:<6} {} {:>5.1} Mbit/s   RTT {:>8}   {}",
        lane.name,
        bar(lane.mbps / lane.limit_mbps),
        lane.mbps,
        lane.rtt_ms.map_or_else(|| "-".to_owned(), units::duration_ms),
        lane.state
    )
}

/// A moment as one line.
fn line(frame: &Frame) -> String {
    let lane = |lane: &Lane| match lane.state {
        PathState::Active => format!("{} {:.1}, ", lane.name, lane.mbps),
        state @ (PathState::Probing
        | PathState::Suspect
        | PathState::Dead
        | PathState::Standby
        | PathState::Closing) => {
            format!("{} {:.1} ({state}), ", lane.name, lane.mbps)
        }
    };
    let lanes: String = frame.lanes.iter().map(lane).collect();
    format!(
        "{:>5.1} s  {lanes}total {:.1} Mbit/s, {:.0} %",
        frame.elapsed.as_secs_f64(),
        frame.mbps,
        share(frame) * 100.0
    )
}

/// How much of the file has arrived, 0 to 1.
fn share(frame: &Frame) -> f64 {
    frame.arrived as f64 / frame.size as f64
}

/// A bar that is full at 1.
fn bar(share: f64) -> String {
    let full = (0..BAR).filter(|index| f64::from(*index) + 0.5 < share * f64::from(BAR));
    let full = full.count();
    "█".repeat(full) + &"░".repeat(BAR as usize - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let lane = |name: &str, mbps, rtt_ms, state| Lane {
            name: name.to_owned(),
            mbps,
            limit_mbps: 40.0,
            rtt_ms,
            state,
        };
        Frame {
            elapsed: Duration::from_millis(5210),
            mbps: 61.26,
            arrived: 50_000_000,
            size: 100_000_000,
            lanes: vec![
                lane("dsl", 0.0, None, PathState::Dead),
                lane("lte", 29.96, Some(41.27), PathState::Active),
            ],
        }
    }

    #[test]
    fn a_terminal_gets_bars() {
        insta::assert_snapshot!(lines(&frame()).join("\n"));
    }

    #[test]
    fn a_log_gets_a_line() {
        assert_eq!(line(&frame()), "  5.2 s  dsl 0.0 (dead), lte 30.0, total 61.3 Mbit/s, 50 %");
    }

    #[test]
    fn a_bar_has_always_the_same_length() {
        for share in [f64::NAN, -1.0, 0.0, 0.3, 1.0, 7.0, f64::INFINITY] {
            assert_eq!(bar(share).chars().count(), BAR as usize, "{share}");
        }
        assert_eq!(bar(0.5).chars().filter(|c| *c == '█').count(), BAR as usize / 2);
    }
}
