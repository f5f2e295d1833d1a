//! `[[check]]`

use std::ops::Range;
use std::time::Duration;

use psmc_toml::{Complaint, Kind, Section, draft, kind_of, read};
use toml::Spanned;
use toml::de::DeValue;

use super::pair;
use crate::scenario::model::{Bound, Metric};
use crate::scenario::value::{Direction, EXIT_STATUS, PERCENT, REFERENCE, SIZE, STREAM_RATE, TIME};

const SUBJECTS: [&str; 3] = ["traffic", "link", "program"];

draft! {
    pub(in crate::scenario) struct CheckDraft(section, out) {
        ["traffic", "link", "program", "direction"] subject: Option<SubjectDraft> = { subject(section, out) },
        ["between"] window: Option<[Spanned<Duration>; 2]> =
            { pair(section, "between", TIME, r#"["2s", "8s"]"#, out) },
        /// One or more, with the place of their key.
        ["goodput", "bytes", "loss", "longest_gap", "rtt_median", "rtt_99", "delay_99", "exit_status"]
        bounds: Vec<(Spanned<Metric>, Bound)> = { bounds(section, out) },
        [] place: Range<usize> = { section.place() },
    }
}

pub(in crate::scenario) enum SubjectDraft {
    Traffic(Spanned<String>),
    Link(Spanned<String>, Direction),
    Program(Spanned<String>),
}

fn subject(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<SubjectDraft> {
    let given: Vec<_> = SUBJECTS.into_iter().filter(|subject| section.has(subject)).collect();
    let direction = section.optional("direction", Direction::KIND, out);
    let [subject] = given.as_slice() else {
        let reason =
            if given.is_empty() { "the check looks at nothing" } else { "a check looks at one thing" };
        let remedy = r#"name what it looks at: traffic = "…", link = "…" or program = "…""#;
        out.push(Complaint::new(reason, remedy).at(section.place()));
        return None;
    };
    if let Some(place) = section.key_place("direction").filter(|_| *subject != "link") {
        out.push(Complaint::new("only links have directions", "remove it").at(place));
    }
    let name = section.optional_at(subject, REFERENCE, out)?;
    Some(match *subject {
        "traffic" => SubjectDraft::Traffic(name),
        "link" => SubjectDraft::Link(name, direction.unwrap_or(Direction::Forward)),
        _ => SubjectDraft::Program(name),
    })
}

fn bounds(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<(Spanned<Metric>, Bound)> {
    let given = Metric::ALL.into_iter().filter(|metric| section.has(metric.as_str())).collect::<Vec<_>>();
    if given.is_empty() {
        let remedy = r#"add what must hold, such as goodput = { at_least = "80mbit" }"#;
        out.push(Complaint::new("the check asks for nothing", remedy).at(section.place()));
    }
    let bound = |metric: Metric| {
        let key = metric.as_str();
        let place = section.key_place(key)?;
        Some((Spanned::new(place, metric), bound(key, metric, section.value(key)?, out)?))
    };
    given.into_iter().filter_map(bound).collect()
}

/// `{ at_least = … }` and its like. A program's exit status may be given as it is.
fn bound(
    key: &'static str,
    metric: Metric,
    value: &Spanned<DeValue<'_>>,
    out: &mut Vec<Complaint>,
) -> Option<Bound> {
    if metric == Metric::ExitStatus && value.get_ref().is_integer() {
        let status = number(metric, key, value, out)?;
        return Some(Bound::Between(status, status));
    }
    let Some(table) = value.get_ref().as_table() else {
        let reason = format!("`{key}` takes a bound in braces, not {}", kind_of(value.get_ref()));
        let remedy = format!("write it like {key} = {}", example(metric));
        out.push(Complaint::new(reason, remedy).at(value.span()));
        return None;
    };
    let before = out.len();
    let section = Section::open("a bound", value.span(), table, &["at_least", "at_most", "between"], out);
    if out.len() > before {
        return None;
    }
    match table.iter().map(|(key, value)| (key.get_ref().as_ref(), value)).collect::<Vec<_>>().as_slice() {
        [("at_least", value)] => number(metric, "at_least", value, out).map(Bound::AtLeast),
        [("at_most", value)] => number(metric, "at_most", value, out).map(Bound::AtMost),
        [("between", value)] => between(metric, value, out),
        bounds => {
            let reason =
                if bounds.is_empty() { "these braces are empty" } else { "this is more than one bound" };
            let remedy = format!("write it like {key} = {}, or {{ between = [ … , … ] }}", example(metric));
            out.push(Complaint::new(reason, remedy).at(section.place()));
            None
        }
    }
}

fn between(metric: Metric, value: &Spanned<DeValue<'_>>, out: &mut Vec<Complaint>) -> Option<Bound> {
    let elements = value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>());
    let Some([low, high]) = elements.as_deref() else {
        let complaint =
            Complaint::new("`between` takes a list of two values", "write the lower and the upper bound");
        out.push(complaint.at(value.span()));
        return None;
    };
    let (low, high) = (number(metric, "between", low, out)?, number(metric, "between", high, out)?);
    if low > high {
        let complaint =
            Complaint::new("empty interval: the lower bound exceeds the upper bound", "swap the two");
        out.push(complaint.at(value.span()));
    }
    Some(Bound::Between(low, high))
}

/// A value in the unit of the metric.
fn number(metric: Metric, key: &str, value: &Spanned<DeValue<'_>>, out: &mut Vec<Complaint>) -> Option<f64> {
    match metric {
        Metric::Goodput => converted(key, value, STREAM_RATE, out, |rate| as_f64(rate) / 1e6),
        Metric::Bytes => converted(key, value, SIZE, out, as_f64),
        Metric::Loss => converted(key, value, PERCENT, out, |chance| chance.get() * 100.0),
        Metric::LongestGap | Metric::RttMedian | Metric::Rtt99 | Metric::Delay99 => {
            converted(key, value, TIME, out, milliseconds)
        }
        Metric::ExitStatus => converted(key, value, EXIT_STATUS, out, f64::from),
    }
}

fn converted<T>(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    kind: Kind<T>,
    out: &mut Vec<Complaint>,
    convert: impl Fn(T) -> f64,
) -> Option<f64> {
    read(key, value, kind, out).map(|value| convert(value.into_inner()))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "rates and sizes are far below 2^53")]
fn as_f64(value: u64) -> f64 {
    value as f64
}

fn example(metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput => r#"{ at_least = "80mbit" }"#,
        Metric::Bytes => r#"{ at_least = "10MB" }"#,
        Metric::Loss => r#"{ at_most = "1%" }"#,
        Metric::LongestGap => r#"{ at_most = "500ms" }"#,
        Metric::RttMedian | Metric::Rtt99 | Metric::Delay99 => r#"{ at_most = "80ms" }"#,
        Metric::ExitStatus => "0",
    }
}
