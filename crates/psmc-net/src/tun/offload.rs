//! `struct virtio_net_hdr` of `linux/virtio_net.h`: what stands in front of each packet of a device with offload.

/// Its bytes.
pub(super) const LEN: usize = 10;

/// A bit of the flags: the checksum is partial.
const NEEDS_CHECKSUM: u8 = 1;

/// A bit of the kind: the first of the packets says that the window was reduced.
const WITH_ECN: u8 = 0x80;

/// For how many packets one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// Itself.
    #[default]
    Single,
    /// Segments of TCP over IPv4.
    Tcp4,
    /// Segments of TCP over IPv6.
    Tcp6,
    /// Datagrams of UDP.
    Udp,
    /// Something that was not asked for.
    Unknown,
}

/// The header, in words of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offload {
    /// Whether the transport's checksum is partial.
    pub(super) needs_checksum: bool,
    pub(super) kind: Kind,
    /// Bytes of all headers together; the kernel takes it for a hint.
    pub(super) header_len: u16,
    /// Bytes of payload in each packet but the last.
    pub(super) piece: u16,
    /// Where the transport header begins.
    pub(super) start: u16,
    /// Where in the transport header the checksum stands.
    pub(super) offset: u16,
}

impl Offload {
    /// As the kernel has written it.
    pub(super) fn decode(bytes: &[u8; LEN]) -> Self {
        let [flags, kind, rest @ ..] = *bytes;
        let field = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
        let kind = match kind & !WITH_ECN {
            0 => Kind::Single,
            1 => Kind::Tcp4,
            4 => Kind::Tcp6,
            5 => Kind::Udp,
            _ => Kind::Unknown,
        };
        let needs_checksum = flags & NEEDS_CHECKSUM != 0;
        let (header_len, piece, start, offset) = (field(0), field(2), field(4), field(6));
        Self { needs_checksum, kind, header_len, piece, start, offset }
    }

    /// As the kernel reads it.
    pub(super) fn encode(self) -> [u8; LEN] {
        let kind = match self.kind {
            Kind::Single | Kind::Unknown => 0,
            Kind::Tcp4 => 1,
            Kind::Tcp6 => 4,
            Kind::Udp => 5,
        };
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [p0, p1] = self.piece.to_ne_bytes();
        let [s0, s1] = self.start.to_ne_bytes();
        let [o0, o1] = self.offset.to_ne_bytes();
        [u8::from(self.needs_checksum), kind, h0, h1, p0, p1, s0, s1, o0, o1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_the_kernel() {
        for kind in [Kind::Single, Kind::Tcp4, Kind::Tcp6, Kind::Udp] {
            let header =
                Offload { needs_checksum: true, kind, header_len: 52, piece: 1348, start: 20, offset: 16 };
            let mut bytes = header.encode();
            assert_eq!(Offload::decode(&bytes), header);
            bytes[1] |= WITH_ECN;
            assert_eq!(Offload::decode(&bytes).kind, kind);
        }
        assert_eq!(Offload::decode(&[3; LEN]).kind, Kind::Unknown);
    }
}
