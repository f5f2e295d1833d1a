//! `discipline`

use std::time::Duration;

use psmc_sim::link::Probability;
use psmc_toml::{Complaint, SWITCH, Section, read as read_value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::scenario::value::{DisciplineName, PERCENT, SIZE, TIME, WEIGHT};

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
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    out: &mut Vec<Complaint>,
) -> Option<Spanned<DisciplineDraft>> {
    let draft = match value.get_ref().as_table() {
        Some(table) => with_settings(value, table, out)?,
        None => with_defaults(read_value("discipline", value, DisciplineName::KIND, out)?.into_inner()),
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
