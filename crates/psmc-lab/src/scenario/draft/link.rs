//! `[[link]]`

use std::ops::Range;
use std::path::PathBuf;

use ipnet::IpNet;
use psmc_toml::{Complaint, NAME, Name, Section, Source, draft};
use toml::Spanned;

use super::read::{pair, pair_of_lists};
use super::settings::LinkSettings;
use crate::scenario::value::{FILE, HOST_ADDRESS, LINK_NAME};

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
