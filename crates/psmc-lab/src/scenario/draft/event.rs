//! `[[event]]`

use std::ops::Range;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{Complaint, Section, Source, draft, keys, kind_of};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::LinkSettings;
use super::traffic::Destination;
use crate::scenario::value::{Direction, HOST_ADDRESS, REFERENCE, STREAM_RATE, TIME, UDP_PAYLOAD};

/// The actions, of which an event has one. Each is a key of its own.
const ACTIONS: [&str; 8] = ["cut", "black_hole", "restore", "change", "kill", "restart", "roam", "flood"];

/// The keys of an event that changes a link.
const CHANGE_KEYS: &[&str] = keys![&["at", "change", "direction"], LinkSettings::KEYS];

draft! {
    pub(in crate::scenario) struct EventDraft(section, out, source: &Source) {
        at: Option<Spanned<Duration>> = required_at(TIME, "the time since the start of the scenario"),
        [..keys![&["direction"], &ACTIONS]] action: Option<ActionDraft> =
            { only_action(section, out).and_then(|name| action(name, section, source, out)) },
        [] place: Range<usize> = { section.place() },
    }
}

pub(in crate::scenario) enum ActionDraft {
    Cut(Spanned<String>),
    /// In one direction or in both.
    BlackHole(Spanned<String>, Option<Direction>),
    Restore(Spanned<String>),
    Change(Spanned<String>, Option<Direction>, Box<LinkSettings>),
    Kill(Spanned<String>),
    Restart(Spanned<String>),
    Roam {
        host: Spanned<String>,
        link: Spanned<String>,
        addresses: Vec<Spanned<IpNet>>,
    },
    Flood(FloodDraft),
}

pub(in crate::scenario) struct FloodDraft {
    pub(in crate::scenario) from: Spanned<String>,
    pub(in crate::scenario) to: Spanned<String>,
    pub(in crate::scenario) destination: Destination,
    pub(in crate::scenario) rate: u64,
    pub(in crate::scenario) payload: usize,
    /// Until the end of the scenario if `None`.
    pub(in crate::scenario) duration: Option<Spanned<Duration>>,
}

/// What complaints call a section, and the keys that it can have, by its action.
pub(super) fn form(table: &DeTable<'_>) -> (&'static str, &'static [&'static str]) {
    if table.contains_key("change") {
        ("[[event]] that changes a link", CHANGE_KEYS)
    } else {
        ("[[event]]", EventDraft::KEYS)
    }
}

