//! Requests that two programs could read in two ways: refused here, or made one that can be read in one way only.

use crate::harness::{Front, OK, Server, wait_for};

/// Heads and bodies that are refused before a server sees anything.
const REFUSED: [(&str, &str); 22] = [
    ("host as a target", "GET test:80 HTTP/1.1\r\nHost: test\r\n\r\n"),
    ("target without a slash", "GET test HTTP/1.1\r\nHost: test\r\n\r\n"),
    ("all of a server as a target", "GET * HTTP/1.1\r\nHost: test\r\n\r\n"),
    ("space before the colon", "GET / HTTP/1.1\r\nHost: test\r\nContent-Length : 3\r\n\r\nabc"),
    ("tab before the colon", "GET / HTTP/1.1\r\nHost\t: test\r\n\r\n"),
    ("folded field", "GET / HTTP/1.1\r\nHost: test\r\nX-A: b\r\n c\r\n\r\n"),
    ("field before the first name", "GET / HTTP/1.1\r\n Host: test\r\n\r\n"),
    ("bare CR in a value", "GET / HTTP/1.1\r\nHost: test\r\nX-A: b\rContent-Length: 3\r\n\r\n"),
    ("bare CR in the request line", "GET /\r HTTP/1.1\r\nHost: test\r\n\r\n"),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: test\r\nX-A: b\0\r\n\r\n"),
    ("two lengths", "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    ("list of lengths", "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3, 4\r\n\r\nabcd"),
    ("length with a sign", "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: +3\r\n\r\nabc"),
    ("length in hexadecimal", "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0x3\r\n\r\nabc"),
    (
        "chunked is not the last coding",
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    ),
    (
        "coding that is not known",
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ),
    ("coding by HTTP/1.0", "POST / HTTP/1.0\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("no host", "GET / HTTP/1.1\r\n\r\n"),
    ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    ("host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    ("no name", "GET / HTTP/1.1\r\nHost: test\r\n: x\r\n\r\n"),
    ("version that is none", "GET / HTTP/1.12\r\nHost: test\r\n\r\n"),
];

#[test]
fn what_can_be_read_in_two_ways_is_refused_and_ends_the_connection() {
    let server = Server::answering(OK);
    let front = Front::start(&[server.address], "", "");
    for (what, request) in REFUSED {
        // What follows must not be taken for a request.
        let answer = front.ask(&format!("{request}GET /hidden HTTP/1.1\r\nHost: test\r\n\r\n"));
        assert!(
            answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "),
            "{what}: {answer}"
        );
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{what}: {answer}");
    }
    assert_eq!(server.heads(), Vec::<String>::new());
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn chunks_that_are_none_end_request_and_connection() {
    let server = Server::answering(OK);
    let front = Front::start(&[server.address], "", "");
    for chunk in [
        "x\r\nabc\r\n",
        "3 3\r\nabc\r\n",
        "-3\r\nabc\r\n",
        "3\r\nabcd\r\n",
        "\r\n",
        "11111111111111111\r\n",
        "3;a\nb\r\nabc\r\n",
    ] {
        let answer = front.ask(&format!(
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: test\r\n\r\n"
        ));
        // The server may answer before it sees that the body is broken.
        let is_refused = answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.1 200 ");
        assert!(is_refused && answer.matches("HTTP/1.").count() == 1, "{chunk:?}: {answer}");
    }
    assert!(server.heads().iter().all(|head| !head.contains("/hidden")), "{:?}", server.heads());
}

#[test]
fn of_two_kinds_of_length_one_is_passed_on_and_the_connection_ends() {
    // RFC 9112, section 6.1: the coding counts, and the connection is closed after the answer.
    let heads = Server::start(|stream, _| {
        let seen = crate::harness::head(stream).to_lowercase();
        assert!(seen.contains("transfer-encoding: chunked") && !seen.contains("content-length"), "{seen}");
        crate::harness::read_to(stream, "0\r\n\r\n");
        let answer = OK.replace("OK\r\n", "OK\r\nConnection: close\r\n");
        std::io::Write::write_all(stream, answer.as_bytes()).unwrap();
    });
    let front = Front::start(&[heads.address], "", "");
    for lengths in
        ["Content-Length: 6\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 6"]
    {
        let answer = front.ask(&format!(
            "POST / HTTP/1.1\r\nHost: test\r\n{lengths}\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: test\r\n\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{answer}");
    }
}

#[test]
fn limits_of_heads_hold() {
    let server = Server::answering(OK);
    let front = Front::start(
        &[server.address],
        "",
        "[limits]\nhead_size = 2048\nuri_size = 256\nhead_time = \"300ms\"\n",
    );
    let long = "x".repeat(2048);
    assert!(front.get("/", &format!("X-A: {long}\r\n")).starts_with("HTTP/1.1 431 "));
    assert!(front.get(&format!("/{}", "x".repeat(256)), "").starts_with("HTTP/1.1 414 "));
    assert!(front.get(&format!("/{}", "x".repeat(255)), "").starts_with("HTTP/1.1 200 "));
    let many = "X-A: b\r\n".repeat(101);
    assert!(front.get("/", &many).starts_with("HTTP/1.1 431 "));
    assert!(front.ask("CONNECT test:80 HTTP/1.1\r\nHost: test:80\r\n\r\n").starts_with("HTTP/1.1 405 "));
    // A head that does not come, and a connection that asks for nothing, are closed.
    assert_eq!(front.ask("GET / HTTP/1.1\r\nHost: te"), "");
    assert_eq!(front.ask(""), "");
    let counts = wait_for("the count", || Some(front.status()["counts"].clone()));
    assert_eq!(counts["malformed"], 2, "{counts}");
}
