//! Who is let in.
//!
//! The name in `Host` must be an address or `localhost`: pages of others can have a name of theirs lead here (DNS rebinding), but they
//! can't have the browser call it by an address. Where the configuration has a token, it must be shown: as a bearer, or once in the
//! address of the page. From then on the browser shows a cookie, which follows from the token and is no token: with it everything can
//! be read, and nothing changed. Browsers show cookies to all ports of a machine (RFC 6265, section 8.5), and with what pages of
//! others make them ask; a bearer only the page itself adds.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::header::{COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use axum::http::uri::{Authority, Uri};
use percent_encoding::percent_decode_str;
use psmc_net::token::Token;
use psmc_service::http::bearer;

use super::guesses::Guesses;
use crate::config::Web;

/// Whether somebody is let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// So it is.
    Welcome(Shown),
    /// So it is, and the browser is to show this cookie from now on.
    Known(HeaderValue),
    /// By that name there is nothing here.
    WrongHost,
    /// The token is missing.
    Stranger,
    /// It is wrong.
    Wrong,
    /// From there too many wrong ones have come of late for another to be looked at.
    TooMany,
}

/// What somebody has shown who was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Nothing, or what browsers show without being told to.
    Nothing,
    /// The token, in its header.
    Token,
}

/// What is asked of those who want to be let in.
#[derive(Debug)]
pub(super) struct Access {
    secrets: Option<Secrets>,
    guesses: Mutex<Guesses>,
}

/// What lets in.
#[derive(Debug)]
struct Secrets {
    token: Token,
    /// What the cookie has in its place.
    derived: Token,
    /// The name of the cookie. Cookies do not know ports, but several sites of one machine differ in theirs.
    cookie: String,
}

impl Access {
    pub(super) fn new(web: &Web) -> Self {
        let cookie = format!("psmc-{}", web.listen.port());
        let secrets =
            web.token.clone().map(|token| Secrets { derived: token.derived(COOKIE_PURPOSE), token, cookie });
        Self { secrets, guesses: Mutex::default() }
    }

    /// Whether a request with this head, which has come from there at that time, is answered.
    pub(super) fn judge(&self, uri: &Uri, headers: &HeaderMap, (from, now): (IpAddr, Instant)) -> Verdict {
        if !headers.get(HOST).is_some_and(is_here) {
            return Verdict::WrongHost;
        }
        let Some(secrets) = &self.secrets else { return Verdict::Welcome(Shown::Nothing) };
        if !secrets.are_shown(uri, headers) {
            return Verdict::Stranger;
        }
        // What it holds is right even if somebody has panicked.
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if guesses.are_too_many(from, now) {
            return Verdict::TooMany;
        }
        let verdict = secrets.judge(uri, headers);
        if verdict == Verdict::Wrong {
            guesses.note(from, now);
        }
        verdict
    }
}

impl Secrets {
    /// Whether somebody shows anything, right or wrong.
    fn are_shown(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        bearer(headers).is_some() || self.shown_cookie(headers).is_some() || parameter(uri, "token").is_some()
    }

    fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Verdict {
        if let Some(shown) = bearer(headers) {
            let is_right = self.token.is(shown);
            return if is_right { Verdict::Welcome(Shown::Token) } else { Verdict::Wrong };
        }
        if parameter(uri, "token").is_some_and(|shown| is_decoded(shown, &self.token)) {
            return self.cookie().map_or(Verdict::Welcome(Shown::Nothing), Verdict::Known);
        }
        match self.shown_cookie(headers) {
            Some(shown) if self.derived.is(shown.as_bytes()) => Verdict::Welcome(Shown::Nothing),
            Some(_) | None => Verdict::Wrong,
        }
    }

    /// The first cookie of that name: a browser has one, and who guesses tries one at a time.
    fn shown_cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, value)| value)
    }

    /// What the browser is to show. Only pages of this server have it shown.
    fn cookie(&self) -> Option<HeaderValue> {
        let (name, value) = (&self.cookie, self.derived.reveal());
        format!("{name}={value}; Path=/; Max-Age={COOKIE_AGE}; HttpOnly; SameSite=Strict").parse().ok()
    }
}

