//! `[sla]`

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_signal::connection::Coordinator;
use psmc_stamp::{Key, KeyFileError, PORT, Settings};
use psmc_toml::{
    Complaint, FILE, Kind, Listen, PUBLIC_KEY, Port, Section, Source, ValueError, describe, draft,
    remedy_for, whole,
};
use toml::Spanned;

use super::PromiseDraft;
use super::promise::time;
use crate::config::ipfix::{COLLECTOR, EXAMPLE_ENTERPRISE, Ipfix};
use crate::config::model::Sla;
use crate::config::value::Endpoint;

/// The port of reflectors.
const OWN: Port = Port::new(NonZeroU16::new(PORT).expect("862 is not 0"));

/// Where the reflector is.
const REFLECTOR: Kind<Listen> = Kind::text_or_number("862", |text| Listen::parse(text, OWN));

/// Packets in a second of each source: as many as the shortest interval of a sender of ours makes.
const USUAL_RATE: u32 = 1_000;

/// The most that can be answered of one source: all that is answered of all together.
const MAX_RATE: u32 = 20_000;

const RATE: Kind<u32> = Kind::number("1000", |text| whole(text, 1..=MAX_RATE));

/// The least and the longest of the times of IPFIX: the engine looks at all flows once a second, and a collector forgets templates
/// of which it hears nothing, after half an hour where that is not said (RFC 7011 §8.4, RFC 5153 §6.2).
const TIMES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

const TIMEOUT: Kind<Duration> = Kind::text("\"60s\"", |text| time(text, TIMES.0, TIMES.1));

/// Records of flows that last are of this time where the file does not say: what most exporters have.
const USUAL_ACTIVE: Duration = Duration::from_secs(60);

/// Flows end after this time without a packet where the file does not say: what most exporters have.
const USUAL_IDLE: Duration = Duration::from_secs(15);

/// Templates are sent this often where the file does not say: so long does a collector that was started anew wait for them.
const USUAL_TEMPLATES: Duration = Duration::from_secs(60);

/// Numbers of enterprises and of observation domains: 0 is IANA's own, or no domain in particular.
const NUMBER: Kind<u32> = Kind::number("32473", |text| whole(text, 1..=u32::MAX));

draft! {
    /// `[sla]`
    pub(in crate::config) struct SlaDraft(section, out, source: &Source) {
        reflector: Option<Listen> = optional(REFLECTOR),
        ["reflector_key_file"] key: Option<Key> = { key(section, "reflector_key_file", source, out) },
        reflector_rate: Option<u32> = optional(RATE),
        ipfix: Option<Endpoint> = optional(COLLECTOR),
        ipfix_enterprise: Option<u32> = optional(NUMBER),
        ipfix_domain: Option<u32> = optional(NUMBER.like("7")),
        ipfix_active_timeout: Option<Duration> = optional(TIMEOUT),
        ipfix_idle_timeout: Option<Duration> = optional(TIMEOUT.like("\"15s\"")),
        ipfix_template_interval: Option<Duration> = optional(TIMEOUT),
        ["target"] targets: Vec<PromiseDraft> = { targets(section, source, out) },
        ["coordinator"] coordinators: Vec<Coordinator> = { coordinators(section, out) },
        /// Where coordinators stand that nobody tells of anything.
        [] unused_coordinator: Option<Range<usize>> = {
            section.key_place("coordinator").filter(|_| targets.iter().all(|target| target.peer.is_none()))
        },
        /// Where a key stands that is of no use.
        [] useless: Option<Useless> = { useless(section) },
        /// Whether the key that should be there is not: then nobody must be answered.
        [] lacks_key: bool = { section.has("reflector_key_file") && key.is_none() },
    }
}

/// A key without the one that it belongs to.
pub(in crate::config) struct Useless {
    pub(in crate::config) key: &'static str,
    pub(in crate::config) place: Range<usize>,
    /// What is missing, and what is to be written.
    pub(in crate::config) without: &'static str,
    pub(in crate::config) remedy: &'static str,
}

impl SlaDraft {
    fn ipfix(&self) -> Option<Ipfix> {
        Some(Ipfix {
            collector: self.ipfix.clone()?,
            enterprise: self.ipfix_enterprise.unwrap_or(EXAMPLE_ENTERPRISE),
            domain: self.ipfix_domain,
            active_timeout: self.ipfix_active_timeout.unwrap_or(USUAL_ACTIVE),
            idle_timeout: self.ipfix_idle_timeout.unwrap_or(USUAL_IDLE),
            template_interval: self.ipfix_template_interval.unwrap_or(USUAL_TEMPLATES),
        })
    }

