//! Reading the file, section by section, and the values that only a relay's file has.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use psmc_toml::{
    Complaint, Kind, LISTEN, METRICS_ADDRESS, NAME, PUBLIC_KEY, RATE, SWITCH, Section, SocketPath, Source,
    ValueError, parse_net, repeated, socket_path, within,
};
use toml::de::DeTable;

use super::{Config, Networks, Site, tunnels};

const RELAY_KEYS: &[&str] = &[
    "name",
    "private_key_file",
    "listen",
    "coordinator",
    "workers",
    "max_sessions",
    "max_rate",
    "idle",
    "destinations",
    "ipip",
    "metrics",
    "control_socket",
];

const SITE_KEYS: &[&str] = &["name", "public_key", "max_sessions", "max_rate", "session_rate", "gateway"];

/// Sessions of the whole relay where the file says nothing.
const MAX_SESSIONS: u32 = 4096;

/// Sessions of a site where the file says nothing: a path over each of 64 uplinks.
const MAX_SESSIONS_OF_SITE: u32 = 64;

/// How long an unused session is kept where the file says nothing: a site that changes its uplink is back by then.
const DEFAULT_IDLE: Duration = Duration::from_secs(60);

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, &["relay", "allow", "tunnel"], out);
    let allowed = file.sections("allow", "[[allow]]", SITE_KEYS, out);
    let sites: Vec<SiteDraft> = allowed.iter().filter_map(|section| site(section, out)).collect();
    no_two_alike(&sites, out);
    let config = relay(&file, source, out);
    let sites: Vec<Site> = sites.into_iter().map(|draft| draft.site).collect();
    let tunnels = tunnels::read(&file, &sites, out);
    let by_key = file.has("allow") || config.as_ref().is_none_or(|config| config.coordinator.is_some());
    if !by_key && !file.has("tunnel") {
        out.push(Complaint::new(
            "the file has no [[allow]], no [[tunnel]] and no coordinator, so the relay would serve nobody",
            r#"add [[allow]] with name = "van" and public_key = "…", what `psmc pubkey` prints there"#,
        ));
    }
    if let Some(place) =
        file.key_place("tunnel").filter(|_| config.as_ref().is_some_and(|config| !config.ipip))
    {
        let remedy = "remove `ipip = false`, or the [[tunnel]] sections";
        out.push(Complaint::new("there are tunnels of IP-in-IP, and IP-in-IP is off", remedy).at(place));
    }
    Some(Config { sites, tunnels, ..config? })
}

/// All that `[relay]` says; the other sections are empty.
fn relay(file: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    if !file.has("relay") {
        let remedy = r#"add [relay] with name = "fra1" and private_key_file = "/etc/psmc-relay/fra1.key""#;
        out.push(Complaint::new("the file has no [relay], which says who this machine is", remedy));
    }
    let section = file.only_section("relay", "[relay]", RELAY_KEYS, "a file describes one relay", out)?;
    let name = section.required("name", NAME, "what you call this relay", out);
    let private_key = section.private_key("private_key_file", "\"/etc/psmc-relay/fra1.key\"", source, out);
    let control_socket = section.optional("control_socket", SOCKET, out);
    let config = Config {
        listen: section.optional("listen", LISTEN, out).unwrap_or_default(),
        coordinator: section.optional("coordinator", PUBLIC_KEY, out),
        workers: section.optional("workers", WORKERS, out).unwrap_or(1),
        max_sessions: section.optional("max_sessions", SESSIONS, out).unwrap_or(MAX_SESSIONS),
        max_rate: section.optional("max_rate", RATE, out),
        idle: section.optional("idle", IDLE, out).unwrap_or(DEFAULT_IDLE),
        destinations: destinations(&section, out),
        ipip: section.optional("ipip", SWITCH, out).unwrap_or(true),
        metrics: section.optional("metrics", METRICS_ADDRESS, out),
        control_socket: control_socket.or_else(|| name.as_ref().map(SocketPath::of_relay))?,
        name: name?,
        private_key: private_key?,
        sites: Vec::new(),
        tunnels: Vec::new(),
    };
    Some(config)
}

fn destinations(section: &Section<'_>, out: &mut Vec<Complaint>) -> Networks {
    let Some(list) = section.list("destinations", NETWORK, out) else { return Networks::default() };
    if let Some(place) = section.empty_list("destinations") {
        let remedy = "name networks, or leave `destinations` out for every public address";
        out.push(Complaint::new("the relay could lead nowhere", remedy).at(place));
    }
    Networks::Listed(list)
}

