//! Datagrams on their way out: what goes to one address, of one length, leaves with one system call.

use std::net::IpAddr;

use psmc_core::relay::Address;
use psmc_net::udp::{Ecn, SendFailure, Transmit, UdpPort};

use super::{Moved, Sockets};

/// Addresses to which datagrams can be gathered at the same time. More would seldom find a second datagram for one of
/// them before the first has to leave.
const RUNS: usize = 256;

/// Bytes that leave at once, at most: what the kernel takes in one call.
const CAPACITY: usize = 65_535 - 40 - 8;

/// Datagrams that leave at once, at most (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;

/// Datagrams that leave when [`flush`](Self::flush) is called, or as soon as they cannot be gathered any longer. Those to
/// one address stay in order.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Each address has one place, which it shares with others.
    runs: Vec<Run>,
    /// The places of the runs that are not empty, in the order in which they were begun.
    begun: Vec<usize>,
}

/// Datagrams to one address, all of the first one's length but for the last.
#[derive(Debug, Default)]
struct Run {
    bytes: Vec<u8>,
    /// `None` if it is empty.
    to: Option<Address>,
    segment: usize,
    count: usize,
}

impl Outbox {
    pub(super) fn new() -> Self {
        let mut runs = Vec::new();
        runs.resize_with(RUNS, Run::default);
        Self { runs, begun: Vec::with_capacity(RUNS) }
    }

    /// Adds a datagram. The run that it would have to join leaves now if it cannot.
    pub(super) fn push(&mut self, to: Address, datagram: &[u8], sockets: &mut Sockets, moved: &mut Moved) {
        if let (Some(tunnel), Some(tunnels)) = (to.tunnel, &mut sockets.tunnels) {
            tunnels.push(&to, tunnel, datagram, moved);
            return;
        }
        let place = place_of(to);
        let run = &mut self.runs[place];
        if run.to.is_none() {
            self.begun.push(place);
        } else if !run.takes(to, datagram.len()) {
            run.send(&sockets.port, moved);
        }
        run.add(to, datagram);
    }

    /// Sends what is there. What the network does not take is dropped and counted.
    pub(super) fn flush(&mut self, port: &UdpPort, moved: &mut Moved) {
        for place in self.begun.drain(..) {
            self.runs[place].send(port, moved);
        }
    }
}

/// Spreads neighbouring addresses and ports: the multiplier is 2^32 by the golden ratio (Knuth, vol. 3, section 6.4).
fn place_of(Address { remote, .. }: Address) -> usize {
    let ip = match remote.ip() {
        IpAddr::V4(ip) => ip.to_bits(),
        #[expect(clippy::cast_possible_truncation, reason = "both halves of the lower half count")]
        IpAddr::V6(ip) => (ip.to_bits() >> 32) as u32 ^ ip.to_bits() as u32,
    };
    let mixed = (ip ^ u32::from(remote.port()) << 16).wrapping_mul(0x9e37_79b9);
    (mixed >> 16) as usize % RUNS
}

impl Run {
    /// Whether a datagram can leave together with those that are there.
    fn takes(&self, to: Address, len: usize) -> bool {
        let all_alike = self.bytes.len() == self.count * self.segment;
        self.to == Some(to)
            && all_alike
            && len <= self.segment
            && self.count < MAX_SEGMENTS
            && self.bytes.len() + len <= CAPACITY
    }

    fn add(&mut self, to: Address, datagram: &[u8]) {
        if self.to.is_none() {
            self.to = Some(to);
            self.segment = datagram.len();
        }
        self.bytes.extend_from_slice(datagram);
        self.count += 1;
    }

    fn send(&mut self, port: &UdpPort, moved: &mut Moved) {
        let Some(to) = self.to.take() else { return };
        moved.runs += 1;
        let mut at = 0;
        while at < self.bytes.len() {
            let transmit = Transmit {
                remote: to.remote,
                local_ip: to.local_ip,
                ecn: Ecn::NotEct,
                segment_size: Some(self.segment),
                apart: false,
                contents: &self.bytes[at..],
            };
            let Err(error) = port.try_send(&transmit) else {
                self.count_sent(at, self.bytes.len(), moved);
                break;
            };
            self.count_sent(at, at + error.sent, moved);
            at += error.sent;
            if matches!(error.failure, SendFailure::WouldBlock) {
                moved.send_drops += self.segments(self.bytes.len() - at);
                break;
            }
            moved.send_drops += 1;
            at += self.segment;
        }
        self.bytes.clear();
        self.count = 0;
    }

    fn count_sent(&self, from: usize, to: usize, moved: &mut Moved) {
        moved.sent += self.segments(to - from);
        moved.sent_bytes += (to - from) as u64;
    }

    fn segments(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.segment.max(1)) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use psmc_net::udp::UdpBind;

    use super::*;

    fn address(socket: &UdpSocket) -> Address {
        Address::of(socket.local_addr().unwrap())
    }

    fn receiver() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    async fn sockets() -> Sockets {
        let bind = UdpBind { address: "127.0.0.1:0".parse().unwrap(), interface: None };
        let port = UdpPort::bind(&bind).unwrap();
        Sockets { port, tunnels: None, errors: None }
    }

    #[tokio::test]
    async fn everything_arrives_as_it_was_however_it_was_grouped() {
        let (one, two) = (receiver(), receiver());
        let mut sockets = sockets().await;
        let (mut outbox, mut moved) = (Outbox::new(), Moved::default());
        let lengths = [100, 100, 50, 100, 100, 200, 1400, 1400, 1400, 52];
        let mut expected = [Vec::new(), Vec::new()];
        for (index, length) in (0u8..).zip(lengths) {
            let whose = usize::from(index % 3 % 2);
            let datagram = vec![index; length];
            outbox.push(address([&one, &two][whose]), &datagram, &mut sockets, &mut moved);
            expected[whose].push(datagram);
        }
        outbox.flush(&sockets.port, &mut moved);
        for (socket, expected) in [&one, &two].into_iter().zip(expected) {
            for datagram in expected {
                let mut buffer = [0; 2000];
                let length = socket.recv(&mut buffer).unwrap();
                assert_eq!(buffer[..length], datagram);
            }
        }
        let bytes = lengths.iter().sum::<usize>() as u64;
        assert_eq!((moved.sent, moved.sent_bytes, moved.send_drops), (10, bytes, 0));
    }

    #[tokio::test]
    async fn what_the_network_does_not_take_is_counted() {
        let mut sockets = sockets().await;
        let (mut outbox, mut moved) = (Outbox::new(), Moved::default());
        let nowhere = Address::of("[2001:db8::1]:9".parse().unwrap());
        for _ in 0..3 {
            outbox.push(nowhere, &[0; 100], &mut sockets, &mut moved);
        }
        outbox.flush(&sockets.port, &mut moved);
        assert_eq!((moved.sent, moved.send_drops), (0, 3));
    }
}
