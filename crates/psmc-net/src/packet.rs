//! Ethernet frames in batches: packet sockets (packet(7)) that receive from a ring and send by `sendmmsg`.
//!
//! The ring is of version 2 of the kernel's interface: a frame is there as soon as the kernel has it. Version 3 fills
//! blocks, and keeps back those that are not full for a millisecond and more.

mod frame;
mod ring;
mod send;

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{
    self, AF_PACKET, EACCES, EPERM, ETH_P_ALL, PACKET_IGNORE_OUTGOING, PACKET_QDISC_BYPASS,
    PACKET_STATISTICS, SOL_PACKET, c_int, c_ushort, sockaddr_ll, socklen_t, tpacket_stats,
};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use ring::Ring;

pub use frame::{ETHERNET_HEADER, Frame, VLAN_TAG};
pub use send::SEND_BATCH;

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
        let index = if_nametoindex(interface).map_err(|errno| PacketError::NoSuchInterface {
            interface: interface.to_owned(),
            source: errno.into(),
        })?;
        Self::open_index(index, max_frame).map_err(|source| match source.raw_os_error() {
            Some(EPERM | EACCES) => PacketError::Denied(source),
            _ => PacketError::Refused { interface: interface.to_owned(), source },
        })
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
        let mut statistics = tpacket_stats { tp_packets: 0, tp_drops: 0 };
        self.get_option(PACKET_STATISTICS, &mut statistics)?;
        Ok(statistics.tp_drops)
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
        if setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER).is_err() {
            socket.set_send_buffer_size(SEND_BUFFER)?;
        }
        let ring = Ring::map(&socket, max_frame)?;
        bind(&socket, index)?;
        Ok(Self { ring, socket })
    }

    fn get_option<T>(&self, name: c_int, value: &mut T) -> io::Result<()> {
        let mut length = length_of::<T>();
        let fd = self.socket.as_raw_fd();
        // SAFETY: `value` is valid for writing as many bytes as `length` says, and the options asked for above have
        // the type T, all of whose bit patterns are values.
        #[expect(unsafe_code, reason = "no crate of ours knows these options")]
        let outcome =
            unsafe { libc::getsockopt(fd, SOL_PACKET, name, (&raw mut *value).cast(), &raw mut length) };
        Errno::result(outcome)?;
        Ok(())
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
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
    let address = sockaddr_ll {
        sll_family: constant(AF_PACKET),
        sll_protocol: constant(ETH_P_ALL).to_be(),
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

#[cfg(test)]
mod tests;
