//! The classes are others, and packets wait.

use super::*;

#[test]
fn what_waits_goes_first_in_its_order_and_is_counted_on() {
    let class = |name: &str| ClassConfig { name: name.to_owned(), ..ClassConfig::best_effort() };
    let mut bench = Bench::new(MTU);
    for number in 0..20 {
        bench.push(u16::try_from(number % 3).expect("small"), number, 100);
        bench.now += Duration::from_micros(1);
    }
    assert!(bench.pop().is_some());
    // One more is out of its queue, and next to go.
    assert!(bench.queue.front(&mut bench.pool, bench.now).is_some());
    let passed = bench.counters().passed;
    bench.queue.set_classes(&[class("voice"), ClassConfig::best_effort()]);
    let names: Vec<_> = bench.queue.classes().map(|class| (class.name, class.counters.passed)).collect();
    assert_eq!(names, [("voice".to_owned(), 0), (ClassConfig::best_effort().name, passed)]);
    assert_eq!(bench.queue.len(), 19);
    bench.push(0, 100, 100);
    let left: Vec<_> = std::iter::from_fn(|| bench.pop()).map(|(_, number)| number).collect();
    assert_eq!(left.len(), 20);
    assert!(left[1..].is_sorted(), "{left:?}");
    assert_eq!(left.last(), Some(&100));
}
