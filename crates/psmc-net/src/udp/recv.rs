//! Receiving, with the kernel's generic receive offload.

use std::array;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use nix::libc::{ECONNREFUSED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, EMSGSIZE, ENETDOWN, ENETUNREACH, EPROTO};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, UdpSockRef};
use socket2::Socket;

use super::control::canonical;
use super::{Ecn, UdpPort};

/// Bytes per buffer: an offloaded read joins datagrams up to the size of the largest IP packet.
const BUFFER_SIZE: usize = 64 << 10;

/// A datagram that is longer came in no frame by itself: those called jumbo have up to 9216 bytes.
const LARGEST_FRAME: usize = 9216;

/// How many ICMP errors one call skips: each costs a system call, and a peer's router can send any number of them.
const MAX_ERRORS: usize = 8;

/// Errors that an ICMP message about an earlier datagram leaves on the socket. Reading one clears it.
const ICMP_ERRORS: [i32; 8] =
    [ECONNREFUSED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, EMSGSIZE, ENETDOWN, ENETUNREACH, EPROTO];

/// What is known of a received datagram besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvMeta {
    /// Who sent it.
    pub remote: SocketAddr,
    /// The address of ours to which it was sent.
    pub local_ip: Option<IpAddr>,
    /// Its congestion mark.
    pub ecn: Ecn,
    /// Whether the kernel or a device had joined it with others.
    pub was_joined: bool,
}

/// The buffers of [`UdpPort::poll_recv`], allocated once, and what the last call put there.
#[derive(Debug)]
pub struct RecvBatch {
    storage: Vec<u8>,
    filled: [quinn_udp::RecvMeta; BATCH_SIZE],
    count: usize,
    is_full: bool,
    /// How many buffers the next call fills at most.
    wanted: usize,
}

/// So many buffers are offered at least: one for what is there, one to see that there is no more.
const LEAST_WANTED: usize = 2;

/// So many bytes are received at once if they come in large pieces: they should still be in the processor's cache when
/// they have been passed on.
const CACHED_BYTES: usize = 128 << 10;

impl RecvBatch {
    /// Buffers for one system call, 2 MiB. The kernel backs them with memory as they are used.
    #[must_use]
    pub fn new() -> Self {
        let filled = array::from_fn(|_| quinn_udp::RecvMeta::default());
        Self {
            storage: vec![0; BATCH_SIZE * BUFFER_SIZE],
            filled,
            count: 0,
            is_full: false,
            wanted: LEAST_WANTED,
        }
    }

    /// Whether the last call had no room for more, so that there may be more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count > 0 && self.is_full
    }

    /// Decides how many buffers are offered next: each costs time, though nothing comes into it.
    fn note_filled(&mut self) {
        self.is_full = self.count == self.wanted;
        let bytes: usize = self.filled[..self.count].iter().map(|meta| meta.len).sum();
        let mean = bytes / self.count.max(1);
        let most = (CACHED_BYTES / mean.max(1)).clamp(LEAST_WANTED, BATCH_SIZE);
        let like_now = if self.is_full { 2 * self.wanted } else { self.count + 1 };
        self.wanted = like_now.clamp(LEAST_WANTED, most);
    }

    /// The received datagrams, in order. They may be changed in place; the next call overwrites them.
    pub fn datagrams(&mut self) -> impl Iterator<Item = (RecvMeta, &mut [u8])> {
        let filled = &self.filled[..self.count];
        filled.iter().zip(self.storage.chunks_exact_mut(BUFFER_SIZE)).flat_map(|(meta, buffer)| {
            let datagram_meta = RecvMeta::from(meta);
            buffer[..meta.len].chunks_mut(meta.stride.max(1)).map(move |bytes| (datagram_meta, bytes))
        })
    }
}

impl Default for RecvBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl UdpPort {
    /// Receives with one `recvmmsg` what is there, replacing the contents of `batch`.
    ///
    /// Returns how many datagrams these are, each as the peer sent it. Zero, when ICMP errors were all there was
    /// for a while, is no end: call again. So it must be called again after every `Ready`.
    ///
    /// # Errors
    /// Those of the socket itself. What ICMP says about datagrams sent earlier is not an error here.
    ///
    /// # Panics
    /// The first time, outside a tokio runtime.
    pub fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, |_| self.try_recv(batch))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and those of the socket itself.
    pub fn try_recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.count = 0;
        for _ in 0..MAX_ERRORS {
            match self.recv(self.socket.get(), batch) {
                Ok(()) => return Ok(batch.datagrams().count()),
                Err(error) if is_icmp(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    fn recv(&self, socket: &Socket, batch: &mut RecvBatch) -> io::Result<()> {
        let mut buffers = batch.storage.chunks_exact_mut(BUFFER_SIZE);
        // As many chunks as slices: the storage is BATCH_SIZE buffers long.
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        let slices = &mut slices[..batch.wanted];
        batch.count = self.state.recv(UdpSockRef::from(socket), slices, &mut batch.filled)?;
        batch.note_filled();
        Ok(())
    }
}

impl From<&quinn_udp::RecvMeta> for RecvMeta {
    fn from(meta: &quinn_udp::RecvMeta) -> Self {
        Self {
            remote: canonical(meta.addr),
            local_ip: meta.dst_ip.map(|ip| ip.to_canonical()),
            // Where it is not said of what size the pieces are, they arrive as one.
            was_joined: meta.stride < meta.len || meta.len > LARGEST_FRAME,
            ecn: match meta.ecn {
                None => Ecn::NotEct,
                Some(EcnCodepoint::Ect1) => Ecn::Ect1,
                Some(EcnCodepoint::Ect0) => Ecn::Ect0,
                Some(EcnCodepoint::Ce) => Ecn::Ce,
            },
        }
    }
}

fn is_icmp(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| ICMP_ERRORS.contains(&errno))
}
