//! Datagrams on their way out: those in a row to one address, of one length, leave with one system call.

use psmc_core::relay::Address;
use psmc_net::udp::{Ecn, SendFailure, Transmit, UdpPort};

use super::Moved;

/// Bytes that leave at once, at most: what the kernel takes in one call.
const CAPACITY: usize = 65_535 - 40 - 8;

/// Datagrams that leave at once, at most (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;

/// A run of datagrams to one address, all of the first one's length but for the last.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    to: Option<Address>,
    segment: usize,
    count: usize,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(CAPACITY), to: None, segment: 0, count: 0 }
    }

    /// Adds a datagram; what cannot leave together with it leaves now.
    pub(super) fn push(&mut self, to: Address, datagram: &[u8], port: &UdpPort, moved: &mut Moved) {
        if !self.fits(to, datagram.len()) {
            self.flush(port, moved);
        }
        if self.count == 0 {
            self.to = Some(to);
            self.segment = datagram.len();
        }
        self.bytes.extend_from_slice(datagram);
        self.count += 1;
    }

    /// Sends what is there. What the network does not take is dropped and counted.
    pub(super) fn flush(&mut self, port: &UdpPort, moved: &mut Moved) {
        let Some(to) = self.to.take() else { return };
        let mut at = 0;
        while at < self.bytes.len() {
            let transmit = Transmit {
                remote: to.remote,
                local_ip: to.local_ip,
                ecn: Ecn::NotEct,
                segment_size: Some(self.segment),
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

    fn fits(&self, to: Address, len: usize) -> bool {
        let all_alike = self.bytes.len() == self.count * self.segment;
        self.to == Some(to)
            && all_alike
            && len <= self.segment
            && self.count < MAX_SEGMENTS
            && self.bytes.len() + len <= CAPACITY
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
        Address { remote: socket.local_addr().unwrap(), local_ip: None }
    }

    fn receiver() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    async fn port() -> UdpPort {
        let bind = UdpBind { address: "127.0.0.1:0".parse().unwrap(), interface: None };
        let port = UdpPort::bind(&bind).unwrap();
        std::future::poll_fn(|cx| port.poll_writable(cx)).await.unwrap();
        port
    }

    #[tokio::test]
    async fn everything_arrives_as_it_was_however_it_was_grouped() {
        let (one, two) = (receiver(), receiver());
        let port = port().await;
        let (mut outbox, mut moved) = (Outbox::new(), Moved::default());
        let lengths = [100, 100, 50, 100, 100, 200, 1400, 1400, 1400, 52];
        let mut expected = [Vec::new(), Vec::new()];
        for (index, length) in (0u8..).zip(lengths) {
            let whose = usize::from(index / 4 % 2);
            let datagram = vec![index; length];
            outbox.push(address([&one, &two][whose]), &datagram, &port, &mut moved);
            expected[whose].push(datagram);
        }
        outbox.flush(&port, &mut moved);
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
        let port = port().await;
        let (mut outbox, mut moved) = (Outbox::new(), Moved::default());
        let nowhere = Address { remote: "[2001:db8::1]:9".parse().unwrap(), local_ip: None };
        for _ in 0..3 {
            outbox.push(nowhere, &[0; 100], &port, &mut moved);
        }
        outbox.flush(&port, &mut moved);
        assert_eq!((moved.sent, moved.send_drops), (0, 3));
    }
}
