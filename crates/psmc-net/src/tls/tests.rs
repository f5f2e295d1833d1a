//! Handshakes over loopback and over pipes.

mod hostile;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use psmc_wire::crypto::{Aead, KeySource};
use rustls::NamedGroup;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// How many connections a server hands over before somebody takes one.
const QUEUE: usize = 4;

fn identity() -> Identity {
    Identity::new(&PrivateKey::generate())
}

/// An accept loop on loopback.
struct Server {
    identity: Identity,
    allowed: AllowedKeys,
    address: SocketAddr,
    counters: Arc<Counters>,
    ready: mpsc::Receiver<(Secured, SocketAddr)>,
}

impl Server {
    fn start(allow: &[&Identity]) -> Self {
        Self::start_as(allow, false)
    }

    fn start_quietly(allow: &[&Identity]) -> Self {
        Self::start_as(allow, true)
    }

    fn start_as(allow: &[&Identity], is_quiet: bool) -> Self {
        let identity = identity();
        let allowed: AllowedKeys = allow.iter().map(|peer| peer.public()).collect();
        let listener = tcp::listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Counters::default());
        let (sender, ready) = mpsc::channel(QUEUE);
        let acceptor = Acceptor::new(&identity, allowed.clone()).quietly(is_quiet);
        tokio::spawn(Listener::run(listener, acceptor, sender, counters.clone()));
        Self { identity, allowed, address, counters, ready }
    }

    async fn tcp(&self) -> TcpStream {
        tcp::connect_tcp(None, None, self.address, SECOND).await.unwrap()
    }

    async fn dial(&self, as_whom: &Identity) -> Result<Secured, TlsError> {
        Dialer::new(as_whom, self.identity.public()).connect(self.tcp().await).await
    }

    async fn accepted(&mut self) -> Secured {
        timeout(5 * SECOND, self.ready.recv()).await.unwrap().unwrap().0
    }
}

/// Waits until `counter` is at `count`.
async fn reaches(counter: &AtomicU64, count: u64) {
    let wait = async {
        while counter.load(Ordering::Relaxed) < count {
            tokio::time::sleep(SECOND / 1000).await;
        }
    };
    timeout(5 * SECOND, wait).await.expect("the counter reaches the count");
}

/// What a dialer learns from its first read.
async fn refusal(mut dialed: Secured) -> TlsError {
    let read = timeout(5 * SECOND, dialed.stream.read(&mut [0; 1])).await;
    read.expect("an answer").unwrap_err().into()
}

fn tag(keys: &ExportedKeys) -> [u8; 16] {
    keys.packet_key(Aead::Aes256Gcm, Role::Dialer, 0).seal([0; 12], b"", &mut [])
}

#[tokio::test]
async fn both_ends_know_each_other_and_share_keys() {
    let me = identity();
    let mut server = Server::start(&[&me]);
    let mut dialed = server.dial(&me).await.unwrap();
    let mut accepted = server.accepted().await;

    assert_eq!((dialed.peer, dialed.role), (server.identity.public(), Role::Dialer));
    assert_eq!((accepted.peer, accepted.role), (me.public(), Role::Acceptor));
    assert_eq!(tag(&dialed.keys), tag(&accepted.keys));
    for stream in [&dialed.stream, &accepted.stream] {
        let group = stream.get_ref().1.negotiated_key_exchange_group().unwrap();
        assert_eq!(group.name(), NamedGroup::X25519MLKEM768);
    }

    dialed.stream.write_all(b"hello").await.unwrap();
    dialed.stream.flush().await.unwrap();
    let mut read = [0; 5];
    accepted.stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"hello");
    assert_eq!(server.counters.accepted.load(Ordering::Relaxed), 1);
}

