//! Work that all processors share.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What comes of each item, in their order. Whoever is free takes the next one.
pub(super) fn map<Item: Sync, Outcome: Send>(
    items: &[Item],
    act: impl Fn(&Item) -> Outcome + Sync,
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((number, item)) = take(items, &next) {
            done.push((number, act(item)));
        }
        done
    };
    let mut outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..processors().min(items.len())).map(|_| scope.spawn(work)).collect();
        let outcomes =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        outcomes.flatten().collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'a, Item>(items: &'a [Item], next: &AtomicUsize) -> Option<(usize, &'a Item)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    items.get(number).map(|item| (number, item))
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_has_its_outcome_in_its_place() {
        let items: Vec<u32> = (0..1000).collect();
        let squares: Vec<_> = items.iter().map(|item| item * item).collect();
        assert_eq!(map(&items, |item| item * item), squares);
        assert!(map(&[], |item: &u32| *item).is_empty());
    }
}
