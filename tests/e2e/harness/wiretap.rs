//! All packets of a host, on whichever interface, those to come included: is any of them the tunnel's own, in the tunnel?

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use psmc_testbed::netns::Namespace;
use socket2::Socket;

use super::plan::PORT;

/// Bytes that wait to be looked at: those of seconds in which this thread has no processor.
const BUFFER: usize = 32 << 20;

/// The headers of a packet, which are all that is looked at.
const HEADERS: usize = 128;

/// How soon the end is noticed.
const ATTENTION: Duration = Duration::from_millis(20);

/// The hardware type of a TUN device (`ARPHRD_NONE`).
const NO_HARDWARE: u16 = 0xfffe;

/// Protocols that a tunnel's own packets have.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The kernel says by this flag of TCP (RFC 9293, section 3.1) that there is no such connection, as when a daemon was killed. It
/// does so from no socket, and so without a mark: that packet is nobody's, and may take any way.
const FLAGS: usize = 13;
const RESET: u8 = 0x04;

/// Looks at all packets of a host, until it is finished.
pub(crate) struct Wiretap {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How many of the tunnel's own packets there were.
    pub(crate) outer: usize,
    /// Those of them that were in the tunnel, or came from an address in it.
    pub(crate) in_itself: Vec<Packet>,
}

/// One of the tunnel's own packets.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) at: Instant,
    protocol: u8,
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    /// Whether it went through the tunnel's interface.
    pub(crate) is_in_tunnel: bool,
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, from, to, is_in_tunnel, at: _ } = self;
        let place = if *is_in_tunnel { "in the tunnel" } else { "outside" };
        write!(f, "protocol {protocol} from {from:?} to {to:?} {place}")
    }
}

impl Wiretap {
    /// Begins to look; `inside` are the networks in the tunnel.
    pub(crate) fn start(host: &Namespace, inside: &[IpNet]) -> Self {
        let tap = host.run(open);
        let ended = Arc::new(AtomicBool::new(false));
        let (end, inside) = (ended.clone(), inside.to_vec());
        let thread = spawn(move || {
            let (mut seen, mut headers) = (Seen::default(), [0; HEADERS]);
            while !end.load(Ordering::Relaxed) {
                match recvfrom::<LinkAddr>(tap.as_raw_fd(), &mut headers) {
                    Ok((length, from)) => {
                        let is_in_tunnel = from.is_some_and(|from| from.hatype() == NO_HARDWARE);
                        seen.note(outer(&headers[..length], is_in_tunnel), &inside);
                    }
                    // An interface that goes down says so.
                    Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => {}
                    Err(error) => panic!("cannot look at packets: {error}"),
                }
            }
            seen
        });
        Self { ended, thread }
    }

    /// What was seen until now.
    pub(crate) fn finish(self) -> Seen {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

impl Seen {
    fn note(&mut self, packet: Option<Packet>, inside: &[IpNet]) {
        let Some(packet) = packet else { return };
        self.outer += 1;
        if packet.is_in_tunnel || inside.iter().any(|net| net.contains(&packet.from.0)) {
            self.in_itself.push(packet);
        }
    }
}

/// A socket that is bound to no interface, and so has the packets of all.
fn open() -> Socket {
    let packets =
        socket(AddressFamily::Packet, SockType::Datagram, SockFlag::empty(), SockProtocol::EthAll).unwrap();
    setsockopt(&packets, sockopt::RcvBufForce, &BUFFER).unwrap();
    let packets = Socket::from(packets);
    packets.set_read_timeout(Some(ATTENTION)).unwrap();
    packets
}

/// The packet, if it is one of a tunnel's own: TCP or UDP from or to the port of sites.
fn outer(bytes: &[u8], is_in_tunnel: bool) -> Option<Packet> {
    let (protocol, from, to, rest) = match bytes.first()? >> 4 {
        4 => {
            let address =
                |at: usize| Some(IpAddr::from(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?)));
            let length = usize::from(bytes[0] & 0x0f) * 4;
            (*bytes.get(9)?, address(12)?, address(16)?, bytes.get(length..)?)
        }
        6 => {
            let address =
                |at: usize| Some(IpAddr::from(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?)));
            (*bytes.get(6)?, address(8)?, address(24)?, bytes.get(40..)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk()?));
    let (from, to) = ((from, port(0)?), (to, port(2)?));
    let is_ours = match protocol {
        TCP => rest.get(FLAGS)? & RESET == 0,
        UDP => true,
        _ => false,
    };
    (is_ours && [from.1, to.1].contains(&PORT)).then_some(Packet {
        at: Instant::now(),
        protocol,
        from,
        to,
        is_in_tunnel,
    })
}
