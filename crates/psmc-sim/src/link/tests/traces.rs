//! Rates that follow a trace.

use super::*;

fn with(trace: &str) -> LinkConfig {
    LinkConfig { rate: Rate::Trace(Arc::new(Trace::parse(trace).unwrap())), ..LinkConfig::default() }
}

/// When packets of these lengths arrive, in milliseconds, which all enter at the start.
fn arrivals(trace: &str, lens: &[usize]) -> Vec<u128> {
    let mut rig = Rig::new(with(trace));
    lens.iter().for_each(|&len| rig.enter(len, millis(0)));
    rig.arrivals(END).into_iter().map(|(_, at)| at.as_millis()).collect()
}

#[test]
fn a_full_packet_takes_an_opportunity_and_the_trace_repeats() {
    assert_eq!(arrivals("2\n3\n10", &[1500; 7]), [2, 3, 10, 12, 13, 20, 22]);
}

#[test]
fn opportunities_can_be_at_the_same_time() {
    assert_eq!(arrivals("5\n5\n8", &[1500; 4]), [5, 5, 8, 13]);
}

#[test]
fn the_end_of_a_period_is_the_beginning_of_the_next() {
    assert_eq!(arrivals("0\n4", &[1500; 5]), [0, 4, 4, 8, 8]);
}

#[test]
fn what_a_packet_leaves_serves_the_next() {
    assert_eq!(arrivals("1\n2\n3", &[500, 500, 500, 1500]), [1, 1, 1, 2]);
    assert_eq!(arrivals("1\n2\n3", &[1000, 1000, 1000, 1500]), [1, 2, 2, 3]);
}

#[test]
fn a_long_packet_takes_several_opportunities() {
    assert_eq!(arrivals("1\n2\n3", &[4000, 500, 100]), [3, 3, 4]);
}

#[test]
fn what_nobody_was_there_for_is_lost() {
    let mut rig = Rig::new(with("10\n20"));
    rig.enter(700, millis(0));
    rig.enter(700, micros(10_001));
    rig.enter(1500, millis(45));
    assert_eq!(rig.arrivals(END), [(0, millis(10)), (1, millis(20)), (2, millis(50))]);
}

#[test]
fn a_packet_that_enters_at_an_opportunity_takes_it() {
    let mut rig = Rig::new(with("10"));
    rig.enter(1500, millis(10));
    rig.enter(1500, millis(10));
    assert_eq!(rig.arrivals(END), [(0, millis(10)), (1, millis(20))]);
}

#[test]
fn the_bytes_of_a_trace_get_through_exactly() {
    let mut rig = Rig::new(with("1\n1\n7").with_queue(QueueLimit::Packets(usize::MAX)));
    (0..120_000).for_each(|_| rig.enter(1250, millis(0)));
    // These are the bytes of 100,000 opportunities: 33,333 periods, and one more.
    assert_eq!(rig.arrivals(END).last(), Some(&(119_999, millis(33_333 * 7 + 1))));
}

#[test]
fn another_rate_takes_over_what_is_left() {
    let mut rig = Rig::new(with("1\n2\n3\n4"));
    rig.enter(5000, millis(0));
    // Two opportunities have taken 3000 bytes.
    rig.reconfigure(LinkConfig::new(16 * MBIT, millis(0)), micros(2_500));
    assert_eq!(rig.arrivals(END), [(0, micros(3_500))]);
}

#[test]
fn a_trace_goes_on_when_something_else_changes_and_begins_anew_if_it_is_another() {
    let mut rig = Rig::new(with("10\n100"));
    rig.reconfigure(LinkConfig { delay: millis(1), ..with("10\n100") }, millis(50));
    rig.enter(1500, millis(50));
    assert_eq!(rig.arrivals(millis(101)), [(0, millis(101))]);
    rig.reconfigure(with("20\n100"), millis(150));
    rig.enter(1500, millis(150));
    assert_eq!(rig.arrivals(END), [(1, millis(170))]);
}
