//! What is joined, and that the kernel's way of cutting it gives back what was joined.

#![expect(clippy::cast_possible_truncation, reason = "lengths and bytes of packets made up here are small")]

use psmc_wire::buf::PacketBuf;
use tun_rs::{VirtioNetHdr, gso_split};

use super::*;
use shape::{FIN, MSS, PUSH, Shape, TCP, UDP};

mod shape;

/// Groups the packets; each group is the list of its members.
fn groups_of(packets: &[PacketBuf], joins_udp: bool) -> Vec<Vec<usize>> {
    let mut coalescer = Coalescer::new(joins_udp);
    coalescer.group(packets);
    coalescer.groups().iter().map(|group| coalescer.members(group).collect()).collect()
}

fn groups(shapes: &[Shape]) -> Vec<Vec<usize>> {
    groups_of(&shapes.iter().map(|shape| shape.build()).collect::<Vec<_>>(), true)
}

/// Joins the packets, which must make one group, and has them cut as the kernel would.
fn join_and_cut(packets: &[PacketBuf]) -> Vec<Vec<u8>> {
    let mut coalescer = Coalescer::new(true);
    coalescer.group(packets);
    let [group] = coalescer.groups() else { panic!("more than one group") };
    let segment = group.segment.unwrap();
    let mut whole = packets[0].packet().to_vec();
    for packet in &packets[1..] {
        whole.extend(&packet.packet()[segment.header_len..]);
    }
    segment.make_head(&mut whole, group.total_len, group.push);
    let header = VirtioNetHdr {
        flags: 1,
        gso_type: if segment.transport == Transport::Udp {
            5
        } else if segment.is_v6 {
            4
        } else {
            1
        },
        hdr_len: segment.header_len as u16,
        gso_size: segment.payload_len as u16,
        csum_start: segment.ip_len() as u16,
        csum_offset: segment.checksum_offset() as u16,
    };
    let (mut cut, mut sizes) = (vec![vec![0; 2000]; packets.len()], vec![0; packets.len()]);
    let count = gso_split(&mut whole, header, &mut cut, &mut sizes, 0, segment.is_v6).unwrap();
    assert_eq!(count, packets.len());
    cut.iter().zip(sizes).map(|(bytes, size)| bytes[..size].to_vec()).collect()
}

#[test]
fn what_is_joined_is_cut_into_the_same_packets() {
    for base in [TCP, UDP] {
        for is_v6 in [false, true] {
            let shape = |nth: u32| Shape { is_v6, identification: nth as u8, ..base }.at(nth);
            let last = Shape { payload: 321, flags: PUSH, ..shape(3) };
            let packets = [shape(0), shape(1), shape(2), last].map(Shape::build);
            let expected: Vec<_> = packets.iter().map(|packet| packet.packet().to_vec()).collect();
            assert_eq!(join_and_cut(&packets), expected);
        }
    }
}

#[test]
fn a_group_goes_on_in_the_next_batch() {
    let other = Shape { port: 2, ..TCP };
    let mut packets: Vec<_> = [other, TCP, TCP.at(1), TCP.at(2), TCP.at(3)].map(Shape::build).into();
    let rest = packets.split_off(3);
    let mut coalescer = Coalescer::new(true);
    coalescer.group(&packets);
    assert_eq!(coalescer.open().map(|group| group.count), Some(2));
    coalescer.end_batch(true);
    let mut next: Vec<_> = packets.drain(1..).chain(rest).collect();
    coalescer.group(&next);
    let groups: Vec<Vec<usize>> =
        coalescer.groups().iter().map(|group| coalescer.members(group).collect()).collect();
    assert_eq!(groups, [vec![0, 1, 2, 3]]);
    coalescer.end_batch(false);
    next.truncate(1);
    coalescer.group(&next);
    assert_eq!(coalescer.groups().len(), 1);
}

#[test]
fn what_nothing_can_join_is_not_kept() {
    let pushed = Shape { flags: PUSH, ..TCP.at(1) };
    let shorter = Shape { payload: 100, ..TCP.at(1) };
    for last in [pushed, shorter] {
        let mut coalescer = Coalescer::new(true);
        coalescer.group(&[TCP, last].map(Shape::build));
        assert_eq!(coalescer.groups().len(), 1);
        assert!(coalescer.open().is_none());
    }
}

