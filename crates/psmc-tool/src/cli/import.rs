//! `psmc import`: a file of wg-quick(8), as a configuration of psmcd.
//!
//! Keys do not carry over: those of WireGuard are for X25519, ours sign (Ed25519). So each site makes one of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use psmcd::config::{Name, Port};

use super::{CliError, output};

/// Why a file is not taken over.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImportError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: this is no file of wg-quick, whose lines are [Interface], [Peer], and Key = Value", path.display())]
    Form { path: PathBuf, line: usize },
    #[error("{} has no [Interface] with an Address: is it a file of wg-quick?", .0.display())]
    NoInterface(PathBuf),
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file of wg-quick, such as /etc/wireguard/wg0.conf
    file: PathBuf,
    /// What this site is called [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
}

/// Prints what a file of wg-quick says as a configuration of psmcd, and what is left to do.
pub(super) fn run(args: &ImportArgs) -> Result<(), CliError> {
    let text = fs::read_to_string(&args.file)
        .map_err(|source| ImportError::Read { path: args.file.clone(), source })?;
    let name = args.name.clone().or_else(|| args.file.file_stem()?.to_str()?.parse().ok());
    let name = name.map_or_else(|| "site".to_owned(), |name| name.to_string());
    Ok(output::print(&converted(&text, &name, &args.file)?)?)
}

/// A section of such a file.
#[derive(Debug, Default)]
struct Section {
    title: String,
    /// What a comment above or in it calls it, if that can be a name.
    name: Option<String>,
    settings: Vec<(String, String)>,
}

impl Section {
    fn is(&self, title: &str) -> bool {
        self.title.eq_ignore_ascii_case(title)
    }

    /// All values of a key, which may stand more than once.
    fn list(&self, key: &str) -> Vec<&str> {
        let all = self.settings.iter().filter(|(name, _)| name.eq_ignore_ascii_case(key));
        let values = all.flat_map(|(_, value)| value.split(','));
        values.map(str::trim).filter(|value| !value.is_empty()).collect()
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.list(key).first().copied()
    }

    fn has(&self, key: &str) -> bool {
        self.settings.iter().any(|(name, _)| name.eq_ignore_ascii_case(key))
    }
}

/// The sections of a file. It is none of INI's kinds, in which sections and keys stand once: see "Configuration file format" in wg(8).
fn sections(text: &str, file: &Path) -> Result<Vec<Section>, ImportError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut above = None;
    for (line, number) in text.lines().zip(1..) {
        let (line, comment) = line.split_once('#').unwrap_or((line, ""));
        let said = comment.trim().trim_start_matches("Name = ").trim();
        let name = said.parse::<Name>().ok().map(|name| name.to_string());
        let line = line.trim();
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            sections.push(Section {
                title: title.to_owned(),
                name: above.take().or(name),
                settings: Vec::new(),
            });
        } else if line.is_empty() {
            // Above a section stands its name, unless it stands at the beginning of one.
            match sections.last_mut().filter(|section| section.settings.is_empty() && section.name.is_none())
            {
                Some(section) => section.name = name,
                None => above = name.or(above),
            }
        } else {
            let form = || ImportError::Form { path: file.to_owned(), line: number };
            let (key, value) = line.split_once('=').ok_or_else(form)?;
            let section = sections.last_mut().ok_or_else(form)?;
            section.settings.push((key.trim().to_owned(), value.trim().to_owned()));
            above = None;
        }
    }
    Ok(sections)
}

fn converted(text: &str, name: &str, file: &Path) -> Result<String, ImportError> {
    let sections = sections(text, file)?;
    let interface = sections.iter().find(|section| section.is("Interface") && section.has("Address"));
    let interface = interface.ok_or_else(|| ImportError::NoInterface(file.to_owned()))?;
    let mut left = vec![format!(
        "Make a key for this site: umask 077; psmc genkey > {name}.key. WireGuard's keys are of another kind."
    )];
    let mut out = site(interface, name, &mut left);
    let mut names = BTreeSet::new();
    for (peer, number) in sections.iter().filter(|section| section.is("Peer")).zip(1..) {
        let name = peer.name.clone().filter(|name| names.insert(name.clone()));
        out += &peer_section(peer, &name.unwrap_or_else(|| format!("peer{number}")), &mut left);
    }
    let steps: String = left.iter().map(|step| format!("#   - {step}\n")).collect();
    Ok(format!("# Made of {}. What is left to do:\n{steps}{out}", file.display()))
}

fn site(interface: &Section, name: &str, left: &mut Vec<String>) -> String {
    let addresses: Vec<_> = interface.list("Address").iter().map(|address| with_length(address)).collect();
    let mut out = format!(
        "\n[site]\nname = \"{name}\"\nprivate_key_file = \"{name}.key\"\naddresses = {}\n",
        quoted(&addresses)
    );
    if let Some(port) = interface.value("ListenPort") {
        // Writing to a string does not fail.
        let _ = writeln!(out, "listen = {port}");
    }
    let (servers, domains): (Vec<&str>, Vec<&str>) =
        interface.list("DNS").into_iter().partition(|entry| entry.parse::<IpAddr>().is_ok());
    if !servers.is_empty() {
        let servers: Vec<_> = servers.into_iter().map(str::to_owned).collect();
        let _ = writeln!(out, "dns = {}", quoted(&servers));
    }
    if !domains.is_empty() {
        let domains = domains.join(", ");
        left.push(format!(
            "Search domains ({domains}) are not set by psmcd: set them in the resolver of this machine."
        ));
    }
    if let Some(mtu) = interface.value("MTU") {
        left.push(format!("MTU = {mtu} is left out: psmcd finds what each path carries. To keep it, add mtu = {mtu} to [site]."));
    }
    for (key, advice) in [
        ("Table", "Table: psmcd keeps its routes in a table of its own, and no setting changes that."),
        ("FwMark", "FwMark: psmcd marks its sockets by itself."),
        ("PreUp", HOOKS),
        ("PostUp", HOOKS),
        ("PreDown", HOOKS),
        ("PostDown", HOOKS),
    ] {
        if interface.has(key) && !left.iter().any(|step| step == advice) {
            left.push(advice.to_owned());
        }
    }
    out
}

