use super::super::tests::queued;
use super::*;
use crate::egress::{ClassConfig, EgressQueue};
use psmc_wire::BufPool;
use std::time::Instant;

/// The option that tells of blocks of segments.
fn sack(blocks: &[[u32; 2]]) -> Vec<u8> {
    let length = u8::try_from(2 + 8 * blocks.len()).unwrap();
    let numbers = blocks.iter().flatten().flat_map(|number| number.to_be_bytes());
    [1, 1, 5, length].into_iter().chain(numbers).collect()
}

/// The timestamp option, in the place where all systems have it.
fn timestamps(sent_at: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &sent_at.to_be_bytes(), &[0; 4]].concat()
}

/// A segment of a connection between two hosts.
#[derive(Clone)]
struct Segment {
    is_v4: bool,
    traffic_class: u8,
    from_port: u16,
    acknowledges: u32,
    flags: u16,
    options: Vec<u8>,
    data: usize,
}

const PLAIN: Segment = Segment {
    is_v4: true,
    traffic_class: 0,
    from_port: 443,
    acknowledges: 1000,
    flags: ACK,
    options: Vec::new(),
    data: 0,
};

impl Segment {
    fn queued(&self) -> Queued {
        let tcp_len = 20 + self.options.len();
        let mut tcp = vec![0; tcp_len + self.data];
        tcp[..2].copy_from_slice(&self.from_port.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.acknowledges.to_be_bytes());
        let words = u16::try_from(tcp_len / 4).unwrap();
        tcp[12..14].copy_from_slice(&(words << 12 | self.flags).to_be_bytes());
        tcp[20..tcp_len].copy_from_slice(&self.options);
        let len = u16::try_from(tcp.len()).unwrap();
        let ip = if self.is_v4 {
            let mut ip = vec![0x45, self.traffic_class, 0, 0, 0, 0, 0, 0, 64, 6];
            ip[2..4].copy_from_slice(&(len + 20).to_be_bytes());
            ip.resize(20, 7);
            ip
        } else {
            let mut ip = vec![0x60 | self.traffic_class >> 4, self.traffic_class << 4, 0, 0, 0, 0, 6, 64];
            ip[4..6].copy_from_slice(&len.to_be_bytes());
            ip.resize(40, 7);
            ip
        };
        let packet = [ip, tcp].concat();
        let mut queued = queued(1, 0, packet.len(), 1500, Instant::now());
        queued.packet.packet_mut().copy_from_slice(&packet);
        queued
    }
}

fn takes_place(newer: &Segment, older: &Segment) -> bool {
    supersedes(&newer.queued(), &older.queued())
}

#[test]
fn a_later_acknowledgement_says_all_that_an_earlier_one_does() {
    for is_v4 in [true, false] {
        let older = Segment { is_v4, ..PLAIN };
        let newer = Segment { acknowledges: 1001, ..older.clone() };
        assert!(takes_place(&newer, &older));
        assert!(!takes_place(&older, &newer), "it is the later one");
        let stamped = |segment: &Segment, at| Segment { options: timestamps(at), ..segment.clone() };
        assert!(takes_place(&stamped(&newer, 6), &stamped(&older, 5)));
        assert!(takes_place(&stamped(&newer, 2), &stamped(&older, u32::MAX)), "it goes round");
        let selective = Segment { options: sack(&[[9000, 9100]]), ..newer.clone() };
        assert!(takes_place(&selective, &older), "and tells of a gap");
    }
    let around = Segment { acknowledges: u32::MAX, ..PLAIN };
    assert!(takes_place(&Segment { acknowledges: 10, ..PLAIN }, &around), "numbers go round");
}

