//! A client, a target with two gateways, one of which is attacked, and a proxy before the other; and what the relay and the
//! daemons are told.
//!
//! ```text
//! attacker ──── internet ═══ main, 49 ms ═══ target
//! client ──────────┘ └── proxy ═══ alternate, 87 ms ═══┘
//! ```

use std::fmt::Write;

use psmc_net::keys::PrivateKey;

use super::{Kind, TRANSFERS, Test};
use crate::experiment::bed::raised_by;

/// Which way the traffic takes, and what else there is.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiment::psmc) struct Network {
    pub(in crate::experiment::psmc) route: Route,
    /// UDP to the target through its main gateway, in Mb/s, from [`ATTACK_FROM`] on.
    pub(in crate::experiment::psmc) attack: Option<u32>,
    /// Through the relay, of which the first is used.
    pub(in crate::experiment::psmc) tunnels: u32,
    /// How often links are looked at.
    pub(in crate::experiment::psmc) sample_ms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiment::psmc) enum Route {
    /// Through the main gateway.
    Direct,
    /// By the proxy, which forwards as any router; there is no main gateway.
    Detour,
    /// By the proxy as a relay.
    Relayed,
}

/// Of both gateways, in bit/s, as a flow of full-size packets has it.
const RATE: u64 = 10_000_000;

/// Bytes that a relay needs in front of each datagram.
const HOP: u32 = 20;

/// The largest packet of a tunnel through a relay, over links that take 1500 bytes.
const TUNNEL_MTU: u32 = 1413;

/// Bytes of payload of a ping: the usual ones, and those for which a ping of the usual ones needs as long as it does in the
/// tunnel, with 87 bytes of headers over a link that is faster by what they are of a full-size packet.
const PING: u32 = 56;
const PING_AS_IN_TUNNEL: u32 = 133;

/// Whether the slow start of CUBIC ends before it overshoots (HyStart) is a matter of chance: one acknowledgement that is a
/// millisecond late decides it, and a transfer of 500 kB ends a tenth sooner or later.
const RENO: &str = "congestion_control = \"reno\"\n";

/// When an attack begins, as a share of the run: just before the first test.
const ATTACK_FROM: f64 = 0.08;

impl Network {
    /// A calm one, with a tunnel if it goes through the relay.
    pub(in crate::experiment::psmc) fn by(route: Route) -> Self {
        Self { route, attack: None, tunnels: 1, sample_ms: 100 }
    }

    /// As [`Setup::run`](crate::experiment::Setup::run) takes it.
    pub(in crate::experiment::psmc) fn scenario(&self, seconds: u32, tests: &[Test]) -> String {
        let mut text = format!("duration = \"{seconds}s\"\nsample = \"{}ms\"\n\n{LINKS}", self.sample_ms);
        let (alternate, main) = match self.route {
            Route::Relayed => (raised_by(HOP, RATE), true),
            Route::Direct => (RATE, true),
            Route::Detour => (RATE, false),
        };
        text += &format!("rate = \"{alternate}bit\"\n\n");
        if main {
            text += &format!("{MAIN}rate = \"{RATE}bit\"\n\n");
        }
        match self.route {
            Route::Relayed => text += &self.programs(),
            Route::Detour => text += &smaller_packets(),
            Route::Direct => {}
        }
        text += &tests.iter().map(|test| self.traffic(test, seconds)).collect::<String>();
        if let Some(rate) = self.attack {
            let at = ATTACK_FROM * f64::from(seconds);
            text += &format!(
                "[[event]]\nat = \"{at}s\"\n\
                 flood = {{ from = \"attacker\", to = \"target\", via = \"main\", rate = \"{rate}mbit\" }}\n\n"
            );
        }
        text
    }

    /// The relay and the daemons, by hand: the lab's own tunnels know no relays.
    fn programs(&self) -> String {
        let keys = Keys::generate(self.tunnels);
        let mut text =
            program("files", "client", "0s", &format!("[\"sh\", \"-c\", '''{}''']", keys.script()));
        text += &program("relay", "proxy", "1s", &daemon("psmc-relay", "relay"));
        text += &program("at-target", "target", "1s", &daemon("psmcd", "target"));
        for number in 1..=self.tunnels {
            let file = format!("client{number}");
            text += &program(&format!("at-{file}"), "client", "1.5s", &daemon("psmcd", &file));
        }
        text
    }