const HOOKS: &str = "PreUp, PostUp, PreDown, PostDown: psmcd runs no commands; put them into its unit (ExecStartPost=, ExecStopPost=).";

fn peer_section(peer: &Section, name: &str, left: &mut Vec<String>) -> String {
    let allowed: Vec<_> = peer.list("AllowedIPs").iter().map(|net| with_length(net)).collect();
    left.push(format!("Put the public key of {name} into its [[peer]]: what `psmc pubkey` prints there."));
    let mut out =
        format!("\n[[peer]]\nname = \"{name}\"\npublic_key = \"…\"\nallowed_ips = {}\n", quoted(&allowed));
    // Writing to a string does not fail.
    if let Some(endpoint) = peer.value("Endpoint") {
        let _ = writeln!(out, "endpoint = \"{}\"", endpoint);
        left.push(format!(
            "See that {endpoint} is where psmcd of {name} listens, for UDP and TCP; it can't share WireGuard's port. Its own is {}.",
            Port::DEFAULT
        ));
    }
    if let Some(keepalive) =
        peer.value("PersistentKeepalive").filter(|keepalive| !["0", "off"].contains(keepalive))
    {
        let _ = writeln!(out, "keepalive = {keepalive}");
    }
    if peer.value("PresharedKey").is_some() {
        left.push(format!(
            "The PresharedKey of {name} is left out: the key exchange of psmcd is post-quantum already (X25519MLKEM768)."
        ));
    }
    out
}

/// An address without the length of a prefix is a host (wg(8)).
fn with_length(address: &str) -> String {
    match address.contains('/') {
        true => address.to_owned(),
        false if address.contains(':') => format!("{address}/128"),
        false => format!("{address}/32"),
    }
}

fn quoted(values: &[String]) -> String {
    format!("[\"{}\"]", values.join("\", \""))
}

#[cfg(test)]
mod tests {
    use psmc_net::keys::PrivateKey;
    use psmcd::config::Config;

    use super::*;

    /// The page that shows a file of wg-quick, and what becomes of it.
    const PAGE: &str = include_str!("../../../../docs/FROM-WIREGUARD.md");

    fn block(language: &str) -> &'static str {
        let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    }

    fn convert(text: &str) -> String {
        converted(text, "van", Path::new("wg0.conf")).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_the_page_shows_is_a_configuration_once_it_has_keys() {
        let text = convert(block("ini"));
        assert_eq!(text, block("toml"));
        let folder = tempfile::tempdir().unwrap();
        let mut whole = text;
        for seed in 1..=2 {
            let key = PrivateKey::from_seed([seed; 32]).public().to_string();
            whole = whole.replacen('…', &key, 1);
        }
        let key = PrivateKey::generate();
        let private = format!("private_key = \"{}\"", *key.to_base64());
        let whole = whole.replace("private_key_file = \"van.key\"", &private);
        let file = folder.path().join("van.toml");
        let config = Config::parse(&whole, &file).unwrap_or_else(|error| panic!("{error}"));
        let [hq, depot] = config.peers.as_slice() else { panic!("two peers") };
        assert_eq!((hq.name.as_str(), hq.keepalive.as_secs()), ("hq", 25));
        assert_eq!(hq.endpoint.as_ref().map(ToString::to_string).as_deref(), Some("vpn.example.org:51820"));
        assert_eq!(
            depot.allowed_ips.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.8.0.3/32", "fd08::3/128"]
        );
        assert_eq!((config.site.addresses.len(), config.site.listen.port.get()), (2, 51820));
    }

    #[test]
    fn no_secret_is_printed() {
        let text = convert(block("ini"));
        for secret in ["yAnz5TF", "FpCyhws", "xTIBA5r"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn what_is_no_such_file_is_named() {
        let error = |text: &str| converted(text, "van", Path::new("x.conf")).unwrap_err().to_string();
        assert!(error("").starts_with("x.conf has no [Interface]"));
        assert!(
            error("[Interface]\nAddress = 10.0.0.1/24\nnonsense\n").starts_with("x.conf:3: this is no file")
        );
        assert!(error("Address = 10.0.0.1/24\n").starts_with("x.conf:1: this is no file"));
    }

    #[test]
    fn a_peer_without_a_name_of_its_own_is_numbered() {
        let text = convert(
            "[interface]\naddress = 10.0.0.1/24 # home\nAddress = 10.9.0.2\n# same\n[Peer]\nAllowedIPs = 10.0.0.2\n# same\n[Peer]\nAllowedIPs = 10.0.0.3\n",
        );
        assert!(text.contains("name = \"same\"") && text.contains("name = \"peer2\""), "{text}");
        assert!(text.contains("addresses = [\"10.0.0.1/24\", \"10.9.0.2/32\"]"), "{text}");
    }
}
