//! `[[program]]`

use std::ops::Range;

use psmc_toml::{Complaint, Name, Section};
use toml::Spanned;
use toml::de::DeTable;

use crate::scenario::value::{Argument, Flag, Reference, Time};

const KEYS: &[&str] = &["name", "host", "command", "start", "stop", "output"];

pub(in crate::scenario) struct ProgramDraft {
    pub(in crate::scenario) place: Range<usize>,
    pub(in crate::scenario) name: Option<Spanned<Name>>,
    pub(in crate::scenario) host: Option<Spanned<Reference>>,
    pub(in crate::scenario) command: Vec<String>,
    pub(in crate::scenario) start: Option<Spanned<Time>>,
    pub(in crate::scenario) stop: Option<Spanned<Time>>,
    pub(in crate::scenario) output: bool,
}

impl ProgramDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[program]]", place, table, KEYS, out);
        Self {
            place: section.place(),
            name: section.required("name", "what events and checks call it", out),
            host: section.required("host", "the host that it runs on", out),
            command: command(&section, out),
            start: section.optional("start", out),
            stop: section.optional("stop", out),
            output: section.optional::<Flag>("output", out).is_some_and(|flag| flag.get_ref().0),
        }
    }
}

fn command(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<String> {
    const EXAMPLE: &str = r#"add command = ["iperf3", "-s"], the program and its arguments"#;
    if !section.has("command") {
        out.push(section.missing("command", EXAMPLE));
    }
    let Some(words) = section.list::<Argument>("command", out) else {
        return Vec::new();
    };
    let named = words.get_ref().first().is_some_and(|program| !program.get_ref().0.is_empty());
    if section.is_empty_list("command") || (!named && !words.get_ref().is_empty()) {
        let remedy = r#"put in the program and its arguments: ["iperf3", "-s"]"#;
        out.push(Complaint::new("the command names no program", remedy).at(words.span()));
    }
    words.into_inner().into_iter().map(|word| word.into_inner().0).collect()
}
