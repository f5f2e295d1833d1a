//! The configurations of `psmcd` at both ends of a tunnel.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use toml::{Table, Value};

use crate::scenario::{Scenario, Tunnel, TunnelId, TunnelPath};

/// The port on which the sites of the first tunnel listen; those of the next one take the next.
pub const FIRST_PORT: u16 = 5115;

/// One end of a tunnel, as `psmcd` is to run there.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The tunnel.
    pub tunnel: TunnelId,
    /// 0 for the one that dials, 1 for the other.
    pub end: usize,
}

impl Site<'_> {
    /// The text of its configuration, with its control socket in `directory`.
    #[must_use]
    pub fn config(&self, key: &PrivateKey, peer: &PublicKey, directory: &Path) -> String {
        let tunnel = &self.scenario.tunnels[self.tunnel.0];
        let names = [0, 1].map(|end| self.scenario.hosts[tunnel.ends[end].host.0].name.as_str());
        let links: Vec<&str> =
            tunnel.paths.iter().map(|path| self.scenario.links[path.link.0].name.as_str()).collect();
        let text = Text { tunnel, end: self.end, names, links: &links, port: self.port() };
        text.write(key, peer, &self.control_socket(directory))
    }

    /// Its control socket in a directory.
    #[must_use]
    pub fn control_socket(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}-{}.sock", self.tunnel.0, self.end))
    }

    /// The port on which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        port(self.tunnel)
    }
}

/// The port on which both sites of a tunnel listen. There are fewer tunnels than ports.
pub(crate) fn port(tunnel: TunnelId) -> u16 {
    FIRST_PORT.saturating_add(u16::try_from(tunnel.0).unwrap_or(u16::MAX))
}

/// What a configuration is made of.
pub(crate) struct Text<'a> {
    pub(crate) tunnel: &'a Tunnel,
    pub(crate) end: usize,
    /// Of both hosts.
    pub(crate) names: [&'a str; 2],
    /// Of the link of each path.
    pub(crate) links: &'a [&'a str],
    pub(crate) port: u16,
}

/// Settings of a tunnel that `psmcd` takes of a peer, not of the site.
const PEER_SETTINGS: [&str; 3] = ["keepalive", "preset", "udp_rate_limit"];

/// The one that is the mode of a section of this name.
const UNRESPONSIVE: &str = "unresponsive";

/// The one that is a list of sections of this name.
pub(crate) const CLASS: &str = "class";

impl Text<'_> {
    pub(crate) fn write(&self, key: &PrivateKey, peer: &PublicKey, socket: &Path) -> String {
        let mut text = String::from("[site]\n");
        let own = &self.tunnel.ends[self.end];
        let far = &self.tunnel.ends[1 - self.end];
        line(&mut text, "name", &string(self.names[self.end]));
        line(&mut text, "private_key", &string(key.to_base64().as_str()));
        line(&mut text, "addresses", &list(own.addresses.iter().copied()));
        line(&mut text, "listen", &Value::Integer(self.port.into()));
        line(&mut text, "interface", &string(&self.tunnel.name));
        line(&mut text, "control_socket", &string(&socket.display().to_string()));
        // What this machine's own sites have used is none of the lab's.
        line(&mut text, "state_file", &string(&socket.with_extension("json").display().to_string()));
        self.settings(false, &mut text);
        if let Some((_, mode)) = self.tunnel.settings.iter().find(|(key, _)| key == UNRESPONSIVE) {
            text.push_str("\n[unresponsive]\n");
            line(&mut text, "mode", mode);
        }
        self.classes(&mut text);
        text.push_str("\n[[peer]]\n");
        line(&mut text, "name", &string(self.names[1 - self.end]));
        line(&mut text, "public_key", &string(&peer.to_string()));
        let inside = far.addresses.iter().map(|net| IpNet::from(net.addr()));
        line(&mut text, "allowed_ips", &list(inside.chain(far.networks.iter().copied())));
        self.settings(true, &mut text);
        if self.end == 0 {
            self.paths(&mut text);
        }
        text
    }

    fn settings(&self, of_peer: bool, text: &mut String) {
        let mine = |key: &str| PEER_SETTINGS.contains(&key) == of_peer && key != UNRESPONSIVE;
        let settings = self.tunnel.settings.iter().filter(|(key, _)| mine(key));
        for (key, value) in settings.filter(|setting| classes_in(setting).is_none()) {
            line(text, key, value);
        }
    }

    fn classes(&self, text: &mut String) {
        for class in self.tunnel.settings.iter().filter_map(classes_in).flatten() {
            text.push_str("\n[[class]]\n");
            for (key, value) in class {
                line(text, key, value);
            }
        }
    }

    fn paths(&self, text: &mut String) {
        for (TunnelPath { name, endpoint, settings, .. }, link) in self.tunnel.paths.iter().zip(self.links) {
            text.push_str("\n[[peer.path]]\n");
            line(text, "name", &string(name));
            line(text, "interface", &string(link));
            line(text, "endpoint", &string(&SocketAddr::new(*endpoint, self.port).to_string()));
            for (key, value) in settings {
                line(text, key, value);
            }
        }
    }
}

/// The classes of the setting that holds them. One that is no list of tables is left for `psmcd` to refuse.
fn classes_in((key, value): &(String, Value)) -> Option<Vec<&Table>> {
    value.as_array().filter(|_| key == CLASS)?.iter().map(Value::as_table).collect()
}

/// A key and its value. To write to a text cannot fail.
fn line(text: &mut String, key: &str, value: &Value) {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let key = if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { string(key).to_string() };
    let _ = writeln!(text, "{key} = {value}");
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn list(networks: impl Iterator<Item = IpNet>) -> Value {
    Value::Array(networks.map(|network| Value::String(network.to_string())).collect())
}
