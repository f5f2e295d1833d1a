//! `[[program]]`

use std::ops::Range;
use std::time::Duration;

use psmc_toml::{Complaint, NAME, Name, SWITCH, Section};
use toml::Spanned;
use toml::de::DeTable;

use crate::scenario::value::{ARGUMENT, REFERENCE, TIME};

const KEYS: &[&str] = &["name", "host", "command", "start", "stop", "output"];

pub(in crate::scenario) struct ProgramDraft {
    pub(in crate::scenario) place: Range<usize>,
    pub(in crate::scenario) name: Option<Spanned<Name>>,
    pub(in crate::scenario) host: Option<Spanned<String>>,
    pub(in crate::scenario) command: Vec<String>,
    pub(in crate::scenario) start: Option<Spanned<Duration>>,
    pub(in crate::scenario) stop: Option<Spanned<Duration>>,
    pub(in crate::scenario) output: bool,
}

impl ProgramDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[program]]", place, table, KEYS, out);
        Self {
            place: section.place(),
            name: section.required_at("name", NAME, "what events and checks call it", out),
            host: section.required_at("host", REFERENCE, "the host that it runs on", out),
            command: command(&section, out),
            start: section.optional_at("start", TIME, out),
            stop: section.optional_at("stop", TIME, out),
            output: section.optional("output", SWITCH, out).unwrap_or(false),
        }
    }
}

fn command(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<String> {
    const EXAMPLE: &str = r#"add command = ["iperf3", "-s"], the program and its arguments"#;
    if !section.has("command") {
        out.push(section.missing("command", EXAMPLE));
    }
    let Some(words) = section.list_at("command", ARGUMENT, out) else {
        return Vec::new();
    };
    let named = words.get_ref().first().is_some_and(|program| !program.get_ref().is_empty());
    if section.empty_list("command").is_some() || (!named && !words.get_ref().is_empty()) {
        let remedy = r#"put in the program and its arguments: ["iperf3", "-s"]"#;
        out.push(Complaint::new("the command names no program", remedy).at(words.span()));
    }
    words.into_inner().into_iter().map(Spanned::into_inner).collect()
}
