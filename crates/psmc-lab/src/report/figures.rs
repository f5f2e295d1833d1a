//! Which plots results give.

use super::plot::{Figure, Mark, Pen, Series, Shape};
use crate::results::{PathResult, Results, Sample, TrafficResult};

/// The names of the files, and what is in them.
pub(super) fn of(results: &Results) -> Vec<(String, Figure)> {
    let mut figures = vec![
        ("goodput.svg".to_owned(), goodput(results)),
        ("links.svg".to_owned(), links(results)),
        ("rtt.svg".to_owned(), rtt(results)),
        ("latency-cdf.svg".to_owned(), latency(results)),
    ];
    figures.extend(tunnels(results).map(|tunnel| (file_name(tunnel), paths(results, tunnel))));
    figures.retain(|(_, figure)| !figure.series.is_empty());
    figures
}

fn goodput(results: &Results) -> Figure {
    let streams = results.traffic.iter().filter(|stream| !stream.goodput_series_mbps.is_empty());
    let lines = streams.map(|stream| line(&stream.name, steps(&stream.goodput_series_mbps)));
    over_time(results, "goodput of the traffic", RATE, lines.collect())
}

/// A colour for each link; the direction from its second host is dashed.
fn links(results: &Results) -> Figure {
    let mut names: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for link in results.links.iter().filter(|link| link.packets > 0) {
        let known = names.iter().position(|name| *name == link.name);
        let pen = Pen::nth(known.unwrap_or(names.len()));
        if known.is_none() {
            names.push(&link.name);
        }
        let label = format!("{}: {} → {}", link.name, link.from, link.to);
        let pen = Some(if known.is_some() { pen.other() } else { pen });
        lines.push(Series { pen, ..line(&label, steps(&link.rate_series_mbps)) });
    }
    over_time(results, "what arrives over the links", RATE, lines)
}

fn rtt(results: &Results) -> Figure {
    let paths = results.paths.iter().filter(|path| !path.rtt_series_ms.is_empty());
    let paths = paths.map(|path| line(&format!("path {}", path.path), points(&path.rtt_series_ms)));
    let pings = results.traffic.iter().filter(|stream| stream.kind == "ping");
    let pings = pings.filter_map(|stream| {
        let samples = &stream.latency.as_ref()?.samples_ms;
        Some(line(&stream.name, peaks(&points(samples))))
    });
    over_time(results, "round-trip times", "round trip (ms)", paths.chain(pings).collect())
}

/// How many values are at most so large.
fn latency(results: &Results) -> Figure {
    let measured = results.traffic.iter().filter_map(|stream| Some((stream, stream.latency.as_ref()?)));
    let largest = measured.clone().map(|(_, latency)| latency.max_ms).fold(0.0, f64::max);
    let label = |stream: &TrafficResult| format!("{} ({})", stream.name, stream.kind);
    let lines = measured.map(|(stream, latency)| line(&label(stream), distribution(&latency.samples_ms)));
    Figure {
        title: format!("{}: distribution of latencies", results.scenario),
        axes: ["latency (ms)", "share of the values at most as large (%)"],
        x: 0.0..if largest > 0.0 { largest } else { 1.0 },
        series: lines.collect(),
        marks: Vec::new(),
    }
}

/// The paths of a tunnel, one upon the other: the upper edge is their sum. In the direction in which there is more.
fn paths(results: &Results, tunnel: &str) -> Figure {
    let paths: Vec<_> = results.paths.iter().filter(|path| path.tunnel == tunnel).collect();
    let total = |direction: Direction| {
        paths.iter().flat_map(|path| direction(path)).map(|sample| sample.value).sum::<f64>()
    };
    let (verb, direction): (_, Direction) =
        if total(sent) >= total(received) { ("sends", sent) } else { ("receives", received) };
    let title = format!("what the first site of {tunnel} {verb} over its paths");
    over_time(results, &title, "rate, stacked (Mbit/s)", stacked(&paths, direction))
}

/// A series of a path.
type Direction = fn(&PathResult) -> &[Sample];

fn sent(path: &PathResult) -> &[Sample] {
    &path.sent_series_mbps
}

fn received(path: &PathResult) -> &[Sample] {
    &path.received_series_mbps
}

fn over_time(results: &Results, title: &str, unit: &'static str, series: Vec<Series>) -> Figure {
    Figure {
        title: format!("{}: {title}", results.scenario),
        axes: ["time (s)", unit],
        x: 0.0..results.duration_s.max(f64::MIN_POSITIVE),
        series,
        marks: marks(results),
    }
}

