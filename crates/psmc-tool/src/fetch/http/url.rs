//! Addresses of files.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::{PathAndQuery, Scheme};

/// An absolute `http` or `https` URL, without its fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    uri: Uri,
}

/// Why a text is no URL that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("\"{0}\" is no URL; write it as http://host/path, with %20 for a space")]
    Malformed(String),
    #[error("\"{0}\" is neither http:// nor https://")]
    Scheme(String),
    #[error("\"{0}\" contains a user name, which is not supported; leave out what stands before the @")]
    User(String),
}

impl Url {
    pub(crate) fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// A name or an address, without the brackets of IPv6.
    pub(crate) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// What a request names.
    pub(crate) fn path_and_query(&self) -> &str {
        self.uri.path_and_query().map_or("/", PathAndQuery::as_str)
    }

    /// As the header `Host` has it.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// The last part of its path; `None` if it ends with a slash, or could not be the name of a file.
    pub(crate) fn file_name(&self) -> Option<&str> {
        let name = self.uri.path().rsplit('/').next()?;
        Some(name).filter(|name| !matches!(*name, "" | "." | ".."))
    }

    /// Whether one connection serves both.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.is_https() == other.is_https() && self.host() == other.host() && self.port() == other.port()
    }

    /// Where a reference in an answer to this leads (RFC 3986, section 5.2, without dots in it).
    pub(crate) fn join(&self, reference: &str) -> Result<Self, UrlError> {
        let reference = without_fragment(reference);
        let scheme = if self.is_https() { "https" } else { "http" };
        let directory = self.uri.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        let path = self.uri.path();
        let authority = self.authority();
        match reference {
            _ if reference.contains("://") => reference.parse(),
            _ if reference.starts_with("//") => format!("{scheme}:{reference}").parse(),
            _ if reference.starts_with('/') => format!("{scheme}://{authority}{reference}").parse(),
            _ if reference.starts_with('?') => format!("{scheme}://{authority}{path}{reference}").parse(),
            _ => format!("{scheme}://{authority}{directory}/{reference}").parse(),
        }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed(text.to_owned());
        let uri: Uri = without_fragment(text).parse().map_err(|_| malformed())?;
        let authority = uri.authority().ok_or_else(malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User(text.to_owned()));
        }
        if authority.host().is_empty() {
            return Err(malformed());
        }
        match uri.scheme_str() {
            Some("http" | "https") => Ok(Self { uri }),
            Some(_) | None => Err(UrlError::Scheme(text.to_owned())),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(out)
    }
}

fn without_fragment(text: &str) -> &str {
    text.split_once('#').map_or(text, |(before, _)| before)
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn names_of_files_are_no_directories() {
        let name = |text| url(text).file_name().map(str::to_owned);
        assert_eq!(name("http://a/b/c.iso?d=/e"), Some("c.iso".to_owned()));
        assert_eq!([name("http://a/b/"), name("http://a"), name("http://a/..")], [None, None, None]);
    }

    #[test]
    fn redirects_lead_anywhere() {
        let join = |to| url("http://a:8/b/c?d").join(to).map(|url| url.to_string());
        assert_eq!(join("https://e/f#g").as_deref(), Ok("https://e/f"));
        assert_eq!(join("//e/f").as_deref(), Ok("http://e/f"));
        assert_eq!(join("/f").as_deref(), Ok("http://a:8/f"));
        assert_eq!(join("f").as_deref(), Ok("http://a:8/b/f"));
        assert_eq!(join("?f").as_deref(), Ok("http://a:8/b/c?f"));
        assert_eq!(join("ftp://e/f"), Err(UrlError::Scheme("ftp://e/f".to_owned())));
    }

    #[test]
    fn what_cannot_be_fetched_is_refused() {
        let error = |text: &str| text.parse::<Url>().unwrap_err();
        assert!(matches!(error("a/b"), UrlError::Malformed(_)));
        assert!(matches!(error("http://a/b c"), UrlError::Malformed(_)));
        assert!(matches!(error("http://u:p@a/"), UrlError::User(_)));
        assert!(matches!(error("file://a/b"), UrlError::Scheme(_)));
    }
}
