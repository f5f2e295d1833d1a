//! What a direction of a link is like: the same keys in `[[link]]`, in `[link.forward]` and in an event that changes one; and
//! the files that they name, traces of rates and samples of delays.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use psmc_sim::link::{Jitter, Loss, Probability, QueueLimit, Rate, Trace};
use psmc_toml::{Complaint, SWITCH, Section, Source, describe, draft, kind_of, read, remedy_for};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::scenario::value::{DisciplineName, FILE, LINK_RATE, MTU, PERCENT, QUEUE, SIZE, TIME, WEIGHT};

draft! {
    /// The settings that a section gives.
    #[derive(Clone, Default)]
    pub(in crate::scenario) struct LinkSettings(section, out, source: &Source) with or {
        ["rate", "trace"] rate: Option<Rate> = { rate(section, source, out) },
        delay: Option<Duration> = optional(TIME),
        jitter: Option<Jitter> = { section.value("jitter").and_then(|value| jitter(value, source, out)) },
        reordering: Option<bool> = optional(SWITCH),
        reorder: Option<Probability> = optional(PERCENT),
        loss: Option<Loss> = { section.value("loss").and_then(|value| loss(value, out)) },
        duplicate: Option<Probability> = optional(PERCENT),
        corrupt: Option<Probability> = optional(PERCENT),
        queue: Option<Spanned<QueueLimit>> = optional_at(QUEUE),
        discipline: Option<Spanned<DisciplineDraft>> =
            { section.value("discipline").and_then(|value| discipline(value, out)) },
        mtu: Option<usize> = optional(MTU),
    }
}

