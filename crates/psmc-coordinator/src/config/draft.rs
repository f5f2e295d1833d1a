//! Reading the file: its top, and what the coordinator itself is told.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmc_toml::{
    Complaint, FilePath, KeyFile, Listen, Name, Section, SocketPath, Source, ValueError, Whole, describe,
    read_key_file, remedy_for,
};
use toml::Spanned;
use toml::de::DeTable;

use super::value::LocalAddress;
use super::{Config, EVERYONE, Group, Hook, Leases, StoreAddress, etcd, people, service};

const FILE_KEYS: &[&str] =
    &["coordinator", "etcd", "suricata", "leases", "relay", "group", "client", "service"];

const COORDINATOR_KEYS: &[&str] =
    &["name", "private_key_file", "listen", "store", "hook", "hook_token_file", "metrics", "control_socket"];

/// Where it listens where the file says nothing: beside the sites' 5115.
const PORT: &str = "5117";

/// The directory of control sockets.
const RUN_DIR: &str = "/run/psmc-coordinator";

/// The directory of databases.
const STATE_DIR: &str = "/var/lib/psmc-coordinator";

/// The shortest token in bytes: shorter ones can be tried out.
const MIN_TOKEN_LEN: usize = 16;

/// How much of a token's file is read, in bytes: more is no token.
const MAX_TOKEN_FILE: u64 = 1024;

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
    let eve_file = match file.table("suricata", out) {
        Some((place, table)) => Some(eve_file(place, table, source, out)?),
        None => None,
    };
    let leases = match file.table("leases", out) {
        Some((place, table)) => leases(place, table, out),
        None => LEASES,
    };
    let etcd_tls = match file.table("etcd", out) {
        Some((place, table)) => Some(etcd::tls(place, table, source, out)?),
        None => None,
    };
    if !file.has("coordinator") {
        let remedy = "add [coordinator] with name = \"co1\" and private_key_file = \"co1.key\"";
        out.push(Complaint::new("the file has no [coordinator], which says who it is", remedy));
    }
    let (place, table) = file.table("coordinator", out)?;
    let section = Section::open("[coordinator]", place, table, COORDINATOR_KEYS, out);
    let name = section.required::<Name>("name", "what you call this coordinator", out);
    let key = private_key(&section, "private_key_file", source, out);
    let listen = section.optional::<Listen>("listen", out).map(Spanned::into_inner);
    let store = section.optional::<StoreAddress>("store", out).map(Spanned::into_inner);
    let hook = hook(&section, source, out);
    let metrics = section.optional::<LocalAddress>("metrics", out).map(|address| address.into_inner().0);
    let socket = section.optional::<SocketPath>("control_socket", out).map(Spanned::into_inner);
    let name = name?.into_inner();
    let usual_store = || StoreAddress::Sqlite(format!("{STATE_DIR}/{name}.db").into());
    Some(Config {
        private_key: Arc::new(key?),
        listen: listen.or_else(|| PORT.parse().ok())?,
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
};

fn leases(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Leases {
    let section = Section::open("[leases]", place, table, &["gateway", "hook", "suricata", "command"], out);
    let mut lease = |key, usual| {
        let seconds = section.optional::<Whole<10, 604_800>>(key, out);
        seconds.map_or(usual, |seconds| Duration::from_secs(seconds.into_inner().0.into()))
    };
    Leases {
        gateway: lease("gateway", LEASES.gateway),
        hook: lease("hook", LEASES.hook),
        suricata: lease("suricata", LEASES.suricata),
        command: lease("command", LEASES.command),
    }
}

/// The same with a path that is taken from the file's directory.
fn beside(source: &Source, store: StoreAddress) -> StoreAddress {
    match store {
        StoreAddress::Sqlite(path) => StoreAddress::Sqlite(source.directory().join(path)),
        StoreAddress::Etcd { .. } => store,
    }
}

/// The key in the file that `key` names.
pub(super) fn private_key(
    section: &Section<'_>,
    key: &str,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<PrivateKey> {
    let remedy = "and make that file with `umask 077; psmc genkey > FILE`";
    let file = section.required::<KeyFile>(key, remedy, out)?;
    let path = source.directory().join(&file.get_ref().0);
    read_key_file(&path).map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()
}

/// `None` if there are complaints.
fn hook(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Option<Hook>> {
    let address = section.optional::<LocalAddress>("hook", out);
    let file = section.optional::<FilePath>("hook_token_file", out);
    match (address, file) {
        (None, None) => Some(None),
        (Some(address), Some(file)) => {
            let token = read_token(&source.directory().join(&file.get_ref().0));
            let token = token.map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()?;
            Some(Some(Hook { address: address.into_inner().0, token }))
        }
        (Some(address), None) => {
            let remedy = "add hook_token_file = \"hook.token\", a file with a long random word, such as \
                          `openssl rand -hex 32` prints";
            out.push(
                Complaint::new("anybody could raise alerts: the hook has no token", remedy)
                    .at(address.span()),
            );
            None
        }
        (None, Some(file)) => {
            let remedy = "add hook = \"127.0.0.1:8117\", or remove it";
            out.push(Complaint::new("there is a token, but no hook that takes it", remedy).at(file.span()));
            None
        }
    }
}

fn read_token(path: &Path) -> Result<String, ValueError> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        ValueError::new(format!("cannot read the token {shown}: {}", describe(&error)), remedy_for(&error))
    };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        let reason = format!("every user can get at the token {shown} (its mode is {mode:04o})");
        return Err(ValueError::new(reason, format!("run `chmod o= {shown}`")));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_FILE).read_to_string(&mut text).map_err(unreadable)?;
    let token = text.trim();
    if token.len() < MIN_TOKEN_LEN || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(ValueError::new(
            format!("the token {shown} is not one word of {MIN_TOKEN_LEN} characters or more"),
            format!("make another: `openssl rand -hex 32 > {shown}`"),
        ));
    }
    Ok(token.to_owned())
}

fn eve_file(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<std::path::PathBuf> {
    let section = Section::open("[suricata]", place, table, &["eve_file"], out);
    let file = section.required::<FilePath>("eve_file", "the file of its eve-log", out)?;
    Some(source.directory().join(file.into_inner().0))
}
