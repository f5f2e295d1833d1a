//! Wrapping an IPv4 packet in another one, and unwrapping it (RFC 2003).

use std::net::Ipv4Addr;
use std::ops::Range;

use thiserror::Error;

use super::ipv4::{Header, set_ecn};
use super::{Ecn, IPV4_HEADER_LEN, Ipv4, PROTOCOL_IPIP};
use crate::fields::Malformed;

/// What outer headers have as time to live: "set to a value appropriate for delivery of the encapsulated datagram to the
/// tunnel exit point" (RFC 2003, section 3.1), which is the Internet's default (RFC 1340).
pub const TTL: u8 = 64;

/// Why a packet is not unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TunnelError {
    /// It is no IPv4 in IPv4.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Congestion was marked on the way, and the inner packet cannot say so: it counts as lost (RFC 6040, section 4.2).
    #[error("a router has marked congestion, and the inner packet knows no such marks")]
    Congestion,
}

/// A packet that has come through a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decapsulated {
    /// The end of the tunnel that wrapped it.
    pub source: Ipv4Addr,
    /// The end of the tunnel for which it was.
    pub destination: Ipv4Addr,
    /// Where in the bytes the inner packet stands, which [`Ipv4::parse`] accepts.
    pub inner: Range<usize>,
}

/// The header that carries `inner` from one end of a tunnel to the other. `None` if there is no room for it in a packet.
///
/// Type of service and congestion mark are those of the inner packet (RFC 6040, section 4.1), and no router may cut the
/// outer packet if none may cut the inner one (RFC 2003, section 3.1).
#[must_use]
pub fn encapsulate(
    inner: &Ipv4<'_>,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Option<[u8; IPV4_HEADER_LEN]> {
    outer_header((inner.tos(), inner.bytes().len(), inner.dont_fragment()), source, destination)
}

/// The same, of what is known of the inner packet: its type of service, length, and whether no router may cut it.
pub(super) fn outer_header(
    (tos, inner_len, dont_fragment): (u8, usize, bool),
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Option<[u8; IPV4_HEADER_LEN]> {
    let total_len = u16::try_from(IPV4_HEADER_LEN + inner_len).ok()?;
    let header =
        Header { tos, total_len, dont_fragment, ttl: TTL, protocol: PROTOCOL_IPIP, source, destination };
    Some(header.to_bytes())
}

/// Unwraps a packet. The congestion mark of the outer header, where it says more, goes to the inner one.
///
/// # Errors
/// [`TunnelError`].
pub fn decapsulate(packet: &mut [u8]) -> Result<Decapsulated, TunnelError> {
    let outer = Ipv4::parse(packet)?;
    if outer.protocol() != PROTOCOL_IPIP {
        return Err(Malformed::UnknownType(outer.protocol()).into());
    }
    if outer.is_fragment() {
        return Err(Malformed::Illegal("fragment").into());
    }
    let inner = Ipv4::parse(outer.payload())?;
    let start = outer.header_len();
    let unwrapped = Decapsulated {
        source: outer.source(),
        destination: outer.destination(),
        inner: start..start + inner.bytes().len(),
    };
    let (before, after) =
        (inner.ecn(), behind_tunnel(outer.ecn(), inner.ecn()).ok_or(TunnelError::Congestion)?);
    if before != after {
        set_ecn(&mut packet[unwrapped.inner.clone()], after);
    }
    Ok(unwrapped)
}

/// The mark with which a packet leaves a tunnel (RFC 6040, figure 4); `None` if it has to be dropped.
fn behind_tunnel(outer: Ecn, inner: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, Ecn::NotEct | Ecn::Ect0 | Ecn::Ect1) => Some(Ecn::NotEct),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (Ecn::Ect0 | Ecn::Ect1, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::NotEct | Ecn::Ect0) => Some(Ecn::Ect0),
        (Ecn::Ect1, Ecn::NotEct | Ecn::Ect0 | Ecn::Ect1) => Some(Ecn::Ect1),
        (Ecn::Ce, Ecn::NotEct | Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce) => Some(Ecn::Ce),
    }
}

#[cfg(test)]
mod tests;
