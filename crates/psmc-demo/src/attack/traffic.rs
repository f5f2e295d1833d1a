//! What hosts send: the clients ask their resolvers, and download; and the attacker floods.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::panic::resume_unwind;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand;
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use psmc_testbed::netns::Namespace;
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::spawn_blocking;

use super::SERVICE;
use super::files::RESOLVER;
use super::network::{AttackNetwork, CLIENTS, WWW};
use crate::DemoError;
use crate::tcp::{self, CONGESTION_CONTROL, Deliveries, Flow};

/// A download of each client, one TCP connection from beginning to end.
pub(super) struct Downloads {
    each: [Download; CLIENTS.len()],
}

struct Download {
    flow: Flow,
    deliveries: RefCell<Deliveries>,
    /// Whether what came is what was sent, or why nothing came any more; unknown until the end.
    outcome: Option<io::Result<bool>>,
}

impl Downloads {
    /// Connects to what the service's name says.
    pub(super) async fn start(network: &AttackNetwork) -> Result<Self, DemoError> {
        let connect = async |client: usize| {
            let address = address_of(&network.clients[client], SERVICE).map_err(download_failed(client))?;
            let flow = tcp::connect(&network.clients[client], &network.www, address)
                .await
                .map_err(download_failed(client))?;
            let served = SockRef::from(&flow.receiver).set_tcp_congestion(CONGESTION_CONTROL);
            served.map_err(download_failed(client))?;
            Ok::<_, DemoError>(Download {
                flow,
                deliveries: RefCell::new(Deliveries::new(Instant::now())),
                outcome: None,
            })
        };
        let (one, other) = tokio::try_join!(connect(0), connect(1))?;
        Ok(Self { each: [one, other] })
    }

    /// Lets both go on until it is over.
    pub(super) async fn run(&mut self, is_over: impl Fn() -> bool) {
        let [one, other] = &mut self.each;
        tokio::join!(one.run(&is_over), other.run(&is_over));
    }

    /// What arrived when, and whether it was right.
    pub(super) fn finish(self) -> Result<Vec<(Deliveries, bool)>, DemoError> {
        let finish = |(client, download): (usize, Download)| {
            let hash_ok = download.outcome.unwrap_or(Ok(false)).map_err(download_failed(client))?;
            Ok((download.deliveries.into_inner(), hash_ok))
        };
        self.each.into_iter().enumerate().map(finish).collect()
    }
}

impl Download {
    async fn run(&mut self, is_over: impl Fn() -> bool) {
        let flow = &mut self.flow;
        let mut received = Context::new(&SHA256);
        let receive = tcp::receive(&mut flow.sender, &self.deliveries, |bytes| received.update(bytes));
        let both = tokio::try_join!(serve(&mut flow.receiver, is_over), receive);
        self.outcome = Some(both.map(|(sent, ())| sent.finish().as_ref() == received.finish().as_ref()));
    }
}

/// When the flood was, counted from the start of the downloads, and what it was.
pub(super) struct Flood {
    pub(super) start: Duration,
    pub(super) end: Duration,
    pub(super) mbps: f64,
}

impl Flood {
    /// Sends so many bits per second for the shorter of two times, and longer until it `may_end`, for the longer of them at most.
    pub(super) async fn run(
        network: &AttackNetwork,
        bits_per_second: u64,
        origin: Instant,
        lengths: [Duration; 2],
        may_end: oneshot::Receiver<()>,
    ) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Tcp { over: "of the attacker".to_owned(), source };
        let sockets = network.attacker.run(sockets).map_err(failed)?;
        let (start, begun) = (origin.elapsed(), Instant::now());
        let sending = spawn_blocking(move || send_flood(&sockets, bits_per_second, lengths, may_end));
        let bytes = sending.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()));
        let mbps = bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64();
        Ok(Self { start, end: origin.elapsed(), mbps })
    }
}

/// Asks the resolver of a client for the address of `name`, as any program there would.
pub(super) fn address_of(client: &Namespace, name: &str) -> io::Result<Ipv4Addr> {
    client.run(|| {
        let server: SocketAddr = format!("{RESOLVER}:{DNS_PORT}").parse().map_err(io::Error::other)?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        let name = Name::from_str(name).map_err(io::Error::other)?;
        let mut question = Message::query();
        question.metadata.recursion_desired = true;
        question.add_query(Query::query(name, RecordType::A));
        socket.send(&question.to_vec().map_err(io::Error::other)?)?;
        let mut room = [0; 1232];
        let length = socket.recv(&mut room)?;
        let answer = Message::from_vec(&room[..length]).map_err(io::Error::other)?;
        let address = answer.answers.iter().find_map(|record| {
            let RData::A(address) = &record.data else { return None };
            Some(address.0)
        });
        address.ok_or_else(|| {
            io::Error::other(format!("the resolver knows no address ({})", answer.metadata.response_code))
        })
    })
}

/// Sends random data until it is over, which nothing on the way can shorten, and returns what is known of them.
async fn serve(stream: &mut TcpStream, is_over: impl Fn() -> bool) -> io::Result<Context> {
    let mut digest = Context::new(&SHA256);
    let mut chunk = [0; CHUNK];
    while !is_over() {
        rand::fill(&mut chunk).map_err(io::Error::other)?;
        digest.update(&chunk);
        stream.write_all(&chunk).await?;
    }
    stream.shutdown().await?;
    Ok(digest)
}

fn download_failed(client: usize) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Tcp { over: format!("from {} to {SERVICE}", CLIENTS[client]), source }
}

fn sockets() -> io::Result<Vec<UdpSocket>> {
    (0..SOURCES)
        .map(|_| {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            socket.connect((WWW, 80))?;
            Ok(socket)
        })
        .collect()
}

/// Sends at the rate, as far as the machine can; returns how many bytes crossed the attacker's line.
fn send_flood(
    sockets: &[UdpSocket],
    bits_per_second: u64,
    [least, most]: [Duration; 2],
    mut may_end: oneshot::Receiver<()>,
) -> u64 {
    let (started, payload) = (Instant::now(), [0x55; PAYLOADS[0]]);
    let mut sent = 0u64;
    let mut packets = sockets.iter().cycle().zip(PAYLOADS.into_iter().cycle());
    // Whoever could say that it may not end yet, and does not live any more, has said enough.
    let mut goes_on = || matches!(may_end.try_recv(), Err(TryRecvError::Empty));
    while started.elapsed() < least || (started.elapsed() < most && goes_on()) {
        let due = bits_per_second as f64 / 8.0 * started.elapsed().as_secs_f64();
        while (sent as f64) < due {
            let Some((socket, length)) = packets.next() else { break };
            // What the attacker's own machine refuses is not sent again.
            drop(socket.send(&payload[..length]));
            sent += (length + HEADERS) as u64;
        }
        thread::sleep(PAUSE);
    }
    sent
}

/// How much is made and hashed at once.
const CHUNK: usize = 16 * 1024;

/// The port of DNS.
const DNS_PORT: u16 = 53;

/// How long an answer is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Bytes of payload, in turns: large packets fill the line, and small ones the room that those leave in its queue.
const PAYLOADS: [usize; 2] = [1200, 22];

/// Headers of UDP, IPv4 and Ethernet.
const HEADERS: usize = 8 + 20 + 14;

/// How many sources it seems to have.
const SOURCES: usize = 15;

/// How long it pauses between bursts.
const PAUSE: Duration = Duration::from_millis(2);
