//! Which class a request is of: by a cookie, a field of its head, its path, who asks, or its priority (RFC 9218).

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use hyper::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;
use psmc_toml::Name;

use crate::peers::Peers;

/// The urgency of a request that says nothing about it (RFC 9218, section 4.1).
const USUAL_URGENCY: u8 = 3;

/// The least urgent.
const LAST_URGENCY: u8 = 7;

/// Which requests are of a class: those that fit all that is named, so that one that names nothing fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// A cookie that they have.
    pub cookie: Option<Pair<String>>,
    /// A field that they have.
    pub header: Option<Pair<HeaderName>>,
    /// How their path begins.
    pub path: Option<String>,
    /// Where they come from, anywhere if it is empty.
    pub sources: Vec<IpNet>,
    /// The peer of psmcd whose networks they come from.
    pub peer: Option<Name>,
    /// How urgent they are.
    pub urgency: Option<Urgency>,
}

/// A name, and the value that must stand there; any, if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair<N> {
    name: N,
    value: Option<String>,
}

/// A range of urgencies (RFC 9218, section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Urgency(RangeInclusive<u8>);

impl Rule {
    /// Whether all requests are of the class.
    #[must_use]
    pub fn fits_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a request for `path` with these fields, sent from `source`, is of the class. `peers` is what is known of psmcd's.
    #[must_use]
    pub fn fits(&self, path: &str, headers: &HeaderMap, source: IpAddr, peers: &Peers) -> bool {
        self.path.as_ref().is_none_or(|prefix| path.starts_with(prefix))
            && (self.sources.is_empty() || self.sources.iter().any(|net| net.contains(&source)))
            && self.peer.as_ref().is_none_or(|peer| peers.of(source) == Some(peer.as_str()))
            && self.header.as_ref().is_none_or(|pair| pair.is_in(headers))
            && self.cookie.as_ref().is_none_or(|pair| cookies(headers).any(|cookie| pair.is(cookie)))
            && self.urgency.as_ref().is_none_or(|range| range.0.contains(&urgency(headers)))
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.cookie.as_ref().map(|pair| format!("cookie {}", pair.shown("="))));
        parts.extend(self.header.as_ref().map(|pair| format!("header {}", pair.shown(": "))));
        parts.extend(self.path.as_ref().map(|prefix| format!("path {prefix}…")));
        if !self.sources.is_empty() {
            let sources: Vec<_> = self.sources.iter().map(ToString::to_string).collect();
            parts.push(format!("from {}", sources.join(", ")));
        }
        parts.extend(self.peer.as_ref().map(|peer| format!("from peer {peer}")));
        parts.extend(self.urgency.as_ref().map(|Urgency(range)| match (range.start(), range.end()) {
            (first, last) if first == last => format!("urgency {first}"),
            (first, last) => format!("urgency {first} to {last}"),
        }));
        if parts.is_empty() { f.write_str("all requests") } else { f.write_str(&parts.join(" and ")) }
    }
}

impl Pair<String> {
    /// Reads `name=value`, or `name`.
    #[must_use]
    pub fn cookie(text: &str) -> Option<Self> {
        let (name, value) = split(text, '=');
        // A name is a token, and a value has none of these (RFC 6265, section 4.1.1).
        let is_value = |value: &str| !value.contains([';', ',', ' ', '"', '\\']) && value.is_ascii();
        HeaderName::try_from(name).ok().filter(|_| value.is_none_or(is_value))?;
        Some(Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }

    fn is(&self, (name, value): (&[u8], &[u8])) -> bool {
        name == self.name.as_bytes() && self.value.as_ref().is_none_or(|wanted| wanted.as_bytes() == value)
    }
}

impl Pair<HeaderName> {
    /// Reads `name: value`, or `name`.
    #[must_use]
    pub fn field(text: &str) -> Option<Self> {
        let (name, value) = split(text, ':');
        let name = HeaderName::try_from(name).ok()?;
        HeaderValue::from_str(value.unwrap_or_default()).ok()?;
        Some(Self { name, value: value.map(str::to_owned) })
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(&self.name).into_iter();
        values.any(|value| self.value.as_ref().is_none_or(|wanted| wanted.as_bytes() == value.as_bytes()))
    }
}

impl<N: Display> Pair<N> {
    fn shown(&self, between: &str) -> String {
        match &self.value {
            Some(value) => format!("{}{between}{value}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl Urgency {
    /// Reads a number from 0 to 7, or a range such as `0-2`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let level = |text: &str| text.parse().ok().filter(|level| *level <= LAST_URGENCY);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = level(first)?..=level(last)?;
        (!range.is_empty()).then_some(Self(range))
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text.trim(), None),
    }
}

/// The cookies of a request, each with name and value (RFC 6265, section 5.4; HTTP/2 may have several fields, RFC 9113, section
/// 8.2.3).
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs =
        headers.get_all(COOKIE).into_iter().flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
        // Some clients put values in quotes, which are part of them nowhere else.
        let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        Some((name, bare.unwrap_or(value)))
    })
}

