//! What is passed on of messages, and how.

use std::io::Write;
use std::sync::mpsc;

use crate::harness::{Front, OK, Server, head, read_to, rest, wait_for};

#[test]
fn fields_of_one_connection_stay_on_it_and_servers_are_told_who_asks() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nConnection: x-secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: timeout=9\r\n\
         X-Kept: 1\r\nContent-Length: 3\r\n\r\nok\n",
    );
    let front = Front::start(&[server.address], "", "");
    let answer = front.ask(
        "GET http://name.example/a%20b?c=d HTTP/1.1\r\nHost: other\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\n\
         Keep-Alive: 5\r\nProxy-Connection: x\r\nTE: gzip\r\nX-Forwarded-For: 192.0.2.9\r\n\
         Forwarded: for=192.0.2.9\r\nX-Other: 2\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
    let answer = answer.to_lowercase();
    assert!(answer.contains("\r\nx-kept: 1\r\n"), "{answer}");
    assert!(!answer.contains("x-secret") && !answer.contains("keep-alive"), "{answer}");
    let seen = server.heads().remove(0);
    assert!(seen.starts_with("get /a%20b?c=d http/1.1\r\n"), "{seen}");
    for field in [
        "host: name.example",
        "x-other: 2",
        "x-forwarded-for: 127.",
        "x-forwarded-proto: http\r\n",
        "x-forwarded-host: name.example",
        "via: 1.1 psmc-front",
    ] {
        assert!(seen.contains(&format!("\r\n{field}")), "{field}: {seen}");
    }
    for field in
        ["x-mine", "keep-alive", "proxy-connection", "te:", "192.0.2.9", "forwarded: for", "connection:"]
    {
        assert!(!seen.contains(&format!("\r\n{field}")) && !seen.contains("192.0.2.9"), "{field}: {seen}");
    }
}

#[test]
fn the_word_of_a_trusted_proxy_is_passed_on() {
    let server = Server::answering(OK);
    let fields = "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: https\r\nForwarded: for=192.0.2.9\r\n";
    // All of loopback is trusted, and then none of it.
    for net in ["127.0.0.0/8", "192.0.2.0/24"] {
        let settings = format!("forwarded = \"both\"\ntrusted = [\"{net}\"]");
        let front = Front::start_as(&settings, &[server.address], "", "", "");
        assert!(front.get("/", fields).starts_with("HTTP/1.1 200 "));
    }
    let [trusted, stranger] = server.heads().try_into().unwrap();
    for field in [
        "x-forwarded-for: 192.0.2.9, 127.",
        "x-forwarded-proto: https\r\n",
        "forwarded: for=192.0.2.9, for=127.",
    ] {
        assert!(trusted.contains(&format!("\r\n{field}")), "{field}: {trusted}");
    }
    for field in ["x-forwarded-for: 127.", "x-forwarded-proto: http\r\n", "forwarded: for=127."] {
        assert!(stranger.contains(&format!("\r\n{field}")), "{field}: {stranger}");
    }
    assert!(!stranger.contains("192.0.2.9"), "{stranger}");
}

#[test]
fn each_answer_has_a_line_in_the_log() {
    let server = Server::answering(OK);
    let classes =
        "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\n[[class]]\nname = \"rest\"\n";
    let front = Front::start_as("access_log = true", &[server.address], "", "", classes);
    front.get("/a?b=c", "Cookie: tier=gold\r\n");
    front.ask("GET /two HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let line = |target: &str| {
        let found = |log: String| log.lines().find(|line| line.contains(target)).map(str::to_owned);
        wait_for("a line", || found(front.log()))
    };
    let (answered, refused) = (line("target=\"/a?b=c\""), line("target=\"/two\""));
    for said in
        [" client=127.", "method=\"GET\"", "class=\"paying\"", "status=200", "bytes=3", "end=\"complete\""]
    {
        assert!(answered.contains(said), "{said}: {answered}");
    }
    for said in ["class=\"rest\"", "status=400", "bytes=0", "end=\"failed\""] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    // Nobody has asked for it here.
    let front = Front::start(&[server.address], "", "");
    front.get("/silent", "");
    assert!(!front.log().contains("/silent"), "{}", front.log());
}

