//! Reading the file, section by section.

use std::ops::Range;
use std::path::PathBuf;

use psmc_routes::setting::{Address, Domain, RUN_DIR};
use psmc_routes::update::TsigKey;
use psmc_toml::{Complaint, FilePath, KeyFile, Name, Section, SocketPath, Source, ValueError, read_key_file};
use toml::Spanned;
use toml::de::DeTable;

use super::value::{KeyOrAddress, PerSecond};
use super::{Config, Content, TlsConfig, ZoneConfig, ip_of};
use crate::error_chain;
use crate::server::{Access, Secondary};
use crate::zone::{ZoneSigner, read_zone_file};

const SERVER_KEYS: &[&str] = &["name", "listen", "database", "rate_limit", "control_socket"];

const TLS_KEYS: &[&str] = &["listen", "certificate_file", "private_key_file"];

const ZONE_KEYS: &[&str] =
    &["name", "file", "update", "signing_key_file", "primary", "key", "transfer", "notify", "notify_key"];

/// UDP responses in a second to each network where the file says nothing: a large resolver asks for less.
const RATE_LIMIT: u32 = 1000;

/// Where zones that change are kept where the file says nothing.
const DATABASE: &str = "/var/lib/psmc-dns/zones.db";

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, &["server", "tls", "key", "zone"], out);
    let keys: Vec<TsigKey> = file
        .tables("key", "[[key]]", out)
        .into_iter()
        .filter_map(|(place, table)| key(place, table, source, out))
        .collect();
    let tls = file.table("tls", out).map(|(place, table)| tls(place, table, source, out));
    let tables = file.tables("zone", "[[zone]]", out);
    let zones: Vec<Option<ZoneConfig>> = tables
        .into_iter()
        .map(|(place, table)| Reader { source, keys: &keys }.zone(place, table, out))
        .collect();
    if !file.has("zone") {
        let remedy = r#"add [[zone]] with name = "example.com" and file = "example.com.zone""#;
        out.push(Complaint::new("the server would serve nothing: the file has no [[zone]]", remedy));
    }
    if !file.has("server") {
        let remedy = r#"add [server] with name = "ns1" and listen = ["192.0.2.53"]"#;
        out.push(Complaint::new("the file has no [server], which says where it listens", remedy));
    }
    let (place, table) = file.table("server", out)?;
    let section = Section::open("[server]", place, table, SERVER_KEYS, out);
    let name = section.required::<Name>("name", "what you call this server", out).map(Spanned::into_inner);
    let listen = listen(&section, out);
    let database = section.optional::<FilePath>("database", out).map(|path| path.into_inner().0);
    let rate_limit = section.optional::<PerSecond>("rate_limit", out).map(|limit| limit.into_inner().0);
    let socket = section.optional::<SocketPath>("control_socket", out).map(Spanned::into_inner);
    let name = name?;
    let usual: SocketPath = format!("{RUN_DIR}/{name}.sock").parse().ok()?;
    Some(Config {
        control_socket: socket.unwrap_or(usual),
        name,
        listen: listen?,
        tls: match tls {
            Some(tls) => Some(tls?),
            None => None,
        },
        database: source.directory().join(database.unwrap_or_else(|| PathBuf::from(DATABASE))),
        rate_limit: rate_limit.unwrap_or(RATE_LIMIT),
        keys,
        zones: zones.into_iter().collect::<Option<_>>()?,
    })
}