/// `rate` or `trace`, not both.
fn rate(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Rate> {
    let rate = section.optional("rate", LINK_RATE, out);
    let trace = section.optional_at("trace", FILE, out);
    if let (Some(rate), Some(trace)) = (section.key_place("rate"), section.key_place("trace")) {
        let complaint = Complaint::new(
            "the link has a rate and a trace, which is a rate of its own",
            "keep one of the two",
        );
        out.push(complaint.at(trace).because_of(rate, "and here"));
        return None;
    }
    match (rate, trace) {
        (Some(rate), _) => Some(Rate::Fixed(rate)),
        (None, Some(path)) => trace_in(&path, source.directory(), out).map(Rate::Trace),
        (None, None) => None,
    }
}

/// A standard deviation, or one of the other kinds in a table.
fn jitter(value: &Spanned<DeValue<'_>>, source: &Source, out: &mut Vec<Complaint>) -> Option<Jitter> {
    let DeValue::Table(table) = value.get_ref() else {
        return time("jitter", value, out).map(Jitter::Normal);
    };
    let section = Section::open("`jitter`", value.span(), table, &["normal", "uniform", "file"], out);
    let (kind, value) = only_one(&section, table, r#"{ uniform = "5ms" }"#, out)?;
    match kind {
        "normal" => time(kind, value, out).map(Jitter::Normal),
        "uniform" => time(kind, value, out).map(Jitter::Uniform),
        "file" => samples(value, source.directory(), out),
        _ => None,
    }
}

fn time(key: &str, value: &Spanned<DeValue<'_>>, out: &mut Vec<Complaint>) -> Option<Duration> {
    read(key, value, TIME, out).map(Spanned::into_inner)
}

fn samples(value: &Spanned<DeValue<'_>>, directory: &Path, out: &mut Vec<Complaint>) -> Option<Jitter> {
    let path = read("file", value, FILE, out)?;
    delays_in(&path, directory, out).map(Jitter::Samples)
}

/// A chance, or the chances of a chain of two states.
fn loss(value: &Spanned<DeValue<'_>>, out: &mut Vec<Complaint>) -> Option<Loss> {
    if let Some(table) = value.get_ref().as_table() {
        const KEYS: &[&str] = &["to_bad", "to_good", "loss_bad", "loss_good"];
        return bursts(&Section::open("`loss`", value.span(), table, KEYS, out), out);
    }
    if value.get_ref().is_str() {
        return read("loss", value, PERCENT, out).map(|chance| Loss::Random(chance.into_inner()));
    }
    let reason =
        format!("`loss` takes a text in quotes or a table in braces, not {}", kind_of(value.get_ref()));
    let remedy = r#"write it like "0.5%", or { to_bad = "1%", to_good = "20%" } for bursts"#;
    out.push(Complaint::new(reason, remedy).at(value.span()));
    None
}

fn bursts(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Loss> {
    let to_bad = section.required("to_bad", PERCENT, "the chance per packet that a burst begins", out);
    let to_good = section.required("to_good", PERCENT, "the chance per packet that it ends", out);
    Some(Loss::GilbertElliott {
        loss_good: section.optional("loss_good", PERCENT, out).unwrap_or(Probability::ZERO),
        loss_bad: section.optional("loss_bad", PERCENT, out).unwrap_or(Probability::ONE),
        to_bad: to_bad?,
        to_good: to_good?,
    })
}

/// What a queue does before it is full, as the file says it.
#[derive(Clone, Debug)]
pub(in crate::scenario) enum DisciplineDraft {
    DropTail,
    Red(RedDraft),
    CoDel { target: Duration, interval: Duration, ecn: bool },
}

/// Random early detection. What is left out depends on the length of the queue.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct RedDraft {
    pub(in crate::scenario) min: Option<u64>,
    pub(in crate::scenario) max: Option<u64>,
    pub(in crate::scenario) probability: Probability,
    pub(in crate::scenario) weight: f64,
    pub(in crate::scenario) ecn: bool,
}

/// A name, or a table with a name and its settings.
pub(super) fn discipline(
    value: &Spanned<DeValue<'_>>,
    out: &mut Vec<Complaint>,
) -> Option<Spanned<DisciplineDraft>> {
    let draft = match value.get_ref().as_table() {
        Some(table) => with_settings(value, table, out)?,
        None => with_defaults(read("discipline", value, DisciplineName::KIND, out)?.into_inner()),
    };
    Some(Spanned::new(value.span(), draft))
}

fn with_defaults(name: DisciplineName) -> DisciplineDraft {
    match name {
        DisciplineName::DropTail => DisciplineDraft::DropTail,
        DisciplineName::Red => DisciplineDraft::Red(RedDraft {
            min: None,
            max: None,
            probability: red_probability(),
            weight: RED_WEIGHT,
            ecn: false,
        }),
        DisciplineName::CoDel => {
            DisciplineDraft::CoDel { target: CODEL_TARGET, interval: CODEL_INTERVAL, ecn: false }
        }
    }
}

fn with_settings(
    value: &Spanned<DeValue<'_>>,
    table: &DeTable<'_>,
    out: &mut Vec<Complaint>,
) -> Option<DisciplineDraft> {
    const EXAMPLE: &str = r#"{ codel = { target = "5ms" } }"#;
    let section = Section::open("`discipline`", value.span(), table, &["red", "codel"], out);
    let (name, _) = only_one(&section, table, EXAMPLE, out)?;
    match name {
        "red" => red(&section.section(name, "`red`", RED_KEYS, out)?, out),
        "codel" => Some(codel(&section.section(name, "`codel`", CODEL_KEYS, out)?, out)),
        _ => None,
    }
}

const RED_KEYS: &[&str] = &["min", "max", "probability", "weight", "ecn"];
const CODEL_KEYS: &[&str] = &["target", "interval", "ecn"];

fn red(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<DisciplineDraft> {
    let min = section.optional_at("min", SIZE, out);
    let max = section.optional_at("max", SIZE, out);
    if let (Some(low), Some(high)) = (&min, &max)
        && low.get_ref() >= high.get_ref()
    {
        let remedy =
            "RED begins to drop at `min` and drops all at `max`: make `max` two or three times as large";
        let complaint = Complaint::new("`min` is not less than `max`", remedy).at(low.span());
        out.push(complaint.because_of(high.span(), "`max`"));
        return None;
    }
    Some(DisciplineDraft::Red(RedDraft {
        min: min.map(Spanned::into_inner),
        max: max.map(Spanned::into_inner),
        probability: section.optional("probability", PERCENT, out).unwrap_or_else(red_probability),
        weight: section.optional("weight", WEIGHT, out).unwrap_or(RED_WEIGHT),
        ecn: ecn(section, out),
    }))
}

fn codel(section: &Section<'_>, out: &mut Vec<Complaint>) -> DisciplineDraft {
    DisciplineDraft::CoDel {
        target: section.optional("target", TIME, out).unwrap_or(CODEL_TARGET),
        interval: section.optional("interval", TIME, out).unwrap_or(CODEL_INTERVAL),
        ecn: ecn(section, out),
    }
}

fn ecn(section: &Section<'_>, out: &mut Vec<Complaint>) -> bool {
    section.optional("ecn", SWITCH, out).unwrap_or(false)
}

/// The only key of a table that names one of several kinds, and its value.
pub(super) fn only_one<'a>(
    section: &Section<'a>,
    table: &'a DeTable<'a>,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<(&'a str, &'a Spanned<DeValue<'a>>)> {
    let mut entries = table.iter();
    match (entries.next(), entries.next()) {
        (Some((key, value)), None) => Some((key.get_ref(), value)),
        (first, _) => {
            let reason = if first.is_some() { "these exclude each other" } else { "this table is empty" };
            out.push(Complaint::new(reason, format!("give one, such as {example}")).at(section.place()));
            None
        }
    }
}

/// The most that RED drops: Floyd's later advice, instead of the 2 % of the paper, with which its queues overflow.
fn red_probability() -> Probability {
    Probability::new(0.1).expect("0.1 is a chance")
}

/// The weight of the paper (Floyd and Jacobson 1993, §5).
const RED_WEIGHT: f64 = 0.002;

/// RFC 8289 §4.2 and §4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// Largest file that is read. A trace of a day at 10 Mbit/s has 72 million lines, and nobody records one.
const MAX_FILE: u64 = 64 << 20;

/// A trace of delivery opportunities, in the format of Mahimahi.
pub(super) fn trace_in(
    path: &Spanned<PathBuf>,
    directory: &Path,
    out: &mut Vec<Complaint>,
) -> Option<Arc<Trace>> {
    let text = text_of(path, directory, out)?;
    let trace = Trace::parse(&text).map_err(|error| {
        let reason = format!("{} is no trace: {error}", path.get_ref().display());
        let remedy =
            "it takes a line for each packet that can leave: milliseconds from the start, not decreasing";
        out.push(Complaint::new(reason, remedy).at(path.span()));
    });
    trace.ok().map(Arc::new)
}

/// Delays, a line each.
pub(super) fn delays_in(
    path: &Spanned<PathBuf>,
    directory: &Path,
    out: &mut Vec<Complaint>,
) -> Option<Arc<[Duration]>> {
    let text = text_of(path, directory, out)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let shown = path.get_ref().display();
    let mut delays = Vec::new();
    for (index, line) in lines {
        let Some(delay) = delay(line.trim()) else {
            let reason = format!("line {} of {shown} is not a delay: {line:?}", index + 1);
            out.push(Complaint::new(reason, DELAYS_REMEDY).at(path.span()));
            return None;
        };
        delays.push(delay);
    }
    if delays.is_empty() {
        out.push(Complaint::new(format!("{shown} has no delays in it"), DELAYS_REMEDY).at(path.span()));
        return None;
    }
    Some(delays.into())
}

const DELAYS_REMEDY: &str =
    "write a delay in each line, in milliseconds or with a unit, such as 1.25 or 800us";

fn delay(line: &str) -> Option<Duration> {
    let with_unit =
        if line.ends_with(|c: char| c.is_ascii_digit()) { format!("{line}ms") } else { line.to_owned() };
    TIME.read(&with_unit).ok()
}

/// The text of a file. Relative paths start at the scenario's directory.
fn text_of(path: &Spanned<PathBuf>, directory: &Path, out: &mut Vec<Complaint>) -> Option<String> {
    let shown = path.get_ref().display();
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::InvalidData {
            let remedy = "check the path: it should have a number in each line";
            return Complaint::new(format!("{shown} is not a text"), remedy);
        }
        Complaint::new(format!("cannot read {shown}: {}", describe(&error)), remedy_for(&error))
    };
    let text = bounded(&directory.join(path.get_ref()))
        .map_err(|error| out.push(failed(error).at(path.span())))
        .ok()?;
    if text.len() as u64 > MAX_FILE {
        let reason = format!("{shown} is larger than {} MiB", MAX_FILE >> 20);
        out.push(Complaint::new(reason, "check the path, or shorten the file").at(path.span()));
        return None;
    }
    Some(text)
}

/// At most one byte more than is allowed, so that the caller can tell.
fn bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    Ok(text)
}
