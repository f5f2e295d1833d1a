use super::*;

/// A queue that every packet of two slots has met.
fn long(seconds: f64) -> Length {
    Length { mean: seconds, least: seconds }
}

/// A queue's length over time, in milliseconds.
type Course = fn(u32) -> f64;

fn sawtooth(slot: u32) -> f64 {
    f64::from(slot % 37)
}

fn other_sawtooth(slot: u32) -> f64 {
    f64::from((slot + 11) % 23) * 1.5
}

/// Milliseconds that hosts are late, different ones each time.
fn noise(slot: u32, seed: u32) -> f64 {
    f64::from((slot + 1).wrapping_mul(2_654_435_761).wrapping_add(seed).rotate_left(seed % 31) % 1000)
        / 1000.0
}

fn observe(likeness: &mut Likeness, slots: std::ops::Range<u32>, a: Course, b: Course) {
    for slot in slots {
        let lengths = (a(slot) + noise(slot, 7), b(slot) + noise(slot, 12));
        likeness.on_slot((long(lengths.0 / 1e3), long(lengths.1 / 1e3)), false);
    }
}

fn after(seconds: u32, a: Course, b: Course) -> Likeness {
    let mut likeness = Likeness::default();
    observe(&mut likeness, 0..seconds * 10, a, b);
    likeness
}

#[test]
fn one_queue_is_recognised_within_seconds() {
    assert!(!after(2, sawtooth, sawtooth).is_shared());
    assert!(after(10, sawtooth, sawtooth).is_shared());
}

#[test]
fn a_delay_that_is_always_there_makes_no_difference() {
    assert!(after(10, sawtooth, |slot| sawtooth(slot) + 40.0).is_shared());
}

#[test]
fn two_queues_are_two() {
    assert!(!after(60, sawtooth, other_sawtooth).is_shared());
    assert!(!after(60, sawtooth, |_| 0.0).is_shared());
}

#[test]
fn queues_that_rise_together_by_different_amounts_are_two() {
    assert!(!after(60, sawtooth, |slot| 3.0 * sawtooth(slot)).is_shared());
}

/// What begins on two links at once fills both their queues, and drains from both.
#[test]
fn one_rise_and_one_fall_prove_nothing() {
    let hump = |slot: u32| if slot < 30 { f64::from(slot.min(30 - slot)) } else { 0.0 };
    assert!(!after(60, hump, hump).is_shared());
}

/// After a beginning like that has filled them, both queues are short, each as its own traffic has it.
#[test]
fn short_queues_after_a_long_one_prove_nothing() {
    fn begun(slot: u32, later: f64) -> f64 {
        if slot < 12 { 3.0 * f64::from(slot.min(12 - slot)) } else { later }
    }
    let short = |slot: u32| begun(slot, f64::from(slot % 5));
    let other = |slot: u32| begun(slot, f64::from(slot % 7) / 2.0);
    let mut likeness = Likeness::default();
    for slot in 0..600 {
        observe(&mut likeness, slot..slot + 1, short, other);
        assert!(!likeness.is_shared(), "after {slot} slots");
    }
}

#[test]
fn late_hosts_are_no_queue() {
    assert!(!after(60, |_| 0.0, |_| 0.0).is_shared());
}

#[test]
fn what_is_one_is_two_as_soon_as_it_differs() {
    let mut likeness = after(10, sawtooth, sawtooth);
    observe(&mut likeness, 100..108, sawtooth, |_| 0.0);
    assert!(!likeness.is_shared());
}

#[test]
fn without_a_queue_nothing_is_shared_after_a_while() {
    let mut likeness = after(10, sawtooth, sawtooth);
    observe(&mut likeness, 100..140, |_| 0.0, |_| 0.0);
    assert!(likeness.is_shared());
    observe(&mut likeness, 140..400, |_| 0.0, |_| 0.0);
    assert!(!likeness.is_shared());
}

#[test]
fn a_hint_shortens_the_proof() {
    let slots = |hinted: bool| {
        let mut likeness = Likeness::default();
        (0u32..).position(|slot| {
            let length = f64::from(slot % 7) / 1e3;
            likeness.on_slot((long(length), long(length)), hinted)
        })
    };
    assert!(slots(true) < slots(false));
}

#[test]
fn delays_count_in_the_slot_in_which_they_were_met() {
    let mut queue = Queue::default();
    for slot in 0..=LAG {
        queue.begin_slot(slot);
        queue.on_sample(Duration::from_millis(slot), slot, SLOT / 2);
    }
    queue.on_sample(Duration::from_millis(8), LAG, SLOT * u32::try_from(LAG - 1).unwrap());
    assert_eq!(queue.settled(LAG), Some(long(0.0)));
    queue.begin_slot(LAG + 1);
    assert_eq!(queue.settled(LAG + 1), Some(Length { mean: 0.0045, least: 0.0 }));
}

#[test]
fn what_delays_some_of_all_packets_is_no_queue() {
    let mut likeness = Likeness::default();
    for slot in 0..600 {
        // The machine was late in every third slot.
        let mean = if slot % 3 == 0 { 0.02 } else { 0.0 } + noise(slot, 7) / 1e3;
        likeness.on_slot((Length { mean, least: 0.0 }, Length { mean, least: 0.0 }), true);
        assert!(!likeness.is_shared(), "after {slot} slots");
    }
}
