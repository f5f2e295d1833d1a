//! `[[peer]]`, and its paths: `[[peer.path]]`.

use std::ops::Range;
use std::time::Duration;

use psmc_net::keys::PublicKey;
use psmc_toml::{Complaint, INTERFACE, InterfaceName, NAME, Name, PUBLIC_KEY, RATE, Rate, Section, draft};
use toml::Spanned;

use psmc_core::{Direction, Gateway, Tier};

use super::TreatmentDraft;
use crate::config::STREAM_SUFFIX;
use crate::config::model::{FIRST_FLOW, PathCongestion, PathSettings, Paths, Peer};
use crate::config::preset::{Chosen, Preset};
use crate::config::value::{
    ALLOWED_NET, AllowedNet, BIND_ADDRESS, BindAddress, Congestion, DEFAULT_KEEPALIVE, DIRECTION, ENDPOINT,
    Endpoint, FAILBACK, FLOWS, GATEWAY_PRIORITY, KEEPALIVE, LINK_MTU, LinkMtu, RoutePolicy, TIER, Transport,
    WEIGHT, Weight,
};
use crate::quota::Quota;

draft! {
    pub(in crate::config) struct PeerDraft(section, out) {
        name: Option<Spanned<Name>> = required_at(NAME, "what you call the other site"),
        public_key: Option<Spanned<PublicKey>> =
            required_at(PUBLIC_KEY, "what `psmc pubkey` prints on the other site"),
        /// `None` only where the file does not say.
        allowed_ips: Option<Vec<Spanned<AllowedNet>>> = { allowed_ips(section, out) },
        priority: Option<u8> = optional(GATEWAY_PRIORITY),
        failback: Option<Duration> = optional(FAILBACK).unwrap_or(Gateway::default().failback),
        endpoint: Option<Spanned<Endpoint>> = optional_at(ENDPOINT),
        keepalive: Option<Duration> = optional(KEEPALIVE),
        preset: Option<Chosen> = { Chosen::of_peer(section, out) },
        [..TreatmentDraft::KEYS] treatment: TreatmentDraft = { TreatmentDraft::read(section, out) },
        udp_rate_limit: Option<Rate> = optional(RATE),
        spare_relays: Option<Spanned<Vec<Spanned<Name>>>> = list_at(NAME),
        routes: Option<RoutePolicy> = optional(RoutePolicy::KIND),
        transport: Option<Spanned<Transport>> = optional_at(Transport::KIND),
        ["path"] paths: Vec<PathDraft> = { paths(section, out) },
        /// Whether the file gives an endpoint, right or wrong.
        [] has_endpoint: bool = { section.has("endpoint") },
        /// Whether it gives no priority, or a right one.
        [] has_right_priority: bool = { section.has("priority") == priority.is_some() },
        [] place: Range<usize> = { section.place() },
    }
}

impl PeerDraft {
    /// How its packets are treated: as it says itself, else as its preset does, else as its `site`.
    pub(in crate::config) fn whole_treatment(&self, site: &TreatmentDraft) -> TreatmentDraft {
        match self.preset() {
            Some(preset) => self.treatment.or(&preset.treatment()).or(site),
            None => self.treatment.or(site),
        }
    }

    fn preset(&self) -> Option<Preset> {
        self.preset.as_ref().map(|chosen| chosen.preset)
    }

