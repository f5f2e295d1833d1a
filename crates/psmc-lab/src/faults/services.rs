//! The daemons that are not in the way of packets, on one host: a name server, a coordinator, a guard, a front, and an agent that sheds
//! load. Another host asks those that serve others; those that do not are asked on their control sockets.

use std::fs;
use std::io;
use std::path::Path;

use psmc_net::keys::PrivateKey;

use super::network::{Bed, Daemon, Probe, fill, write_private};

pub(super) static SERVICES: Bed = Bed {
    daemons: &[
        Daemon { name: "dns", host: "server", command: "psmc-dns serve dns.toml" },
        Daemon { name: "coordinator", host: "server", command: "psmc-coordinator --config coordinator.toml" },
        Daemon { name: "guard", host: "server", command: "psmc-guard --config guard.toml" },
        Daemon { name: "front", host: "server", command: "psmc-front --config front.toml" },
        Daemon { name: "shed", host: "server", command: "psmc-shed --config shed.toml" },
    ],
    hosts: &["server", "client"],
    links: LINKS,
    probes: &[
        Probe { daemon: "dns", host: "client", command: QUESTION },
        Probe {
            daemon: "coordinator",
            host: "server",
            command: "psmc-coordinator status --socket coordinator.sock",
        },
        Probe { daemon: "guard", host: "server", command: "psmc-guard status --socket guard.sock" },
        Probe { daemon: "front", host: "client", command: REQUEST },
        Probe { daemon: "shed", host: "server", command: "psmc-shed status --socket shed.sock" },
    ],
    write: write_configurations,
};

/// Who is there to be asked by strangers, and at which port of TCP.
pub(super) const PORTS: [(&str, u16); 4] =
    [("dns", 53), ("coordinator", 5117), ("front", 8080), ("shed", 5118)];

/// The address of the host they run on.
pub(super) const ADDRESS: &str = "10.5.0.2";

/// Asks by TCP for the address of `www.example.com`: an answer says that it is one (its first byte of flags begins with 1).
const QUESTION: &str = r#"exec 3<> /dev/tcp/10.5.0.2/53 && printf "\0\41\22\64\1\0\0\1\0\0\0\0\0\0\3www\7example\3com\0\0\1\0\1" >&3 && [ "$(timeout 1 head -c 5 <&3 | od -An -tu1 -j4)" -ge 128 ]"#;

/// Asks for what the server behind has: an answer is one of that.
const REQUEST: &str = r#"exec 3<> /dev/tcp/10.5.0.2/8080 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && read -r -t 1 line <&3 && [[ $line == *" 200 "* ]]"#;

const LINKS: &str = r#"
[[link]]
name = "lan"
between = ["client", "server"]
addresses = ["10.5.0.1/24", "10.5.0.2/24"]
rate = "100mbit"
delay = "1ms"
"#;

const DNS: &str = r#"[server]
name = "ns1"
listen = ["10.5.0.2"]
database = "HERE/state-dns/zones.db"
control_socket = "HERE/dns.sock"

[[key]]
file = "up.key"

[[zone]]
name = "example.com"
file = "zone"
update = ["up"]
"#;

const ZONE: &str = "$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 10.5.0.2\nwww IN A 10.5.0.2\n";

/// Its relay does not run: nothing here is attacked.
const COORDINATOR: &str = r#"[coordinator]
name = "co1"
private_key_file = "coordinator.key"
listen = "10.5.0.2:5117"
store = "sqlite:HERE/state-coordinator/state.db"
control_socket = "HERE/coordinator.sock"

[[group]]
name = "public"

[[service]]
name = "www.example.com"
key_file = "service.key"
gateway = "GUARD_PUBLIC"
servers = ["10.5.0.2"]
tsig_key_file = "up.key"

[[relay]]
name = "far"
address = "10.5.0.1:5115"
public_key = "SHED_PUBLIC"
"#;

const GUARD: &str = r#"[guard]
name = "hq"
private_key_file = "guard.key"
interfaces = ["lan"]
control_socket = "HERE/guard.sock"

[[coordinator]]
address = "10.5.0.2:5117"
public_key = "COORDINATOR_PUBLIC"

[[service]]
name = "www.example.com"
targets = ["10.5.0.2"]
"#;

/// What serves behind it are its own metrics, so that no other daemon's fault is taken for its own.
const FRONT: &str = r#"[front]
name = "web"
control_socket = "HERE/front.sock"
metrics = "10.5.0.2:9119"

[[listener]]
address = "10.5.0.2:8080"

[[upstream]]
servers = ["10.5.0.2:9119"]

[[class]]
name = "all"
"#;

const SHED: &str = r#"[shed]
name = "edge"
private_key_file = "shed.key"
control_socket = "HERE/shed.sock"

[router]
listen = 5118

[[server]]
name = "hq"
public_key = "GUARD_PUBLIC"
prefixes = ["203.0.113.0/24"]
"#;

fn write_configurations(directory: &Path) -> io::Result<()> {
    for name in ["dns", "coordinator"] {
        fs::create_dir(directory.join(format!("state-{name}")))?;
    }
    let [coordinator, service, guard, shed, tsig] = [(); 5].map(|()| PrivateKey::generate());
    let keys = [
        ("COORDINATOR", &coordinator),
        ("SERVICE", &service),
        ("GUARD", &guard),
        ("SHED", &shed),
        ("TSIG", &tsig),
    ];
    let files = [
        ("dns.toml", DNS),
        ("zone", ZONE),
        ("up.key", "hmac-sha256:up:TSIG_SECRET\n"),
        ("coordinator.toml", COORDINATOR),
        ("coordinator.key", "COORDINATOR_SECRET\n"),
        ("service.key", "SERVICE_SECRET\n"),
        ("guard.toml", GUARD),
        ("guard.key", "GUARD_SECRET\n"),
        ("front.toml", FRONT),
        ("shed.toml", SHED),
        ("shed.key", "SHED_SECRET\n"),
    ];
    files
        .into_iter()
        .try_for_each(|(name, text)| write_private(&directory.join(name), &fill(text, directory, &keys)))
}
