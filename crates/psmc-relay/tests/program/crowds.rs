//! Crowds at the control port: whoever may use the relay gets through all the same.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::connect_tcp;
use psmc_wire::relay::{Far, Message, RequestId, SessionId};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::harness::{PATIENCE, Relay, Site};

/// How long whoever may use the relay waits at most: a SYN that met a full queue is sent again after 1 s, and after 2 s more.
const DEADLINE: Duration = Duration::from_secs(4);

/// How often that is tried.
const TRIES: u32 = 20;

/// Connections that are kept without a word: more than the relay keeps handshakes.
const SILENT: usize = 600;

/// Connections of a site that asks and never listens.
const DEAF: u32 = 8;

/// When the crowd is one: connections made, and strangers turned away.
const MANY: u32 = 1000;
const STRANGERS: u64 = 20;

#[tokio::test]
async fn a_crowd_keeps_nobody_out() {
    let (key, deaf) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("", &[(&key, ""), (&deaf, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let session = site.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await.session;
    let crowd = Crowd::gather(relay.address, relay.key.public(), deaf);
    let is_crowd = || crowd.connections.load(Ordering::Relaxed) >= MANY;
    relay.wait_for("the crowd", |status| is_crowd() && status.control_unknown_key >= STRANGERS);

    let (mut answered, mut served) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..TRIES {
        let asked = Instant::now();
        let answer = site.ask(|request| Message::Refresh(request, session)).await;
        assert!(matches!(answer, Message::Done(_)), "{answer:?}");
        answered = answered.max(asked.elapsed());

        let dialed = Instant::now();
        // A site dials again when it was dropped for others.
        while !is_served(&key, &relay).await {
            assert!(dialed.elapsed() < PATIENCE, "the relay serves nobody");
        }
        served = served.max(dialed.elapsed());
    }
    println!("answered within {answered:?}, served within {served:?}");
    assert!(answered < DEADLINE && served < DEADLINE, "answered in {answered:?}, served in {served:?}");
}

async fn is_served(key: &PrivateKey, relay: &Relay) -> bool {
    matches!(Site::greet(key, relay, None).await, Ok((_, Message::Welcome(_))))
}

/// People at the control port, on a thread of their own; they go on drop.
struct Crowd {
    connections: Arc<AtomicU32>,
    /// Whose end is the crowd's.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn gather(relay: SocketAddr, key: PublicKey, deaf: PrivateKey) -> Self {
        let connections = Arc::new(AtomicU32::new(0));
        let (stop, stopped) = oneshot::channel();
        let door = Door { relay, key, connections: connections.clone() };
        let thread = std::thread::spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                tokio::select! {
                    () = door.silent() => {}
                    () = door.strangers() => {}
                    () = door.deaf(&deaf) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { connections, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // What went wrong there has been printed.
            let _ = thread.join();
        }
    }
}

/// Where the crowd stands.
struct Door {
    relay: SocketAddr,
    key: PublicKey,
    connections: Arc<AtomicU32>,
}

impl Door {
    /// Connects from one of many addresses.
    async fn connect(&self) -> Option<TcpStream> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = number.to_be_bytes();
        let from = Ipv4Addr::new(127, 1, high, low);
        connect_tcp(None, Some(from.into()), self.relay, PATIENCE).await.ok()
    }

    /// Begin a handshake, and never go on.
    async fn silent(&self) {
        let mut kept = VecDeque::new();
        loop {
            if let Some(mut stream) = self.connect().await {
                // The first byte of a TLS record.
                drop(stream.write_all(&[0x16]).await);
                kept.push_back(stream);
            }
            if kept.len() > SILENT {
                kept.pop_front();
            }
        }
    }

    /// Shake hands, with keys that nobody knows.
    async fn strangers(&self) {
        loop {
            if let Some(stream) = self.connect().await {
                drop(Site::greet_over(stream, &PrivateKey::generate(), self.key, None).await);
            }
        }
    }

    /// Ask without listening to any answer.
    async fn deaf(&self, key: &PrivateKey) {
        let mut request = Vec::new();
        Message::Refresh(RequestId(1), SessionId(1)).encode(&mut request);
        for _ in 0..DEAF {
            let Some(stream) = self.connect().await else { continue };
            let Ok((mut site, _)) = Site::greet_over(stream, key, self.key, None).await else { continue };
            let request = request.clone();
            // The relay stops to read, and this waits.
            tokio::spawn(async move { while site.stream.write_all(&request).await.is_ok() {} });
        }
        std::future::pending().await
    }
}
