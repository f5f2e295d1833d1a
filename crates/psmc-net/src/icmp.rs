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

/// Sets an option of a socket that no crate of ours knows.
pub(crate) fn set_option<T>(socket: &impl AsRawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
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
mod tests {
    use std::future::poll_fn;
    use std::net::UdpSocket;
    use std::process::Command;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use psmc_testbed::netns::{Namespace, link_pair};

    const PATIENCE: Duration = Duration::from_secs(5);

    async fn next(port: &IcmpPort) -> Vec<u8> {
        let mut buffer = [0; MAX_ERROR];
        let length = timeout(PATIENCE, poll_fn(|cx| port.poll_recv(cx, &mut buffer))).await;
        let length = length.expect("an error arrives").unwrap();
        buffer[..length].to_vec()
    }

    #[tokio::test]
    async fn errors_arrive_and_nothing_else_does() {
        let host = Namespace::new().unwrap();
        let runtime = tokio::runtime::Handle::current();
        let (port, sender) = host.run(|| {
            let _entered = runtime.enter();
            let port = IcmpPort::open_v4().unwrap();
            let pinged = Command::new("ping").args(["-c1", "-q", "127.0.0.1"]).output();
            assert!(pinged.expect("ping is there: apt install iputils-ping").status.success());
            (port, UdpSocket::bind("127.0.0.1:0").unwrap())
        });
        // Nobody listens there. The echo, and the answer to it, would have come first.
        sender.send_to(b"hello", "127.0.0.1:9").unwrap();
        let message = next(&port).await;
        assert_eq!((message[20], message[21]), (3, 3));
        assert_eq!(message[28 + 20..28 + 22], sender.local_addr().unwrap().port().to_be_bytes());
    }

    #[tokio::test]
    async fn routers_of_ipv6_say_what_is_too_big() {
        let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap(), Namespace::new().unwrap()];
        let [near, router, far] = &hosts;
        link_pair(near, "out", router, "in").unwrap();
        link_pair(router, "out", far, "in").unwrap();
        for (host, name, address) in [
            (near, "out", "fd00:1::1/64"),
            (router, "in", "fd00:1::2/64"),
            (router, "out", "fd00:2::1/64"),
            (far, "in", "fd00:2::2/64"),
        ] {
            host.add_address(name, address.parse().unwrap()).unwrap();
        }
        near.add_route("fd00:2::/64".parse().unwrap(), "fd00:1::2".parse().unwrap()).unwrap();
        router.run(|| std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")).unwrap();
        router.set_mtu("out", 1280).unwrap();
        let runtime = tokio::runtime::Handle::current();
        let (port, sender) = near.run(|| {
            let _entered = runtime.enter();
            (IcmpPort::open_v6().unwrap(), UdpSocket::bind("[fd00:1::1]:0").unwrap())
        });
        sender.send_to(&[0; 1400], "[fd00:2::2]:9").unwrap();
        let message = next(&port).await;
        assert_eq!((message[0], &message[4..8]), (2, &1280u32.to_be_bytes()[..]));
    }
}