    fn traffic(&self, test: &Test, seconds: u32) -> String {
        let [client, target] = match self.route {
            Route::Direct => ["10.1.0.1", "10.2.0.2"],
            Route::Detour => ["10.1.0.1", "10.4.0.2"],
            Route::Relayed => [FILES.client, FILES.target],
        };
        let there = format!("from = \"client\"\nto = \"target\"\naddress = \"{target}\"\n");
        let whole = f64::from(seconds);
        let (start, stop) = (test.span.0 * whole, test.span.1 * whole);
        match test.kind {
            Kind::Ping => {
                let payload = if self.route == Route::Detour { PING_AS_IN_TUNNEL } else { PING };
                stream(&test.stream(), start, stop, &format!("kind = \"ping\"\npayload = {payload}\n{there}"))
            }
            Kind::Http(bytes, rate) => {
                let kind = format!("kind = \"requests\"\n{RENO}response = {bytes}\nrate = {rate}\n{there}");
                stream(&test.stream(), start, stop, &kind)
            }
            Kind::Ftp(bytes) => {
                let kind = format!(
                    "kind = \"tcp\"\n{RENO}bytes = {bytes}\nfrom = \"target\"\nto = \"client\"\naddress = \"{client}\"\n"
                );
                let begin = |number| start + (stop - start) * f64::from(number) / f64::from(TRANSFERS);
                let transfers = 0..TRANSFERS;
                transfers.map(|number| stream(&test.transfer(number), begin(number), whole, &kind)).collect()
            }
        }
    }
}

/// A section of traffic.
fn stream(name: &str, start: f64, stop: f64, rest: &str) -> String {
    format!("[[traffic]]\nname = \"{name}\"\nstart = \"{start:.2}s\"\nstop = \"{stop:.2}s\"\n{rest}\n")
}

/// Makes the target send packets that are as large as those in the tunnel.
fn smaller_packets() -> String {
    let command = format!("[\"ip\", \"link\", \"set\", \"alternate\", \"mtu\", \"{TUNNEL_MTU}\"]");
    program("smaller-packets", "target", "0s", &command)
}

/// The command of a daemon with that file of the run.
pub(in crate::experiment::psmc) fn daemon(program: &str, file: &str) -> String {
    format!("[\"{program}\", \"--config\", \"{{dir}}/{file}.toml\"]")
}

/// A section of a program.
pub(in crate::experiment::psmc) fn program(name: &str, host: &str, start: &str, command: &str) -> String {
    format!("[[program]]\nname = \"{name}\"\nhost = \"{host}\"\nstart = \"{start}\"\ncommand = {command}\n\n")
}

/// All but the main gateway's; the last one's rate is to follow. The proxy's link stands first, so that the target's second
/// network is reached by the proxy.
const LINKS: &str = r#"[[link]]
name = "proxied"
between = ["internet", "proxy"]
addresses = ["10.3.0.1/24", "10.3.0.2/24"]
delay = "14ms"

[[link]]
name = "access"
between = ["client", "internet"]
addresses = [["10.1.0.1/24", "10.1.0.9/24"], ["10.1.0.2/24"]]
delay = "4.5ms"

[[link]]
name = "botnet"
between = ["attacker", "internet"]
addresses = ["10.5.0.1/24", "10.5.0.2/24"]

[[link]]
name = "alternate"
between = ["proxy", "target"]
addresses = [["10.4.0.1/24"], ["10.4.0.2/24", "10.4.0.9/24"]]
delay = "25ms"
"#;

const MAIN: &str = r#"[[link]]
name = "main"
between = ["internet", "target"]
addresses = ["10.2.0.1/24", "10.2.0.2/24"]
delay = "20ms"
"#;

/// Addresses of the client and of the target that are reached through the first tunnel only.
pub(in crate::experiment::psmc) struct Reached {
    pub(in crate::experiment::psmc) client: &'static str,
    pub(in crate::experiment::psmc) target: &'static str,
}

