//! Nothing is lost without being counted, nothing changes places in its flow, and all bounds hold.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::classes::{MAX_BYTES, MAX_PACKETS};
use super::*;

#[derive(Clone, Debug)]
enum Op {
    Push {
        bucket: u16,
        len: usize,
        times: u16,
    },
    Pop {
        times: u16,
    },
    /// What was taken last comes back.
    PutBack {
        times: usize,
    },
    Pass {
        ms: u64,
    },
    DropStale,
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u16..6, 0usize..1400, 1u16..400).prop_map(|(bucket, len, times)| Op::Push { bucket, len, times }),
        6 => (1u16..300).prop_map(|times| Op::Pop { times }),
        2 => (1usize..20).prop_map(|times| Op::PutBack { times }),
        4 => (0u64..200).prop_map(|ms| Op::Pass { ms }),
        2 => Just(Op::DropStale),
        1 => Just(Op::Clear),
    ]
}

/// A bench, and the fate of all packets.
struct Ledger {
    bench: Bench,
    /// Of what size the buffers are.
    capacity: usize,
    pushed: usize,
    taken: Vec<Queued>,
    put_back: usize,
    cleared: usize,
    /// The last number of each bucket that was taken for the first time.
    last: BTreeMap<u16, u32>,
}

impl Ledger {
    fn new(mtu: u16) -> Self {
        Self {
            bench: Bench::new(mtu),
            capacity: usize::from(mtu),
            pushed: 0,
            taken: Vec::new(),
            put_back: 0,
            cleared: 0,
            last: BTreeMap::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        let Bench { queue, pool, now } = &mut self.bench;
        match *op {
            Op::Push { bucket, len, times } => {
                for _ in 0..times {
                    let number = u32::try_from(self.pushed).expect("few packets");
                    queue.push(queued(bucket, number, len, self.capacity, *now), pool);
                    self.pushed += 1;
                }
            }
            Op::Pop { times } => (0..times).for_each(|_| self.pop()),
            Op::PutBack { times } => {
                let back = self.taken.split_off(self.taken.len().saturating_sub(times));
                self.put_back += back.len();
                queue.put_back(back.into_iter());
            }
            Op::Pass { ms } => *now += Duration::from_millis(ms),
            Op::DropStale => {
                queue.drop_stale(*now, pool);
                assert!(queue.stale_at().is_none_or(|at| at > *now), "a timer that would spin");
            }
            Op::Clear => {
                self.cleared += queue.len();
                queue.clear(pool);
                self.put_back = 0;
                assert_eq!((queue.len(), queue.stale_at()), (0, None));
            }
        }
    }

    /// Takes a packet, and sees to it that those of a flow come in order.
    fn pop(&mut self) {
        let Some(mut packet) = self.bench.pop_packet() else {
            return assert_eq!(self.bench.queue.len(), 0, "nothing is withheld");
        };
        if packet.seq.is_some() {
            self.put_back -= 1;
        } else {
            let number = number_of(&packet);
            let last = self.last.insert(packet.bucket.number(), number);
            assert!(last.is_none_or(|last| last < number), "{number} came after {last:?}");
            packet.seq = Some(FlowSeq(number));
        }
        self.taken.push(packet);
    }

    fn check(&self) {
        let Bench { queue, pool, .. } = &self.bench;
        assert_eq!(self.pushed, self.taken.len() + pool.free() + queue.len(), "every packet is somewhere");
        let waiting = queue.classes.len();
        assert_eq!(self.bench.counters().dropped() + queue.dropped, queue.dropped());
        assert!(waiting <= MAX_PACKETS && waiting * self.capacity <= MAX_BYTES);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_is_taken_given_back_or_held(ops in proptest::collection::vec(op(), 1..60)) {
        let mut ledger = Ledger::new(MTU);
        for op in &ops {
            ledger.apply(op);
            ledger.check();
        }
    }
}

#[test]
fn buffers_of_a_large_mtu_fill_the_queue_sooner() {
    let mut ledger = Ledger::new(65_000);
    ledger.apply(&Op::Push { bucket: 1, len: 40, times: 400 });
    ledger.check();
    assert_eq!(ledger.bench.queue.len(), MAX_BYTES / 65_000);
}

#[test]
fn a_packet_that_comes_back_keeps_its_place_however_late_it_is() {
    let mut bench = Bench::new(MTU);
    (0..200).for_each(|number| bench.push(1, number, 1400));
    let mut first = bench.pop_packet().expect("a packet");
    first.seq = Some(FlowSeq(0));
    // CoDel drops of a flow that keeps a queue for so long, and from a queue that is full.
    for _ in 0..20 {
        bench.now += Duration::from_millis(40);
        bench.pop();
    }
    bench.queue.put_back([first].into_iter());
    (0..MAX_PACKETS).for_each(|number| bench.push(1, 1000 + u32::try_from(number).expect("few"), 1400));
    let dropped = bench.queue.dropped();
    assert!(dropped > 0);
    let again = bench.pop_packet().expect("it came back");
    assert_eq!((number_of(&again), again.seq, again.packet.packet()[1]), (0, Some(FlowSeq(0)), 0));
    assert_eq!(bench.queue.dropped(), dropped);
}

#[test]
fn what_waits_for_a_second_is_dropped() {
    let mut bench = Bench::new(MTU);
    let start = bench.now;
    for ms in [0u64, 300, 600] {
        bench.now = start + Duration::from_millis(ms);
        bench.push(u16::try_from(ms / 300).expect("a bucket"), 0, 100);
    }
    assert_eq!(bench.pop(), Some((0, 0)));
    let back = queued(3, 7, 100, 100, start + Duration::from_millis(500));
    bench.queue.put_back([back].into_iter());
    for (at, left) in [(1299, 3), (1300, 2), (1500, 1), (1600, 0)] {
        bench.queue.drop_stale(start + Duration::from_millis(at), &mut bench.pool);
        assert_eq!(bench.queue.len(), left, "after {at} ms");
    }
    assert_eq!((bench.queue.stale_at(), bench.queue.dropped(), bench.pool.free()), (None, 3, 3));
}
