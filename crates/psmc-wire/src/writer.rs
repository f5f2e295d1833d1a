//! Appending fields of messages: the counterpart of what [`Reader`](crate::reader::Reader) reads.

use std::net::SocketAddr;

use crate::hop::Hop;

/// Appends `text` behind its length; what exceeds 255 bytes is cut at a character's boundary.
pub(crate) fn short_str(text: &str, out: &mut Vec<u8>) {
    let text = &text[..text.floor_char_boundary(usize::from(u8::MAX))];
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend(text.as_bytes());
}

/// Appends the family, the address and the port. An IPv6 address loses its scope.
pub(crate) fn address(address: SocketAddr, out: &mut Vec<u8>) {
    match address {
        SocketAddr::V4(v4) => {
            out.push(4);
            out.extend(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            out.push(6);
            out.extend(v6.ip().octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

/// Appends a rate in bits per second; none is written as 0.
pub(crate) fn rate(rate: Option<u64>, out: &mut Vec<u8>) {
    out.extend(rate.unwrap_or(0).to_be_bytes());
}

/// Appends the label and the key of a hop.
pub(crate) fn hop(hop: &Hop, out: &mut Vec<u8>) {
    out.extend(hop.label.0.to_be_bytes());
    out.extend(hop.key.0);
}
