//! Receiving many packets with one system call.

use std::array;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use nix::libc::{self, MSG_DONTWAIT, mmsghdr};
use socket2::Socket;

use super::BATCH;
use super::send::empty_message;

/// Bytes per buffer: the largest IP packet.
const BUFFER_SIZE: usize = 64 << 10;

/// The buffers of [`IpIpPort::poll_recv`](super::IpIpPort::poll_recv), allocated once, and what the last call put there.
#[derive(Debug)]
pub struct RecvBatch {
    storage: Vec<u8>,
    lengths: [usize; BATCH],
    count: usize,
}

impl RecvBatch {
    /// Buffers for one system call, 2 MiB. The kernel backs them with memory as they are used.
    #[must_use]
    pub fn new() -> Self {
        Self { storage: vec![0; BATCH * BUFFER_SIZE], lengths: [0; BATCH], count: 0 }
    }

    /// The received packets, in order, each with its outer header. They may be changed in place.
    pub fn packets(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let lengths = &self.lengths[..self.count];
        self.storage.chunks_exact_mut(BUFFER_SIZE).zip(lengths).map(|(buffer, length)| &mut buffer[..*length])
    }

    /// Whether there may be more packets than had room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == BATCH
    }

    pub(super) fn fill_from(&mut self, socket: &Socket) -> io::Result<usize> {
        self.count = 0;
        let mut buffers = self.storage.chunks_exact_mut(BUFFER_SIZE);
        // As many chunks as slices: the storage is BATCH buffers long.
        let mut slices: [IoSliceMut<'_>; BATCH] =
            array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        let mut messages: [mmsghdr; BATCH] = array::from_fn(|_| empty_message());
        for (message, slice) in messages.iter_mut().zip(&mut slices) {
            message.msg_hdr.msg_iov = (&raw mut *slice).cast();
            message.msg_hdr.msg_iovlen = 1;
        }
        let capacity = u32::try_from(BATCH).unwrap_or(1);
        // SAFETY: each message has one buffer, whose description is an IoSliceMut (which has the layout of an iovec) of
        // memory that nobody else uses; all of it outlives the call. Without a timeout the last pointer may be null.
        #[expect(unsafe_code, reason = "recvmmsg wants pointers")]
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), capacity, MSG_DONTWAIT, null_mut())
        };
        let count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (length, message) in self.lengths.iter_mut().zip(&messages[..count]) {
            *length = message.msg_len as usize;
        }
        self.count = count;
        Ok(count)
    }
}

impl Default for RecvBatch {
    fn default() -> Self {
        Self::new()
    }
}
