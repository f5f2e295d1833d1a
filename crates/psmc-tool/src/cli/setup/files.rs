//! The files of a new site: its key and its configuration.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{RUN_DIR, describe, remedy_for};
use psmcd::config::{AllowedNet, Endpoint, Name, Transport};
use zeroize::Zeroizing;

use super::CONFIG_DIR;

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum WriteError {
    /// There is one already.
    #[error("{} is there already, and stays as it is: choose another --name, or remove it", .0.display())]
    Exists(PathBuf),
    /// The system refuses.
    #[error("cannot write {}: {}; {}", path.display(), describe(source), remedy_for(source))]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// There is a key, which is none.
    #[error("{} holds no private key: remove it", .0.display())]
    NoKey(PathBuf),
}

/// Where the files of a site are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: PathBuf,
    name: Name,
}

/// Who a new site is.
pub(super) struct NewSite<'a> {
    pub(super) addresses: &'a [IpNet],
    /// Where others reach it, if they do.
    pub(super) endpoint: Option<&'a Endpoint>,
    /// The networks behind it.
    pub(super) networks: &'a [AllowedNet],
    /// Whether others reach the Internet through it.
    pub(super) internet: bool,
    /// The one that it dials, if there is one.
    pub(super) host: Option<Host<'a>>,
}

/// A peer that a new site dials.
pub(super) struct Host<'a> {
    pub(super) name: &'a str,
    pub(super) public_key: PublicKey,
    pub(super) networks: &'a [IpNet],
    pub(super) endpoint: &'a Endpoint,
    /// What carries the datagrams of its paths, if that is said.
    pub(super) transport: Option<Transport>,
}

impl Place {
    /// In `folder`, which need not be there.
    pub(super) fn new(folder: &Path, name: &Name) -> Self {
        Self { folder: folder.to_owned(), name: name.clone() }
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.name))
    }

    pub(super) fn key(&self) -> PathBuf {
        self.folder.join(format!("{}.key", self.name))
    }

    /// Where psmcd logs if no unit runs it.
    pub(super) fn log(&self) -> PathBuf {
        let folder = if self.is_usual() { Path::new(RUN_DIR) } else { &self.folder };
        folder.join(format!("{}.log", self.name))
    }

    /// Whether units look for it here.
    pub(super) fn is_usual(&self) -> bool {
        self.folder == Path::new(CONFIG_DIR)
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// Sees to it that there is no such site yet.
    pub(super) fn require_free(&self) -> Result<(), WriteError> {
        let config = self.config();
        if config.exists() { Err(WriteError::Exists(config)) } else { Ok(()) }
    }

    /// The key of the site: a new one, unless an earlier attempt has left one.
    pub(super) fn make_key(&self) -> Result<PrivateKey, WriteError> {
        let (folder, path) = (&self.folder, self.key());
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| WriteError::System { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
        match fs::read_to_string(&path) {
            Ok(text) => return PrivateKey::from_base64(&text).map_err(|_| WriteError::NoKey(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path)(error)),
        }
        let key = PrivateKey::generate();
        let text = Zeroizing::new(format!("{}\n", *key.to_base64()));
        create(&path, &text).map_err(failed(&path))?;
        Ok(key)
    }

    /// Writes the configuration.
    pub(super) fn write_config(&self, site: &NewSite<'_>) -> Result<PathBuf, WriteError> {
        let path = self.config();
        match create(&path, &self.text(site)) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(WriteError::Exists(path)),
            Err(source) => Err(WriteError::System { path, source }),
        }
    }

    /// The whole file, with what else could stand in it. Settings come last in each section: programs add others behind them.
    fn text(&self, site: &NewSite<'_>) -> String {
        let NewSite { addresses, endpoint, networks, internet, host } = site;
        let name = &self.name;
        let mut text = format!(
            "# The site {name}. docs/CONFIGURATION.md explains every setting. After a change, `psmc check` checks this file, and\n\
             # `psmc reload` makes the running daemon read it again. Behind a # stand defaults and examples.\n\
             \n# [web]                              # a page for browsers, as `psmc watch` for terminals\n\
             # listen = \"127.0.0.1:9116\"\n\
             # token_file = \"{name}.token\"         # a secret word that browsers must show\n\
             # orders = true                      # paths can be changed there; needs the token\n\
             \n[site]\n\
             # interface = \"psmc0\"                # the next free name\n\
             # mtu = 1420                         # as the paths have room\n\
             # scheduler = \"earliest\"             # which path takes a packet\n\
             # repair = \"auto\"                    # what is done about losses\n"
        );
        text += match endpoint {
            Some(_) => {
                "# networks = [\"192.168.10.0/24\"]     # behind this site: sites that join are told\n\
                 # internet = true                    # offer sites that join the way to the Internet\n"
            }
            None => {
                "# listen = 5115                      # UDP and TCP\n\
                 # dns = [\"10.77.0.1\"]                # name servers of this machine, as long as psmcd runs\n\
                 # exclude = [\"192.168.1.0/24\"]       # stays out of the tunnel; \"uid:1000\" does, too\n"
            }
        };
        text += &format!(
            "name = \"{name}\"\nprivate_key_file = \"{name}.key\"         # it never leaves this machine\naddresses = {}\n",
            list(addresses)
        );
        if !self.is_usual() {
            text += &format!("control_socket = \"{}\"\n", self.folder.join(format!("{name}.sock")).display());
        }
        if let Some(endpoint) = endpoint {
            text += &format!(
                "listen = {}                        # UDP and TCP: firewalls must let both in\n\
                 endpoint = \"{endpoint}\"       # where sites that are invited reach this one\n",
                endpoint.port
            );
            if !networks.is_empty() {
                text += &format!("networks = {}\n", list(networks));
            }
            if *internet {
                text += "internet = true                      # sites that join reach the Internet through this one\n";
            }
        }
        if let Some(host) = host {
            text += &peer(host);
        }
        text
    }
}

