//! What holds for any link and any list of operations.

use proptest::prelude::*;

use super::*;

/// What a driver does to a link, after a gap in microseconds.
#[derive(Clone, Debug)]
enum Op {
    Enter { gap: u64, len: usize, ecn_capable: bool },
    Reconfigure { gap: u64, config: Box<LinkConfig> },
}

/// How diligent a driver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    /// It polls whenever it is told to.
    Eager,
    /// It polls when everything is over.
    Late,
}

/// What comes out.
#[derive(Debug, PartialEq)]
struct Outcome {
    arrivals: Vec<Arrival<usize>>,
    /// Sorted: the order in which drops are told depends on when they are noticed.
    dropped: Vec<(usize, DropReason)>,
    counters: LinkCounters,
}

fn any_chance() -> impl Strategy<Value = Probability> {
    prop_oneof![
        2 => Just(Probability::ZERO),
        3 => (0.0..=1.0).prop_map(chance),
        1 => Just(Probability::ONE)
    ]
}

fn any_time() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), (0u64..50_000).prop_map(micros)]
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let trace = proptest::collection::vec(0u64..10, 1..10).prop_map(|mut gaps| {
        gaps.push(1);
        let lines = gaps.iter().scan(0, |time, gap| {
            *time += gap;
            Some(format!("{time}\n"))
        });
        Rate::Trace(Arc::new(Trace::parse(&lines.collect::<String>()).unwrap()))
    });
    prop_oneof![Just(Rate::Unlimited), (1_000u64..100_000_000).prop_map(Rate::Fixed), trace]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        any_time().prop_map(Jitter::Normal),
        any_time().prop_map(Jitter::Uniform),
        proptest::collection::vec(any_time(), 0..5).prop_map(|samples| Jitter::Samples(samples.into())),
    ]
}

fn any_loss() -> impl Strategy<Value = Loss> {
    let chain = (any_chance(), any_chance(), any_chance(), any_chance()).prop_map(
        |(to_bad, to_good, loss_good, loss_bad)| Loss::GilbertElliott {
            to_bad,
            to_good,
            loss_good,
            loss_bad,
        },
    );
    prop_oneof![Just(Loss::None), any_chance().prop_map(Loss::Random), chain]
}

fn any_queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Packets(1000)),
        (0usize..10).prop_map(QueueLimit::Packets),
        (0usize..10_000).prop_map(QueueLimit::Bytes),
        any_time().prop_map(QueueLimit::Time),
        Just(QueueLimit::Time(Duration::MAX)),
    ]
}

fn any_discipline() -> impl Strategy<Value = Discipline> {
    let red = (0usize..5_000, 0usize..10_000, any_chance(), 0.0..1.0, any::<bool>()).prop_map(
        |(min_bytes, more, max_probability, weight, ecn)| Discipline::Red {
            min_bytes,
            max_bytes: min_bytes + more,
            max_probability,
            weight,
            ecn,
        },
    );
    let codel = (any_time(), any_time(), any::<bool>())
        .prop_map(|(target, interval, ecn)| Discipline::CoDel { target, interval, ecn });
    let flows = (any_time(), any_time(), any::<bool>())
        .prop_map(|(target, interval, ecn)| Discipline::FqCoDel { target, interval, ecn });
    let rio = any::<bool>().prop_map(|ecn| Discipline::Rio { ecn });
    prop_oneof![Just(Discipline::DropTail), red, rio, codel, flows]
}

/// A link that keeps the order of packets, and loses some.
fn any_orderly_config() -> impl Strategy<Value = LinkConfig> {
    let mtu = prop_oneof![3 => Just(None), 1 => (0usize..2000).prop_map(Some)];
    let chances = (any_chance(), any_chance(), proptest::bool::weighted(0.1));
    (any_rate(), any_time(), any_jitter(), any_loss(), any_queue(), any_discipline(), mtu, chances).prop_map(
        |(rate, delay, jitter, loss, queue, discipline, mtu, (duplicate, corrupt, black_hole))| LinkConfig {
            rate,
            delay,
            jitter,
            loss,
            queue,
            discipline,
            mtu,
            duplicate,
            corrupt,
            black_hole,
            ..LinkConfig::default()
        },
    )
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    (any_orderly_config(), any::<bool>(), any_chance()).prop_map(|(config, reordering, reorder)| LinkConfig {
        reordering,
        reorder,
        ..config
    })
}

/// A link that delivers everything in order.
fn any_lossless_config() -> impl Strategy<Value = LinkConfig> {
    any_orderly_config().prop_map(|config| LinkConfig {
        loss: Loss::None,
        queue: QueueLimit::Packets(usize::MAX),
        discipline: Discipline::DropTail,
        mtu: None,
        black_hole: false,
        ..config
    })
}

fn any_ops(config: impl Strategy<Value = LinkConfig>) -> impl Strategy<Value = Vec<Op>> {
    let gap = || prop_oneof![Just(0), 0u64..2_000, 0u64..100_000];
    let enter = (gap(), 0usize..4000, any::<bool>()).prop_map(|(gap, len, ecn_capable)| Op::Enter {
        gap,
        len,
        ecn_capable,
    });
    let reconfigure =
        (gap(), config).prop_map(|(gap, config)| Op::Reconfigure { gap, config: Box::new(config) });
    proptest::collection::vec(prop_oneof![9 => enter, 1 => reconfigure], 1..100)
}

