//! `[[host]]` and `[[program]]`

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{Complaint, NAME, Name, SWITCH, Section, draft};
use toml::Spanned;
use toml::de::DeTable;

use super::read::tables_in_list;
use crate::scenario::model::NatKind;
use crate::scenario::value::{ARGUMENT, IP, PREFIX, REFERENCE, TIME};

draft! {
    pub(in crate::scenario) struct HostDraft(section, out) {
        name: Option<Spanned<Name>> = required_at(NAME, "as the links call it"),
        nat: Option<NatDraft> = { nat(section, out) },
        routes: Vec<RouteDraft> = { routes(section, out) },
        [] place: Range<usize> = { section.place() },
    }
}

/// `nat = { … }`, with both of its values right.
pub(in crate::scenario) struct NatDraft {
    pub(in crate::scenario) kind: NatKind,
    pub(in crate::scenario) outside: Spanned<String>,
}

/// One of `routes`, with both of its values right.
pub(in crate::scenario) struct RouteDraft {
    pub(in crate::scenario) to: Spanned<IpNet>,
    pub(in crate::scenario) via: Spanned<IpAddr>,
}

fn nat(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<NatDraft> {
    let section = section.section("nat", "`nat`", &["kind", "outside"], out)?;
    let kind = section.required("kind", NatKind::KIND, "or \"endpoint-independent\"", out);
    let outside = section.required_at("outside", REFERENCE, "the link towards the outside", out);
    Some(NatDraft { kind: kind?, outside: outside? })
}

fn routes(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<RouteDraft> {
    const EXAMPLE: &str = r#"[{ to = "0.0.0.0/0", via = "10.1.0.1" }]"#;
    let tables = tables_in_list(section, "routes", EXAMPLE, out);
    tables.into_iter().filter_map(|(place, table)| RouteDraft::read(place, table, out)).collect()
}

impl RouteDraft {
    fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let section = Section::open("a route", place, table, &["to", "via"], out);
        let to = section.required_at("to", PREFIX, "the network that it leads to", out);
        let via = section.required_at("via", IP, "the address of the next hop", out);
        Some(Self { to: to?, via: via? })
    }
}

draft! {
    pub(in crate::scenario) struct ProgramDraft(section, out) {
        name: Option<Spanned<Name>> = required_at(NAME, "what events and checks call it"),
        host: Option<Spanned<String>> = required_at(REFERENCE, "the host that it runs on"),
        command: Vec<String> = { command(section, out) },
        start: Option<Spanned<Duration>> = optional_at(TIME),
        stop: Option<Spanned<Duration>> = optional_at(TIME),
        output: bool = optional(SWITCH).unwrap_or(false),
        [] place: Range<usize> = { section.place() },
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
