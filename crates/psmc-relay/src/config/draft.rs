//! Reading the file, section by section.

use std::ops::Range;
use std::time::Duration;

use psmc_toml::{Complaint, LISTEN, NAME, PUBLIC_KEY, RATE, SWITCH, Section, SocketPath, Source, repeated};
use toml::de::DeTable;

use super::value::{METRICS_ADDRESS, NETWORK, SESSIONS, SOCKET, WORKERS};
use super::{Config, Networks, Site, tunnels, value};

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
const IDLE: Duration = Duration::from_secs(60);

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
            "the relay would serve nobody: the file has neither [[allow]] nor [[tunnel]] nor a coordinator",
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
        idle: section.optional("idle", value::IDLE, out).unwrap_or(IDLE),
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
