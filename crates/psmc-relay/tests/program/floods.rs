//! Floods: what strangers send takes CPU time, and nothing else; and crowds at the control port, where whoever may use the
//! relay gets through all the same.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::connect_tcp;
use psmc_relay::status::{Refused, Status};
use psmc_wire::relay::{Far, Message, RequestId, SessionId};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::forwarding::{Session, session};
use crate::harness::{End, PATIENCE, Relay, Site};

/// How long each phase takes.
const TIME: Duration = Duration::from_secs(1);

/// Datagrams per second of a flood that is not as fast as it can be.
const RATE: f64 = 500_000.0;

/// So many come with one system call where they come in runs: what a sender's network card cuts.
const RUN: usize = 32;

/// Datagrams of the session on their way at most: what the usual socket buffer holds, and then some.
const WINDOW: u32 = 64;

/// What has not arrived after this time is lost.
const LOST_AFTER: Duration = Duration::from_millis(50);

/// The phases follow on one another, and a machine that others use is not as fast in each: so often they are compared.
const ATTEMPTS: usize = 3;

/// The CPU time of a process is told in hundredths of a second (`USER_HZ`).
const TICK: f64 = 0.01;

/// How much of what should be left of the goodput may be missing, for measuring is not exact.
const TOLERANCE: f64 = 0.2;

/// Memory that a relay may take for its own reasons, in KiB: pages of buffers that it has not needed before.
const SLACK_KIB: u64 = 512;

#[tokio::test]
async fn a_flood_takes_its_share_of_the_cpu_and_no_more() {
    takes_its_share(1).await;
}

#[tokio::test]
async fn a_flood_in_runs_takes_its_share_of_the_cpu_and_no_more() {
    takes_its_share(RUN).await;
}

/// Beside a session, datagrams come in runs of so many.
async fn takes_its_share(run: usize) {
    let Session { relay, site: _site, mut near, far } = session("", "").await;
    let flood = Flood::new(&mut near, run);
    far.socket.set_read_timeout(Some(LOST_AFTER)).unwrap();

    let mut memory = None;
    let mut missed = Vec::new();
    while missed.len() < ATTEMPTS {
        let quiet = phase(&relay, || carry(&mut near, &far));
        let alone = phase(&relay, || flood.run(f64::INFINITY));
        memory.get_or_insert_with(|| relay.memory_kib());
        // So that the relay keeps up, as it does with a flood of that rate on a core of its own.
        let rate = RATE.min(0.25 / alone.cpu_per_refused());
        let both = phase(&relay, || {
            std::thread::scope(|scope| {
                scope.spawn(|| flood.run(rate));
                carry(&mut near, &far);
            });
        });

        let share = both.refused * alone.cpu_per_refused() / both.cpu;
        let (before, during) = (quiet.sent / quiet.cpu, both.sent / both.cpu);
        println!(
            "datagrams per second of CPU time: {before:.0}, {during:.0} in a flood of {refused:.0}/s, in runs of {run}, \
             that takes {share:.2}",
            refused = both.refused / TIME.as_secs_f64(),
        );
        assert!(share > 0.02, "the flood was none: {share}");
        if during >= before * (1.0 - share) * (1.0 - TOLERANCE) {
            break;
        }
        missed.push((quiet, alone, both));
    }
    assert!(missed.len() < ATTEMPTS, "{missed:?}");
    let grown = relay.memory_kib().saturating_sub(memory.unwrap_or_default());
    assert!(grown <= SLACK_KIB, "{grown} KiB more");
    let Status { sessions, refused, .. } = relay.status();
    assert_eq!(sessions.len(), 1);
    let Refused { malformed, unknown_label, replayed, forged, .. } = refused;
    assert!([malformed, unknown_label, replayed, forged].iter().all(|count| *count > 1000), "{refused:?}");
    assert_eq!(count_refused(&refused), malformed + unknown_label + replayed + forged);
    flood.kinds.iter().for_each(|(end, _)| end.hears_nothing());
}

