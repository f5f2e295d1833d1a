//! One connection of a site: requests and answers, until it ends or becomes a stream, and what carries them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_net::framing::{Framed, FramingError, MessageReader, Pace, close, write_message};
use psmc_net::keys::PublicKey;
use psmc_net::tls::Secured;
use psmc_net::tls::tcp::connect_tcp;
use psmc_wire::Malformed;
use psmc_wire::relay::{Far, Message, Refusal, Refused, RequestId, Reserved, StreamId};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::hub::{Hub, new_stream_id, welcome};
use super::{ConnectionId, Denied, Member, SiteStream, Streams};

/// How long a site may take to say hello: as for a handshake.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the far end of a stream may take to answer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a gateway may take to accept a stream: a handshake of its own, over a bad path.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages that wait to be written; a site that does not read them is not read either.
const MAX_OUTGOING: usize = 64;

/// What becomes of a connection after its last request.
enum Then {
    Connect(RequestId, Far),
    Accept(RequestId, StreamId),
}

/// A site at the other end of a connection.
#[derive(Clone, Copy)]
struct Caller<'a> {
    member: &'a Member,
    from: SocketAddr,
    connection: ConnectionId,
}

/// Serves a connection from an address until it ends.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    streams: Arc<Streams>,
    secured: Secured,
    from: SocketAddr,
) -> Result<(), End> {
    let key = secured.peer;
    let (reader, mut writer) = split(secured.stream);
    let mut reader = Reader::new(reader);
    let (member, _connection) = match greet(&hub, key, &mut reader).await {
        Ok(greeted) => greeted,
        Err(Greeting::Denied(denied)) => {
            write_message(&mut writer, &refused(RequestId::CONNECTION, &denied)).await?;
            close(writer).await;
            return Err(End::Refused(denied.text));
        }
        Err(Greeting::Ended(end)) => return Err(end),
    };
    write_message(&mut writer, &welcome(&hub, &member)).await?;
    let caller = Caller { member: &member, from, connection: hub.ends.next_connection() };
    let ended = tokio::select! {
        ended = converse(&hub, &streams, caller, reader, writer) => ended,
        () = member.until_revoked() => Err(End::Refused(Denied::no_longer().text)),
    };
    // Fails only when the relay is ending.
    let _ = hub.leave(&member, caller.connection).await;
    ended
}

/// Answers a site that is served, until the connection ends.
async fn converse(
    hub: &Hub,
    streams: &Streams,
    caller: Caller<'_>,
    reader: Reader<ReadHalf<SiteStream>>,
    writer: WriteHalf<SiteStream>,
) -> Result<(), End> {
    let (answers, outgoing) = mpsc::channel(MAX_OUTGOING);
    let writing = write_all(writer, outgoing);
    tokio::pin!(writing);
    let asked = tokio::select! {
        asked = requests(hub, caller, reader, answers) => asked,
        written = &mut writing => return written.map(drop),
    };
    // What was answered last is still written.
    let writer = writing.await?;
    let (then, reader) = match asked {
        Ok(asked) => asked,
        Err(end) => {
            close(writer).await;
            return Err(end);
        }
    };
    let (stream, member) = (reader.unsplit(writer), caller.member);
    match then {
        Then::Connect(request, far) => connect(hub, streams, member, (stream, request), far).await,
        Then::Accept(request, offered) => accept(hub, member, (stream, request), offered).await,
    }
}

/// Why there is no conversation.
enum Greeting {
    Denied(Denied),
    Ended(End),
}

