//! `[sla]`

use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::ops::Range;
use std::path::{Path, PathBuf};

use psmc_stamp::{Key, KeyFileError, PORT, Settings};
use psmc_toml::{
    Complaint, FILE, Kind, Listen, Port, Section, Source, ValueError, describe, draft, remedy_for, whole,
};
use toml::Spanned;

use super::PromiseDraft;
use crate::config::model::Sla;

/// The port of reflectors.
const OWN: Port = Port::new(NonZeroU16::new(PORT).expect("862 is not 0"));

/// Where the reflector is.
const REFLECTOR: Kind<Listen> = Kind::text_or_number("862", |text| Listen::parse(text, OWN));

/// Packets in a second of each source: as many as the shortest interval of a sender of ours makes.
const USUAL_RATE: u32 = 1_000;

/// The most that can be answered of one source: all that is answered of all together.
const MAX_RATE: u32 = 20_000;

const RATE: Kind<u32> = Kind::number("1000", |text| whole(text, 1..=MAX_RATE));

draft! {
    /// `[sla]`
    pub(in crate::config) struct SlaDraft(section, out, source: &Source) {
        reflector: Option<Listen> = optional(REFLECTOR),
        ["reflector_key_file"] key: Option<Key> = { key(section, "reflector_key_file", source, out) },
        reflector_rate: Option<u32> = optional(RATE),
        ["target"] targets: Vec<PromiseDraft> = { targets(section, source, out) },
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
}

impl SlaDraft {
    pub(super) fn build(self) -> Option<Sla> {
        let promises = self.targets.into_iter().map(PromiseDraft::build).collect::<Option<_>>()?;
        let rate = self.reflector_rate.unwrap_or(USUAL_RATE);
        let listen = self.reflector.filter(|_| !self.lacks_key);
        let settings = |listen: Listen| Settings { listen: listen.socket_addr(), key: self.key, rate };
        Some(Sla { reflector: listen.map(settings), promises })
    }
}

fn useless(section: &Section<'_>) -> Option<Useless> {
    if section.has("reflector") {
        return None;
    }
    let keys = ["reflector_key_file", "reflector_rate"];
    keys.into_iter().find_map(|key| section.key_place(key).map(|place| Useless { key, place }))
}

fn targets(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Vec<PromiseDraft> {
    let targets = section.sections("target", "[[sla.target]]", PromiseDraft::KEYS, out);
    targets.iter().map(|section| PromiseDraft::read(section, source, out)).collect()
}

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
