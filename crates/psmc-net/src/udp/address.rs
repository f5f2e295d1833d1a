//! IPv4 on IPv6 sockets (RFC 4291, section 2.5.5.2): mapped inside the kernel's interface, never outside.

use std::net::{IpAddr, SocketAddr};

/// The address as our callers see it.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => {
            v6.ip().to_ipv4_mapped().map_or(address, |v4| SocketAddr::new(IpAddr::V4(v4), v6.port()))
        }
    }
}

/// The address as a socket of the IPv6 family wants it.
pub(super) fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
