use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

mod buffers;
mod model;
mod rules;

use model::{Model, ModelArrival};

/// Numbers at which a new sequence can begin without it looking like the past, up to near the end of 32 bits.
const TOWARDS_THE_WRAP: [u64; 4] = [0x4000_0000, 0x8000_0000, 0xC000_0000, 0xFFFF_FF00];

fn seq(number: u64) -> FlowSeq {
    FlowSeq(u32::try_from(number & 0xFFFF_FFFF).unwrap())
}

fn packet_of(bytes: &[u8], pool: &mut BufPool) -> PacketBuf {
    let mut packet = pool.take();
    packet.fill(bytes);
    packet
}

fn drain(out: &mut VecDeque<PacketBuf>) -> Vec<u64> {
    let id = |buf: &PacketBuf| u64::from_be_bytes(*buf.packet().first_chunk().unwrap());
    out.drain(..).map(|buf| id(&buf)).collect()
}

/// A session's receive side with all that it needs around it.
struct Receiver {
    reorder: Reorder,
    pool: BufPool,
    out: VecDeque<PacketBuf>,
    start: Instant,
}

impl Receiver {
    fn new(policy: ReorderPolicy, limits: ReorderLimits) -> Self {
        Self {
            reorder: Reorder::new(policy, limits),
            pool: BufPool::new(64, 8),
            out: VecDeque::new(),
            start: Instant::now(),
        }
    }

