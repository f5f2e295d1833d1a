//! ICMP errors that come to this host: raw sockets.
//!
//! What they say is for a reader of their bytes; the kernel here only leaves out what is no error, and wrong checksums of
//! ICMPv6.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};

use nix::errno::Errno;
use nix::libc::{self, SOL_ICMPV6, SOL_RAW, c_int, socklen_t};
use socket2::{Domain, Protocol, Socket, Type};

use crate::watched::Watched;

/// The options by which the kernel leaves out types of messages, from <linux/icmp.h> and <linux/icmpv6.h>: a set bit keeps a
/// type out.
const ICMP_FILTER: c_int = 1;
const ICMPV6_FILTER: c_int = 1;

/// Types of ICMP that tell why a packet did not arrive (RFC 792): unreachable, time exceeded.
const ERRORS_V4: [u32; 2] = [3, 11];

/// The same of ICMPv6 (RFC 4443): unreachable, packet too big.
const ERRORS_V6: [u32; 2] = [1, 2];

/// The first bytes of the largest error: those of IPv6 are no longer than 1280 bytes (RFC 4443), those of IPv4 should be no longer
/// than 576.
pub const MAX_ERROR: usize = 1280;

/// A socket for ICMP errors.
#[derive(Debug)]
pub struct IcmpPort {
    socket: Watched<Socket>,
}

impl IcmpPort {
    /// A socket for what ICMP says of unreachable hosts and of packets that have lived too long or are too long. What it
    /// gives begins with an IP header.
    ///
    /// # Errors
    /// Those of the system: most often, that the right CAP_NET_RAW is missing.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open_v4() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
        let passed = ERRORS_V4.into_iter().fold(0, |passed, kind| passed | 1u32 << kind);
        set_option(&socket, SOL_RAW, ICMP_FILTER, &!passed)?;
        Self::register(socket)
    }

    /// A socket for what ICMPv6 says of unreachable hosts and of packets that are too long. What it gives begins with the header
    /// of ICMPv6.
    ///
    /// # Errors
    /// As [`open_v4`](Self::open_v4), and where there is no IPv6.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open_v6() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
        let mut kept_out = [u32::MAX; 8];
        kept_out[0] &= ERRORS_V6.into_iter().fold(u32::MAX, |kept_out, kind| kept_out & !(1 << kind));
        set_option(&socket, SOL_ICMPV6, ICMPV6_FILTER, &kept_out)?;
        Self::register(socket)
    }

    /// Receives a message, and returns its length; what does not fit in the buffer is cut. It must be called again after
    /// every `Ready`.
    ///
    /// # Errors
    /// Those of the socket itself.
    ///
    /// # Panics
    /// The first time, outside a tokio runtime.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, |mut socket| socket.read(buffer))
    }

    fn register(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Watched::new(socket) })
    }
}

fn set_option<T>(socket: &Socket, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "32 bytes at most")]
    let length = size_of::<T>() as socklen_t;
    // SAFETY: `value` is valid for reading as many bytes as the length says, and the kernel only reads them.
    #[expect(unsafe_code, reason = "no crate of ours knows these options")]
    let outcome =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    Errno::result(outcome)?;
    Ok(())
}

#[cfg(test)]
mod tests;
