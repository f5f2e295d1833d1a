//! Reading the file, section by section, and the values that only these files have.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{
    Complaint, FILE, INTERFACE, Kind, Listen, METRICS_ADDRESS, NAME, Name, PUBLIC_KEY, Port, RATE, Section,
    SocketPath, Source, ValueError, choice, parse_net, repeated, socket_path, within,
};
use toml::Spanned;
use toml::de::DeTable;

use super::basis;
use super::{
    Accept, Agent, Bgp, BgpDaemon, Config, Datagrams, Means, Owner, Relay, Router, Server, Site, Upstream,
    When,
};
use crate::class::{Class, ClassError, Ports, Protocol};
use crate::message::MAX_RULES;

const SECTIONS: &[&str] = &["shed", "accept", "upstream", "router", "server"];

const SHED_KEYS: &[&str] =
    &["name", "private_key_file", "control_socket", "metrics", "lifetime", "state_file"];

const ACCEPT_KEYS: &[&str] = &[
    "name",
    "destination",
    "source",
    "protocol",
    "ports",
    "rate",
    "from",
    "chain",
    "packet_bytes",
    "min_rate",
    "max_rate",
    "above",
    "socket",
    "backend",
];

const UPSTREAM_KEYS: &[&str] = &[
    "name",
    "kind",
    "address",
    "public_key",
    "local",
    "datagrams",
    "peer",
    "socket",
    "pipe",
    "max_rules",
    "ttl",
];

const ROUTER_KEYS: &[&str] = &["listen", "interfaces", "when"];

const SERVER_KEYS: &[&str] = &["name", "public_key", "prefixes", "max_rules", "max_lifetime"];

/// Where sockets are.
pub(crate) const RUN_DIR: &str = "/run/psmc-shed";

/// Where it is written down what BGP daemons were told.
const STATE_DIR: &str = "/var/lib/psmc-shed";

/// Where routers listen where the file says nothing: beside the coordinators' 5117.
const PORT: Port = Port::new(NonZeroU16::new(5118).expect("5118 is not 0"));

/// How long rules last where the file says nothing: a killed agent is missed no longer than that.
const LIFETIME: Duration = Duration::from_secs(10);

/// How long they may last on a router where its file says nothing.
const MAX_LIFETIME: Duration = Duration::from_secs(60);

/// How long a rule of Flowspec lasts after it was last needed, where the file says nothing.
const TTL: Duration = Duration::from_secs(300);

/// Rules of a server, and of a BGP daemon, where the file says nothing: operators allow few, for routers have room for few.
const RULES: usize = 10;

/// Servers at most: each has a chain, and a look at every packet.
const MAX_SERVERS: usize = 256;

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, SECTIONS, out);
    if !file.has("shed") {
        let remedy = r#"add [shed] with name = "hq" and private_key_file = "hq.key""#;
        out.push(Complaint::new("the file has no [shed] section", remedy));
    }
    let accepts = accepts(&file, out);
    let upstreams = file.sections("upstream", "[[upstream]]", UPSTREAM_KEYS, out);
    let upstreams: Vec<_> = upstreams.iter().filter_map(|section| upstream(section, &accepts, out)).collect();
    for (this, first) in repeated(&upstreams, |upstream| upstream.get_ref().name.clone()) {
        let complaint = Complaint::new(format!("duplicate upstream {}", this.get_ref().name), "rename one");
        out.push(complaint.at(this.span()).because_of(first.span(), "the first"));
    }
    let owners = owners(&file, out);
    if file.has("accept") && !file.has("upstream") {
        let remedy = r#"add [[upstream]] with name, kind = "nft", address and public_key of a router"#;
        out.push(Complaint::new("nobody would drop anything: the file has no [[upstream]]", remedy));
    }
    if file.has("router") && !file.has("server") {
        let remedy = r#"add [[server]] with name, public_key and prefixes = ["203.0.113.0/24"]"#;
        out.push(Complaint::new("nobody may have rules here: the file has no [[server]]", remedy));
    }
    if file.has("shed") && !file.has("accept") && !file.has("router") {
        let reason = "the agent would do nothing: the file has neither [[accept]] nor [router]";
        out.push(Complaint::new(
            reason,
            "a server has [[accept]] and [[upstream]], a router [router] and [[server]]",
        ));
    }
    let router = match file.section("router", "[router]", ROUTER_KEYS, out) {
        Some(section) => Some(router(&section, owners, out)?),
        None => None,
    };
    let section = file.section("shed", "[shed]", SHED_KEYS, out)?;
    let upstreams = upstreams.into_iter().map(Spanned::into_inner).collect();
    shed(&section, source, (accepts, upstreams), router, out)
}

