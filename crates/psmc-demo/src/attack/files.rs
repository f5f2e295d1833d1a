//! The configuration files, as users would write them.

use std::fmt::Write;
use std::path::Path;

use psmc_net::keys::{PrivateKey, PublicKey};

use super::network::{CLIENTS, LINES, OPS, RELAYS, WWW, line_address, relay_address};

/// Of psmcd, and of relays.
pub(super) const PORT: u16 = 5115;

/// Of the coordinator.
const SIGNAL_PORT: u16 = 5117;

/// Where a client's resolver listens.
pub(super) const RESOLVER: &str = "127.0.0.54";

/// All keys there are.
pub(super) struct Keys {
    pub(super) site: PrivateKey,
    pub(super) guard: PrivateKey,
    pub(super) coordinator: PrivateKey,
    pub(super) relays: [PrivateKey; RELAYS.len()],
    pub(super) clients: [PrivateKey; 2],
    /// That of DNS updates (RFC 8945).
    pub(super) update: String,
}

impl Keys {
    pub(super) fn generate() -> Self {
        let key = PrivateKey::generate;
        Self {
            site: key(),
            guard: key(),
            coordinator: key(),
            relays: RELAYS.map(|_| key()),
            clients: [key(), key()],
            update: format!("hmac-sha256:up:{}", key().to_base64().as_str()),
        }
    }

    /// The files that hold them.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let relays = RELAYS.into_iter().zip(&self.relays);
        let clients = CLIENTS.into_iter().zip(&self.clients);
        let others = [("site", &self.site), ("guard", &self.guard), ("coordinator", &self.coordinator)];
        let keys = relays.chain(clients).chain(others);
        let keys = keys.map(|(name, key)| (format!("{name}.key"), key.to_base64().as_str().to_owned()));
        keys.chain([("up.key".to_owned(), self.update.clone())])
    }
}

/// A relay's: it serves the client that only knows DNS, and whoever the coordinator sends.
pub(super) fn relay(name: &str, keys: &Keys, directory: &Path) -> String {
    let socket = socket(directory, name);
    let (coordinator, home) = (keys.coordinator.public(), keys.clients[0].public());
    format!(
        "[relay]\nname = {name:?}\nprivate_key_file = \"{name}.key\"\nlisten = {PORT}\ncoordinator = \"{coordinator}\"\n\
         destinations = [\"198.18.0.0/15\"]\n{socket}\n[[allow]]\nname = {:?}\npublic_key = \"{home}\"\n",
        CLIENTS[0]
    )
}

/// That of the service's site, to which the guard adds peers and relays.
pub(super) fn site(directory: &Path) -> String {
    let socket = socket(directory, "site");
    format!(
        "[site]\nname = \"site\"\nprivate_key_file = \"site.key\"\naddresses = [\"10.77.0.1/24\"]\nlisten = {PORT}\n{socket}"
    )
}

/// That of a client's site: it knows the service's direct address, and no relay.
pub(super) fn client(place: usize, service: &str, site: &PublicKey, directory: &Path) -> String {
    let (name, host) = (CLIENTS[place], 2 + place);
    let (socket, direct) = (socket(directory, name), line_address(0));
    format!(
        "[site]\nname = {name:?}\nprivate_key_file = \"{name}.key\"\naddresses = [\"10.77.0.{host}/24\"]\nlisten = {PORT}\n\
         {socket}\n[[peer]]\nname = {:?}\npublic_key = \"{site}\"\nallowed_ips = [\"{WWW}/32\", \"10.77.0.1/32\"]\n\
         routes = \"prefer-direct\"\n\n[[peer.path]]\nname = \"direct\"\nendpoint = \"{direct}:{PORT}\"\n",
        label(service)
    )
}