async fn greet(
    hub: &Hub,
    key: PublicKey,
    reader: &mut Reader<ReadHalf<SiteStream>>,
) -> Result<(Arc<Member>, OwnedSemaphorePermit), Greeting> {
    let first = timeout(HELLO_TIMEOUT, reader.next()).await;
    let first = first.map_err(|_| Greeting::Ended(End::Silent))?.map_err(Greeting::Ended)?;
    let Heard::Message(Message::Hello(hello)) = first else {
        return Err(Greeting::Denied(Denied::new(Refusal::Protocol, "the first message is HELLO")));
    };
    let member = hub.admit(key, &hello).map_err(Greeting::Denied)?;
    let connection = member.connections.clone().try_acquire_owned().map_err(|_| {
        Greeting::Denied(Denied::new(Refusal::Limit, "this site has too many connections to this relay"))
    })?;
    Ok((member, connection))
}

/// Answers requests until one turns the connection into something else.
async fn requests(
    hub: &Hub,
    caller: Caller<'_>,
    mut reader: Reader<ReadHalf<SiteStream>>,
    answers: mpsc::Sender<Message>,
) -> Result<(Then, ReadHalf<SiteStream>), End> {
    loop {
        let message = match reader.next().await? {
            Heard::Message(message) => message,
            Heard::Unreadable(request, error) => {
                let denied = Denied::new(refusal_of(&error), unreadable(&error));
                // Who does not read has ended all of this.
                let answered = answers.send(refused(request, &denied)).await;
                answered.map_err(|_| End::Refused(denied.text))?;
                continue;
            }
        };
        let answer = match message {
            Message::Connect(request, far) => return Ok((Then::Connect(request, far), reader.stream)),
            Message::Accept(request, stream) => return Ok((Then::Accept(request, stream), reader.stream)),
            Message::Register(request) => answer(request, register(hub, caller, &answers).await),
            request @ (Message::Reserve(_)
            | Message::ReserveTunnel(_)
            | Message::Release(..)
            | Message::Refresh(..)
            | Message::Cap(_)
            | Message::Revoke(_)
            | Message::Chain(..)
            | Message::Count(..)
            | Message::Counted(_)
            | Message::Shed(_)
            | Message::Shedding(_)
            | Message::Hello(_)
            | Message::Welcome(_)
            | Message::Refused(_)
            | Message::Done(_)
            | Message::Reserved(_)
            | Message::Connected(_)
            | Message::Incoming(_)
            | Message::Unknown(_)) => answer_to(hub, caller.member, request).await,
        };
        let is_last =
            matches!(&answer, Message::Refused(refused) if refused.request == RequestId::CONNECTION);
        // It is not taken only when the writing has ended, which ends all of this.
        if answers.send(answer).await.is_err() || is_last {
            return Err(End::Refused("out of turn".to_owned()));
        }
    }
}

/// What is illegal in a request is a destination, or the like; else it makes no sense.
fn refusal_of(error: &Malformed) -> Refusal {
    match error {
        Malformed::Illegal(_) => Refusal::NotAllowed,
        Malformed::Truncated | Malformed::UnknownType(_) => Refusal::Protocol,
    }
}

fn unreadable(error: &Malformed) -> String {
    format!("the request cannot be met: {error}; an IPv4 address is sent as one, and a port is not 0")
}

async fn answer_to(hub: &Hub, member: &Member, message: Message) -> Message {
    let site = member.account.key();
    match message {
        Message::Reserve(wanted) => {
            let request = wanted.request;
            reserved(request, hub.reserve(member, wanted).await)
        }
        Message::ReserveTunnel(wanted) => {
            let request = wanted.session.request;
            reserved(request, hub.reserve_tunnel(member, wanted).await)
        }
        Message::Release(request, id) => {
            let released =
                hub.with_session(id, move |worker| worker.relay.remove(id, site, Instant::now())).await;
            answer(request, released)
        }
        Message::Refresh(request, id) => {
            let refreshed =
                hub.with_session(id, move |worker| worker.relay.refresh(id, site, Instant::now())).await;
            answer(request, refreshed)
        }
        Message::Chain(request, id, hop) => {
            answer(request, hub.with_session(id, move |worker| worker.relay.chain(id, site, hop)).await)
        }
        Message::Cap(cap) => answer(cap.request, hub.cap(member, cap).await),
        Message::Revoke(revoke) => answer(revoke.request, hub.revoke(member, revoke).await),
        Message::Count(request, session) => match hub.count(member, request, session).await {
            Ok(counted) => Message::Counted(counted),
            Err(denied) => refused(request, &denied),
        },
        Message::Shed(ask) => match hub.shed(member, &ask).await {
            Ok(answer) => Message::Shedding(answer),
            Err(denied) => refused(RequestId(ask.request), &denied),
        },
        Message::Hello(_)
        | Message::Shedding(_)
        | Message::Counted(_)
        | Message::Welcome(_)
        | Message::Refused(_)
        | Message::Done(_)
        | Message::Reserved(_)
        | Message::Connect(..)
        | Message::Connected(_)
        | Message::Register(_)
        | Message::Incoming(_)
        | Message::Accept(..)
        | Message::Unknown(_) => {
            let denied = Denied::new(Refusal::Protocol, "this message is not a site's, or comes out of turn");
            refused(RequestId::CONNECTION, &denied)
        }
    }
}

