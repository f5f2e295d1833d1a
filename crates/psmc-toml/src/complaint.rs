//! What is wrong with a file, and how it is shown; and what is said of text that is not TOML.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use toml::de::Error;

use crate::{Dialect, Source, ValueError};

/// One thing that is wrong: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    reason: String,
    remedy: String,
    place: Option<Mark>,
    related: Option<Mark>,
    is_about_secret: bool,
}

/// A stretch of the file, in bytes, and what is to be said beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    span: Range<usize>,
    label: Option<String>,
}

impl Complaint {
    /// A complaint about the file as a whole.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
            place: None,
            related: None,
            is_about_secret: false,
        }
    }

    /// A complaint about a value at `span`.
    pub fn of_value(error: &ValueError, span: Range<usize>) -> Self {
        let complaint = Self::new(error.reason(), error.remedy()).at(span);
        if error.is_about_secret() { complaint.about_secret() } else { complaint }
    }

    /// Points at the place that has to change.
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.place = Some(Mark { span, label: None });
        self
    }

    /// Points at another place that makes this one wrong.
    pub fn because_of(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.related = Some(Mark { span, label: Some(label.into()) });
        self
    }

    /// What is at its place may be a secret, and is not to be shown.
    #[must_use]
    pub fn about_secret(self) -> Self {
        Self { is_about_secret: true, ..self }
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// Where in the file, in bytes; `None` where the file as a whole is meant.
    pub fn span(&self) -> Option<Range<usize>> {
        self.place.as_ref().map(|mark| mark.span.clone())
    }

    fn report<'a>(&'a self, source: &'a Source) -> Group<'a> {
        let title = Level::ERROR.primary_title(self.reason.as_str());
        let help = Level::HELP.message(self.remedy.as_str());
        let Some(place) = &self.place else {
            return title.element(help);
        };
        let (path, part) = source.part(place.span.start);
        let mut snippet = snippet(source, path, &part).annotation(place.annotation(true, part.start));
        let Some(related) = &self.related else {
            return title.element(snippet).element(help);
        };
        let (other_path, other) = source.part(related.span.start);
        if other == part {
            snippet = snippet.annotation(related.annotation(false, part.start));
            return title.element(snippet).element(help);
        }
        let elsewhere = self::snippet(source, other_path, &other);
        title
            .element(snippet)
            .element(elsewhere.annotation(related.annotation(false, other.start)))
            .element(help)
    }
}

impl Mark {
    /// The mark in a text that begins at `start`.
    fn annotation(&self, primary: bool, start: usize) -> annotate_snippets::Annotation<'_> {
        let kind = if primary { AnnotationKind::Primary } else { AnnotationKind::Context };
        kind.span(self.span.start - start..self.span.end - start).label(self.label.as_deref())
    }
}

/// A part of the source, as it may be shown.
fn snippet<'a>(
    source: &'a Source,
    path: &'a str,
    part: &Range<usize>,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    Snippet::source(&source.shown()[part.clone()]).path(path)
}

/// A file that cannot be used, with everything that is wrong with it.
///
/// `Display` shows it in plain text, [`ConfigError::render`] in colour too.
#[derive(Clone, Debug)]
pub struct ConfigError {
    // Boxed to keep the results of everything that can fail so small.
    source: Box<Source>,
    complaints: Vec<Complaint>,
}

impl ConfigError {
    /// The complaints must not be empty.
    pub fn new(mut source: Source, mut complaints: Vec<Complaint>) -> Self {
        debug_assert!(!complaints.is_empty(), "an error without a complaint helps nobody");
        let secrets = complaints.iter().filter(|complaint| complaint.is_about_secret);
        secrets.filter_map(Complaint::span).for_each(|secret| source.blot(secret));
        complaints.sort_by_key(|complaint| complaint.span().map(|span| span.start));
        Self { source: Box::new(source), complaints }
    }

    /// All complaints, in the order of the file.
    pub fn complaints(&self) -> &[Complaint] {
        &self.complaints
    }

    /// The complaints as a compiler would show them: the offending lines, the reason and the remedy, and their number in
    /// the last line. `styled` adds colours for a terminal.
    pub fn render(&self, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for complaint in self.complaints.iter().take(MAX_SHOWN) {
            text.push_str(&renderer.render(&[complaint.report(&self.source)]));
            text.push_str("\n\n");
        }
        text.push_str(&self.verdict());
        text
    }

    fn verdict(&self) -> String {
        let path = self.source.path();
        match self.complaints.len() {
            1 => format!("{path} cannot be used: 1 complaint\n"),
            all @ 2..=MAX_SHOWN => format!("{path} cannot be used: {all} complaints\n"),
            all => format!("{path} cannot be used: {all} complaints, of which {MAX_SHOWN} are shown\n"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for ConfigError {}

/// Complaints about text that is not TOML, one for each faulty line: what follows the first fault in a line is mostly its
/// consequence. Nothing after an open list is complained about: to the parser all of it is still in the list.
pub(crate) fn of_syntax(source: &Source, errors: &[Error]) -> Vec<Complaint> {
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

/// How many complaints are shown at once. Whoever has more corrects these first.
const MAX_SHOWN: usize = 50;
