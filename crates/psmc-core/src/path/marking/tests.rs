use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// A path that has sent so many datagrams to try with.
fn trying(sent: u64) -> Marking {
    let mut marking = Marking::default();
    send(&mut marking, sent);
    marking
}

fn send(marking: &mut Marking, count: u64) {
    let now = Instant::now();
    (0..count).for_each(|_| marking.on_sent(true, now));
}

fn counts(ect0: u16, marked: u16) -> EcnCounts {
    EcnCounts { ect0, marked }
}

/// The newest number is that of the last datagram, if all were sent as ECT(0).
fn newest(marking: &Marking) -> PacketNumber {
    PacketNumber(marking.sent - 1)
}

fn ack(marking: &mut Marking, acked: usize, counts: EcnCounts) -> bool {
    marking.on_ack(newest(marking), acked, counts)
}

fn capable() -> Marking {
    let mut marking = trying(TRIALS);
    assert!(!ack(&mut marking, 10, counts(10, 0)));
    assert!(marking.is_capable());
    marking
}

#[test]
fn no_more_than_the_trials_are_risked() {
    assert!(trying(TRIALS - 1).is_trying());
    assert!(!trying(TRIALS).is_trying() && !trying(TRIALS).is_capable());
}

#[test]
fn counts_that_are_right_make_a_path_capable_and_marks_are_told_once() {
    let mut marking = capable();
    send(&mut marking, 3);
    assert!(ack(&mut marking, 3, counts(11, 2)), "two of three are marked");
    send(&mut marking, 2);
    assert!(!ack(&mut marking, 2, counts(13, 2)), "no further one is");
    let status = marking.status();
    assert_eq!((status.capable_packets, status.marked_packets), (15, 2));
}

#[test]
fn an_acknowledgement_that_comes_late_says_nothing() {
    let mut marking = capable();
    send(&mut marking, 6);
    assert!(marking.on_ack(PacketNumber(15), 3, counts(14, 2)));
    // It was sent before, and has waited somewhere.
    assert!(!marking.on_ack(PacketNumber(12), 3, counts(12, 1)));
    assert!(!marking.on_ack(PacketNumber(15), 0, counts(14, 2)));
    assert!(marking.is_capable());
    assert_eq!(marking.status().marked_packets, 2);
}

#[test]
fn marks_are_told_although_what_was_marked_is_settled_already() {
    let mut marking = capable();
    send(&mut marking, 1);
    // An acknowledgement that came too late to be judged has settled it, and the number behind it was sent as Not-ECT.
    assert!(marking.on_ack(PacketNumber(11), 0, counts(10, 1)));
}

#[test]
fn nothing_is_known_of_a_path_of_which_nothing_marked_has_arrived() {
    let mut marking = trying(1);
    assert!(!marking.on_ack(PacketNumber(3), 0, counts(0, 0)));
    assert_eq!(marking.status().state, EcnState::Trying);
}

#[test]
fn wrong_counts_fail() {
    let cases = [
        ("bleached", 5, 10, 0),
        ("partly bleached", 5, 14, 0),
        ("more than were sent", 5, 16, 0),
        ("fewer than before", 1, 9, 0),
        ("fewer marks than before", 1, 12, u16::MAX),
    ];
    for (case, acked, ect0, marked) in cases {
        let mut marking = capable();
        send(&mut marking, 5);
        assert!(!ack(&mut marking, acked, counts(ect0, marked)), "{case}");
        assert_eq!(marking.status().state, EcnState::Failed, "{case}");
    }
}

#[test]
fn counts_that_were_wrong_do_not_count_against_another_network() {
    let mut marking = capable();
    send(&mut marking, 5);
    ack(&mut marking, 5, counts(9, 0));
    marking.restart();
    send(&mut marking, 5);
    assert!(!ack(&mut marking, 5, counts(14, 0)));
    assert!(marking.is_capable());
}

/// So many datagrams are sent and arrive, and of all that only the last acknowledgement does.
fn after_silence_of_acknowledgements(count: u16) -> (bool, Marking) {
    let mut marking = capable();
    send(&mut marking, count.into());
    let has_met = ack(&mut marking, 1, counts(10 + count - 1, 1));
    (has_met, marking)
}

#[test]
fn differences_are_exact_however_many_acknowledgements_are_lost() {
    let (has_met, marking) = after_silence_of_acknowledgements(u16::try_from(MAX_ADVANCE).unwrap() - 1);
    assert!(has_met && marking.is_capable());
}

