//! Reading the file: its top, and what the coordinator itself is told.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use psmc_toml::{Complaint, FILE, Kind, Listen, NAME, Port, Section, Source, read_token_file, whole};
use toml::de::DeTable;

use super::value::{ETCD_KEYS, LOCAL_ADDRESS, SOCKET, STORE, etcd_tls};
use super::{Config, EVERYONE, Group, Hook, Leases, StoreAddress, people, service};

const FILE_KEYS: &[&str] =
    &["coordinator", "etcd", "suricata", "leases", "relay", "group", "client", "service"];

const COORDINATOR_KEYS: &[&str] =
    &["name", "private_key_file", "listen", "store", "hook", "hook_token_file", "metrics", "control_socket"];

/// Where it listens where the file says nothing: beside the sites' 5115.
const PORT: Port = Port::new(NonZeroU16::new(5117).expect("5117 is not 0"));

const LISTEN: Kind<Listen> = Kind::text_or_number("5117", |text| Listen::parse(text, PORT));

/// The directory of control sockets.
const RUN_DIR: &str = "/run/psmc-coordinator";

/// The directory of databases.
const STATE_DIR: &str = "/var/lib/psmc-coordinator";

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, FILE_KEYS, out);
    let relays = people::relays(&file, out);
    let mut groups = people::groups(&file, source, out);
    if !file.has("group") {
        groups = Some(vec![Group { name: EVERYONE.to_owned(), key: None }]);
    }
    let known = groups.clone().unwrap_or_default();
    let clients = people::clients(&file, &known, out);
    let services = service::services(&file, source, &known, out);
    let eve_file = match file.section("suricata", "[suricata]", &["eve_file"], out) {
        Some(section) => {
            let kind = FILE.like("\"/var/log/suricata/eve.json\"");
            Some(source.beside(section.required("eve_file", kind, "the file of its eve-log", out)?))
        }
        None => None,
    };
    let leases = file.section("leases", "[leases]", LEASE_KEYS, out);
    let leases = leases.map_or(LEASES, |section| leases_in(&section, out));
    let etcd_tls = match file.section("etcd", "[etcd]", ETCD_KEYS, out) {
        Some(section) => Some(etcd_tls(&section, source, out)?),
        None => None,
    };
    if !file.has("coordinator") {
        let remedy = "add [coordinator] with name = \"co1\" and private_key_file = \"co1.key\"";
        out.push(Complaint::new("the file has no [coordinator] section", remedy));
    }
    let section = file.section("coordinator", "[coordinator]", COORDINATOR_KEYS, out)?;
    let name = section.required("name", NAME, "what you call this coordinator", out);
    let key = section.private_key("private_key_file", "\"/etc/psmc-coordinator/co1.key\"", source, out);
    let listen = section.optional("listen", LISTEN, out);
    let store = section.optional("store", STORE, out);
    let hook = hook(&section, source, out);
    let metrics = section.optional("metrics", LOCAL_ADDRESS, out);
    let socket = section.optional("control_socket", SOCKET, out);
    let name = name?;
    let usual_store = || StoreAddress::Sqlite(format!("{STATE_DIR}/{name}.db").into());
    Some(Config {
        private_key: Arc::new(key?),
        listen: listen.unwrap_or(Listen { address: None, port: PORT }),
        store: beside(source, store.unwrap_or_else(usual_store)),
        etcd_tls,
        hook: hook?,
        metrics,
        control_socket: socket.or_else(|| format!("{RUN_DIR}/{name}.sock").parse().ok())?,
        eve_file,
        leases,
        relays: relays?,
        groups: groups?,
        clients: clients?,
        services: services?,
        name,
    })
}

/// For how long alerts count where the file says nothing. The line to a guard may be cut for as long as the attack lasts;
/// of webhooks many are sent once only; Suricata repeats what goes on.
const LEASES: Leases = Leases {
    gateway: Duration::from_hours(1),
    hook: Duration::from_hours(24),
    suricata: Duration::from_mins(1),
    command: Duration::from_hours(1),
    // A watcher says every twenty seconds what goes on.
    watcher: Duration::from_mins(1),
};

const LEASE_KEYS: &[&str] = &["gateway", "hook", "suricata", "command", "watcher"];

fn leases_in(section: &Section<'_>, out: &mut Vec<Complaint>) -> Leases {
    const SECONDS: Kind<u32> = Kind::number("10", |text| whole(text, 10..=604_800));
    let mut lease = |key, usual| {
        section.optional(key, SECONDS, out).map_or(usual, |seconds| Duration::from_secs(seconds.into()))
    };
    Leases {
        gateway: lease("gateway", LEASES.gateway),
        hook: lease("hook", LEASES.hook),
        suricata: lease("suricata", LEASES.suricata),
        command: lease("command", LEASES.command),
        watcher: lease("watcher", LEASES.watcher),
    }
}

/// The same with a path that is taken from the file's directory.
fn beside(source: &Source, store: StoreAddress) -> StoreAddress {
    match store {
        StoreAddress::Sqlite(path) => StoreAddress::Sqlite(source.beside(path)),
        StoreAddress::Etcd { .. } => store,
    }
}

/// `None` if there are complaints.
fn hook(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Option<Hook>> {
    let address = section.optional_at("hook", LOCAL_ADDRESS, out);
    let file = section.optional_at("hook_token_file", FILE.like("\"/etc/psmc-coordinator/hook.token\""), out);
    match (address, file) {
        (None, None) => Some(None),
        (Some(address), Some(file)) => {
            let token = source.read_beside(&file, read_token_file, out)?;
            Some(Some(Hook { address: address.into_inner(), token }))
        }
        (Some(address), None) => {
            let remedy = "add hook_token_file = \"hook.token\", a file with a long random word, such as \
                          `openssl rand -hex 32` prints";
            out.push(
                Complaint::new("the hook has no token: anybody could raise alerts", remedy)
                    .at(address.span()),
            );
            None
        }
        (None, Some(file)) => {
            let remedy = "add hook = \"127.0.0.1:8117\", or remove it";
            out.push(Complaint::new("hook_token_file is set, but hook is not", remedy).at(file.span()));
            None
        }
    }
}
