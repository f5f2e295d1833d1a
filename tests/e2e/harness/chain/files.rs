//! The configurations of all programs, as users would write them.

use std::path::Path;

use psmc_net::keys::{PrivateKey, PublicKey};

use super::{BUS_END, CLIENTS, HIDDEN, KNOWN, NAMES, OPS, RELAYS, SERVICE, address, relay_number};
use crate::harness::plan::{End, Family, HQ, PORT, VAN};

/// Where the coordinator takes connections.
pub(super) const SIGNAL_PORT: u16 = 5117;

/// Where a client's resolver listens.
pub(super) const RESOLVER: &str = "127.0.0.54";

/// All keys but those of the sites.
pub(super) struct Keys {
    pub(super) guard: PrivateKey,
    pub(super) coordinator: PrivateKey,
    pub(super) relays: [PrivateKey; RELAYS.len()],
    /// Of a client that only listens to what the coordinator says.
    pub(super) listener: PrivateKey,
    /// That of DNS updates (RFC 8945).
    pub(super) update: String,
}

impl Keys {
    pub(super) fn generate() -> Self {
        let key = PrivateKey::generate;
        Self {
            guard: key(),
            coordinator: key(),
            relays: [key(), key(), key(), key()],
            listener: key(),
            update: format!("hmac-sha256:up:{}", key().to_base64().as_str()),
        }
    }
}

/// A relay's: it serves the client that only knows DNS, and whoever the coordinator sends.
pub(super) fn relay(name: &str, keys: &Keys, bus: &PublicKey, directory: &Path) -> String {
    let coordinator = keys.coordinator.public();
    format!(
        "[relay]\nname = \"{name}\"\nprivate_key_file = \"{name}.key\"\nlisten = {PORT}\ncoordinator = \"{coordinator}\"\n\
         destinations = [\"198.18.0.0/15\"]\n{}\n[[allow]]\nname = \"{}\"\npublic_key = \"{bus}\"\n",
        socket(directory, name),
        CLIENTS[1]
    )
}

/// That of the headquarters, to which the guard adds peers and relays.
pub(super) fn headquarters(key: &PrivateKey, directory: &Path) -> String {
    site(HQ, key, directory)
}

/// That of a client's site: it knows the known line, and no relay.
pub(super) fn client(end: End, key: &PrivateKey, hq: &PublicKey, directory: &Path) -> String {
    format!(
        "{}[[peer]]\nname = \"hq\"\npublic_key = \"{hq}\"\nallowed_ips = [\"{}/32\"]\nroutes = \"prefer-indirect\"\n\
         [[peer.path]]\nname = \"direct\"\nendpoint = \"{}:{PORT}\"\n",
        site(end, key, directory),
        HQ.inner(Family::V4),
        address(KNOWN)
    )
}

fn site(end: End, key: &PrivateKey, directory: &Path) -> String {
    format!(
        "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"{}/24\"]\nlisten = {PORT}\n{}",
        end.name,
        key.to_base64().as_str(),
        end.inner(Family::V4),
        socket(directory, end.name)
    )
}

/// That of a client's resolver. The first client is told by the coordinator as well.
pub(super) fn resolver(end: End, keys: &Keys, hq: &PublicKey, directory: &Path) -> String {
    let name = format!("{}-dns", end.name);
    let service = format!(
        "[resolver]\nname = \"{name}\"\nlisten = [\"{RESOLVER}\"]\nupstream = [\"{}\"]\nstate_directory = \"{name}\"\n{}\
         [[service]]\nname = \"{SERVICE}\"\npublic_key = \"{hq}\"\npeer = \"hq\"\nsocket = '{}'\n",
        address(OPS),
        socket(directory, &name),
        directory.join(end.name).with_extension("sock").display()
    );
    let coordinator = format!(
        "[coordinator]\naddress = \"{}:{SIGNAL_PORT}\"\npublic_key = \"{}\"\nprivate_key_file = \"{}.key\"\n",
        address(OPS),
        keys.coordinator.public(),
        end.name
    );
    if end.name == VAN.name { service + &coordinator } else { service }
}

/// That of the guard.
pub(super) fn guard(keys: &Keys, directory: &Path) -> String {
    let (coordinator, known, hidden) = (keys.coordinator.public(), address(KNOWN), address(HIDDEN));
    format!(
        "[guard]\nname = \"guard\"\nprivate_key_file = \"guard.key\"\ninterfaces = [\"{known_line}\"]\ngateway = '{}'\n\
         signal_interface = \"{hidden_line}\"\nstate_file = \"guard.json\"\n{}\
         [[coordinator]]\naddress = \"{}:{SIGNAL_PORT}\"\npublic_key = \"{coordinator}\"\n\
         [[service]]\nname = \"{SERVICE}\"\ntargets = [\"{known}\"]\n\
         [[line]]\ninterface = \"{hidden_line}\"\naddress = \"{hidden}\"\n",
        directory.join(HQ.name).with_extension("sock").display(),
        socket(directory, "guard"),
        address(OPS),
        known_line = NAMES[0],
        hidden_line = NAMES[1]
    )
}

/// The coordinator's, which knows everybody.
pub(super) fn coordinator(keys: &Keys, clients: [&PublicKey; CLIENTS.len()], directory: &Path) -> String {
    let mut text = format!(
        "[coordinator]\nname = \"coordinator\"\nprivate_key_file = \"coordinator.key\"\nlisten = {SIGNAL_PORT}\n\
         store = \"sqlite:coordinator.db\"\n{}\
         [[service]]\nname = \"{SERVICE}\"\nkey_file = \"hq.key\"\ngateway = \"{}\"\naddresses = [\"{}\"]\n\
         servers = [\"{}\"]\ntsig_key_file = \"up.key\"\nrelays_per_group = 2\nlifetime = 60\nttl = 1\n",
        socket(directory, "coordinator"),
        keys.guard.public(),
        HQ.inner(Family::V4),
        address(OPS)
    );
    for (place, (name, key)) in RELAYS.iter().zip(&keys.relays).enumerate() {
        let (address, key) = (address(relay_number(place)), key.public());
        text += &format!(
            "[[relay]]\nname = \"{name}\"\naddress = \"{address}:{PORT}\"\npublic_key = \"{key}\"\n"
        );
    }
    let listener = keys.listener.public();
    let ends = [(VAN.name, clients[0], VAN.inside), (BUS_END.name, clients[1], BUS_END.inside)];
    for (name, key, host) in ends.into_iter().chain([("listener", &listener, 9)]) {
        text += &format!(
            "[[client]]\nname = \"{name}\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.{host}/32\"]\n"
        );
    }
    text
}

/// That of the name server.
pub(super) fn name_server(directory: &Path) -> String {
    format!(
        "[server]\nname = \"ns1\"\nlisten = [\"{}\"]\ndatabase = \"zones.db\"\n{}[[key]]\nfile = \"up.key\"\n\
         [[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\nupdate = [\"up\"]\n",
        address(OPS),
        socket(directory, "name-server")
    )
}

/// The zone of the service.
pub(super) fn zone() -> String {
    format!(
        "$ORIGIN example.com.\n$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 1\n@ IN NS ns1\nns1 IN A {}\n\
         {SERVICE}. IN A {}\n",
        address(OPS),
        HQ.inner(Family::V4)
    )
}

fn socket(directory: &Path, name: &str) -> String {
    format!("control_socket = '{}'\n", directory.join(name).with_extension("sock").display())
}
