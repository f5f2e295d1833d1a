//! Streams: two connections that have become one, and gateways that can be reached, with what waits for one to accept it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use psmc_core::relay::{Account, Limiter, Side};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Message, StreamId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes that are on their way in each direction.
const BUFFER: usize = 16 * 1024;

/// A stream on which nothing has moved for this long is ended. Sites renew their connections every 14 minutes.
const IDLE: Duration = Duration::from_secs(20 * 60);

/// What streams have carried.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Streams that stand.
    pub(crate) open: AtomicUsize,
    /// Bytes, in both directions.
    pub(crate) bytes: AtomicU64,
}

/// What a stream may carry: what a session may, of which the site's and the relay's rates are for both, as it may carry datagrams
/// where no UDP gets through.
#[derive(Debug)]
pub(crate) struct Limits<'a> {
    own: [Limiter; 2],
    site: &'a Account,
    relay: &'a Limiter,
    /// From when on all of them count.
    origin: std::time::Instant,
}

impl<'a> Limits<'a> {
    /// Those of a stream that carries so many bits per second in each direction at most.
    pub(crate) fn new(
        rate: Option<u64>,
        site: &'a Account,
        relay: &'a Limiter,
        origin: std::time::Instant,
    ) -> Self {
        Self { own: [Limiter::new(rate), Limiter::new(rate)], site, relay, origin }
    }

    /// Waits for the turn of so many bytes. It is taken before it has come: sessions, which go as soon as there is room, would leave
    /// none to who asks later.
    async fn turn(&self, to: Side, bytes: usize) {
        let now = Instant::now();
        let since = now.into_std().saturating_duration_since(self.origin);
        let now_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let limiters = [&self.own[to.index()], &self.site.limits[to.index()], self.relay];
        let due = limiters.map(|limiter| limiter.ready_at(now_ns)).into_iter().max().unwrap_or(now_ns);
        limiters.into_iter().for_each(|limiter| limiter.take(bytes, now_ns));
        if due > now_ns {
            sleep_until(now + Duration::from_nanos(due - now_ns)).await;
        }
    }
}

impl Streams {
    /// Joins the near end and the far one until one of them ends or breaks, or nothing moves for long.
    pub(crate) async fn splice<A, B>(&self, near: A, far: B, limits: &Limits<'_>) -> io::Result<()>
    where
        A: AsyncRead + AsyncWrite + Unpin,
        B: AsyncRead + AsyncWrite + Unpin,
    {
        let _open = Open::count(&self.open);
        let moved = AtomicU64::new(0);
        let (mut near_reader, mut near_writer) = split(near);
        let (mut far_reader, mut far_writer) = split(far);
        let [to_far, to_near] =
            [Side::Far, Side::Near].map(|to| Pump { streams: self, limits, to, moved: &moved });
        tokio::select! {
            ended = to_far.run(&mut near_reader, &mut far_writer) => ended?,
            ended = to_near.run(&mut far_reader, &mut near_writer) => ended?,
            () = until_idle(&moved) => {}
        }
        // Each side learns that the other has ended; one that has gone already need not.
        let _ = tokio::join!(near_writer.shutdown(), far_writer.shutdown());
        Ok(())
    }
}

/// One direction of a stream.
struct Pump<'a> {
    streams: &'a Streams,
    limits: &'a Limits<'a>,
    to: Side,
    moved: &'a AtomicU64,
}

impl Pump<'_> {
    async fn run(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            self.limits.turn(self.to, count).await;
            to.write_all(&buffer[..count]).await?;
            to.flush().await?;
            self.moved.fetch_add(count as u64, Ordering::Relaxed);
            self.streams.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

/// Ends when nothing has moved between two looks.
async fn until_idle(moved: &AtomicU64) {
    let mut before = u64::MAX;
    loop {
        let now = moved.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
        sleep(IDLE).await;
    }
}

/// Counts while it lives.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    fn count(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gateways by their keys, and streams by their ids; `S` is an end of a stream.
#[derive(Debug)]
pub(crate) struct Gateways<S> {
    registered: Mutex<BTreeMap<KeyBytes, NoticeSender>>,
    waiting: Mutex<BTreeMap<StreamId, Waiting<S>>>,
}

/// Where a gateway is told of streams. It does not keep the gateway's connection alive.
type NoticeSender = mpsc::WeakSender<Message>;

/// A stream that a gateway has been told of.
#[derive(Debug)]
struct Waiting<S> {
    gateway: KeyBytes,
    end: oneshot::Sender<S>,
}

/// A stream that a gateway has been told of; on drop it is not waited for any more.
#[derive(Debug)]
pub(crate) struct Offer<'a, S> {
    gateways: &'a Gateways<S>,
    stream: StreamId,
    end: oneshot::Receiver<S>,
}

