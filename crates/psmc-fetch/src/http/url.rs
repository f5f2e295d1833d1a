//! Addresses of files.

use std::fmt;
use std::str::FromStr;

use hyper::http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use url::Position;

/// An absolute `http` or `https` URL, without its fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url(url::Url);

/// Why a text is no URL that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("\"{0}\" is no URL; write it as http://host/path")]
    Malformed(String),
    #[error("\"{0}\" is neither http:// nor https://")]
    Scheme(String),
    #[error("\"{0}\" contains a user name, which is not supported; leave out what stands before the @")]
    User(String),
}

impl Url {
    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// A name or an address, without the brackets of IPv6.
    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// What a request names.
    pub(crate) fn path_and_query(&self) -> &str {
        &self.0[Position::BeforePath..Position::AfterQuery]
    }

    /// As the header `Host` has it.
    pub(crate) fn authority(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// The name that a file from there gets: the last part of the path, decoded. `None` if it ends with a slash, or could
    /// not be the name of a file.
    pub(crate) fn file_name(&self) -> Option<String> {
        let name = decoded(self.0.path().rsplit('/').next()?);
        Some(name).filter(|name| !matches!(name.as_str(), "" | "." | ".."))
    }

    /// Whether one connection serves both.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.is_https() == other.is_https() && self.host() == other.host() && self.port() == other.port()
    }

    /// Where a reference in an answer to this leads (RFC 3986, section 5.2).
    ///
    /// Many servers send bytes in it that no URL may have, such as UTF-8 and spaces: they are taken as if they were
    /// percent-encoded, as browsers do.
    pub(crate) fn join(&self, reference: &[u8]) -> Result<Self, UrlError> {
        let reference = percent_encode(reference, NOT_ASCII).to_string();
        let joined = self.0.join(&reference).map_err(|_| UrlError::Malformed(reference.clone()))?;
        Self::checked(joined, &reference)
    }

    fn checked(mut url: url::Url, text: &str) -> Result<Self, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(text.to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::User(text.to_owned()));
        }
        url.set_fragment(None);
        let url = Self(url);
        // What a request names must be possible to say.
        match url.path_and_query().parse::<PathAndQuery>() {
            Ok(_) if url.port() != 0 => Ok(url),
            Ok(_) | Err(_) => Err(UrlError::Malformed(text.to_owned())),
        }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let url = url::Url::parse(text).map_err(|_| UrlError::Malformed(text.to_owned()))?;
        Self::checked(url, text)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Only what is not ASCII is encoded: whatever else there is to encode the URL parser knows.
const NOT_ASCII: &AsciiSet = &AsciiSet::EMPTY;

/// What of a name stays percent-encoded: a slash would lead elsewhere, and control characters would move the cursor of whoever
/// lists the directory.
const NOT_IN_NAMES: &AsciiSet = &CONTROLS.add(b'/');

/// A part of a path as the name of a file. What is no UTF-8 stays as it is.
fn decoded(part: &str) -> String {
    let Ok(name) = percent_decode_str(part).decode_utf8() else { return part.to_owned() };
    name.chars().map(in_a_name).collect()
}

