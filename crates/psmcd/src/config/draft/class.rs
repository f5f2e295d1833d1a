//! `[[class]]`

use std::ops::Range;

use psmc_toml::{Complaint, Section, Setting};
use toml::Spanned;
use toml::de::DeTable;

use crate::config::value::{AllowedNet, ClassPriority, ClassWeight, Dscp, Name, PortRange, Protocol, Repair};

const KEYS: &[&str] = &["name", "dscp", "protocol", "ports", "from", "to", "priority", "weight", "repair"];

/// The keys that say which packets belong to a class.
const MATCHES: [&str; 5] = ["dscp", "protocol", "ports", "from", "to"];

pub(in crate::config) struct ClassDraft {
    pub(in crate::config) place: Range<usize>,
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) dscp: Vec<Dscp>,
    pub(in crate::config) protocols: Vec<Protocol>,
    pub(in crate::config) ports: Vec<PortRange>,
    pub(in crate::config) from: Vec<AllowedNet>,
    pub(in crate::config) to: Vec<AllowedNet>,
    pub(in crate::config) priority: Option<ClassPriority>,
    pub(in crate::config) weight: Option<ClassWeight>,
    pub(in crate::config) repair: Option<Repair>,
    /// Where the file says which packets belong to it, right or wrong.
    pub(in crate::config) matches: Option<Range<usize>>,
}

impl ClassDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[class]]", place, table, KEYS, out);
        Self {
            place: section.place(),
            name: section.required("name", "what you call these packets", out),
            dscp: list(&section, "dscp", out),
            protocols: list(&section, "protocol", out),
            ports: list(&section, "ports", out),
            from: list(&section, "from", out),
            to: list(&section, "to", out),
            priority: section.optional("priority", out).map(Spanned::into_inner),
            weight: section.optional("weight", out).map(Spanned::into_inner),
            repair: section.optional("repair", out).map(Spanned::into_inner),
            matches: MATCHES.iter().find_map(|key| section.key_place(key)),
        }
    }
}

/// The values of a list, which must not be empty if it is there: it would mean any, or none.
fn list<T: Setting>(section: &Section<'_>, key: &str, out: &mut Vec<Complaint>) -> Vec<T> {
    let Some(list) = section.list::<T>(key, out) else {
        return Vec::new();
    };
    if section.is_empty_list(key) {
        let remedy = format!("name some, such as {key} = [{}], or remove the key for any", T::EXAMPLE);
        out.push(Complaint::new(format!("`{key}` lists nothing"), remedy).at(list.span()));
    }
    list.into_inner().into_iter().map(Spanned::into_inner).collect()
}
