//! Ancillary data of `sendmsg`, laid out as `cmsg(3)` says: a header of (length, level, type), the value, padding.
//!
//! IPv4 on IPv6 sockets (RFC 4291, section 2.5.5.2): mapped inside the kernel's interface, never outside.

use std::net::{IpAddr, SocketAddr};

use nix::libc::{
    IP_PKTINFO, IP_TOS, IPPROTO_IP, IPPROTO_IPV6, IPV6_PKTINFO, IPV6_TCLASS, SOL_UDP, UDP_SEGMENT,
};

use super::Ecn;

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 2 * size_of::<i32>();
/// Room for one message of each kind, the longest value being an `in6_pktinfo` of 20 bytes.
const CAPACITY: usize = 3 * (HEADER + 24);

/// What goes beside the bytes of a `sendmsg`.
#[derive(Debug, Clone)]
pub(super) struct Control {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Control {
    /// The marks that the datagrams carry and the address from which they leave, towards an IPv4 or IPv6 peer.
    pub(super) fn new(to_v4: bool, ecn: Ecn, local_ip: Option<IpAddr>) -> Self {
        let mut control = Self { bytes: [0; CAPACITY], len: 0 };
        if ecn != Ecn::NotEct {
            let (level, kind) = if to_v4 { (IPPROTO_IP, IP_TOS) } else { (IPPROTO_IPV6, IPV6_TCLASS) };
            control.push(level, kind, &[&(ecn as i32).to_ne_bytes()]);
        }
        match local_ip {
            // struct in_pktinfo: interface index, source address, an address that only receiving fills in.
            Some(IpAddr::V4(v4)) => control.push(IPPROTO_IP, IP_PKTINFO, &[&[0; 4], &v4.octets(), &[0; 4]]),
            // struct in6_pktinfo: source address, interface index.
            Some(IpAddr::V6(v6)) => control.push(IPPROTO_IPV6, IPV6_PKTINFO, &[&v6.octets(), &[0; 4]]),
            None => {}
        }
        control
    }

    /// The same, and have the kernel cut the bytes into datagrams of `segment_size`.
    pub(super) fn with_segment_size(&self, segment_size: u16) -> Self {
        let mut control = self.clone();
        control.push(SOL_UDP, UDP_SEGMENT, &[&segment_size.to_ne_bytes()]);
        control
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends one message. There is room for all that [`Control`] can be made of, see [`CAPACITY`].
    fn push(&mut self, level: i32, kind: i32, value: &[&[u8]]) {
        let value_len: usize = value.iter().map(|part| part.len()).sum();
        let end = self.len + (HEADER + value_len).next_multiple_of(WORD);
        self.put(&(HEADER + value_len).to_ne_bytes());
        self.put(&level.to_ne_bytes());
        self.put(&kind.to_ne_bytes());
        for part in value {
            self.put(part);
        }
        self.len = end;
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// The address as our callers see it.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => {
            v6.ip().to_ipv4_mapped().map_or(address, |v4| SocketAddr::new(IpAddr::V4(v4), v6.port()))
        }
    }
}

/// The address as a socket of the IPv6 family wants it.
pub(crate) fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_say_is_no_bytes() {
        assert!(Control::new(true, Ecn::NotEct, None).as_bytes().is_empty());
    }

    #[test]
    fn the_fullest_fits_and_is_aligned() {
        let control =
            Control::new(false, Ecn::Ce, Some("2001:db8::1".parse().unwrap())).with_segment_size(1400);
        assert_eq!(control.as_bytes().len() % WORD, 0);
        assert!(control.as_bytes().len() <= CAPACITY);
    }

    #[test]
    fn mapping_is_undone() {
        let v4: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert_eq!(mapped(v4), "[::ffff:192.0.2.1]:5".parse().unwrap());
        assert_eq!(canonical(mapped(v4)), v4);
        assert_eq!(canonical(v4), v4);
    }

    #[test]
    fn native_ipv6_is_left_alone() {
        let v6: SocketAddr = "[fe80::1%3]:5".parse().unwrap();
        assert_eq!(mapped(v6), v6);
        assert_eq!(canonical(v6), v6);
    }
}
