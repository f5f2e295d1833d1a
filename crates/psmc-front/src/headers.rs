//! What a proxy takes out of messages, and what it puts in (RFC 9110, section 7.6; RFC 7239).

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::ext::Protocol;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, Entry, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    SEC_WEBSOCKET_KEY, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::http::request;
use hyper::http::uri::Authority;
use hyper::{Method, Version};
use rustls::crypto::aws_lc_rs::default_provider;

use crate::config::Forwarded;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Fields that say for whom a request is made.
static FORWARDING: [HeaderName; 4] = [FORWARDED, X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST];

/// Fields of one connection only, beside those that `Connection` names (RFC 9110, section 7.6.1).
static HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Fields that are not of one connection, even if `Connection` names them: without them a message is another one.
static END_TO_END: [HeaderName; 2] = [HOST, CONTENT_LENGTH];

/// Why a request is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It names no host, or several (RFC 9112, section 3.2).
    #[error("a request names one host")]
    Host,
    /// Its target is none (RFC 9112, section 3.2).
    #[error("the target of a request is a path")]
    Target,
    /// It has two lengths (RFC 9112, section 6.1).
    #[error("a request has one length")]
    Length,
    /// It asks for a tunnel, which this is no proxy for.
    #[error("no tunnels begin here")]
    Connect,
}

/// The host that a request is for; or why it is none that may be passed on.
///
/// # Errors
/// [`Malformed`].
pub fn host(head: &request::Parts) -> Result<HeaderValue, Malformed> {
    if head.method == Method::CONNECT && !is_websocket(head) {
        return Err(Malformed::Connect);
    }
    if head.headers.contains_key(TRANSFER_ENCODING) && head.headers.contains_key(CONTENT_LENGTH) {
        return Err(Malformed::Length);
    }
    if !is_target(head) {
        return Err(Malformed::Target);
    }
    let mut hosts = head.headers.get_all(HOST).into_iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return Err(Malformed::Host),
        (named, _) => named,
    };
    // What the target says counts (RFC 9112, section 3.2.2; RFC 9113, section 8.3.1).
    if let Some(authority) = head.uri.authority() {
        return HeaderValue::from_str(without_user(authority)).map_err(|_| Malformed::Host);
    }
    match named {
        Some(named) if is_host(named.as_bytes()) => Ok(named.clone()),
        // Before HTTP/1.1 nobody had to say.
        None if head.version < Version::HTTP_11 => Ok(HeaderValue::from_static("")),
        Some(_) | None => Err(Malformed::Host),
    }
}

/// Whether the target is one that is passed on: a path, alone or after a scheme and a host; or all of a server, for its options. A
/// host alone is for `CONNECT` only (RFC 9112, section 3.2.3).
fn is_target(head: &request::Parts) -> bool {
    let path = head.uri.path();
    let is_whole = head.uri.authority().is_none() || head.uri.scheme().is_some();
    is_whole && (path.starts_with('/') || (path == "*" && head.method == Method::OPTIONS))
}

/// Names of users have no place in requests (RFC 9110, section 4.2.4).
fn without_user(authority: &Authority) -> &str {
    authority.as_str().rsplit('@').next().unwrap_or_default()
}

/// Whether this may be a host and a port. An empty one is (RFC 9112, section 3.2).
fn is_host(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'/' | b'?' | b'#' | b',' | b'\\'))
}

/// The protocol that a request would go on with, if that may be passed on: it is named once, by HTTP/1.1, and is not HTTP itself,
/// by which requests would pass unseen.
#[must_use]
pub fn upgrade(head: &request::Parts) -> Option<HeaderValue> {
    if head.version != Version::HTTP_11
        || !options(&head.headers).any(|option| option.eq_ignore_ascii_case(b"upgrade"))
    {
        return None;
    }
    let protocol = head.headers.get(UPGRADE)?;
    let mut names = protocol.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_http = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        name.starts_with(b"h2") || name.starts_with(b"http") || name.starts_with(b"tls")
    };
    let is_one = head.headers.get_all(UPGRADE).iter().count() == 1;
    (is_one && !names.any(is_http)).then(|| protocol.clone())
}

