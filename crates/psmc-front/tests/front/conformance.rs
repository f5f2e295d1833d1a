//! Odd messages that are right, as a corpus and by nghttp2's tools; and many clients that do little.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::harness::{Front, OK, Server, curl, data, head, rest, wait_for};
use crate::https;
use crate::nginx::Nginx;

/// Requests, and what servers see of each: a part of its head.
const VALID: &[(&str, &str, &str)] = &[
    ("absolute form", "GET http://other/x HTTP/1.1\r\nHost: test\r\n\r\n", "get /x http/1.1\r\n"),
    ("empty host", "GET /empty HTTP/1.1\r\nHost:\r\n\r\n", "get /empty http/1.1\r\n"),
    ("empty line before", "\r\nGET /line HTTP/1.1\r\nHost: test\r\n\r\n", "get /line http/1.1\r\n"),
    ("no space after the colon", "GET /colon HTTP/1.1\r\nHost:test\r\nX-A:b\r\n\r\n", "\r\nx-a: b\r\n"),
    (
        "spaces and tabs around a value",
        "GET /tab HTTP/1.1\r\nHost: test\r\nX-A: \t b \t\r\n\r\n",
        "\r\nx-a: b\r\n",
    ),
    ("empty value", "GET /none HTTP/1.1\r\nHost: test\r\nX-A:\r\n\r\n", "\r\nx-a: \r\n"),
    (
        "bytes beyond ASCII in a value",
        "GET /high HTTP/1.1\r\nHost: test\r\nX-A: \u{e9}\r\n\r\n",
        "get /high ",
    ),
    ("lines of LF alone", "GET /lf HTTP/1.1\nHost: test\n\n", "get /lf http/1.1\r\n"),
    ("method of its own", "BREW /pot HTTP/1.1\r\nHost: test\r\n\r\n", "brew /pot http/1.1\r\n"),
    (
        "query with odd characters",
        "GET /q?a=%00&b=[]|x HTTP/1.1\r\nHost: test\r\n\r\n",
        "get /q?a=%00&b=[]|x http/1.1\r\n",
    ),
    (
        "path that would be shorter",
        "GET /a/../b//c HTTP/1.1\r\nHost: test\r\n\r\n",
        "get /a/../b//c http/1.1\r\n",
    ),
    (
        "field of several lines",
        "GET /two HTTP/1.1\r\nHost: test\r\nX-A: 1\r\nX-A: 2\r\n\r\n",
        "\r\nx-a: 1\r\nx-a: 2\r\n",
    ),
    (
        "unknown expectation of none",
        "GET /conn HTTP/1.1\r\nHost: test\r\nConnection: ,, x-b ,\r\nX-B: 1\r\n\r\n",
        "get /conn ",
    ),
    (
        "length of nothing",
        "POST /zero HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n",
        "\r\ncontent-length: 0\r\n",
    ),
    (
        "one length twice",
        "POST /same HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        "post /same ",
    ),
    (
        "length with zeros",
        "POST /zeros HTTP/1.1\r\nHost: test\r\nContent-Length: 000\r\n\r\n",
        "post /zeros ",
    ),
];

#[test]
fn odd_requests_that_are_right_come_through() {
    let server = Server::answering(OK);
    let front = Front::start(&[server.address], "", "");
    for (what, request, seen) in VALID {
        let before = server.heads().len();
        let mut client = front.connect();
        client.write_all(request.as_bytes()).unwrap();
        let answer = head(&mut client);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{what}: {answer}");
        let heads = server.heads().split_off(before);
        assert!(heads.len() == 1 && heads[0].contains(seen), "{what}: {heads:?}");
    }
    let last = server.heads().into_iter().find(|head| head.starts_with("get /conn ")).unwrap();
    assert!(!last.contains("x-b"), "{last}");
}

#[test]
fn requests_that_come_in_one_packet_are_answered_one_after_the_other() {
    let server = Server::answering(OK);
    let front = Front::start(&[server.address], "", "");
    let one = |number: u32, more: &str| format!("GET /{number} HTTP/1.1\r\nHost: test\r\n{more}\r\n");
    let all: String = (0..20).map(|number| one(number, "")).collect();
    let answers = front.ask(&format!("{all}{}", one(20, "Connection: close\r\n")));
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 21, "{answers}");
    let asked: Vec<String> =
        server.heads().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(asked, (0..=20).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

/// Answers of servers, and what clients see: the first line, how the rest ends, and what is not in the head.
const ANSWERS: &[(&str, &str, &str)] = &[
    ("HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", "HTTP/1.1 204 ", "x-a: b"),
    ("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 304 ", "etag: \"x\""),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 ", "content-length: 0"),
    ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 ", "content-length: 0"),
    ("HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 599 ", "content-length: 0"),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 ",
        "transfer-encoding: chunked",
    ),
    (
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 ",
        "content-length: 0",
    ),
    (
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n",
        "HTTP/1.1 200 ",
        "set-cookie: a=1\r\nset-cookie: b=2",
    ),
];

