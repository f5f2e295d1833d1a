//! An ordinary end of a tunnel of IP-in-IP: it unwraps what comes, sends on what was in it, and wraps the answers.
//!
//! Nothing of ours is in it: the kernel makes the outer headers.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use psmc_net::packet::{ETHERNET_HEADER, PacketPort};
use psmc_testbed::netns::Namespace;
use socket2::{Domain, Protocol, Socket, Type};

/// The largest packet here.
const LARGEST: usize = 2048;

/// Protocol numbers: IPv4 in IPv4, and that of sockets that only send whole packets.
const IPIP: i32 = 4;
const RAW: i32 = 255;

/// The tunnel's end; it ends on drop.
pub(crate) struct TunnelEnd {
    ended: Arc<AtomicBool>,
    unwrapped: Arc<AtomicU64>,
    wrapped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

struct Ends {
    tunnel: Socket,
    raw: Socket,
    /// Where the answers to the site come in.
    outside: PacketPort,
    site: Ipv4Addr,
    inside: Ipv4Addr,
}

impl TunnelEnd {
    /// A tunnel between `host` and the site at `site`, which is called `inside` there. Answers come by `interface`.
    pub(crate) fn start(host: &Namespace, interface: &str, site: Ipv4Addr, inside: Ipv4Addr) -> Self {
        let raw_socket = |protocol| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(protocol))).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let mut ends = host.run(|| Ends {
            tunnel: raw_socket(IPIP),
            raw: raw_socket(RAW),
            outside: PacketPort::open(interface, LARGEST).unwrap(),
            site,
            inside,
        });
        let (ended, unwrapped, wrapped) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (end, in_count, out_count) = (ended.clone(), unwrapped.clone(), wrapped.clone());
        let thread = spawn(move || {
            while !end.load(Ordering::Relaxed) {
                in_count.fetch_add(ends.unwrap_all(), Ordering::Relaxed);
                out_count.fetch_add(ends.wrap_all(), Ordering::Relaxed);
                sleep(Duration::from_micros(200));
            }
        });
        Self { ended, unwrapped, wrapped, thread: Some(thread) }
    }

    /// How many packets were unwrapped, and how many wrapped.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.unwrapped.load(Ordering::Relaxed), self.wrapped.load(Ordering::Relaxed))
    }
}

impl Ends {
    fn unwrap_all(&mut self) -> u64 {
        let mut count = 0;
        let mut buffer = [0; LARGEST];
        loop {
            let length = match self.tunnel.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                Err(error) => panic!("cannot receive: {error}"),
            };
            let outer = &buffer[..length];
            let inner = &outer[usize::from(outer[0] & 0x0f) * 4..];
            assert_eq!(
                (address(outer, 12), address(inner, 12)),
                (self.site, self.inside),
                "not this tunnel's"
            );
            let to = SocketAddrV4::new(address(inner, 16), 0);
            self.raw.send_to(inner, &to.into()).unwrap();
            count += 1;
        }
    }

    fn wrap_all(&mut self) -> u64 {
        let mut count = 0;
        while let Some(frame) = self.outside.recv() {
            let packet = &frame.bytes()[ETHERNET_HEADER..];
            if packet.len() >= 20 && packet[0] >> 4 == 4 && address(packet, 16) == self.inside {
                let to = SocketAddrV4::new(self.site, 0);
                // What is too large is dropped; whoever sent it finds out.
                count += u64::from(self.tunnel.send_to(packet, &to.into()).is_ok());
            }
        }
        count
    }
}

fn address(packet: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3])
}

impl Drop for TunnelEnd {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported where it happened.
            drop(thread.join());
        }
    }
}
