//! Any list of operations: nothing is lost without being counted, and nothing forged or replayed gets through.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Add { slow: bool },
    Remove(usize),
    Send { sender: usize, mark: u8 },
    Forge { sender: usize, bit: usize },
    Replay { sender: usize },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => any::<bool>().prop_map(|slow| Step::Add { slow }),
        1 => any::<usize>().prop_map(Step::Remove),
        10 => (any::<usize>(), 0u8..4).prop_map(|(sender, mark)| Step::Send { sender, mark }),
        2 => (any::<usize>(), 0usize..52 * 8).prop_map(|(sender, bit)| Step::Forge { sender, bit }),
        2 => any::<usize>().prop_map(|sender| Step::Replay { sender }),
        3 => (0u64..200).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// A session's near end, and what it sent last.
struct Near {
    sender: Sender,
    added: Added,
    last: Option<Vec<u8>>,
}

/// What the operations should have come to.
#[derive(Default)]
struct Model {
    ends: Vec<Near>,
    sent: u64,
    came_out: u64,
    of_removed: u64,
}

impl Model {
    fn apply(&mut self, step: Step, world: &mut World) {
        let count = self.ends.len().max(1);
        match step {
            Step::Add { slow } => {
                if count < 60 {
                    let added = world.session(slow.then_some(100_000));
                    let sender = Sender::new(&added.near, "198.51.100.1:1000");
                    self.ends.push(Near { sender, added, last: None });
                }
            }
            Step::Remove(index) => {
                if !self.ends.is_empty() {
                    let Near { added, .. } = self.ends.swap_remove(index % count);
                    let lane = world.status(added.id).unwrap().to_far;
                    self.of_removed += u64::from(lane.waiting) + lane.dropped.iter().sum::<u64>();
                    world.relay.remove(added.id, SITE, world.now).unwrap();
                }
            }
            Step::Send { sender, mark } => {
                let Some(Near { sender, last, .. }) = self.ends.get_mut(sender % count) else { return };
                let datagram = sender.marked(1000, mark);
                *last = Some(datagram.clone());
                self.sent += 1;
                self.came_out += u64::from(world.send(datagram, sender.address).is_some());
            }
            Step::Forge { sender, bit } => {
                let Some(Near { sender, .. }) = self.ends.get(sender % count) else { return };
                let mut stranger = Sender::new(&sender.hop, "203.0.113.66:6");
                stranger.next = sender.next;
                let mut datagram = stranger.datagram(1000);
                datagram[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(world.send(datagram, stranger.address), None);
            }
            Step::Replay { sender } => {
                let Some(Near { sender, last: Some(last), .. }) = self.ends.get(sender % count) else {
                    return;
                };
                assert_eq!(world.send(last.clone(), sender.address), None);
            }
            Step::Pass { ms } => {
                world.pass(Duration::from_millis(ms));
                self.came_out += world.waiting().len() as u64;
            }
        }
    }
}

proptest! {
    #[test]
    fn every_datagram_is_accounted_for(steps in proptest::collection::vec(step(), 1..400)) {
        let mut world = World::with(|config| config.max_waiting = 100);
        let mut model = Model::default();
        for step in steps {
            model.apply(step, &mut world);
        }
        let left: Vec<_> = world.relay.sessions(world.now).collect();
        prop_assert_eq!(left.len(), model.ends.len());
        let waiting: u64 = left.iter().map(|session| u64::from(session.to_far.waiting)).sum();
        let dropped: u64 = left.iter().map(|session| session.to_far.dropped.iter().sum::<u64>()).sum();
        let full = world.relay.refusals.queue_full;
        prop_assert_eq!(model.came_out + waiting + dropped + full + model.of_removed, model.sent);
    }
}
