//! What `psmc stamp` prints.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use psmc_stamp::{Answer, Losses, OneWay, Outcome, Sender};
use serde::Serialize;

use crate::cli::units::duration_ms;

/// Delays that are kept of each kind, the latest ones: 8 MB, three hours at a hundred in a second.
const MAX_DELAYS: usize = 1_000_000;

/// What has come back so far.
#[derive(Debug)]
pub(super) struct Tally {
    remote: SocketAddr,
    round_trips: Delays,
    forward: Delays,
    backward: Delays,
    /// Whether all answers said that both clocks are kept right, and by how much they may be wrong together at most.
    is_synchronised: bool,
    error_s: f64,
}

/// Delays of one kind, in milliseconds.
#[derive(Debug, Default)]
struct Delays {
    kept: VecDeque<f64>,
    latest: Option<f64>,
    /// The sum of the differences between neighbours, and how many there are.
    changes: (f64, u64),
}

/// What is known at the end.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    reflector: String,
    sent: u64,
    answered: u64,
    loss_pct: f64,
    /// Absent where the reflector does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_forward: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_backward: Option<u64>,
    lost_either_way: u64,
    round_trip: Option<Spread>,
    /// Absent unless both clocks are kept right, and none was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    forward: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backward: Option<Spread>,
    /// How much the delays each way change from one probe to the next, which takes no clocks that agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_jitter_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backward_jitter_ms: Option<f64>,
    clocks_synchronised: bool,
    clock_error_ms: f64,
    clock_sets: u64,
    odd: Vec<Odd>,
}

/// How many packets were odd in one way.
#[derive(Debug, Serialize)]
struct Odd {
    what: &'static str,
    count: u64,
}

/// How delays are spread. The jitter is the mean difference between neighbours (RFC 3393 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    min_ms: f64,
    median_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    jitter_ms: f64,
}

impl Tally {
    pub(super) fn new(remote: SocketAddr) -> Self {
        let [round_trips, forward, backward] = [(); 3].map(|()| Delays::default());
        Self { remote, round_trips, forward, backward, is_synchronised: true, error_s: 0.0 }
    }

    pub(super) fn is_answered(&self) -> bool {
        !self.round_trips.kept.is_empty()
    }

    /// Takes what has become of a probe; returns it in words.
    pub(super) fn take(&mut self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Answered(answer) => self.take_answer(answer),
            Outcome::Lost(sequence) => format!("seq={sequence} no answer in time\n"),
            Outcome::NotSent(error) => format!("not sent: {error}\n"),
        }
    }

    fn take_answer(&mut self, answer: &Answer) -> String {
        let round_trip = answer.round_trip.as_secs_f64() * 1e3;
        self.round_trips.add(round_trip);
        self.is_synchronised &= answer.is_synchronised();
        self.error_s = self.error_s.max(answer.clocks.iter().map(|clock| clock.seconds).sum());
        let mut line = format!("seq={} time={}", answer.sequence, duration_ms(round_trip));
        match answer.one_way {
            OneWay::Measured { forward, backward } => {
                let [forward, backward] = [forward, backward].map(|nanos| nanos as f64 / 1e6);
                self.forward.add(forward);
                self.backward.add(backward);
                if answer.is_synchronised() {
                    line += &format!(" there={} back={}", duration_ms(forward), duration_ms(backward));
                }
            }
            OneWay::ClockSet => line += " (a clock was set)",
            OneWay::Implausible => line += " (the reflector's times cannot be right)",
        }
        for (name, hops) in [("hops_there", answer.hops_there), ("hops_back", answer.hops_back)] {
            if let Some(hops) = hops {
                line += &format!(" {name}={}", u8::MAX - hops);
            }
        }
        if answer.is_reordered {
            line += " (out of order)";
        }
        line + "\n"
    }

    pub(super) fn summary(&self, sender: &Sender) -> Summary {
        let losses = sender.losses();
        let odd = sender.oddities().iter().map(|(oddity, count)| Odd { what: oddity.name(), count });
        self.summary_of(&losses, sender.clock_sets(), odd.collect())
    }

    fn summary_of(&self, losses: &Losses, clock_sets: u64, odd: Vec<Odd>) -> Summary {
        let agree = self.is_answered() && self.is_synchronised;
        let one_way = |delays: &Delays| delays.spread().filter(|_| agree && clock_sets == 0);
        let jitter =
            |delays: &Delays| delays.spread().map(|spread| spread.jitter_ms).filter(|_| clock_sets == 0);
        Summary {
            reflector: self.remote.to_string(),
            sent: losses.sent,
            answered: losses.answered,
            loss_pct: 100.0 * losses.lost() as f64 / losses.sent.max(1) as f64,
            lost_forward: losses.forward,
            lost_backward: losses.backward,
            lost_either_way: losses.unknown(),
            round_trip: self.round_trips.spread(),
            forward: one_way(&self.forward),
            backward: one_way(&self.backward),
            forward_jitter_ms: jitter(&self.forward),
            backward_jitter_ms: jitter(&self.backward),
            clocks_synchronised: agree,
            clock_error_ms: self.error_s * 1e3,
            clock_sets,
            odd,
        }
    }
}