/// A site, and where what tells it from others stands.
struct SiteDraft {
    site: Site,
    name_at: Range<usize>,
    key_at: Range<usize>,
}

fn site(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<SiteDraft> {
    let name = section.required_at("name", NAME, "what you call this site", out);
    let key = section.required_at("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    let max_sessions = section.optional("max_sessions", SESSIONS, out).unwrap_or(MAX_SESSIONS_OF_SITE);
    let max_rate = section.optional("max_rate", RATE, out);
    let session_rate = section.optional("session_rate", RATE, out);
    let gateway = section.optional("gateway", SWITCH, out).unwrap_or(false);
    let (name, key) = (name?, key?);
    let (name_at, key_at) = (name.span(), key.span());
    let (name, public_key) = (name.into_inner(), key.into_inner());
    let site = Site { name, public_key, max_sessions, max_rate, session_rate, gateway };
    Some(SiteDraft { site, name_at, key_at })
}

fn no_two_alike(sites: &[SiteDraft], out: &mut Vec<Complaint>) {
    for (this, first) in repeated(sites, |draft| &draft.site.name) {
        let reason = format!("there are two sites {}", this.site.name);
        let complaint = Complaint::new(reason, "give one of them another name").at(this.name_at.clone());
        out.push(complaint.because_of(first.name_at.clone(), "the first"));
    }
    for (this, first) in repeated(sites, |draft| draft.site.public_key) {
        let remedy = "remove one of them, or correct its key";
        let complaint = Complaint::new("this key is another site's, too", remedy).at(this.key_at.clone());
        out.push(complaint.because_of(first.key_at.clone(), "here"));
    }
}

/// How many sessions. A million that are in use have a gigabyte of state: more than one machine serves.
const SESSIONS: Kind<u32> = Kind::number("1000", |text| {
    let reason = format_args!("{text} is no number of sessions");
    within(text, 1..=1_000_000, reason, "write a number from 1 to 1000000")
});

/// How many workers.
const WORKERS: Kind<u8> = Kind::number("2", |text| {
    let remedy = "write a number from 1 to 64: as many as the relay shall use processors";
    within(text, 1..=64, format_args!("{text} is no number of workers"), remedy)
});

/// After what time an unused session is forgotten, in seconds: up to a day.
const IDLE: Kind<Duration> = Kind::number("60", |text| {
    let reason = format_args!("sessions cannot be kept for {text} s");
    let remedy = "write seconds, from 1 to 86400, which is a day; a site needs some ten to come back over another uplink";
    within(text, 1..=86_400, reason, remedy).map(Duration::from_secs)
});

/// A network that the relay may lead to.
const NETWORK: Kind<IpNet> =
    Kind::text("\"203.0.113.0/24\"", |text| parse_net(text).map(|network| network.trunc()));

/// The IPv4 address of one host.
pub(super) const HOST_V4: Kind<Ipv4Addr> = Kind::text("\"203.0.113.5\"", |text| {
    let remedy = "write the IPv4 address of a host, such as \"203.0.113.5\"";
    let address =
        text.parse().map_err(|_| ValueError::new(format!("{text:?} is no IPv4 address"), remedy))?;
    if is_no_host(Ipv4Net::from(address)) {
        return Err(ValueError::new(format!("{address} is no host's address"), remedy));
    }
    Ok(address)
});

/// A network of IPv4 hosts.
pub(super) const NETWORK_V4: Kind<Ipv4Net> = Kind::text("\"10.1.0.0/16\"", |text| {
    let remedy = "write a network of IPv4 hosts, such as \"10.1.0.0/16\"";
    let IpNet::V4(network) = parse_net(text)?.trunc() else {
        let reason = format!("{text} is not of IPv4, and the tunnels carry nothing else");
        return Err(ValueError::new(reason, remedy));
    };
    if is_no_host(network) {
        return Err(ValueError::new(format!("not all of {network} are hosts' addresses"), remedy));
    }
    Ok(network)
});

/// Whether there are addresses among these that no host sends from over a link: of this network (0.0.0.0/8), loopback,
/// multicast, and those beyond (RFC 6890).
fn is_no_host(network: Ipv4Net) -> bool {
    let first = |net: Ipv4Net| net.network().octets()[0];
    let last = network.broadcast().octets()[0];
    let is_in = |octet: u8| (first(network)..=last).contains(&octet);
    is_in(0) || is_in(127) || last >= 224
}

/// The path of its control socket.
const SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-relay/fra1.sock\"", |text| socket_path(text, "/run/psmc-relay/fra1.sock"));