#[test]
fn a_later_one_that_tells_of_all_gaps_says_all_that_an_earlier_one_does() {
    let with = |acknowledges, blocks: &[[u32; 2]]| Segment { acknowledges, options: sack(blocks), ..PLAIN };
    let older = with(1000, &[[5000, 6000], [2000, 3000]]);
    for (newer, takes) in [
        (with(1000, &[[5000, 7000], [2000, 3000]]), true),
        (with(1000, &[[2000, 7000]]), true),
        (with(3000, &[[5000, 6000]]), true),
        (Segment { acknowledges: 6000, ..PLAIN }, true),
        (older.clone(), true),
        (with(1000, &[[5000, 7000]]), false),
        (with(2999, &[[5000, 6000]]), false),
        (with(1000, &[[5001, 7000], [2000, 3000]]), false),
        (Segment { acknowledges: 5999, ..PLAIN }, false),
        (with(999, &[[5000, 7000], [2000, 3000]]), false),
    ] {
        assert_eq!(takes_place(&newer, &older), takes, "{} {:?}", newer.acknowledges, newer.options);
    }
    let newer = with(8000, &[[9000, 9100]]);
    assert!(!takes_place(&newer, &with(1000, &[[500, 1000]])), "it had come before");
    assert!(!takes_place(&newer, &with(1000, &[[2100, 2200], [2000, 3000]])), "it had, behind a gap");
    assert!(takes_place(&with(1000, &[[5000, 6000]]), &PLAIN), "a gap has come");
}

#[test]
fn what_says_anything_else_stays() {
    let newer = Segment { acknowledges: 2000, ..PLAIN };
    for (what, older) in [
        ("the same once more", newer.clone()),
        ("a gap", Segment { options: sack(&[[9000, 9100]]), ..PLAIN }),
        ("an unknown option", Segment { options: vec![30, 4, 0, 0], ..PLAIN }),
        ("a clock that the other has not", Segment { options: timestamps(1), ..PLAIN }),
        ("data", Segment { data: 1, ..PLAIN }),
        ("another connection", Segment { from_port: 444, ..PLAIN }),
        ("another treatment", Segment { traffic_class: 0xB8, ..PLAIN }),
        ("its end", Segment { flags: ACK | 1, ..PLAIN }),
        ("a mark that was seen", Segment { flags: ACK | 0x40, ..PLAIN }),
        ("a window that was reduced", Segment { flags: ACK | 0x80, ..PLAIN }),
        ("a count of marks", Segment { flags: ACK | 0x100, ..PLAIN }),
        ("a reset", Segment { flags: 4, ..PLAIN }),
    ] {
        assert!(!takes_place(&newer, &older), "{what}");
        let is_first = Segment { acknowledges: 3000, ..older.clone() };
        if what != "a gap" && what != "the same once more" {
            assert!(!takes_place(&is_first, &newer), "{what}, after the plain one");
        }
    }
    let stamped = |at, acknowledges| Segment { options: timestamps(at), acknowledges, ..PLAIN };
    assert!(!takes_place(&stamped(5, 1001), &stamped(6, 1000)), "it was sent before");
}

#[test]
fn parts_copies_and_what_will_be_dropped_sooner_are_left_alone() {
    let (newer, older) = (Segment { acknowledges: 2000, ..PLAIN }.queued(), PLAIN.queued());
    let copy = Queued { role: Role::Copy { resent: false }, ..PLAIN.queued() };
    assert!(supersedes(&newer, &older) && !supersedes(&newer, &copy));
    let exposed = Queued { precedence: crate::condition::Precedence::Dp2, ..PLAIN.queued() };
    assert!(!supersedes(&newer, &exposed));
    let part = psmc_wire::frame::Part { total: 100, offset: 0 };
    assert!(!supersedes(&newer, &Queued { part: Some(part), ..PLAIN.queued() }));
}

#[test]
fn the_queue_has_one_acknowledgement_of_a_connection_and_all_of_its_data() {
    let (mut pool, now) = (BufPool::new(1500, usize::MAX), Instant::now());
    let mut queue = EgressQueue::new(&[ClassConfig::best_effort()], 1400);
    for number in 0..10 {
        queue.push(Segment { acknowledges: 1000 + number, ..PLAIN }.queued(), &mut pool);
    }
    queue.push(Segment { acknowledges: 1009, data: 100, ..PLAIN }.queued(), &mut pool);
    for number in 10..20 {
        queue.push(Segment { acknowledges: 1000 + number, ..PLAIN }.queued(), &mut pool);
    }
    let mut numbers = Vec::new();
    while queue.front(&mut pool, now).is_some() {
        let packet = queue.pop().unwrap();
        numbers.push(u32::from_be_bytes(*packet.packet.packet()[28..].first_chunk().unwrap()));
    }
    assert_eq!(numbers, [1009, 1009, 1019]);
    let status = queue.classes().next().unwrap();
    assert_eq!((status.queued_packets, status.queued_bytes, status.counters.superseded), (0, 0, 18));
    assert_eq!((queue.dropped(), queue.len()), (0, 0));
}