    fn ordered() -> Self {
        Self::new(ReorderPolicy::Deadline, ReorderLimits::default())
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// What is delivered when a packet arrives at `now_us`; its content is `id`.
    fn insert(&mut self, arrival: ModelArrival, id: u64, now_us: u64) -> Vec<u64> {
        let now = self.at(now_us);
        let arrival = Arrival {
            bucket: Bucket::new(arrival.bucket).unwrap(),
            seq: seq(arrival.number),
            ordered: arrival.ordered,
            packet: packet_of(&id.to_be_bytes(), &mut self.pool),
            sent_at_us: u32::try_from(arrival.sent_us & 0xFFFF_FFFF).unwrap(),
            spread: Duration::from_micros(arrival.spread_us),
            patience: Duration::from_micros(arrival.patience_us),
            path: PathId(0),
            delay_us: 0,
        };
        if self.reorder.is_sample_due(now) {
            self.reorder.sample(1, Duration::from_millis(20), now);
        }
        self.reorder.insert(arrival, now, &mut self.pool, &mut self.out);
        drain(&mut self.out)
    }

    /// What is delivered when the ordered packet `number` of bucket 0 arrives, sent at once and held for 10
    /// ms at most.
    fn arrive(&mut self, number: u64, now_us: u64) -> Vec<u64> {
        self.insert(ordered(number, now_us), number, now_us)
    }

    fn handle_timeout(&mut self, now_us: u64) -> Vec<u64> {
        self.reorder.handle_timeout(self.at(now_us), &mut self.out);
        drain(&mut self.out)
    }

    fn release_before(&mut self, horizon_us: u64) -> Vec<u64> {
        let horizon = u32::try_from(horizon_us & 0xFFFF_FFFF).unwrap();
        self.reorder.release_before(horizon, &mut self.out);
        drain(&mut self.out)
    }
}

fn ordered(number: u64, sent_us: u64) -> ModelArrival {
    ModelArrival { bucket: 0, number, ordered: true, sent_us, spread_us: 10_000, patience_us: 0 }
}

#[derive(Clone, Debug)]
enum Op {
    /// A packet that many numbers from the bucket's newest, sent and arriving with these delays.
    Arrive {
        bucket: u16,
        step: i64,
        ordered: bool,
        sent_ago_us: u64,
        spread_us: u64,
        patience_us: u64,
    },
    Wait {
        us: u64,
    },
    Horizon {
        ago_us: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let step = prop_oneof![12 => -8i64..8, 4 => Just(1i64), 1 => -5000i64..5000, 1 => 4000i64..4200];
    let spread = prop_oneof![1 => Just(0u64), 6 => 0u64..2_000];
    let patience = prop_oneof![1 => Just(0u64), 1 => 0u64..1_000];
    prop_oneof![
        10 => (0u16..3, step, prop::bool::weighted(0.8), 0u64..1_000, spread, patience).prop_map(
            |(bucket, step, ordered, sent_ago_us, spread_us, patience_us)| {
                Op::Arrive { bucket, step, ordered, sent_ago_us, spread_us, patience_us }
            }
        ),
        3 => (0u64..600).prop_map(|us| Op::Wait { us }),
        1 => (0u64..1_500).prop_map(|ago_us| Op::Horizon { ago_us }),
    ]
}

/// Applies `ops` to both, comparing what they deliver, from the middle of the numbers or from near their end.
fn compare(
    policy: ReorderPolicy,
    limits: ReorderLimits,
    wrap: bool,
    ops: Vec<Op>,
) -> Result<(), TestCaseError> {
    let mut receiver = Receiver::new(policy, limits);
    let mut model = Model::new(policy, limits.held_packets);
    let (mut now_us, mut id) = (u64::from(u32::MAX) - 20_000, 0);
    let mut newest = BTreeMap::<u16, u64>::new();
    for (bucket, number) in (0..3).flat_map(|bucket| TOWARDS_THE_WRAP.map(|number| (bucket, number))) {
        if wrap {
            let arrival = ModelArrival { bucket, ..ordered(number, now_us) };
            prop_assert_eq!(receiver.insert(arrival, id, now_us), model.insert(arrival, id, now_us));
            newest.insert(bucket, number);
        }
    }
    for op in ops {
        id += 1;
        match op {
            Op::Arrive { bucket, step, ordered, sent_ago_us, spread_us, patience_us } => {
                let newest = newest.entry(bucket).or_insert(0);
                let number = newest.saturating_add_signed(step);
                *newest = number.max(*newest);
                let sent_us = now_us - sent_ago_us;
                let arrival = ModelArrival { bucket, number, ordered, sent_us, spread_us, patience_us };
                prop_assert_eq!(receiver.insert(arrival, id, now_us), model.insert(arrival, id, now_us));
            }
            Op::Wait { us } => {
                now_us += us;
                prop_assert_eq!(receiver.handle_timeout(now_us), model.handle_timeout(now_us));
            }
            Op::Horizon { ago_us } => {
                prop_assert_eq!(
                    receiver.release_before(now_us - ago_us),
                    model.release_before(now_us - ago_us)
                );
            }
        }
        let counters = receiver.reorder.counters();
        prop_assert_eq!(counters.held, model.held());
        prop_assert!(counters.held <= limits.held_packets && counters.held_bytes <= limits.held_bytes);
        prop_assert_eq!(receiver.reorder.next_timeout(), model.next_timeout().map(|us| receiver.at(us)));
    }
    finish(receiver, model)
}

/// Waits until nothing is held, which every timeout brings nearer.
fn finish(mut receiver: Receiver, mut model: Model) -> Result<(), TestCaseError> {
    while let Some(due) = receiver.reorder.next_timeout() {
        let before = receiver.reorder.counters().held;
        let due_us = u64::try_from((due - receiver.start).as_micros()).unwrap();
        prop_assert_eq!(receiver.handle_timeout(due_us), model.handle_timeout(due_us));
        prop_assert!(receiver.reorder.counters().held < before);
    }
    let counters = receiver.reorder.counters();
    prop_assert_eq!((counters.held, counters.held_bytes, receiver.reorder.slots), (0, 0, 0));
    prop_assert_eq!((counters.delivered, counters.duplicates), (model.delivered, model.duplicates));
    prop_assert_eq!((counters.late, counters.skipped), (model.late, model.skipped));
    Ok(())
}

/// A packet's way through the network: `None` where it is lost.
type Copies = [Option<u64>; 2];

fn copies() -> impl Strategy<Value = Copies> {
    let fast = prop_oneof![5 => (0u64..2_000).prop_map(Some), 1 => Just(None)];
    let slow = prop_oneof![1 => (4_000u64..9_000).prop_map(Some), 2 => Just(None)];
    (fast, slow).prop_map(|(fast, slow)| [fast, slow])
}

fn policy() -> impl Strategy<Value = ReorderPolicy> {
    let fixed = (0u64..3_000, 0u16..12).prop_map(|(timeout_us, packets)| ReorderPolicy::Fixed {
        timeout: Duration::from_micros(timeout_us),
        packets,
    });
    prop_oneof![5 => Just(ReorderPolicy::Deadline), 1 => Just(ReorderPolicy::Off), 4 => fixed]
}

fn adaptive() -> impl Strategy<Value = ReorderPolicy> {
    (0u16..4, 0u16..10, 0u16..50, 1u64..500).prop_map(|(factor, least, most, ms)| {
        let sampling = Duration::from_millis(ms);
        ReorderPolicy::Adaptive(AdaptiveBuffer { factor, least, most, sampling })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_the_model(
        ops in prop::collection::vec(op(), 1..300),
        (held_packets, wrap, policy) in (0usize..20, any::<bool>(), policy()),
    ) {
        compare(policy, ReorderLimits { held_packets, ..ReorderLimits::default() }, wrap, ops)?;
    }

    #[test]
    fn packets_within_their_deadlines_come_out_once_and_in_order(
        packets in prop::collection::vec(copies(), 1..400),
        wrap: bool,
    ) {
        let mut receiver = Receiver::ordered();
        let first = if wrap { TOWARDS_THE_WRAP[3] + 1 } else { 0 };
        for number in TOWARDS_THE_WRAP.into_iter().filter(|_| wrap) {
            receiver.arrive(number, 0);
        }
        // One packet every 100 us; 10 ms are more than any of them can be late.
        let mut arrivals = Vec::new();
        for (number, copies) in (first..).zip(&packets) {
            let sent = (number - first) * 100;
            arrivals.extend(copies.iter().flatten().map(|delay| (sent + delay, number, sent)));
        }
        arrivals.sort_unstable();
        let (expected, mut delivered) = (arrivals.iter().map(|a| a.1).collect::<BTreeSet<_>>(), Vec::new());
        for (at, number, sent) in arrivals {
            delivered.extend(receiver.handle_timeout(at));
            delivered.extend(receiver.insert(ordered(number, sent), number, at));
        }
        delivered.extend(receiver.handle_timeout(1_000_000));
        prop_assert_eq!(delivered, expected.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(receiver.reorder.counters().late, 0);
    }

    #[test]
    fn any_permutation_is_delivered_exactly_once(
        numbers in Just((0..600u64).collect::<Vec<_>>()).prop_shuffle(),
        gap_us in 1u64..2_000,
        policy in prop_oneof![policy(), adaptive()],
        held_packets in 0usize..700,
    ) {
        let limits = ReorderLimits { held_packets, ..ReorderLimits::default() };
        let mut receiver = Receiver::new(policy, limits);
        let mut delivered = Vec::new();
        for (number, now_us) in numbers.into_iter().zip((0..).step_by(usize::try_from(gap_us).unwrap())) {
            delivered.extend(receiver.handle_timeout(now_us));
            delivered.extend(receiver.arrive(number, now_us));
            prop_assert!(receiver.reorder.counters().held <= held_packets);
        }
        delivered.extend(receiver.handle_timeout(10_000_000));
        delivered.sort_unstable();
        prop_assert!(delivered.into_iter().eq(0..600));
    }
}
