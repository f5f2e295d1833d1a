//! Reading the file, section by section.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};

use hickory_proto::rr::Name as DomainName;
use psmc_routes::setting::{ADDRESS, DOMAIN, RUN_DIR};
use psmc_routes::update::TsigKey;
use psmc_toml::{
    Complaint, FILE, KEY_FILE, Kind, NAME, Section, SocketPath, Source, ValueError, read_key_file,
    socket_path, within,
};
use toml::Spanned;
use toml::de::DeTable;

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
    let keys = file.sections("key", "[[key]]", &["file"], out);
    let keys: Vec<TsigKey> = keys.iter().filter_map(|section| key(section, source, out)).collect();
    let tls = file.section("tls", "[tls]", TLS_KEYS, out).map(|section| tls(&section, source, out));
    let zones = file.sections("zone", "[[zone]]", ZONE_KEYS, out);
    let reader = Reader { source, keys: &keys };
    let zones: Vec<Option<ZoneConfig>> = zones.iter().map(|section| reader.zone(section, out)).collect();
    if !file.has("zone") {
        let remedy = r#"add [[zone]] with name = "example.com" and file = "example.com.zone""#;
        out.push(Complaint::new("the server would serve nothing: the file has no [[zone]]", remedy));
    }
    if !file.has("server") {
        let remedy = r#"add [server] with name = "ns1" and listen = ["192.0.2.53"]"#;
        out.push(Complaint::new("the file has no [server], which says where it listens", remedy));
    }
    let section = file.section("server", "[server]", SERVER_KEYS, out)?;
    let name = section.required("name", NAME, "what you call this server", out);
    let listen = listen(&section, out);
    let database = section.optional("database", FILE.like("\"/var/lib/psmc-dns/zones.db\""), out);
    let rate_limit = section.optional("rate_limit", PER_SECOND, out);
    let socket = section.optional("control_socket", SOCKET, out);
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
        database: source.beside(database.unwrap_or_else(|| PathBuf::from(DATABASE))),
        rate_limit: rate_limit.unwrap_or(RATE_LIMIT),
        zones: zones.into_iter().collect::<Option<_>>()?,
        keys,
    })
}

