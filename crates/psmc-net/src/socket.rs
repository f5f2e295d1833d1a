//! Sockets of a runtime that hear of room only while they wait for it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A socket that never blocks.
///
/// Whoever listens for room in a socket is told of each datagram that has left, which wakes a sender that wants nothing. So
/// this one listens only from a send that would block until there is room.
#[derive(Debug)]
pub(crate) struct RuntimeSocket {
    socket: AsyncFd<Socket>,
    /// Listens for room: a duplicate, for one descriptor is registered once.
    room: Option<AsyncFd<OwnedFd>>,
}

impl RuntimeSocket {
    /// A socket for the runtime that is current.
    ///
    /// # Errors
    /// Those of the runtime, which cannot listen.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // SAFETY: the socket owns its descriptor, and nobody gets it out of the `AsyncFd`, with which both end.
        #[expect(unsafe_code, reason = "tokio wants to be told that the descriptor stays the same")]
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(Self { socket, room: None })
    }

    /// The socket itself, to send by without waiting.
    pub(crate) fn get(&self) -> &Socket {
        self.socket.get_ref()
    }

    /// Calls `receive` once there is something to be received, and again if there was not.
    ///
    /// # Errors
    /// Those of `receive`.
    pub(crate) fn poll_recv<T>(
        &self,
        cx: &mut Context<'_>,
        mut receive: impl FnMut(&Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            // An error is that of the readiness: the kernel had nothing, and the next turn registers the waker.
            if let Ok(received) = ready.try_io(|socket| receive(socket.get_ref())) {
                return Poll::Ready(received);
            }
        }
    }

    /// Whether there is room again, after a send that would have blocked.
    ///
    /// # Errors
    /// When the runtime is shutting down, or there are no descriptors left.
    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = match &mut self.room {
            Some(room) => room,
            none => none.insert(listen_for_room(self.socket.get_ref())?),
        };
        ready!(room.poll_write_ready(cx))?.retain_ready();
        self.room = None;
        Poll::Ready(Ok(()))
    }
}

fn listen_for_room(socket: &Socket) -> io::Result<AsyncFd<OwnedFd>> {
    let duplicate = socket.as_fd().try_clone_to_owned()?;
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

    use socket2::{Domain, Type};
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn pair() -> [RuntimeSocket; 2] {
        let (one, other) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        [one, other].map(|socket| RuntimeSocket::new(socket).unwrap())
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
