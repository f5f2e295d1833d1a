//! The Internet checksum, kept right while single words change.

/// The checksum after one word under it has changed (RFC 1624 eq. 3): HC' = ~(~HC + ~m + m').
pub(crate) fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    if old == new {
        return checksum;
    }
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let [.., high, low] = (folded + (folded >> 16)).to_be_bytes();
    !u16::from_be_bytes([high, low])
}
