//! What the file says, value by value, before the values are compared with each other; and, once they were, the
//! configuration that they make.
//!
//! A draft holds what could be read: `None` stands for what is absent and for what was complained about.

mod conditioning;
mod invitation;
mod peer;
mod promise;
mod quota;
mod site;
mod sla;
mod treatment;
mod unresponsive;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;

use psmc_core::PathPreference;
use psmc_net::keys::PublicKey;
use psmc_toml::{
    Complaint, FILE, Kind, METRICS_ADDRESS, NAME, Name, PUBLIC_KEY, SWITCH, Section, Source, draft,
};
use toml::Spanned;
use toml::de::DeTable;

use super::model::{Class, Config, Relay, Site, Sla, TunnelEnd};
use super::preset::Chosen;
use super::value::{
    ALLOWED_NET, CLASS_WEIGHT, DSCP, Endpoint, INSIDE_ADDRESS, PORTS, PRIORITY, PROTOCOL, RELAY_ADDRESS,
    REPAIR, Tcp,
};

pub(super) use invitation::InvitationDraft;
pub(super) use peer::{PathDraft, PeerDraft};
pub(super) use promise::PromiseDraft;
pub(super) use site::SiteDraft;
pub(super) use sla::SlaDraft;
pub(super) use treatment::TreatmentDraft;
pub(super) use unresponsive::UnresponsiveDraft;
pub(super) use web::WebDraft;

const SECTIONS: &[&str] =
    &["site", "peer", "relay", "class", "include", "invitation", "metrics", "sla", "unresponsive", "web"];

const CLASS_KEYS: &[&str] = &[
    "name",
    "preset",
    "dscp",
    "protocol",
    "ports",
    "from",
    "to",
    "priority",
    "weight",
    "repair",
    "queue_protection",
    "tcp",
    "profile",
    "conditioner",
    "mark",
    "paths",
    "avoid",
    "strict",
];

/// The keys that say which packets belong to a class.
const MATCHES: [&str; 5] = ["dscp", "protocol", "ports", "from", "to"];

/// A whole file.
pub(super) struct Draft {
    pub(super) site: Option<SiteDraft>,
    pub(super) peers: Vec<PeerDraft>,
    pub(super) relays: Vec<RelayDraft>,
    pub(super) classes: Vec<ClassDraft>,
    pub(super) invitations: Vec<InvitationDraft>,
    /// Where metrics are.
    metrics: Option<SocketAddr>,
    pub(super) sla: Option<SlaDraft>,
    pub(super) web: Option<WebDraft>,
    unresponsive: Option<UnresponsiveDraft>,
}

impl Draft {
    /// Reads a file, and complains about every value that is wrong by itself.
    pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Self {
        let file = Section::open_with_hints("the top of a file", 0..0, root, SECTIONS, hint, out);
        if !file.has("site") {
            let remedy = r#"add [site] with name = "van", private_key_file = "/etc/psmc/van.key" and addresses = ["10.77.0.2/24"]"#;
            out.push(Complaint::new("the file has no [site], which says who this machine is", remedy));
        }
        let site = file.only_section("site", "[site]", SiteDraft::KEYS, "a file describes one site", out);
        let site = site.map(|section| SiteDraft::read(&section, source, out));
        let peers = file.sections("peer", "[[peer]]", PeerDraft::KEYS, out);
        let relays = file.sections("relay", "[[relay]]", RelayDraft::KEYS, out);
        let classes = file.sections("class", "[[class]]", CLASS_KEYS, out);
        let invitations = file.sections("invitation", "[[invitation]]", InvitationDraft::KEYS, out);
        let include =
            file.only_section("include", "[include]", &["folder"], "a file includes one folder", out);
        if let Some(section) = include {
            section.required("folder", FILE.like("\"/etc/psmc/van.d\""), "where further files are", out);
        }
        let metrics =
            file.only_section("metrics", "[metrics]", &["listen"], "there is one place for metrics", out);
        let metrics = metrics.and_then(|section| {
            section.required("listen", METRICS_ADDRESS, "where Prometheus finds the metrics", out)
        });
        let sla =
            file.only_section("sla", "[sla]", SlaDraft::KEYS, "a site watches its ways in one place", out);
        let unresponsive = file.only_section(
            "unresponsive",
            "[unresponsive]",
            UnresponsiveDraft::KEYS,
            "a site treats all peers' flows alike",
            out,
        );
        let web = file.only_section("web", "[web]", WebDraft::KEYS, "a site has one web page", out);
        // Those of a gateway may be added while it runs.
        let is_gateway = site.as_ref().is_some_and(|site| site.register.is_some() || site.has_listen);
        if !file.has("peer") && !is_gateway && file.key_place("include").is_none() {
            out.push(no_peer());
        }
        Self {
            site,
            peers: peers.iter().map(|section| PeerDraft::read(section, out)).collect(),
            relays: relays.iter().map(|section| RelayDraft::read(section, out)).collect(),
            classes: classes.iter().map(|section| ClassDraft::read(section, out)).collect(),
            invitations: invitations.iter().map(|section| InvitationDraft::read(section, out)).collect(),
            metrics,
            sla: sla.map(|section| SlaDraft::read(&section, source, out)),
            web: web.map(|section| WebDraft::read(&section, source, out)),
            unresponsive: unresponsive.map(|section| UnresponsiveDraft::read(&section, out)),
        }
    }