fn shed(
    section: &Section<'_>,
    source: &Source,
    (accepts, upstreams): (Vec<Accept>, Vec<Upstream>),
    router: Option<Router>,
    out: &mut Vec<Complaint>,
) -> Option<Config> {
    let name = section.required("name", NAME, "what you call this agent", out);
    let private_key = section.private_key("private_key_file", "\"/etc/psmc-shed/hq.key\"", source, out);
    let control_socket = section.optional("control_socket", OWN_SOCKET, out);
    let metrics = section.optional("metrics", METRICS_ADDRESS.like("\"127.0.0.1:9119\""), out);
    let lifetime = section.optional("lifetime", SECONDS.like("10"), out).unwrap_or(LIFETIME);
    let state_file = section.optional("state_file", FILE.like("\"/var/lib/psmc-shed/hq.json\""), out);
    let name = name?;
    let state_file = state_file.map(|file| source.beside(file));
    let state_file = state_file.unwrap_or_else(|| PathBuf::from(STATE_DIR).join(format!("{name}.json")));
    let server = (!accepts.is_empty()).then_some(Server { lifetime, state_file, accepts, upstreams });
    Some(Config {
        control_socket: match control_socket {
            Some(path) => path,
            // A name has 32 characters at most, and no slash.
            None => format!("{RUN_DIR}/{name}.sock").parse().expect("a name fits into the path of a socket"),
        },
        name,
        private_key: private_key?,
        metrics,
        server,
        router,
    })
}

