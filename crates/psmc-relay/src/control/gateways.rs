//! Gateways that can be reached, and streams that wait for one to accept them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Message, StreamId};
use tokio::sync::{mpsc, oneshot};

/// Gateways by their keys, and streams by their ids; `S` is an end of a stream.
#[derive(Debug)]
pub(crate) struct Gateways<S> {
    registered: Mutex<BTreeMap<KeyBytes, Registered>>,
    waiting: Mutex<BTreeMap<StreamId, Waiting<S>>>,
}

/// Where a gateway is told of streams. It does not keep the gateway's connection alive.
type Registered = mpsc::WeakSender<Message>;

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
    use super::*;

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