fn listen(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Vec<std::net::SocketAddr>> {
    if !section.has("listen") {
        out.push(section.missing("listen", "add listen = [\"192.0.2.53\"], the addresses that it serves"));
    }
    if section.is_empty_list("listen") {
        out.push(section.missing("listen", "name an address in it, such as listen = [\"192.0.2.53\"]"));
    }
    let list = section.list::<Address>("listen", out)?.into_inner();
    Some(list.into_iter().map(|address| address.into_inner().0).collect())
}

fn tls(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<TlsConfig> {
    let section = Section::open("[tls]", place, table, TLS_KEYS, out);
    let path = |key: &str, out: &mut Vec<Complaint>| {
        let file = section.required::<FilePath>(key, "a file in the format PEM", out)?;
        let path = source.directory().join(&file.get_ref().0);
        if !path.is_file() {
            let reason = format!("there is no file {}", path.display());
            out.push(Complaint::new(reason, "correct the path").at(file.span()));
        }
        Some(path)
    };
    let (certificate_file, private_key_file) = (path("certificate_file", out), path("private_key_file", out));
    let listen = listen(&section, out);
    Some(TlsConfig {
        listen: listen?,
        certificate_file: certificate_file?,
        private_key_file: private_key_file?,
    })
}

fn key(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<TsigKey> {
    let section = Section::open("[[key]]", place, table, &["file"], out);
    let file = section.required::<FilePath>("file", "what `tsig-keygen -a hmac-sha256 NAME` prints", out)?;
    let path = source.directory().join(&file.get_ref().0);
    let complain =
        |error| Complaint::new(error_chain(&error), "make it with `tsig-keygen -a hmac-sha256 NAME`");
    TsigKey::read(&path).map_err(|error| out.push(complain(error).at(file.span()))).ok()
}

/// What zones refer to.
struct Reader<'a> {
    source: &'a Source,
    keys: &'a [TsigKey],
}

impl Reader<'_> {
    fn zone(&self, place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<ZoneConfig> {
        let section = Section::open("[[zone]]", place, table, ZONE_KEYS, out);
        let origin =
            section.required::<Domain>("name", "the zone's name", out).map(|name| name.into_inner().0);
        let access = self.access(&section, out);
        let notify = section.list::<Address>("notify", out).map(Spanned::into_inner).unwrap_or_default();
        let notify_key = self.key(&section, "notify_key", out);
        let secondaries: Vec<Secondary> = notify
            .into_iter()
            .map(|address| Secondary { address: address.into_inner().0, key: notify_key.clone() })
            .collect();
        let mut access = access;
        access.addresses.extend(secondaries.iter().map(|secondary| ip_of(&secondary.address)));
        let content = match (section.has("file"), section.has("primary")) {
            (true, false) => self.of_file(&section, origin.as_ref(), out),
            (false, true) => self.of_primary(&section, out),
            (both, _) => {
                let reason =
                    if both { "the zone has a file and a primary" } else { "the zone has no content" };
                let remedy =
                    "add file = \"example.com.zone\", or primary = \"192.0.2.53\" for another server's zone";
                out.push(Complaint::new(reason, remedy).at(section.place()));
                None
            }
        };
        Some(ZoneConfig { origin: origin?, content: content?, access, secondaries })
    }

    fn of_file(
        &self,
        section: &Section<'_>,
        origin: Option<&hickory_proto::rr::Name>,
        out: &mut Vec<Complaint>,
    ) -> Option<Content> {
        let file = section.optional::<FilePath>("file", out);
        let updaters = section.list::<Domain>("update", out).map(Spanned::into_inner).unwrap_or_default();
        let updaters = updaters.into_iter().filter_map(|name| {
            let (place, name) = (name.span(), name.into_inner().0);
            self.known(&name, place, out).map(|key| key.name().clone())
        });
        let updaters: Vec<_> = updaters.collect();
        let signer = section.optional::<KeyFile>("signing_key_file", out).and_then(|file| {
            let path = self.source.directory().join(&file.get_ref().0);
            let key = read_key_file(&path);
            key.map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()
        });
        let file = file?;
        let path = self.source.directory().join(&file.get_ref().0);
        let zone = read_zone_file(&path, origin?);
        let complain = |error| Complaint::new(error_chain(&error), "correct the zone file").at(file.span());
        let zone = zone.map_err(|error| out.push(complain(error))).ok()?;
        if zone.is_signed() && !updaters.is_empty() && signer.is_none() {
            let remedy = "add signing_key_file, so that it is signed here, or remove `update`";
            let reason = "the zone file is signed, and what updates change would not be";
            out.push(Complaint::new(reason, remedy).at(file.span()));
        }
        Some(Content::File { zone, updaters, signer: signer.map(ZoneSigner::new) })
    }

    fn of_primary(&self, section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Content> {
        let address = section.optional::<Address>("primary", out);
        let key = self.key(section, "key", out);
        Some(Content::Primary { address: address?.into_inner().0, key })
    }

    fn access(&self, section: &Section<'_>, out: &mut Vec<Complaint>) -> Access {
        let mut access = Access::default();
        for entry in
            section.list::<KeyOrAddress>("transfer", out).map(Spanned::into_inner).unwrap_or_default()
        {
            let place = entry.span();
            match entry.into_inner() {
                KeyOrAddress::Address(ip) => access.addresses.push(ip),
                KeyOrAddress::Key(name) => {
                    access.keys.extend(self.known(&name, place, out).map(|key| key.name().clone()));
                }
            }
        }
        access
    }

    fn key(&self, section: &Section<'_>, name: &str, out: &mut Vec<Complaint>) -> Option<TsigKey> {
        let key = section.optional::<Domain>(name, out)?;
        self.known(&key.get_ref().0, key.span(), out).cloned()
    }

    fn known(
        &self,
        name: &hickory_proto::rr::Name,
        place: Range<usize>,
        out: &mut Vec<Complaint>,
    ) -> Option<&TsigKey> {
        let key = self.keys.iter().find(|key| key.name() == name);
        if key.is_none() {
            let error = ValueError::new(
                format!("there is no key {name}"),
                "add [[key]] with file = \"up.key\", whose key has this name",
            );
            out.push(Complaint::of_value(&error, place));
        }
        key
    }
}