/// The protocol of WebSocket (RFC 6455), which begins by HTTP/2 as a tunnel does (RFC 8441).
pub const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Whether a request begins WebSocket by HTTP/2 (RFC 8441, section 4). What else may begin so is not passed on.
#[must_use]
pub fn is_websocket(head: &request::Parts) -> bool {
    head.method == Method::CONNECT
        && head
            .extensions
            .get::<Protocol>()
            .is_some_and(|protocol| protocol.as_str().eq_ignore_ascii_case("websocket"))
}

/// Makes of such a request one of HTTP/1.1, whose other fields are the same (RFC 8441, section 5): a `GET`, with a number that the
/// server answers with another one, which a client of HTTP/2 has no need of.
pub fn begin_websocket(method: &mut Method, headers: &mut HeaderMap) {
    *method = Method::GET;
    let mut number = [0; 16];
    // It stands against servers that take anything for a request, and is no secret (RFC 6455, section 10.3); 0 is one as well.
    let _ = default_provider().secure_random.fill(&mut number);
    let key = HeaderValue::from_str(&BASE64_STANDARD.encode(number));
    headers.extend(key.ok().map(|key| (SEC_WEBSOCKET_KEY, key)));
}

/// Whether trailers are welcome to who sent this head (RFC 9110, section 10.1.4).
#[must_use]
pub fn takes_trailers(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(TE).into_iter();
    let mut codings = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Takes out what was for the connection only that the message came by.
pub fn strip(headers: &mut HeaderMap) {
    let mut names: Vec<HeaderName> = options(headers)
        .filter(|option| !USUAL_OPTIONS.iter().any(|usual| option.eq_ignore_ascii_case(usual)))
        .filter_map(|option| HeaderName::from_bytes(option).ok())
        .filter(|name| !END_TO_END.contains(name))
        .collect();
    // Most messages have one of them or none: to look at the names that are there takes less than to look each of these up.
    names.extend(headers.keys().filter(|name| HOP_BY_HOP.contains(name)).cloned());
    take_out(headers, &names);
}

/// Takes these fields out, with all their values.
fn take_out(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        if let Entry::Occupied(field) = headers.entry(name) {
            field.remove_entry_mult();
        }
    }
}

/// What `Connection` mostly names: no field, or one that is taken out in any case.
const USUAL_OPTIONS: [&[u8]; 4] = [b"keep-alive", b"close", b"upgrade", b"te"];

/// What `Connection` names.
fn options(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let fields = headers.get_all(CONNECTION).into_iter();
    let options = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    options.map(<[u8]>::trim_ascii).filter(|option| !option.is_empty())
}

/// Who asks, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    address: SocketAddr,
    is_tls: bool,
    is_trusted: bool,
    /// The address as servers are told it: the same for all requests of a connection.
    shown: HeaderValue,
}

impl Asker {
    /// One whose requests come from `address`, by TLS or not; `is_trusted` if what it says of whom it asks for is passed on.
    #[must_use]
    pub fn new(address: SocketAddr, is_tls: bool, is_trusted: bool) -> Self {
        let shown = HeaderValue::from_str(&address.ip().to_canonical().to_string());
        // An address has only characters that a value may have.
        let shown = shown.unwrap_or(HeaderValue::from_static("unknown"));
        Self { address, is_tls, is_trusted, shown }
    }

    /// The address that requests come from.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Tells the server who asks. What others than trusted proxies say about that is taken out.
    pub fn tell(&self, headers: &mut HeaderMap, host: &HeaderValue, how: Forwarded) {
        if !self.is_trusted && headers.keys().any(|name| FORWARDING.contains(name)) {
            take_out(headers, &FORWARDING);
        }
        if how != Forwarded::Rfc7239 {
            append(headers, X_FORWARDED_FOR, self.shown.clone());
            if let Entry::Vacant(field) = headers.entry(X_FORWARDED_PROTO) {
                field.insert(HeaderValue::from_static(self.scheme()));
            }
            if !host.is_empty()
                && let Entry::Vacant(field) = headers.entry(X_FORWARDED_HOST)
            {
                field.insert(host.clone());
            }
        }
        if how != Forwarded::XForwarded {
            let node = match self.address.ip().to_canonical() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("\"[{address}]\""),
            };
            // A host is a quoted string with none of the characters that one cannot have (`is_host` and `"`).
            let host = host.to_str().ok().filter(|host| !host.is_empty() && !host.contains('"'));
            let host = host.map(|host| format!(";host=\"{host}\"")).unwrap_or_default();
            if let Ok(member) = HeaderValue::from_str(&format!("for={node};proto={}{host}", self.scheme())) {
                append(headers, FORWARDED, member);
            }
        }
    }
}

