//! One test for each rule, in small numbers.

use super::*;

/// What is delivered when the unordered packet `number` of bucket 0 arrives; what it overtook has 10 ms.
fn arrive_unordered(receiver: &mut Receiver, number: u64, now_us: u64) -> Vec<u64> {
    receiver.insert(ModelArrival { ordered: false, ..ordered(number, now_us) }, number, now_us)
}

#[test]
fn a_gap_is_waited_for_and_filled() {
    let mut receiver = Receiver::ordered();
    assert_eq!(receiver.arrive(0, 0), [0]);
    assert_eq!(receiver.arrive(2, 10), []);
    assert_eq!(receiver.arrive(4, 20), []);
    assert_eq!(receiver.arrive(1, 30), [1, 2]);
    assert_eq!(receiver.arrive(3, 40), [3, 4]);
    assert_eq!(receiver.reorder.next_timeout(), None);
}

#[test]
fn a_deadline_gives_up_the_gaps_before_its_packet_alone() {
    let mut receiver = Receiver::ordered();
    assert_eq!(receiver.arrive(2, 0), []);
    assert_eq!(receiver.arrive(3, 5), []);
    assert_eq!(receiver.arrive(5, 10), []);
    assert_eq!(receiver.reorder.next_timeout(), Some(receiver.at(10_000)));
    assert_eq!(receiver.handle_timeout(9_999), []);
    assert_eq!(receiver.handle_timeout(10_000), [2, 3]);
    assert_eq!(receiver.reorder.next_timeout(), Some(receiver.at(10_010)));
    assert_eq!(receiver.handle_timeout(10_010), [5]);
    let counters = receiver.reorder.counters();
    assert_eq!((counters.skipped, counters.released_by_deadline), (3, 2));
}

#[test]
fn a_packet_of_the_slowest_path_is_not_held_and_takes_those_before_it_along() {
    let mut receiver = Receiver::ordered();
    assert_eq!(receiver.arrive(1, 0), []);
    assert_eq!(receiver.arrive(5, 0), []);
    let slowest = ModelArrival { spread_us: 0, ..ordered(3, 0) };
    assert_eq!(receiver.insert(slowest, 3, 100), [1, 3]);
    assert_eq!(receiver.arrive(4, 200), [4, 5]);
}

#[test]
fn a_late_packet_is_delivered_once() {
    let mut receiver = Receiver::ordered();
    receiver.arrive(1, 0);
    assert_eq!(receiver.handle_timeout(10_000), [1]);
    assert_eq!(receiver.arrive(0, 11_000), [0]);
    assert_eq!(receiver.arrive(0, 12_000), []);
    assert_eq!(receiver.arrive(1, 12_000), []);
    let counters = receiver.reorder.counters();
    assert_eq!((counters.late, counters.duplicates, counters.delivered), (1, 2, 2));
}

#[test]
fn a_duplicate_of_a_held_packet_is_dropped() {
    let mut receiver = Receiver::ordered();
    assert_eq!(receiver.arrive(1, 0), []);
    assert_eq!(receiver.arrive(1, 1), []);
    assert_eq!(receiver.arrive(0, 2), [0, 1]);
    assert_eq!(receiver.reorder.counters().duplicates, 1);
}

#[test]
fn buckets_do_not_wait_for_each_other() {
    let mut receiver = Receiver::ordered();
    assert_eq!(receiver.arrive(1, 0), []);
    let other = ModelArrival { bucket: 4095, ..ordered(0, 0) };
    assert_eq!(receiver.insert(other, 77, 0), [77]);
}

#[test]
fn unordered_packets_wait_for_nothing_and_nothing_waits_for_them() {
    let mut receiver = Receiver::ordered();
    assert_eq!(arrive_unordered(&mut receiver, 1, 0), [1]);
    assert_eq!(arrive_unordered(&mut receiver, 1, 0), []);
    assert_eq!(receiver.arrive(2, 0), []);
    assert_eq!(arrive_unordered(&mut receiver, 3, 0), [3]);
    assert_eq!(receiver.arrive(0, 0), [0, 2]);
    assert_eq!(receiver.arrive(4, 0), [4]);
}

#[test]
fn an_ordered_packet_does_not_wait_for_an_unordered_one_lost_long_ago() {
    let mut receiver = Receiver::ordered();
    assert_eq!(arrive_unordered(&mut receiver, 1, 0), [1]);
    assert_eq!(receiver.reorder.next_timeout(), None);
    assert_eq!(receiver.arrive(2, 10_000), [2]);
    assert_eq!(receiver.reorder.counters().skipped, 1);
}

#[test]
fn off_holds_nothing_but_drops_duplicates() {
    let mut receiver = Receiver::new(ReorderPolicy::Off, ReorderLimits::default());
    for number in [5, 3, 0, 1] {
        assert_eq!(receiver.arrive(number, 0), [number]);
        assert_eq!(receiver.arrive(number, 0), []);
    }
    assert_eq!(receiver.reorder.counters().held, 0);
}

