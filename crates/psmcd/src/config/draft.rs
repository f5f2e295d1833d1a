//! What the file says, value by value, before the values are compared with each other.
//!
//! A draft holds what could be read: `None` stands for what is absent and for what was complained about.

mod class;
mod path;
mod peer;
mod relay;
mod site;
mod treatment;

use psmc_toml::{Complaint, FilePath, Section, Source};
use toml::de::{DeTable, DeValue};

pub(super) use class::ClassDraft;
pub(super) use path::PathDraft;
pub(super) use peer::PeerDraft;
pub(super) use relay::RelayDraft;
pub(super) use site::SiteDraft;
pub(super) use treatment::TreatmentDraft;

const SECTIONS: &[&str] = &["site", "peer", "relay", "class", "include"];

/// A whole file.
pub(super) struct Draft {
    pub(super) site: Option<SiteDraft>,
    pub(super) peers: Vec<PeerDraft>,
    pub(super) relays: Vec<RelayDraft>,
    pub(super) classes: Vec<ClassDraft>,
}

impl Draft {
    /// Reads a file, and complains about every value that is wrong by itself.
    pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Self {
        let file = Section::open_with_hints("the top of a file", 0..0, root, SECTIONS, hint, out);
        let site = site(root, &file, source, out);
        let peers = file.tables("peer", "[[peer]]", out);
        let relays = file.tables("relay", "[[relay]]", out);
        let classes = file.tables("class", "[[class]]", out);
        // Those of a gateway may be added while it runs.
        let is_gateway = site.as_ref().is_some_and(|site| site.register.is_some() || site.has_listen);
        let includes = include(root, out);
        if !file.has("peer") && !is_gateway && !includes {
            out.push(no_peer());
        }
        Self {
            site,
            peers: peers.into_iter().map(|(place, table)| PeerDraft::read(place, table, out)).collect(),
            relays: relays.into_iter().map(|(place, table)| RelayDraft::read(place, table, out)).collect(),
            classes: classes.into_iter().map(|(place, table)| ClassDraft::read(place, table, out)).collect(),
        }
    }
}

/// Whether the file includes others.
fn include(root: &DeTable<'_>, out: &mut Vec<Complaint>) -> bool {
    let Some((key, value)) = root.get_key_value("include") else { return false };
    if let DeValue::Table(table) = value.get_ref() {
        let section = Section::open("[include]", value.span(), table, &["folder"], out);
        section.required::<FilePath>("folder", "where further files are", out);
    } else {
        out.push(
            Complaint::new("a file includes one folder", "write [include], with single brackets")
                .at(key.span()),
        );
    }
    true
}

/// Where a key belongs that stands above all sections.
fn hint(key: &str) -> Option<String> {
    match key {
        "path" => Some("a path belongs to a peer: write [[peer.path]] below its [[peer]]".to_owned()),
        _ if site::KEYS.contains(&key) => Some(format!("put `{key}` below the line [site]")),
        _ => None,
    }
}

fn no_peer() -> Complaint {
    Complaint::new(
        "the file has no [[peer]], and a site without a peer can do nothing",
        r#"add [[peer]] with name = "hq", public_key = "…" (what `psmc pubkey` prints there) and endpoint = "203.0.113.5:5115""#,
    )
}

fn site(
    root: &DeTable<'_>,
    file: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<SiteDraft> {
    let Some((key, value)) = root.get_key_value("site") else {
        if file.has("site") {
            return None;
        }
        let remedy = r#"add [site] with name = "van", private_key_file = "/etc/psmc/van.key" and addresses = ["10.77.0.2/24"]"#;
        out.push(Complaint::new("the file has no [site], which says who this machine is", remedy));
        return None;
    };
    let DeValue::Table(table) = value.get_ref() else {
        out.push(
            Complaint::new("a file describes one site", "write [site], with single brackets").at(key.span()),
        );
        return None;
    };
    Some(SiteDraft::read(value.span(), table, source, out))
}