    /// The configuration, unless it lacks what was complained about.
    pub(super) fn build(self) -> Option<Config> {
        let site = self.site?;
        let (dear, others) = (dear_paths(&self.peers), other_names(&self.peers));
        let (treatment, networks) = (site.treatment.clone(), site.own_networks());
        let peers = self.peers.into_iter().map(|peer| peer.build(&treatment, &networks));
        let peers = peers.collect::<Option<_>>()?;
        let (ends, relays): (Vec<_>, Vec<_>) = self.relays.into_iter().partition(|relay| relay.is_tunnel_end);
        let classes =
            self.classes.into_iter().map(|draft| draft.build(&dear, &others)).collect::<Option<_>>()?;
        Some(Config {
            site: Site {
                metrics: self.metrics,
                sla: match self.sla {
                    Some(sla) => sla.build()?,
                    None => Sla::default(),
                },
                web: self.web.and_then(WebDraft::build),
                unresponsive: self.unresponsive.and_then(UnresponsiveDraft::build),
                ..site.build(classes)?
            },
            peers,
            relays: relays.into_iter().map(RelayDraft::relay).collect::<Option<_>>()?,
            tunnel_ends: ends.into_iter().map(RelayDraft::tunnel_end).collect::<Option<_>>()?,
            invitations: self.invitations.into_iter().map(InvitationDraft::build).collect::<Option<_>>()?,
        })
    }
}

/// Where a key belongs that stands above all sections.
fn hint(key: &str) -> Option<String> {
    match key {
        "path" => Some("a path belongs to a peer: write [[peer.path]] below its [[peer]]".to_owned()),
        _ if SiteDraft::KEYS.contains(&key) => Some(format!("put `{key}` below the line [site]")),
        _ => None,
    }
}

fn no_peer() -> Complaint {
    Complaint::new(
        "the file has no [[peer]], and a site without a peer can do nothing",
        r#"add [[peer]] with name = "hq", public_key = "…" (what `psmc pubkey` prints there) and endpoint = "203.0.113.5:5115""#,
    )
}

draft! {
    /// `[[relay]]`
    pub(super) struct RelayDraft(section, out) {
        /// Whether it is a machine without a key: an end of a tunnel, and no relay of ours.
        [] is_tunnel_end: bool = { is_tunnel_end(section, out) },
        name: Option<Spanned<Name>> = required_at(NAME, "what the paths call this relay"),
        address: Option<Spanned<Endpoint>> = required_at(RELAY_ADDRESS, "where the relay is reached"),
        public_key: Option<Spanned<PublicKey>> = {
            if is_tunnel_end { None } else {
                section.required_at("public_key", PUBLIC_KEY, "the key of the relay", out)
            }
        },
        /// The address by which a machine without a key knows this site.
        inside: Option<std::net::Ipv4Addr> = optional(INSIDE_ADDRESS),
    }
}

fn is_tunnel_end(section: &Section<'_>, out: &mut Vec<Complaint>) -> bool {
    let is_tunnel_end = section.has("inside");
    if is_tunnel_end && section.has("public_key") {
        let reason = "a machine that only unwraps IP-in-IP has no key, and a relay of PSMC needs no `inside`";
        let remedy = "leave `inside` out if `psmc-relay` runs there, and `public_key` if not";
        out.push(Complaint::new(reason, remedy).at(section.place()));
    }
    is_tunnel_end
}

impl RelayDraft {
    fn relay(self) -> Option<Relay> {
        Some(Relay {
            name: self.name?.into_inner(),
            address: self.address?.into_inner(),
            public_key: self.public_key?.into_inner(),
        })
    }

    fn tunnel_end(self) -> Option<TunnelEnd> {
        let (name, address) = (self.name?.into_inner(), self.address?.into_inner());
        Some(TunnelEnd { name, address, inside: self.inside? })
    }
}

/// The names of paths that cost by the byte.
fn dear_paths(peers: &[PeerDraft]) -> Vec<String> {
    let paths = peers.iter().flat_map(|peer| &peer.paths).filter(|path| path.quota.is_some());
    let names: BTreeSet<_> =
        paths.filter_map(|path| Some(path.name.as_ref()?.get_ref().to_string())).collect();
    names.into_iter().collect()
}

/// The names of what paths are beside their own names.
fn other_names(peers: &[PeerDraft]) -> BTreeMap<String, Vec<String>> {
    let of_peer = |peer: &PeerDraft| {
        let transport = peer.transport.as_ref().map(|transport| *transport.get_ref());
        let names = peer.paths.iter().filter_map(|path| {
            Some((path.name.as_ref()?.get_ref().to_string(), path.other_names(transport)))
        });
        names.collect::<Vec<_>>()
    };
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for (name, others) in peers.iter().flat_map(of_peer) {
        let known = all.entry(name).or_default();
        known.extend(others);
        known.sort();
        known.dedup();
    }
    all
}

