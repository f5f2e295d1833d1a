use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::socket::tests::Test;
use crate::socket::{MAX_LINE, StatusOf, StatusRequest, StatusResponse};

type Server = super::Server<StatusOf<Test>>;

struct Site {
    directory: TempDir,
    path: PathBuf,
}

fn site() -> Site {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run/van.sock");
    Site { directory, path }
}

/// Says 7 to everything, until the test ends.
fn serve_seven(mut server: Server) {
    tokio::spawn(async move {
        while let Some(call) = server.next_call().await {
            call.respond(StatusResponse::Status(Test { number: 7 }));
        }
    });
}

async fn ask(stream: UnixStream, line: &[u8]) -> String {
    let (read, mut write) = stream.into_split();
    // The server may refuse a line before it has read all of it.
    drop(write.write_all(line).await);
    let mut answer = String::new();
    drop(BufReader::new(read).read_line(&mut answer).await);
    answer
}

#[tokio::test]
async fn the_program_itself_is_answered_as_its_clients_are() {
    let site = site();
    let mut server = Server::bind(&site.path).unwrap();
    let caller = server.caller();
    let (response, ()) = tokio::join!(caller.call(StatusRequest::Status), async {
        let call = server.next_call().await.unwrap();
        assert_eq!(*call.request(), StatusRequest::Status);
        call.respond(StatusResponse::Status(Test { number: 7 }));
    });
    assert_eq!(response, StatusResponse::Status(Test { number: 7 }));
    server.close().await;
    let refusal = caller.call(StatusRequest::Status).await.granted().unwrap_err();
    assert_eq!(refusal, "the daemon is shutting down");
}

#[tokio::test]
async fn the_socket_is_private_and_goes_away() {
    let site = site();
    let server = Server::bind(&site.path).unwrap();
    assert_eq!(std::fs::metadata(&site.path).unwrap().permissions().mode() & 0o777, 0o600);
    let directory = std::fs::metadata(site.directory.path().join("run")).unwrap();
    assert_eq!(directory.permissions().mode() & 0o022, 0);
    drop(server);
    assert!(!site.path.exists());
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_a_dead_one_replaced() {
    let site = site();
    let server = Server::bind(&site.path).unwrap();
    assert!(matches!(Server::bind(&site.path), Err(BindError::InUse { .. })));
    drop(server);

    drop(std::os::unix::net::UnixListener::bind(&site.path).unwrap());
    assert!(site.path.exists(), "the dead daemon's socket is left");
    Server::bind(&site.path).unwrap();
}

#[tokio::test]
async fn other_files_are_left_alone() {
    let site = site();
    std::fs::create_dir(site.path.parent().unwrap()).unwrap();
    std::fs::write(&site.path, "precious").unwrap();
    assert!(matches!(Server::bind(&site.path), Err(BindError::NotASocket { .. })));
    assert_eq!(std::fs::read(&site.path).unwrap(), b"precious");
}

#[tokio::test]
async fn requests_are_answered_in_order() {
    let site = site();
    let mut server = Server::bind(&site.path).unwrap();
    let stream = UnixStream::connect(&site.path).await.unwrap();
    let asked = tokio::spawn(ask(stream, b"{\"version\":1,\"op\":\"status\"}\n"));
    let call = server.next_call().await.unwrap();
    assert_eq!(*call.request(), StatusRequest::Status);
    call.respond(StatusResponse::Status(Test { number: 1 }));
    assert_eq!(asked.await.unwrap(), "{\"version\":1,\"result\":\"status\",\"value\":{\"number\":1}}\n");
}

#[tokio::test]
async fn a_dropped_call_is_answered_all_the_same() {
    let site = site();
    let mut server = Server::bind(&site.path).unwrap();
    let stream = UnixStream::connect(&site.path).await.unwrap();
    let asked = tokio::spawn(ask(stream, b"{\"version\":1,\"op\":\"status\"}\n"));
    drop(server.next_call().await.unwrap());
    assert!(asked.await.unwrap().contains("shutting down"));
}

#[tokio::test]
async fn whoever_waits_is_told_of_the_end_and_who_does_not_read_delays_it_not() {
    let site = site();
    let mut server = Server::bind(&site.path).unwrap();
    let line = b"{\"version\":1,\"op\":\"status\"}\n";
    let connect = || UnixStream::connect(&site.path);
    let (silent, asking, queued) =
        (connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap());
    let asked = tokio::spawn(ask(asking, line));
    let call = server.next_call().await.unwrap();
    let waits = tokio::spawn(ask(queued, line));
    while server.calls.is_empty() {
        tokio::task::yield_now().await;
    }
    let close = tokio::spawn(server.close());
    drop(call);
    close.await.unwrap();
    assert!(asked.await.unwrap().contains("shutting down"));
    assert!(waits.await.unwrap().contains("shutting down"));
    assert_eq!(ask(silent, line).await, "");
    assert!(!site.path.exists());
}

#[tokio::test]
async fn nonsense_is_answered_with_an_error() {
    let site = site();
    serve_seven(Server::bind(&site.path).unwrap());
    let mut endless = vec![b'x'; MAX_LINE];
    endless.push(b'\n');
    for (line, expected) in [
        (b"hello\n".as_slice(), "not a message"),
        (b"{\"version\":7,\"op\":\"status\"}\n", "version 7"),
        (b"{\"version\":1,\"op\":\"dance\"}\n", "dance"),
        (&endless, "longer than"),
    ] {
        let answer = ask(UnixStream::connect(&site.path).await.unwrap(), line).await;
        assert!(answer.contains(expected), "{answer}");
    }
}

#[tokio::test]
async fn one_client_too_many_is_told_so() {
    let site = site();
    serve_seven(Server::bind(&site.path).unwrap());
    let mut clients = Vec::new();
    for _ in 0..MAX_CLIENTS {
        let mut stream = UnixStream::connect(&site.path).await.unwrap();
        stream.write_all(b"{\"version\":1,\"op\":\"status\"}\n").await.unwrap();
        stream.readable().await.unwrap();
        clients.push(stream);
    }
    let answer = ask(UnixStream::connect(&site.path).await.unwrap(), b"").await;
    assert!(answer.contains("clients are connected already"), "{answer}");

    clients.pop();
    let again = async {
        loop {
            let stream = UnixStream::connect(&site.path).await.unwrap();
            if ask(stream, b"{\"version\":1,\"op\":\"status\"}\n").await.contains("\"status\"") {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), again).await.unwrap();
}
