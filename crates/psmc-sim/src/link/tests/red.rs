//! Random early detection against its formulas.

use super::super::queue::Red;
use super::*;

/// With this weight the average is the present length.
const AT_ONCE: f64 = 1.0;

#[test]
fn the_gaps_between_signals_are_uniform() {
    // Halfway up to a chance of a fifth: one in ten for the first packet, hence gaps from 1 to 10.
    let (mut red, mut dice) = (Red::new([10_000, 30_000], chance(0.2), AT_ONCE), Dice::new(3));
    let mut gaps = [0; 10];
    let mut gap = 0;
    for _ in 0..200_000 {
        if red.signals(20_000, None, &mut dice) {
            gaps[gap] += 1;
            gap = 0;
        } else {
            gap += 1;
        }
    }
    let signals = gaps.iter().sum();
    gaps.into_iter().for_each(|gap| assert_share(gap, signals, 0.1));
}

#[test]
fn the_chance_grows_linearly_between_the_thresholds() {
    for (length, expected) in [(9_999, 0.0), (10_000, 0.0), (15_000, 0.05), (25_000, 0.15), (30_000, 1.0)] {
        let first = |seed| {
            let mut red = Red::new([10_000, 30_000], chance(0.2), AT_ONCE);
            red.signals(length, None, &mut Dice::new(seed))
        };
        assert_share((0..20_000).filter(|&seed| first(seed)).count(), 20_000, expected);
    }
}

#[test]
fn the_average_follows_slowly() {
    // After n packets it is 10,000 · (1 - 0.998^n), which passes 5,000 with the 347th.
    let mut red = Red::new([5_000, 5_000], Probability::ONE, 0.002);
    let first = (1..).find(|_| red.signals(10_000, None, &mut Dice::new(1)));
    assert_eq!(first, Some(347));
}

#[test]
fn the_average_decays_while_nothing_is_sent() {
    // From 10,000 by 0.9 for each 1000 bytes that could have been sent: 6561 after four, 5905 after five.
    for (idle_bytes, signals) in [(4_000, true), (5_000, false)] {
        let mut red = Red::new([6_000, 6_000], Probability::ONE, 0.1);
        (0..1000).for_each(|_| {
            red.signals(10_000, None, &mut Dice::new(1));
        });
        assert_eq!(red.signals(0, Some(idle_bytes), &mut Dice::new(1)), signals);
    }
}

fn overloaded(ecn: bool, ecn_capable: bool) -> (Vec<Arrival<usize>>, Vec<(usize, DropReason)>) {
    let discipline = Discipline::Red {
        min_bytes: 5_000,
        max_bytes: 15_000,
        max_probability: chance(0.1),
        weight: 0.1,
        ecn,
    };
    let mut rig = Rig::new(LinkConfig::new(8 * MBIT, millis(0)).with_discipline(discipline));
    (0..2000)
        .for_each(|n| rig.enter_with(PacketInfo { ecn_capable, ..PacketInfo::new(1000) }, micros(900 * n)));
    (rig.poll(END), rig.dropped())
}

#[test]
fn it_keeps_a_queue_from_growing_by_drops() {
    for (ecn, ecn_capable) in [(false, false), (true, false), (false, true)] {
        let (arrivals, dropped) = overloaded(ecn, ecn_capable);
        assert!(arrivals.iter().all(|arrival| !arrival.congestion_experienced));
        assert!(dropped.iter().all(|(_, reason)| *reason == DropReason::Discipline));
        // A tenth is too much; the average is where a tenth is dropped, or above.
        assert!((180..230).contains(&dropped.len()), "{}", dropped.len());
    }
}

#[test]
fn it_marks_instead_what_can_be_marked() {
    let (arrivals, dropped) = overloaded(true, true);
    assert!(dropped.is_empty());
    assert!(arrivals.iter().filter(|arrival| arrival.congestion_experienced).count() > 200);
}

/// A fifth too much, of which half are to be dropped first: they bear it all.
#[test]
fn with_drop_precedences_others_pass() {
    let config = LinkConfig::new(8 * MBIT, millis(0)).with_discipline(Discipline::Rio { ecn: false });
    let mut rig = Rig::new(config);
    let precedence = |number: usize| if number.is_multiple_of(2) { 0 } else { 2 };
    for number in 0..20_000 {
        let info = PacketInfo { precedence: precedence(number), ..PacketInfo::new(1000) };
        rig.enter_with(info, micros(833 * number as u64));
    }
    rig.poll(END);
    let dropped = rig.dropped();
    assert!(
        dropped.iter().all(|&(number, reason)| reason == DropReason::Discipline && precedence(number) == 2)
    );
    assert!((3_000..3_700).contains(&dropped.len()), "{}", dropped.len());
}

/// The same, but all can be marked: those that are to be dropped first are marked up to their threshold, and dropped
/// beyond it.
#[test]
fn with_drop_precedences_what_can_be_marked_is_marked_below_the_threshold() {
    let config = LinkConfig::new(8 * MBIT, millis(0)).with_discipline(Discipline::Rio { ecn: true });
    let mut rig = Rig::new(config);
    for number in 0..20_000 {
        let info = PacketInfo { precedence: 2, ecn_capable: true, ..PacketInfo::new(1000) };
        rig.enter_with(info, micros(900 * number));
    }
    let marked = rig.poll(END).iter().filter(|arrival| arrival.congestion_experienced).count();
    let dropped = rig.dropped().len();
    // A tenth is too much, and nobody slows down: so a tenth is dropped, and before that more than a tenth marked.
    assert!((1_700..2_100).contains(&dropped), "{dropped}");
    assert!(marked > 100, "{marked}");
}
