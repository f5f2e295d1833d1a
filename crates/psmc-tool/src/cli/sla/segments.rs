//! `psmc sla --segments`: where on its way each path loses and delays datagrams, by plain differences of what the witnesses have
//! counted.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use psmc_api::{Client, ClientError, Passage, PathSegments, WayStatus, WitnessCount};
use serde::Serialize;

use super::super::units::duration_ms;
use super::super::{CliError, output};

/// How long it takes at the most until witnesses have told of some blocks, if they ever do.
const PATIENCE: Duration = Duration::from_secs(6);

/// Blocks that make it worth while to look: a second.
const ENOUGH: usize = 2;

/// How often it is asked meanwhile.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows them of the paths to a peer, or to all.
pub(super) fn run(peer: Option<&str>, json: bool, client: &mut Client) -> Result<(), CliError> {
    let paths = watch(client, peer)?;
    let reports: Vec<_> = paths.into_iter().map(PathReport::of).collect();
    let text = if json { output::json(&reports)? } else { text(&reports) };
    Ok(output::print(&text)?)
}

/// Asks until something is known of each path, or does not get known.
fn watch(client: &mut Client, peer: Option<&str>) -> Result<Vec<PathSegments>, ClientError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let paths = client.segments(peer)?;
        let is_known = |way: &WayStatus| way.blocks.len() >= ENOUGH;
        let are_known = paths.iter().all(|path| is_known(&path.to_peer) && is_known(&path.from_peer));
        if (are_known && !paths.is_empty()) || end <= Instant::now() {
            return Ok(paths);
        }
        sleep(INTERVAL);
    }
}

/// A path, with what follows from the counts.
#[derive(Debug, Serialize)]
struct PathReport {
    peer: String,
    path: String,
    id: u32,
    to_peer: WayReport,
    from_peer: WayReport,
}

#[derive(Debug, Serialize)]
struct WayReport {
    #[serde(flatten)]
    way: WayStatus,
    /// What became of the datagrams in `blocks`, in the order of their way.
    parts: Vec<Part>,
}

/// A part of the way: between two witnesses, or within one of them.
#[derive(Debug, PartialEq, Serialize)]
struct Part {
    from: String,
    /// The same as `from` of what a relay has dropped itself.
    to: String,
    sent: u64,
    arrived: u64,
    /// Less than nothing where the witnesses contradict each other.
    lost: i64,
    loss_pct: Option<f64>,
    /// By how much datagrams were slower than the fastest of late, in the middle and at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_max_ms: Option<f64>,
}

impl PathReport {
    fn of(path: PathSegments) -> Self {
        let PathSegments { peer, path, id, to_peer, from_peer } = path;
        Self { peer, path, id, to_peer: WayReport::of(to_peer), from_peer: WayReport::of(from_peer) }
    }
}

impl WayReport {
    fn of(way: WayStatus) -> Self {
        Self { parts: parts(&way), way }
    }
}

/// The parts of a way between those who have counted in all blocks that are known.
fn parts(way: &WayStatus) -> Vec<Part> {
    if way.blocks.is_empty() {
        return Vec::new();
    }
    let counted: Vec<_> = (0..way.witnesses.len()).filter_map(|at| Some((at, sum(way, at)?))).collect();
    let mut parts = Vec::new();
    for pair in counted.windows(2) {
        let [(from, sent), (to, arrived)] = pair else { continue };
        parts.extend(part(way, *from, *from, sent.received, sent.handed_on));
        parts.extend(part(way, *from, *to, sent.handed_on, arrived.received));
    }
    parts
}

fn part(way: &WayStatus, from: usize, to: usize, sent: Option<u64>, arrived: Option<u64>) -> Option<Part> {
    let (sent, arrived) = (sent?, arrived?);
    let lost = sent.cast_signed().saturating_sub(arrived.cast_signed());
    let delays = if from == to { Vec::new() } else { delays_ms(&way.passages, from, to) };
    Some(Part {
        from: way.witnesses[from].name.clone(),
        to: way.witnesses[to].name.clone(),
        sent,
        arrived,
        lost,
        loss_pct: (sent > 0).then(|| 100.0 * lost as f64 / sent as f64),
        delay_ms: delays.get(delays.len() / 2).copied(),
        delay_max_ms: delays.last().copied(),
    })
}

/// What a witness has counted in all blocks together; `None` if it has not in one.
fn sum(way: &WayStatus, witness: usize) -> Option<WitnessCount> {
    let mut sum = WitnessCount::default();
    for block in &way.blocks {
        let count = (*block.counts.get(witness)?)?;
        let add = |sum: &mut Option<u64>, count: Option<u64>| {
            *sum = count.map(|count| sum.unwrap_or(0) + count);
        };
        add(&mut sum.received, count.received);
        add(&mut sum.handed_on, count.handed_on);
    }
    Some(sum)
}

/// By how much each datagram was slower between two witnesses than the fastest, in milliseconds, ascending. Clocks do not agree,
/// and need not.
fn delays_ms(passages: &[Passage], from: usize, to: usize) -> Vec<f64> {
    let behind = |passage: &Passage| {
        let (from, to) = ((*passage.at_us.get(from)?)?, (*passage.at_us.get(to)?)?);
        Some(to.wrapping_sub(from).cast_signed())
    };
    let mut behind: Vec<_> = passages.iter().filter_map(behind).collect();
    behind.sort_unstable();
    let least = behind.first().copied().unwrap_or_default();
    behind.iter().map(|delay| delay.wrapping_sub(least) as f64 / 1e3).collect()
}

