//! Packets that a guard sees on their way to what it guards.

use psmc_guard::observe::packet::{Link, PacketHead};

/// A frame of Ethernet, or an IP packet.
pub fn head(bytes: &[u8]) {
    let bare = PacketHead::parse(Link::Ip, bytes);
    let framed = PacketHead::parse(Link::Ethernet, bytes);
    for head in [bare, framed].into_iter().flatten() {
        assert!(!head.is_syn || head.port.is_some(), "{head:?} opens a connection to no port");
    }
    // What stands before a packet changes nothing of it.
    let (version, tags) = (bytes.first().map(|byte| byte >> 4), [[0x88, 0xa8, 0, 1], [0x81, 0, 0, 2]]);
    let kind = if version == Some(6) { [0x86, 0xdd] } else { [0x08, 0x00] };
    let frame = [&[0; 12][..], tags.as_flattened(), &kind, bytes].concat();
    assert_eq!(PacketHead::parse(Link::Ethernet, &frame), bare);
}
