//! `[site]`

use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_core::{ClampMss, KeyLimits};
use psmc_net::keys::PrivateKey;
use psmc_toml::{
    Complaint, INTERFACE, InterfaceName, KEY_FILE, Kind, LISTEN, Listen, NAME, Name, PRIVATE_KEY, SOCKET,
    SWITCH, Section, SocketPath, Source, ValueError, draft, read_key_file,
};
use toml::Spanned;

use super::TreatmentDraft;
use crate::config::grants::read_grants;
use crate::config::model::{Class, Internet, Site, Sla};
use crate::config::value::{
    ALLOWED_NET, AllowedNet, CLAMP_MSS, ENDPOINT, EXCLUSION, Endpoint, Exclusion, INNER_MTU, NAME_SERVER,
    PORTAL_CHECK, PortalCheck, REKEY_AFTER, TUNNEL_ADDRESS,
};

const MAKE_A_KEY: &str = "make the file with `umask 077; psmc genkey > FILE`";

/// The path of a file of grants.
const GRANTS_FILE: Kind<PathBuf> = Kind::text("\"/etc/psmc/van.grants\"", |text| match text {
    "" => Err(ValueError::new("the path of the grants is empty", "name the file that holds them")),
    _ => Ok(text.into()),
});

/// Where state is kept that outlives psmcd.
const STATE_DIR: &str = "/var/lib/psmc";

/// The path of the file in which that is.
const STATE_FILE: Kind<PathBuf> = Kind::text("\"/var/lib/psmc/van.json\"", |text| match text {
    "" => Err(ValueError::new(
        "the path of the state is empty",
        "name a file, such as \"/var/lib/psmc/van.json\"",
    )),
    _ => Ok(text.into()),
});

draft! {
    pub(in crate::config) struct SiteDraft(section, out, source: &Source) {
        name: Option<Name> = required(NAME, "the name of this machine among its peers"),
        ["private_key_file", "private_key"] private_key: Option<PrivateKey> =
            { private_key(section, source, out) },
        addresses: Vec<Spanned<IpNet>> = { addresses(section, out) },
        listen: Listen = optional(LISTEN).unwrap_or_default(),
        listen_tls: Option<Spanned<Listen>> = optional_at(LISTEN),
        endpoint: Option<Endpoint> = optional(ENDPOINT),
        networks: Vec<AllowedNet> = list(ALLOWED_NET).unwrap_or_default(),
        internet: bool = optional(SWITCH).unwrap_or_default(),
        dns: Vec<IpAddr> = list(NAME_SERVER).unwrap_or_default(),
        kill_switch: Option<Spanned<bool>> = optional_at(SWITCH),
        exclude: Vec<Exclusion> = list(EXCLUSION).unwrap_or_default(),
        register: Option<Spanned<Vec<Spanned<Name>>>> = list_at(NAME),
        grants_file: Option<PathBuf> = { grants_file(section, source, out) },
        interface: Option<InterfaceName> = optional(INTERFACE),
        mtu: Option<u16> = optional(INNER_MTU),
        clamp_mss: ClampMss = optional(CLAMP_MSS).unwrap_or_default(),
        quiet: bool = optional(SWITCH).unwrap_or_default(),
        rekey_after: Duration = optional(REKEY_AFTER).unwrap_or(KeyLimits::default().exchange_after),
        [..TreatmentDraft::KEYS] treatment: TreatmentDraft = { TreatmentDraft::read(section, out) },
        speedtest: bool = optional(SWITCH).unwrap_or(false),
        portal_check: Option<PortalCheck> = optional(PORTAL_CHECK),
        state_file: Option<PathBuf> = optional(STATE_FILE).map(|file| source.beside(file)),
        control_socket: Option<SocketPath> = optional(SOCKET),
        /// Whether the file says where to listen.
        [] has_listen: bool = { section.has("listen") },
    }
}

impl SiteDraft {
    /// What peers are sent that name no networks.
    pub(super) fn own_networks(&self) -> Vec<AllowedNet> {
        self.addresses.iter().map(|address| AllowedNet::around(*address.get_ref())).collect()
    }

    pub(super) fn build(self, classes: Vec<Class>) -> Option<Site> {
        let name = self.name?;
        Some(Site {
            state_file: self.state_file.unwrap_or_else(|| PathBuf::from(format!("{STATE_DIR}/{name}.json"))),
            control_socket: self.control_socket.unwrap_or_else(|| SocketPath::of_site(&name)),
            name,
            private_key: self.private_key?,
            addresses: self.addresses.into_iter().map(Spanned::into_inner).collect(),
            listen: self.listen,
            is_hidden: self.register.is_some() && !self.has_listen,
            listen_tls: self.listen_tls.map(Spanned::into_inner),
            endpoint: self.endpoint,
            networks: self.networks,
            internet: Internet {
                is_offered: self.internet,
                dns: self.dns,
                kill_switch: self.kill_switch.is_some_and(Spanned::into_inner),
                exclude: self.exclude,
            },
            register: super::peer::names(self.register),
            grants_file: self.grants_file,
            interface: self.interface,
            mtu: self.mtu,
            clamp_mss: self.clamp_mss,
            is_quiet: self.quiet,
            rekey_after: self.rekey_after,
            speedtest: self.speedtest,
            portal_check: self.portal_check,
            treatment: self.treatment.build(),
            classes,
            metrics: None,
            sla: Sla::default(),
            web: None,
            unresponsive: None,
        })
    }
}

fn addresses(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Spanned<IpNet>> {
    const REMEDY: &str = r#"add addresses = ["10.77.0.2/24"], the addresses of this site inside the tunnel"#;
    if !section.has("addresses") {
        out.push(section.missing("addresses", REMEDY));
    }
    if let Some(place) = section.empty_list("addresses") {
        let complaint =
            Complaint::new("a site needs an address inside the tunnel", r#"put one in: ["10.77.0.2/24"]"#);
        out.push(complaint.at(place));
    }
    section.list_at("addresses", TUNNEL_ADDRESS, out).map(Spanned::into_inner).unwrap_or_default()
}

/// The file of grants, if what stands in it is right by now: it may be another one later, but rarely a better one.
fn grants_file(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<PathBuf> {
    let file = section.optional_at("grants_file", GRANTS_FILE, out)?;
    source.read_beside(&file, |path| read_grants(path).map(|_| path.to_owned()), out)
}

/// The site's key: in the file itself, or in one of its own.
fn private_key(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<PrivateKey> {
    let file = section.optional_at("private_key_file", KEY_FILE, out);
    let inline = section.optional("private_key", PRIVATE_KEY, out);
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
            inline
        }
        (Some(_), None) => source.read_beside(&file?, read_key_file, out),
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
