//! What a direction of a link is like: the same keys in `[[link]]`, in `[link.forward]` and in an event that changes one.

use std::path::Path;
use std::time::Duration;

use psmc_sim::link::{Jitter, Loss, Probability, QueueLimit, Rate};
use psmc_toml::{Complaint, SWITCH, Section, Source, draft, kind_of, read};
use toml::Spanned;
use toml::de::DeValue;

use super::discipline;
use super::files;
use crate::scenario::value::{FILE, LINK_RATE, MTU, PERCENT, QUEUE, TIME};

pub(in crate::scenario) use super::discipline::{DisciplineDraft, RedDraft};

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
            { section.value("discipline").and_then(|value| discipline::read(value, out)) },
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
        (None, Some(path)) => files::trace(&path, source.directory(), out).map(Rate::Trace),
        (None, None) => None,
    }
}

/// A standard deviation, or one of the other kinds in a table.
fn jitter(value: &Spanned<DeValue<'_>>, source: &Source, out: &mut Vec<Complaint>) -> Option<Jitter> {
    let DeValue::Table(table) = value.get_ref() else {
        return time("jitter", value, out).map(Jitter::Normal);
    };
    let section = Section::open("`jitter`", value.span(), table, &["normal", "uniform", "file"], out);
    let (kind, value) = discipline::only_one(&section, table, r#"{ uniform = "5ms" }"#, out)?;
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
    files::delays(&path, directory, out).map(Jitter::Samples)
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
