//! Datagrams in a byte stream, for networks that let no UDP through.
//!
//! A [`pair`] joins who sends and receives datagrams, and waits for nothing, with the task that carries them: a [`StreamPort`],
//! which is used like a UDP socket, and a [`Carrier`]. On the stream each datagram follows its length in bytes, two bytes in
//! network order; none has length zero.
//!
//! A stream does not lose what it is given, but delivers it late. What has waited for [`MAX_WAIT`] is therefore dropped before it
//! is written, and the buffers below are as small as they may be ([`tls::tcp`](crate::tls::tcp)): whoever sends learns of a full
//! network soon, from losses and delays, as on any other path.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_rustls::TlsStream;

use crate::udp::{Ecn, RecvMeta, SendError, SendFailure, Transmit};
use crate::watched::Watched;

/// What waits longer is not written any more: what arrives later than this was sent again on another path.
pub const MAX_WAIT: Duration = Duration::from_millis(100);

/// The most that waits to be written, in bytes: what a path of 80 Mb/s carries within [`MAX_WAIT`]. A faster one does not
/// let it wait.
const MAX_QUEUE: usize = 1 << 20;

/// The length before each datagram, in bytes.
const LENGTH: usize = 2;

/// The most that the two ends of a pair hand each other at once, in bytes: more than a batch of datagrams with their lengths.
const MAX_MESSAGE: usize = 72 * 1024;

/// How much of what is written TLS may keep until the kernel takes it, in bytes: a full record.
const TLS_BUFFER: usize = 16 * 1024;

/// The end of who sends and receives datagrams.
#[derive(Debug)]
pub struct StreamPort {
    socket: Watched<Socket>,
    /// Who is at the other end of the stream.
    remote: SocketAddr,
    message: Vec<u8>,
    was_full: bool,
}

/// The end of the task that carries them.
#[derive(Debug)]
pub struct Carrier {
    socket: Watched<Socket>,
}

/// How a stream has ended.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// The other side has closed it, or it broke.
    #[error("the stream has ended")]
    Broken(#[source] io::Error),
    /// The other side sends what are no datagrams.
    #[error("protocol violation: a datagram without bytes")]
    Malformed,
    /// The two ends on this machine cannot speak with each other.
    #[error("cannot hand datagrams to the data plane")]
    Plane(#[source] io::Error),
}

/// What a carrier has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Messages of one or more datagrams that were not written because they had waited too long, or too many did.
    pub dropped: u64,
}

/// Both ends of a way to and from a stream to `remote`.
///
/// # Errors
/// If the system has no descriptors left.
pub fn pair(remote: SocketAddr) -> io::Result<(StreamPort, Carrier)> {
    let (plane, task) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
    plane.set_nonblocking(true)?;
    task.set_nonblocking(true)?;
    let port = StreamPort {
        socket: Watched::new(plane),
        remote,
        message: Vec::with_capacity(MAX_MESSAGE),
        was_full: false,
    };
    Ok((port, Carrier { socket: Watched::new(task) }))
}

impl StreamPort {
    /// Sends, without waiting: all of the batch or nothing.
    ///
    /// # Errors
    /// [`SendError`], of which nothing was sent.
    pub fn try_send(&mut self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        self.message.clear();
        let segment_size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for datagram in transmit.contents.chunks(segment_size) {
            let Ok(length) = u16::try_from(datagram.len()) else {
                return Err(SendError { sent: 0, failure: SendFailure::TooBig });
            };
            self.message.extend_from_slice(&length.to_be_bytes());
            self.message.extend_from_slice(datagram);
        }
        if self.message.is_empty() {
            return Ok(());
        }
        match self.socket.get().send(&self.message) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(SendError { sent: 0, failure: SendFailure::WouldBlock })
            }
            Err(error) => Err(SendError { sent: 0, failure: SendFailure::Unreachable(error) }),
        }
    }

    /// Receives what is there, and gives each datagram to `deliver`. Returns how many there were.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) once the
    /// stream has ended, and those of the socket itself.
    pub fn try_recv(&mut self, mut deliver: impl FnMut(RecvMeta, &mut [u8])) -> io::Result<usize> {
        self.was_full = false;
        self.message.resize(MAX_MESSAGE, 0);
        let mut socket = self.socket.get();
        let length = match socket.read(&mut self.message)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => length,
        };
        self.was_full = true;
        let meta = RecvMeta { remote: self.remote, local_ip: None, ecn: Ecn::NotEct, was_joined: false };
        let (mut rest, mut count) = (&mut self.message[..length], 0);
        while let Some(length) = next_length(rest) {
            let (datagram, behind) = rest.split_at_mut(LENGTH + length);
            deliver(meta, &mut datagram[LENGTH..]);
            (rest, count) = (behind, count + 1);
        }
        Ok(count)
    }

    /// Whether the last call of [`try_recv`](Self::try_recv) found something: then there may be more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.was_full
    }
}