#[test]
fn flows_are_joined_though_they_interleave() {
    let other = Shape { port: 2, ..TCP };
    let shapes = [TCP, other, TCP.at(1), UDP, other.at(1), UDP, TCP.at(2)];
    assert_eq!(groups(&shapes), [vec![0, 2, 6], vec![1, 4], vec![3, 5]]);
}

#[test]
fn a_flow_keeps_its_order_around_what_cannot_be_joined() {
    let no_data = Shape { payload: 0, ..TCP.at(1) };
    assert_eq!(groups(&[TCP, no_data, TCP.at(1), TCP.at(2)]), [vec![0], vec![1], vec![2, 3]]);
    let last = Shape { flags: FIN, ..TCP.at(1) };
    assert_eq!(groups(&[TCP, last, TCP.at(2)]), [vec![0], vec![1], vec![2]]);
}

#[test]
fn only_neighbours_in_the_sequence_are_joined() {
    assert_eq!(groups(&[TCP, TCP.at(2), TCP.at(1)]), [[0], [1], [2]]);
    assert_eq!(groups(&[TCP, TCP]), [[0], [1]]);
    let wrapping = Shape { sequence: u32::MAX - MSS as u32 + 1, ..TCP };
    assert_eq!(groups(&[wrapping, Shape { sequence: 0, ..TCP }]), [[0, 1]]);
}

#[test]
fn nothing_follows_a_short_or_pushed_segment() {
    let short = Shape { payload: MSS - 1, ..TCP.at(1) };
    let next = Shape { sequence: short.sequence + MSS as u32 - 1, ..TCP };
    assert_eq!(groups(&[TCP, short, next]), [vec![0, 1], vec![2]]);
    let pushed = Shape { flags: PUSH, ..TCP.at(1) };
    assert_eq!(groups(&[TCP, pushed, TCP.at(2)]), [vec![0, 1], vec![2]]);
    let short_first = Shape { payload: 500, ..UDP };
    assert_eq!(groups(&[short_first, UDP]), [[0], [1]]);
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut packets = [TCP, TCP.at(1), TCP.at(2), TCP.at(3)].map(Shape::build);
    packets[2].packet_mut()[100] ^= 1;
    assert_eq!(groups_of(&packets, true), [vec![0, 1], vec![2], vec![3]]);
}

#[test]
fn headers_that_differ_are_not_joined() {
    for at in [1, 8, 28 + 3, 34 + 1, 50] {
        let mut packets = [TCP, TCP.at(1)].map(Shape::build);
        packets[1].packet_mut()[at] ^= 4;
        assert_eq!(groups_of(&packets, true), [[0], [1]], "byte {at}");
    }
}

#[test]
fn without_df_the_identifications_must_count_up() {
    let shape = |nth: u32, identification| Shape { dont_fragment: false, identification, ..TCP.at(nth) };
    assert_eq!(groups(&[shape(0, 7), shape(1, 8), shape(2, 9)]), [[0, 1, 2]]);
    assert_eq!(groups(&[shape(0, 7), shape(1, 7)]), [[0], [1]]);
}

#[test]
fn a_group_is_bounded() {
    let many: Vec<Shape> = (0..150).map(|nth| Shape { payload: 10, ..UDP.at(nth) }).collect();
    assert_eq!(groups(&many).iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 22]);
    let large: Vec<Shape> = (0..10).map(|_| Shape { payload: 9000, ..UDP }).collect();
    assert_eq!(groups(&large).iter().map(Vec::len).collect::<Vec<_>>(), [7, 3]);
}

#[test]
fn udp_is_left_alone_where_the_kernel_cannot_cut_it() {
    let packets = [TCP, UDP, TCP.at(1), UDP].map(Shape::build);
    assert_eq!(groups_of(&packets, false), [vec![0, 2], vec![1], vec![3]]);
}

#[test]
fn no_bytes_upset_the_parser() {
    for base in [TCP, UDP, Shape { is_v6: true, ..TCP }, Shape { is_v6: true, ..UDP }] {
        let whole = Shape { payload: 3, ..base }.build();
        for len in 0..whole.len() {
            assert_eq!(parse(&whole.packet()[..len]), None, "{len} bytes");
        }
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut packet = whole.packet().to_vec();
                packet[at] = value;
                // The length is true to the bytes whenever there is a segment.
                let segment = parse(&packet).and_then(|(_, segment)| segment);
                assert!(segment.is_none_or(|it| it.header_len + it.payload_len == packet.len()));
            }
        }
    }
}