/// The name of a path.
const PATH_NAME: Kind<Name> = NAME.like("\"dsl\"");

/// `[[class]]`
pub(super) struct ClassDraft {
    pub(super) place: Range<usize>,
    pub(super) name: Option<Spanned<Name>>,
    /// The class, if it has a name.
    class: Option<Class>,
    /// Where the file says which packets belong to it, right or wrong.
    pub(super) matches: Option<Range<usize>>,
    /// The paths that it prefers, and those that it avoids.
    pub(super) paths: Vec<Spanned<Name>>,
    pub(super) avoid: Vec<Spanned<Name>>,
    /// Where the file says that it is strict, if it says neither which paths it prefers nor which it avoids.
    pub(super) strict_about_nothing: Option<Range<usize>>,
}

impl ClassDraft {
    fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Self {
        let name = section.required_at("name", NAME, "what you call these packets", out);
        let dscp = some_if_any(section, "dscp", DSCP, out);
        let protocols = some_if_any(section, "protocol", PROTOCOL, out);
        let ports = some_if_any(section, "ports", PORTS, out);
        let from = some_if_any(section, "from", ALLOWED_NET, out);
        let to = some_if_any(section, "to", ALLOWED_NET, out);
        let preset = Chosen::of_class(section, out);
        let set = preset.as_ref().map(|chosen| chosen.preset.of_class());
        let priority = section.optional("priority", PRIORITY, out).or(set.map(|set| set.priority));
        let weight = section.optional("weight", CLASS_WEIGHT, out).or(set.map(|set| set.weight));
        let repair = section.optional("repair", REPAIR, out).or(set.map(|set| set.repair));
        let tcp = section.optional("tcp", Tcp::KIND, out);
        let queue_protection = section.optional("queue_protection", SWITCH, out);
        let queue_protection = queue_protection.or(set.map(|set| set.queue_protection));
        let conditioning = conditioning::read(section, out);
        let [paths, avoid] = ["paths", "avoid"].map(|key| {
            complain_if_empty(section, key, PATH_NAME, out);
            section.list_at(key, PATH_NAME, out).map(Spanned::into_inner).unwrap_or_default()
        });
        let strict = section.optional_at("strict", SWITCH, out);
        let is_strict = strict.as_ref().is_some_and(|strict| *strict.get_ref());
        let prefers = section.has("paths") || section.has("avoid");
        let strict_about_nothing = strict.filter(|_| is_strict && !prefers).map(|strict| strict.span());
        let matches = MATCHES.iter().find_map(|key| section.key_place(key));
        let class = name.as_ref().map(|name| name.get_ref().clone());
        let class = class.map(|name| Class {
            name,
            dscp,
            protocols,
            ports,
            from,
            to,
            priority,
            weight,
            repair,
            tcp,
            queue_protection,
            conditioning,
            paths: PathPreference { paths: texts(&paths), avoid: texts(&avoid), strict: is_strict },
            preset,
        });
        Self { place: section.place(), name, class, matches, paths, avoid, strict_about_nothing }
    }

    /// The class. One that spares quotas, and does not say itself which paths it prefers, avoids those that are `dear`. Who names a
    /// path means all that it is by `others`, too.
    fn build(self, dear: &[String], others: &BTreeMap<String, Vec<String>>) -> Option<Class> {
        let mut class = self.class?;
        let spares = class.preset.as_ref().is_some_and(|chosen| chosen.preset.spares_quotas());
        if spares && self.paths.is_empty() && self.avoid.is_empty() {
            class.paths.avoid = dear.to_vec();
        }
        for named in [&mut class.paths.paths, &mut class.paths.avoid] {
            let more: Vec<_> = named.iter().filter_map(|name| others.get(name)).flatten().cloned().collect();
            named.extend(more);
        }
        Some(class)
    }
}

/// The values of a list, which must not be empty if it is there: it would mean any, or none.
fn some_if_any<T>(section: &Section<'_>, key: &str, kind: Kind<T>, out: &mut Vec<Complaint>) -> Vec<T> {
    complain_if_empty(section, key, kind, out);
    section.list(key, kind, out).unwrap_or_default()
}

fn texts(names: &[Spanned<Name>]) -> Vec<String> {
    names.iter().map(|name| name.get_ref().to_string()).collect()
}

fn complain_if_empty<T>(section: &Section<'_>, key: &str, kind: Kind<T>, out: &mut Vec<Complaint>) {
    if let Some(place) = section.empty_list(key) {
        let remedy = format!("name some, such as {key} = [{}], or remove the key for any", kind.example);
        out.push(Complaint::new(format!("`{key}` lists nothing"), remedy).at(place));
    }
}
