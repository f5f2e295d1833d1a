//! `[[host]]`

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use psmc_toml::{Complaint, NAME, Name, Section};
use toml::Spanned;
use toml::de::DeTable;

use super::read::tables_in_list;
use crate::scenario::model::NatKind;
use crate::scenario::value::{IP, PREFIX, REFERENCE};

const KEYS: &[&str] = &["name", "nat", "routes"];

pub(in crate::scenario) struct HostDraft {
    pub(in crate::scenario) place: Range<usize>,
    pub(in crate::scenario) name: Option<Spanned<Name>>,
    pub(in crate::scenario) nat: Option<NatDraft>,
    pub(in crate::scenario) routes: Vec<RouteDraft>,
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

impl HostDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[host]]", place, table, KEYS, out);
        Self {
            place: section.place(),
            name: section.required_at("name", NAME, "as the links call it", out),
            nat: section
                .section("nat", "`nat`", &["kind", "outside"], out)
                .and_then(|section| NatDraft::read(&section, out)),
            routes: routes(&section, out),
        }
    }
}

impl NatDraft {
    fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Self> {
        let kind = section.required("kind", NatKind::KIND, "or \"endpoint-independent\"", out);
        let outside = section.required_at("outside", REFERENCE, "the link towards the outside", out);
        Some(Self { kind: kind?, outside: outside? })
    }
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