/// What becomes of a link's packets, and whether its books are right at every step.
fn run(config: &LinkConfig, ops: &[Op], driver: Driver, start: Instant) -> Outcome {
    let mut rig = Rig { link: Link::new(config.clone(), 5, start), start, entered: 0 };
    let mut outcome = Outcome { arrivals: vec![], dropped: vec![], counters: LinkCounters::default() };
    let mut now = Duration::ZERO;
    for op in ops {
        let (Op::Enter { gap, .. } | Op::Reconfigure { gap, .. }) = op;
        now += micros(*gap);
        poll_until(&mut rig, driver, now, &mut outcome);
        match op {
            Op::Enter { len, ecn_capable, .. } => {
                rig.enter_with(PacketInfo { ecn_capable: *ecn_capable, ..PacketInfo::new(*len) }, now);
            }
            Op::Reconfigure { config, .. } => rig.reconfigure(LinkConfig::clone(config), now),
        }
        assert_books(&rig);
    }
    poll_until(&mut rig, Driver::Eager, END * 1000, &mut outcome);
    assert_eq!(rig.link.packets_inside(), 0);
    assert_books(&rig);
    outcome.dropped.sort_unstable();
    outcome.counters = rig.link.counters().clone();
    outcome
}

fn poll_until(rig: &mut Rig, driver: Driver, until: Duration, outcome: &mut Outcome) {
    while driver == Driver::Eager
        && let Some(at) = rig.timeout().filter(|at| *at <= until)
    {
        if let Some(before) = at.checked_sub(Duration::from_nanos(1)) {
            assert_eq!(rig.poll(before), [], "nothing may arrive before the timeout");
        }
        outcome.arrivals.extend(rig.poll(at));
        outcome.dropped.extend(rig.dropped());
        assert!(rig.timeout().is_none_or(|next| next > at), "every poll leads on");
    }
    outcome.dropped.extend(rig.dropped());
}

/// What entered has arrived, was dropped, or is still inside.
fn assert_books(rig: &Rig) {
    let counters = rig.link.counters();
    let known = counters.carried_packets + counters.dropped_packets() + rig.link.packets_inside() as u64;
    assert_eq!(counters.entered_packets, known);
}

proptest! {
    #[test]
    fn it_does_not_matter_when_a_driver_polls(config in any_config(), ops in any_ops(any_config())) {
        let start = Instant::now();
        let [eager, late] = [Driver::Eager, Driver::Late].map(|driver| run(&config, &ops, driver, start));
        prop_assert_eq!(eager, late);
    }

    #[test]
    fn equal_seeds_have_equal_outcomes(config in any_config(), ops in any_ops(any_config())) {
        let start = Instant::now();
        let [one, other] = [(); 2].map(|()| run(&config, &ops, Driver::Eager, start));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn arrivals_come_in_the_order_of_time_and_each_packet_at_most_once(
        config in any_config(), ops in any_ops(any_config()),
    ) {
        let outcome = run(&config, &ops, Driver::Eager, Instant::now());
        prop_assert!(outcome.arrivals.is_sorted_by_key(|arrival| arrival.at));
        let arrived = outcome.arrivals.iter().map(|arrival| arrival.packet);
        let mut packets: Vec<_> = arrived.chain(outcome.dropped.iter().map(|dropped| dropped.0)).collect();
        packets.sort_unstable();
        let entered = ops.iter().filter(|op| matches!(op, Op::Enter { .. })).count();
        prop_assert_eq!(packets, (0..entered).collect::<Vec<_>>());
    }

    #[test]
    fn the_order_is_kept_unless_asked(config in any_orderly_config(), ops in any_ops(any_orderly_config())) {
        let outcome = run(&config, &ops, Driver::Eager, Instant::now());
        prop_assert!(outcome.arrivals.is_sorted_by_key(|arrival| arrival.packet));
    }

    #[test]
    fn changes_lose_nothing_unless_asked(config in any_lossless_config(), ops in any_ops(any_lossless_config())) {
        prop_assert_eq!(run(&config, &ops, Driver::Late, Instant::now()).dropped, []);
    }

    #[test]
    fn times_may_go_back(config in any_config(), calls in proptest::collection::vec((any_time(), 0usize..4000), 1..50)) {
        let mut rig = Rig::new(config);
        let mut arrived = 0;
        for (at, len) in &calls {
            rig.enter(*len, *at);
            arrived += rig.arrivals(*at * 2).len();
            assert_books(&rig);
        }
        arrived += rig.arrivals(END * 1000).len();
        prop_assert_eq!(arrived + rig.dropped().len(), calls.len());
    }

    #[test]
    fn only_what_can_be_marked_is(config in any_config(), ops in any_ops(any_config())) {
        let outcome = run(&config, &ops, Driver::Eager, Instant::now());
        let capable: Vec<bool> = ops.iter().filter_map(|op| match op {
            Op::Enter { ecn_capable, .. } => Some(*ecn_capable),
            Op::Reconfigure { .. } => None,
        }).collect();
        prop_assert!(outcome.arrivals.iter().all(|a| !a.congestion_experienced || capable[a.packet]));
    }
}