/// Settings of links without a link.
pub(super) fn hint(key: &str) -> Option<String> {
    LinkSettings::KEYS
        .contains(&key)
        .then(|| format!(r#"to change a link, add change = "dsl" beside `{key}`"#))
}

fn only_action(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<&'static str> {
    let given: Vec<_> = ACTIONS.into_iter().filter(|action| section.has(action)).collect();
    match given.as_slice() {
        [action] => return Some(action),
        [] => {
            let remedy = r#"add what happens, such as cut = "dsl"; the others are black_hole, restore, change, kill, restart, roam, flood"#;
            out.push(Complaint::new("the event does nothing", remedy).at(section.place()));
        }
        [first, second, ..] => {
            let reason = format!("an event has one action; this one has `{first}` and `{second}`");
            let complaint =
                Complaint::new(reason, "write an [[event]] for each; they may have the same time");
            out.push(complaint.at(section.key_place(second).unwrap_or_else(|| section.place())));
        }
    }
    None
}

fn action(
    action: &str,
    section: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<ActionDraft> {
    let direction = direction(action, section, out);
    match action {
        "roam" => roam(section, out),
        "flood" => flood(section, out),
        _ => {
            let settings = (action == "change").then(|| LinkSettings::read(section, source, out));
            let target = section.optional_at(action, REFERENCE, out)?;
            Some(match (action, settings) {
                ("cut", _) => ActionDraft::Cut(target),
                ("black_hole", _) => ActionDraft::BlackHole(target, direction),
                ("restore", _) => ActionDraft::Restore(target),
                ("kill", _) => ActionDraft::Kill(target),
                ("restart", _) => ActionDraft::Restart(target),
                (_, settings) => {
                    ActionDraft::Change(target, direction, Box::new(settings.unwrap_or_default()))
                }
            })
        }
    }
}

fn direction(action: &str, section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Direction> {
    let direction = section.optional_at("direction", Direction::KIND, out)?;
    if !matches!(action, "black_hole" | "change") {
        let reason = format!("`{action}` has no direction");
        let remedy = "remove it; `black_hole` and `change` can be of one direction of a link";
        out.push(Complaint::new(reason, remedy).at(direction.span()));
    }
    Some(direction.into_inner())
}

fn roam(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<ActionDraft> {
    const KEYS: &[&str] = &["host", "link", "addresses"];
    const EXAMPLE: &str = r#"{ host = "van", link = "lte", addresses = ["10.2.0.9/24"] }"#;
    let section = in_braces("roam", EXAMPLE, KEYS, section, out)?;
    let host = section.required_at("host", REFERENCE, "the host that moves", out);
    let link = section.required_at("link", REFERENCE, "the link on which its addresses change", out);
    if !section.has("addresses") {
        out.push(section.missing("addresses", r#"add addresses = ["10.2.0.9/24"], the new ones"#));
    }
    if section.empty_list("addresses").is_some() {
        let complaint = Complaint::new("the host would have no address", r#"put one in: ["10.2.0.9/24"]"#);
        out.push(complaint.at(section.key_place("addresses").unwrap_or_else(|| section.place())));
    }
    let addresses = section.list_at("addresses", HOST_ADDRESS, out).map(Spanned::into_inner);
    Some(ActionDraft::Roam { host: host?, link: link?, addresses: addresses? })
}

fn flood(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<ActionDraft> {
    const KEYS: &[&str] = &["from", "to", "via", "address", "rate", "payload", "duration"];
    const EXAMPLE: &str = r#"{ from = "van", to = "hq", rate = "20mbit" }"#;
    let section = in_braces("flood", EXAMPLE, KEYS, section, out)?;
    let from = section.required_at("from", REFERENCE, "the host that sends", out);
    let to = section.required_at("to", REFERENCE, "the host that is flooded", out);
    let destination = Destination::read(&section, out);
    let rate = section.required("rate", STREAM_RATE, "of its payload", out);
    let payload = section.optional("payload", UDP_PAYLOAD, out);
    Some(ActionDraft::Flood(FloodDraft {
        duration: section.optional_at("duration", TIME, out),
        from: from?,
        to: to?,
        destination: destination?,
        rate: rate?,
        payload: payload.unwrap_or(1200),
    }))
}

/// What stands in the braces after an action that needs more than a name.
fn in_braces<'a>(
    action: &'static str,
    example: &str,
    keys: &'static [&'static str],
    section: &Section<'a>,
    out: &mut Vec<Complaint>,
) -> Option<Section<'a>> {
    let value: &Spanned<DeValue<'_>> = section.value(action)?;
    let DeValue::Table(table) = value.get_ref() else {
        let reason = format!("`{action}` takes a table in braces, not {}", kind_of(value.get_ref()));
        out.push(Complaint::new(reason, format!("write it like {action} = {example}")).at(value.span()));
        return None;
    };
    let title = if action == "roam" { "`roam`" } else { "`flood`" };
    Some(Section::open(title, value.span(), table, keys, out))
}

impl FloodDraft {
    /// How long it lasts, if it begins at `at` in a scenario of this duration.
    pub(in crate::scenario) fn duration(&self, at: Duration, of_scenario: Duration) -> Duration {
        self.duration.as_ref().map_or_else(|| of_scenario.saturating_sub(at), |duration| *duration.get_ref())
    }
}