#[test]
fn early_hints_are_kept_to_ourselves() {
    let server = Server::answering(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n",
    );
    let front = Front::start(&[server.address], "", "");
    // The connection to the server is kept, and what follows on it is not taken for something else.
    for _ in 0..3 {
        let answer = front.get("/", "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
        assert!(!answer.contains("103") && !answer.contains("preload"), "{answer}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_proxy_says_first_who_the_client_is() {
    let server = Server::answering(OK);
    let sections = "[limits]\nhead_time = \"5s\"\n";
    let front = Front::start_with(&[server.address], "proxy_protocol = true", "", sections);
    let get = "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let answer = front.ask(&format!("PROXY TCP4 192.0.2.7 192.0.2.1 4242 80\r\n{get}"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Version 2, by the table in section 2.2 of proxy-protocol.txt: PROXY, TCP over IPv6, 36 bytes.
    let mut stream = front.connect();
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24".to_vec();
    bytes.extend("2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets());
    bytes.extend([0; 16]);
    bytes.extend([0x10, 0x92, 0, 80]);
    bytes.extend(get.as_bytes());
    stream.write_all(&bytes).unwrap();
    assert!(rest(&mut stream).unwrap().starts_with("HTTP/1.1 200"));
    // It speaks for itself: `UNKNOWN`, and LOCAL.
    assert!(front.ask(&format!("PROXY UNKNOWN\r\n{get}")).starts_with("HTTP/1.1 200"));
    assert!(front.ask(&format!("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0{get}")).starts_with("HTTP/1.1 200"));
    let seen = server.heads();
    let named = ["192.0.2.7", "2001:db8::7", "127.", "127."];
    for (head, name) in seen.iter().zip(named) {
        assert!(head.contains(&format!("\r\nx-forwarded-for: {name}")), "{head}");
    }
    assert_eq!(seen.len(), named.len());
    // Without that head it is none of ours.
    let mut stream = front.connect();
    stream.write_all(get.as_bytes()).unwrap();
    assert!(!rest(&mut stream).unwrap_or_default().contains("200"));
}

#[test]
fn bodies_are_passed_on_as_they_come() {
    let (say, said) = mpsc::channel();
    let server = Server::start(move |stream, _| {
        let seen = head(stream);
        assert!(seen.to_lowercase().contains("transfer-encoding: chunked"), "{seen}");
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for part in ["one", "two"] {
            say.send(read_to(stream, &format!("{part}\r\n"))).unwrap();
            stream.write_all(format!("3;ext=1\r\n{part}\r\n").as_bytes()).unwrap();
        }
        say.send(read_to(stream, "0\r\n\r\n")).unwrap();
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let front = Front::start(&[server.address], "", "");
    let mut client = front.connect();
    client
        .write_all(
            b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    client.write_all(b"3;a=\"b\"\r\none\r\n").unwrap();
    // The server has the first part, and the client its answer to it, before there is a second one.
    assert_eq!(said.recv().unwrap(), "3\r\none\r\n");
    head(&mut client);
    assert_eq!(read_to(&mut client, "one\r\n"), "3\r\none\r\n");
    client.write_all(b"3\r\ntwo\r\n0\r\n\r\n").unwrap();
    assert_eq!(said.recv().unwrap(), "3\r\ntwo\r\n");
    assert_eq!(rest(&mut client).unwrap(), "3\r\ntwo\r\n0\r\n\r\n");
    assert_eq!(said.recv().unwrap(), "0\r\n\r\n");
}

#[test]
fn trailers_are_passed_on_both_ways() {
    let (say, said) = mpsc::channel();
    let server = Server::start(move |stream, _| {
        let seen = head(stream).to_lowercase();
        assert!(seen.contains("te: trailers") && seen.contains("trailer: x-sum"), "{seen}");
        say.send(read_to(stream, "\r\n\r\n")).unwrap();
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n2\r\nok\r\n0\r\nX-End: 7\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let front = Front::start(&[server.address], "", "");
    let answer = front.ask(
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: X-Sum\r\n\
         Connection: close, TE\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    assert!(answer.ends_with("2\r\nok\r\n0\r\nx-end: 7\r\n\r\n"), "{answer}");
    assert_eq!(said.recv().unwrap(), "1\r\nx\r\n0\r\nx-sum: 5\r\n\r\n");
}

#[test]
fn a_body_waits_for_the_word_of_the_server() {
    let server = Server::start(|stream, number| {
        let seen = head(stream).to_lowercase();
        assert!(seen.contains("expect: 100-continue"), "{seen}");
        if number == 0 {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            read_to(stream, "body");
            stream.write_all(OK.as_bytes()).unwrap();
        } else {
            let refusal = "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 3\r\n\r\nno\n";
            stream.write_all(refusal.as_bytes()).unwrap();
            // No byte of the body comes.
            assert_eq!(rest(stream).unwrap(), "");
        }
    });
    let front = Front::start(&[server.address], "", "");
    let ask = "PUT / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    let mut client = front.connect();
    client.write_all(ask.as_bytes()).unwrap();
    assert_eq!(head(&mut client), "HTTP/1.1 100 Continue");
    client.write_all(b"body").unwrap();
    assert!(rest(&mut client).unwrap().starts_with("HTTP/1.1 200 OK"));
    let mut client = front.connect();
    client.write_all(ask.as_bytes()).unwrap();
    let answer = rest(&mut client).unwrap();
    assert!(answer.starts_with("HTTP/1.1 417 ") && answer.ends_with("no\n"), "{answer}");
}

#[test]
fn a_client_of_http_1_0_has_an_answer_that_it_understands() {
    let server =
        Server::answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    let front = Front::start(&[server.address], "", "");
    let answer = front.ask("GET / HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    assert!(!answer.to_lowercase().contains("chunked"), "{answer}");
}

#[test]
fn options_of_a_server_are_asked_of_it() {
    let server = Server::answering("HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n");
    let front = Front::start(&[server.address], "", "");
    let answer = front.ask("OPTIONS * HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 204 ") && answer.to_lowercase().contains("\r\nallow: get"),
        "{answer}"
    );
    assert!(server.heads()[0].starts_with("options * http/1.1\r\n"), "{:?}", server.heads());
}
