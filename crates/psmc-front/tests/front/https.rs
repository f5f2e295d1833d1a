//! TLS, and HTTP/2 on both sides.

use std::io::Write;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::harness::{Front, OK, PATIENCE, Server, curl, data, wait_for};

pub(crate) fn tls() -> String {
    format!("tls = {{ certificate = \"{}\", key = \"{}\" }}\n", data("server.pem"), data("server.key"))
}

/// Asks by the name that stands in the certificate.
fn ask(front: &Front, args: &[&str], path: &str) -> String {
    let resolve = format!("{NAME}:{}:{}", front.address.port(), front.address.ip());
    let (ca, url) = (data("ca.pem"), format!("https://{NAME}:{}{path}", front.address.port()));
    let mut all = vec!["--cacert", &ca, "--resolve", &resolve];
    all.extend(args);
    all.push(&url);
    curl(&all)
}

const NAME: &str = "front.test";

#[test]
fn both_versions_are_spoken_by_tls() {
    let server = Server::answering(OK);
    let front = Front::start_with(&[server.address], &tls(), "", "");
    for (version, said) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let answer = ask(
            &front,
            &[version, "--write-out", "%{http_version}", "--data", "abc", "--cookie", "a=1"],
            "/x?y",
        );
        assert_eq!(answer, format!("ok\n{said}"));
    }
    for head in server.heads() {
        assert!(head.starts_with("post /x?y http/1.1\r\n"), "{head}");
        for field in [
            "host: front.test:8080\r\n",
            "x-forwarded-proto: https\r\n",
            "cookie: a=1\r\n",
            "content-length: 3\r\n",
        ] {
            assert!(head.contains(&format!("\r\n{field}")), "{field}: {head}");
        }
    }
    assert_eq!(server.heads().len(), 2);
}

#[test]
fn an_answer_that_is_cut_off_is_an_error_of_its_stream() {
    let server = Server::start(|stream, _| {
        crate::harness::head(stream);
        let half = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
        std::io::Write::write_all(stream, half).unwrap();
    });
    let front = Front::start_with(&[server.address], &tls(), "", "");
    let mut curl = std::process::Command::new("curl");
    let resolve = format!("{NAME}:{}:{}", front.address.port(), front.address.ip());
    curl.args(["--silent", "--http2", "--cacert", &data("ca.pem"), "--resolve", &resolve]);
    let output = curl.arg(format!("https://{NAME}:{}/", front.address.port())).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn http_2_is_spoken_to_servers_too() {
    // The inner front is a server of HTTP/2 only for who speaks TLS, so that nginx is it.
    let nginx = crate::nginx::Nginx::start("http2 on");
    let front = Front::start_with(&[nginx.address], &tls(), "h2 = true", "");
    let answer = ask(&front, &["--http2", "--include"], "/file.txt");
    assert!(answer.contains("\r\n\r\nfrom nginx\n"), "{answer}");
    let front = Front::start(&[nginx.address], "h2 = true", "");
    for _ in 0..3 {
        assert_eq!(curl(&[&front.url("/file.txt")]), "from nginx\n");
    }
    assert_eq!(front.status()["servers"][0]["connects"], 1);
}

#[tokio::test]
async fn a_connection_of_http_2_ends_when_nothing_goes_on_and_not_before() {
    const IDLE: Duration = Duration::from_secs(1);
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let server = Server::start(move |stream, _| {
        crate::harness::head(stream);
        wait.lock().unwrap().recv().unwrap();
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let front = Front::start_with(&[server.address], &tls(), "", "[limits]\nhead_time = \"1s\"\n");
    let (mut sender, connection) = connect(&front).await;
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get(format!("https://{NAME}/")).body(Empty::<Bytes>::new()).unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    // A request that takes longer keeps it.
    tokio::time::sleep(2 * IDLE).await;
    assert!(!answer.is_finished() && !connection.is_finished());
    go.send(()).unwrap();
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    tokio::time::timeout(PATIENCE, connection).await.expect("it ends").unwrap().unwrap();
    assert!(sender.is_closed());
}

#[tokio::test]
async fn a_websocket_begins_by_http_2_as_well() {
    let server = Server::start(|stream, _| {
        let seen = crate::harness::head(stream).to_lowercase();
        assert!(seen.starts_with("get /socket?a=b http/1.1\r\n"), "{seen}");
        for field in [
            "host: front.test",
            "connection: upgrade",
            "upgrade: websocket",
            "sec-websocket-key: ",
            "sec-websocket-version: 13",
            "origin: https://front.test",
            "via: 2 psmc-front",
        ] {
            assert!(seen.contains(&format!("\r\n{field}")), "{field}: {seen}");
        }
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello";
        stream.write_all(answer.as_bytes()).unwrap();
        crate::harness::read_to(stream, "there");
        stream.write_all(b"again").unwrap();
    });
    let front = Front::start_with(&[server.address], &tls(), "", "");
    let (mut sender, connection) = connect(&front).await;
    tokio::spawn(connection);
    // What a server can do it says in its first frame.
    sender.ready().await.unwrap();
    let ask = |protocol: &'static str| {
        let request = hyper::Request::connect(format!("https://{NAME}/socket?a=b"));
        let request =
            request.header("sec-websocket-version", "13").header("origin", format!("https://{NAME}"));
        request.extension(hyper::ext::Protocol::from_static(protocol)).body(Empty::<Bytes>::new()).unwrap()
    };
    let answer = sender.send_request(ask("websocket")).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["sec-websocket-protocol"]),
        (200, &"chat".parse().unwrap())
    );
    for field in ["sec-websocket-accept", "upgrade", "connection"] {
        assert!(!answer.headers().contains_key(field), "{field}");
    }
    let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hello");
    stream.write_all(b"there").await.unwrap();
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"again");
    drop(stream);
    // Tunnels of another kind do not begin here.
    assert_eq!(sender.send_request(ask("connect-udp")).await.unwrap().status(), 405);
    wait_for("the count", || (front.status()["counts"]["upgraded"] == 1).then_some(()));
    // By HTTP/2 servers are not asked for it.
    let front = Front::start_with(&[server.address], &tls(), "h2 = true", "");
    let (mut sender, connection) = connect(&front).await;
    tokio::spawn(connection);
    sender.ready().await.unwrap();
    assert_eq!(sender.send_request(ask("websocket")).await.unwrap().status(), 501);
}

type Connection = hyper::client::conn::http2::Connection<
    TokioIo<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>,
    Empty<Bytes>,
    TokioExecutor,
>;

/// Connects by HTTP/2.
async fn connect(front: &Front) -> (hyper::client::conn::http2::SendRequest<Empty<Bytes>>, Connection) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data("ca.pem")).unwrap()).unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
    let name = NAME.try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap()
}