impl<S> Default for Gateways<S> {
    fn default() -> Self {
        Self { registered: Mutex::default(), waiting: Mutex::default() }
    }
}

impl<S> Gateways<S> {
    /// A gateway listens on a connection to which `notices` leads. It takes over from an earlier one. Says whether it is
    /// another one: gateways repeat themselves to see that the relay lives.
    pub(crate) fn register(&self, key: KeyBytes, notices: &mpsc::Sender<Message>) -> bool {
        let before = locked(&self.registered).insert(key, notices.downgrade());
        !before.and_then(|before| before.upgrade()).is_some_and(|before| before.same_channel(notices))
    }

    /// Whether a gateway with this key listens.
    pub(crate) fn has(&self, key: KeyBytes) -> bool {
        let mut registered = locked(&self.registered);
        registered.retain(|_, gateway| gateway.upgrade().is_some());
        registered.contains_key(&key)
    }

    /// How many gateways listen.
    pub(crate) fn count(&self) -> usize {
        locked(&self.registered).values().filter(|gateway| gateway.upgrade().is_some()).count()
    }

    /// Tells a gateway that a stream waits; `None` if it does not listen, or does not read what it is told.
    pub(crate) fn offer(&self, key: KeyBytes, stream: StreamId) -> Option<Offer<'_, S>> {
        let notices = locked(&self.registered).get(&key)?.upgrade()?;
        let (sender, end) = oneshot::channel();
        locked(&self.waiting).insert(stream, Waiting { gateway: key, end: sender });
        let offer = Offer { gateways: self, stream, end };
        notices.try_send(Message::Incoming(stream)).ok()?;
        Some(offer)
    }

    /// The place for the gateway's end of a stream, if it was told of that stream.
    pub(crate) fn accept(&self, key: KeyBytes, stream: StreamId) -> Option<oneshot::Sender<S>> {
        let mut waiting = locked(&self.waiting);
        if waiting.get(&stream)?.gateway != key {
            return None;
        }
        waiting.remove(&stream).map(|waiting| waiting.end)
    }
}

impl<S> Offer<'_, S> {
    /// The gateway's end, once it has accepted.
    pub(crate) async fn accepted(&mut self) -> Option<S> {
        (&mut self.end).await.ok()
    }
}

