//! Descriptors for packets that a runtime watches, if anybody waits for them by a runtime.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that never blocks: a socket, or a device.
///
/// The runtime that is current when somebody first waits for something to be read watches it from then on. Who waits in another
/// way, by a [`Poller`](crate::poller::Poller), costs no such watch.
///
/// Whoever listens for room in a socket is told of each datagram that has left, which wakes a sender that wants nothing. So
/// this one listens only from a send that would block until there is room.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    // Both watches end before the descriptor does.
    readable: OnceLock<AsyncFd<Borrowed>>,
    /// Listens for room: a duplicate, for one descriptor is registered once.
    room: Option<AsyncFd<OwnedFd>>,
    inner: S,
}

/// The descriptor of a [`Watched`], whose watch must not close it.
#[derive(Debug)]
struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl<S> Watched<S> {
    /// Of a descriptor that does not block.
    pub(crate) fn new(inner: S) -> Self {
        Self { readable: OnceLock::new(), room: None, inner }
    }

    /// The socket or device itself, to be used without waiting.
    pub(crate) fn get(&self) -> &S {
        &self.inner
    }
}

impl<S: AsRawFd> Watched<S> {
    /// Calls `receive` once there is something to be received, and again if there was not.
    ///
    /// # Errors
    /// Those of `receive`, and of the runtime, which cannot listen.
    ///
    /// # Panics
    /// The first time, outside a tokio runtime.
    pub(crate) fn poll_recv<T>(
        &self,
        cx: &mut Context<'_>,
        mut receive: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let readable = self.readable()?;
        loop {
            let mut ready = ready!(readable.poll_read_ready(cx))?;
            // An error is that of the readiness: the kernel had nothing, and the next turn registers the waker.
            if let Ok(received) = ready.try_io(|_| receive(&self.inner)) {
                return Poll::Ready(received);
            }
        }
    }

    fn readable(&self) -> io::Result<&AsyncFd<Borrowed>> {
        if let Some(readable) = self.readable.get() {
            return Ok(readable);
        }
        let borrowed = Borrowed(self.inner.as_raw_fd());
        // SAFETY: `inner` owns the descriptor, always names the same one, and outlives the watch, which is dropped first.
        #[expect(unsafe_code, reason = "tokio wants to be told that the descriptor stays the same")]
        let registered = unsafe { AsyncFd::register_with_interest(borrowed, Interest::READABLE) }?;
        Ok(self.readable.get_or_init(|| registered))
    }
}

impl<S: AsFd> Watched<S> {
    /// Whether there is room again, after a send that would have blocked.
    ///
    /// # Errors
    /// When the runtime is shutting down, or there are no descriptors left.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = match &mut self.room {
            Some(room) => room,
            none => none.insert(listen_for_room(self.inner.as_fd())?),
        };
        ready!(room.poll_write_ready(cx))?.retain_ready();
        self.room = None;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsFd> AsFd for Watched<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

fn listen_for_room(descriptor: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    let duplicate = descriptor.try_clone_to_owned()?;
    // SAFETY: it owns its descriptor, and nobody gets it out of the `AsyncFd`, with which both end.
    #[expect(unsafe_code, reason = "tokio wants to be told that the descriptor stays the same")]
    let registered = unsafe { AsyncFd::register_with_interest(duplicate, Interest::WRITABLE) };
    Ok(registered?)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;
    use std::time::Duration;

    use socket2::{Domain, Socket, Type};
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn pair() -> [Watched<Socket>; 2] {
        let (one, other) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        [one, other].map(|socket| {
            socket.set_nonblocking(true).unwrap();
            Watched::new(socket)
        })
    }

    fn read(mut socket: &Socket) -> io::Result<usize> {
        socket.read(&mut [0; 1000])
    }

    #[tokio::test]
    async fn a_full_socket_says_when_there_is_room_and_forgets_about_it() {
        let [mut sender, receiver] = pair();
        while sender.get().send(&[0; 1000]).is_ok() {}
        let waiting = timeout(Duration::from_millis(20), poll_fn(|cx| sender.poll_writable(cx))).await;
        assert!(waiting.is_err(), "there was room");
        while read(receiver.get()).is_ok() {}
        timeout(PATIENCE, poll_fn(|cx| sender.poll_writable(cx))).await.expect("nobody said so").unwrap();
        assert!(sender.room.is_none());
        sender.get().send(&[0; 1000]).unwrap();
    }
}