impl AsFd for StreamPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Carrier {
    /// Carries datagrams both ways until the stream ends, or the other end of the pair does: then it is closed without an error.
    ///
    /// # Errors
    /// [`CarrierError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run<S>(self, mut stream: TlsStream<S>) -> Result<Carried, CarrierError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match &mut stream {
            TlsStream::Client(stream) => stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER)),
            TlsStream::Server(stream) => stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER)),
        }
        let (reader, writer) = tokio::io::split(stream);
        let duplicate = self.socket.get().try_clone().map_err(CarrierError::Plane)?;
        tokio::select! {
            ended = outwards(&self.socket, writer) => ended,
            ended = inwards(Watched::new(duplicate), reader) => Err(ended),
        }
    }
}

/// What has happened on the way out.
enum Step {
    /// A message of this length has come to be written.
    Came(io::Result<usize>),
    /// So much of what waits was written.
    Wrote(io::Result<usize>),
    /// What was written is with the kernel.
    Flushed(io::Result<()>),
}

/// Writes what comes until there is nobody left from whom it could come.
async fn outwards(
    socket: &Watched<Socket>,
    mut writer: impl AsyncWrite + Unpin,
) -> Result<Carried, CarrierError> {
    let mut queue = Outgoing::default();
    let mut message = vec![0; MAX_MESSAGE];
    let mut is_flushed = true;
    loop {
        queue.drop_late(Instant::now());
        let step = poll_fn(|cx| {
            if let Poll::Ready(came) = poll_read(socket, cx, &mut message) {
                return Poll::Ready(Step::Came(came));
            }
            if let Some(next) = queue.next() {
                return Pin::new(&mut writer).poll_write(cx, next).map(Step::Wrote);
            }
            if is_flushed { Poll::Pending } else { Pin::new(&mut writer).poll_flush(cx).map(Step::Flushed) }
        });
        match step.await {
            Step::Came(came) => match came.map_err(CarrierError::Plane)? {
                0 => {
                    // Whether the other side hears of it in time changes nothing here.
                    let _ = writer.shutdown().await;
                    return Ok(queue.carried);
                }
                length => queue.push(&message[..length], Instant::now()),
            },
            Step::Wrote(wrote) => {
                queue.advance(wrote.map_err(CarrierError::Broken)?);
                is_flushed = false;
            }
            Step::Flushed(flushed) => {
                flushed.map_err(CarrierError::Broken)?;
                is_flushed = true;
            }
        }
    }
}

