//! Whose turn it is.

use proptest::prelude::*;

use super::super::classes::MAX_PACKETS;
use super::*;

/// Bulk flows beside which a sparse one has to live.
const BULK: u16 = 100;

/// The bucket of a flow that is no bulk flow.
const SPARSE: u16 = 500;

/// Keeps some packets of a bulk flow waiting.
fn top_up(bench: &mut Bench, waiting: &mut [u32], len: impl Fn(u16) -> usize) {
    for (bucket, waiting) in (0..).zip(waiting) {
        while *waiting < 3 {
            bench.push(bucket, 0, len(bucket));
            *waiting += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn backlogged_flows_get_the_same_to_within_a_quantum_and_a_packet(
        lens in proptest::collection::vec(24usize..=1400, 2..12),
        served in 50usize..2000,
    ) {
        let mut bench = Bench::new(MTU);
        let mut waiting = vec![0; lens.len()];
        let mut bytes = vec![0usize; lens.len()];
        for _ in 0..served {
            top_up(&mut bench, &mut waiting, |bucket| lens[usize::from(bucket)]);
            let packet = bench.pop_packet().expect("they are backlogged");
            waiting[packet.bucket.index()] -= 1;
            bytes[packet.bucket.index()] += packet.packet.len();
            let spread = bytes.iter().max().expect("flows") - bytes.iter().min().expect("flows");
            prop_assert!(spread <= 2 * usize::from(MTU), "{bytes:?}");
        }
    }

    #[test]
    fn a_sparse_flow_waits_no_longer_than_a_round(pauses in proptest::collection::vec(1usize..400, 1..40)) {
        let mut bench = Bench::new(MTU);
        let mut waiting = vec![0; usize::from(BULK)];
        for pause in pauses {
            for _ in 0..pause {
                top_up(&mut bench, &mut waiting, |_| 1400);
                let (bucket, _) = bench.pop().expect("they are backlogged");
                waiting[usize::from(bucket)] -= 1;
            }
            bench.push(SPARSE, 0, 100);
            let mut before = 0;
            while let (bucket @ 0..BULK, _) = bench.pop().expect("it waits") {
                waiting[usize::from(bucket)] -= 1;
                before += 1;
                top_up(&mut bench, &mut waiting, |_| 1400);
            }
            // It has been forgotten as a flow after a round, and then it is new and goes first.
            let allowed = if pause > usize::from(BULK) { 0 } else { BULK };
            prop_assert!(before <= allowed, "{before} packets went before it after {pause}");
        }
    }
}

#[test]
fn a_flow_of_single_packets_does_not_starve_the_others() {
    let mut bench = Bench::new(MTU);
    (0..10).for_each(|number| bench.push(1, number, 1400));
    let mut served = [0, 0];
    for number in 0..8 {
        bench.push(2, number, 1400);
        let (bucket, _) = bench.pop().expect("a packet");
        served[usize::from(bucket) - 1] += 1;
    }
    assert_eq!(served, [4, 4]);
}

#[test]
fn a_full_queue_drops_from_the_flow_that_fills_it() {
    let mut bench = Bench::new(MTU);
    (0..50).for_each(|number| bench.push(SPARSE, number, 1400));
    (0..3 * MAX_PACKETS).for_each(|_| bench.push(1, 0, 1400));
    assert_eq!(bench.queue.len(), MAX_PACKETS);
    let sparse = std::iter::from_fn(|| bench.pop()).filter(|&(bucket, _)| bucket == SPARSE);
    assert_eq!(sparse.count(), 50);
}

#[test]
fn a_full_queue_of_equals_drops_from_all_of_them() {
    let mut bench = Bench::new(MTU);
    for _ in 0..MAX_PACKETS {
        (0..4).for_each(|bucket| bench.push(bucket, 0, 1400));
    }
    let mut waiting = [0usize; 4];
    std::iter::from_fn(|| bench.pop()).for_each(|(bucket, _)| waiting[usize::from(bucket)] += 1);
    let fair = MAX_PACKETS / 4;
    assert!(waiting.iter().all(|&waiting| (fair / 2..=2 * fair).contains(&waiting)), "{waiting:?}");
}
