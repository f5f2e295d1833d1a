//! `[[host]]` and `[[link]]`

use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{Complaint, NAME, Name, SWITCH, Section, Source, draft};
use toml::Spanned;
use toml::de::DeTable;

use super::settings::LinkSettings;
use super::{pair, pair_of_lists, tables_in_list};
use crate::device::DeviceProfile;
use crate::scenario::model::NatKind;
use crate::scenario::value::{ARGUMENT, FILE, HOST_ADDRESS, IP, LINK_NAME, PREFIX, REFERENCE, TIME};

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

draft! {
    pub(in crate::scenario) struct RouterDraft(section, out, source: &Source) {
        host: Option<Spanned<String>> = required_at(REFERENCE, "the host whose links lead to its ports"),
        profile: Option<Spanned<DeviceProfile>> = { profile(section, source, out) },
        [] place: Range<usize> = { section.place() },
    }
}

/// The profile of a router, in a file of its own. Relative paths start at the scenario's directory.
fn profile(
    section: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<Spanned<DeviceProfile>> {
    let path = section.required_at("profile", FILE, "a file that `psmc-lab profile` has made", out)?;
    match DeviceProfile::load(&source.directory().join(path.get_ref())) {
        Ok(profile) => Some(Spanned::new(path.span(), profile)),
        Err(error) => {
            let first = error.complaints().first();
            let reason = first.map_or_else(String::new, |first| first.reason().to_owned());
            let more = match error.complaints().len().saturating_sub(1) {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let remedy = format!("`psmc-lab check {}` shows where", path.get_ref().display());
            let shown = path.get_ref().display();
            out.push(
                Complaint::new(format!("{shown} is no profile: {reason}{more}"), remedy).at(path.span()),
            );
            None
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

draft! {
    pub(in crate::scenario) struct LinkDraft(section, out, source: &Source) {
        name: Option<Spanned<Name>> =
            required_at(LINK_NAME, "what you call it; its interfaces get this name"),
        between: Option<[Spanned<Name>; 2]> = { between(section, "the hosts at its ends", out) },
        addresses: Option<[Vec<Spanned<IpNet>>; 2]> = { addresses(section, out) },
        capture: Option<Spanned<PathBuf>> = optional_at(FILE),
        /// What is different for one direction.
        ["forward", "back"] directions: [Option<LinkSettings>; 2] =
            { ["forward", "back"].map(|key| direction(section, key, source, out)) },
        /// For both directions.
        [..LinkSettings::KEYS] settings: LinkSettings = { LinkSettings::read(section, source, out) },
        /// Whether the file gives addresses, right or wrong.
        [] has_addresses: bool = { section.has("addresses") },
        [] place: Range<usize> = { section.place() },
    }
}

/// The two hosts that a link or a tunnel joins.
pub(super) fn between(
    section: &Section<'_>,
    remedy: &str,
    out: &mut Vec<Complaint>,
) -> Option<[Spanned<Name>; 2]> {
    const EXAMPLE: &str = r#"["van", "hq"]"#;
    if !section.has("between") {
        out.push(section.missing("between", &format!("add between = {EXAMPLE}, {remedy}")));
    }
    pair(section, "between", NAME, EXAMPLE, out)
}

fn addresses(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<[Vec<Spanned<IpNet>>; 2]> {
    const EXAMPLE: &str = r#"["10.1.0.1/24", "10.1.0.2/24"], the first host's and the second's"#;
    pair_of_lists(section, "addresses", HOST_ADDRESS, EXAMPLE, out)
}

fn direction(
    section: &Section<'_>,
    key: &'static str,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<LinkSettings> {
    let title = if key == "forward" { "[link.forward]" } else { "[link.back]" };
    let (place, table) = section.table(key, out)?;
    let section = Section::open_with_hints(title, place, table, LinkSettings::KEYS, hint, out);
    Some(LinkSettings::read(&section, source, out))
}

/// Keys that people look for in a wrong place.
pub(super) fn hint(key: &str) -> Option<String> {
    match key {
        "ecn" => Some(r#"it belongs to the discipline: discipline = { codel = { ecn = true } }"#.to_owned()),
        "bandwidth" => Some("did you mean `rate`?".to_owned()),
        "latency" => Some("did you mean `delay`?".to_owned()),
        "limit" => Some("did you mean `queue`?".to_owned()),
        _ => None,
    }
}