/// The section of a peer.
fn peer(Host { name, public_key, networks, endpoint, transport }: &Host<'_>) -> String {
    let transport =
        transport.map(|transport| format!("transport = \"{}\"\n", transport.as_str())).unwrap_or_default();
    format!(
        "\n[[peer]]\n\
         # Where no path is listed there is one over every uplink. Those that are listed are the only ones:\n\
         # [[peer.path]]\n# name = \"lte\"\n# interface = \"wwan0\"\n# max_rate = \"20mbit\"\n\
         name = \"{name}\"\npublic_key = \"{public_key}\"\nallowed_ips = {}\nendpoint = \"{endpoint}\"\n{transport}",
        list(networks)
    )
}

/// Writes a file that only its owner may read, and that is not there yet: all of it, or none.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a file is worse than none, and whoever can't remove it is told of the first error.
        let _ = fs::remove_file(path);
    }
    written
}

/// A list as TOML writes it.
fn list<T: fmt::Display>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("[{}]", values.join(", "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use psmcd::config::{Config, Paths};

    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(&folder.path().join("new"), &"hq".parse().unwrap());
        (folder, place)
    }

    #[test]
    fn what_is_written_is_a_configuration() {
        let (_folder, place) = place();
        let key = place.make_key().unwrap();
        assert_eq!(place.make_key().unwrap().public(), key.public(), "an earlier one is used");
        assert_eq!(fs::metadata(place.key()).unwrap().permissions().mode() & 0o777, 0o600);
        let endpoint: Endpoint = "203.0.113.5:6000".parse().unwrap();
        let site = NewSite {
            addresses: &["10.77.0.1/24".parse().unwrap(), "fd77::1/64".parse().unwrap()],
            endpoint: Some(&endpoint),
            networks: &["192.168.10.0/24".parse().unwrap()],
            internet: true,
            host: None,
        };
        let file = place.write_config(&site).unwrap();
        let config = Config::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.site.private_key.public(), key.public());
        assert_eq!((config.site.listen.port.get(), config.site.endpoint.as_ref()), (6000, site.endpoint));
        assert_eq!(config.site.networks, site.networks);
        assert!(matches!(place.write_config(&site), Err(WriteError::Exists(_))));
        assert!(matches!(place.require_free(), Err(WriteError::Exists(_))));
    }

    #[test]
    fn a_site_that_joins_dials_its_host() {
        let (_folder, place) = place();
        place.make_key().unwrap();
        let endpoint = "hq.example:5115".parse().unwrap();
        let public_key = PrivateKey::generate().public();
        let networks = ["10.77.0.0/24".parse().unwrap()];
        let host = Host {
            name: "main",
            public_key,
            networks: &networks,
            endpoint: &endpoint,
            transport: Some(Transport::Auto),
        };
        let site = NewSite {
            addresses: &["10.77.0.2/24".parse().unwrap()],
            endpoint: None,
            networks: &[],
            internet: false,
            host: Some(host),
        };
        let config = Config::load(&place.write_config(&site).unwrap());
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let [peer] = config.peers.as_slice() else { panic!("one peer") };
        assert_eq!((peer.public_key, peer.endpoint.as_ref()), (public_key, Some(&endpoint)));
        assert_eq!((&peer.paths, peer.transport), (&Paths::EveryUplink, Transport::Auto));
    }

    /// Uncommenting moves lines behind those of their section, as a person would write them.
    fn with_examples(text: &str) -> String {
        let is_example =
            |line: &&str| line.starts_with("# ") && (line.contains(" = ") || line.contains("[["));
        let mut sections = vec![(String::new(), String::new())];
        for line in text.lines() {
            // A section of which there are examples only.
            let line = line.strip_prefix("# ").filter(|line| line.starts_with("[web]")).unwrap_or(line);
            if line.starts_with('[') {
                sections.push((String::new(), String::new()));
            }
            if let Some((plain, examples)) = sections.last_mut() {
                let (to, line) = if is_example(&line) { (examples, &line[2..]) } else { (plain, line) };
                *to += &format!("{line}\n");
            }
        }
        sections.into_iter().map(|(plain, examples)| plain + &examples).collect()
    }

    #[test]
    fn every_setting_that_is_named_is_one() {
        let (_folder, place) = place();
        place.make_key().unwrap();
        let token = place.folder.join("hq.token");
        fs::write(&token, "0123456789abcdef").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let endpoint = "hq.example:5115".parse().unwrap();
        let networks = ["10.77.0.0/24".parse().unwrap()];
        let addresses = ["10.77.0.2/24".parse().unwrap()];
        let public_key = PrivateKey::generate().public();
        let host =
            || Host { name: "main", public_key, networks: &networks, endpoint: &endpoint, transport: None };
        for (endpoint, host) in [(Some(&endpoint), None), (None, Some(host()))] {
            let text = place.text(&NewSite {
                addresses: &addresses,
                endpoint,
                networks: &[],
                internet: false,
                host,
            });
            let text = with_examples(&text);
            assert!(!text.contains("# repair"), "{text}");
            let path = place.folder.join("all.toml");
            fs::write(&path, &text).unwrap();
            Config::load(&path).unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}