/// One of version 0.1 passes over the proof, and one who dials of that version has none.
#[tokio::test]
async fn older_sides_and_newer_ones_understand_each_other() {
    let (site, peer) = (identity(), identity());
    let allowed = AllowedKeys::from_iter([peer.public()]);
    let older = tokio_rustls::TlsAcceptor::from(Arc::new(config::server(&site, allowed.clone(), ALPN)));
    let (near, far) = tokio::io::duplex(1 << 16);
    let dialer = Dialer::new(&peer, site.public());
    let (dialed, accepted) = tokio::join!(dialer.connect(near), older.accept(far));
    assert_eq!(dialed.unwrap().protocol, ALPN);
    assert_eq!(accepted.unwrap().get_ref().1.alpn_protocol(), Some(ALPN));

    let older = TlsConnector::from(Arc::new(config::client(&peer, site.public(), ALPN)));
    for is_quiet in [false, true] {
        let acceptor = Acceptor::new(&site, allowed.clone()).quietly(is_quiet);
        let (near, far) = tokio::io::duplex(1 << 16);
        let (dialed, accepted) = tokio::join!(older.connect(no_name(), near), acceptor.accept(far));
        if is_quiet {
            assert!(matches!(accepted, Err(TlsError::Unproved)), "{accepted:?}");
            assert_eq!(dialed.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        } else {
            assert_eq!(accepted.unwrap().peer, peer.public());
        }
    }
}

#[tokio::test]
async fn every_connection_has_its_own_keys() {
    let me = identity();
    let mut server = Server::start(&[&me]);
    let (one, two) = (server.dial(&me).await.unwrap(), server.dial(&me).await.unwrap());
    assert_ne!(tag(&one.keys), tag(&two.keys));
    server.accepted().await;
    server.accepted().await;
}

#[tokio::test]
async fn a_dialer_refuses_a_wrong_key() {
    let me = identity();
    let server = Server::start(&[&me]);
    let other = identity().public();
    let error = Dialer::new(&me, other).connect(server.tcp().await).await.unwrap_err();
    let TlsError::WrongKey { expected, found } = error else { panic!("{error:?}") };
    assert_eq!((expected, found), (other, server.identity.public()));
    reaches(&server.counters.failed_handshake, 1).await;
}

#[tokio::test]
async fn an_acceptor_refuses_an_unknown_key_and_says_so() {
    let server = Server::start(&[&identity()]);
    // Application data right behind the handshake must not make the alert get lost.
    let mut dialed = server.dial(&identity()).await.unwrap();
    dialed.stream.write_all(&[7; 4096]).await.unwrap();
    let error = refusal(dialed).await;
    assert!(matches!(error, TlsError::KeyRefused), "{error:?}");
    reaches(&server.counters.refused_unknown_key, 1).await;
}

#[tokio::test]
async fn an_unknown_key_is_named() {
    let (site, stranger) = (identity(), identity());
    let (dialer, acceptor) =
        (Dialer::new(&stranger, site.public()), Acceptor::new(&site, AllowedKeys::default()));
    let (near, far) = tokio::io::duplex(1 << 16);
    let (_, accepted) = tokio::join!(dialer.connect(near), acceptor.accept(far));
    let TlsError::UnknownKey { key } = accepted.unwrap_err() else { panic!("another error") };
    assert_eq!(key, stranger.public());
}

#[tokio::test]
async fn an_invitation_is_for_its_own_protocol_only() {
    let (site, peer, guest) = (identity(), identity(), identity());
    let acceptor = Acceptor::new(&site, AllowedKeys::from_iter([peer.public()]))
        .with_invitations(&site, AllowedKeys::from_iter([guest.public()]));
    let meet = async |who: &Identity, protocol| {
        let (near, far) = tokio::io::duplex(1 << 16);
        let dialer = Dialer::for_protocol(who, site.public(), protocol);
        let (_, accepted) = tokio::join!(dialer.connect(near), acceptor.accept(far));
        accepted.map(|secured| (secured.peer, secured.protocol))
    };
    assert_eq!(meet(&peer, ALPN).await.unwrap(), (peer.public(), ALPN));
    assert_eq!(meet(&guest, JOIN_ALPN).await.unwrap(), (guest.public(), JOIN_ALPN));
    let error = meet(&guest, ALPN).await.unwrap_err();
    assert!(matches!(error, TlsError::UnknownKey { key } if key == guest.public()), "{error:?}");
    let error = meet(&peer, JOIN_ALPN).await.unwrap_err();
    assert!(matches!(error, TlsError::UnknownInvitation { key } if key == peer.public()), "{error:?}");
}

#[tokio::test]
async fn a_key_removed_is_refused_from_then_on() {
    let (me, other) = (identity(), identity());
    let mut server = Server::start(&[&me]);
    let mut standing = server.dial(&me).await.unwrap();
    let mut accepted = server.accepted().await;

    server.allowed.replace([other.public()].into());
    let error = refusal(server.dial(&me).await.unwrap()).await;
    assert!(matches!(error, TlsError::KeyRefused), "{error:?}");
    server.dial(&other).await.unwrap();
    assert_eq!(server.accepted().await.peer, other.public());

    accepted.stream.write_all(b"!").await.unwrap();
    accepted.stream.flush().await.unwrap();
    standing.stream.read_exact(&mut [0; 1]).await.unwrap();
}

/// Showing somebody's key is not enough: the transcript has to be signed with it.
#[tokio::test]
async fn a_key_that_the_dialer_does_not_own_is_refused() {
    let (site, friend, thief) = (identity(), identity(), identity());
    let stolen = CertifiedKey::new(friend.certified.cert.clone(), thief.certified.key.clone());
    let thief = Identity { certified: Arc::new(stolen), public: friend.public() };
    let acceptor = Acceptor::new(&site, [friend.public()].into_iter().collect());
    let (near, far) = tokio::io::duplex(1 << 16);
    let dialer = Dialer::new(&thief, site.public());
    let (_, accepted) = tokio::join!(dialer.connect(near), acceptor.accept(far));
    let error = accepted.unwrap_err();
    assert!(matches!(error, TlsError::Handshake(rustls::Error::InvalidCertificate(_))), "{error:?}");
}

#[tokio::test]
async fn the_protocol_must_be_named() {
    for alpn in [vec![], vec![b"http/1.1".to_vec()]] {
        let (site, peer) = (identity(), identity());
        let mut config = config::client(&peer, site.public(), ALPN);
        config.alpn_protocols = alpn;
        let connector = TlsConnector::from(Arc::new(config));
        let acceptor = Acceptor::new(&site, [peer.public()].into_iter().collect());
        let (near, far) = tokio::io::duplex(1 << 16);
        let (_, accepted) = tokio::join!(connector.connect(no_name(), near), acceptor.accept(far));
        assert!(matches!(accepted, Err(TlsError::OtherProtocol)), "{accepted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_dialer_times_out() {
    let acceptor = Acceptor::new(&identity(), AllowedKeys::default());
    let (_near, far) = tokio::io::duplex(1 << 16);
    let error = acceptor.accept(far).await.unwrap_err();
    assert!(matches!(error, TlsError::TimedOut), "{error:?}");
}

/// Twenty sources open connections and never say a word. Within a round trip of a peer all places are taken anew.
#[tokio::test]
async fn a_flood_from_twenty_sources_keeps_nobody_out() {
    // Both ends of all connections are here.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let me = identity();
    let mut server = Server::start(&[&me]);
    let target = server.address;
    let opened = Arc::new(AtomicU64::new(0));
    let count = opened.clone();
    let flood = tokio::spawn(async move {
        let mut open = std::collections::VecDeque::new();
        loop {
            for last in 2..22 {
                let from = Some([127, 0, 0, last].into());
                open.push_back(tcp::connect_tcp(None, from, target, SECOND).await);
                count.fetch_add(1, Ordering::Relaxed);
            }
            open.drain(..open.len().saturating_sub(700));
        }
    });
    reaches(&opened, 1000).await;
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(far_away(far, server.tcp().await, opened.clone()));
    let before = opened.load(Ordering::Relaxed);
    Dialer::new(&me, server.identity.public()).connect(near).await.expect("it gets through");
    server.accepted().await;
    assert!(opened.load(Ordering::Relaxed) - before >= ROUND_TRIP);
    assert!(server.counters.evicted.load(Ordering::Relaxed) > 0);
    flood.abort();
}

/// How many others arrive within a round trip of the peer: those of 200 ms if 3,000 arrive in a second.
const ROUND_TRIP: u64 = 600;

/// Carries bytes both ways; the answer to the acceptor's first flight comes when so many others have come.
async fn far_away(near: tokio::io::DuplexStream, far: TcpStream, others: Arc<AtomicU64>) {
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
        (tokio::io::split(near), far.into_split());
    let there = async {
        let mut hello = [0; 1 << 14];
        let read = near_read.read(&mut hello).await?;
        far_write.write_all(&hello[..read]).await?;
        let read = near_read.read(&mut hello).await?;
        reaches(&others, others.load(Ordering::Relaxed) + ROUND_TRIP).await;
        far_write.write_all(&hello[..read]).await?;
        tokio::io::copy(&mut near_read, &mut far_write).await
    };
    let back = tokio::io::copy(&mut far_read, &mut near_write);
    // It ends with the connection, in whatever way.
    let _ = tokio::join!(there, back);
}

#[tokio::test]
async fn the_loop_ends_with_its_receiver() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let acceptor = Acceptor::new(&identity(), AllowedKeys::default());
    let (sender, ready) = mpsc::channel(1);
    drop(ready);
    Listener::run(listener, acceptor, sender, Arc::default()).await;
}
