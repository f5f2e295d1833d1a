//! Who is let in.
//!
//! The name in `Host` must be an address or `localhost`: pages of others can have a name of theirs lead here (DNS rebinding), but they
//! can't have the browser call it by an address. Where the configuration has a token, it must be shown: as a bearer, or once in the
//! address of the page, and from then on in a cookie.

use std::net::IpAddr;

use axum::http::header::{COOKIE, HOST, HeaderMap, HeaderValue};
use axum::http::uri::{Authority, Uri};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use psmc_net::token::Token;
use psmc_service::http::bearer;

use crate::config::Web;

/// Whether somebody is let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// So it is.
    Welcome,
    /// So it is, and the browser is to show this cookie from now on.
    Known(HeaderValue),
    /// By that name there is nothing here.
    WrongHost,
    /// The token is missing, or wrong.
    Stranger,
}

/// What is asked of those who want to be let in.
#[derive(Debug)]
pub(super) struct Access {
    token: Option<Token>,
    /// The name of the cookie. Cookies do not know ports, but several sites of one machine differ in theirs.
    cookie: String,
}

impl Access {
    pub(super) fn new(web: &Web) -> Self {
        Self { token: web.token.clone(), cookie: format!("psmc-{}", web.listen.port()) }
    }

    /// Whether a request with this head is answered.
    pub(super) fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Verdict {
        if !headers.get(HOST).is_some_and(is_here) {
            return Verdict::WrongHost;
        }
        let Some(token) = &self.token else { return Verdict::Welcome };
        if bearer(headers).is_some_and(|shown| token.is(shown)) || self.shows_cookie(headers, token) {
            return Verdict::Welcome;
        }
        let in_query = parameter(uri, "token").filter(|shown| is_decoded(shown, token));
        match in_query.and_then(|shown| self.cookie(shown)) {
            Some(cookie) => Verdict::Known(cookie),
            None => Verdict::Stranger,
        }
    }

    fn shows_cookie(&self, headers: &HeaderMap, token: &Token) -> bool {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && is_decoded(value, token))
    }

    /// The cookie of a right token. Only this server gets to see it, and only from pages of its own.
    fn cookie(&self, shown: &str) -> Option<HeaderValue> {
        let decoded = percent_decode_str(shown).decode_utf8().ok()?;
        let value = utf8_percent_encode(&decoded, NON_ALPHANUMERIC);
        let name = &self.cookie;
        format!("{name}={value}; Path=/; Max-Age={COOKIE_AGE}; HttpOnly; SameSite=Strict").parse().ok()
    }
}

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
    use axum::http::header::AUTHORIZATION;

    use super::*;

    const TOKEN: &str = "0123456789abc;%+";

    fn access(token: Option<&str>) -> Access {
        let token = token.map(|token| Token::parse(token).unwrap());
        Access::new(&Web { listen: "127.0.0.1:9116".parse().unwrap(), token })
    }

    fn judge(access: &Access, uri: &str, headers: &[(axum::http::HeaderName, &str)]) -> Verdict {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        access.judge(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn only_names_that_nobody_else_can_have_are_answered() {
        let open = access(None);
        for host in ["127.0.0.1:9116", "localhost", "LocalHost:9116", "[::1]:9116", "10.77.0.1", "[fd77::1]"]
        {
            assert_eq!(judge(&open, "/", &[(HOST, host)]), Verdict::Welcome, "{host}");
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
        assert_eq!(judge(&closed, "/", &[host.clone(), (AUTHORIZATION, &bearer)]), Verdict::Welcome);
        let Verdict::Known(cookie) =
            judge(&closed, "/?a=b&token=0123456789abc%3B%25%2B", std::slice::from_ref(&host))
        else {
            panic!("the token is right");
        };
        let cookie = cookie.to_str().unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(pair, "psmc-9116=0123456789abc%3B%25%2B");
        assert!(attributes.contains("HttpOnly") && attributes.ends_with("SameSite=Strict"), "{attributes}");
        let cookies = format!("other=1; {pair}");
        assert_eq!(judge(&closed, "/api/state", &[host, (COOKIE, &cookies)]), Verdict::Welcome);
    }

    #[test]
    fn who_has_no_token_is_a_stranger() {
        let closed = access(Some(TOKEN));
        let host = (HOST, "127.0.0.1:9116");
        for (uri, name, value) in [
            ("/", AUTHORIZATION, "Bearer 0123456789abc"),
            ("/", AUTHORIZATION, "Basic 0123456789abc;%+"),
            ("/?token=0123456789abc", AUTHORIZATION, ""),
            ("/?token=", AUTHORIZATION, ""),
            ("/", COOKIE, "psmc-9116=0123456789abc"),
            ("/", COOKIE, "psmc-9117=0123456789abc%3B%25%2B"),
        ] {
            assert_eq!(
                judge(&closed, uri, &[host.clone(), (name, value)]),
                Verdict::Stranger,
                "{uri} {value}"
            );
        }
        // A wrong name comes first: nobody learns there whether a token is right.
        let bearer = format!("Bearer {TOKEN}");
        let elsewhere = [(HOST, "example.com"), (AUTHORIZATION, bearer.as_str())];
        assert_eq!(judge(&closed, "/", &elsewhere), Verdict::WrongHost);
    }
}