#[test]
fn answers_without_a_body_end_where_they_should() {
    for (answer, status, field) in ANSWERS {
        let server = Server::answering(answer);
        let front = Front::start(&[server.address], "", "");
        let mut client = front.connect();
        // The second one shows where the first has ended.
        for _ in 0..2 {
            client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
            let seen = head(&mut client);
            assert!(seen.starts_with(status) && seen.to_lowercase().contains(field), "{answer:?}: {seen}");
            if field.contains("chunked") {
                assert_eq!(crate::harness::read_to(&mut client, "0\r\n\r\n"), "0\r\n\r\n");
            }
        }
        client.write_all(b"HEAD / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let seen = rest(&mut client).unwrap();
        assert!(seen.starts_with(status) && seen.ends_with("\r\n\r\n"), "{answer:?}: {seen}");
    }
}

fn tool(name: &str, args: &[&str]) -> String {
    let output = Command::new(name).args(args).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_nghttp2_asks_is_answered() {
    let nginx = Nginx::start("");
    let front = Front::start_with(&[nginx.address], &https::tls(), "", "");
    let url = |path: &str| format!("https://{}{path}", front.address);
    // Padded frames, a head of several frames, many streams at once, and a body with trailers.
    let long = format!("x-long: {}", "a".repeat(7000));
    for args in [
        &["--padding=100"][..],
        &["--header", &long],
        &["--multiply=100"],
        &["--window-bits=16", "--connection-window-bits=16"],
    ] {
        let path = url("/file.txt");
        let said = tool("nghttp", &[args, &["--null-out", "--stat", &path]].concat());
        let requests = said.lines().filter(|line| line.ends_with(" /file.txt")).count();
        let answered =
            said.lines().filter(|line| line.contains(" 200 ") && line.ends_with(" /file.txt")).count();
        assert!(requests > 0 && answered == requests, "{args:?}: {said}");
    }
    // A head that is too large, of several frames, is refused.
    let large =
        tool("nghttp", &["--continuation", "--header", &long, "--null-out", "--stat", &url("/file.txt")]);
    assert!(large.contains(" 431 ") && !large.contains(" 200 "), "{large}");
    for args in [
        &["--clients=8", "--requests=2000", "--max-concurrent-streams=20"][..],
        &["--h1", "--clients=8", "--requests=2000"],
    ] {
        let said = tool("h2load", &[args, &[&url("/file.txt")]].concat());
        assert!(said.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{args:?}: {said}");
    }
    let large = curl(&["--insecure", "--http2", &url("/large.bin")]);
    assert_eq!(large.len(), 3_000_000);
    let body = data("ca.pem");
    let upload = format!("@{body}");
    let answer = curl(&["--insecure", "--http2", "--include", "--data-binary", &upload, &url("/file.txt")]);
    assert!(answer.starts_with("HTTP/2 405"), "{answer}");
}

/// A thousand that ask for nothing, and some that take a byte now and then, are in nobody's way.
#[test]
fn clients_that_do_little_hinder_nobody() {
    let nginx = Nginx::start("");
    let front = Front::start(&[nginx.address], "", "");
    let idle: Vec<TcpStream> = (0..1000).map(|_| front.connect()).collect();
    let mut slow: Vec<TcpStream> = (0..20).map(|_| front.connect()).collect();
    for client in &mut slow {
        client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        assert!(head(client).starts_with("HTTP/1.1 200 "));
    }
    for _ in 0..50 {
        assert!(front.get("/file.txt", "").ends_with("from nginx\n"));
        for client in &mut slow {
            client.read_exact(&mut [0]).unwrap();
        }
    }
    wait_for("the connections", || {
        (front.status()["counts"]["connections"].as_u64() >= Some(1070)).then_some(())
    });
    // They have lost nothing by it.
    for mut client in idle.into_iter().take(20) {
        client.write_all(b"GET /file.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        assert!(rest(&mut client).unwrap().ends_with("from nginx\n"));
    }
    for mut client in slow {
        assert_eq!(rest(&mut client).unwrap().len(), 3_000_000 - 50);
    }
    assert_eq!(front.status()["counts"]["cut"], 0);
}