#[test]
fn what_is_sent_again_is_waited_for_whatever_other_flows_need() {
    let mut receiver = Receiver::ordered();
    let patient = ModelArrival { patience_us: 30, ..ordered(1, 0) };
    assert_eq!(receiver.insert(patient, 1, 0), []);
    assert_eq!(receiver.insert(ModelArrival { bucket: 1, ..ordered(1, 10) }, 2, 10), []);
    assert_eq!(receiver.release_before(11), [2]);
    assert_eq!(receiver.release_before(30), []);
    assert_eq!(receiver.release_before(31), [1]);
}

#[test]
fn what_was_sent_before_the_horizon_waits_for_nothing() {
    // The sender's clock changes its sign, or wraps, between the two.
    for turn in [1 << 31, 1 << 32] {
        let mut receiver = Receiver::ordered();
        assert_eq!(receiver.insert(ordered(1, turn - 5), 1, 0), []);
        assert_eq!(receiver.insert(ordered(3, turn + 5), 3, 0), []);
        assert_eq!(receiver.release_before(turn - 5), []);
        assert_eq!(receiver.release_before(turn + 5), [1]);
        assert_eq!(receiver.release_before(turn + 6), [3]);
        assert_eq!(receiver.release_before(turn + 7), []);
        assert_eq!(receiver.reorder.counters().released_by_horizon, 2);
    }
}

#[test]
fn a_packet_too_far_ahead_flushes_the_bucket() {
    let mut receiver = Receiver::ordered();
    assert_eq!(receiver.arrive(1, 0), []);
    assert_eq!(receiver.arrive(4095, 0), []);
    assert_eq!(receiver.arrive(4096, 0), [1, 4095, 4096]);
    assert_eq!(receiver.arrive(0x7FFF_FFFF, 0), [0x7FFF_FFFF]);
    assert_eq!(receiver.arrive(0x8000_0000, 0), [0x8000_0000]);
    let counters = receiver.reorder.counters();
    assert_eq!((counters.jumps, counters.skipped), (2, 4094 + 0x7FFF_FFFF - 4097));
}

#[test]
fn at_the_limit_the_oldest_gap_is_given_up() {
    let mut receiver =
        Receiver::new(ReorderPolicy::Deadline, ReorderLimits { held_packets: 2, held_bytes: 1 << 20 });
    let other = ModelArrival { bucket: 1, ..ordered(1, 0) };
    assert_eq!(receiver.insert(other, 71, 0), []);
    assert_eq!(receiver.arrive(1, 1), []);
    assert_eq!(receiver.arrive(2, 2), [71]);
    assert_eq!(receiver.arrive(4, 3), [1, 2]);
    assert_eq!(receiver.reorder.counters().released_by_limit, 2);
}

#[test]
fn buffers_are_counted_at_their_size() {
    let limits = ReorderLimits { held_packets: 100, held_bytes: 3 * 64 };
    let mut receiver = Receiver::new(ReorderPolicy::Deadline, limits);
    for number in 1..4 {
        assert_eq!(receiver.arrive(number, 0), []);
    }
    assert_eq!(receiver.reorder.counters().held_bytes, 3 * 64);
    assert_eq!(receiver.arrive(5, 0), [1, 2, 3, 5]);
}

#[test]
fn packets_far_ahead_in_every_bucket_do_not_exhaust_the_memory() {
    let mut receiver = Receiver::ordered();
    let mut delivered = 0;
    for bucket in 0..BUCKETS {
        delivered += receiver.insert(ModelArrival { bucket, ..ordered(4095, 0) }, 0, 0).len();
        assert!(receiver.reorder.slots <= MAX_SLOTS);
    }
    assert_eq!(receiver.reorder.counters().held, 16);
    assert_eq!(delivered, usize::from(BUCKETS) - 16);
}

#[test]
fn no_spread_holds_a_packet_for_more_than_a_second() {
    let mut receiver = Receiver::ordered();
    let arrival = ModelArrival { spread_us: u64::MAX, ..ordered(1, 0) };
    assert_eq!(receiver.insert(arrival, 1, 0), []);
    assert_eq!(receiver.reorder.next_timeout(), Some(receiver.at(1_000_000)));
}

#[test]
fn the_senders_clock_may_go_round_many_times() {
    let mut receiver = Receiver::ordered();
    let mut sent = 0;
    for number in (0..40).step_by(2) {
        sent += 0x7000_0000;
        assert_eq!(receiver.insert(ordered(number + 1, sent), number + 1, 0), []);
        assert_eq!(receiver.release_before(sent), []);
        assert_eq!(receiver.release_before(sent + 1), [number + 1]);
    }
}

#[test]
fn an_idle_session_is_small() {
    let reorder = Reorder::new(ReorderPolicy::Deadline, ReorderLimits::default());
    assert_eq!(reorder.sequences.capacity(), 0);
    assert!(size_of::<Reorder>() <= 384, "{}", size_of::<Reorder>());
    assert!(size_of::<Sequence>() <= 768, "{}", size_of::<Sequence>());
}