#[test]
fn differences_that_sixteen_bits_may_not_tell_are_not_looked_at_and_the_path_is_tried_again() {
    let (has_met, mut marking) = after_silence_of_acknowledgements(u16::try_from(MAX_ADVANCE).unwrap() + 1);
    assert!(!has_met && marking.is_trying());
    assert_eq!(marking.status().marked_packets, 0);
    // The next ones are counted from there.
    let before = marking.counts;
    send(&mut marking, TRIALS);
    assert!(ack(&mut marking, 10, counts(before.ect0 + 9, before.marked + 1)));
    assert_eq!(marking.status().marked_packets, 1);
}

#[test]
fn a_network_that_marks_everything_fails() {
    let mut marking = trying(4);
    ack(&mut marking, 4, counts(0, 4));
    send(&mut marking, 6);
    ack(&mut marking, 6, counts(0, 10));
    assert_eq!(marking.status().state, EcnState::Failed);
}

#[test]
fn a_network_that_drops_what_can_be_marked_fails() {
    let mut marking = trying(TRIALS);
    (0..TRIALS).for_each(|_| marking.on_lost(Instant::now()));
    assert_eq!(marking.status().state, EcnState::Failed);
    let mut marking = trying(TRIALS);
    (1..TRIALS).for_each(|_| marking.on_lost(Instant::now()));
    ack(&mut marking, 1, counts(1, 0));
    assert!(marking.is_capable(), "one has arrived");
}

#[test]
fn what_was_lost_before_a_silence_does_not_count_against_the_next_trial() {
    let before = Instant::now();
    let mut marking = trying(TRIALS);
    marking.on_silence();
    (0..TRIALS).for_each(|_| marking.on_sent(true, before + Duration::from_secs(1)));
    (0..2 * TRIALS).for_each(|_| marking.on_lost(before));
    assert_eq!(marking.status().state, EcnState::Trying);
}

#[test]
fn silence_has_a_path_tried_again_and_twice_in_a_row_fails_it() {
    let mut marking = capable();
    marking.on_silence();
    assert!(marking.is_trying(), "it may be another network");
    for expected in [EcnState::Trying, EcnState::Failed] {
        send(&mut marking, 3);
        marking.on_silence();
        assert_eq!(marking.status().state, expected);
    }
    marking.restart();
    assert!(marking.is_trying());
}

#[test]
fn a_silence_without_anything_to_try_with_says_nothing() {
    let mut marking = Marking::default();
    (0..5).for_each(|_| marking.on_silence());
    assert!(marking.is_trying());
}

/// What becomes of a run of datagrams, and then of the acknowledgement of them.
#[derive(Clone, Copy, Debug)]
struct Burst {
    arrives: u16,
    marked: u16,
    lost: u16,
    is_heard_of: bool,
}

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let burst = (0_u16..6000, 0_u16..6000, 0_u16..6000, proptest::bool::weighted(0.2))
        .prop_map(|(arrives, marked, lost, is_heard_of)| Burst { arrives, marked, lost, is_heard_of });
    proptest::collection::vec(burst, 1..60)
}

proptest! {
    /// Counts of a network that carries marks never fail, through all wraps and losses, and what they tell is what was
    /// marked up to the acknowledgement, unless too much has gone by without one.
    #[test]
    fn honest_counts_are_understood(bursts in bursts()) {
        let mut marking = capable();
        // As the peer would count without end; those that are not heard of yet; and those that were never judged.
        let (mut ect0, mut marked, mut number) = (10_u64, 0_u64, TRIALS);
        let (mut unheard_marks, mut unjudged_marks, mut unheard) = (0, 0, 0);
        for burst in bursts {
            let Burst { arrives, marked: marks, lost, is_heard_of } = burst;
            let (arrives, marks, lost) = (u64::from(arrives), u64::from(marks), u64::from(lost));
            send(&mut marking, arrives + marks + lost);
            (ect0, marked) = (ect0 + arrives, marked + marks);
            (unheard_marks, unheard) = (unheard_marks + marks, unheard + arrives + marks + lost);
            number += arrives + marks + lost;
            if !is_heard_of || arrives + marks == 0 {
                continue;
            }
            let [ect0, marks] = [ect0, marked].map(|count| u16::try_from(count % 65_536).unwrap());
            let has_met = marking.on_ack(PacketNumber(number - 1), 1, counts(ect0, marks));
            if unheard > MAX_ADVANCE {
                prop_assert!(!has_met);
                prop_assert_eq!(marking.status().state, EcnState::Trying);
                unjudged_marks += unheard_marks;
            } else {
                prop_assert!(marking.is_capable());
                prop_assert_eq!(has_met, unheard_marks > 0);
            }
            (unheard_marks, unheard) = (0, 0);
            prop_assert_eq!(marking.status().marked_packets + unjudged_marks, marked);
        }
    }
}