    /// The peer, with its site's treatment and networks where it says nothing itself.
    pub(super) fn build(self, treatment: &TreatmentDraft, networks: &[AllowedNet]) -> Option<Peer> {
        let (preset, treatment) = (self.preset(), self.whole_treatment(treatment).build());
        let endpoint = self.endpoint.map(Spanned::into_inner);
        let transport = self.transport.map(Spanned::into_inner).unwrap_or_default();
        let first = Gateway::default();
        let dear = if preset.is_some_and(Preset::spares_quotas) { Tier::Secondary } else { Tier::default() };
        Some(Peer {
            name: self.name?.into_inner(),
            public_key: self.public_key?.into_inner(),
            allowed_ips: match self.allowed_ips {
                Some(networks) => networks.into_iter().map(Spanned::into_inner).collect(),
                None => networks.to_owned(),
            },
            gateway: Gateway { priority: self.priority.unwrap_or(first.priority), failback: self.failback },
            keepalive: self.keepalive.or(preset.map(Preset::keepalive)).unwrap_or(DEFAULT_KEEPALIVE),
            preset: self.preset,
            udp_rate_limit: self.udp_rate_limit,
            treatment,
            paths: if self.paths.is_empty() {
                Paths::EveryUplink
            } else {
                let paths = self.paths.into_iter().map(|path| path.build(endpoint.as_ref(), transport, dear));
                let paths = paths.collect::<Option<Vec<_>>>()?;
                Paths::Listed(paths.into_iter().flatten().collect())
            },
            spare_relays: names(self.spare_relays),
            routes: self.routes,
            transport,
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

fn paths(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<PathDraft> {
    let paths = section.sections("path", "[[peer.path]]", PathDraft::KEYS, out);
    paths.iter().map(|section| PathDraft::read(section, out)).collect()
}

draft! {
    pub(in crate::config) struct PathDraft(section, out) {
        name: Option<Spanned<Name>> = required_at(NAME, "what you call this way to the peer"),
        interface: Option<InterfaceName> = optional(INTERFACE),
        address: Option<Spanned<BindAddress>> = optional_at(BIND_ADDRESS),
        endpoint: Option<Spanned<Endpoint>> = optional_at(ENDPOINT),
        relays: Option<Spanned<Vec<Spanned<Name>>>> = list_at(NAME),
        transport: Option<Spanned<Transport>> = optional_at(Transport::KIND),
        ports: Option<Spanned<u8>> = optional_at(FLOWS),
        weight: Weight = optional(WEIGHT).unwrap_or_default(),
        tier: Option<Spanned<Tier>> = optional_at(TIER),
        direction: Option<Spanned<Direction>> = optional_at(DIRECTION),
        quota: Option<Spanned<Quota>> = { super::quota::read(section, out) },
        max_rate: Option<Rate> = optional(RATE),
        mtu: Option<LinkMtu> = optional(LINK_MTU),
        congestion: Option<Spanned<Congestion>> = optional_at(Congestion::KIND),
        /// Whether the file gives an endpoint, right or wrong.
        [] has_endpoint: bool = { section.has("endpoint") },
        /// Whether the file gives a greatest rate, right or wrong.
        [] has_max_rate: bool = { section.has("max_rate") },
        /// Whether nothing that tells it from other paths is left out because it is wrong.
        [] is_comparable: bool =
            { section.has("interface") == interface.is_some() && section.has("address") == address.is_some() },
        [] place: Range<usize> = { section.place() },
    }
}

impl PathDraft {
    /// The names of the paths that it becomes beside the one of its own: its further flows, and the stream that it falls back on.
    pub(in crate::config) fn other_names(&self, peer: Option<Transport>) -> Vec<String> {
        let Some(name) = self.name.as_ref().map(Spanned::get_ref) else { return Vec::new() };
        let is_auto = self.transport.as_ref().map(|own| *own.get_ref()).or(peer) == Some(Transport::Auto);
        let stream = is_auto.then(|| format!("{name}{STREAM_SUFFIX}"));
        self.further_flows().map(|flow| flow_name(name, flow)).chain(stream).collect()
    }

    fn further_flows(&self) -> impl Iterator<Item = u8> + use<> {
        FIRST_FLOW + 1..=self.flows()
    }

    /// Over how many flows it is spread.
    pub(in crate::config) fn flows(&self) -> u8 {
        self.ports.as_ref().map_or(FIRST_FLOW, |ports| *ports.get_ref())
    }

    /// What each of its flows may send of its `max_rate`; `None` if that is less than a rate may be.
    pub(in crate::config) fn rate_of_flow(&self) -> Option<Option<Rate>> {
        let of =
            |rate: Rate| Rate::from_bits_per_second(rate.bits_per_second() / u64::from(self.flows())).ok();
        self.max_rate.map_or(Some(None), |rate| of(rate).map(Some))
    }

    /// The path, and its further flows, which fall back on no stream of their own: one is enough.
    fn build(
        self,
        endpoint: Option<&Endpoint>,
        transport: Transport,
        dear: Tier,
    ) -> Option<Vec<PathSettings>> {
        let further = self.further_flows();
        let first = self.build_first(endpoint, transport, dear)?;
        let further = further.map(|flow| {
            let name = flow_name(&first.name, flow).parse().ok()?;
            Some(PathSettings { name, flow, transport: Transport::Udp, ..first.clone() })
        });
        let further = further.collect::<Option<Vec<_>>>()?;
        Some([vec![first], further].concat())
    }

    /// The path, with its peer's `endpoint` and `transport` where it has none of its own, and the tier of its peer's `dear` paths if it
    /// has a quota.
    fn build_first(
        self,
        endpoint: Option<&Endpoint>,
        transport: Transport,
        dear: Tier,
    ) -> Option<PathSettings> {
        let max_rate = self.rate_of_flow()?;
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
            transport: self.transport.map_or(transport, Spanned::into_inner),
            flow: FIRST_FLOW,
            weight: self.weight,
            tier: match (self.tier, &self.quota) {
                (Some(tier), _) => tier.into_inner(),
                (None, Some(_)) => dear,
                (None, None) => Tier::default(),
            },
            direction: self.direction.map(Spanned::into_inner).unwrap_or_default(),
            quota: self.quota.map(Spanned::into_inner),
            max_rate,
            mtu: self.mtu,
            congestion: PathCongestion::new(congestion, max_rate)?,
        })
    }
}

/// What a further flow of a path is called.
fn flow_name(path: &Name, flow: u8) -> String {
    format!("{path}-{flow}")
}

/// The names of a list, without their places.
pub(super) fn names(list: Option<Spanned<Vec<Spanned<Name>>>>) -> Vec<Name> {
    list.into_iter().flat_map(Spanned::into_inner).map(Spanned::into_inner).collect()
}