/// What a relay has done in a while.
#[derive(Debug)]
struct Phase {
    sent: f64,
    refused: f64,
    /// In seconds.
    cpu: f64,
}

impl Phase {
    fn cpu_per_refused(&self) -> f64 {
        self.cpu / self.refused
    }
}

/// Does something, and says what the relay has done until all of it was handled.
#[expect(clippy::cast_precision_loss, reason = "counts of a second")]
fn phase(relay: &Relay, work: impl FnOnce()) -> Phase {
    let (before, ticks) = (relay.settled(), relay.cpu_ticks());
    work();
    let after = relay.settled();
    Phase {
        sent: (after.datagrams.sent - before.datagrams.sent) as f64,
        refused: (count_refused(&after.refused) - count_refused(&before.refused)) as f64,
        cpu: (relay.cpu_ticks() - ticks) as f64 * TICK,
    }
}

fn count_refused(refused: &Refused) -> u64 {
    let Refused {
        malformed,
        unknown_label,
        replayed,
        forged,
        misaddressed,
        too_many_hops,
        no_address,
        too_long,
        queue_full,
        dropped,
        shed,
    } = refused;
    let all = [
        malformed,
        unknown_label,
        replayed,
        forged,
        misaddressed,
        too_many_hops,
        no_address,
        too_long,
        queue_full,
        shed,
    ];
    all.into_iter().chain(dropped).sum()
}

/// Sends as fast as datagrams arrive.
fn carry(near: &mut End, far: &End) {
    let (started, mut in_flight) = (Instant::now(), 0);
    let mut buffer = [0; 2048];
    while started.elapsed() < TIME {
        while in_flight < WINDOW {
            near.send(1200, 1);
            in_flight += 1;
        }
        in_flight = if far.socket.recv(&mut buffer).is_ok() { in_flight - 1 } else { 0 };
    }
    // What is still on its way is of no interest to the next phase.
    while far.socket.recv(&mut buffer).is_ok() {}
}

/// Somebody who has seen a datagram, and knows a label.
struct Flood {
    /// Datagrams in a run.
    run: usize,
    /// Replayed, with a wrong tag, truncated, for a label that nobody has. Each has a socket, for what is cut from one run has
    /// one length.
    kinds: [(End, Vec<u8>); 4],
}

impl Flood {
    fn new(near: &mut End, run: usize) -> Self {
        let seen = near.datagram(100, 1);
        near.send_raw(&seen);
        let mut forged = near.datagram(100, 2);
        // The first byte of its number: one that has not come yet, however many come meanwhile.
        forged[8] ^= 0x40;
        let (truncated, unknown) = (seen[..30].to_vec(), forged.clone());
        let relay = near.relay();
        let kinds = [seen, forged, truncated, unknown].map(|datagram| {
            let end = End::new(relay);
            end.socket.connect(relay).unwrap();
            let segment = if run == 1 { 0 } else { i32::try_from(datagram.len()).unwrap() };
            setsockopt(&end.socket, sockopt::UdpGsoSegment, &segment).unwrap();
            (end, datagram)
        });
        Self { run, kinds }
    }

    /// Sends so many per second, if it can.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second")]
    fn run(&self, rate: f64) {
        let mut runs = self.kinds.each_ref().map(|(_, datagram)| datagram.repeat(self.run));
        let length = self.kinds[3].1.len();
        let (started, mut sent, mut label) = (Instant::now(), 0.0, 0_u32);
        while started.elapsed() < TIME {
            if sent >= rate * started.elapsed().as_secs_f64() {
                std::thread::yield_now();
                continue;
            }
            for ((end, _), run) in self.kinds.iter().zip(&runs) {
                // A full buffer is what a flood makes.
                drop(end.socket.send(run));
            }
            sent += self.run as f64 * self.kinds.len() as f64;
            // Never the right one: that ends with other bits.
            for datagram in runs[3].chunks_exact_mut(length) {
                label += 4;
                datagram[4..8].copy_from_slice(&label.wrapping_mul(0x9e37_79b9).to_be_bytes());
            }
        }
    }
}

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
