//! Who is asked whether a captive portal is in the way.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::Scheme;
use psmc_toml::{Kind, ValueError};

/// A URL of plain HTTP whose server answers with 204 and no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalCheck(Uri);

/// A [`PortalCheck`].
pub(in crate::config) const PORTAL_CHECK: Kind<PortalCheck> =
    Kind::text("\"http://www.example.net/generate_204\"", str::parse);

impl FromStr for PortalCheck {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy =
            "write a URL that a server of yours answers with 204, as \"http://www.example.net/generate_204\"";
        let uri: Uri = text.parse().map_err(|_| ValueError::new(format!("{text:?} is no URL"), remedy))?;
        if uri.scheme() != Some(&Scheme::HTTP) || uri.host().is_none_or(str::is_empty) {
            let reason = format!("{text:?} is no URL of plain HTTP, which alone a portal can answer");
            return Err(ValueError::new(reason, remedy));
        }
        Ok(Self(uri))
    }
}

impl PortalCheck {
    /// The name or address of the server.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(80)
    }

    /// Host and port as they stand in the URL.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }

    /// What is asked for there.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path_and_query().map_or("/", |path| path.as_str())
    }
}

impl fmt::Display for PortalCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_plain_http_are_taken() {
        let check: PortalCheck = "http://[2001:db8::1]:8080/free?x".parse().unwrap();
        assert_eq!((check.host(), check.port(), check.path()), ("2001:db8::1", 8080, "/free?x"));
        assert_eq!(check.authority(), "[2001:db8::1]:8080");
        let plain: PortalCheck = "http://example.net".parse().unwrap();
        assert_eq!((plain.host(), plain.port(), plain.path()), ("example.net", 80, "/"));
        for bad in ["", "example.net", "https://example.net/", "http:///free", "/free"] {
            assert!(bad.parse::<PortalCheck>().is_err(), "{bad}");
        }
    }
}
