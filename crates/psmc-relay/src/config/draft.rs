//! Reading the file, section by section.

use std::ops::Range;
use std::time::Duration;

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{
    Complaint, KeyFile, Name, PublicKeyText, Rate, Section, SocketPath, Source, Switch, read_key_file,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{IdleSeconds, MetricsAddress, Network, Sessions, Workers};
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
const IDLE: Duration = Duration::from_secs(60);

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, &["relay", "allow", "tunnel"], out);
    let allow = file.tables("allow", "[[allow]]", out);
    let sites: Vec<Option<SiteDraft>> =
        allow.into_iter().map(|(place, table)| site(place, table, out)).collect();
    let sites: Vec<SiteDraft> = sites.into_iter().flatten().collect();
    no_two_alike(&sites, out);
    let config = relay(root, &file, source, out);
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

fn relay(
    root: &DeTable<'_>,
    file: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<Config> {
    let Some((key, value)) = root.get_key_value("relay") else {
        if !file.has("relay") {
            let remedy = r#"add [relay] with name = "fra1" and private_key_file = "/etc/psmc/fra1.key""#;
            out.push(Complaint::new("the file has no [relay], which says who this machine is", remedy));
        }
        return None;
    };
    let DeValue::Table(table) = value.get_ref() else {
        let complaint = Complaint::new("a file describes one relay", "write [relay], with single brackets");
        out.push(complaint.at(key.span()));
        return None;
    };
    let section = Section::open("[relay]", value.span(), table, RELAY_KEYS, out);
    let name = section.required::<Name>("name", "what you call this relay", out).map(Spanned::into_inner);
    let private_key = private_key(&section, source, out);
    let listen = section.optional("listen", out).map(Spanned::into_inner).unwrap_or_default();
    let coordinator = public_key(section.optional("coordinator", out));
    let workers = section.optional::<Workers>("workers", out).map_or(1, |workers| workers.into_inner().0);
    let max_sessions = sessions(section.optional("max_sessions", out), MAX_SESSIONS);
    let max_rate = section.optional::<Rate>("max_rate", out).map(Spanned::into_inner);
    let idle = section.optional::<IdleSeconds>("idle", out);
    let metrics = section.optional::<MetricsAddress>("metrics", out).map(|address| address.into_inner().0);
    let destinations = destinations(&section, out);
    let ipip = section.optional::<Switch>("ipip", out).is_none_or(|ipip| ipip.into_inner().0);
    let socket = section.optional::<SocketPath>("control_socket", out).map(Spanned::into_inner);
    let name = name?;
    Some(Config {
        control_socket: socket.unwrap_or_else(|| SocketPath::of_relay(&name)),
        name,
        private_key: private_key?,
        listen,
        coordinator,
        workers,
        max_sessions,
        max_rate,
        idle: idle.map_or(IDLE, |idle| Duration::from_secs(idle.into_inner().0.into())),
        destinations,
        ipip,
        metrics,
        sites: Vec::new(),
        tunnels: Vec::new(),
    })
}

fn destinations(section: &Section<'_>, out: &mut Vec<Complaint>) -> Networks {
    let Some(list) = section.list::<Network>("destinations", out) else { return Networks::default() };
    if section.is_empty_list("destinations") {
        let remedy = "name networks, or leave `destinations` out for every public address";
        out.push(Complaint::new("the relay could lead nowhere", remedy).at(list.span()));
    }
    Networks::Listed(list.into_inner().into_iter().map(|network| network.into_inner().0).collect())
}

fn private_key(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<PrivateKey> {
    let remedy = "and make that file with `umask 077; psmc genkey > FILE`";
    let file = section.required::<KeyFile>("private_key_file", remedy, out)?;
    let path = source.directory().join(&file.get_ref().0);
    read_key_file(&path).map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()
}

/// A site, and where what tells it from others stands.
struct SiteDraft {
    site: Site,
    name_at: Range<usize>,
    key_at: Range<usize>,
}

fn site(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<SiteDraft> {
    let section = Section::open("[[allow]]", place, table, SITE_KEYS, out);
    let name = section.required::<Name>("name", "what you call this site", out);
    let key = section.required::<PublicKeyText>("public_key", "what `psmc pubkey` prints there", out);
    let max_sessions = sessions(section.optional("max_sessions", out), MAX_SESSIONS_OF_SITE);
    let max_rate = section.optional("max_rate", out).map(Spanned::into_inner);
    let session_rate = section.optional("session_rate", out).map(Spanned::into_inner);
    let gateway = section.optional::<Switch>("gateway", out).is_some_and(|gateway| gateway.into_inner().0);
    let (name, key) = (name?, key?);
    let (name_at, key_at) = (name.span(), key.span());
    let (name, public_key) = (name.into_inner(), key.into_inner().0);
    let site = Site { name, public_key, max_sessions, max_rate, session_rate, gateway };
    Some(SiteDraft { site, name_at, key_at })
}

fn sessions(value: Option<Spanned<Sessions>>, default: u32) -> u32 {
    value.map_or(default, |sessions| sessions.into_inner().0)
}

fn public_key(value: Option<Spanned<PublicKeyText>>) -> Option<PublicKey> {
    value.map(|key| key.into_inner().0)
}

fn no_two_alike(sites: &[SiteDraft], out: &mut Vec<Complaint>) {
    for (index, this) in sites.iter().enumerate() {
        let earlier = || sites[..index].iter();
        if let Some(other) = earlier().find(|other| other.site.name == this.site.name) {
            let reason = format!("there are two sites {}", this.site.name);
            let complaint = Complaint::new(reason, "give one of them another name").at(this.name_at.clone());
            out.push(complaint.because_of(other.name_at.clone(), "the first"));
        }
        if let Some(other) = earlier().find(|other| other.site.public_key == this.site.public_key) {
            let remedy = "remove one of them, or correct its key";
            let complaint = Complaint::new("this key is another site's, too", remedy).at(this.key_at.clone());
            out.push(complaint.because_of(other.key_at.clone(), "here"));
        }
    }
}
