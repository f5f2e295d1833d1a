//! IP packets as they travel through the world.

use std::net::{IpAddr, SocketAddr};

use psmc_wire::ip::Ecn;
use smoltcp::wire::{
    Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket,
};

/// Hops that a packet may take, as Linux has it.
const HOPS: u8 = 64;

/// Where the hash begins, and what it is multiplied by, at 32 bits.
const FNV_BASIS: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const ECHO_HEADER: usize = 8;

/// An IP packet with a complete header, and one of TCP, UDP or ICMP echo behind it if it says so.
///
/// Checksums are not computed: a packet that a link has damaged bears a mark, which stands for the sum that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    pub(crate) damaged: bool,
}

/// What is in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    Tcp,
    Udp,
    EchoRequest,
    EchoReply,
    Other,
}

impl Packet {
    /// A packet that somebody else made; `None` if it is none.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let complete = match bytes.first()? >> 4 {
            4 => Ipv4Packet::new_checked(&bytes).is_ok(),
            6 => Ipv6Packet::new_checked(&bytes).is_ok(),
            _ => false,
        };
        let packet = Self { bytes, damaged: false };
        complete.then_some(packet).filter(Packet::has_header)
    }

    /// A UDP datagram. Both addresses are of one family.
    pub(crate) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Self {
        let len = UDP_HEADER + payload.len();
        let mut packet = Self::new(from.ip(), to.ip(), IpProtocol::Udp, len);
        let mut udp = UdpPacket::new_unchecked(packet.body_mut());
        udp.set_src_port(from.port());
        udp.set_dst_port(to.port());
        udp.set_len(u16::try_from(len).unwrap_or(u16::MAX));
        udp.payload_mut().copy_from_slice(payload);
        packet
    }

    /// An ICMP echo request, with so many bytes that mean nothing.
    pub(crate) fn echo_request(from: IpAddr, to: IpAddr, ident: u16, number: u16, payload: usize) -> Self {
        let protocol = if from.is_ipv4() { IpProtocol::Icmp } else { IpProtocol::Icmpv6 };
        let mut packet = Self::new(from, to, protocol, ECHO_HEADER + payload);
        // Both versions of ICMP have these fields in the same place.
        let mut echo = Icmpv4Packet::new_unchecked(packet.body_mut());
        echo.set_echo_ident(ident);
        echo.set_echo_seq_no(number);
        packet.set_echo(true);
        packet
    }

    /// The answer to an echo request.
    pub(crate) fn into_echo_reply(mut self) -> Self {
        let (from, to) = (self.source(), self.destination());
        self.set_source_ip(to);
        self.set_destination_ip(from);
        self.set_hops(HOPS);
        self.set_echo(false);
        self
    }

    fn new(from: IpAddr, to: IpAddr, protocol: IpProtocol, len: usize) -> Self {
        let header = if from.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
        let mut bytes = vec![0; header + len];
        if from.is_ipv4() {
            let mut ip = Ipv4Packet::new_unchecked(&mut bytes);
            ip.set_version(4);
            ip.set_header_len(20);
            ip.set_total_len(u16::try_from(header + len).unwrap_or(u16::MAX));
            ip.set_dont_frag(true);
            ip.set_next_header(protocol);
        } else {
            let mut ip = Ipv6Packet::new_unchecked(&mut bytes);
            ip.set_version(6);
            ip.set_payload_len(u16::try_from(len).unwrap_or(u16::MAX));
            ip.set_next_header(protocol);
        }
        let mut packet = Self { bytes, damaged: false };
        packet.set_source_ip(from);
        packet.set_destination_ip(to);
        packet.set_hops(HOPS);
        packet
    }

    /// The packet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The packet.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Its length, from the IP header on.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Who has sent it.
    pub(crate) fn source(&self) -> IpAddr {
        if self.is_ipv4() {
            Ipv4Packet::new_unchecked(&self.bytes).src_addr().into()
        } else {
            Ipv6Packet::new_unchecked(&self.bytes).src_addr().into()
        }
    }

    /// Whom it is for.
    pub(crate) fn destination(&self) -> IpAddr {
        if self.is_ipv4() {
            Ipv4Packet::new_unchecked(&self.bytes).dst_addr().into()
        } else {
            Ipv6Packet::new_unchecked(&self.bytes).dst_addr().into()
        }
    }

    /// What is in it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "there are as many protocols and messages as numbers")]
    pub(crate) fn content(&self) -> Content {
        match self.protocol() {
            IpProtocol::Tcp => Content::Tcp,
            IpProtocol::Udp => Content::Udp,
            IpProtocol::Icmp => match Icmpv4Packet::new_unchecked(self.body()).msg_type() {
                Icmpv4Message::EchoRequest => Content::EchoRequest,
                Icmpv4Message::EchoReply => Content::EchoReply,
                _ => Content::Other,
            },
            IpProtocol::Icmpv6 => match Icmpv6Packet::new_unchecked(self.body()).msg_type() {
                Icmpv6Message::EchoRequest => Content::EchoRequest,
                Icmpv6Message::EchoReply => Content::EchoReply,
                _ => Content::Other,
            },
            _ => Content::Other,
        }
    }

    /// Address and port of the sender. What identifies a ping stands for the port of who asked.
    pub(crate) fn from(&self) -> SocketAddr {
        SocketAddr::new(self.source(), self.ports().0)
    }

    /// Address and port of the receiver, as [`from`](Self::from).
    pub(crate) fn to(&self) -> SocketAddr {
        SocketAddr::new(self.destination(), self.ports().1)
    }

    fn ports(&self) -> (u16, u16) {
        let field = |at: usize| u16::from_be_bytes([self.body()[at], self.body()[at + 1]]);
        match self.content() {
            Content::Tcp | Content::Udp => (field(0), field(2)),
            Content::EchoRequest => (self.echo_ident(), 0),
            Content::EchoReply => (0, self.echo_ident()),
            Content::Other => (0, 0),
        }
    }

    /// The payload of a UDP datagram.
    pub(crate) fn udp_payload(&self) -> &[u8] {
        &self.body()[UDP_HEADER..]
    }

    /// The payload of a UDP datagram, to be changed in place.
    pub(crate) fn udp_payload_mut(&mut self) -> &mut [u8] {
        &mut self.body_mut()[UDP_HEADER..]
    }

    /// What identifies a ping.
    pub(crate) fn echo_ident(&self) -> u16 {
        Icmpv4Packet::new_unchecked(self.body()).echo_ident()
    }

    /// The number of an echo request or reply.
    pub(crate) fn echo_number(&self) -> u16 {
        Icmpv4Packet::new_unchecked(self.body()).echo_seq_no()
    }

    /// What it says of congestion (ECN, RFC 3168 §5).
    pub(crate) fn ecn(&self) -> Ecn {
        ecn_of(&self.bytes)
    }

    /// Changes what it says of congestion.
    pub(crate) fn set_ecn(&mut self, ecn: Ecn) {
        set_ecn_of(&mut self.bytes, ecn);
    }

    /// The six bits of its differentiated services field (RFC 2474).
    pub(crate) fn dscp(&self) -> u8 {
        if self.is_ipv4() {
            Ipv4Packet::new_unchecked(&self.bytes).dscp()
        } else {
            Ipv6Packet::new_unchecked(&self.bytes).traffic_class() >> 2
        }
    }

    /// The same for packets of one flow: a hash of addresses, ports and protocol (FNV-1a).
    pub(crate) fn flow(&self) -> u32 {
        let (from, to) = (self.from(), self.to());
        let mut hash = FNV_BASIS;
        let mut add = |bytes: &[u8]| {
            hash = bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME));
        };
        for end in [from, to] {
            match end.ip() {
                IpAddr::V4(ip) => add(&ip.octets()),
                IpAddr::V6(ip) => add(&ip.octets()),
            }
            add(&end.port().to_be_bytes());
        }
        add(&[self.protocol().into()]);
        // Its low bits are the weakest, and a remainder looks at those.
        hash ^ hash >> 16
    }

    /// The whole packet, to be changed in place by who knows what is where.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Takes a hop; says whether it may go on.
    pub(crate) fn take_hop(&mut self) -> bool {
        let hops = if self.is_ipv4() {
            Ipv4Packet::new_unchecked(&self.bytes).hop_limit()
        } else {
            Ipv6Packet::new_unchecked(&self.bytes).hop_limit()
        };
        self.set_hops(hops.saturating_sub(1));
        hops > 1
    }

    /// Gives it another sender.
    pub(crate) fn set_from(&mut self, from: SocketAddr) {
        self.set_source_ip(from.ip());
        match self.content() {
            Content::Tcp | Content::Udp => self.set_field(0, from.port()),
            Content::EchoRequest => self.set_field(4, from.port()),
            Content::EchoReply | Content::Other => {}
        }
    }

    /// Gives it another receiver.
    pub(crate) fn set_to(&mut self, to: SocketAddr) {
        self.set_destination_ip(to.ip());
        match self.content() {
            Content::Tcp | Content::Udp => self.set_field(2, to.port()),
            Content::EchoReply => self.set_field(4, to.port()),
            Content::EchoRequest | Content::Other => {}
        }
    }

    fn set_field(&mut self, at: usize, value: u16) {
        self.body_mut()[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    fn set_source_ip(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => Ipv4Packet::new_unchecked(&mut self.bytes).set_src_addr(ip),
            IpAddr::V6(ip) => Ipv6Packet::new_unchecked(&mut self.bytes).set_src_addr(ip),
        }
    }

    fn set_destination_ip(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => Ipv4Packet::new_unchecked(&mut self.bytes).set_dst_addr(ip),
            IpAddr::V6(ip) => Ipv6Packet::new_unchecked(&mut self.bytes).set_dst_addr(ip),
        }
    }

    fn set_hops(&mut self, hops: u8) {
        if self.is_ipv4() {
            Ipv4Packet::new_unchecked(&mut self.bytes).set_hop_limit(hops);
        } else {
            Ipv6Packet::new_unchecked(&mut self.bytes).set_hop_limit(hops);
        }
    }

    fn set_echo(&mut self, request: bool) {
        if self.is_ipv4() {
            let kind = if request { Icmpv4Message::EchoRequest } else { Icmpv4Message::EchoReply };
            Icmpv4Packet::new_unchecked(self.body_mut()).set_msg_type(kind);
        } else {
            let kind = if request { Icmpv6Message::EchoRequest } else { Icmpv6Message::EchoReply };
            Icmpv6Packet::new_unchecked(self.body_mut()).set_msg_type(kind);
        }
    }

    fn protocol(&self) -> IpProtocol {
        if self.is_ipv4() {
            Ipv4Packet::new_unchecked(&self.bytes).next_header()
        } else {
            Ipv6Packet::new_unchecked(&self.bytes).next_header()
        }
    }

    /// Whether the header behind that of IP is complete.
    #[expect(clippy::wildcard_enum_match_arm, reason = "there are as many protocols as numbers")]
    fn has_header(&self) -> bool {
        let header = match self.protocol() {
            IpProtocol::Tcp => 20,
            IpProtocol::Udp | IpProtocol::Icmp | IpProtocol::Icmpv6 => 8,
            _ => 0,
        };
        self.bytes.len() >= self.body_start() + header
    }

    fn is_ipv4(&self) -> bool {
        self.bytes[0] >> 4 == 4
    }

    fn body_start(&self) -> usize {
        if self.is_ipv4() { Ipv4Packet::new_unchecked(&self.bytes).header_len().into() } else { IPV6_HEADER }
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.body_start()..]
    }

    fn body_mut(&mut self) -> &mut [u8] {
        let start = self.body_start();
        &mut self.bytes[start..]
    }
}

