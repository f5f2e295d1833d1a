//! Sending many packets with one system call.
//!
//! Receiving many packets with one system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::{array, mem};

use nix::libc::{self, AF_INET, MSG_DONTWAIT, in_addr, mmsghdr, sa_family_t, sockaddr_in, socklen_t};
use socket2::Socket;

use super::{BATCH, IpIpPort};
use crate::udp::SendFailure;

/// Bytes of the buffer that are kept from the start: a batch of packets of ordinary networks.
const TYPICAL: usize = BATCH * 1500;

/// Packets to be sent with one system call, each with its outer header.
#[derive(Debug)]
pub struct SendBatch {
    bytes: Vec<u8>,
    /// Where each packet ends.
    ends: [usize; BATCH],
    count: usize,
}

/// A packet of a batch that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("cannot send packet {packet}: {failure}")]
pub struct NotSent {
    /// Its place in the batch: those before it were sent.
    pub packet: usize,
    /// Why.
    #[source]
    pub failure: SendFailure,
}

impl SendBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(TYPICAL), ends: [0; BATCH], count: 0 }
    }

    /// Adds a packet that is made of these headers and what follows them.
    ///
    /// # Panics
    /// If the batch is full.
    pub fn push(&mut self, headers: &[u8], payload: &[u8]) {
        self.bytes.extend_from_slice(headers);
        self.bytes.extend_from_slice(payload);
        self.ends[self.count] = self.bytes.len();
        self.count += 1;
    }

    /// How many packets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no more fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == BATCH
    }

    /// A packet.
    #[must_use]
    pub fn packet(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl IpIpPort {
    /// Sends the packets from the one with number `from` on, without waiting.
    ///
    /// The kernel fills in a source address that is 0, and an identification. It cuts nothing: a packet that is larger
    /// than the interface takes is refused.
    ///
    /// # Errors
    /// [`NotSent`]. Going on behind that packet is right after everything but [`SendFailure::WouldBlock`].
    pub fn try_send(&self, batch: &SendBatch, from: usize) -> Result<(), NotSent> {
        let mut next = from;
        while next < batch.len() {
            match send_some(self.socket.get(), batch, next) {
                Ok(sent) => next += sent,
                Err(error) => return Err(NotSent { packet: next, failure: error.into() }),
            }
        }
        Ok(())
    }
}

/// Returns how many packets from the one with number `from` on were sent, at least one.
fn send_some(socket: &Socket, batch: &SendBatch, from: usize) -> io::Result<usize> {
    let count = batch.len() - from;
    let slices: [IoSlice<'_>; BATCH] =
        array::from_fn(|index| IoSlice::new(if index < count { batch.packet(from + index) } else { &[] }));
    let addresses: [sockaddr_in; BATCH] = array::from_fn(|index| destination(&slices[index]));
    let mut messages: [mmsghdr; BATCH] = array::from_fn(|_| empty_message());
    for ((message, slice), address) in messages.iter_mut().zip(&slices).zip(&addresses) {
        message.msg_hdr.msg_name = (&raw const *address).cast_mut().cast();
        message.msg_hdr.msg_namelen = ADDRESS_LEN;
        message.msg_hdr.msg_iov = (&raw const *slice).cast_mut().cast();
        message.msg_hdr.msg_iovlen = 1;
    }
    let count = u32::try_from(count.min(BATCH)).unwrap_or(0);
    // SAFETY: each message has an address, and one buffer, whose description is an IoSlice (which has the layout of an
    // iovec). The kernel only reads them, and all of it outlives the call.
    #[expect(unsafe_code, reason = "sendmmsg wants pointers")]
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, MSG_DONTWAIT as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[expect(clippy::cast_possible_truncation, reason = "an address is short")]
const ADDRESS_LEN: socklen_t = mem::size_of::<sockaddr_in>() as socklen_t;

/// To whom the kernel is to send a packet: what its header says.
fn destination(packet: &[u8]) -> sockaddr_in {
    let octets = packet.get(16..20).and_then(|bytes| bytes.first_chunk::<4>()).copied().unwrap_or_default();
    sockaddr_in {
        // A constant below 2^16.
        sin_family: sa_family_t::try_from(AF_INET).unwrap_or_default(),
        sin_port: 0,
        // The kernel wants the bytes in the order in which they are in the packet.
        sin_addr: in_addr { s_addr: u32::from_ne_bytes(octets) },
        sin_zero: [0; 8],
    }
}

pub(super) fn empty_message() -> mmsghdr {
    // SAFETY: null pointers, zero lengths and no flags are a message without anything.
    #[expect(unsafe_code, reason = "it has private padding, and so no literal that fills it")]
    unsafe {
        mem::zeroed()
    }
}

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
            libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), capacity, MSG_DONTWAIT as _, null_mut())
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
