//! Where questions come in: UDP and TCP (RFC 7766).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use psmc_net::listen::AnsweringSocket;
use psmc_net::retry::Retry;
use psmc_routes::wire::{malformed, read_message, read_stream, write_stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Resolver;
use super::question::Question;
use super::reply::{Reply, udp_limit};
use super::resolving::Current;

/// Datagrams that are served at a time: with those that wait for the same answer more than can be under way.
const MAX_DATAGRAMS: usize = 2048;

/// Connections that are served at a time: each takes a descriptor, and a process has 1024 as a rule.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// Questions in a row that a connection may ask; then it has to come again, and others have their turn.
const MAX_QUESTIONS: usize = 1000;

/// How long a connection may be silent, and a client may take to read a response (RFC 7766 §6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// The longest request: there is one question in it, and a few options.
const MAX_REQUEST: usize = 4096;

/// Answers datagrams, as many at a time as there is room for.
pub(super) async fn serve_udp(current: Arc<Current>, socket: AnsweringSocket) {
    let (socket, room) = (Arc::new(socket), Arc::new(Semaphore::new(MAX_DATAGRAMS)));
    let mut buffer = vec![0; MAX_REQUEST];
    let mut retry = Retry::new("receive datagrams");
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                retry.after(&error).await;
                continue;
            }
        };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            current.get().counters.overloaded();
            continue;
        };
        let (resolver, socket, request) = (current.get(), socket.clone(), buffer[..length].to_vec());
        tokio::spawn(async move {
            if let Some(response) = respond(&resolver, &request, from.address.ip(), udp_limit).await {
                // A client whose answer is lost asks again.
                let _ = socket.try_send_to(&response, &from);
            }
            drop(permit);
        });
    }
}

/// Serves connections, as many at a time as `room` has permits.
pub(super) async fn serve_tcp(current: Arc<Current>, listener: TcpListener, room: Arc<Semaphore>) {
    let mut retry = Retry::new("accept connections");
    loop {
        match listener.accept().await {
            Ok((stream, from)) => match room.clone().try_acquire_owned() {
                Ok(permit) => {
                    tokio::spawn(converse(current.clone(), stream, from, permit));
                }
                Err(_) => current.get().counters.overloaded(),
            },
            Err(error) => retry.after(&error).await,
        }
    }
}

/// Responds to one request after the other, until the client has nothing more to say.
async fn converse(
    current: Arc<Current>,
    mut stream: TcpStream,
    from: SocketAddr,
    _permit: OwnedSemaphorePermit,
) {
    // Responses are written whole; there is nothing to wait for.
    let _ = stream.set_nodelay(true);
    for _ in 0..MAX_QUESTIONS {
        let Ok(Ok(request)) = timeout(IDLE, read_stream(&mut stream)).await else { return };
        let whole = |_: &Message| usize::from(u16::MAX);
        let Some(response) = respond(&current.get(), &request, from.ip(), whole).await else { return };
        let Ok(Ok(())) = timeout(IDLE, write_stream(&mut stream, &response)).await else { return };
    }
}

/// The response to a request; none to what is no request.
async fn respond(
    resolver: &Arc<Resolver>,
    bytes: &[u8],
    from: IpAddr,
    limit: impl Fn(&Message) -> usize,
) -> Option<Vec<u8>> {
    // A response is never answered: two servers could go on for ever.
    if bytes.get(2)? & 0x80 != 0 {
        return None;
    }
    let request = match read_message(bytes) {
        Ok(incoming) => incoming.message,
        Err(error) => {
            resolver.counters.malformed();
            return malformed(bytes, error);
        }
    };
    let from = from.to_canonical();
    let question = match (request.message_type, request.op_code) {
        _ if !resolver.serves(from) => Err(ResponseCode::Refused),
        (MessageType::Query, OpCode::Query) => Question::of_request(&request),
        _ => Err(ResponseCode::NotImp),
    };
    let reply = match question {
        Ok(question) => {
            resolver.counters.questions();
            resolver.answer(&question, from).await
        }
        Err(ResponseCode::Refused) => {
            resolver.counters.refused();
            Reply::of_code(ResponseCode::Refused)
        }
        Err(code) => {
            resolver.counters.malformed();
            Reply::of_code(code)
        }
    };
    Some(reply.to_bytes(&request, limit(&request)))
}
