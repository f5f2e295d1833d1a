//! `[[link]]`

use std::ops::Range;
use std::path::PathBuf;

use ipnet::IpNet;
use psmc_toml::{Complaint, NAME, Name, Section, Source};
use toml::Spanned;
use toml::de::DeTable;

use super::read::{joined, pair, pair_of_lists};
use super::settings::{self, LinkSettings};
use crate::scenario::value::{FILE, HOST_ADDRESS, LINK_NAME};

const OWN_KEYS: [&str; 6] = ["name", "between", "addresses", "capture", "forward", "back"];

const KEYS: &[&str] = &joined::<{ OWN_KEYS.len() + settings::KEYS.len() }>(&OWN_KEYS, settings::KEYS);

pub(in crate::scenario) struct LinkDraft {
    pub(in crate::scenario) place: Range<usize>,
    pub(in crate::scenario) name: Option<Spanned<Name>>,
    pub(in crate::scenario) between: Option<[Spanned<Name>; 2]>,
    pub(in crate::scenario) addresses: Option<[Vec<Spanned<IpNet>>; 2]>,
    /// Whether the file gives addresses, right or wrong.
    pub(in crate::scenario) has_addresses: bool,
    pub(in crate::scenario) capture: Option<Spanned<PathBuf>>,
    /// For both directions, and what is different for one of them.
    pub(in crate::scenario) settings: LinkSettings,
    pub(in crate::scenario) directions: [Option<LinkSettings>; 2],
}

impl LinkDraft {
    pub(super) fn read(
        place: Range<usize>,
        table: &DeTable<'_>,
        source: &Source,
        out: &mut Vec<Complaint>,
    ) -> Self {
        let section = Section::open_with_hints("[[link]]", place, table, KEYS, hint, out);
        Self {
            place: section.place(),
            name: section.required_at(
                "name",
                LINK_NAME,
                "what you call it; its interfaces get this name",
                out,
            ),
            between: between(&section, "the hosts at its ends", out),
            addresses: addresses(&section, out),
            has_addresses: section.has("addresses"),
            capture: section.optional_at("capture", FILE, out),
            settings: LinkSettings::of(&section, source, out),
            directions: ["forward", "back"].map(|key| direction(&section, key, source, out)),
        }
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
    let section = Section::open_with_hints(title, place, table, settings::KEYS, hint, out);
    Some(LinkSettings::of(&section, source, out))
}

/// Keys that people look for in a wrong place.
fn hint(key: &str) -> Option<String> {
    match key {
        "ecn" => Some(r#"it belongs to the discipline: discipline = { codel = { ecn = true } }"#.to_owned()),
        "bandwidth" => Some("did you mean `rate`?".to_owned()),
        "latency" => Some("did you mean `delay`?".to_owned()),
        "limit" => Some("did you mean `queue`?".to_owned()),
        _ => None,
    }
}