/// That of a client's resolver. The second client is told by the coordinator as well.
pub(super) fn resolver(place: usize, service: &str, keys: &Keys, directory: &Path) -> String {
    let client = CLIENTS[place];
    let name = format!("{client}-dns");
    let (socket, path) = (socket(directory, &name), directory.display());
    let mut text = format!(
        "[resolver]\nname = {name:?}\nlisten = [\"{RESOLVER}\"]\nupstream = [\"{OPS}\"]\nstate_directory = {name:?}\n{socket}\n\
         [[service]]\nname = {service:?}\npublic_key = \"{}\"\npeer = {:?}\nsocket = '''{path}/{client}.sock'''\n",
        keys.site.public(),
        label(service)
    );
    if place > 0 {
        let coordinator = keys.coordinator.public();
        // To write to a text cannot fail.
        let _ = write!(
            text,
            "\n[coordinator]\naddress = \"{OPS}:{SIGNAL_PORT}\"\npublic_key = \"{coordinator}\"\nprivate_key_file = \"{client}.key\"\n"
        );
    }
    text
}

/// That of the guard, which learns fast: a demonstration is short.
pub(super) fn guard(service: &str, keys: &Keys, directory: &Path) -> String {
    let (socket, path) = (socket(directory, "guard"), directory.display());
    let coordinator = keys.coordinator.public();
    let mut text = format!(
        "[guard]\nname = \"guard\"\nprivate_key_file = \"guard.key\"\ninterfaces = [{:?}]\ngateway = '''{path}/site.sock'''\n\
         signal_interface = {:?}\nlearning = 5\ncalm = 3\nstate_file = \"guard.json\"\n{socket}\n\
         [[coordinator]]\naddress = \"{OPS}:{SIGNAL_PORT}\"\npublic_key = \"{coordinator}\"\n\n\
         [[service]]\nname = {service:?}\ntargets = [\"{WWW}\", \"{}\"]\n",
        LINES[0],
        LINES[1],
        line_address(0)
    );
    for (place, line) in LINES.iter().enumerate().skip(1) {
        let _ = write!(text, "\n[[line]]\ninterface = {line:?}\naddress = \"{}\"\n", line_address(place));
    }
    text
}

/// The coordinator's, which knows everybody.
pub(super) fn coordinator(service: &str, keys: &Keys, directory: &Path) -> String {
    let socket = socket(directory, "coordinator");
    let mut text = format!(
        "[coordinator]\nname = \"coordinator\"\nprivate_key_file = \"coordinator.key\"\nlisten = {SIGNAL_PORT}\n\
         store = \"sqlite:coordinator.db\"\n{socket}\n\
         [[service]]\nname = {service:?}\nkey_file = \"site.key\"\ngateway = \"{}\"\naddresses = [\"{WWW}\"]\n\
         servers = [\"{OPS}\"]\ntsig_key_file = \"up.key\"\nrelays_per_group = 2\nlifetime = 60\nttl = 1\nhold = 2\n",
        keys.guard.public()
    );
    for ((place, name), key) in RELAYS.iter().enumerate().zip(&keys.relays) {
        let _ = write!(
            text,
            "\n[[relay]]\nname = {name:?}\naddress = \"{}:{PORT}\"\npublic_key = \"{}\"\ncapacity = \"100mbit\"\n",
            relay_address(place),
            key.public()
        );
    }
    for ((host, name), key) in (2..).zip(CLIENTS).zip(&keys.clients) {
        let key = key.public();
        let _ = write!(
            text,
            "\n[[client]]\nname = {name:?}\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.{host}/32\"]\n"
        );
    }
    text
}

/// That of the name server.
pub(super) fn name_server(directory: &Path) -> String {
    let socket = socket(directory, "name-server");
    format!(
        "[server]\nname = \"ns1\"\nlisten = [\"{OPS}\"]\ndatabase = \"zones.db\"\n{socket}\n[[key]]\nfile = \"up.key\"\n\n\
         [[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\nupdate = [\"up\"]\n"
    )
}

/// The zone of the service, which is one of example.com.
pub(super) fn zone(service: &str) -> String {
    format!(
        "$ORIGIN example.com.\n$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 1\n@ IN NS ns1\nns1 IN A {OPS}\n\
         {service}. IN A {WWW}\n"
    )
}

/// What a service is called among peers.
fn label(service: &str) -> &str {
    service.split('.').next().unwrap_or(service)
}

fn socket(directory: &Path, name: &str) -> String {
    // TOML has paths in its literal texts as they are.
    format!("control_socket = '''{}/{name}.sock'''\n", directory.display())
}
