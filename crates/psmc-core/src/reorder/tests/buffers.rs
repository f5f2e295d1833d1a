//! The policies that hold packets in a buffer of some size.

use super::*;

fn fixed(ms: u64, packets: u16) -> Receiver {
    let policy = ReorderPolicy::Fixed { timeout: Duration::from_millis(ms), packets };
    Receiver::new(policy, ReorderLimits::default())
}

fn adaptive(least: u16, most: u16) -> Receiver {
    let policy =
        ReorderPolicy::Adaptive(AdaptiveBuffer { factor: 2, least, most, ..AdaptiveBuffer::default() });
    Receiver::new(policy, ReorderLimits::default())
}

#[test]
fn a_full_buffer_of_fixed_size_delivers_three_packets() {
    let mut receiver = fixed(100, 5);
    for number in [2, 4, 6, 9] {
        assert_eq!(receiver.arrive(number, 0), []);
    }
    assert_eq!(receiver.arrive(8, 0), [2, 4, 6]);
    assert_eq!(receiver.arrive(7, 0), [7, 8, 9]);
    let counters = receiver.reorder.counters();
    assert_eq!((counters.released_by_buffer, counters.skipped, counters.held), (1, 4, 0));
}

#[test]
fn what_follows_the_three_without_a_gap_is_delivered_with_them() {
    let mut receiver = fixed(100, 4);
    for number in [1, 2, 3] {
        assert_eq!(receiver.arrive(number, 0), []);
    }
    assert_eq!(receiver.arrive(4, 0), [1, 2, 3, 4]);
    assert_eq!(receiver.arrive(0, 0), [0]);
    assert_eq!(receiver.reorder.counters().late, 1);
}

#[test]
fn a_fixed_timeout_knows_no_spread_and_no_horizon() {
    let mut receiver = fixed(30, 100);
    let arrival = ModelArrival { spread_us: 0, ..ordered(1, 0) };
    assert_eq!(receiver.insert(arrival, 1, 0), []);
    assert_eq!(receiver.release_before(1_000_000), []);
    assert_eq!(receiver.handle_timeout(29_999), []);
    assert_eq!(receiver.handle_timeout(30_000), [1]);
}

#[test]
fn no_fixed_timeout_is_longer_than_a_second() {
    let mut receiver = fixed(60_000, 100);
    assert_eq!(receiver.arrive(1, 0), []);
    assert_eq!(receiver.reorder.next_timeout(), Some(receiver.at(1_000_000)));
}

#[test]
fn an_adaptive_buffer_grows_while_order_returns_and_shrinks_with_each_loss() {
    // Twice the lower limit of 2: the fourth packet fills it.
    let mut receiver = adaptive(2, 6);
    for number in [1, 2, 3] {
        assert_eq!(receiver.arrive(number, 0), []);
    }
    assert_eq!(receiver.arrive(4, 0), [1, 2, 3, 4]);
    // 3 now: the loss has shrunk it.
    assert_eq!(receiver.arrive(6, 0), []);
    assert_eq!(receiver.arrive(7, 0), []);
    assert_eq!(receiver.arrive(8, 0), [6, 7, 8]);
    // Many in order let it grow to 6, which is as much as is allowed.
    for number in 9..30 {
        assert_eq!(receiver.arrive(number, 0), [number]);
    }
    for number in 31..36 {
        assert_eq!(receiver.arrive(number, 0), []);
    }
    assert_eq!(receiver.arrive(36, 0), (31..37).collect::<Vec<_>>());
}

/// Two paths of 1000 packets a second, one 30 ms slower: formula 4.3 says 32, and twice that is never filled.
#[test]
fn once_measured_an_adaptive_buffer_holds_what_the_paths_differ_by() {
    let mut receiver = adaptive(2, 4);
    let mut arrivals: Vec<(u64, u64)> =
        (0..3_000).flat_map(|n| [(n * 1_000 + 10_000, 2 * n), (n * 1_000 + 40_000, 2 * n + 1)]).collect();
    arrivals.sort_unstable();
    let (mut pool, mut out) = (BufPool::new(64, 8), VecDeque::new());
    let (mut order, mut skipped) = (Vec::new(), [0, 0]);
    for (at_us, number) in arrivals {
        let now = receiver.at(at_us);
        if receiver.reorder.is_sample_due(now) {
            receiver.reorder.sample(2, Duration::from_millis(50), now);
        }
        let arrival = Arrival {
            bucket: Bucket::new(0).unwrap(),
            seq: seq(number),
            ordered: true,
            packet: packet_of(&number.to_be_bytes(), &mut pool),
            sent_at_us: 0,
            spread: Duration::ZERO,
            patience: Duration::ZERO,
            path: PathId(u16::from(number % 2 == 1)),
            delay_us: if number % 2 == 1 { 40_000 } else { 10_000 },
        };
        receiver.reorder.insert(arrival, now, &mut pool, &mut out);
        let settled = usize::from(at_us >= 2_000_000);
        skipped[settled] = receiver.reorder.counters().skipped;
        order.extend(drain(&mut out).into_iter().filter(|_| settled == 1));
    }
    assert!(skipped[0] > 0, "a buffer of 4 is too small for these paths");
    assert_eq!(skipped[1], skipped[0]);
    assert!(order.is_sorted() && order.len() > 1_900, "{}", order.len());
}

#[test]
fn a_packet_that_nothing_follows_waits_for_a_second_and_has_the_buffer_measured_anew() {
    let sampling = Duration::from_secs(10);
    let policy = AdaptiveBuffer { factor: 2, least: 3, most: 10, sampling };
    let mut receiver = Receiver::new(ReorderPolicy::Adaptive(policy), ReorderLimits::default());
    for number in [1, 2, 3, 4, 5, 6] {
        receiver.arrive(number, 0);
    }
    // The loss has made 5 of 6.
    assert_eq!(receiver.arrive(8, 1_000), []);
    assert_eq!(receiver.handle_timeout(1_000_999), []);
    assert_eq!(receiver.handle_timeout(1_001_000), [8]);
    for number in 10..15 {
        assert_eq!(receiver.arrive(number, 1_001_000), []);
    }
    assert_eq!(receiver.arrive(15, 1_001_000), (10..16).collect::<Vec<_>>());
}
