//! `[web]`

use std::net::SocketAddr;

use psmc_net::token::Token;
use psmc_toml::{Complaint, FILE, Kind, SWITCH, Section, Source, ValueError, draft, read_token_file};
use toml::Spanned;

use crate::config::model::Web;

/// Where the page is.
const WEB_ADDRESS: Kind<SocketAddr> = Kind::text("\"127.0.0.1:9116\"", |text| {
    let remedy = "write a local address and a port, such as \"127.0.0.1:9116\" or \"[::1]:9116\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

draft! {
    /// `[web]`
    pub(in crate::config) struct WebDraft(section, out, source: &Source) {
        listen: Option<Spanned<SocketAddr>> = required_at(WEB_ADDRESS, "where browsers find the page"),
        ["token_file"] token: Option<Token> = { token(section, source, out) },
        orders: Option<Spanned<bool>> = optional_at(SWITCH),
        /// Whether the file names one, right or wrong.
        [] has_token: bool = { section.has("token_file") },
    }
}

impl WebDraft {
    pub(super) fn build(self) -> Option<Web> {
        let orders = self.orders.is_some_and(Spanned::into_inner);
        Some(Web { listen: self.listen?.into_inner(), token: self.token, orders })
    }
}

fn token(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Token> {
    let file = section.optional_at("token_file", FILE.like("\"/etc/psmc/van.token\""), out)?;
    source.read_beside(&file, read_token_file, out)
}