    pub(super) fn build(self) -> Option<Sla> {
        let ipfix = self.ipfix();
        let promises = self.targets.into_iter().map(PromiseDraft::build).collect::<Option<_>>()?;
        let rate = self.reflector_rate.unwrap_or(USUAL_RATE);
        let listen = self.reflector.filter(|_| !self.lacks_key);
        let settings = |listen: Listen| Settings { listen: listen.socket_addr(), key: self.key, rate };
        Some(Sla { reflector: listen.map(settings), ipfix, promises, coordinators: self.coordinators })
    }
}

/// Keys that belong to another one, which is missing.
fn useless(section: &Section<'_>) -> Option<Useless> {
    let reflector = "add reflector = 862, by which this site answers STAMP, or remove the key";
    let ipfix = "add ipfix = \"udp://192.0.2.9:4739\", the collector of flow records, or remove the key";
    let belonging: [(&str, &str, &[&str]); 2] =
        [("reflector", reflector, &["reflector_key_file", "reflector_rate"]), ("ipfix", ipfix, IPFIX_KEYS)];
    let missing = belonging.into_iter().filter(|(without, ..)| !section.has(without));
    let mut keys =
        missing.flat_map(|(without, remedy, keys)| keys.iter().map(move |key| (without, remedy, *key)));
    keys.find_map(|(without, remedy, key)| {
        section.key_place(key).map(|place| Useless { key, place, without, remedy })
    })
}

const IPFIX_KEYS: &[&str] = &[
    "ipfix_enterprise",
    "ipfix_domain",
    "ipfix_active_timeout",
    "ipfix_idle_timeout",
    "ipfix_template_interval",
];

fn targets(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Vec<PromiseDraft> {
    let targets = section.sections("target", "[[sla.target]]", PromiseDraft::KEYS, out);
    targets.iter().map(|section| PromiseDraft::read(section, source, out)).collect()
}

fn coordinators(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Coordinator> {
    let sections = section.sections("coordinator", "[[sla.coordinator]]", &["address", "public_key"], out);
    sections.iter().filter_map(|section| coordinator(section, out)).collect()
}

fn coordinator(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Coordinator> {
    let address = section.required("address", COORDINATOR_ADDRESS, "where it takes watchers", out);
    let public_key = section.required("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    Some(Coordinator { address: address?, public_key: public_key? })
}

/// Where a coordinator is. A name would have to be looked up while lines are flooded.
const COORDINATOR_ADDRESS: Kind<SocketAddr> = Kind::text("\"198.51.100.9:5117\"", |text| {
    text.parse().map_err(|_| {
        let remedy = "write address and port, such as \"198.51.100.9:5117\"; a name cannot be used";
        ValueError::new(format!("{text:?} is no address with a port"), remedy)
    })
});

/// The key of STAMP in the file that a key of the section names.
pub(super) fn key(
    section: &Section<'_>,
    name: &str,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<Key> {
    let file: Spanned<PathBuf> = section.optional_at(name, FILE.like("\"/etc/psmc/stamp.key\""), out)?;
    source.read_beside(&file, read_key, out)
}

fn read_key(path: &Path) -> Result<Key, ValueError> {
    let shown = path.display();
    let make = format!("make one: `umask 077; openssl rand -hex 32 > {shown}`");
    Key::read(path).map_err(|error| match &error {
        KeyFileError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
            ValueError::new(format!("there is no STAMP key {shown}"), format!("correct the path, or {make}"))
        }
        KeyFileError::Unreadable { source, .. } => {
            ValueError::new(format!("{error}: {}", describe(source)), remedy_for(source))
        }
        KeyFileError::Exposed { mode, .. } => ValueError::new(
            format!("other users can get at the STAMP key {shown} (its mode is {mode:04o})"),
            format!("run `chmod 600 {shown}`"),
        ),
        KeyFileError::NotAKeyFile { .. } => ValueError::new(&error, make),
        KeyFileError::TooShort { .. } => {
            ValueError::new(format!("the STAMP key {shown} has less than 16 bytes"), make)
        }
    })
}