/// How urgent a request is: member `u` of its field `Priority`, the last of them (RFC 9218, section 5; RFC 9651, section 4.2.2).
/// What is not understood is as if it were not there.
fn urgency(headers: &HeaderMap) -> u8 {
    let fields = headers.get_all("priority").into_iter().filter_map(|field| field.to_str().ok());
    let members = fields.flat_map(|field| field.split(',')).map(|member| {
        // Parameters of a member are of no meaning here.
        member.split(';').next().unwrap_or_default().trim()
    });
    let mut levels = members.filter_map(|member| member.strip_prefix("u=")?.parse().ok());
    levels.rfind(|level| *level <= LAST_URGENCY).unwrap_or(USUAL_URGENCY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let gold = Rule { cookie: Pair::cookie("tier=gold"), ..Rule::default() };
        for value in ["tier=gold", "a=1; tier=gold", "tier=gold;b", " tier = gold ; x=y", "tier=\"gold\""] {
            assert!(gold.fits("/", &headers(&[("cookie", value)]), HERE, &Peers::default()), "{value}");
        }
        assert!(gold.fits(
            "/",
            &headers(&[("cookie", "a=1"), ("cookie", "tier=gold")]),
            HERE,
            &Peers::default()
        ));
        for value in ["", "tier", "tier=golden", "xtier=gold", "a=tier=gold", "Tier=gold", "tier=gold=x"] {
            assert!(!gold.fits("/", &headers(&[("cookie", value)]), HERE, &Peers::default()), "{value}");
        }
        let any = Rule { cookie: Pair::cookie("tier"), ..Rule::default() };
        assert!(any.fits("/", &headers(&[("cookie", "tier=x")]), HERE, &Peers::default()));
        assert!(!any.fits("/", &headers(&[("cookie", "tie=x")]), HERE, &Peers::default()));
    }

    #[test]
    fn urgency_is_that_of_the_field() {
        for (fields, level) in [
            (vec![], 3),
            (vec![("priority", "u=0")], 0),
            (vec![("priority", "i, u=5")], 5),
            (vec![("priority", "u=1, u=6;x")], 6),
            (vec![("priority", "u=1"), ("priority", "u=2")], 2),
            (vec![("priority", "u=8")], 3),
            (vec![("priority", "u=x, U=1")], 3),
        ] {
            assert_eq!(urgency(&headers(&fields)), level, "{fields:?}");
        }
        assert_eq!(Urgency::parse("0-2"), Some(Urgency(0..=2)));
        assert_eq!(Urgency::parse("4"), Some(Urgency(4..=4)));
        for wrong in ["", "8", "2-1", "-1", "1-", "u=1"] {
            assert_eq!(Urgency::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn all_that_is_named_must_fit() {
        let rule = Rule {
            header: Pair::field("X-Tier: gold"),
            path: Some("/api/".to_owned()),
            sources: vec!["127.0.0.0/8".parse().unwrap()],
            ..Rule::default()
        };
        let gold = headers(&[("x-tier", "gold")]);
        assert!(rule.fits("/api/x", &gold, HERE, &Peers::default()));
        assert!(!rule.fits("/", &gold, HERE, &Peers::default()));
        assert!(!rule.fits("/api/x", &headers(&[("x-tier", "tin")]), HERE, &Peers::default()));
        assert!(!rule.fits("/api/x", &gold, "192.0.2.1".parse().unwrap(), &Peers::default()));
        assert!(Rule::default().fits_all() && !rule.fits_all());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(cookie in any::<Vec<u8>>(), priority in any::<Vec<u8>>()) {
            let mut headers = HeaderMap::new();
            headers.extend(HeaderValue::from_bytes(&cookie).ok().map(|value| (COOKIE, value)));
            let name = HeaderName::from_static("priority");
            headers.extend(HeaderValue::from_bytes(&priority).ok().map(|value| (name, value)));
            let rule = Rule { cookie: Pair::cookie("a=b"), urgency: Urgency::parse("0-7"), ..Rule::default() };
            let _ = rule.fits("/", &headers, HERE, &Peers::default());
            prop_assert!(urgency(&headers) <= LAST_URGENCY);
        }

        #[test]
        fn a_cookie_that_stands_there_is_found(name in "[a-z]{1,8}", value in "[a-z0-9=]{0,8}", other in "[a-z]{1,8}=[a-z]{0,4}") {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(&format!("{other}; {name}={value}")).unwrap());
            let rule = Rule { cookie: Pair::cookie(&format!("{name}={value}")), ..Rule::default() };
            prop_assert!(rule.fits("/", &headers, HERE, &Peers::default()));
        }
    }
}
