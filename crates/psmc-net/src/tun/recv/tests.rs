//! What is cut, as other code would cut it.

#![expect(clippy::cast_possible_truncation, reason = "lengths of packets made up here are small")]

use proptest::prelude::*;
use psmc_wire::Checksum;
use tun_rs::{VirtioNetHdr, gso_split};

use super::*;

const TCP: u8 = 6;

/// A packet that stands for many, and how it is to be cut.
#[derive(Debug, Clone)]
struct Whole {
    bytes: Vec<u8>,
    offload: Offload,
    is_v6: bool,
}

prop_compose! {
    fn whole()(
        is_v6: bool, is_tcp: bool, words in 5usize..9, piece in 600u16..1300, flags: u8,
        header in prop::collection::vec(any::<u8>(), 40 + 60),
        payload in prop::collection::vec(any::<u8>(), 1301..20_000),
    ) -> Whole {
        let ip_len = if is_v6 { 40 } else { 20 };
        let transport_len = if is_tcp { words * 4 } else { 8 };
        let mut bytes = header[..ip_len + transport_len].to_vec();
        bytes.extend(payload);
        bytes[0] = if is_v6 { 0x60 } else { 0x45 };
        let protocol = if is_tcp { TCP } else { 17 };
        if is_v6 { bytes[6] = protocol } else { bytes[9] = protocol; bytes[6..8].copy_from_slice(&[0x40, 0]) }
        if is_tcp {
            bytes[ip_len + 12] = (words as u8) << 4;
            bytes[ip_len + 13] = flags;
        }
        let offload = Offload {
            needs_checksum: true,
            kind: if !is_tcp { Kind::Udp } else if is_v6 { Kind::Tcp6 } else { Kind::Tcp4 },
            header_len: (ip_len + transport_len) as u16,
            piece,
            start: ip_len as u16,
            offset: if is_tcp { 16 } else { 6 },
        };
        Whole { bytes, offload, is_v6 }
    }
}

impl Whole {
    /// As the library cuts it.
    fn expected(&self) -> Vec<Vec<u8>> {
        let header = VirtioNetHdr::decode(&self.offload.encode()).unwrap();
        let (mut cut, mut sizes) = (vec![vec![0; 2000]; 64], vec![0; 64]);
        let count = gso_split(&mut self.bytes.clone(), header, &mut cut, &mut sizes, 0, self.is_v6).unwrap();
        let mut cut: Vec<_> = cut.iter().zip(sizes).take(count).map(|(b, size)| b[..size].to_vec()).collect();
        // The library repeats CWR in every packet (RFC 3168, section 6.1.2: once), and spells a zero as such.
        let at = usize::from(self.offload.start);
        if self.offload.offset == 16 {
            let cwr = |packet: &mut Vec<u8>| packet[at + 13] &= !0x80;
            cut.iter_mut().skip(1).for_each(cwr);
        }
        cut
    }

    /// A reader that has read it, in pieces of `foreseen`, if that was foreseen.
    fn read(&self, foreseen: Option<Layout>, pool: &mut BufPool) -> Reader {
        let mut reader = Reader { foreseen, ..Reader::new() };
        let Some(Layout { header_len, piece }) = foreseen else {
            reader.whole[..self.bytes.len()].copy_from_slice(&self.bytes);
            return reader;
        };
        reader.header[..header_len].copy_from_slice(&self.bytes[..header_len]);
        for (part, bytes) in reader.parts.iter_mut().zip(self.bytes[header_len..].chunks(piece)) {
            *part = pool.take();
            part.storage_mut()[HEADROOM + header_len..][..bytes.len()].copy_from_slice(bytes);
        }
        reader
    }

    fn cut(&self, foreseen: Option<Layout>) -> (Vec<PacketBuf>, Option<Layout>) {
        let (mut pool, mut out) = (BufPool::new(1500, 256), Vec::new());
        let mut reader = self.read(foreseen, &mut pool);
        reader.cut(&self.offload, self.bytes.len(), &mut pool, &mut out);
        (out, reader.foreseen)
    }
}

