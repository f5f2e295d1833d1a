//! `[[tunnel]]`

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use psmc_toml::{Complaint, NAME, Name, Section, draft};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::network::between;
use super::pair_of_lists;
use crate::scenario::value::{HOST_ADDRESS, IP, LINK_NAME, PREFIX, REFERENCE};

const PATH_KEYS: &[&str] = &[
    "name",
    "link",
    "endpoint",
    "weight",
    "tier",
    "direction",
    "quota",
    "transport",
    "max_rate",
    "congestion",
    "mtu",
];

/// Keys of a path that go to `psmcd` as they are.
const PATH_SETTINGS: &[&str] =
    &["weight", "tier", "direction", "quota", "transport", "max_rate", "congestion", "mtu"];

draft! {
    pub(in crate::scenario) struct TunnelDraft(section, out) {
        name: Option<Spanned<Name>> =
            required_at(LINK_NAME, "what you call it; its interfaces get this name"),
        between: Option<[Spanned<Name>; 2]> =
            { between(section, "the hosts at its ends; the first one dials", out) },
        addresses: Option<[Vec<Spanned<IpNet>>; 2]> =
            { pair_of_lists(section, "addresses", HOST_ADDRESS, r#"["10.77.0.2/24", "10.77.0.1/24"]"#, out) },
        networks: Option<[Vec<Spanned<IpNet>>; 2]> =
            { pair_of_lists(section, "networks", PREFIX, r#"[[], ["192.168.10.0/24"]]"#, out) },
        ["paths", "path"] paths: Vec<PathDraft> = { paths(section, out) },
        settings: Vec<SettingDraft> =
            { section.table("settings", out).map(|(_, table)| all(table, out)).unwrap_or_default() },
        /// Whether the file gives addresses, right or wrong.
        [] has_addresses: bool = { section.has("addresses") },
        /// Whether the file says by which paths it goes, right or wrong.
        [] has_paths: bool = { section.has("paths") || section.has("path") },
        [] place: Range<usize> = { section.place() },
    }
}

/// One of `paths`, or `[[tunnel.path]]`.
pub(in crate::scenario) struct PathDraft {
    pub(in crate::scenario) name: Option<Spanned<Name>>,
    pub(in crate::scenario) link: Spanned<String>,
    pub(in crate::scenario) endpoint: Option<Spanned<IpAddr>>,
    pub(in crate::scenario) settings: Vec<SettingDraft>,
}

/// A key and a value for `psmcd`, which will judge them.
pub(in crate::scenario) struct SettingDraft {
    pub(in crate::scenario) key: Spanned<String>,
    pub(in crate::scenario) value: Spanned<Value>,
}

/// `paths`, or `[[tunnel.path]]`, not both.
fn paths(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<PathDraft> {
    if let (Some(list), Some(sections)) = (section.key_place("paths"), section.key_place("path")) {
        let remedy = "put all paths into [[tunnel.path]], with a `link` each, and remove `paths`";
        let complaint = Complaint::new("the paths are given twice", remedy);
        out.push(complaint.at(list).because_of(sections, "and here"));
        return Vec::new();
    }
    if let Some(place) = section.empty_list("paths").and_then(|_| section.key_place("paths")) {
        let remedy =
            r#"name the links by which it goes, such as ["dsl", "lte"], or leave it out for every link"#;
        out.push(Complaint::new("a tunnel needs a path", remedy).at(place));
    }
    let links = section.list_at("paths", REFERENCE, out).map(Spanned::into_inner).unwrap_or_default();
    let plain = |link| PathDraft { name: None, link, endpoint: None, settings: Vec::new() };
    let sections = section.tables("path", "[[tunnel.path]]", out);
    let sections = sections.into_iter().filter_map(|(place, table)| PathDraft::read(place, table, out));
    links.into_iter().map(plain).chain(sections.collect::<Vec<_>>()).collect()
}

impl PathDraft {
    fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let section = Section::open("[[tunnel.path]]", place, table, PATH_KEYS, out);
        let name = section.optional_at("name", NAME, out);
        let link = section.required_at("link", REFERENCE, "the link by which it leaves the first host", out);
        let endpoint = section.optional_at("endpoint", IP, out);
        let passed = table.iter().filter(|(key, _)| PATH_SETTINGS.contains(&key.get_ref().as_ref()));
        let settings = passed.filter_map(|(key, value)| SettingDraft::read(key, value, out)).collect();
        Some(Self { name, link: link?, endpoint, settings })
    }
}

fn all(table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Vec<SettingDraft> {
    table.iter().filter_map(|(key, value)| SettingDraft::read(key, value, out)).collect()
}

impl SettingDraft {
    fn read(
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        out: &mut Vec<Complaint>,
    ) -> Option<Self> {
        let Some(plain) = plain(value.get_ref()) else {
            let reason = format!(
                "`{}` takes a number, a text in quotes, or a list or table of those",
                key.get_ref().as_ref()
            );
            out.push(Complaint::new(reason, "write it as in the configuration of psmcd").at(value.span()));
            return None;
        };
        Some(Self {
            key: Spanned::new(key.span(), key.get_ref().as_ref().to_owned()),
            value: Spanned::new(value.span(), plain),
        })
    }
}

/// A value, or a list or table of values; `psmcd` has no settings of another form that the lab leaves to its user.
fn plain(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Integer(number) => number.to_string().parse().ok().map(Value::Integer),
        DeValue::Float(number) => number.to_string().parse().ok().map(Value::Float),
        DeValue::Boolean(flag) => Some(Value::Boolean(*flag)),
        DeValue::Table(table) => {
            let values =
                table.iter().map(|(key, value)| Some((key.get_ref().to_string(), plain(value.get_ref())?)));
            values.collect::<Option<_>>().map(Value::Table)
        }
        DeValue::Array(values) => {
            values.iter().map(|value| plain(value.get_ref())).collect::<Option<_>>().map(Value::Array)
        }
        DeValue::Datetime(_) => None,
    }
}
