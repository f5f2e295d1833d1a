//! What the tunnel could carry at best.

use psmc_wire::hop::HOP_HEADER_LEN;
use psmc_wire::ip::IPV4_HEADER_LEN;

use super::network::Link;
use psmcd::config::Encapsulation;

/// Headers of an inner TCP segment: IPv4, TCP and its time stamps (RFC 7323), which Linux always sends.
const INNER_HEADERS: u64 = 20 + 20 + 12;

/// What the tunnel adds to a packet of full size: its header and the AEAD tag.
const TUNNEL: u64 = 39;

/// Headers of the tunnel's datagrams: UDP and IPv4.
const DATAGRAM_HEADERS: u64 = 8 + 20;

/// The Ethernet header, which a token bucket counts as well.
const ETHERNET_HEADER: u64 = 14;

/// The longest packet on a link.
const LINK_MTU: u64 = 1500;

/// What one TCP flow gets through the tunnel, in bit/s, if it fills all these links with packets as large as each of them
/// carries in one piece.
pub(super) fn goodput<'a>(links: impl IntoIterator<Item = &'a Link> + Clone) -> u64 {
    let around = |link: &Link| TUNNEL + to_relay(link) + DATAGRAM_HEADERS;
    let Some(packet) = links.clone().into_iter().map(|link| LINK_MTU - around(link)).min() else { return 0 };
    let goodput = |link: &Link| {
        link.bits_per_second() * (packet - INNER_HEADERS) / (packet + around(link) + ETHERNET_HEADER)
    };
    links.into_iter().map(goodput).sum()
}

/// What is added for a relay at the other end.
fn to_relay(link: &Link) -> u64 {
    let wrapping = match link.to_relay {
        None => 0,
        Some(Encapsulation::Udp) => HOP_HEADER_LEN,
        Some(Encapsulation::IpIp) => HOP_HEADER_LEN + IPV4_HEADER_LEN,
    };
    wrapping as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{DIRECT, links};

    #[test]
    fn headers_take_nine_per_cent() {
        // Each link is rounded down by itself.
        assert_eq!(goodput(DIRECT), 90_000_000 * 1381 / 1514 - 1);
    }

    #[test]
    fn a_relay_takes_twenty_bytes_more_and_ip_in_ip_as_many() {
        assert_eq!(goodput(&links(Some(3))[..1]), 40_000_000 * 1361 / 1514);
        assert_eq!(goodput(&links(Some(3))[1..2]), 30_000_000 * 1341 / 1514);
    }
}