async fn register(hub: &Hub, caller: Caller<'_>, notices: &mpsc::Sender<Message>) -> Result<(), Denied> {
    let Caller { member, from, connection } = caller;
    let is_end = hub.ends.has(member.account.key());
    if !is_end && !member.is_gateway() {
        let text = "this site may not be a gateway here: its [[allow]] needs `gateway = true`";
        return Err(Denied::new(Refusal::NotAllowed, text));
    }
    if is_end {
        hub.register_end(member, connection, from).await?;
    }
    if member.is_gateway() && hub.gateways.register(member.account.key(), notices) {
        tracing::info!(gateway = %member.name, "gateway registered");
    }
    Ok(())
}

/// Turns a connection into a stream to `far`.
async fn connect(
    hub: &Hub,
    streams: &Streams,
    member: &Member,
    (mut near, request): (SiteStream, RequestId),
    far: Far,
) -> Result<(), End> {
    if let Err(denied) = Hub::check_grant(member) {
        return refuse(near, request, denied).await;
    }
    let Ok(_stream) = member.streams.try_acquire() else {
        return refuse(near, request, Denied::new(Refusal::Limit, "this site has too many streams")).await;
    };
    let ended = match far {
        Far::Address(remote) => {
            if let Err(denied) = hub.check_destination(remote.ip()) {
                return refuse(near, request, denied).await;
            }
            match connect_tcp(None, None, remote, DIAL_TIMEOUT).await {
                Ok(far) => {
                    write_message(&mut near, &Message::Connected(request)).await?;
                    streams.splice(near, far, &hub.stream_limits(member)).await
                }
                Err(error) => {
                    let text = crate::error_chain(&error);
                    return refuse(near, request, Denied::new(Refusal::Unreachable, text)).await;
                }
            }
        }
        Far::Gateway(key) => {
            let Some(mut offer) = hub.gateways.offer(key, new_stream_id()) else {
                return refuse(near, request, Denied::no_gateway()).await;
            };
            let Ok(Some(far)) = timeout(ACCEPT_TIMEOUT, offer.accepted()).await else {
                let denied = Denied::new(Refusal::Unreachable, "the gateway did not accept the stream");
                return refuse(near, request, denied).await;
            };
            write_message(&mut near, &Message::Connected(request)).await?;
            // Its end is not among its connections any more.
            let Some(gateway) = hub.gateway(key) else { return Err(End::Refused(Denied::no_longer().text)) };
            let limits = hub.stream_limits(member);
            tokio::select! {
                ended = streams.splice(near, far, &limits) => ended,
                () = gateway.until_revoked() => return Err(End::Refused(Denied::no_longer().text)),
            }
        }
        Far::Relay(..) => {
            let denied = Denied::new(Refusal::NotAllowed, "a stream leads to a site, not to a label");
            return refuse(near, request, denied).await;
        }
    };
    ended.map_err(End::Stream)
}

