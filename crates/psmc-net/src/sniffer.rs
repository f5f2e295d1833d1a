//! All IP packets of this host, as they leave and come on its interfaces (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// Bytes that wait to be taken: a tenth of a second at a gigabit per second.
const BUFFER: usize = 16 << 20;

/// Sees all packets of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Sniffer {
    socket: OwnedFd,
}

impl Sniffer {
    /// Opens one, whose [`recv`](Self::recv) waits for so long.
    ///
    /// # Errors
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) without `CAP_NET_RAW`.
    pub fn open(patience: Duration) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll)?;
        // Root may have more than the system's limit; whoever may not has what he may.
        let forced = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER);
        forced.or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &BUFFER))?;
        let micros = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
        let patience = TimeVal::new(micros / 1_000_000, micros % 1_000_000);
        setsockopt(&socket, sockopt::ReceiveTimeout, &patience)?;
        Ok(Self { socket })
    }

    /// The next packet, from its IP header on: its length in `buffer`, which has room for all that one can be. `None` if none has come
    /// in time.
    ///
    /// # Errors
    /// What the kernel says; an interface that goes down is none.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), buffer) {
            Ok((length, _)) => Ok(Some(length)),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