/// What a complete IP packet says of congestion (ECN, RFC 3168 §5).
pub(crate) fn ecn_of(packet: &[u8]) -> Ecn {
    Ecn::of(if packet[0] >> 4 == 4 {
        Ipv4Packet::new_unchecked(packet).ecn()
    } else {
        Ipv6Packet::new_unchecked(packet).traffic_class()
    })
}

/// Changes what a complete IP packet says of congestion.
pub(crate) fn set_ecn_of(packet: &mut [u8], ecn: Ecn) {
    if packet[0] >> 4 == 4 {
        Ipv4Packet::new_unchecked(packet).set_ecn(ecn as u8);
    } else {
        let class = Ipv6Packet::new_unchecked(&*packet).traffic_class();
        let others = class & !(Ecn::Ce as u8);
        Ipv6Packet::new_unchecked(packet).set_traffic_class(others | ecn as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_datagram_says_who_sent_what_to_whom() {
        for (a, b) in [("10.0.0.1:5", "10.0.0.2:6"), ("[fd00::1]:5", "[fd00::2]:6")]
            .map(|(a, b)| (address(a), address(b)))
        {
            let packet = Packet::udp(a, b, b"hello");
            assert_eq!((packet.from(), packet.to(), packet.udp_payload()), (a, b, &b"hello"[..]));
            assert_eq!(packet.content(), Content::Udp);
            let again = Packet::from_bytes(packet.bytes().to_vec()).unwrap();
            assert_eq!(again, packet);
        }
    }

    #[test]
    fn an_echo_comes_back_to_who_asked() {
        for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let request = Packet::echo_request(a, b, 7, 9, 56);
            assert_eq!((request.content(), request.from().port()), (Content::EchoRequest, 7));
            let reply = request.clone().into_echo_reply();
            assert_eq!((reply.source(), reply.destination()), (b, a));
            assert_eq!((reply.content(), reply.to().port(), reply.echo_number()), (Content::EchoReply, 7, 9));
            assert_eq!(reply.len(), request.len());
        }
    }

    #[test]
    fn addresses_and_ports_can_be_changed() {
        for (a, b) in [("10.0.0.1:5", "192.0.2.9:700"), ("[fd00::1]:5", "[fd00::9]:700")]
            .map(|(a, b)| (address(a), address(b)))
        {
            let mut packet = Packet::udp(a, a, &[1, 2, 3]);
            packet.set_from(b);
            assert_eq!((packet.from(), packet.to()), (b, a));
            packet.set_to(b);
            assert_eq!((packet.to(), packet.udp_payload()), (b, &[1, 2, 3][..]));
            let mut ping = Packet::echo_request(a.ip(), a.ip(), 5, 0, 0);
            ping.set_from(b);
            assert_eq!(ping.from(), b);
            let mut pong = ping.into_echo_reply();
            pong.set_to(a);
            assert_eq!((pong.to(), pong.source()), (a, a.ip()));
        }
    }

    #[test]
    fn hops_and_marks() {
        let mut packet = Packet::udp(address("10.0.0.1:5"), address("10.0.0.2:6"), &[]);
        assert_eq!((0..100).take_while(|_| packet.take_hop()).count(), 63);
        assert_eq!(packet.ecn(), Ecn::NotEct, "its sender does not know of ECN");
        packet.set_ecn(Ecn::Ce);
        assert_eq!(packet.ecn(), Ecn::Ce);
        let mut v6 = Packet::udp(address("[fd00::1]:5"), address("[fd00::2]:6"), &[]);
        v6.bytes[1] |= 0x20;
        assert_eq!(v6.ecn(), Ecn::Ect0);
        v6.set_ecn(Ecn::Ce);
        assert_eq!(v6.ecn(), Ecn::Ce);
    }

    #[test]
    fn what_is_cut_off_is_no_packet() {
        let packet = Packet::udp(address("10.0.0.1:5"), address("10.0.0.2:6"), b"hello").into_bytes();
        for len in 0..packet.len() {
            assert_eq!(Packet::from_bytes(packet[..len].to_vec()), None, "{len} bytes");
        }
    }
}
