//! From drafts to the configuration.

use super::draft::{ClassDraft, Draft, PathDraft, PeerDraft, RelayDraft, SiteDraft, TreatmentDraft};
use super::model::{Class, Config, PathCongestion, PathSettings, Paths, Peer, Relay, Site, TunnelEnd};
use super::value::{AllowedNet, Endpoint, Name, SocketPath};
use toml::Spanned;

/// What a peer takes from its site where it says nothing itself.
struct Defaults {
    treatment: TreatmentDraft,
    allowed_ips: Vec<AllowedNet>,
}

/// The configuration, unless a draft lacks what was complained about.
pub(super) fn config(draft: Draft) -> Option<Config> {
    let site = draft.site?;
    let defaults = defaults(&site);
    let (tunnel_ends, relays): (Vec<_>, Vec<_>) =
        draft.relays.into_iter().partition(|relay| relay.is_tunnel_end);
    Some(Config {
        site: self::site(site, draft.classes)?,
        peers: draft.peers.into_iter().map(|peer| self::peer(peer, &defaults)).collect::<Option<_>>()?,
        relays: relays.into_iter().map(relay).collect::<Option<_>>()?,
        tunnel_ends: tunnel_ends.into_iter().map(tunnel_end).collect::<Option<_>>()?,
    })
}

fn defaults(site: &SiteDraft) -> Defaults {
    Defaults {
        treatment: site.treatment.clone(),
        allowed_ips: site.addresses.iter().map(|address| AllowedNet::around(*address.get_ref())).collect(),
    }
}

fn site(draft: SiteDraft, classes: Vec<ClassDraft>) -> Option<Site> {
    let name = draft.name?.into_inner();
    Some(Site {
        control_socket: draft.control_socket.unwrap_or_else(|| SocketPath::of_site(&name)),
        name,
        private_key: draft.private_key?,
        addresses: draft.addresses.into_iter().map(Spanned::into_inner).collect(),
        listen: draft.listen,
        is_hidden: draft.register.is_some() && !draft.has_listen,
        register: names(draft.register),
        grants_file: draft.grants_file,
        interface: draft.interface,
        mtu: draft.mtu,
        clamp_mss: draft.clamp_mss,
        treatment: draft.treatment.build(),
        classes: classes.into_iter().map(class).collect::<Option<_>>()?,
    })
}

fn class(draft: ClassDraft) -> Option<Class> {
    Some(Class {
        name: draft.name?.into_inner(),
        dscp: draft.dscp,
        protocols: draft.protocols,
        ports: draft.ports,
        from: draft.from,
        to: draft.to,
        priority: draft.priority,
        weight: draft.weight,
        repair: draft.repair,
    })
}

fn peer(draft: PeerDraft, defaults: &Defaults) -> Option<Peer> {
    let endpoint = draft.endpoint.map(Spanned::into_inner);
    Some(Peer {
        name: draft.name?.into_inner(),
        public_key: draft.public_key?.into_inner(),
        allowed_ips: match draft.allowed_ips {
            Some(networks) => networks.into_iter().map(Spanned::into_inner).collect(),
            None => defaults.allowed_ips.clone(),
        },
        keepalive: draft.keepalive,
        udp_rate_limit: draft.udp_rate_limit,
        treatment: draft.treatment.or(&defaults.treatment).build(),
        paths: paths(draft.paths, endpoint.as_ref())?,
        spare_relays: names(draft.spare_relays),
        routes: draft.routes,
        endpoint,
    })
}

fn paths(drafts: Vec<PathDraft>, endpoint: Option<&Endpoint>) -> Option<Paths> {
    if drafts.is_empty() {
        return Some(Paths::EveryUplink);
    }
    drafts.into_iter().map(|path| self::path(path, endpoint)).collect::<Option<_>>().map(Paths::Listed)
}

fn path(draft: PathDraft, endpoint: Option<&Endpoint>) -> Option<PathSettings> {
    let relays = names(draft.relays);
    let endpoint = draft.endpoint.map(Spanned::into_inner).or_else(|| endpoint.cloned());
    if endpoint.is_none() && relays.is_empty() {
        return None;
    }
    Some(PathSettings {
        name: draft.name?.into_inner(),
        interface: draft.interface,
        address: draft.address.map(Spanned::into_inner),
        endpoint,
        relays,
        encapsulation: draft.encapsulation.map(Spanned::into_inner).unwrap_or_default(),
        weight: draft.weight,
        max_rate: draft.max_rate,
        mtu: draft.mtu.map(Spanned::into_inner),
        congestion: PathCongestion::new(
            draft.congestion.map(Spanned::into_inner).unwrap_or_default(),
            draft.max_rate,
        )?,
    })
}

fn relay(draft: RelayDraft) -> Option<Relay> {
    Some(Relay {
        name: draft.name?.into_inner(),
        address: draft.address?.into_inner(),
        public_key: draft.public_key?.into_inner(),
    })
}

fn tunnel_end(draft: RelayDraft) -> Option<TunnelEnd> {
    Some(TunnelEnd {
        name: draft.name?.into_inner(),
        address: draft.address?.into_inner(),
        inside: draft.inside?.into_inner().0,
    })
}

fn names(list: Option<Spanned<Vec<Spanned<Name>>>>) -> Vec<Name> {
    list.into_iter().flat_map(Spanned::into_inner).map(Spanned::into_inner).collect()
}