impl<S> Drop for Offer<'_, S> {
    fn drop(&mut self) {
        locked(&self.gateways.waiting).remove(&self.stream);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are inserted and removed in one step each, so that a poisoned lock holds a whole map too.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn anyone() -> Account {
        Account::new(GATEWAY, 1, None)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_until_one_side_ends() {
        let (streams, site, relay) = (Streams::default(), anyone(), Limiter::new(None));
        let limits = Limits::new(None, &site, &relay, Instant::now().into_std());
        let (mut near, near_end) = duplex(64);
        let (mut far, far_end) = duplex(64);
        let talk = async {
            near.write_all(b"question").await.unwrap();
            let mut heard = [0; 8];
            far.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"question");
            far.write_all(b"answer").await.unwrap();
            let mut heard = [0; 6];
            near.read_exact(&mut heard).await.unwrap();
            assert_eq!((&heard, streams.open.load(Ordering::Relaxed)), (b"answer", 1));
            drop(near);
            assert_eq!(far.read(&mut heard).await.unwrap(), 0, "the end arrives");
        };
        let (spliced, ()) = tokio::join!(streams.splice(near_end, far_end, &limits), talk);
        spliced.unwrap();
        assert_eq!((streams.open.load(Ordering::Relaxed), streams.bytes.load(Ordering::Relaxed)), (0, 14));
    }

    /// How long a megabyte takes towards the far end, in each of two streams of a site at once.
    async fn time_of_megabytes(stream: Option<u64>, site: Option<u64>, relay: Option<u64>) -> Duration {
        let (streams, start) = (Streams::default(), Instant::now());
        let (site, relay) = (Account::new(GATEWAY, 1, site), Limiter::new(relay));
        let carry = async || {
            let (mut near, near_end) = duplex(BUFFER);
            let (mut far, far_end) = duplex(BUFFER);
            let megabyte = vec![7; 1 << 20];
            let talk = async {
                let mut heard = vec![0; 1 << 20];
                let (written, read) = tokio::join!(near.write_all(&megabyte), far.read_exact(&mut heard));
                written.unwrap();
                read.unwrap();
                assert_eq!(heard, megabyte);
                drop(near);
            };
            let limits = Limits::new(stream, &site, &relay, start.into_std());
            let (spliced, ()) = tokio::join!(streams.splice(near_end, far_end, &limits), talk);
            spliced.unwrap();
        };
        tokio::join!(carry(), carry());
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_carries_what_a_session_may() {
        assert!(time_of_megabytes(None, None, None).await < Duration::from_millis(50), "without limits");
        let one = Duration::from_secs_f64((1 << 20) as f64 * 8.0 / 10e6);
        for (stream, site, relay, expected) in [
            (Some(10_000_000), None, None, one),
            (Some(10_000_000), Some(10_000_000), None, 2 * one),
            (None, None, Some(10_000_000), 2 * one),
        ] {
            let took = time_of_megabytes(stream, site, relay).await;
            let (least, most) = (expected.mul_f64(0.9), expected.mul_f64(1.1));
            assert!(least < took && took < most, "{stream:?} {site:?} {relay:?}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_uses_is_ended() {
        let (streams, site, relay) = (Streams::default(), anyone(), Limiter::new(None));
        let limits = Limits::new(None, &site, &relay, Instant::now().into_std());
        let (_near, near_end) = duplex(64);
        let (_far, far_end) = duplex(64);
        let start = Instant::now();
        streams.splice(near_end, far_end, &limits).await.unwrap();
        assert!(start.elapsed() >= IDLE && start.elapsed() <= 2 * IDLE + Duration::from_secs(1));
    }

    const GATEWAY: KeyBytes = KeyBytes([1; 32]);
    const STREAM: StreamId = StreamId(7);

    #[tokio::test]
    async fn a_stream_goes_to_the_gateway_that_was_told_of_it() {
        let gateways = Gateways::default();
        let (notices, mut told) = mpsc::channel(1);
        assert!(gateways.register(GATEWAY, &notices));
        let mut offer = gateways.offer(GATEWAY, STREAM).unwrap();
        assert_eq!(told.recv().await, Some(Message::Incoming(STREAM)));
        assert!(gateways.accept(KeyBytes([2; 32]), STREAM).is_none(), "another gateway");
        assert!(gateways.accept(GATEWAY, StreamId(8)).is_none(), "another stream");
        gateways.accept(GATEWAY, STREAM).unwrap().send("end").unwrap();
        assert_eq!(offer.accepted().await, Some("end"));
        assert!(gateways.accept(GATEWAY, STREAM).is_none(), "a second time");
    }

    #[tokio::test]
    async fn a_stream_that_is_given_up_cannot_be_accepted() {
        let gateways = Gateways::<()>::default();
        let (notices, _told) = mpsc::channel(1);
        assert!(gateways.register(GATEWAY, &notices));
        drop(gateways.offer(GATEWAY, STREAM).unwrap());
        assert!(gateways.accept(GATEWAY, STREAM).is_none());
        assert!(gateways.offer(GATEWAY, STREAM).is_none(), "it does not read");
        assert!(locked(&gateways.waiting).is_empty());
    }

    #[test]
    fn a_gateway_that_hangs_up_is_gone() {
        let gateways = Gateways::<()>::default();
        let (notices, _told) = mpsc::channel(1);
        assert!(gateways.register(GATEWAY, &notices));
        assert!(!gateways.register(GATEWAY, &notices), "that is known");
        assert!(gateways.has(GATEWAY));
        drop(notices);
        assert_eq!((gateways.count(), gateways.has(GATEWAY)), (0, false));
    }
}
