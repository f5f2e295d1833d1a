//! Ethernet frames in batches: packet sockets (packet(7)) that receive from a ring and send by `sendmmsg`.
//!
//! The ring is of version 2 of the kernel's interface: a frame is there as soon as the kernel has it. Version 3 fills
//! blocks, and keeps back those that are not full for a millisecond and more.

mod card;
mod meter;
mod ring;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::{array, mem};

use nix::errno::Errno;
use nix::libc::{
    self, AF_PACKET, EACCES, EPERM, ETH_P_ALL, MSG_DONTWAIT, PACKET_IGNORE_OUTGOING, PACKET_QDISC_BYPASS,
    PACKET_STATISTICS, SOL_PACKET, c_int, c_ushort, mmsghdr, sockaddr_ll, socklen_t, tpacket_stats,
};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

pub use card::{Card, CardError};
pub use meter::Meter;
use ring::Ring;
pub use ring::{ETHERNET_HEADER, Frame, VLAN_TAG};

/// Bytes asked for what is sent and not yet taken by the far end. That takes each frame in the same system call, so
/// this is far more than is ever used.
const SEND_BUFFER: usize = 7 << 20;

/// Why there is no [`PacketPort`].
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The interface does not exist in this namespace.
    #[error("no interface {interface}: `ip link` lists the interfaces")]
    NoSuchInterface {
        /// The interface asked for.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// This process may not have one.
    #[error("not allowed to open a packet socket: CAP_NET_RAW is needed, run as root")]
    Denied(#[source] io::Error),
    /// The kernel refused for another reason.
    #[error("cannot open a packet socket on interface {interface}")]
    Refused {
        /// The interface asked for.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// A packet socket on one Ethernet interface: all frames that the interface receives, and a way to have it send some.
///
/// It belongs to the namespace of the thread that opens it, wherever it is used later. Wait for its descriptor to
/// become readable, then call [`recv`](Self::recv) until `None`. While its interface is down nothing is received; the
/// descriptor then reports an error until [`take_error`](Self::take_error) is called.
#[derive(Debug)]
pub struct PacketPort {
    ring: Ring,
    socket: Socket,
}

impl PacketPort {
    /// Opens a socket for frames of up to `max_frame` bytes, which start with the Ethernet header.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn open(interface: &str, max_frame: usize) -> Result<Self, PacketError> {
        opened(interface, |index| Self::open_index(index, max_frame))
    }

    /// The next frame that was received, in order; `None` if there is no more.
    pub fn recv(&mut self) -> Option<Frame<'_>> {
        self.ring.take()
    }

    /// How many frames were lost since the last call because the ring was full: nobody had read them in time.
    ///
    /// # Errors
    /// Those of the socket itself.
    pub fn lost(&self) -> io::Result<u32> {
        lost(&self.socket)
    }

    /// The error that the descriptor reports, if any: most often, that the interface went down.
    ///
    /// # Errors
    /// Those of asking.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    fn open_index(index: u32, max_frame: usize) -> io::Result<Self> {
        // Without a protocol it receives nothing until it is bound: not the frames of other interfaces.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        set_option(&socket, PACKET_IGNORE_OUTGOING, &1)?;
        set_option(&socket, PACKET_QDISC_BYPASS, &1)?;
        widen(&socket)?;
        let ring = Ring::map(&socket, max_frame)?;
        bind(&socket, index)?;
        Ok(Self { ring, socket })
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What `open` makes on the interface of this name.
fn opened<T>(interface: &str, open: impl FnOnce(u32) -> io::Result<T>) -> Result<T, PacketError> {
    let index = if_nametoindex(interface).map_err(|errno| PacketError::NoSuchInterface {
        interface: interface.to_owned(),
        source: errno.into(),
    })?;
    open(index).map_err(|source| match source.raw_os_error() {
        Some(EPERM | EACCES) => PacketError::Denied(source),
        _ => PacketError::Refused { interface: interface.to_owned(), source },
    })
}

fn widen(socket: &Socket) -> io::Result<()> {
    if setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER).is_err() {
        socket.set_send_buffer_size(SEND_BUFFER)?;
    }
    Ok(())
}

/// How many frames were lost since the last call because a ring was full.
fn lost(socket: &Socket) -> io::Result<u32> {
    let mut statistics = tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = length_of::<tpacket_stats>();
    let (fd, value) = (socket.as_raw_fd(), (&raw mut statistics).cast());
    // SAFETY: the value is valid for writing as many bytes as `length` says, and it is what this option yields.
    #[expect(unsafe_code, reason = "no crate of ours knows this option")]
    let outcome = unsafe { libc::getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, value, &raw mut length) };
    Errno::result(outcome)?;
    Ok(statistics.tp_drops)
}

