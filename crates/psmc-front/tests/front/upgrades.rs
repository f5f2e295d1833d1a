//! Connections that go on with another protocol.

use std::io::Write;

use crate::harness::{Front, OK, Server, head, read_to, rest, wait_for};

#[test]
fn a_websocket_is_passed_through() {
    let server = Server::start(|stream, number| {
        let seen = head(stream).to_lowercase();
        if number > 0 {
            return stream.write_all(OK.as_bytes()).unwrap();
        }
        assert!(
            seen.contains("\r\nconnection: upgrade") && seen.contains("\r\nupgrade: websocket"),
            "{seen}"
        );
        assert!(seen.contains("\r\nsec-websocket-key: x"), "{seen}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-A: b\r\n\r\nhello";
        stream.write_all(answer.as_bytes()).unwrap();
        read_to(stream, "there");
        stream.write_all(b"again").unwrap();
    });
    // Nobody else is let in while it lasts.
    let front = Front::start(&[server.address], "limit = 1", "[limits]\nconnections = 1\n");
    let mut client = front.connect();
    let ask = "GET /socket HTTP/1.1\r\nHost: test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
    client.write_all(ask.as_bytes()).unwrap();
    let answer = head(&mut client).to_lowercase();
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("\r\nupgrade: websocket"), "{answer}");
    assert!(answer.contains("\r\nconnection: upgrade") && answer.contains("\r\nx-a: b"), "{answer}");
    assert_eq!(read_to(&mut client, "hello"), "hello");
    // It takes no place among requests.
    assert_eq!(front.status()["servers"][0]["in_flight"], 0);
    let mut other = front.connect();
    other.write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let counts = front.status()["counts"].clone();
    assert_eq!((counts["connections"].as_u64(), counts["requests"].as_u64()), (Some(1), Some(1)));
    client.write_all(b"there").unwrap();
    assert_eq!(rest(&mut client).unwrap(), "again");
    // It lasts until both sides have ended it.
    drop(client);
    assert!(rest(&mut other).unwrap().starts_with("HTTP/1.1 200 "));
    wait_for("the count", || (front.status()["counts"]["upgraded"] == 1).then_some(()));
}

#[test]
fn http_does_not_go_on_as_http_that_nobody_sees() {
    let server = Server::answering(OK);
    let front = Front::start(&[server.address], "", "");
    for protocol in ["h2c", "websocket, h2c", "HTTP/2.0", "TLS/1.3"] {
        let fields = format!(
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AAMAAABk\r\n"
        );
        assert!(front.get("/", &fields).starts_with("HTTP/1.1 200 "), "{protocol}");
    }
    for head in server.heads() {
        assert!(!head.contains("upgrade") && !head.contains("http2-settings"), "{head}");
    }
}