fn in_a_name(character: char) -> String {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).as_bytes();
    if character.is_control() || character == '/' {
        percent_encode(bytes, NOT_IN_NAMES).to_string()
    } else {
        character.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn parts_are_found() {
        let parts = |text| {
            let url = url(text);
            (url.host().to_owned(), url.port(), url.path_and_query().to_owned(), url.is_https())
        };
        assert_eq!(parts("http://a/b?c#d"), ("a".to_owned(), 80, "/b?c".to_owned(), false));
        assert_eq!(parts("https://[fd00::1]:8/"), ("fd00::1".to_owned(), 8, "/".to_owned(), true));
        assert_eq!(parts("https://a"), ("a".to_owned(), 443, "/".to_owned(), true));
        assert_eq!(parts("HTTP://A.Example/B c"), ("a.example".to_owned(), 80, "/B%20c".to_owned(), false));
    }

    #[test]
    fn names_of_files_are_decoded() {
        let name = |text| url(text).file_name();
        assert_eq!(name("http://a/b/c.iso?d=/e").as_deref(), Some("c.iso"));
        assert_eq!(name("http://a/a%20b.bin").as_deref(), Some("a b.bin"));
        assert_eq!(name("http://a/%C3%9Cbung%20%281%29").as_deref(), Some("Übung (1)"));
        assert_eq!(name("http://a/c%2520d").as_deref(), Some("c%20d"), "it is decoded once");
    }

    #[test]
    fn names_of_files_lead_nowhere_else() {
        let name = |text| url(text).file_name();
        for none in ["http://a/b/", "http://a", "http://a/..", "http://a/%2e%2e", "http://a/b/%2E"] {
            assert_eq!(name(none), None, "{none}");
        }
        assert_eq!(name("http://a/..%2Fb").as_deref(), Some("..%2Fb"));
        assert_eq!(name("http://a/b%00c%1b%5B2J%7f").as_deref(), Some("b%00c%1B[2J%7F"));
        assert_eq!(name("http://a/%c2%9b").as_deref(), Some("%C2%9B"), "a control character beyond ASCII");
        assert_eq!(name("http://a/%ff.iso").as_deref(), Some("%ff.iso"), "no UTF-8");
    }

    proptest! {
        #[test]
        fn no_name_is_a_path(path in "(/|[.]|%2[fF]|%2[eE]|%5[cC]|%00|[a-zé %]){0,12}") {
            if let Ok(url) = format!("http://a/{path}").parse::<Url>()
                && let Some(name) = url.file_name() {
                let path = std::path::Path::new(&name);
                prop_assert_eq!(path.file_name(), Some(std::ffi::OsStr::new(&name)));
                prop_assert!(!name.contains('\0'));
            }
        }

        /// Whatever a server sends leads to a URL that can be asked for, or is refused.
        #[test]
        fn no_redirect_is_half_understood(reference in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(next) = url("http://a:8/b/c?d").join(&reference) {
                prop_assert_eq!(next.to_string().parse::<Url>(), Ok(next.clone()));
                prop_assert!(next.path_and_query().starts_with('/') && next.path_and_query().is_ascii());
                prop_assert!(!next.host().is_empty() && next.authority().is_ascii());
            }
        }
    }

    #[test]
    fn redirects_lead_anywhere() {
        let join = |to: &str| url("http://a:8/b/c?d").join(to.as_bytes()).map(|url| url.to_string());
        assert_eq!(join("https://e/f#g").as_deref(), Ok("https://e/f"));
        assert_eq!(join("//e/f").as_deref(), Ok("http://e/f"));
        assert_eq!(join("/f").as_deref(), Ok("http://a:8/f"));
        assert_eq!(join("f").as_deref(), Ok("http://a:8/b/f"));
        assert_eq!(join("?f").as_deref(), Ok("http://a:8/b/c?f"));
        assert_eq!(join("/login?next=http://e/").as_deref(), Ok("http://a:8/login?next=http://e/"));
        assert_eq!(join("ftp://e/f"), Err(UrlError::Scheme("ftp://e/f".to_owned())));
    }

    /// RFC 3986, section 5.4: what servers and proxies send of it.
    #[test]
    fn dots_in_redirects_are_resolved() {
        let join = |to: &str| {
            url("http://a/b/c/d;p?q").join(to.as_bytes()).map(|url| url.path_and_query().to_owned())
        };
        for (reference, path) in [
            ("./g", "/b/c/g"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("./../g", "/b/g"),
            ("g/../h", "/b/c/h"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ] {
            assert_eq!(join(reference).as_deref(), Ok(path), "{reference}");
        }
    }

    #[test]
    fn redirects_with_bytes_that_no_url_has_are_encoded() {
        let join = |to: &[u8]| url("http://a/b").join(to).map(|url| url.path_and_query().to_owned());
        assert_eq!(join("/café/x".as_bytes()).as_deref(), Ok("/caf%C3%A9/x"));
        assert_eq!(join(b"/caf\xe9/x").as_deref(), Ok("/caf%E9/x"), "not UTF-8");
        assert_eq!(join(b"/a b/x").as_deref(), Ok("/a%20b/x"));
    }

    #[test]
    fn what_cannot_be_fetched_is_refused() {
        let error = |text: &str| text.parse::<Url>().unwrap_err();
        assert!(matches!(error("a/b"), UrlError::Malformed(_)));
        assert!(matches!(error("http:///"), UrlError::Malformed(_)));
        assert!(matches!(error("http://a:0/"), UrlError::Malformed(_)));
        assert!(matches!(error("http://u:p@a/"), UrlError::User(_)));
        assert!(matches!(error("file://a/b"), UrlError::Scheme(_)));
    }
}
