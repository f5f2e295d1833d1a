use proptest::prelude::*;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn queues(deltas: &[f64], discipline: Discipline) -> Queues {
    Queues::new(deltas, discipline, Measure::ResponseTime, false)
}

fn push(queues: &mut Queues, class: usize, at: u64) -> Handle {
    queues.push(ClassId(class), Waiting { arrived: ms(at), avoid: None }).unwrap()
}

fn order(queues: &mut Queues, now: u64) -> Vec<usize> {
    std::iter::from_fn(|| queues.pop(ClassSet::ALL, ms(now))).map(|(handle, _)| handle.class().0).collect()
}

#[test]
fn who_has_waited_longest_for_its_class_is_next() {
    let mut queues = queues(&[1.0, 3.0], Discipline::ByAge);
    // At 40: ages 35 and 10 of the first class, and 40, which count as 13, of the second.
    push(&mut queues, 1, 0);
    push(&mut queues, 0, 5);
    push(&mut queues, 0, 30);
    assert_eq!(order(&mut queues, 40), [0, 1, 0]);
}

#[test]
fn within_a_class_it_is_who_came_first_but_for_those_who_come_again() {
    let mut queues = queues(&[1.0], Discipline::ByAge);
    let [one, two] = [1, 2].map(|at| push(&mut queues, 0, at));
    let again = queues.push_first(ClassId(0), Waiting { arrived: ms(0), avoid: Some(ServerId(3)) }).unwrap();
    let popped: Vec<_> = std::iter::from_fn(|| queues.pop(ClassSet::ALL, ms(5))).collect();
    assert_eq!(popped.iter().map(|(handle, _)| *handle).collect::<Vec<_>>(), [again, one, two]);
    assert_eq!(popped[0].1.avoid, Some(ServerId(3)));
    assert!(queues.push(ClassId(1), Waiting { arrived: ms(0), avoid: None }).is_none());
}

#[test]
fn a_class_that_had_too_much_lately_stands_back() {
    let mut queues = queues(&[1.0, 1.0], Discipline::ByAge);
    for _ in 0..100 {
        for (class, waiting) in [(0, 0), (1, 90)] {
            queues.answered(ClassId(class), Sample { waiting: ms(waiting), service: ms(10) });
        }
    }
    push(&mut queues, 0, 0);
    push(&mut queues, 1, 1);
    assert_eq!(order(&mut queues, 20), [1, 0], "it is younger, and its class has waited more");
}

#[test]
fn who_is_urgent_comes_first_by_the_order_of_classes() {
    let mut queues = queues(&[1.0, 1.0, 1.0], Discipline::ByAge);
    queues.hurry(ClassId(1), Some(ms(10)));
    queues.hurry(ClassId(2), Some(ms(10)));
    for (class, at) in [(0, 0), (1, 21), (2, 5), (1, 6)] {
        push(&mut queues, class, at);
    }
    // The first of class 1 is too young, though another one behind it is not.
    assert_eq!(order(&mut queues, 30), [2, 0, 1, 1]);
}

#[test]
fn who_is_kept_back_is_free_when_it_is_said() {
    let mut queues = Queues::new(&[1.0, 3.0], Discipline::ByAge, Measure::ResponseTime, true);
    for class in [0, 1, 0, 1] {
        queues.answered(ClassId(class), Sample { waiting: ms(0), service: ms(10) });
    }
    push(&mut queues, 1, 0);
    assert!(queues.pop(ClassSet::ALL, ms(0)).is_none());
    let free = queues.next_free(ClassSet::ALL).unwrap();
    assert!((ms(20)..=ms(90)).contains(&free), "{free:?}");
    assert!(queues.pop(ClassSet::ALL, free - ms(1)).is_none());
    assert!(queues.pop(ClassSet::ALL, free).is_some() && queues.next_free(ClassSet::ALL).is_none());
}

proptest! {
    /// Start-time fair queueing: two classes that always wait have had, over their weights, the same but for one request of each.
    #[test]
    fn shares_are_within_a_request_of_their_weights(
        weights in (0.05..0.95_f64).prop_map(|first| [first, 1.0 - first]),
        services in proptest::collection::vec(1..50u64, 2),
        served in 1..400usize,
    ) {
        let mut queues = queues(&[1.0, 1.0], Discipline::Fair);
        queues.weigh(weights);
        for (class, service) in services.iter().enumerate() {
            queues.answered(ClassId(class), Sample { waiting: ms(0), service: ms(*service) });
        }
        let mut had = [0.0; 2];
        for _ in 0..served {
            for class in [0, 1] {
                if queues.len(ClassId(class)) == 0 {
                    push(&mut queues, class, 0);
                }
            }
            let class = queues.pop(ClassSet::ALL, ms(0)).unwrap().0.class().0;
            had[class] += services[class] as f64 / 1000.0 / weights[class];
        }
        let bound: f64 = services.iter().zip(weights).map(|(service, weight)| *service as f64 / 1000.0 / weight).sum();
        prop_assert!((had[0] - had[1]).abs() <= bound + 1e-9, "{had:?} of {bound}");
    }

    #[test]
    fn who_waits_is_who_was_pushed_and_neither_popped_nor_cancelled(
        steps in proptest::collection::vec((0..4u8, 0..3usize, any::<usize>()), 0..300),
        discipline in prop_oneof![Just(Discipline::ByAge), Just(Discipline::Fair), Just(Discipline::AgeAlone), Just(Discipline::FirstCome)],
    ) {
        let mut queues = queues(&[1.0, 2.0, 3.0], discipline);
        let mut waiting: Vec<Handle> = Vec::new();
        for (now, (what, class, which)) in (0..).zip(steps) {
            match what {
                0 | 1 => waiting.push(push(&mut queues, class, now)),
                2 => {
                    let popped = queues.pop(ClassSet::ALL, ms(now)).map(|(handle, _)| handle);
                    // The first of its class.
                    let expected = popped.and_then(|handle| waiting.iter().copied().find(|one| one.class() == handle.class()));
                    prop_assert_eq!(popped, expected);
                    prop_assert_eq!(popped.is_none(), waiting.is_empty());
                    waiting.retain(|one| Some(*one) != popped);
                }
                _ if waiting.is_empty() => {}
                _ => {
                    let gone = waiting.swap_remove(which % waiting.len());
                    waiting.sort();
                    prop_assert!(queues.cancel(gone).is_some() && queues.cancel(gone).is_none());
                }
            }
            let counts: usize = (0..3).map(|class| queues.len(ClassId(class))).sum();
            prop_assert_eq!(counts, waiting.len());
            prop_assert_eq!(queues.is_empty(), waiting.is_empty());
        }
    }
}