impl Delays {
    fn add(&mut self, delay: f64) {
        if self.kept.len() == MAX_DELAYS {
            self.kept.pop_front();
        }
        self.kept.push_back(delay);
        if let Some(before) = self.latest.replace(delay) {
            self.changes = (self.changes.0 + (delay - before).abs(), self.changes.1 + 1);
        }
    }

    fn spread(&self) -> Option<Spread> {
        let mut sorted: Vec<f64> = self.kept.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        // The smallest one that so many percent do not exceed.
        let quantile =
            |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Spread {
            min_ms: *sorted.first()?,
            median_ms: quantile(50)?,
            p95_ms: quantile(95)?,
            max_ms: *sorted.last()?,
            jitter_ms: self.changes.0 / self.changes.1.max(1) as f64,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}, probes: {}, answered: {}", self.reflector, self.sent, self.answered)?;
        writeln!(f, "loss: {:.1} %{}", self.loss_pct, self.ways())?;
        let rows = [("round trip", self.round_trip), ("there", self.forward), ("back", self.backward)];
        let rows: Vec<_> =
            rows.iter().filter_map(|(name, spread)| spread.map(|spread| spread.row(name))).collect();
        if !rows.is_empty() {
            let mut table = Table::new();
            table.load_style(NOTHING).set_header(HEADER).add_rows(rows);
            for (index, column) in table.column_iter_mut().enumerate() {
                column.set_padding((2, 0));
                if index > 0 {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            writeln!(f, "{}", table.trim_fmt())?;
            self.write_clocks(f)?;
        }
        if !self.odd.is_empty() {
            let odd: Vec<_> = self.odd.iter().map(|odd| format!("{} {}", odd.what, odd.count)).collect();
            writeln!(f, "odd: {}", odd.join(", "))?;
        }
        Ok(())
    }
}

impl Summary {
    /// Which way they were lost.
    fn ways(&self) -> String {
        if self.sent == self.answered {
            return String::new();
        }
        let (Some(forward), Some(backward)) = (self.lost_forward, self.lost_backward) else {
            return "; the reflector does not tell which way".to_owned();
        };
        let rest = match self.lost_either_way {
            0 => String::new(),
            unknown => format!(", {unknown} after the last answer"),
        };
        format!("; lost on the way there: {forward}, on the way back: {backward}{rest}")
    }

    fn write_clocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jitter = self.forward_jitter_ms.zip(self.backward_jitter_ms);
        if let Some((forward, backward)) = jitter.filter(|_| self.forward.is_none()) {
            let [forward, backward] = [forward, backward].map(duration_ms);
            writeln!(f, "jitter: there {forward}, back {backward}")?;
        }
        if self.clock_sets > 0 {
            return writeln!(f, "clocks: one was set meanwhile, so the delays each way are not known");
        }
        if self.clocks_synchronised {
            return writeln!(f, "clocks: synchronised, to within {}", duration_ms(self.clock_error_ms));
        }
        writeln!(f, "clocks: not synchronised, so the delays each way are not known")
    }
}

impl Spread {
    fn row(self, name: &str) -> [String; HEADER.len()] {
        let [min, median, p95, max, jitter] =
            [self.min_ms, self.median_ms, self.p95_ms, self.max_ms, self.jitter_ms].map(duration_ms);
        [name.to_owned(), min, median, p95, max, jitter]
    }
}

const HEADER: [&str; 6] = ["", "MIN", "MEDIAN", "P95", "MAX", "JITTER"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psmc_stamp::ClockError;

    use super::*;

    fn answer(sequence: u32, one_way: OneWay, is_synchronised: bool) -> Outcome {
        Outcome::Answered(Answer {
            sequence,
            round_trip: Duration::from_millis(20 + u64::from(sequence % 2)),
            one_way,
            clocks: [ClockError { is_synchronised, seconds: 0.001 }; 2],
            hops_there: Some(253),
            hops_back: None,
            counters: None,
            is_reordered: false,
        })
    }

    fn measured() -> OneWay {
        OneWay::Measured { forward: 12_000_000, backward: 8_000_000 }
    }

    fn tally() -> Tally {
        Tally::new("192.0.2.1:862".parse().unwrap())
    }

    #[test]
    fn delays_each_way_are_told_if_the_clocks_agree() {
        let mut known = tally();
        let lines: Vec<_> = (0..4).map(|sequence| known.take(&answer(sequence, measured(), true))).collect();
        assert_eq!(lines[1], "seq=1 time=21.0 ms there=12.0 ms back=8.00 ms hops_there=2\n");
        assert_eq!(known.take(&Outcome::Lost(4)), "seq=4 no answer in time\n");
        let losses = Losses { sent: 5, answered: 4, forward: Some(1), backward: Some(0) };
        let text = known.summary_of(&losses, 0, Vec::new()).to_string();
        assert!(text.contains("loss: 20.0 %; lost on the way there: 1, on the way back: 0\n"), "{text}");
        assert!(text.contains("clocks: synchronised, to within 2.00 ms"), "{text}");
        let known = known.summary_of(&losses, 0, Vec::new());
        let spread = Spread { min_ms: 20.0, median_ms: 20.0, p95_ms: 21.0, max_ms: 21.0, jitter_ms: 1.0 };
        assert_eq!((known.round_trip, known.forward.unwrap().max_ms), (Some(spread), 12.0));
    }

    #[test]
    fn delays_each_way_are_not_told_if_not() {
        let losses = Losses { sent: 2, answered: 1, forward: None, backward: None };
        let mut free = tally();
        assert_eq!(free.take(&answer(0, measured(), false)), "seq=0 time=20.0 ms hops_there=2\n");
        let summary = free.summary_of(&losses, 0, Vec::new());
        assert_eq!((summary.forward, summary.forward_jitter_ms), (None, Some(0.0)));
        let text = summary.to_string();
        assert!(text.contains("the reflector does not tell which way"), "{text}");
        assert!(text.contains("clocks: not synchronised"), "{text}");
        let mut set = tally();
        set.take(&answer(0, measured(), true));
        assert!(set.take(&answer(1, OneWay::ClockSet, true)).contains("(a clock was set)"));
        let summary = set.summary_of(&losses, 1, vec![Odd { what: "late", count: 2 }]);
        assert_eq!((summary.forward, summary.forward_jitter_ms), (None, None));
        let text = summary.to_string();
        assert!(text.contains("clocks: one was set meanwhile") && text.ends_with("odd: late 2\n"), "{text}");
    }
}