fn listen(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Vec<SocketAddr>> {
    if !section.has("listen") {
        out.push(section.missing("listen", "add listen = [\"192.0.2.53\"], the addresses that it serves"));
    }
    if section.empty_list("listen").is_some() {
        out.push(section.missing("listen", "name an address in it, such as listen = [\"192.0.2.53\"]"));
    }
    section.list("listen", ADDRESS, out)
}

fn tls(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<TlsConfig> {
    let path = |key: &str, out: &mut Vec<Complaint>| {
        let kind = FILE.like("\"/etc/psmc-dns/ns1.pem\"");
        let file = section.required_at(key, kind, "a file in the format PEM", out)?;
        let path = source.beside(file.get_ref());
        if !path.is_file() {
            let reason = format!("there is no file {}", path.display());
            out.push(Complaint::new(reason, "correct the path").at(file.span()));
        }
        Some(path)
    };
    let (certificate_file, private_key_file) = (path("certificate_file", out), path("private_key_file", out));
    let listen = listen(section, out);
    Some(TlsConfig {
        listen: listen?,
        certificate_file: certificate_file?,
        private_key_file: private_key_file?,
    })
}

fn key(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<TsigKey> {
    let remedy = "what `tsig-keygen -a hmac-sha256 NAME` prints";
    let file = section.required_at("file", FILE.like("\"/etc/psmc-dns/up.key\""), remedy, out)?;
    source.read_beside(&file, read_tsig_key, out)
}

fn read_tsig_key(path: &Path) -> Result<TsigKey, ValueError> {
    let remedy = "make it with `tsig-keygen -a hmac-sha256 NAME`";
    TsigKey::read(path).map_err(|error| ValueError::new(error_chain(&error), remedy))
}

/// What zones refer to.
struct Reader<'a> {
    source: &'a Source,
    keys: &'a [TsigKey],
}

impl Reader<'_> {
    fn zone(&self, section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<ZoneConfig> {
        let origin = section.required("name", DOMAIN, "the zone's name", out);
        let mut access = self.access(section, out);
        let notify = section.list("notify", ADDRESS, out).unwrap_or_default();
        let key = self.key(section, "notify_key", out);
        let secondaries: Vec<Secondary> =
            notify.into_iter().map(|address| Secondary { address, key: key.clone() }).collect();
        access.addresses.extend(secondaries.iter().map(|secondary| ip_of(&secondary.address)));
        let content = match (section.has("file"), section.has("primary")) {
            (true, false) => self.of_file(section, origin.as_ref(), out),
            (false, true) => self.of_primary(section, out),
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
        origin: Option<&DomainName>,
        out: &mut Vec<Complaint>,
    ) -> Option<Content> {
        let file = section.optional_at("file", FILE.like("\"example.com.zone\""), out);
        let updaters = section.list_at("update", DOMAIN, out).map(Spanned::into_inner).unwrap_or_default();
        let updaters = updaters.iter().filter_map(|name| self.known(name.get_ref(), name.span(), out));
        let updaters: Vec<_> = updaters.map(|key| key.name().clone()).collect();
        let signer =
            section.optional_at("signing_key_file", KEY_FILE.like("\"/etc/psmc-dns/sign.key\""), out);
        let signer = signer.and_then(|file| self.source.read_beside(&file, read_key_file, out));
        let (file, origin) = (file?, origin?);
        let read = |path: &Path| {
            read_zone_file(path, origin)
                .map_err(|error| ValueError::new(error_chain(&error), "correct the zone file"))
        };
        let zone = self.source.read_beside(&file, read, out)?;
        if zone.is_signed() && !updaters.is_empty() && signer.is_none() {
            let remedy = "add signing_key_file, so that it is signed here, or remove `update`";
            let reason = "the zone file is signed, but updates could not be signed";
            out.push(Complaint::new(reason, remedy).at(file.span()));
        }
        Some(Content::File { zone, updaters, signer: signer.map(ZoneSigner::new) })
    }

    fn of_primary(&self, section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Content> {
        let address = section.optional("primary", ADDRESS, out);
        let key = self.key(section, "key", out);
        Some(Content::Primary { address: address?, key })
    }

    fn access(&self, section: &Section<'_>, out: &mut Vec<Complaint>) -> Access {
        let mut access = Access::default();
        let entries = section.list_at("transfer", KEY_OR_ADDRESS, out);
        for entry in entries.map(Spanned::into_inner).unwrap_or_default() {
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
        let key = section.optional_at(name, DOMAIN, out)?;
        self.known(key.get_ref(), key.span(), out).cloned()
    }

    fn known(&self, name: &DomainName, place: Range<usize>, out: &mut Vec<Complaint>) -> Option<&TsigKey> {
        let key = self.keys.iter().find(|key| key.name() == name);
        if key.is_none() {
            let remedy = "add [[key]] with file = \"up.key\", whose key has this name";
            out.push(Complaint::new(format!("there is no key {name}"), remedy).at(place));
        }
        key
    }
}

/// Whoever may fetch a zone: by the name of a key, or by an address.
#[derive(Clone, Debug)]
enum KeyOrAddress {
    Key(DomainName),
    Address(IpAddr),
}

/// A [`KeyOrAddress`].
const KEY_OR_ADDRESS: Kind<KeyOrAddress> =
    Kind::text("\"192.0.2.54\"", |text| match text.parse::<IpAddr>() {
        Ok(ip) => Ok(KeyOrAddress::Address(ip.to_canonical())),
        Err(_) => DOMAIN.read(text).map(KeyOrAddress::Key),
    });

/// Responses in a second.
const PER_SECOND: Kind<u32> = Kind::number("1000", |text| {
    let reason = format_args!("{text} is no number of responses");
    within(text, 1..=1_000_000, reason, "write a number from 1 to 1000000")
});

/// The path of its control socket.
const SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-dns/ns1.sock\"", |text| socket_path(text, "/run/psmc-dns/ns1.sock"));
