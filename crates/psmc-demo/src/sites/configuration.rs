//! The configuration files of the two sites, as a user would write them.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use psmc_net::ipip;
use psmc_net::keys::{PrivateKey, PublicKey};

use super::Relays;
use crate::network::{Link, Links, Wrapping};

/// The address of the headquarters inside the tunnel.
pub(crate) const HQ_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// The van's, which knows every path.
pub(super) fn van(key: &PrivateKey, hq: &PublicKey, links: Links, relays: &Relays, socket: &Path) -> String {
    let mut text = site("van", 2, key, socket) + &peer("hq", 1, hq);
    for link in links {
        let (name, endpoint) = (link.name, link.hq());
        // To write to a text cannot fail.
        let _ = writeln!(
            text,
            "\n[[peer.path]]\nname = {name:?}\ninterface = {name:?}\nendpoint = \"{endpoint}:{PORT}\""
        );
        match link.to_relay {
            Some(Wrapping::IpIp) if ipip::is_allowed() => {
                let _ = writeln!(text, "relays = [{name:?}]\ntransport = \"ipip\"");
            }
            Some(Wrapping::IpIp | Wrapping::Udp) => {
                let _ = writeln!(text, "relays = [{name:?}]");
            }
            None => {}
        }
    }
    for (link, relay) in links.iter().filter_map(|link| Some((link, relays.key(link)?))) {
        let (name, address) = (link.name, link.far());
        let _ = writeln!(
            text,
            "\n[[relay]]\nname = {name:?}\naddress = \"{address}:{PORT}\"\npublic_key = \"{relay}\""
        );
    }
    text
}

/// That of a relay, which serves the van only, and only to the headquarters.
pub(super) fn relay(link: &Link, key_file: &Path, van: &PublicKey, socket: &Path) -> String {
    let (name, hq, key_file, socket) = (link.name, link.hq(), key_file.display(), socket.display());
    format!(
        "[relay]\nname = {name:?}\nprivate_key_file = '''{key_file}'''\nlisten = {PORT}\ndestinations = [\"{hq}/32\"]\n\
         control_socket = '''{socket}'''\n\n[[allow]]\nname = \"van\"\npublic_key = \"{van}\"\n"
    )
}

/// The headquarters', which is called and learns the paths.
pub(super) fn hq(key: &PrivateKey, van: &PublicKey, socket: &Path) -> String {
    site("hq", 1, key, socket) + &peer("van", 2, van)
}

fn site(name: &str, host: u8, key: &PrivateKey, socket: &Path) -> String {
    let key = key.to_base64();
    // TOML has paths in its literal texts as they are.
    let socket = socket.display();
    format!(
        "[site]\nname = {name:?}\nprivate_key = {:?}\naddresses = [\"10.77.0.{host}/24\", \"fd77::{host}/64\"]\n\
         listen = {PORT}\ncontrol_socket = '''{socket}'''\n\n",
        key.as_str()
    )
}

fn peer(name: &str, host: u8, key: &PublicKey) -> String {
    format!(
        "[[peer]]\nname = {name:?}\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.{host}/32\", \"fd77::{host}/128\"]\n"
    )
}

/// The port on which both listen, each in its own namespace.
const PORT: u16 = 5115;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::DIRECT;
    use psmcd::config::{Config, Paths};

    #[test]
    fn both_files_are_right() {
        let (van_key, hq_key) = (PrivateKey::generate(), PrivateKey::generate());
        let socket = Path::new("/tmp/a \"b\" \\c.sock");
        let van = van(&van_key, &hq_key.public(), DIRECT, &Relays::none(), socket);
        let hq = hq(&hq_key, &van_key.public(), socket);
        let van = Config::parse(&van, Path::new("van.toml")).unwrap();
        let hq = Config::parse(&hq, Path::new("hq.toml")).unwrap();
        assert_eq!(van.site.control_socket.as_path(), socket);
        assert!(matches!(&van.peers[0].paths, Paths::Listed(paths) if paths.len() == DIRECT.len()));
        assert_eq!(hq.peers[0].endpoint, None);
        assert_eq!(hq.peers[0].public_key, van.site.private_key.public());
    }
}