fn accepts(file: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Accept> {
    let sections = file.sections("accept", "[[accept]]", ACCEPT_KEYS, out);
    let accepts: Vec<_> = sections.iter().filter_map(|section| accept(section, out)).collect();
    for (this, first) in repeated(&accepts, |accept| accept.get_ref().class) {
        let reason = format!("{} is accepted twice", this.get_ref().class);
        let complaint = Complaint::new(reason, "remove one of them").at(this.span());
        out.push(complaint.because_of(first.span(), "the first"));
    }
    for (this, first) in repeated(&accepts, |accept| accept.get_ref().name.clone()) {
        let complaint = Complaint::new(format!("duplicate class {}", this.get_ref().name), "rename one");
        out.push(complaint.at(this.span()).because_of(first.span(), "the first"));
    }
    if accepts.len() > MAX_RULES {
        let reason =
            format!("{} classes are more than the {MAX_RULES} rules that a router takes", accepts.len());
        out.push(Complaint::new(reason, "join some of them"));
    }
    accepts.into_iter().map(Spanned::into_inner).collect()
}

fn accept(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Spanned<Accept>> {
    let name = section.required("name", NAME, "what you call this class", out);
    let destination = section.required_at("destination", DESTINATION, "the server's address", out);
    let source = section.optional_at("source", DESTINATION.like("\"198.51.100.0/24\""), out);
    let protocol = section.optional("protocol", PROTOCOL, out);
    let ports = section.optional_at("ports", PORTS, out);
    let rate = section.required("rate", RATE.like("\"80mbit\""), "what the server accepts of it", out);
    let basis = basis::read(section, rate, out);
    let (name, destination, rate, basis) = (name?, destination?, rate?, basis?);
    let at = destination.span();
    let [of_ports, of_source] = [ports.as_ref().map(Spanned::span), source.as_ref().map(Spanned::span)]
        .map(|of| of.unwrap_or(at.clone()));
    let class = Class::new(destination.into_inner(), protocol, ports.map(Spanned::into_inner));
    match class.and_then(|class| class.coming_from(source.map(Spanned::into_inner))) {
        Ok(class) => Some(Spanned::new(at, Accept { name, class, rate: rate.bits_per_second() / 8, basis })),
        Err(error) => {
            let (remedy, place) = match error {
                ClassError::PortsWithoutProtocol => (r#"add protocol = "tcp" or "udp""#, of_ports),
                ClassError::OtherFamily => ("write a class for each family", of_source),
            };
            out.push(Complaint::new(error.to_string(), remedy).at(place));
            None
        }
    }
}

choice! {
    /// The kind of an upstream.
    enum UpstreamKind: "kind of upstream", such as "nft" {
        Nft = "nft",
        Relay = "relay",
        Site = "site",
        GoBgp = "gobgp",
        ExaBgp = "exabgp",
    }
}

impl UpstreamKind {
    /// The keys that belong to it, beside name and kind.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Nft => &["address", "public_key", "local"],
            Self::Relay => &["address", "public_key", "local", "datagrams"],
            Self::Site => &["peer", "socket"],
            Self::GoBgp => &["address", "max_rules", "ttl"],
            Self::ExaBgp => &["pipe", "max_rules", "ttl"],
        }
    }
}

fn agent(section: &Section<'_>, what: &str, out: &mut Vec<Complaint>) -> Option<Agent> {
    let address = section.required("address", ENDPOINT, what, out);
    let public_key = section.required("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    let local = section.optional("local", LOCAL_ADDRESS, out);
    Some(Agent { address: address?, public_key: public_key?, local })
}

/// Classes that a relay knows by nothing but the drop precedence of datagrams.
fn datagrams(section: &Section<'_>, accepts: &[Accept], out: &mut Vec<Complaint>) -> Option<Vec<Datagrams>> {
    let Some(all) = section.list("datagrams", DATAGRAMS, out) else {
        return (!section.has("datagrams")).then(Vec::new);
    };
    let place = section.key_place("datagrams").unwrap_or(section.place());
    for (number, hidden) in all.iter().enumerate() {
        let class = &hidden.class;
        let complaint = if accepts.iter().all(|accept| accept.name != *class) {
            Complaint::new(format!("there is no class {class}"), "name one of the [[accept]] sections")
        } else if all[..number].iter().any(|other| other.class == *class) {
            Complaint::new(format!("{class} is named twice"), "a class has one drop precedence, or all")
        } else if all[..number].iter().any(|other| other.precedence == hidden.precedence) {
            let reason = format!("{hidden} is the same datagrams as another class");
            Complaint::new(reason, "give each class a drop precedence of its own")
        } else {
            continue;
        };
        out.push(complaint.at(place));
        return None;
    }
    Some(all)
}

fn upstream(
    section: &Section<'_>,
    accepts: &[Accept],
    out: &mut Vec<Complaint>,
) -> Option<Spanned<Upstream>> {
    let name = section.required_at("name", NAME, "what you call it", out);
    let kind = section.required("kind", UpstreamKind::KIND, "what drops there", out)?;
    let kinds = [
        UpstreamKind::Nft,
        UpstreamKind::Relay,
        UpstreamKind::Site,
        UpstreamKind::GoBgp,
        UpstreamKind::ExaBgp,
    ];
    let all = kinds.map(UpstreamKind::keys).concat();
    only(section, "kind", kind.as_str(), &all, kind.keys(), out)?;
    let by = match kind {
        UpstreamKind::Nft => Means::Agent(agent(section, "where its agent listens", out)?),
        UpstreamKind::Relay => {
            let datagrams = datagrams(section, accepts, out);
            let agent = agent(section, "where the relay listens", out);
            Means::Relay(Relay { agent: agent?, datagrams: datagrams? })
        }
        UpstreamKind::Site => {
            let peer = section.required("peer", NAME, "what the site calls its peer", out);
            let socket = section.required("socket", FILE.like("\"/run/psmc/hq.sock\""), "that of psmcd", out);
            Means::Site(Site { peer: peer?, socket: socket? })
        }
        UpstreamKind::GoBgp => {
            let address = section.optional("address", API, out).unwrap_or(GOBGP_API);
            bgp(section, BgpDaemon::GoBgp(address), out)
        }
        UpstreamKind::ExaBgp => {
            let pipe = section.required("pipe", FILE.like(EXABGP_PIPE), "that of its API", out);
            bgp(section, BgpDaemon::ExaBgp(pipe?), out)
        }
    };
    let name = name?;
    Some(Spanned::new(name.span(), Upstream { name: name.into_inner(), by }))
}

/// Complains of a key of `all` that is not among those that belong to a value of `of`.
pub(super) fn only(
    section: &Section<'_>,
    of: &str,
    value: &str,
    all: &[&str],
    keys: &[&str],
    out: &mut Vec<Complaint>,
) -> Option<()> {
    let strange = all.iter().filter(|key| !keys.contains(key));
    let Some((key, place)) = strange.filter_map(|key| Some((key, section.key_place(key)?))).next() else {
        return Some(());
    };
    let reason = format!("`{key}` does not belong to {of} = {value:?}");
    let remedy = match keys {
        [] => "remove it; there are no more keys of that kind".to_owned(),
        keys => format!("remove it; the keys of that kind are {}", keys.join(", ")),
    };
    out.push(Complaint::new(reason, remedy).at(place));
    None
}

fn bgp(section: &Section<'_>, daemon: BgpDaemon, out: &mut Vec<Complaint>) -> Means {
    let max_rules = section.optional("max_rules", RULE_COUNT, out).unwrap_or(RULES);
    let ttl = section.optional("ttl", SECONDS.like("300"), out).unwrap_or(TTL);
    Means::Bgp(Bgp { daemon, max_rules, ttl })
}

fn router(section: &Section<'_>, servers: Vec<Owner>, out: &mut Vec<Complaint>) -> Option<Router> {
    let listen = section.optional("listen", OWN_LISTEN, out);
    let interfaces = section.list("interfaces", INTERFACE, out).unwrap_or_default();
    let when = section.optional_at("when", When::KIND, out);
    if let Some(when) = &when
        && *when.get_ref() == When::Congested
        && interfaces.is_empty()
    {
        let remedy = r#"add interfaces = ["eth1"], those of the lines whose queues are watched"#;
        out.push(Complaint::new("`when = \"congested\"` needs `interfaces`", remedy).at(when.span()));
        return None;
    }
    Some(Router {
        listen: listen.unwrap_or(Listen { address: None, port: PORT }),
        interfaces,
        when: when.map_or(When::Always, Spanned::into_inner),
        servers,
    })
}

fn owners(file: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Owner> {
    let sections = file.sections("server", "[[server]]", SERVER_KEYS, out);
    let owners: Vec<_> = sections.iter().filter_map(|section| owner(section, out)).collect();
    if owners.len() > MAX_SERVERS {
        let reason = format!("{} servers are more than the {MAX_SERVERS} of a router", owners.len());
        out.push(Complaint::new(reason, "give servers of one owner one key"));
    }
    for (this, first) in repeated(&owners, |owner| owner.get_ref().public_key) {
        let reason = format!("{} has the key of {}", this.get_ref().name, first.get_ref().name);
        let complaint = Complaint::new(reason, "list all prefixes in one of them").at(this.span());
        out.push(complaint.because_of(first.span(), "the first"));
    }
    for (number, this) in owners.iter().enumerate() {
        for other in &owners[..number] {
            one_owner_each(this, other, out);
        }
    }
    owners.into_iter().map(Spanned::into_inner).collect()
}

/// A destination that two may speak for would have two truths.
fn one_owner_each(this: &Spanned<Owner>, other: &Spanned<Owner>, out: &mut Vec<Complaint>) {
    let is_shared = |net: &IpNet, there: &IpNet| net.contains(there) || there.contains(net);
    let mut nets = this.get_ref().prefixes.iter();
    let shared = nets.find(|net| other.get_ref().prefixes.iter().any(|there| is_shared(net, there)));
    if let Some(net) = shared {
        let reason = format!("{net} is {}'s as well as {}'s", this.get_ref().name, other.get_ref().name);
        let complaint = Complaint::new(reason, "only one server can own a destination").at(this.span());
        out.push(complaint.because_of(other.span(), "the other"));
    }
}

fn owner(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Spanned<Owner>> {
    let name: Option<Spanned<Name>> = section.required_at("name", NAME, "what you call this server", out);
    let public_key = section.required("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    let remedy = r#"add prefixes = ["203.0.113.0/24"], the destinations that are its own"#;
    let prefixes = section.some_of("prefixes", DESTINATION, remedy, out);
    let max_rules = section.optional("max_rules", RULE_COUNT, out).unwrap_or(RULES);
    let max_lifetime = section.optional("max_lifetime", SECONDS, out).unwrap_or(MAX_LIFETIME);
    let name = name?;
    let place = name.span();
    let owner = Owner {
        name: name.into_inner(),
        public_key: public_key?,
        prefixes: prefixes?,
        max_rules,
        max_lifetime,
    };
    Some(Spanned::new(place, owner))
}

/// An address, or a prefix of addresses.
const DESTINATION: Kind<IpNet> = Kind::text("\"203.0.113.10\"", |text| {
    let net = text.parse::<IpAddr>().map(IpNet::from);
    net.or_else(|_| parse_net(text)).map(|net| net.trunc())
});

/// A protocol.
const PROTOCOL: Kind<Protocol> = Kind::text_or_number("\"tcp\"", |text| {
    let remedy = "write \"tcp\", \"udp\", \"icmp\", \"ipv6-icmp\", \"sctp\", or a number up to 255";
    Protocol::parse(text).ok_or_else(|| ValueError::new(format!("{text:?} is no protocol"), remedy))
});

/// Ports of a server.
const PORTS: Kind<Ports> = Kind::text_or_number("443", |text| {
    let remedy = "write a port from 1 to 65535, or a range such as \"80-90\"";
    Ports::parse(text).ok_or_else(|| ValueError::new(format!("{text:?} is no range of ports"), remedy))
});

/// An address and a port.
const ENDPOINT: Kind<SocketAddr> = Kind::text("\"198.51.100.1:5118\"", |text| {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    let remedy = "write address and port, such as \"198.51.100.1:5118\": names may not resolve in a flood";
    address.ok_or_else(|| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

/// Where GoBGP's API is where the file says nothing, which is where GoBGP has it.
const GOBGP_API: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50051);

/// Where a daemon's API is.
const API: Kind<SocketAddr> = Kind::text("\"127.0.0.1:50051\"", |text| ENDPOINT.read(text));

/// Where Debian has ExaBGP's pipe.
const EXABGP_PIPE: &str = "\"/run/exabgp/exabgp.in\"";

/// An address of this machine.
const LOCAL_ADDRESS: Kind<IpAddr> = Kind::text("\"192.0.2.7\"", |text| {
    let remedy = "write an address of this machine, such as \"192.0.2.7\", without a length";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address"), remedy))
});

/// A class that comes in sessions, and the drop precedence of its datagrams.
const DATAGRAMS: Kind<Datagrams> = Kind::text("\"bulk/2\"", |text| {
    let (class, precedence) = match text.split_once('/') {
        None => (text, None),
        Some((class, precedence)) => {
            let remedy = "write a class alone, or with a drop precedence from 0 to 2, such as \"bulk/2\"";
            let reason = format_args!("{precedence} is no drop precedence");
            (class, Some(within(precedence, 0..=2, reason, remedy)?))
        }
    };
    Ok(Datagrams { class: NAME.read(class)?, precedence })
});

/// A time in seconds.
const SECONDS: Kind<Duration> = Kind::number("60", |text| {
    let remedy = "write seconds, from 2 to 3600, which is an hour";
    within(text, 2..=3600, format_args!("{text} s is no time for this"), remedy).map(Duration::from_secs)
});

/// How many rules.
const RULE_COUNT: Kind<usize> = Kind::number("10", |text| {
    let remedy = format!("write a number from 1 to {MAX_RULES}");
    within(text, 1..=MAX_RULES, format_args!("{text} is no number of rules"), remedy)
});

/// Where a router listens.
const OWN_LISTEN: Kind<Listen> = Kind::text_or_number("5118", |text| Listen::parse(text, PORT));

/// The path of its control socket.
const OWN_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-shed/hq.sock\"", |text| socket_path(text, "/run/psmc-shed/hq.sock"));
