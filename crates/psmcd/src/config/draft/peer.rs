//! `[[peer]]`

use std::ops::Range;

use psmc_net::keys::PublicKey;
use psmc_toml::{Complaint, PublicKeyText, Section};
use toml::Spanned;
use toml::de::DeTable;

use super::{PathDraft, TreatmentDraft};
use crate::config::value::{AllowedNet, Endpoint, Keepalive, Name, Rate, RoutePolicy};

const KEYS: &[&str] = &[
    "name",
    "public_key",
    "allowed_ips",
    "endpoint",
    "keepalive",
    "scheduler",
    "reorder",
    "repair",
    "reorder_timeout",
    "reorder_packets",
    "reorder_factor",
    "reorder_least",
    "reorder_most",
    "ordered_udp",
    "bad_path_rule",
    "udp_rate_limit",
    "spare_relays",
    "routes",
    "path",
];

pub(in crate::config) struct PeerDraft {
    pub(in crate::config) place: Range<usize>,
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) public_key: Option<Spanned<PublicKey>>,
    /// `None` only where the file does not say.
    pub(in crate::config) allowed_ips: Option<Vec<Spanned<AllowedNet>>>,
    pub(in crate::config) endpoint: Option<Spanned<Endpoint>>,
    /// Whether the file gives an endpoint, right or wrong.
    pub(in crate::config) has_endpoint: bool,
    pub(in crate::config) keepalive: Keepalive,
    pub(in crate::config) udp_rate_limit: Option<Rate>,
    pub(in crate::config) treatment: TreatmentDraft,
    pub(in crate::config) spare_relays: Option<Spanned<Vec<Spanned<Name>>>>,
    pub(in crate::config) routes: Option<RoutePolicy>,
    pub(in crate::config) paths: Vec<PathDraft>,
}

impl PeerDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[peer]]", place, table, KEYS, out);
        let paths = section.tables("path", "[[peer.path]]", out);
        Self {
            place: section.place(),
            name: section.required("name", "what you call the other site", out),
            public_key: section
                .required::<PublicKeyText>("public_key", "what `psmc pubkey` prints on the other site", out)
                .map(|key| Spanned::new(key.span(), key.into_inner().0)),
            allowed_ips: allowed_ips(&section, out),
            endpoint: section.optional("endpoint", out),
            has_endpoint: section.has("endpoint"),
            keepalive: section.optional("keepalive", out).map(Spanned::into_inner).unwrap_or_default(),
            udp_rate_limit: section.optional("udp_rate_limit", out).map(Spanned::into_inner),
            treatment: TreatmentDraft::read(&section, out),
            spare_relays: section.list("spare_relays", out),
            routes: section.optional("routes", out).map(Spanned::into_inner),
            paths: paths.into_iter().map(|(place, table)| PathDraft::read(place, table, out)).collect(),
        }
    }
}

fn allowed_ips(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Vec<Spanned<AllowedNet>>> {
    if !section.has("allowed_ips") {
        return None;
    }
    let Some(list) = section.list::<AllowedNet>("allowed_ips", out) else {
        return Some(Vec::new());
    };
    if section.is_empty_list("allowed_ips") {
        let remedy = r#"list the networks behind the peer, such as ["10.77.0.1/32"]; ["0.0.0.0/0", "::/0"] sends everything"#;
        out.push(Complaint::new("nothing would be sent to this peer", remedy).at(list.span()));
    }
    Some(list.into_inner())
}
