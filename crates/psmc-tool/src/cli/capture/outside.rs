//! What is outside: the tunnel's own datagrams, by path.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use psmc_api::{CapturedPacket, PeerPaths};
use psmc_net::sniffer::Sniffer;
use psmc_service::clock::since_1970;

/// Protocols (IANA) of datagrams.
const UDP: u8 = 17;
const IP_IN_IP: u8 = 4;

/// How soon it is noticed that nobody listens any more.
const PATIENCE: Duration = Duration::from_millis(200);

/// As large as a packet can be.
const LARGEST: usize = 1 << 16;

/// What the name of an interface ends in whose packets are outside.
const OUTSIDE: &str = " (outside)";

/// Who speaks to whom, by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
    is_ip_in_ip: bool,
}

/// A path, as it is seen outside.
#[derive(Clone, Debug)]
struct Way {
    peer: String,
    path: String,
    /// Unspecified, and with port 0, where any will do.
    local: SocketAddr,
    remote: SocketAddr,
    is_ip_in_ip: bool,
}

/// The paths of which datagrams are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways(Arc<Mutex<Vec<Way>>>);

impl Ways {
    /// These are the paths now.
    pub(super) fn set(&self, peers: &[PeerPaths], is_wanted: impl Fn(&str, &str) -> bool) {
        let ways = peers.iter().flat_map(|peer| {
            let is_wanted = &is_wanted;
            peer.paths.iter().filter(move |path| is_wanted(&peer.peer, &path.name)).filter_map(|path| {
                let remote: SocketAddr = path.remote.as_ref()?.parse().ok()?;
                let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
                let local = path.local.as_ref().and_then(|local| local.parse().ok()).unwrap_or(any);
                let (peer, path_name) = (peer.peer.clone(), path.name.clone());
                Some(Way { peer, path: path_name, local, remote, is_ip_in_ip: path.ip_in_ip })
            })
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ways.collect();
    }

    /// The path that a packet is on, and whether it leaves.
    fn find(&self, packet: &[u8]) -> Option<(String, String, bool)> {
        let ends = ends_of(packet)?;
        let ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ways.iter().find_map(|way| {
            let sent = way.has(ends.from, ends.to) && ends.is_ip_in_ip == way.is_ip_in_ip;
            let come = way.has(ends.to, ends.from) && ends.is_ip_in_ip == way.is_ip_in_ip;
            (sent || come).then(|| (way.peer.clone(), format!("{}{OUTSIDE}", way.path), sent))
        })
    }
}

impl Way {
    fn has(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let ip = self.local.ip().to_canonical();
        let is_remote = remote.ip() == self.remote.ip().to_canonical()
            && (self.is_ip_in_ip || remote.port() == self.remote.port());
        let is_local = (ip.is_unspecified() || ip == local.ip())
            && (self.is_ip_in_ip || self.local.port() == 0 || self.local.port() == local.port());
        is_remote && is_local
    }
}

/// The ends of a packet that may be a datagram of a tunnel: IPv4 without options or with them, IPv6 without extension headers.
fn ends_of(packet: &[u8]) -> Option<Ends> {
    let (from, to, protocol, rest): (IpAddr, IpAddr, _, _) = match packet.first()? >> 4 {
        4 => {
            let address = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?));
            let header = usize::from(packet[0] & 15) * 4;
            (address(12)?.into(), address(16)?.into(), *packet.get(9)?, packet.get(header..)?)
        }
        6 => {
            let address = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?));
            (address(8)?.into(), address(24)?.into(), *packet.get(6)?, packet.get(40..)?)
        }
        _ => return None,
    };
    let is_ip_in_ip = protocol == IP_IN_IP;
    let port = |at: usize| Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk::<2>()?));
    let (near, far) = match protocol {
        UDP => (port(0)?, port(2)?),
        IP_IN_IP => (0, 0),
        _ => return None,
    };
    Some(Ends { from: SocketAddr::new(from, near), to: SocketAddr::new(to, far), is_ip_in_ip })
}

/// Sees the datagrams of these paths from here on, until nobody takes them any more. What does not fit is counted in `dropped`.
///
/// # Errors
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for whoever is not root.
pub(super) fn watch(ways: Ways, out: SyncSender<CapturedPacket>, dropped: Arc<AtomicU64>) -> io::Result<()> {
    let sniffer = Sniffer::open(PATIENCE)?;
    thread::spawn(move || {
        let mut buffer = vec![0; LARGEST];
        while let Ok(received) = sniffer.recv(&mut buffer) {
            let Some(packet) = received.and_then(|length| buffer.get(..length)) else { continue };
            let Some((peer, path, sent)) = ways.find(packet) else { continue };
            // Until the year 2554.
            let unix_ns = u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX);
            let captured = CapturedPacket { unix_ns, peer, path, sent, packet: packet.to_vec() };
            match out.try_send(captured) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
                Err(TrySendError::Disconnected(_)) => break,
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, UDP, 0, 0];
        packet.extend(from.iter().chain(&to));
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend([0; 4]);
        packet
    }

    #[test]
    fn datagrams_are_those_of_the_path_whose_ends_they_have() {
        let way = |path: &str, local: &str| Way {
            peer: "hq".to_owned(),
            path: path.to_owned(),
            local: local.parse().unwrap(),
            remote: "203.0.113.5:5115".parse().unwrap(),
            is_ip_in_ip: false,
        };
        let ways =
            Ways(Arc::new(Mutex::new(vec![way("a", "192.0.2.1:5115"), way("b", "[::ffff:192.0.2.2]:0")])));
        let (hq, a, b, other) = ([203, 0, 113, 5], [192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]);
        let found = |from, to, ports| ways.find(&packet(from, to, ports)).map(|(_, path, sent)| (path, sent));
        assert_eq!(found(a, hq, [5115, 5115]), Some(("a (outside)".to_owned(), true)));
        assert_eq!(found(hq, a, [5115, 5115]), Some(("a (outside)".to_owned(), false)));
        assert_eq!(found(b, hq, [40_000, 5115]), Some(("b (outside)".to_owned(), true)));
        for (from, to, ports) in
            [(a, hq, [5115, 53]), (a, hq, [4000, 5115]), (other, hq, [5115, 5115]), (a, b, [5115, 5115])]
        {
            assert_eq!(found(from, to, ports), None);
        }
        for length in 0..27 {
            // A packet that is cut off is nobody's, or still shows whose it is.
            ways.find(&packet(a, hq, [5115, 5115])[..length]);
        }
    }
}
