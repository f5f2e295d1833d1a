//! What the relay and the daemons are told.

use std::fmt::Write;

use psmc_net::keys::PrivateKey;

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
