//! What a front reads.

use http::{HeaderName, HeaderValue};
use psmc_front::class::{Pair, Rule, Urgency};
use psmc_front::config::Forwarded;
use psmc_front::headers::{self, Asker};
use psmc_front::peers::Peers;
use psmc_front::preface::Preface;

/// The head of a request to a front: the target in the first line, a field in each of the others.
pub fn front(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let Ok(mut request) = http::Request::builder().uri(target).body(()) else { return };
    for line in lines {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(line[at + 1..].trim_ascii()))
        else {
            continue;
        };
        // What a listener takes at most.
        if request.headers().len() < 100 {
            request.headers_mut().append(name, value);
        }
    }
    let (head, ()) = request.into_parts();
    let rule = Rule { cookie: Pair::cookie("tier=gold"), urgency: Urgency::parse("0-7"), ..Rule::default() };
    let source = std::net::Ipv4Addr::LOCALHOST.into();
    let fits = rule.fits(head.uri.path(), &head.headers, source, &Peers::default());
    assert!(!fits || head.headers.contains_key("cookie"), "a cookie out of nothing");
    let host = headers::host(&head);
    if let Ok(host) = &host {
        assert!(!host.as_bytes().contains(&b'@') && !host.as_bytes().contains(&b' '), "{host:?}");
        assert!(head.uri.path().starts_with(['/', '*']), "{}", head.uri);
    }
    let mut fields = head.headers.clone();
    headers::strip(&mut fields);
    let of_connection =
        ["connection", "keep-alive", "te", "transfer-encoding", "upgrade", "proxy-connection"];
    assert!(of_connection.iter().all(|name| !fields.contains_key(*name)), "{fields:?}");
    assert!(fields.iter().all(|(name, _)| head.headers.contains_key(name)), "a field out of nothing");
    if let Some(protocol) = headers::upgrade(&head) {
        assert!(!protocol.as_bytes().to_ascii_lowercase().starts_with(b"h2c"), "{protocol:?}");
    }
    headers::join_cookies(&mut fields);
    let asker = Asker::new((source, 80).into(), true, true);
    asker.tell(&mut fields, host.as_ref().unwrap_or(&HeaderValue::from_static("")), Forwarded::Both);
    for name in ["x-forwarded-for", "forwarded"] {
        assert_eq!(fields.get_all(name).iter().count(), 1, "{fields:?}");
    }
}

/// The first bytes of a connection that begins with the PROXY protocol, read as they come.
pub fn preface(bytes: &[u8]) {
    let mut read = 0;
    while let Ok(Preface::More(more)) = Preface::read(&bytes[..read]) {
        assert!(more > 0, "nothing more is asked for after {read} bytes");
        read += more;
        assert!(read <= 16 + 4096, "{read} bytes are asked for");
        if read > bytes.len() {
            return;
        }
    }
    if let Ok(Preface::Whole(client)) = Preface::read(&bytes[..read]) {
        let is_text = bytes.starts_with(b"PROXY ");
        let ends = bytes[..read].windows(2).filter(|two| two == b"\r\n").count();
        assert!(
            !is_text || (ends == 1 && bytes[..read].ends_with(b"\r\n")),
            "{read} bytes are more than a line"
        );
        assert!(client.is_none() || read > 16, "an address out of nothing");
        assert_eq!(Preface::read(&bytes[..read]), Ok(Preface::Whole(client)));
    }
}
