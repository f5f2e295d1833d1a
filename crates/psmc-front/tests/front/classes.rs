//! Who waits, and who is refused.

use std::io::Write;
use std::sync::mpsc;

use crate::harness::{Front, OK, Server, head, rest, wait_for};

const CLASSES: &str = "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\nratio = 1\n\
    [[class]]\nname = \"rest\"\nratio = 3\nqueue = 1\n";

/// A server that answers when it is told to.
fn held() -> (Server, mpsc::Sender<()>, mpsc::Receiver<String>) {
    let (go, wait) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let server = Server::start(move |stream, _| {
        say.send(head(stream)).unwrap();
        if wait.lock().unwrap().recv().is_ok() {
            let _ = stream.write_all(OK.replace("OK\r\n", "OK\r\nConnection: close\r\n").as_bytes());
        }
    });
    (server, go, said)
}

#[test]
fn a_queue_has_a_bound_and_who_hangs_up_leaves_it() {
    let (server, go, said) = held();
    let front = Front::start(&[server.address], "limit = 1", CLASSES);
    let ask = |cookie: &str| {
        let mut client = front.connect();
        write!(client, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n")
            .unwrap();
        client
    };
    let waiting = |count: [u64; 2]| {
        wait_for("who waits", || {
            let status = front.status();
            let now = [0, 1].map(|class| status["classes"][class]["waiting"].as_u64().unwrap());
            (now == count).then_some(())
        });
    };
    let mut first = ask("a=b");
    said.recv().unwrap();
    let second = ask("a=b");
    waiting([0, 1]);
    let answer = rest(&mut ask("a=b")).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.to_lowercase().contains("\r\nretry-after: "),
        "{answer}"
    );
    // Another class has a queue of its own.
    let mut paying = ask("tier=gold");
    waiting([1, 1]);
    drop(second);
    waiting([1, 0]);
    let mut third = ask("a=b");
    waiting([1, 1]);
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    for client in [&mut first, &mut paying, &mut third] {
        assert!(rest(client).unwrap().starts_with("HTTP/1.1 200 "));
    }
    let classes = &front.status()["classes"];
    assert_eq!(classes[0]["name"], "paying");
    assert_eq!((classes[0]["arrived"].as_u64(), classes[1]["arrived"].as_u64()), (Some(1), Some(4)));
    assert_eq!((classes[1]["cancelled"].as_u64(), classes[1]["refused"].as_u64()), (Some(1), Some(1)));
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let (server, _go, said) = held();
    let front = Front::start(&[server.address], "limit = 1", "");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    said.recv().unwrap();
    drop(client);
    wait_for("the place", || (front.status()["servers"][0]["in_flight"] == 0).then_some(()));
    assert_eq!(front.status()["counts"]["abandoned"], 1);
}
