//! `[[peer]]`, and its paths: `[[peer.path]]`.

use std::ops::Range;
use std::time::Duration;

use psmc_net::keys::PublicKey;
use psmc_toml::{Complaint, INTERFACE, InterfaceName, NAME, Name, PUBLIC_KEY, RATE, Rate, Section};
use toml::Spanned;

use super::TreatmentDraft;
use crate::config::model::{PathCongestion, PathSettings, Paths, Peer};
use crate::config::value::{
    ALLOWED_NET, AllowedNet, BIND_ADDRESS, BindAddress, Congestion, DEFAULT_KEEPALIVE, ENDPOINT,
    Encapsulation, Endpoint, KEEPALIVE, LINK_MTU, LinkMtu, RoutePolicy, WEIGHT, Weight,
};

pub(super) const KEYS: &[&str] = &[
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

const PATH_KEYS: &[&str] = &[
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

pub(in crate::config) struct PeerDraft {
    pub(in crate::config) place: Range<usize>,
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) public_key: Option<Spanned<PublicKey>>,
    /// `None` only where the file does not say.
    pub(in crate::config) allowed_ips: Option<Vec<Spanned<AllowedNet>>>,
    pub(in crate::config) endpoint: Option<Spanned<Endpoint>>,
    /// Whether the file gives an endpoint, right or wrong.
    pub(in crate::config) has_endpoint: bool,
    keepalive: Duration,
    udp_rate_limit: Option<Rate>,
    pub(in crate::config) treatment: TreatmentDraft,
    pub(in crate::config) spare_relays: Option<Spanned<Vec<Spanned<Name>>>>,
    routes: Option<RoutePolicy>,
    pub(in crate::config) paths: Vec<PathDraft>,
}

impl PeerDraft {
    pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Self {
        let paths = section.sections("path", "[[peer.path]]", PATH_KEYS, out);
        let key_remedy = "what `psmc pubkey` prints on the other site";
        Self {
            place: section.place(),
            name: section.required_at("name", NAME, "what you call the other site", out),
            public_key: section.required_at("public_key", PUBLIC_KEY, key_remedy, out),
            allowed_ips: allowed_ips(section, out),
            endpoint: section.optional_at("endpoint", ENDPOINT, out),
            has_endpoint: section.has("endpoint"),
            keepalive: section.optional("keepalive", KEEPALIVE, out).unwrap_or(DEFAULT_KEEPALIVE),
            udp_rate_limit: section.optional("udp_rate_limit", RATE, out),
            treatment: TreatmentDraft::read(section, out),
            spare_relays: section.list_at("spare_relays", NAME, out),
            routes: section.optional("routes", RoutePolicy::KIND, out),
            paths: paths.iter().map(|section| PathDraft::read(section, out)).collect(),
        }
    }

    /// The peer, with its site's treatment and networks where it says nothing itself.
    pub(super) fn build(self, treatment: &TreatmentDraft, networks: &[AllowedNet]) -> Option<Peer> {
        let endpoint = self.endpoint.map(Spanned::into_inner);
        Some(Peer {
            name: self.name?.into_inner(),
            public_key: self.public_key?.into_inner(),
            allowed_ips: match self.allowed_ips {
                Some(networks) => networks.into_iter().map(Spanned::into_inner).collect(),
                None => networks.to_owned(),
            },
            keepalive: self.keepalive,
            udp_rate_limit: self.udp_rate_limit,
            treatment: self.treatment.or(treatment).build(),
            paths: if self.paths.is_empty() {
                Paths::EveryUplink
            } else {
                let paths = self.paths.into_iter().map(|path| path.build(endpoint.as_ref()));
                Paths::Listed(paths.collect::<Option<_>>()?)
            },
            spare_relays: names(self.spare_relays),
            routes: self.routes,
            endpoint,
        })
    }
}

fn allowed_ips(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Vec<Spanned<AllowedNet>>> {
    if !section.has("allowed_ips") {
        return None;
    }
    if let Some(place) = section.empty_list("allowed_ips") {
        let remedy = r#"list the networks behind the peer, such as ["10.77.0.1/32"]; ["0.0.0.0/0", "::/0"] sends everything"#;
        out.push(Complaint::new("nothing would be sent to this peer", remedy).at(place));
    }
    Some(section.list_at("allowed_ips", ALLOWED_NET, out).map(Spanned::into_inner).unwrap_or_default())
}

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
    weight: Weight,
    max_rate: Option<Rate>,
    /// Whether the file gives a greatest rate, right or wrong.
    pub(in crate::config) has_max_rate: bool,
    pub(in crate::config) congestion: Option<Spanned<Congestion>>,
    mtu: Option<LinkMtu>,
    /// Whether nothing that tells it from other paths is left out because it is wrong.
    pub(in crate::config) is_comparable: bool,
}

impl PathDraft {
    fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Self {
        let interface = section.optional("interface", INTERFACE, out);
        let address = section.optional_at("address", BIND_ADDRESS, out);
        Self {
            place: section.place(),
            name: section.required_at("name", NAME, "what you call this way to the peer", out),
            is_comparable: section.has("interface") == interface.is_some()
                && section.has("address") == address.is_some(),
            interface,
            address,
            endpoint: section.optional_at("endpoint", ENDPOINT, out),
            has_endpoint: section.has("endpoint"),
            relays: section.list_at("relays", NAME, out),
            encapsulation: section.optional_at("encapsulation", Encapsulation::KIND, out),
            weight: section.optional("weight", WEIGHT, out).unwrap_or_default(),
            max_rate: section.optional("max_rate", RATE, out),
            has_max_rate: section.has("max_rate"),
            congestion: section.optional_at("congestion", Congestion::KIND, out),
            mtu: section.optional("mtu", LINK_MTU, out),
        }
    }

    /// The path, with its peer's `endpoint` where it has none of its own.
    fn build(self, endpoint: Option<&Endpoint>) -> Option<PathSettings> {
        let relays = names(self.relays);
        let endpoint = self.endpoint.map(Spanned::into_inner).or_else(|| endpoint.cloned());
        if endpoint.is_none() && relays.is_empty() {
            return None;
        }
        let congestion = self.congestion.map(Spanned::into_inner).unwrap_or_default();
        Some(PathSettings {
            name: self.name?.into_inner(),
            interface: self.interface,
            address: self.address.map(Spanned::into_inner),
            endpoint,
            relays,
            encapsulation: self.encapsulation.map(Spanned::into_inner).unwrap_or_default(),
            weight: self.weight,
            max_rate: self.max_rate,
            mtu: self.mtu,
            congestion: PathCongestion::new(congestion, self.max_rate)?,
        })
    }
}

/// The names of a list, without their places.
pub(super) fn names(list: Option<Spanned<Vec<Spanned<Name>>>>) -> Vec<Name> {
    list.into_iter().flat_map(Spanned::into_inner).map(Spanned::into_inner).collect()
}
