//! Two sites, joined by two links and by a relay, with datagrams in the tunnel.
//!
//! ```text
//!      ┌──── dsl, lte ────┐
//!     van                 hq
//!      └─ near ─ mid ─ far┘
//! ```

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use psmc_net::keys::PrivateKey;

use super::network::{Bed, Daemon, TRAFFIC, fill, write_private};
use crate::scenario::{HostId, Scenario, Traffic, TrafficKind};

pub(super) static TUNNEL: Bed = Bed {
    daemons: &[
        Daemon { name: "van", host: "van", command: "psmcd --config van.toml" },
        Daemon { name: "hq", host: "hq", command: "psmcd --config hq.toml" },
        Daemon { name: "relay", host: "mid", command: "psmc-relay --config relay.toml" },
    ],
    hosts: &["van", "hq", "mid"],
    links: LINKS,
    probes: &[],
    write: write_configurations,
};

const LINKS: &str = r#"
[[link]]
name = "dsl"
between = ["van", "hq"]
addresses = ["10.1.0.1/24", "10.1.0.2/24"]
rate = "50mbit"
delay = "10ms"

[[link]]
name = "lte"
between = ["van", "hq"]
addresses = ["10.2.0.1/24", "10.2.0.2/24"]
rate = "20mbit"
delay = "20ms"

[[link]]
name = "near"
between = ["van", "mid"]
addresses = ["10.3.0.1/24", "10.3.0.2/24"]
rate = "20mbit"
delay = "15ms"

[[link]]
name = "far"
between = ["mid", "hq"]
addresses = ["10.4.0.1/24", "10.4.0.2/24"]
rate = "100mbit"
delay = "5ms"
"#;

const VAN: &str = r#"[site]
name = "van"
private_key = "VAN_SECRET"
addresses = ["10.77.0.2/24"]
control_socket = "HERE/van.sock"
state_file = "HERE/state-van/state.json"

[[relay]]
name = "mid"
address = "10.3.0.2:5115"
public_key = "RELAY_PUBLIC"

[[peer]]
name = "hq"
public_key = "HQ_PUBLIC"

[[peer.path]]
name = "dsl"
interface = "dsl"
endpoint = "10.1.0.2:5115"

[[peer.path]]
name = "lte"
interface = "lte"
endpoint = "10.2.0.2:5115"
quota = { bytes = "1TB", every = "month", then = "backup" }

[[peer.path]]
name = "relay"
interface = "near"
relays = ["mid"]
endpoint = "10.4.0.2:5115"
"#;

const HQ: &str = r#"[site]
name = "hq"
private_key = "HQ_SECRET"
addresses = ["10.77.0.1/24"]
listen = 5115
control_socket = "HERE/hq.sock"
state_file = "HERE/state-hq/state.json"

[[peer]]
name = "van"
public_key = "VAN_PUBLIC"
"#;

const RELAY: &str = r#"[relay]
name = "mid"
private_key_file = "relay.key"
destinations = ["10.4.0.0/24"]
control_socket = "HERE/relay.sock"

[[allow]]
name = "van"
public_key = "VAN_PUBLIC"
"#;

/// How many datagrams a second each stream has whose losses count.
pub(super) const DATAGRAMS: u64 = 200;

/// What is in each, in bytes, and what that makes, in bits per second.
const PAYLOAD: usize = 100;
const RATE: u64 = DATAGRAMS * PAYLOAD as u64 * 8;

fn write_configurations(directory: &Path) -> io::Result<()> {
    for name in ["van", "hq"] {
        fs::create_dir(directory.join(format!("state-{name}")))?;
    }
    let [van, hq, relay] = [(); 3].map(|()| PrivateKey::generate());
    let words = [("VAN", &van), ("HQ", &hq), ("RELAY", &relay)];
    let files = [("van.toml", VAN), ("hq.toml", HQ), ("relay.toml", RELAY), ("relay.key", "RELAY_SECRET\n")];
    files
        .into_iter()
        .try_for_each(|(name, text)| write_private(&directory.join(name), &fill(text, directory, &words)))
}

/// The datagrams in the tunnel, which the text of a scenario cannot have: it knows no addresses but those of links and of tunnels of
/// its own.
pub(super) fn traffic(scenario: &Scenario) -> Vec<Traffic> {
    let hosts = ["van", "hq"].map(|name| scenario.hosts.iter().position(|host| host.name == name));
    let ([Some(van), Some(hq)], end) = (hosts, scenario.duration) else { return Vec::new() };
    vec![
        udp("up", [van, hq], [10, 77, 0, 1], (RATE, PAYLOAD), end),
        udp("down", [hq, van], [10, 77, 0, 2], (RATE, PAYLOAD), end),
        // What the nearest link does not carry when it has a tenth of its rate.
        udp("load", [hq, van], [10, 77, 0, 2], (8_000_000, 1200), end),
    ]
}

fn udp(
    name: &str,
    [from, to]: [usize; 2],
    address: [u8; 4],
    (rate, payload): (u64, usize),
    stop: Duration,
) -> Traffic {
    Traffic {
        name: name.to_owned(),
        kind: TrafficKind::Udp { rate, payload, adaptive: false },
        from: HostId(from),
        to: HostId(to),
        address: Ipv4Addr::from(address).into(),
        start: TRAFFIC,
        stop,
    }
}
