//! What a worker does with raw sockets: sites whose datagrams come in IP-in-IP, plain tunnels between two ends that know
//! nothing of the relay but its address, and ICMP errors about what the relay has sent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use psmc_core::relay::{Address, Packets, PlainCounters, PlainPair, PlainStatus, PlainTunnels, Tunnel};
use psmc_core::shed::Held;
use psmc_net::icmp::{IcmpPort, MAX_ERROR};
use psmc_net::ipip::{IpIpPort, OpenError, SendBatch};
use psmc_net::udp::{SendFailure, route_mtu};
use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::{IPV4_HEADER_LEN, Ipv4, TunnelledUdp, decapsulate, is_too_big_v4, is_too_big_v6};

use super::{Moved, READS_PER_TURN, Worker};
use crate::config::link_mtu;

/// The socket for all tunnels.
#[derive(Debug)]
pub(crate) struct TunnelSocket {
    outgoing: Outgoing,
    plain: PlainTunnels,
}

/// What leaves with the next flush, and by what.
#[derive(Debug)]
struct Outgoing {
    port: IpIpPort,
    batch: SendBatch,
    /// To whom a packet was longer than the first link takes, since somebody has asked.
    too_long_to: Option<Ipv4Addr>,
}

impl TunnelSocket {
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
    fn push(&mut self, headers: &[u8], payload: &[u8], moved: &mut Moved) {
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
    /// Drops for a site what these rules say of what goes to it.
    pub(crate) fn set_rules(&mut self, site: KeyBytes, rules: Option<Arc<Held>>) {
        if let Some(tunnels) = &mut self.sockets.tunnels {
            tunnels.plain.set_rules(site, rules.clone());
        }
        self.relay.set_rules(site, rules);
    }

    /// Moves what has come in tunnels; says whether there was anything.
    pub(super) fn poll_tunnels(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..READS_PER_TURN {
            let Some(tunnels) = &self.sockets.tunnels else { break };
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
                let tunnels = self.sockets.tunnels.as_mut();
                if tunnels.is_some_and(|tunnels| tunnels.handle_plain(packet, now, &mut self.moved)) {
                    continue;
                }
                let Some((from, datagram)) = unwrap(packet) else {
                    self.relay.refusals.malformed += 1;
                    continue;
                };
                if let Some((to, bytes)) = self.relay.handle_datagram(datagram, from, now) {
                    self.outbox.push(to, bytes, &mut self.sockets, &mut self.moved);
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

/// What goes out, and is counted.
struct Leaving<'a> {
    outgoing: &'a mut Outgoing,
    moved: &'a mut Moved,
}

impl Packets for Leaving<'_> {
    fn push(&mut self, header: &[u8; IPV4_HEADER_LEN], inner: &[u8]) {
        self.outgoing.push(header, inner, self.moved);
    }
}

impl Worker {
    /// Serves these pairs of plain tunnels from now on; false if it has no socket for any.
    pub(crate) fn set_plain_tunnels(&mut self, pairs: Vec<PlainPair>, now: Instant) -> bool {
        let Some(tunnels) = &mut self.sockets.tunnels else { return pairs.is_empty() };
        tunnels.plain.reconfigure(pairs, now);
        true
    }

    /// A site to which ends are left is there, or nowhere; false if a tunnel would lead into itself.
    pub(crate) fn place_site(&mut self, site: KeyBytes, at: Option<Ipv4Addr>) -> bool {
        let Some(tunnels) = &mut self.sockets.tunnels else { return true };
        tunnels.plain.place_site(site, at.map(|address| (address, link_mtu(address))))
    }
}

impl TunnelSocket {
    /// Handles a packet if it comes from an end of a plain tunnel; says whether it does.
    fn handle_plain(&mut self, packet: &mut [u8], now: Instant, moved: &mut Moved) -> bool {
        if !self.plain.claims(packet) {
            return false;
        }
        self.plain.handle_packet(packet, now, &mut Leaving { outgoing: &mut self.outgoing, moved });
        true
    }

    /// Handles an ICMP error if it is about what was sent through a plain tunnel.
    fn handle_error(&mut self, message: &[u8], now: Instant, moved: &mut Moved) {
        self.plain.handle_error(message, now, &mut Leaving { outgoing: &mut self.outgoing, moved });
    }

    /// Sends what has waited long enough, but at most so many packets.
    pub(super) fn send_waiting(&mut self, limit: usize, now: Instant, moved: &mut Moved) {
        self.plain.handle_timeout(limit, now, &mut Leaving { outgoing: &mut self.outgoing, moved });
    }

    /// When something has waited long enough, if anything waits.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.plain.poll_timeout()
    }

    /// The plain tunnels as they stand, in the order of the file, and what went no further.
    pub(crate) fn plain_status(&self, now: Instant) -> (Vec<PlainStatus>, PlainCounters) {
        (self.plain.status(now).collect(), self.plain.counters)
    }
}

/// The first link towards an end takes less than was known.
fn learn_link_mtu(plain: &mut PlainTunnels, end: Ipv4Addr) {
    // Without a route nothing gets there, whatever its length.
    if let Ok(mtu) = route_mtu(end) {
        plain.set_link_mtu(end, mtu);
    }
}

/// The sockets at which they arrive.
#[derive(Debug)]
pub(crate) struct Errors {
    v4: IcmpPort,
    /// Not where there is no IPv6.
    v6: Option<IcmpPort>,
    buffer: [u8; MAX_ERROR],
}

impl Errors {
    /// Opens the sockets; `None` if the relay may not have them.
    pub(crate) fn open() -> Option<Self> {
        Some(Self { v4: IcmpPort::open_v4().ok()?, v6: IcmpPort::open_v6().ok(), buffer: [0; MAX_ERROR] })
    }
}

impl Worker {
    /// Whether the relay hears ICMP errors.
    pub(crate) fn hears_errors(&self) -> bool {
        self.sockets.errors.is_some()
    }

    /// Handles errors that have come; says whether there were any.
    pub(super) fn poll_errors(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..READS_PER_TURN {
            let mut heard = false;
            heard |= self.poll_error_v4(cx);
            heard |= self.poll_error_v6(cx);
            if !heard {
                break;
            }
            progress = true;
        }
        progress
    }

    fn poll_error_v4(&mut self, cx: &mut Context<'_>) -> bool {
        let own_port = self.sockets.port.local_addr().port();
        let Some(errors) = &mut self.sockets.errors else { return false };
        // A socket that fails says nothing any more; what is sent does not depend on it.
        let Poll::Ready(Ok(length)) = errors.v4.poll_recv(cx, &mut errors.buffer) else { return false };
        let message = &errors.buffer[..length];
        self.moved.heard_too_big += u64::from(is_too_big_v4(message, own_port));
        if let Some(tunnels) = &mut self.sockets.tunnels {
            tunnels.handle_error(message, Instant::now(), &mut self.moved);
        }
        true
    }

    fn poll_error_v6(&mut self, cx: &mut Context<'_>) -> bool {
        let own_port = self.sockets.port.local_addr().port();
        let Some(Errors { v6: Some(port), buffer, .. }) = &mut self.sockets.errors else { return false };
        let Poll::Ready(Ok(length)) = port.poll_recv(cx, buffer) else { return false };
        self.moved.heard_too_big += u64::from(is_too_big_v6(&buffer[..length], own_port));
        true
    }
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