/// Hands on what arrives until no more does.
async fn inwards(mut socket: Watched<Socket>, mut reader: impl AsyncRead + Unpin) -> CarrierError {
    let mut buffer = vec![0; MAX_MESSAGE];
    let mut filled = 0;
    loop {
        match reader.read(&mut buffer[filled..]).await {
            Ok(0) => return CarrierError::Broken(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => filled += length,
            Err(error) => return CarrierError::Broken(error),
        }
        let Some(whole) = whole(&buffer[..filled]) else { return CarrierError::Malformed };
        if whole == 0 {
            continue;
        }
        if let Err(error) = poll_fn(|cx| poll_send(&mut socket, cx, &buffer[..whole])).await {
            return CarrierError::Plane(error);
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Outgoing {
    messages: VecDeque<(Instant, Vec<u8>)>,
    /// Buffers that are used again.
    spare: Vec<Vec<u8>>,
    bytes: usize,
    /// How much of the first one was written.
    written: usize,
    carried: Carried,
}

impl Outgoing {
    fn push(&mut self, message: &[u8], now: Instant) {
        if self.bytes + message.len() > MAX_QUEUE {
            self.carried.dropped += 1;
            return;
        }
        self.bytes += message.len();
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(message);
        self.messages.push_back((now, buffer));
    }

    /// Drops what has waited too long. Of a message that was begun the rest has to follow.
    fn drop_late(&mut self, now: Instant) {
        if self.written > 0 {
            return;
        }
        let late = |(came, _): &mut (Instant, Vec<u8>)| now.duration_since(*came) > MAX_WAIT;
        while let Some((_, message)) = self.messages.pop_front_if(late) {
            self.retire(message);
            self.carried.dropped += 1;
        }
    }

    fn next(&self) -> Option<&[u8]> {
        self.messages.front().map(|(_, message)| &message[self.written..])
    }

    fn advance(&mut self, written: usize) {
        self.written += written;
        if let Some((_, message)) = self.messages.pop_front_if(|(_, message)| message.len() == self.written) {
            self.retire(message);
            self.written = 0;
        }
    }

    fn retire(&mut self, mut message: Vec<u8>) {
        self.bytes -= message.len();
        message.clear();
        self.spare.push(message);
    }
}

/// The length of the first datagram of a stream, if all of it is there.
fn next_length(stream: &[u8]) -> Option<usize> {
    let length = usize::from(u16::from_be_bytes(*stream.first_chunk::<LENGTH>()?));
    (stream.len() >= LENGTH + length).then_some(length)
}

/// How many bytes of a stream are whole datagrams; `None` if one of them has no bytes.
fn whole(stream: &[u8]) -> Option<usize> {
    let mut whole = 0;
    while let Some(length) = next_length(&stream[whole..]) {
        if length == 0 {
            return None;
        }
        whole += LENGTH + length;
    }
    Some(whole)
}

/// Receives a message of the other end; none has length zero but the last, which says that there is no such end any more.
fn poll_read(socket: &Watched<Socket>, cx: &mut Context<'_>, message: &mut [u8]) -> Poll<io::Result<usize>> {
    socket.poll_recv(cx, |mut socket| socket.read(message))
}

/// Sends a message to the other end as soon as there is room for it.
fn poll_send(socket: &mut Watched<Socket>, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
    loop {
        match socket.get().send(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.poll_writable(cx))?,
            sent => return Poll::Ready(sent.map(|_| ())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::timeout;

    use super::*;
    use crate::keys::PrivateKey;
    use crate::tls::{Acceptor, AllowedKeys, Dialer, Identity, PATH_ALPN, Secured};

    const PATIENCE: Duration = Duration::from_secs(5);

    fn remote() -> SocketAddr {
        "192.0.2.1:443".parse().unwrap()
    }

    fn batch(contents: &[u8], segment_size: usize) -> Transmit<'_> {
        Transmit {
            remote: remote(),
            local_ip: None,
            ecn: Ecn::NotEct,
            segment_size: Some(segment_size),
            apart: false,
            contents,
        }
    }

    /// Two ends of a stream of TLS, over a connection that holds that many bytes.
    async fn tls(room: usize) -> (Secured<tokio::io::DuplexStream>, Secured<tokio::io::DuplexStream>) {
        let (van, hq) = (PrivateKey::generate(), PrivateKey::generate());
        let allowed: AllowedKeys = [van.public()].into_iter().collect();
        let hq = Identity::new(&hq);
        let acceptor = Acceptor::new(&hq, allowed.clone()).with_streams(&hq, allowed);
        let dialer = Dialer::for_protocol(&Identity::new(&van), hq.public(), PATH_ALPN);
        let (one, other) = tokio::io::duplex(room);
        let (dialled, accepted) = tokio::join!(dialer.connect(one), acceptor.accept(other));
        let accepted = accepted.unwrap();
        assert_eq!(accepted.protocol, PATH_ALPN);
        (dialled.unwrap(), accepted)
    }

    async fn received(port: &mut StreamPort, wanted: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while all.len() < wanted {
            match port.try_recv(|_, datagram| all.push(datagram.to_vec())) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
        all
    }

    #[tokio::test]
    async fn datagrams_arrive_as_they_were_both_ways() {
        let (van, hq) = tls(64 * 1024).await;
        let ((mut van_port, van_end), (mut hq_port, hq_end)) =
            (pair(remote()).unwrap(), pair(remote()).unwrap());
        let van = tokio::spawn(van_end.run(van.stream));
        let hq = tokio::spawn(hq_end.run(hq.stream));
        let contents: Vec<u8> = (0..60_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        van_port.try_send(&batch(&contents, 1400)).unwrap();
        let there = timeout(PATIENCE, received(&mut hq_port, 43)).await.unwrap();
        assert_eq!(there.concat(), contents);
        assert!(there[..42].iter().all(|datagram| datagram.len() == 1400) && there[42].len() == 1200);
        hq_port.try_send(&batch(b"answer", 6)).unwrap();
        assert_eq!(timeout(PATIENCE, received(&mut van_port, 1)).await.unwrap(), [b"answer"]);
        drop(van_port);
        assert!(timeout(PATIENCE, van).await.unwrap().unwrap().is_ok(), "who sent is gone");
        let ended = timeout(PATIENCE, hq).await.unwrap().unwrap();
        assert!(matches!(ended, Err(CarrierError::Broken(_))), "{ended:?}");
        let end = hq_port.try_recv(|_, _| {}).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Nobody reads at the other end, so that all is full soon.
    #[tokio::test]
    async fn what_waits_too_long_is_dropped_and_what_comes_later_arrives() {
        let (van, mut hq) = tls(16 * 1024).await;
        let (mut port, end) = pair(remote()).unwrap();
        let run = tokio::spawn(end.run(van.stream));
        let mut sent = 0_u32;
        for _ in 0..200 {
            let number = sent.to_be_bytes().repeat(250);
            sent += u32::from(port.try_send(&batch(&number, 1000)).is_ok());
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(MAX_WAIT * 3).await;
        port.try_send(&batch(b"last", 4)).unwrap();
        let (mut stream, mut seen) = (Vec::new(), Vec::new());
        while seen.last() != Some(&b"last".to_vec()) {
            let mut some = [0; 4096];
            let length = timeout(PATIENCE, hq.stream.read(&mut some)).await.unwrap().unwrap();
            stream.extend_from_slice(&some[..length]);
            while let Some(length) = next_length(&stream) {
                let rest = stream.split_off(LENGTH + length);
                seen.push(stream[LENGTH..].to_vec());
                stream = rest;
            }
        }
        let arrived = seen.len() - 1;
        assert!(arrived > 0 && arrived < sent as usize / 2, "{arrived} of {sent}");
        drop(port);
        let carried = run.await.unwrap().unwrap();
        assert!(carried.dropped > 0, "{carried:?}");
    }

    #[tokio::test]
    async fn a_datagram_without_bytes_ends_the_stream() {
        let (mut van, hq) = tls(1024).await;
        let (_port, end) = pair(remote()).unwrap();
        van.stream.write_all(&[0, 1, 7, 0, 0]).await.unwrap();
        van.stream.flush().await.unwrap();
        let ended = timeout(PATIENCE, end.run(hq.stream)).await.unwrap();
        assert!(matches!(ended, Err(CarrierError::Malformed)), "{ended:?}");
    }

    proptest! {
        /// However a stream is cut into pieces, whole datagrams are found, and only those.
        #[test]
        fn whole_datagrams_are_found(lengths in prop::collection::vec(1..2000_usize, 0..20), cut in any::<prop::sample::Index>()) {
            let mut stream = Vec::new();
            let mut ends = vec![0];
            for &length in &lengths {
                stream.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
                stream.resize(stream.len() + length, 7);
                ends.push(stream.len());
            }
            let cut = cut.index(stream.len() + 1);
            let end = ends.iter().rfind(|&&end| end <= cut).copied();
            prop_assert_eq!(whole(&stream[..cut]), end);
        }
    }
}