/// Whether a request comes from a page of this server, or from no page at all: what pages of others make a browser ask has another
/// `Origin` or `Sec-Fetch-Site`, which no script can choose (Fetch Metadata Request Headers, section 2.3). The latter is asked first:
/// behind a proxy with TLS the former has the name of the proxy.
pub(super) fn is_from_here(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let here = headers.get(HOST).map(HeaderValue::as_bytes);
    origin.as_bytes().strip_prefix(b"http://") == here
}

/// What the token is derived for.
const COOKIE_PURPOSE: &str = "cookie of the web page of psmcd";

/// How long a browser keeps the cookie, in seconds: a month. A token that was changed ends it at once.
const COOKIE_AGE: u32 = 30 * 86400;

/// Whether a name is one under which nobody else's page can be.
fn is_here(host: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

fn is_decoded(shown: &str, token: &Token) -> bool {
    token.is(&percent_decode_str(shown).collect::<Vec<_>>())
}

/// A parameter of the query, as it is there.
pub(super) fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;
    use axum::http::header::AUTHORIZATION;

    use super::*;

    const TOKEN: &str = "0123456789abc;%+";

    fn access(token: Option<&str>) -> Access {
        let token = token.map(|token| Token::parse(token).unwrap());
        Access::new(&Web { listen: "127.0.0.1:9116".parse().unwrap(), token, orders: false })
    }

    fn head(headers: &[(HeaderName, &str)]) -> HeaderMap {
        headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn judge(access: &Access, uri: &str, headers: &[(HeaderName, &str)]) -> Verdict {
        access.judge(&uri.parse().unwrap(), &head(headers), (IpAddr::from([127, 0, 0, 1]), Instant::now()))
    }

    #[test]
    fn only_names_that_nobody_else_can_have_are_answered() {
        let open = access(None);
        for host in ["127.0.0.1:9116", "localhost", "LocalHost:9116", "[::1]:9116", "10.77.0.1", "[fd77::1]"]
        {
            assert_eq!(judge(&open, "/", &[(HOST, host)]), Verdict::Welcome(Shown::Nothing), "{host}");
        }
        for host in ["example.com", "127.0.0.1.example.com", "localhost.example.com:9116", "", "a b"] {
            assert_eq!(judge(&open, "/", &[(HOST, host)]), Verdict::WrongHost, "{host}");
        }
        assert_eq!(judge(&open, "/", &[]), Verdict::WrongHost);
    }

    #[test]
    fn a_token_is_shown_as_bearer_or_in_the_address_and_then_as_cookie() {
        let closed = access(Some(TOKEN));
        let host = (HOST, "127.0.0.1:9116");
        let bearer = format!("Bearer {TOKEN}");
        let shown = judge(&closed, "/", &[host.clone(), (AUTHORIZATION, &bearer)]);
        assert_eq!(shown, Verdict::Welcome(Shown::Token));
        let uri = "/?a=b&token=0123456789abc%3B%25%2B";
        let Verdict::Known(cookie) = judge(&closed, uri, std::slice::from_ref(&host)) else {
            panic!("the token is right");
        };
        let cookie = cookie.to_str().unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert!(pair.starts_with("psmc-9116=") && !pair.contains("0123456789abc"), "{pair}");
        assert!(attributes.contains("HttpOnly") && attributes.ends_with("SameSite=Strict"), "{attributes}");
        let cookies = format!("other=1; {pair}");
        let shown = judge(&closed, "/api/state", &[host.clone(), (COOKIE, &cookies)]);
        assert_eq!(shown, Verdict::Welcome(Shown::Nothing));
        // Who finds the cookie has no token.
        let found = format!("Bearer {}", pair.split_once('=').unwrap().1);
        assert_eq!(judge(&closed, "/", &[host.clone(), (AUTHORIZATION, &found)]), Verdict::Wrong);
        let both = [host, (COOKIE, pair), (AUTHORIZATION, &found)];
        assert_eq!(judge(&closed, "/", &both), Verdict::Wrong, "the cookie does not make it right");
    }

    #[test]
    fn who_has_no_token_is_a_stranger() {
        let closed = access(Some(TOKEN));
        let host = (HOST, "127.0.0.1:9116");
        for (uri, name, value) in [
            ("/", AUTHORIZATION, "Basic 0123456789abc;%+"),
            ("/", AUTHORIZATION, ""),
            ("/", COOKIE, "psmc-9117=0123456789abc;%+"),
        ] {
            let verdict = judge(&closed, uri, &[host.clone(), (name, value)]);
            assert_eq!(verdict, Verdict::Stranger, "{uri} {value}");
        }
        for (uri, name, value) in [
            ("/", AUTHORIZATION, "Bearer 0123456789abc"),
            ("/?token=0123456789abc", AUTHORIZATION, ""),
            ("/?token=", AUTHORIZATION, ""),
            ("/", COOKIE, "psmc-9116=0123456789abc"),
            ("/", COOKIE, "psmc-9116=0123456789abc;%+"),
        ] {
            let verdict = judge(&closed, uri, &[host.clone(), (name, value)]);
            assert_eq!(verdict, Verdict::Wrong, "{uri} {value}");
        }
        // A wrong name comes first: nobody learns there whether a token is right.
        let bearer = format!("Bearer {TOKEN}");
        let elsewhere = [(HOST, "example.com"), (AUTHORIZATION, bearer.as_str())];
        assert_eq!(judge(&closed, "/", &elsewhere), Verdict::WrongHost);
    }

    #[test]
    fn who_guesses_is_soon_not_listened_to() {
        let closed = access(Some(TOKEN));
        let [right, wrong] = [TOKEN, "0123456789abcdefg"]
            .map(|token| head(&[(HOST, "127.0.0.1"), (AUTHORIZATION, &format!("Bearer {token}"))]));
        let (uri, now) = (Uri::from_static("/"), Instant::now());
        let [here, there] = [IpAddr::from([10, 77, 0, 1]), IpAddr::from([10, 77, 0, 3])];
        let verdicts: Vec<_> = (0..20).map(|_| closed.judge(&uri, &wrong, (here, now))).collect();
        let first = verdicts.iter().position(|verdict| *verdict == Verdict::TooMany).unwrap();
        assert!(
            first > 2 && verdicts[..first].iter().all(|verdict| *verdict == Verdict::Wrong),
            "{verdicts:?}"
        );
        // Even a right guess is none.
        assert_eq!(closed.judge(&uri, &right, (here, now)), Verdict::TooMany);
        assert_eq!(closed.judge(&uri, &right, (there, now)), Verdict::Welcome(Shown::Token));
        let later = now + super::super::guesses::PERIOD;
        assert_eq!(closed.judge(&uri, &right, (here, later)), Verdict::Welcome(Shown::Token));
    }

    #[test]
    fn pages_of_others_are_told_from_this_one() {
        let site = HeaderName::from_static("sec-fetch-site");
        let host = (HOST, "10.77.0.2:9116");
        let is_from_here =
            |headers: &[_]| is_from_here(&head(&[std::slice::from_ref(&host), headers].concat()));
        assert!(is_from_here(&[]));
        assert!(is_from_here(&[(ORIGIN, "http://10.77.0.2:9116")]));
        assert!(is_from_here(&[(ORIGIN, "https://van.example"), (site.clone(), "same-origin")]));
        for origin in ["http://10.77.0.2", "http://10.77.0.2:8080", "https://10.77.0.2:9116", "null", ""] {
            assert!(!is_from_here(&[(ORIGIN, origin)]), "{origin}");
        }
        for value in ["same-site", "cross-site", "none", ""] {
            assert!(!is_from_here(&[(ORIGIN, "http://10.77.0.2:9116"), (site.clone(), value)]), "{value}");
        }
    }
}
