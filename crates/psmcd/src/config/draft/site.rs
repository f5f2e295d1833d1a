//! `[site]`

use std::ops::Range;
use std::path::PathBuf;

use psmc_net::keys::PrivateKey;
use psmc_toml::{Complaint, KeyFile, PrivateKeyText, Section, Source, read_key_file};
use toml::Spanned;
use toml::de::DeTable;

use super::TreatmentDraft;
use crate::config::grants::read_grants;
use crate::config::value::{
    ClampMss, GrantsFile, InnerMtu, InterfaceName, Listen, Name, SocketPath, TunnelAddress,
};

pub(super) const KEYS: &[&str] = &[
    "name",
    "private_key_file",
    "private_key",
    "addresses",
    "listen",
    "register",
    "grants_file",
    "interface",
    "mtu",
    "clamp_mss",
    "scheduler",
    "reorder",
    "repair",
    "reorder_timeout",
    "reorder_packets",
    "reorder_factor",
    "reorder_least",
    "reorder_most",
    "ordered_udp",
    "bad_path_rule",
    "control_socket",
];

const MAKE_A_KEY: &str = "make the file with `umask 077; psmc genkey > FILE`";

pub(in crate::config) struct SiteDraft {
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) private_key: Option<PrivateKey>,
    pub(in crate::config) addresses: Vec<Spanned<TunnelAddress>>,
    pub(in crate::config) listen: Listen,
    /// Whether the file says where to listen.
    pub(in crate::config) has_listen: bool,
    pub(in crate::config) register: Option<Spanned<Vec<Spanned<Name>>>>,
    pub(in crate::config) grants_file: Option<PathBuf>,
    pub(in crate::config) interface: Option<InterfaceName>,
    pub(in crate::config) mtu: Option<InnerMtu>,
    pub(in crate::config) clamp_mss: ClampMss,
    pub(in crate::config) treatment: TreatmentDraft,
    pub(in crate::config) control_socket: Option<SocketPath>,
}

impl SiteDraft {
    pub(super) fn read(
        place: Range<usize>,
        table: &DeTable<'_>,
        source: &Source,
        out: &mut Vec<Complaint>,
    ) -> Self {
        let section = Section::open("[site]", place, table, KEYS, out);
        Self {
            name: section.required("name", "the name of this machine among its peers", out),
            private_key: private_key(&section, source, out),
            addresses: addresses(&section, out),
            listen: section.optional("listen", out).map(Spanned::into_inner).unwrap_or_default(),
            has_listen: section.has("listen"),
            register: section.list("register", out),
            grants_file: grants_file(&section, source, out),
            interface: section.optional("interface", out).map(Spanned::into_inner),
            mtu: section.optional("mtu", out).map(Spanned::into_inner),
            clamp_mss: section.optional("clamp_mss", out).map(Spanned::into_inner).unwrap_or_default(),
            treatment: TreatmentDraft::read(&section, out),
            control_socket: section.optional("control_socket", out).map(Spanned::into_inner),
        }
    }
}

fn addresses(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Spanned<TunnelAddress>> {
    const REMEDY: &str = r#"add addresses = ["10.77.0.2/24"], the addresses of this site inside the tunnel"#;
    if !section.has("addresses") {
        out.push(section.missing("addresses", REMEDY));
    }
    let Some(list) = section.list::<TunnelAddress>("addresses", out) else {
        return Vec::new();
    };
    if section.is_empty_list("addresses") {
        let complaint =
            Complaint::new("a site needs an address inside the tunnel", r#"put one in: ["10.77.0.2/24"]"#);
        out.push(complaint.at(list.span()));
    }
    list.into_inner()
}

/// The file of grants, if what stands in it is right by now: it may be another one later, but rarely a better one.
fn grants_file(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<PathBuf> {
    let file = section.optional::<GrantsFile>("grants_file", out)?;
    let path = source.directory().join(&file.get_ref().0);
    match read_grants(&path) {
        Ok(_) => Some(path),
        Err(error) => {
            out.push(Complaint::of_value(&error, file.span()));
            None
        }
    }
}

/// The site's key: in the file itself, or in one of its own.
fn private_key(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<PrivateKey> {
    let file = section.optional::<KeyFile>("private_key_file", out);
    let inline = section.optional::<PrivateKeyText>("private_key", out);
    match (section.key_place("private_key_file"), section.key_place("private_key")) {
        (Some(first), Some(second)) => {
            let complaint = Complaint::new(
                "the private key is given twice",
                "keep one: best the file, readable by root only",
            );
            out.push(complaint.at(second).because_of(first, "and here"));
            None
        }
        (None, Some(place)) => {
            complain_if_readable(source, place, out);
            inline.map(|key| key.into_inner().0)
        }
        (Some(_), None) => key_in(&file?, source, out),
        (None, None) => {
            if !section.has("private_key") && !section.has("private_key_file") {
                let remedy = format!(r#"add private_key_file = "/etc/psmc/van.key"; {MAKE_A_KEY}"#);
                out.push(section.missing("private_key_file", &remedy));
            }
            None
        }
    }
}

fn complain_if_readable(source: &Source, place: Range<usize>, out: &mut Vec<Complaint>) {
    if source.is_open_to_others() {
        let reason = "this file holds the private key, and other users can read it";
        out.push(Complaint::new(reason, format!("run `chmod 600 {}`", source.path())).at(place));
    }
}

fn key_in(file: &Spanned<KeyFile>, source: &Source, out: &mut Vec<Complaint>) -> Option<PrivateKey> {
    let path = source.directory().join(&file.get_ref().0);
    read_key_file(&path).map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()
}
