//! Complaints about text that is not TOML.

use std::ops::Range;

use toml::de::Error;

use crate::{Complaint, Dialect, Source};

/// One complaint for each faulty line: what follows the first fault in a line is mostly its consequence.
/// Nothing after an open list is complained about: to the parser all of it is still in the list.
pub(crate) fn complaints(source: &Source, errors: &[Error]) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut last_line = None;
    let mut errors: Vec<(Range<usize>, &Error)> = errors.iter().map(|e| (span_of(source, e), e)).collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, error) in errors {
        let line = Some(line_number(source.text(), span.start));
        if line == last_line {
            continue;
        }
        last_line = line;
        found.push(complaint(source, error, span));
        if OPEN_LIST.contains(&what_is_wrong(error)) {
            break;
        }
    }
    found
}

/// What the parser says about a list that does not end.
const OPEN_LIST: [&str; 3] =
    ["unclosed array", "missing comma between array elements", "unexpected `=` in array"];

fn complaint(source: &Source, error: &Error, span: Range<usize>) -> Complaint {
    let line = line_at(source.shown(), span.start);
    let (reason, remedy) = explain(what_is_wrong(error), line, source.dialect());
    Complaint::new(reason, remedy).at(span)
}

/// The parser's message without what it would rather have seen, which only its authors understand.
fn what_is_wrong(error: &Error) -> &str {
    error.message().split(", expected").next().unwrap_or_default()
}

/// Where the parser stopped.
fn span_of(source: &Source, error: &Error) -> Range<usize> {
    let Some(span) = error.span() else { return 0..0 };
    if !span.is_empty() {
        return span;
    }
    // An empty span after the end of a line is about that line.
    let end = source.text()[..span.start].trim_end_matches(['\r', '\n']).len();
    end..end
}

/// The parser's message in words for someone who does not know TOML, and what to do.
fn explain(what: &str, line: &str, dialect: &Dialect) -> (String, String) {
    let Dialect { section, sections, setting, list, .. } = dialect;
    let (reason, remedy) = match what {
        _ if line.contains(['“', '”', '‘', '’', '„']) => {
            ("these are not the quotes of a keyboard", r#"use plain ones: ""#.to_owned())
        }
        "duplicate key" => ("duplicate key or section", "keep one of the two".to_owned()),
        "unclosed table" => {
            ("the bracket of this section is not closed", format!("close it, as in {section}"))
        }
        "unclosed array table" => {
            ("the brackets of this section are not closed", format!("close both, as in {sections}"))
        }
        _ if OPEN_LIST.contains(&what) => (
            "this list is not closed",
            format!("end it with ], and put commas between its values, as in {list}"),
        ),
        "invalid basic string" | "invalid literal string" => {
            ("this text is not closed", "end it with the quote it began with".to_owned())
        }
        "key with no value" | "invalid unquoted key" => {
            ("this is no setting", format!("write a key, an equals sign and a value, as in {setting}"))
        }
        "unexpected leading zero" => ("a number cannot begin with 0", "leave the zeros out".to_owned()),
        "missing escaped value" => (r"a \ in a text starts an escape", r"write \\ for a plain \".to_owned()),
        _ => return unknown(what, line, setting),
    };
    (reason.to_owned(), remedy)
}

/// Values without quotes are the commonest mistake; the parser has many words for them.
fn unknown(what: &str, line: &str, setting: &str) -> (String, String) {
    match line.split_once('=') {
        Some((key, value)) if !value.trim().is_empty() && !value.contains(['"', '\'', '{']) => {
            let value = value.split('#').next().unwrap_or(value).trim();
            let reason = "this is neither a number nor a text in quotes".to_owned();
            (reason, format!("put texts in quotes: {} = {}", key.trim(), quoted(value)))
        }
        Some(_) | None => (
            format!("this is not TOML: {what}"),
            format!("write one setting in a line, as in {setting}, and comments after a #"),
        ),
    }
}

/// A value as it should have been written: in quotes, or each of a list in quotes. A secret is left to the reader.
fn quoted(value: &str) -> String {
    if value.starts_with('*') {
        return r#""…""#.to_owned();
    }
    match value.strip_prefix('[') {
        Some(list) => {
            let values = list.trim_end_matches(']').split(',').map(|value| format!("\"{}\"", value.trim()));
            format!("[{}]", values.collect::<Vec<_>>().join(", "))
        }
        None => format!("\"{value}\""),
    }
}

fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count()
}

fn line_at(text: &str, at: usize) -> &str {
    text.lines().nth(line_number(text, at)).unwrap_or("")
}