/// Adds a member to a field that is a list, of which one line is left.
fn append(headers: &mut HeaderMap, name: HeaderName, member: HeaderValue) {
    let mut field = match headers.entry(name) {
        Entry::Vacant(field) => {
            field.insert(member);
            return;
        }
        Entry::Occupied(field) => field,
    };
    let mut list: Vec<u8> = Vec::new();
    for value in field.iter() {
        list.extend(value.as_bytes());
        list.extend(b", ");
    }
    list.extend(member.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        field.insert(list);
    }
}

/// Says that the message passed by here (RFC 9110, section 7.6.3).
pub fn pass(headers: &mut HeaderMap, received: Version) {
    let by = match received {
        Version::HTTP_2 => "2 psmc-front",
        Version::HTTP_10 => "1.0 psmc-front",
        _ => "1.1 psmc-front",
    };
    append(headers, VIA, HeaderValue::from_static(by));
}

/// Joins the cookies that HTTP/2 may have in several fields: HTTP/1.1 has one (RFC 9113, section 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut fields = headers.get_all(COOKIE).into_iter();
    if fields.next().is_none() || fields.next().is_none() {
        return;
    }
    let fields: Vec<&[u8]> = headers.get_all(COOKIE).into_iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&fields.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn head(target: &str, fields: &[(&str, &str)]) -> request::Parts {
        let mut builder = Request::builder().uri(target);
        for (name, value) in fields {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_target_names_the_host_before_the_field_does() {
        let named =
            |target, fields: &[_]| host(&head(target, fields)).map(|host| host.to_str().unwrap().to_owned());
        assert_eq!(named("/", &[("host", "a:80")]), Ok("a:80".to_owned()));
        assert_eq!(named("http://user:word@b/", &[("host", "a")]), Ok("b".to_owned()));
        assert_eq!(named("/", &[("host", "")]), Ok(String::new()));
        for fields in [&[][..], &[("host", "a"), ("host", "a")], &[("host", "a b")], &[("host", "a,b")]] {
            assert_eq!(named("/", fields), Err(Malformed::Host), "{fields:?}");
        }
        let two = [("host", "a"), ("transfer-encoding", "chunked"), ("content-length", "1")];
        assert_eq!(named("/", &two), Err(Malformed::Length));
    }

    #[test]
    fn what_is_named_goes_and_what_makes_the_message_stays() {
        let mut head = head(
            "/",
            &[
                ("connection", "X-A, host"),
                ("connection", "content-length,,x-b"),
                ("x-a", "1"),
                ("x-a", "2"),
                ("x-b", "3"),
                ("x-c", "4"),
                ("host", "test"),
                ("content-length", "1"),
                ("trailer", "x-d"),
                ("te", "trailers"),
            ],
        );
        assert!(takes_trailers(&head.headers));
        strip(&mut head.headers);
        let mut left: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "trailer", "x-c"]);
    }

    #[test]
    fn servers_are_told_who_asks_and_not_what_strangers_say() {
        let fields = [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=192.0.2.1"),
        ];
        let told = |address: &str, is_trusted, how| {
            let mut headers = head("/", &fields).headers;
            let asker = Asker::new(address.parse().unwrap(), false, is_trusted);
            asker.tell(&mut headers, &HeaderValue::from_static("a"), how);
            [X_FORWARDED_FOR, X_FORWARDED_PROTO, FORWARDED].map(|name| {
                headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
            })
        };
        let stranger = told("[::ffff:192.0.2.9]:1", false, Forwarded::Both);
        assert_eq!(stranger, ["192.0.2.9", "http", "for=192.0.2.9;proto=http;host=\"a\""]);
        let proxy = told("[2001:db8::1]:1", true, Forwarded::Rfc7239);
        let forwarded = "for=192.0.2.1, for=\"[2001:db8::1]\";proto=http;host=\"a\"";
        assert_eq!(proxy, ["192.0.2.1", "https", forwarded]);
        let proxy = told("192.0.2.9:1", true, Forwarded::XForwarded);
        assert_eq!(proxy, ["192.0.2.1, 192.0.2.9", "https", "for=192.0.2.1"]);
    }
}
