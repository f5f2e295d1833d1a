//! What a tunnel of a test looks like, and the configuration files that say so.

use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

use psmc_net::keys::{PrivateKey, PublicKey};

/// The port on which both sites listen, each in its own namespace.
pub(crate) const PORT: u16 = 5115;

/// Which protocol the links between the hosts speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Who knows where the other one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dials {
    Van,
    Both,
}

/// A tunnel. The van has a path over each link.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Number of links, from 1.
    pub(crate) links: u8,
    pub(crate) scheduler: &'static str,
    pub(crate) family: Family,
    pub(crate) dials: Dials,
    /// What each link carries in either direction, in Mbit/s; as much as it can if `None`.
    pub(crate) mbit: Option<u64>,
    /// Where the van's paths lead, if not to the address of the headquarters on their link.
    pub(crate) endpoint: Option<String>,
    /// What both do with the MSS of TCP, if anything is said of it.
    pub(crate) clamp_mss: Option<&'static str>,
    /// What the headquarters let plain UDP have; the van says nothing of it.
    pub(crate) udp_rate_limit: Option<&'static str>,
    /// Traffic classes, as both files have them.
    pub(crate) classes: &'static str,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            links: 2,
            scheduler: "earliest",
            family: Family::V4,
            dials: Dials::Van,
            mbit: None,
            endpoint: None,
            clamp_mss: None,
            udp_rate_limit: None,
            classes: "",
        }
    }
}

/// One end of the tunnel, as it was planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) name: &'static str,
    /// The last byte of its addresses in the tunnel.
    pub(crate) inside: u8,
    /// The last byte of its addresses on the links.
    pub(crate) outside: u8,
    /// What the names of its interfaces begin with.
    pub(crate) interface: char,
}

/// The site that moves.
pub(crate) const VAN: End = End { name: "van", inside: 2, outside: 1, interface: 'v' };

/// The site that stays.
pub(crate) const HQ: End = End { name: "hq", inside: 1, outside: 2, interface: 'h' };

impl End {
    /// Its address in the tunnel.
    pub(crate) fn inner(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => format!("10.77.0.{}", self.inside),
            Family::V6 => format!("fd77::{}", self.inside),
        }
        .parse()
        .unwrap()
    }

    /// Its address on a link.
    pub(crate) fn outer(self, link: u8, family: Family) -> IpAddr {
        match family {
            Family::V4 => format!("10.200.{link}.{}", self.outside),
            Family::V6 => format!("fd00:200:{link}::{}", self.outside),
        }
        .parse()
        .unwrap()
    }

    /// Its interface on a link.
    pub(crate) fn link(self, link: u8) -> String {
        format!("{}{link}", self.interface)
    }
}

impl Plan {
    /// The configuration of `end`.
    pub(crate) fn file(
        &self,
        end: End,
        key: &PrivateKey,
        other: (End, &PublicKey),
        directory: &Path,
    ) -> String {
        let (peer, peer_key) = other;
        let mut text = format!(
            "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"{}/24\", \"{}/64\"]\n\
             scheduler = \"{}\"\ncontrol_socket = '{}'\n{}\n\
             [[peer]]\nname = \"{}\"\npublic_key = \"{peer_key}\"\nallowed_ips = [\"{}/32\", \"{}/128\"]\n",
            end.name,
            key.to_base64().as_str(),
            end.inner(Family::V4),
            end.inner(Family::V6),
            self.scheduler,
            directory.join(end.name).with_extension("sock").display(),
            self.clamp_mss.map(|clamp| format!("clamp_mss = \"{clamp}\"\n")).unwrap_or_default(),
            peer.name,
            peer.inner(Family::V4),
            peer.inner(Family::V6),
        );
        if let Some(limit) = self.udp_rate_limit.filter(|_| end.name == HQ.name) {
            writeln!(text, "udp_rate_limit = \"{limit}\"").unwrap();
        }
        if end.name == VAN.name || self.dials == Dials::Both {
            for link in 1..=self.links {
                self.write_path(&mut text, end, peer, link);
            }
        }
        text + self.classes
    }

    fn write_path(&self, text: &mut String, end: End, peer: End, link: u8) {
        let endpoint = match (&self.endpoint, peer.outer(link, self.family)) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, IpAddr::V4(ip)) => format!("{ip}:{PORT}"),
            (None, IpAddr::V6(ip)) => format!("[{ip}]:{PORT}"),
        };
        let (name, interface) = (path_name(end, link), end.link(link));
        write!(
            text,
            "\n[[peer.path]]\nname = \"{name}\"\ninterface = \"{interface}\"\nendpoint = \"{endpoint}\"\n"
        )
        .unwrap();
    }
}

/// What `end` calls its path over a link.
pub(crate) fn path_name(end: End, link: u8) -> String {
    format!("{}-link{link}", end.name)
}