pub(in crate::experiment::psmc) const FILES: Reached = Reached { client: "10.1.0.9", target: "10.4.0.9" };

/// The relay's address as the client sees it, the target's as the relay does, and their port.
const RELAY: &str = "10.3.0.2:5115";
const TARGET: &str = "10.4.0.2:5115";

/// The target's address in all tunnels.
const TARGET_INSIDE: &str = "10.77.0.1";

/// Of everybody.
pub(super) struct Keys {
    relay: PrivateKey,
    target: PrivateKey,
    clients: Vec<PrivateKey>,
}

impl Keys {
    pub(super) fn generate(tunnels: u32) -> Self {
        let clients = (0..tunnels).map(|_| PrivateKey::generate()).collect();
        Self { relay: PrivateKey::generate(), target: PrivateKey::generate(), clients }
    }

    /// A script that writes all files: every host sees the same ones.
    pub(super) fn script(&self) -> String {
        let mut script = "umask 077; cd {dir}\n".to_owned();
        let mut write = |name: &str, text: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(script, "cat > {name}.toml <<END\n{text}END");
        };
        write("relay", &self.relay_file());
        write("target", &self.target_file());
        for (number, key) in (1..).zip(&self.clients) {
            write(&format!("client{number}"), &self.client_file(number, key));
        }
        for (name, key) in [("relay", &self.relay), ("target", &self.target)] {
            let _ = writeln!(script, "echo {} > {name}.key", key.to_base64().as_str());
        }
        script
    }

    fn relay_file(&self) -> String {
        let mut text =
            "[relay]\nname = \"proxy\"\nprivate_key_file = \"relay.key\"\ndestinations = [\"10.0.0.0/8\"]\n\
                        control_socket = \"{dir}/relay.sock\"\n"
                .to_owned();
        for (number, key) in (1..).zip(&self.clients) {
            let _ = writeln!(text, "[[allow]]\nname = \"client{number}\"\npublic_key = \"{}\"", key.public());
        }
        text
    }

    fn target_file(&self) -> String {
        let mut text = format!(
            "[site]\nname = \"target\"\nprivate_key_file = \"target.key\"\naddresses = [\"{TARGET_INSIDE}/32\"]\n\
             control_socket = \"{{dir}}/target.sock\"\n"
        );
        for (number, key) in (1_u8..).zip(&self.clients) {
            let mut inside = vec![client_inside(number)];
            inside.extend((number == 1).then(|| FILES.client.to_owned()));
            let _ = writeln!(
                text,
                "[[peer]]\nname = \"client{number}\"\npublic_key = \"{}\"\nallowed_ips = {:?}",
                key.public(),
                host_networks(&inside)
            );
        }
        text
    }

    fn client_file(&self, number: u8, key: &PrivateKey) -> String {
        let mut behind = vec![TARGET_INSIDE.to_owned(), FILES.target.to_owned()];
        if number > 1 {
            // Only one tunnel can lead to the target; the others stand, and carry what keeps them up.
            behind = vec![format!("10.79.0.{number}")];
        }
        format!(
            "[site]\nname = \"client{number}\"\nprivate_key = \"{}\"\naddresses = [\"{}/32\"]\nlisten = {}\n\
             control_socket = \"{{dir}}/client{number}.sock\"\n\
             [[peer]]\nname = \"target\"\npublic_key = \"{}\"\nallowed_ips = {:?}\nendpoint = \"{TARGET}\"\n\
             [[peer.path]]\nname = \"indirect\"\nrelays = [\"proxy\"]\n\
             [[relay]]\nname = \"proxy\"\naddress = \"{RELAY}\"\npublic_key = \"{}\"\n",
            key.to_base64().as_str(),
            client_inside(number),
            5200 + u16::from(number),
            self.target.public(),
            host_networks(&behind),
            self.relay.public(),
        )
    }
}

fn client_inside(number: u8) -> String {
    format!("10.78.0.{number}")
}

fn host_networks(addresses: &[String]) -> Vec<String> {
    addresses.iter().map(|address| format!("{address}/32")).collect()
}
