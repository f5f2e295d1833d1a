//! What strangers may try, and what too many friends do.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::AlertDescription;

use super::*;

/// Sends `input` as it is, and reads what comes back until the other side closes.
async fn answer_to(server: &Server, input: &[u8]) -> Vec<u8> {
    let mut tcp = server.tcp().await;
    tcp.write_all(input).await.unwrap();
    let mut answer = Vec::new();
    timeout(5 * SECOND, tcp.read_to_end(&mut answer)).await.unwrap().unwrap();
    answer
}

/// A TLS record with one fatal alert (RFC 8446 §5.1 and §6).
fn alert(record: &[u8]) -> AlertDescription {
    let [21, 3, _, 0, 2, 2, description] = *record else { panic!("no alert: {record:?}") };
    description.into()
}

#[tokio::test]
async fn garbage_is_answered_with_an_alert_and_nothing_else() {
    let server = Server::start(&[]);
    for garbage in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0xff; 20_000]] {
        alert(&answer_to(&server, garbage).await);
    }
    reaches(&server.counters.failed_handshake, 2).await;
}

/// What somebody reads on the way who calls `whom`.
async fn first_message(whom: PublicKey) -> Vec<u8> {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let dialer = Dialer::new(&identity(), whom);
    let dialing = tokio::spawn(async move { dialer.connect(near).await.map(drop) });
    let mut message = vec![0; 1 << 14];
    let len = far.read(&mut message).await.unwrap();
    message.truncate(len);
    dialing.abort();
    message
}

#[tokio::test]
async fn a_quiet_acceptor_says_nothing_to_who_does_not_know_its_key() {
    let me = identity();
    let server = Server::start_quietly(&[&me]);
    let mut heard = 0;
    let alpn = [0, 16, 0, 9, 0, 7, 6, b'p', b's', b'm', b'c', b'/', b'1'];
    for words in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        client_hello_1_2(),
        client_hello_1_3(&[]),
        client_hello_1_3(&alpn),
        first_message(identity().public()).await,
    ] {
        assert_eq!(answer_to(&server, &words).await, b"", "{words:?}");
        heard += 1;
    }
    reaches(&server.counters.failed_handshake, heard).await;
    // Who knows the key is answered, and who repeats what it said is not.
    let words = first_message(server.identity.public()).await;
    let mut tcp = server.tcp().await;
    tcp.write_all(&words).await.unwrap();
    // The record of a handshake (RFC 8446 §5.1).
    assert_eq!(timeout(5 * SECOND, tcp.read_u8()).await.unwrap().unwrap(), 22);
    assert_eq!(answer_to(&server, &words).await, b"");
    server.dial(&me).await.unwrap();
}

#[tokio::test]
async fn tls_1_2_is_refused() {
    let server = Server::start(&[]);
    let hello = client_hello_1_2();
    assert_eq!(alert(&answer_to(&server, &hello).await), AlertDescription::ProtocolVersion);
}

#[tokio::test]
async fn a_client_that_names_no_protocol_or_another_one_learns_nothing() {
    let server = Server::start(&[]);
    let http = [0, 16, 0, 5, 0, 3, 2, b'h', b'2'];
    for alpn in [&[][..], &http] {
        assert_eq!(
            alert(&answer_to(&server, &client_hello_1_3(alpn)).await),
            AlertDescription::NoApplicationProtocol
        );
    }
    reaches(&server.counters.failed_handshake, 2).await;
}

/// The ClientHello of a TLS 1.3 client that knows nothing of this protocol (RFC 8446 §4.1.2), with one more extension.
fn client_hello_1_3(more: &[u8]) -> Vec<u8> {
    let key_share = [&[0, 51, 0, 38, 0, 36, 0, 29, 0, 32][..], &[9; 32]].concat();
    let extensions: [&[u8]; 5] = [
        // supported_versions: TLS 1.3
        &[0, 43, 0, 3, 2, 3, 4],
        // supported_groups: x25519
        &[0, 10, 0, 4, 0, 2, 0, 29],
        // signature_algorithms: ed25519, ecdsa_secp256r1_sha256
        &[0, 13, 0, 6, 0, 4, 8, 7, 4, 3],
        &key_share,
        more,
    ];
    let extensions = with_length::<2>(&extensions.concat());
    // Random, no session, TLS_AES_128_GCM_SHA256, no compression.
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &extensions].concat();
    let message = [&[1][..], &with_length::<3>(&body)].concat();
    [&[22, 3, 1][..], &with_length::<2>(&message)].concat()
}

/// A ClientHello without the extension `supported_versions` (RFC 5246 §7.4.1.2).
fn client_hello_1_2() -> Vec<u8> {
    let extensions: [&[u8]; 4] = [
        // application_layer_protocol_negotiation: this protocol
        b"\x00\x10\x00\x09\x00\x07\x06psmc/1",
        // supported_groups: x25519
        &[0, 10, 0, 4, 0, 2, 0, 29],
        // ec_point_formats: uncompressed
        &[0, 11, 0, 2, 1, 0],
        // signature_algorithms: ed25519, ecdsa_secp256r1_sha256
        &[0, 13, 0, 6, 0, 4, 8, 7, 4, 3],
    ];
    let extensions = with_length::<2>(&extensions.concat());
    // Version 1.2, random, no session, ECDHE-ECDSA-AES128-GCM, no compression.
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0xc0, 0x2b], &[1, 0], &extensions].concat();
    let message = [&[1][..], &with_length::<3>(&body)].concat();
    [&[22, 3, 1][..], &with_length::<2>(&message)].concat()
}

/// `body` behind its length in `N` bytes, big-endian.
fn with_length<const N: usize>(body: &[u8]) -> Vec<u8> {
    let length = body.len().to_be_bytes();
    [&length[length.len() - N..], body].concat()
}

#[tokio::test]
async fn a_peer_gets_through_a_flood_of_half_open_connections() {
    const FLOOD: u16 = 2000;
    raise_file_limit();
    let me = identity();
    let mut server = Server::start(&[&me]);
    let flood = tokio::spawn(flood(server.address, FLOOD));
    reaches(&server.counters.evicted, u64::from(FLOOD) / 4).await;
    server.dial(&me).await.unwrap();
    assert_eq!(server.accepted().await.peer, me.public());
    assert!(!flood.is_finished(), "the peer came too late to be tested");

    let open = flood.await.unwrap();
    assert_eq!(open.len(), usize::from(FLOOD));
    server.dial(&me).await.unwrap();
    assert_eq!(server.accepted().await.peer, me.public());
}

/// Opens connections from 100 addresses, and keeps them all.
async fn flood(to: SocketAddr, count: u16) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for n in 0..count {
        let [_, low] = (n % 100).to_be_bytes();
        let mut stream = tcp::connect_tcp(None, Some([127, 0, 1, low].into()), to, SECOND).await.unwrap();
        // The beginning of a handshake record, so that there is something to wait for.
        stream.write_all(&[22, 3, 1]).await.unwrap();
        open.push(stream);
    }
    open
}

/// Both ends of the flood are in this process, which needs more file descriptors than the usual 1024.
fn raise_file_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[tokio::test]
async fn a_full_queue_drops_and_counts() {
    let me = identity();
    let mut server = Server::start(&[&me]);
    let mut dialed = Vec::new();
    for _ in 0..=QUEUE {
        dialed.push(server.dial(&me).await.unwrap());
    }
    reaches(&server.counters.overflowed, 1).await;
    assert_eq!(server.counters.accepted.load(Ordering::Relaxed), QUEUE as u64);
    assert_eq!(server.accepted().await.peer, me.public());
}
