//! `[[peer.path]]`

use std::ops::Range;

use psmc_toml::{Complaint, Section};
use toml::Spanned;
use toml::de::DeTable;

use crate::config::value::{
    BindAddress, Congestion, Encapsulation, Endpoint, InterfaceName, LinkMtu, Name, Rate, Weight,
};

const KEYS: &[&str] = &[
    "name",
    "interface",
    "address",
    "endpoint",
    "relays",
    "encapsulation",
    "weight",
    "max_rate",
    "mtu",
    "congestion",
];

pub(in crate::config) struct PathDraft {
    pub(in crate::config) place: Range<usize>,
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) interface: Option<InterfaceName>,
    pub(in crate::config) address: Option<Spanned<BindAddress>>,
    pub(in crate::config) endpoint: Option<Spanned<Endpoint>>,
    /// Whether the file gives an endpoint, right or wrong.
    pub(in crate::config) has_endpoint: bool,
    pub(in crate::config) relays: Option<Spanned<Vec<Spanned<Name>>>>,
    pub(in crate::config) encapsulation: Option<Spanned<Encapsulation>>,
    pub(in crate::config) weight: Weight,
    pub(in crate::config) max_rate: Option<Rate>,
    /// Whether the file gives a greatest rate, right or wrong.
    pub(in crate::config) has_max_rate: bool,
    pub(in crate::config) congestion: Option<Spanned<Congestion>>,
    pub(in crate::config) mtu: Option<Spanned<LinkMtu>>,
    /// Whether nothing that tells it from other paths is left out because it is wrong.
    pub(in crate::config) is_comparable: bool,
}

impl PathDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[peer.path]]", place, table, KEYS, out);
        let interface = section.optional("interface", out).map(Spanned::into_inner);
        let address = section.optional("address", out);
        Self {
            place: section.place(),
            name: section.required("name", "what you call this way to the peer", out),
            is_comparable: section.has("interface") == interface.is_some()
                && section.has("address") == address.is_some(),
            interface,
            address,
            endpoint: section.optional("endpoint", out),
            has_endpoint: section.has("endpoint"),
            relays: section.list("relays", out),
            encapsulation: section.optional("encapsulation", out),
            weight: section.optional("weight", out).map(Spanned::into_inner).unwrap_or_default(),
            max_rate: section.optional("max_rate", out).map(Spanned::into_inner),
            has_max_rate: section.has("max_rate"),
            congestion: section.optional("congestion", out),
            mtu: section.optional("mtu", out),
        }
    }
}
