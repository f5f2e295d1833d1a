//! Where requests come in: UDP, TCP (RFC 7766) and TLS (RFC 7858).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_net::listen::{AnsweringSocket, Asker};
use psmc_net::retry::Retry;
use psmc_net::room::{Place, Room};
use psmc_routes::wire::{read_stream, write_stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::limit::{Limiter, Verdict};
use super::{Server, Transport};

/// Connections that are served at a time, TCP and TLS together: each takes a descriptor, and a process has 1024 as a rule.
pub const MAX_CONNECTIONS: usize = 512;

/// Of these, those of one IPv4 address or IPv6 /64: many resolvers may be behind one address, and one that only holds connections open
/// leaves most of them to others.
pub const MAX_PER_SOURCE: usize = 64;

/// Updates and notifications by UDP that are carried out at a time; they wait for the disk.
const MAX_SLOW: usize = 64;

/// How long a connection may be silent, and a client may take to read a response (RFC 7766 §6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The longest request in a datagram.
const MAX_DATAGRAM: usize = 65_535;

/// Responds to datagrams, so many in a second to each network.
pub async fn serve_udp(server: Arc<Server>, socket: AnsweringSocket, per_second: u32) {
    let socket = Arc::new(socket);
    let mut limiter = Limiter::new(per_second);
    let (slow, started) = (Arc::new(Semaphore::new(MAX_SLOW)), Instant::now());
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut retry = Retry::new("receive datagrams");
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                retry.after(&error).await;
                continue;
            }
        };
        let request = &buffer[..length];
        // Whoever answers answers ends up in a conversation with another one who does.
        if !is_request(request) {
            continue;
        }
        let second = u32::try_from(started.elapsed().as_secs()).unwrap_or(u32::MAX);
        match limiter.judge(from.address.ip(), second) {
            Verdict::Answer if is_question(request) => {
                let responses = server.respond(request, from.address, Transport::Udp).await;
                send(&socket, &responses, &from);
            }
            Verdict::Answer => {
                let Ok(permit) = slow.clone().try_acquire_owned() else {
                    server.counters.overloaded();
                    continue;
                };
                tokio::spawn(respond_slowly(server.clone(), socket.clone(), request.to_vec(), from, permit));
            }
            Verdict::Truncate => {
                server.counters.limited();
                send(&socket, &cut_off(request), &from);
            }
            Verdict::Drop => server.counters.limited(),
        }
    }
}

async fn respond_slowly(
    server: Arc<Server>,
    socket: Arc<AnsweringSocket>,
    request: Vec<u8>,
    from: Asker,
    _permit: OwnedSemaphorePermit,
) {
    let responses = server.respond(&request, from.address, Transport::Udp).await;
    send(&socket, &responses, &from);
}

/// Sends responses as far as the socket takes them: a client asks again.
fn send(socket: &AnsweringSocket, responses: &[Vec<u8>], to: &Asker) {
    for response in responses {
        let _ = socket.try_send_to(response, to);
    }
}

/// Whether a message asks for something.
fn is_request(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & 0x80 == 0)
}

/// Whether a request has the operation code of a question.
fn is_question(request: &[u8]) -> bool {
    request.get(2).is_some_and(|flags| flags & 0x78 == 0)
}

/// The header and the question of a request as a response that is cut off; nothing for what is no question.
fn cut_off(request: &[u8]) -> Vec<Vec<u8>> {
    let Some(header) = request.first_chunk::<12>().filter(|_| is_question(request)) else {
        return Vec::new();
    };
    let [a, b, flags, ..] = *header;
    // A response (QR) that is truncated (TC), with no section.
    vec![vec![a, b, flags | 0x82, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
}

/// Serves connections, as many at a time as there is room for.
pub async fn serve_tcp(server: Arc<Server>, listener: TcpListener, room: Room) {
    let mut retry = Retry::new("accept connections");
    loop {
        let Some((stream, from, place)) = accept(&server, &listener, &room, &mut retry).await else {
            continue;
        };
        let server = server.clone();
        tokio::spawn(async move {
            converse(&server, stream, from).await;
            drop(place);
        });
    }
}

/// The same over TLS, with the certificate of the moment.
pub async fn serve_tls(
    server: Arc<Server>,
    listener: TcpListener,
    acceptor: watch::Receiver<TlsAcceptor>,
    room: Room,
) {
    let mut retry = Retry::new("accept connections");
    loop {
        let Some((stream, from, place)) = accept(&server, &listener, &room, &mut retry).await else {
            continue;
        };
        let (server, acceptor) = (server.clone(), acceptor.borrow().clone());
        tokio::spawn(async move {
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => converse(&server, stream, from).await,
                Ok(Err(error)) => tracing::debug!(%from, %error, "no TLS"),
                Err(_) => tracing::debug!(%from, "the TLS handshake takes too long"),
            }
            drop(place);
        });
    }
}

async fn accept(
    server: &Server,
    listener: &TcpListener,
    room: &Room,
    retry: &mut Retry,
) -> Option<(tokio::net::TcpStream, SocketAddr, Place)> {
    match listener.accept().await {
        Ok((stream, from)) => {
            let Some(place) = room.take(from.ip()) else {
                server.counters.overloaded();
                return None;
            };
            // Responses are written whole; there is nothing to wait for.
            let _ = stream.set_nodelay(true);
            Some((stream, from, place))
        }
        Err(error) => {
            retry.after(&error).await;
            None
        }
    }
}

/// Responds to one request after the other, until the client has nothing more to say.
async fn converse(server: &Server, mut stream: impl AsyncRead + AsyncWrite + Unpin, from: SocketAddr) {
    loop {
        let Ok(Ok(request)) = timeout(IDLE, read_stream(&mut stream)).await else { return };
        let responses = server.respond(&request, from, Transport::Stream).await;
        if responses.is_empty() {
            return;
        }
        for response in responses {
            match timeout(IDLE, write_stream(&mut stream, &response)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}
