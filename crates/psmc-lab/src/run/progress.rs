//! What is shown while it runs, on standard error, so that the results have standard output for themselves.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::measure::{mbps, ms};
use crate::scenario::{Scenario, Traffic, TrafficKind};
use crate::traffic::{Clock, Stream};

/// How often a terminal is redrawn: often enough to look alive, and seldom enough to be read.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);

/// How often a line is added to a log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Characters in a bar.
const BAR: u32 = 24;

/// The live view.
#[derive(Debug)]
pub(super) struct Progress {
    kind: Kind,
    /// How many lines at the end of the screen are to be redrawn.
    drawn: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Quiet,
    Log,
    Terminal,
}

/// A stream at a moment.
#[derive(Clone, Debug)]
struct Lane {
    name: String,
    figure: Figure,
}

/// What is shown of a stream.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// Its rate, and the most that it has had so far, in Mbit/s.
    Rate { mbps: f64, best: f64 },
    /// The latest round trip of pings, if there was one.
    RoundTrip(Option<Duration>),
}

impl Lane {
    fn new(traffic: &Traffic) -> Self {
        let figure = match traffic.kind {
            TrafficKind::Ping { .. } => Figure::RoundTrip(None),
            TrafficKind::Tcp { .. }
            | TrafficKind::Quic { .. }
            | TrafficKind::Udp { .. }
            | TrafficKind::Requests { .. } => Figure::Rate { mbps: 0.0, best: 0.0 },
        };
        Self { name: traffic.name.clone(), figure }
    }

    /// So many Mbit/s have arrived of late, and the latest answer has taken so long.
    fn update(&mut self, now_mbps: f64, latency: Option<Duration>) {
        match &mut self.figure {
            Figure::Rate { mbps, best } => (*mbps, *best) = (now_mbps, best.max(now_mbps)),
            Figure::RoundTrip(latest) => *latest = latency,
        }
    }
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let kind = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Kind::Quiet,
            (false, true) => Kind::Terminal,
            (false, false) => Kind::Log,
        };
        Self { kind, drawn: 0 }
    }

    /// Adds a line that stays.
    pub(super) fn note(&mut self, text: &str) {
        self.clear();
        if self.kind != Kind::Quiet {
            print(&format!("{text}\n"));
        }
    }

    /// Shows the streams until the end of the run.
    pub(super) async fn run(&mut self, scenario: &Scenario, clock: Clock, streams: &[Stream]) {
        let interval = match self.kind {
            Kind::Quiet => return,
            Kind::Log => LOG_INTERVAL,
            Kind::Terminal => TERMINAL_INTERVAL,
        };
        let mut lanes: Vec<_> = scenario.traffic.iter().map(Lane::new).collect();
        let mut before = vec![0; streams.len()];
        let (mut at, mut looked) = (Duration::ZERO, Duration::ZERO);
        while at < scenario.duration {
            at = (at + interval).min(scenario.duration);
            clock.sleep_until(at).await;
            let time = clock.now() - looked;
            looked += time;
            for ((lane, stream), before) in lanes.iter_mut().zip(streams).zip(&mut before) {
                let arrived = stream.arrived();
                let rate = mbps(arrived - std::mem::replace(before, arrived), time);
                lane.update(rate, stream.latency());
            }
            self.show(at, scenario.duration, &lanes);
        }
        self.clear();
    }

    /// Shows a moment, on a terminal in the place of the one before.
    fn show(&mut self, now: Duration, duration: Duration, lanes: &[Lane]) {
        if self.kind == Kind::Log {
            return print(&format!("{}\n", line(now, lanes)));
        }
        let lines = lines(now, duration, lanes);
        let text: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
        print(&(back(self.drawn) + &text));
        self.drawn = lines.len();
    }

    /// Removes the moment that is shown on a terminal.
    fn clear(&mut self) {
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
fn lines(now: Duration, duration: Duration, lanes: &[Lane]) -> Vec<String> {
    let width = lanes.iter().map(|lane| lane.name.chars().count()).max().unwrap_or(0);
    let lane = |lane: &Lane| match lane.figure {
        Figure::Rate { mbps, best } => {
            format!("  {:width$} {} {mbps:>7.1} Mbit/s", lane.name, bar(mbps / best))
        }
        Figure::RoundTrip(Some(latest)) => {
            format!("  {:width$} {:bar$} {:>7.1} ms", lane.name, "", ms(latest), bar = BAR as usize)
        }
        Figure::RoundTrip(None) => format!("  {}", lane.name),
    };
    let share = now.as_secs_f64() / duration.as_secs_f64();
    let time =
        format!("  {:width$} {} {:>7.1} of {} s", "", bar(share), now.as_secs_f64(), duration.as_secs_f64());
    lanes.iter().map(lane).chain([time]).collect()
}

/// A moment as one line.
fn line(now: Duration, lanes: &[Lane]) -> String {
    let lane = |lane: &Lane| match lane.figure {
        Figure::Rate { mbps, .. } => format!("{} {mbps:.1} Mbit/s", lane.name),
        Figure::RoundTrip(Some(latest)) => format!("{} {:.1} ms", lane.name, ms(latest)),
        Figure::RoundTrip(None) => format!("{} –", lane.name),
    };
    let lanes: Vec<_> = lanes.iter().map(lane).collect();
    format!("{:>5.1} s  {}", now.as_secs_f64(), lanes.join(", "))
}

/// A bar that is full at 1.
fn bar(share: f64) -> String {
    let full = (0..BAR).filter(|index| f64::from(*index) + 0.5 < share * f64::from(BAR)).count();
    "█".repeat(full) + &"░".repeat(BAR as usize - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes() -> [Lane; 3] {
        let lane = |name: &str, figure| Lane { name: name.to_owned(), figure };
        [
            lane("bulk", Figure::Rate { mbps: 30.0, best: 60.0 }),
            lane("ping", Figure::RoundTrip(Some(Duration::from_micros(20_340)))),
            lane("lost", Figure::RoundTrip(None)),
        ]
    }

    #[test]
    fn a_terminal_gets_bars() {
        let lines = lines(Duration::from_secs(5), Duration::from_secs(20), &lanes());
        assert_eq!(
            lines,
            [
                "  bulk ████████████░░░░░░░░░░░░    30.0 Mbit/s",
                "  ping                             20.3 ms",
                "  lost",
                "       ██████░░░░░░░░░░░░░░░░░░     5.0 of 20 s",
            ]
        );
    }

    #[test]
    fn a_log_gets_a_line() {
        let line = line(Duration::from_millis(5210), &lanes());
        assert_eq!(line, "  5.2 s  bulk 30.0 Mbit/s, ping 20.3 ms, lost –");
    }

    #[test]
    fn a_rate_remembers_its_best_and_a_ping_its_latest() {
        let [mut bulk, mut ping, _] = lanes();
        for lane in [&mut bulk, &mut ping] {
            lane.update(90.0, Some(Duration::from_millis(7)));
            lane.update(45.0, Some(Duration::from_millis(8)));
        }
        assert_eq!(line(Duration::ZERO, &[bulk.clone(), ping]), "  0.0 s  bulk 45.0 Mbit/s, ping 8.0 ms");
        assert!(lines(Duration::ZERO, Duration::from_secs(1), &[bulk])[0].contains("████████████░"));
    }

    #[test]
    fn a_bar_has_always_the_same_length() {
        for share in [f64::NAN, -1.0, 0.0, 0.3, 1.0, 7.0, f64::INFINITY] {
            assert_eq!(bar(share).chars().count(), BAR as usize, "{share}");
        }
    }
}