/// The packets with their checksums completed, and with TCP's left out: there a flag may differ.
fn completed(packets: &mut [PacketBuf]) -> Vec<Vec<u8>> {
    let complete = |packet: &mut PacketBuf| {
        assert_eq!(packet.checksum(), Checksum::Partial);
        packet.complete_checksum();
        packet.packet().to_vec()
    };
    packets.iter_mut().map(complete).collect()
}

fn without_tcp_checksum(mut packets: Vec<Vec<u8>>, offload: &Offload) -> Vec<Vec<u8>> {
    if offload.offset == 16 {
        let at = usize::from(offload.start) + 16;
        packets.iter_mut().for_each(|packet| packet[at..at + 2].fill(0));
    }
    packets
}

proptest! {
    #[test]
    fn packets_are_those_that_the_library_cuts(whole in whole(), other in 512usize..1300) {
        let expected = without_tcp_checksum(whole.expected(), &whole.offload);
        let (mut packets, layout) = whole.cut(None);
        prop_assert!(layout.is_some());
        prop_assert_eq!(&without_tcp_checksum(completed(&mut packets), &whole.offload), &expected);
        // In the pieces that were foreseen, and in others.
        let (mut packets, again) = whole.cut(layout);
        prop_assert_eq!(again, layout);
        prop_assert_eq!(&without_tcp_checksum(completed(&mut packets), &whole.offload), &expected);
        for packet in &packets {
            let (_, segment) = crate::tun::header::parse(packet.packet()).expect("well-formed");
            prop_assert!(segment.is_none_or(|segment| segment.is_intact(packet.packet())));
        }
        let (mut packets, _) = whole.cut(Some(Layout { header_len: 60, piece: other }));
        prop_assert_eq!(&without_tcp_checksum(completed(&mut packets), &whole.offload), &expected);
    }

    #[test]
    fn a_packet_alone_stays_as_it_is(
        bytes in prop::collection::vec(any::<u8>(), 1..1400), header_len in 28usize..120, piece in 512usize..1300,
    ) {
        let whole = Whole { bytes, offload: Offload::default(), is_v6: false };
        for foreseen in [None, Some(Layout { header_len: header_len.min(whole.bytes.len()), piece })] {
            let (mut pool, mut out) = (BufPool::new(1500, 256), Vec::new());
            let mut reader = whole.read(foreseen, &mut pool);
            reader.take_single(&whole.offload, whole.bytes.len(), &mut pool, &mut out);
            prop_assert_eq!(out[0].packet(), &whole.bytes);
            prop_assert_eq!(out[0].checksum(), Checksum::Complete);
        }
    }
}

#[test]
fn nonsense_is_skipped() {
    let mut pool = BufPool::new(1500, 256);
    let nonsense = [
        (Kind::Tcp4, 20, 30),
        (Kind::Tcp4, 0, 100),
        (Kind::Tcp4, 300, 2000),
        (Kind::Unknown, 20, 100),
        (Kind::Udp, 90, 90),
    ];
    // A TCP header that says to be shorter than its fixed part.
    for words in 0..5 {
        let offload = Offload { kind: Kind::Tcp4, start: 20, piece: 600, ..Offload::default() };
        let (mut reader, mut out) = (Reader::new(), Vec::new());
        reader.whole[0] = 0x45;
        reader.whole[32] = words << 4;
        reader.cut(&offload, 2000, &mut pool, &mut out);
        assert!(out.is_empty(), "{words} words");
    }
    for (kind, start, len) in nonsense {
        let offload = Offload { kind, start, piece: 10, ..Offload::default() };
        let mut reader = Reader::new();
        let mut out = Vec::new();
        reader.cut(&offload, len, &mut pool, &mut out);
        assert!(out.is_empty(), "{kind:?} {start} {len}");
    }
}
