//! IP-in-IP: the socket for it, what waits to leave by it, and sites whose datagrams come in it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Instant;

use psmc_core::relay::{Address, PlainTunnels, Tunnel};
use psmc_net::ipip::{IpIpPort, OpenError, SendBatch};
use psmc_net::udp::SendFailure;
use psmc_wire::ip::{Ipv4, TunnelledUdp, decapsulate};

use super::plain::learn_link_mtu;
use super::{Moved, READS_PER_TURN, Worker};

/// The socket for all tunnels.
#[derive(Debug)]
pub(crate) struct Tunnels {
    pub(super) outgoing: Outgoing,
    pub(super) plain: PlainTunnels,
}

/// What leaves with the next flush, and by what.
#[derive(Debug)]
pub(super) struct Outgoing {
    port: IpIpPort,
    batch: SendBatch,
    /// To whom a packet was longer than the first link takes, since somebody has asked.
    too_long_to: Option<Ipv4Addr>,
}

impl Tunnels {
    /// Opens the socket.
    pub(crate) fn open(plain: PlainTunnels) -> Result<Self, OpenError> {
        let outgoing = Outgoing { port: IpIpPort::open(None)?, batch: SendBatch::new(), too_long_to: None };
        Ok(Self { outgoing, plain })
    }

    /// Adds a datagram to what leaves with the next flush, which is at hand when no more fit.
    pub(super) fn push(&mut self, to: &Address, tunnel: Tunnel, datagram: &[u8], moved: &mut Moved) {
        match addresses(to, tunnel).and_then(|addresses| addresses.headers(datagram)) {
            Some(headers) => self.outgoing.push(&headers, datagram, moved),
            None => moved.send_drops += 1,
        }
    }

    /// Sends what is there. What the network does not take is dropped and counted.
    pub(super) fn flush(&mut self, moved: &mut Moved) {
        self.outgoing.flush(moved);
        if let Some(end) = self.outgoing.too_long_to.take() {
            learn_link_mtu(&mut self.plain, end);
        }
    }
}

impl Outgoing {
    pub(super) fn push(&mut self, headers: &[u8], payload: &[u8], moved: &mut Moved) {
        if self.batch.is_full() {
            self.flush(moved);
        }
        self.batch.push(headers, payload);
    }

    fn flush(&mut self, moved: &mut Moved) {
        let mut next = 0;
        while next < self.batch.len() {
            let Err(error) = self.port.try_send(&self.batch, next) else {
                self.count_sent(next..self.batch.len(), moved);
                break;
            };
            self.count_sent(next..error.packet, moved);
            let refused = match error.failure {
                SendFailure::WouldBlock => self.batch.len() - error.packet,
                SendFailure::TooBig => {
                    self.too_long_to = outer_destination(self.batch.packet(error.packet));
                    1
                }
                SendFailure::Unreachable(_) | SendFailure::Other(_) => 1,
            };
            moved.send_drops += refused as u64;
            next = error.packet + refused;
        }
        self.batch.clear();
    }

    fn count_sent(&self, packets: std::ops::Range<usize>, moved: &mut Moved) {
        moved.sent += packets.len() as u64;
        moved.runs += packets.len() as u64;
        moved.sent_bytes += packets.map(|packet| self.batch.packet(packet).len() as u64).sum::<u64>();
    }
}

fn outer_destination(packet: &[u8]) -> Option<Ipv4Addr> {
    Ipv4::parse_quoted(packet).ok().map(|outer| outer.destination())
}

impl Worker {
    /// Moves what has come in tunnels; says whether there was anything.
    pub(super) fn poll_tunnels(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..READS_PER_TURN {
            let Some(tunnels) = &self.network.tunnels else { break };
            match tunnels.outgoing.port.poll_recv(cx, &mut self.wrapped) {
                Poll::Ready(Ok(_)) => progress = true,
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "cannot receive IP-in-IP");
                    break;
                }
                Poll::Pending => break,
            }
            let now = Instant::now();
            let is_all = !self.wrapped.is_full();
            for packet in self.wrapped.packets() {
                self.moved.received += 1;
                self.moved.received_bytes += packet.len() as u64;
                let tunnels = self.network.tunnels.as_mut();
                if tunnels.is_some_and(|tunnels| tunnels.handle_plain(packet, now, &mut self.moved)) {
                    continue;
                }
                let Some((from, datagram)) = unwrap(packet) else {
                    self.relay.refusals.malformed += 1;
                    continue;
                };
                if let Some((to, bytes)) = self.relay.handle_datagram(datagram, from, now) {
                    self.outbox.push(to, bytes, &mut self.network, &mut self.moved);
                }
            }
            if is_all {
                break;
            }
        }
        progress
    }
}

/// The datagram in a packet, and where it has come from. `None` if it is no UDP in IP-in-IP.
fn unwrap(packet: &mut [u8]) -> Option<(Address, &mut [u8])> {
    let unwrapped = decapsulate(packet).ok()?;
    let (addresses, place) = TunnelledUdp::parse(packet, &unwrapped).ok()?;
    let from = Address {
        remote: addresses.source.into(),
        local_ip: Some(addresses.tunnel_destination.into()),
        tunnel: Some(Tunnel { end: addresses.tunnel_source, peer: addresses.destination }),
    };
    Some((from, packet.get_mut(place)?))
}

/// From where to where a datagram to this side goes: the way back of [`unwrap`].
fn addresses(to: &Address, tunnel: Tunnel) -> Option<TunnelledUdp> {
    let SocketAddr::V4(destination) = to.remote else { return None };
    let tunnel_source = match to.local_ip {
        Some(IpAddr::V4(ip)) => ip,
        Some(IpAddr::V6(_)) | None => Ipv4Addr::UNSPECIFIED,
    };
    Some(TunnelledUdp { tunnel_source, tunnel_destination: tunnel.end, source: tunnel.peer, destination })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_back_the_way_that_the_question_came() {
        let question = TunnelledUdp {
            tunnel_source: Ipv4Addr::new(192, 0, 2, 1),
            tunnel_destination: Ipv4Addr::new(192, 0, 2, 2),
            source: "10.0.0.1:40001".parse().unwrap(),
            destination: "203.0.113.5:5115".parse().unwrap(),
        };
        let mut packet = [&question.headers(b"?").unwrap()[..], b"?"].concat();
        let (from, datagram) = unwrap(&mut packet).unwrap();
        assert_eq!(datagram, b"?");
        let answer = addresses(&from, from.tunnel.unwrap()).unwrap();
        let back = TunnelledUdp {
            tunnel_source: question.tunnel_destination,
            tunnel_destination: question.tunnel_source,
            source: question.destination,
            destination: question.source,
        };
        assert_eq!(answer, back);
    }
}