fn set_option<T>(socket: &Socket, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is valid for reading as many bytes as the length says, and the kernel only reads them.
    #[expect(unsafe_code, reason = "no crate of ours knows these options")]
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), SOL_PACKET, name, (&raw const *value).cast(), length_of::<T>())
    };
    Errno::result(outcome)?;
    Ok(())
}

fn bind(socket: &Socket, index: u32) -> io::Result<()> {
    bind_for(socket, index, constant(ETH_P_ALL))
}

/// For the frames of a protocol: none if that is 0.
fn bind_for(socket: &Socket, index: u32, protocol: c_ushort) -> io::Result<()> {
    let address = sockaddr_ll {
        sll_family: constant(AF_PACKET),
        sll_protocol: protocol.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is a sockaddr_ll, valid for reading as many bytes as the length says.
    #[expect(unsafe_code, reason = "no crate of ours makes such an address")]
    let outcome =
        unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length_of::<sockaddr_ll>()) };
    Errno::result(outcome)?;
    Ok(())
}

/// A constant of the kernel's headers as the 16 bits that it is in their structures.
#[expect(clippy::cast_possible_truncation, reason = "evaluated for two constants below 2^16")]
const fn constant(value: c_int) -> c_ushort {
    value as c_ushort
}

#[expect(clippy::cast_possible_truncation, reason = "the structures of socket options are short")]
const fn length_of<T>() -> socklen_t {
    mem::size_of::<T>() as socklen_t
}

// Sending many frames with one system call.

/// How many frames one system call sends at most. The last of them waits for the others, each of which takes up to two
/// microseconds.
pub const SEND_BATCH: usize = 32;

impl PacketPort {
    /// Sends these frames through the interface, in order, and returns how many it took.
    ///
    /// A frame that is refused is skipped: all of them are while the interface is down or its peer is, single ones when
    /// they are longer than its MTU.
    #[must_use]
    pub fn send(&self, frames: &[IoSlice<'_>]) -> usize {
        send(&self.socket, frames)
    }
}

fn send(socket: &Socket, frames: &[IoSlice<'_>]) -> usize {
    frames.chunks(SEND_BATCH).map(|batch| send_batch(socket, batch)).sum()
}

fn send_batch(socket: &Socket, frames: &[IoSlice<'_>]) -> usize {
    let (mut done, mut taken, mut tried) = (0, 0, false);
    while done < frames.len() {
        if let Ok(count) = send_some(socket, &frames[done..]) {
            (done, taken, tried) = (done + count, taken + count, false);
            continue;
        }
        // The error is about the first frame that was not sent; or it was left on the socket by an interface that
        // went down earlier, or it is an interruption: then the next try says otherwise.
        done += usize::from(tried);
        tried = !tried;
    }
    taken
}

/// Returns how many of the first [`SEND_BATCH`] frames were sent, at least one.
fn send_some(socket: &Socket, frames: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut messages: [mmsghdr; SEND_BATCH] = array::from_fn(|_| empty_message());
    for (message, frame) in messages.iter_mut().zip(frames) {
        message.msg_hdr.msg_iov = (&raw const *frame).cast_mut().cast();
        message.msg_hdr.msg_iovlen = 1;
    }
    let count = u32::try_from(frames.len().min(SEND_BATCH)).unwrap_or(0);
    let fd = socket.as_raw_fd();
    // SAFETY: the first `count` messages have one buffer each, whose description is an IoSlice (which has the layout
    // of an iovec) that outlives the call and that the kernel only reads.
    #[expect(unsafe_code, reason = "sendmmsg wants pointers")]
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, MSG_DONTWAIT as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn empty_message() -> mmsghdr {
    // SAFETY: null pointers, zero lengths and no flags are a message without anything.
    #[expect(unsafe_code, reason = "it has private padding, and so no literal that fills it")]
    unsafe {
        mem::zeroed()
    }
}
