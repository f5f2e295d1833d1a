//! `[[relay]]`

use std::ops::Range;

use psmc_net::keys::PublicKey;
use psmc_toml::{Complaint, PublicKeyText, Section};
use toml::Spanned;
use toml::de::DeTable;

use crate::config::value::{Endpoint, Name};

const KEYS: &[&str] = &["name", "address", "public_key"];

pub(in crate::config) struct RelayDraft {
    pub(in crate::config) name: Option<Spanned<Name>>,
    pub(in crate::config) address: Option<Spanned<Endpoint>>,
    pub(in crate::config) public_key: Option<Spanned<PublicKey>>,
}

impl RelayDraft {
    pub(super) fn read(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Self {
        let section = Section::open("[[relay]]", place, table, KEYS, out);
        Self {
            name: section.required("name", "what the paths call this relay", out),
            address: section.required("address", "where the relay is reached", out),
            public_key: section
                .required::<PublicKeyText>("public_key", "the key of the relay", out)
                .map(|key| Spanned::new(key.span(), key.into_inner().0)),
        }
    }
}