/// The events; what happens at the same time, as far as the eye can tell, has one line.
fn marks(results: &Results) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for event in &results.events {
        match marks.last_mut() {
            Some(last) if event.happened_s - last.x < results.duration_s * APART => {
                last.label = format!("{}, {}", last.label, event.what);
            }
            _ => marks.push(Mark { x: event.happened_s, label: event.what.clone() }),
        }
    }
    marks.iter_mut().for_each(|mark| shorten(&mut mark.label));
    marks
}

/// Cuts off what would not fit beside a mark.
fn shorten(label: &mut String) {
    if let Some((end, _)) = label.char_indices().nth(LONGEST_LABEL) {
        label.replace_range(end.., "…");
    }
}

fn stacked(paths: &[&PathResult], direction: Direction) -> Vec<Series> {
    let mut times: Vec<f64> =
        paths.iter().flat_map(|path| direction(path)).map(|sample| sample.at_s).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let mut edge: Vec<_> = times.iter().map(|&at_s| Sample { at_s, value: 0.0 }).collect();
    let area = paths.iter().filter(|path| !direction(path).is_empty()).map(|path| {
        let lower = steps(&edge);
        edge.iter_mut().for_each(|sample| sample.value += at(direction(path), sample.at_s));
        Series { label: path.path.clone(), points: steps(&edge), shape: Shape::Area(lower), pen: None }
    });
    area.collect()
}

/// The value at a time; nothing when the series has none, for paths come and go.
fn at(series: &[Sample], at_s: f64) -> f64 {
    series.binary_search_by(|sample| sample.at_s.total_cmp(&at_s)).map_or(0.0, |index| series[index].value)
}

fn line(label: &str, points: Vec<(f64, f64)>) -> Series {
    Series { label: label.to_owned(), points, shape: Shape::Line, pen: None }
}

/// Each value over the whole of its interval.
fn steps(series: &[Sample]) -> Vec<(f64, f64)> {
    let interval = match series {
        [first, second, ..] => second.at_s - first.at_s,
        [only] => only.at_s,
        [] => 0.0,
    };
    let start = series.first().map_or(0.0, |first| (first.at_s - interval).max(0.0));
    let starts = std::iter::once(start).chain(series.iter().map(|sample| sample.at_s));
    starts
        .zip(series)
        .flat_map(|(from, sample)| [(from, sample.value), (sample.at_s, sample.value)])
        .collect()
}

fn points(series: &[Sample]) -> Vec<(f64, f64)> {
    series.iter().map(|sample| (sample.at_s, sample.value)).collect()
}

/// Of many points, the highest of each few neighbours.
fn peaks(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let neighbours = points.len().div_ceil(MOST_POINTS).max(1);
    let highest = |few: &[(f64, f64)]| few.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(neighbours).filter_map(highest).collect()
}

fn distribution(samples: &[Sample]) -> Vec<(f64, f64)> {
    cumulated(samples.iter().map(|sample| sample.value).collect())
}

/// The distribution function, in percent, at so many quantiles that the eye misses nothing.
pub(crate) fn cumulated(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let stride = values.len().div_ceil(MOST_POINTS).max(1);
    let share = |index: usize| (index + 1) as f64 / values.len() as f64 * 100.0;
    let chosen = (0..values.len()).filter(|index| index % stride == 0 || index + 1 == values.len());
    let start = values.first().map(|smallest| (*smallest, 0.0));
    start.into_iter().chain(chosen.map(|index| (values[index], share(index)))).collect()
}

fn tunnels(results: &Results) -> impl Iterator<Item = &str> {
    let mut seen = std::collections::BTreeSet::new();
    results.paths.iter().map(|path| path.tunnel.as_str()).filter(move |tunnel| seen.insert(*tunnel))
}

/// Whatever the tunnel is called, this is one file in the directory.
fn file_name(tunnel: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
    format!("paths-{}.svg", tunnel.chars().map(safe).collect::<String>())
}

const RATE: &str = "rate (Mbit/s)";

/// About two for each pixel of the width of a plot.
const MOST_POINTS: usize = 1500;

/// The share of the width of a plot that a line of text takes.
const APART: f64 = 0.015;

/// What fits between the top of a plot and its axis.
const LONGEST_LABEL: usize = 46;