/// Makes a connection of a gateway the end of the stream that it accepts.
async fn accept(
    hub: &Hub,
    member: &Member,
    (mut stream, request): (SiteStream, RequestId),
    offered: StreamId,
) -> Result<(), End> {
    let Some(place) = hub.gateways.accept(member.account.key(), offered) else {
        let text = "no such stream waits for this gateway: it may have been given up";
        return refuse(stream, request, Denied::new(Refusal::Unreachable, text)).await;
    };
    write_message(&mut stream, &Message::Connected(request)).await?;
    // Whoever asked for the stream may have gone; then this end of it goes, too.
    drop(place.send(stream));
    Ok(())
}

async fn refuse(mut stream: SiteStream, request: RequestId, denied: Denied) -> Result<(), End> {
    write_message(&mut stream, &refused(request, &denied)).await?;
    close(stream).await;
    Err(End::Refused(denied.text))
}

fn reserved(request: RequestId, outcome: Result<Reserved, Denied>) -> Message {
    match outcome {
        Ok(reserved) => Message::Reserved(reserved),
        Err(denied) => refused(request, &denied),
    }
}

fn answer(request: RequestId, outcome: Result<(), Denied>) -> Message {
    match outcome {
        Ok(()) => Message::Done(request),
        Err(denied) => refused(request, &denied),
    }
}

fn refused(request: RequestId, denied: &Denied) -> Message {
    Message::Refused(Refused { request, reason: denied.reason, text: denied.text.clone() })
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum End {
    /// Messages come or go no more.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// What became of it, a stream, broke.
    #[error("connection lost")]
    Stream(#[source] std::io::Error),
    /// The site was refused.
    #[error("refused: {0}")]
    Refused(String),
    /// The site said nothing.
    #[error("no HELLO from the site")]
    Silent,
}

/// What a site has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Message(Message),
    /// A request that cannot be read, or asks for what is none: it has an answer all the same, and harms no other.
    Unreadable(RequestId, Malformed),
}

impl Framed for Heard {
    fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        match Message::decode(frame) {
            Ok(message) => Ok(Self::Message(message)),
            Err(error) => {
                Message::request_of(frame).map(|request| Self::Unreadable(request, error)).ok_or(error)
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Self::Message(message) = self {
            message.encode(out);
        }
    }
}

/// Reads messages, no faster than they may come.
struct Reader<R> {
    stream: R,
    messages: MessageReader,
    pace: Pace,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    fn new(stream: R) -> Self {
        Self { stream, messages: MessageReader::default(), pace: Pace::new() }
    }

    /// The next message that this version knows.
    async fn next(&mut self) -> Result<Heard, End> {
        loop {
            let heard = self.messages.next(&mut self.stream).await?;
            self.pace.wait().await;
            if !matches!(heard, Heard::Message(Message::Unknown(_))) {
                return Ok(heard);
            }
        }
    }
}

/// Writes what comes from `outgoing` until that is closed, and gives the stream back.
async fn write_all<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outgoing: mpsc::Receiver<Message>,
) -> Result<W, End> {
    while let Some(message) = outgoing.recv().await {
        write_message(&mut writer, &message).await?;
    }
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_arrive_one_by_one_and_unknown_ones_are_passed_over() {
        let (sender, outgoing) = mpsc::channel(8);
        let messages = [Message::Done(RequestId(1)), Message::Unknown(200), Message::Register(RequestId(2))];
        for message in messages.clone() {
            sender.send(message).await.unwrap();
        }
        drop(sender);
        let bytes = write_all(Vec::new(), outgoing).await.unwrap();
        let mut reader = Reader::new(bytes.as_slice());
        assert_eq!(reader.next().await.unwrap(), Heard::Message(messages[0].clone()));
        assert_eq!(reader.next().await.unwrap(), Heard::Message(messages[2].clone()));
        assert!(matches!(reader.next().await, Err(End::Framing(FramingError::Ended))));
    }
}
