//! `[[invitation]]`

use jiff::Timestamp;
use psmc_net::keys::PublicKey;
use psmc_toml::{Complaint, Kind, NAME, Name, PUBLIC_KEY, Section, ValueError, draft};
use toml::Spanned;

use crate::config::model::Invitation;
use crate::config::value::{ALLOWED_NET, AllowedNet};

/// A moment, as RFC 3339 writes it.
const MOMENT: Kind<Timestamp> = Kind::text("\"2026-12-01T10:00:00Z\"", |text| {
    text.parse().map_err(|_| {
        let reason = format!("{text:?} is not a date and time");
        ValueError::new(reason, "write it in UTC, such as \"2026-12-01T10:00:00Z\"")
    })
});

draft! {
    pub(in crate::config) struct InvitationDraft(section, out) {
        name: Option<Spanned<Name>> = required_at(NAME, "what you call the invited site"),
        public_key: Option<Spanned<PublicKey>> = required_at(
            PUBLIC_KEY,
            "the public half of the key in the invitation: `psmc invite` writes both"
        ),
        allowed_ips: Vec<Spanned<AllowedNet>> = { allowed_ips(section, out) },
        expires: Option<Timestamp> = required(MOMENT, "until when it can be used"),
    }
}

impl InvitationDraft {
    pub(super) fn build(self) -> Option<Invitation> {
        Some(Invitation {
            name: self.name?.into_inner(),
            public_key: self.public_key?.into_inner(),
            allowed_ips: self.allowed_ips.into_iter().map(Spanned::into_inner).collect(),
            expires: self.expires?,
        })
    }
}

fn allowed_ips(section: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Spanned<AllowedNet>> {
    if !section.has("allowed_ips") || section.empty_list("allowed_ips").is_some() {
        let remedy = r#"add allowed_ips = ["10.77.0.2/32"], the addresses that the invited site is to have"#;
        out.push(section.missing("allowed_ips", remedy));
    }
    section.list_at("allowed_ips", ALLOWED_NET, out).map(Spanned::into_inner).unwrap_or_default()
}
