//! `[[relay]]`

use std::ops::Range;

use psmc_net::keys::PublicKey;
use psmc_toml::{Complaint, PublicKeyText, Section};
use toml::Spanned;
use toml::de::DeTable;

use crate::config::value::{Endpoint, InsideAddress, Name, RelayAddress};

const KEYS: &[&str] = &["name", "address", "public_key", "inside"];

pub(in crate::config) struct RelayDraft {
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) address: Option<Spanned<Endpoint>>,
    pub(in crate::config) public_key: Option<Spanned<PublicKey>>,
    /// The address by which a machine without a key knows this site.
    pub(in crate::config) inside: Option<Spanned<InsideAddress>>,
    /// Whether it is such a machine: an end of a tunnel, and no relay of ours.
    pub(in crate::config) is_tunnel_end: bool,
}

impl RelayDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[relay]]", place, table, KEYS, out);
        let is_tunnel_end = section.has("inside");
        if is_tunnel_end && section.has("public_key") {
            let reason =
                "a machine that only unwraps IP-in-IP has no key, and a relay of PSMC needs no `inside`";
            let remedy = "leave `inside` out if `psmc-relay` runs there, and `public_key` if not";
            out.push(Complaint::new(reason, remedy).at(section.place()));
        }
        let key = |out: &mut Vec<Complaint>| {
            section.required::<PublicKeyText>("public_key", "the key of the relay", out)
        };
        Self {
            name: section.required("name", "what the paths call this relay", out),
            address: section
                .required::<RelayAddress>("address", "where the relay is reached", out)
                .map(|address| Spanned::new(address.span(), address.into_inner().0)),
            public_key: if is_tunnel_end { None } else { key(out) }
                .map(|key| Spanned::new(key.span(), key.into_inner().0)),
            inside: section.optional("inside", out),
            is_tunnel_end,
        }
    }
}