fn text(reports: &[PathReport]) -> String {
    if reports.is_empty() {
        return "no paths\n".to_owned();
    }
    reports.iter().map(|report| fmt::from_fn(|f| write_path(report, f)).to_string()).collect()
}

fn write_path(report: &PathReport, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let PathReport { peer, path, .. } = report;
    write_way(&format!("{path}, to {peer}"), &report.to_peer, out)?;
    write_way(&format!("{path}, from {peer}"), &report.from_peer, out)
}

fn write_way(title: &str, report: &WayReport, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let blocks: i64 = report.way.blocks.iter().map(|block| block.blocks).sum();
    writeln!(out, "{title}: the last {} s", blocks as f64 / 2.0)?;
    let silent = report.way.witnesses.iter().filter(|witness| !witness.counts);
    for witness in silent {
        writeln!(out, "  {} does not count", witness.name)?;
    }
    if report.parts.is_empty() {
        return writeln!(out, "  nothing is known\n");
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADER).add_rows(report.parts.iter().map(Part::row));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if index >= 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    out.write_str(&table.trim_fmt())?;
    out.write_str("\n\n")
}

const HEADER: [&str; 6] = ["WHERE", "SENT", "LOST", "LOSS", "SLOWER", "AT MOST"];

impl Part {
    fn row(&self) -> [String; HEADER.len()] {
        let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), duration_ms);
        [
            if self.from == self.to {
                format!("in {}", self.from)
            } else {
                format!("{} → {}", self.from, self.to)
            },
            self.sent.to_string(),
            if self.lost < 0 { "contradictory".to_owned() } else { self.lost.to_string() },
            self.loss_pct
                .filter(|_| self.lost >= 0)
                .map_or_else(|| "-".to_owned(), |loss| format!("{loss:.1} %")),
            time(self.delay_ms),
            time(self.delay_max_ms),
        ]
    }
}

#[cfg(test)]
mod tests {
    use psmc_api::{SegmentBlock, Witness};

    use super::*;

    fn witness(name: &str, counts: bool) -> Witness {
        Witness { name: name.to_owned(), counts }
    }

    fn count(received: Option<u64>, handed_on: Option<u64>) -> Option<WitnessCount> {
        Some(WitnessCount { received, handed_on })
    }

    fn way() -> WayStatus {
        let block = |number, at_relay| SegmentBlock {
            number,
            blocks: 1,
            counts: vec![count(None, Some(100)), at_relay, None, count(Some(90), None)],
        };
        let total = block(7, None);
        let at = |times: [Option<u64>; 4]| Passage { number: 1, at_us: times.to_vec() };
        WayStatus {
            witnesses: vec![
                witness("van", true),
                witness("r0", true),
                witness("r1", false),
                witness("hq", true),
            ],
            blocks: vec![block(6, count(Some(99), Some(95))), block(7, count(Some(97), Some(97)))],
            total,
            passages: vec![
                at([Some(1000), Some(7_000_000), None, Some(50)]),
                at([Some(2000), Some(7_003_000), None, None]),
                at([Some(3000), Some(7_022_000), None, Some(19_050)]),
                at([Some(4000), None, None, Some(60)]),
            ],
        }
    }

    #[test]
    fn parts_are_between_those_who_count() {
        let parts = parts(&way());
        let row = |part: &Part| (part.from.clone(), part.to.clone(), part.sent, part.lost);
        let named = |from: &str, to: &str, sent, lost| (from.to_owned(), to.to_owned(), sent, lost);
        assert_eq!(
            parts.iter().map(row).collect::<Vec<_>>(),
            [named("van", "r0", 200, 4), named("r0", "r0", 196, 4), named("r0", "hq", 192, 12)]
        );
        assert_eq!(parts[0].loss_pct, Some(2.0));
        // 6.999 s, 7.001 s and 7.019 s behind.
        assert_eq!((parts[0].delay_ms, parts[0].delay_max_ms), (Some(2.0), Some(20.0)));
        assert_eq!((parts[1].delay_ms, parts[2].delay_max_ms), (None, Some(3.0)));
    }

    #[test]
    fn a_way_is_shown_with_those_who_do_not_count() {
        let report = PathReport {
            peer: "hq".to_owned(),
            path: "dsl".to_owned(),
            id: 2,
            to_peer: WayReport::of(way()),
            from_peer: WayReport::of(WayStatus { blocks: Vec::new(), ..way() }),
        };
        let text = text(&[report]);
        assert!(text.starts_with("dsl, to hq: the last 1 s\n  r1 does not count\n"), "{text}");
        assert!(text.contains("in r0") && text.contains("r0 → hq"), "{text}");
        assert!(
            text.contains("dsl, from hq: the last 0 s\n  r1 does not count\n  nothing is known\n"),
            "{text}"
        );
    }

    #[test]
    fn counts_that_contradict_each_other_are_no_loss() {
        let mut way = way();
        way.blocks.truncate(1);
        way.blocks[0].counts[1] = count(Some(120), Some(120));
        let part = &parts(&way)[0];
        assert_eq!((part.lost, &part.row()[2]), (-20, &"contradictory".to_owned()));
    }
}
