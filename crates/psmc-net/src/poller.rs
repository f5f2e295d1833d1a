//! Waiting for descriptors and a time, by a thread that does nothing else and needs no runtime for it.
//!
//! A thread that passes on packets one by one spends a good part of its time on waiting, and on finding out for what: a
//! runtime with its tasks, timers and notes of readiness takes as long as the packet itself. Here the kernel is asked what
//! can be read (level-triggered epoll), so that nobody has to read until there is nothing left, and it keeps the time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Descriptors that one call tells of; others are told by the next one.
const MAX_EVENTS: usize = 64;

/// What the alarm is called among the descriptors.
const ALARM: u64 = u64::MAX;

/// What became ready, or woke the waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// The descriptor with this token has something to be read, or an error to be told, or has room if that was asked for.
    Ready(u64),
    /// A [`Waker`] was woken.
    Alarm,
}

/// What is waited for on one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Something to be read.
    pub data: bool,
    /// Room to write.
    pub room: bool,
}

/// What one thread waits for.
///
/// It tells of a descriptor each time for as long as there is something to be read: whoever does not want to read has to
/// [`remove`](Self::remove) it. One that is closed is forgotten by itself.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    alarm: Arc<Alarm>,
    events: [EpollEvent; MAX_EVENTS],
}

impl Poller {
    /// Waits for nothing yet.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let alarm = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&alarm, EpollEvent::new(EpollFlags::EPOLLIN, ALARM))?;
        Ok(Self { epoll, alarm: Arc::new(Alarm(alarm)), events: [EpollEvent::empty(); MAX_EVENTS] })
    }

    /// Ends a wait from anywhere, this one or the next.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.alarm))
    }

    /// Waits for something to be read from this descriptor, too. `token` is how it is told of, any but
    /// `u64::MAX`.
    ///
    /// # Errors
    /// It is waited for already, or there is no room for more (`fs.epoll.max_user_watches`).
    pub fn add(&self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Waits for these things from here on. An error is told of even to who wants neither, for as long as there is one.
    ///
    /// # Errors
    /// It was never added.
    pub fn set_wants(&self, descriptor: BorrowedFd<'_>, token: u64, wants: Wants) -> io::Result<()> {
        let data = if wants.data { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
        let room = if wants.room { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        Ok(self.epoll.modify(descriptor, &mut EpollEvent::new(data | room, token))?)
    }

    /// Waits for this descriptor no longer.
    ///
    /// # Errors
    /// It was never added.
    pub fn remove(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.epoll.delete(descriptor)?)
    }

    /// Waits until something has happened, or `until`, which is rounded up to a millisecond from now; without it for ever. Returns
    /// what has happened, which may be nothing.
    ///
    /// # Errors
    /// Those of epoll, which has none that could come of how it is used here.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<impl Iterator<Item = Wakeup> + '_> {
        let count = match self.epoll.wait(&mut self.events, timeout(until)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let alarm = &self.alarm;
        Ok(self.events[..count].iter().map(move |event| match event.data() {
            ALARM => {
                alarm.settle();
                Wakeup::Alarm
            }
            token => Wakeup::Ready(token),
        }))
    }
}

/// A poller can be waited for by another one: there is something to be read while [`wait`](Poller::wait) would not wait.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// Milliseconds, rounded up: who is woken too early has to wait again.
fn timeout(until: Option<Instant>) -> EpollTimeout {
    let Some(until) = until else { return EpollTimeout::NONE };
    let left = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
    u16::try_from(left).unwrap_or(u16::MAX).into()
}

/// Something to be read as soon as it was woken.
#[derive(Debug)]
struct Alarm(EventFd);

impl Alarm {
    fn settle(&self) {
        // There was something to be read, and nobody else reads.
        let _ = self.0.read();
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It fails if it was woken as often as 64 bits can count, and then it is awake.
        let _ = self.0.write(1);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    use super::*;

    fn happened(poller: &mut Poller, until: Option<Instant>) -> Vec<Wakeup> {
        poller.wait(until).unwrap().collect()
    }

    #[test]
    fn what_can_be_read_is_told_until_it_was() {
        let mut poller = Poller::new().unwrap();
        let (one, other) = UnixDatagram::pair().unwrap();
        poller.add(one.as_fd(), 7).unwrap();
        let now = Some(Instant::now());
        assert_eq!(happened(&mut poller, now), []);
        other.send(b"hello").unwrap();
        assert_eq!(happened(&mut poller, None), [Wakeup::Ready(7)]);
        assert_eq!(happened(&mut poller, None), [Wakeup::Ready(7)]);
        one.recv(&mut [0; 10]).unwrap();
        assert_eq!(happened(&mut poller, now), []);
    }

    #[test]
    fn room_is_told_to_those_who_want_it() {
        let mut poller = Poller::new().unwrap();
        let (one, _other) = UnixDatagram::pair().unwrap();
        poller.add(one.as_fd(), 7).unwrap();
        poller.set_wants(one.as_fd(), 7, Wants { data: true, room: true }).unwrap();
        assert_eq!(happened(&mut poller, None), [Wakeup::Ready(7)]);
        poller.set_wants(one.as_fd(), 7, Wants { data: true, room: false }).unwrap();
        assert_eq!(happened(&mut poller, Some(Instant::now())), []);
    }

    #[test]
    fn who_wants_no_data_is_not_told_of_it() {
        let mut poller = Poller::new().unwrap();
        let (one, other) = UnixDatagram::pair().unwrap();
        poller.add(one.as_fd(), 7).unwrap();
        poller.set_wants(one.as_fd(), 7, Wants { data: false, room: false }).unwrap();
        other.send(b"hello").unwrap();
        assert_eq!(happened(&mut poller, Some(Instant::now())), []);
        poller.set_wants(one.as_fd(), 7, Wants { data: true, room: false }).unwrap();
        assert_eq!(happened(&mut poller, None), [Wakeup::Ready(7)]);
    }

    #[test]
    fn a_closed_or_removed_descriptor_is_forgotten() {
        let mut poller = Poller::new().unwrap();
        let (one, other) = UnixDatagram::pair().unwrap();
        poller.add(one.as_fd(), 1).unwrap();
        poller.add(other.as_fd(), 2).unwrap();
        other.send(b"hello").unwrap();
        one.send(b"hello").unwrap();
        poller.remove(other.as_fd()).unwrap();
        drop(one);
        assert_eq!(happened(&mut poller, Some(Instant::now())), []);
    }

    #[test]
    fn a_waker_wakes_once() {
        let mut poller = Poller::new().unwrap();
        let waker = poller.waker();
        std::thread::spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        })
        .join()
        .unwrap();
        assert_eq!(happened(&mut poller, None), [Wakeup::Alarm]);
        assert_eq!(happened(&mut poller, Some(Instant::now())), []);
    }

    #[test]
    fn a_wait_ends_at_its_time() {
        let mut poller = Poller::new().unwrap();
        for until in [100, 1_500, 3_000].map(|us| Instant::now() + Duration::from_micros(us)) {
            assert_eq!(happened(&mut poller, Some(until)), []);
            assert!(Instant::now() >= until);
        }
    }

    #[test]
    fn a_time_beyond_what_the_kernel_takes_is_waited_for_in_parts() {
        let far = Instant::now() + Duration::from_secs(1_000_000);
        assert_eq!(timeout(Some(far)), EpollTimeout::from(u16::MAX));
        assert_eq!(timeout(None), EpollTimeout::NONE);
        assert_eq!(timeout(Some(Instant::now())), EpollTimeout::ZERO);
    }
}
