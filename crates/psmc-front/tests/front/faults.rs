//! Servers that fail: the client is told, and never takes a part for the whole.

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use socket2::SockRef;

use crate::harness::{Front, OK, PATIENCE, Server, free_address, head, rest, wait_for};

fn reset(stream: &TcpStream) {
    SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
}

/// A server that reads a head, says this, and closes; or resets the connection.
fn saying(answer: &'static str, is_reset: bool) -> Server {
    Server::start(move |stream, _| {
        head(stream);
        stream.write_all(answer.as_bytes()).unwrap();
        if is_reset {
            reset(stream);
        }
    })
}

#[test]
fn an_answer_that_is_cut_off_does_not_look_complete() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    let server = saying(half, false);
    let front = Front::start(&[server.address], "", "");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    // It is reset, or ends before what the head says.
    let answer = rest(&mut client).unwrap_or_default();
    assert!(
        answer.is_empty()
            || (answer.to_lowercase().contains("content-length: 10") && !answer.ends_with("half\n")),
        "{answer}"
    );
    wait_for("the count", || (front.status()["counts"]["cut"] == 1).then_some(()));

    let server = saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", false);
    let front = Front::start(&[server.address], "", "");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert!(!rest(&mut client).unwrap_or_default().ends_with("0\r\n\r\n"));
    wait_for("the count", || (front.status()["counts"]["cut"] == 1).then_some(()));
}

#[test]
fn an_answer_without_a_length_is_reset_when_it_is_cut_off() {
    // HTTP/1.0 knows no chunks: the end of the connection is the end of the answer, unless it is a reset.
    let server = saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", true);
    let front = Front::start(&[server.address], "", "");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.0\r\nHost: test\r\n\r\n").unwrap();
    let ended = rest(&mut client);
    assert!(
        ended.is_err() || ended.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.0 502")),
        "{ended:?}"
    );
}

#[test]
fn a_server_that_does_not_answer_is_a_bad_gateway() {
    for (answer, is_reset) in [
        ("", false),
        ("", true),
        ("garbage\r\n\r\n", false),
        ("HTTP/1.1 200", false),
        ("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nok\n", false),
    ] {
        let server = saying(answer, is_reset);
        let front = Front::start(&[server.address], "", "");
        assert!(front.get("/", "").starts_with("HTTP/1.1 502 "), "{answer:?}");
        assert_eq!(server.connections(), 1, "{answer:?}");
    }
    let front = Front::start(&[free_address()], "", "");
    assert!(front.get("/", "").starts_with("HTTP/1.1 502 "));
    // It is known from then on.
    assert!(front.get("/", "").starts_with("HTTP/1.1 503 "));
}

#[test]
fn a_slow_server_times_out() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let server = Server::start(move |stream, _| {
        head(stream);
        let _ = wait.lock().unwrap().recv_timeout(PATIENCE);
    });
    let front = Front::start(&[server.address], "answer_time = \"200ms\"", "");
    assert!(front.get("/", "").starts_with("HTTP/1.1 504 "));
    drop(go);
    // One that stops in the middle is cut off.
    let server = Server::start(move |stream, _| {
        head(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
        let _ = rest(stream);
    });
    let front = Front::start(&[server.address], "", "[limits]\nstall_time = \"200ms\"\n");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let _ = rest(&mut client);
    wait_for("the count", || (front.status()["counts"]["cut"] == 1).then_some(()));
}

#[test]
fn a_slow_client_times_out() {
    let server = Server::answering(OK);
    let front = Front::start(&[server.address], "", "[limits]\nstall_time = \"200ms\"\n");
    let answer = front.ask("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn what_comes_after_the_length_is_no_answer_to_anybody() {
    let server = Server::start(|stream, _| {
        head(stream);
        let more = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad";
        stream.write_all(format!("{OK}{more}").as_bytes()).unwrap();
        let _ = rest(stream);
    });
    let front = Front::start(&[server.address], "", "");
    for number in 1..=3 {
        let answer = front.get("/", "");
        assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
        assert_eq!(server.connections(), number);
    }
}

#[test]
fn what_is_sent_on_a_connection_that_was_closed_is_sent_once_more() {
    let server = Server::start(|stream, number| {
        head(stream);
        stream.write_all(OK.as_bytes()).unwrap();
        if number == 0 {
            // The next request on this connection is read, and never answered.
            head(stream);
            reset(stream);
        }
    });
    let front = Front::start(&[server.address], "", "");
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
    wait_for("a connection that is kept", || (front.status()["servers"][0]["idle"] == 1).then_some(()));
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
    assert_eq!((server.connections(), front.status()["counts"]["repeated"].as_u64()), (2, Some(1)));
}

#[test]
fn what_a_server_may_have_done_is_not_asked_of_it_again() {
    let server = Server::start(|stream, number| {
        head(stream);
        stream.write_all(OK.as_bytes()).unwrap();
        if number == 0 {
            head(stream);
            reset(stream);
        }
    });
    let front = Front::start(&[server.address], "", "");
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
    wait_for("a connection that is kept", || (front.status()["servers"][0]["idle"] == 1).then_some(()));
    let answer = front.ask("POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(server.connections(), 1);
}

#[test]
fn another_server_takes_what_one_cannot() {
    let server = Server::answering(OK);
    let front = Front::start(&[free_address(), server.address, free_address()], "", "");
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let address = front.address;
            thread::spawn(move || {
                let mut client = crate::harness::connect(address);
                client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
                rest(&mut client).unwrap()
            })
        })
        .collect();
    for client in clients {
        let answer = client.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

#[test]
fn a_server_that_is_not_well_gets_nothing_until_it_is() {
    let is_well = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let flag = is_well.clone();
    let server = Server::start(move |stream, _| {
        let seen = head(stream);
        let answer = if seen.starts_with("GET /health ") && !flag.load(std::sync::atomic::Ordering::SeqCst) {
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
        } else {
            OK
        };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let front = Front::start(&[server.address], "health_path = \"/health\"\nhealth_interval = \"20ms\"", "");
    let up = |is_up: bool| wait_for("health", || (front.status()["servers"][0]["up"] == is_up).then_some(()));
    up(true);
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
    is_well.store(false, std::sync::atomic::Ordering::SeqCst);
    up(false);
    assert!(front.get("/", "").starts_with("HTTP/1.1 503 "));
    is_well.store(true, std::sync::atomic::Ordering::SeqCst);
    up(true);
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_reads_nothing_times_out() {
    let server = Server::start(|stream, _| {
        head(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n").unwrap();
        // More than the buffers of all sockets between take.
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    let front = Front::start(&[server.address], "", "[limits]\nstall_time = \"200ms\"\n");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    wait_for("the count", || (front.status()["counts"]["abandoned"] == 1).then_some(()));
    assert_eq!(front.status()["servers"][0]["in_flight"], 0);
}
