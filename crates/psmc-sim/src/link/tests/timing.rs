//! When packets leave and arrive.

use super::*;

#[test]
fn a_packet_takes_its_length_by_the_rate_and_the_delay() {
    let mut rig = Rig::new(LinkConfig::new(10 * MBIT, millis(20)));
    rig.enter(1250, millis(3));
    assert_eq!(rig.timeout(), Some(millis(24)));
    assert_eq!(rig.arrivals(micros(23_999)), []);
    assert_eq!(rig.arrivals(millis(24)), [(0, millis(24))]);
    assert_eq!(rig.timeout(), None);
}

#[test]
fn transmissions_follow_each_other_however_late_the_driver_is() {
    let mut rig = Rig::new(LinkConfig::new(10 * MBIT, millis(20)));
    for _ in 0..3 {
        rig.enter(1250, millis(0));
    }
    rig.enter(1250, micros(3_500));
    let expected = [(0, millis(21)), (1, millis(22)), (2, millis(23)), (3, micros(24_500))];
    assert_eq!(rig.arrivals(END), expected);
}

#[test]
fn a_wire_without_limit_delivers_at_once() {
    let mut rig = Rig::new(LinkConfig::default());
    rig.enter(9000, millis(1));
    rig.enter(9000, millis(1));
    assert_eq!(rig.timeout(), Some(millis(1)));
    assert_eq!(rig.arrivals(millis(1)), [(0, millis(1)), (1, millis(1))]);
}

#[test]
fn the_rate_is_exact_over_a_million_packets() {
    let rate = 7 * MBIT + 3;
    let mut rig = Rig::new(LinkConfig::new(rate, millis(0)).with_queue(QueueLimit::Packets(1)));
    rig.enter(1499, millis(0));
    let mut last = Duration::ZERO;
    for _ in 1..1_000_000 {
        rig.enter(1499, last);
        last = rig.timeout().unwrap();
        assert_eq!(rig.arrivals(last).len(), 1);
    }
    let nanos = 999_999 * 1499 * 8 * 1_000_000_000 / u128::from(rate);
    assert_eq!(last.as_nanos(), nanos);
}

#[test]
fn a_new_rate_holds_for_what_is_left_of_the_present_packet() {
    let slow = LinkConfig::new(MBIT, millis(0));
    let mut rig = Rig::new(slow);
    rig.enter(1250, millis(0));
    rig.enter(1250, millis(0));
    rig.reconfigure(LinkConfig::new(10 * MBIT, millis(0)), millis(4));
    assert_eq!(rig.arrivals(END), [(0, micros(4_600)), (1, micros(5_600))]);
}

#[test]
fn packets_on_the_wire_keep_their_arrival_and_are_not_overtaken() {
    let mut rig = Rig::new(LinkConfig::new(10 * MBIT, millis(100)));
    rig.enter(1250, millis(0));
    rig.reconfigure(LinkConfig::new(10 * MBIT, millis(10)), millis(50));
    rig.enter(1250, millis(60));
    rig.enter(1250, millis(95));
    assert_eq!(rig.arrivals(END), [(0, millis(101)), (1, millis(101)), (2, millis(106))]);
}

#[test]
fn a_black_hole_swallows_what_is_inside_and_what_comes() {
    let config = LinkConfig::new(10 * MBIT, millis(10));
    let mut rig = Rig::new(config.clone());
    for _ in 0..5 {
        rig.enter(1250, millis(0));
    }
    rig.reconfigure(config.clone().black_holed(), micros(2_500));
    rig.enter(1250, millis(3));
    assert_eq!(rig.timeout(), None);
    let mut dropped = rig.dropped();
    dropped.sort_unstable();
    assert_eq!(dropped, (0..6).map(|packet| (packet, DropReason::BlackHole)).collect::<Vec<_>>());
    // What has vanished holds nothing up.
    rig.reconfigure(LinkConfig { delay: millis(1), ..config }, millis(4));
    rig.enter(1250, millis(4));
    assert_eq!(rig.arrivals(END), [(6, millis(6))]);
}

#[test]
fn what_is_too_long_does_not_enter() {
    let mut rig = Rig::new(LinkConfig { mtu: Some(1400), ..LinkConfig::default() });
    rig.enter(1400, millis(0));
    rig.enter(1401, millis(0));
    assert_eq!(rig.dropped(), [(1, DropReason::TooLong)]);
    assert_eq!(rig.arrivals(END), [(0, millis(0))]);
}
