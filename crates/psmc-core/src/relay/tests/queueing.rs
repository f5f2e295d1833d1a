//! Rates, and what waits for them.

use super::*;

const STEP: Duration = Duration::from_millis(1);

/// Where the test writes whose a datagram is, in the datagram without its hop header.
const WHOSE: usize = 880;

/// Offers `per_step` datagrams each millisecond for `steps`, from each of `senders`, and counts what comes out for each.
fn offer(world: &mut World, senders: &mut [(Sender, u8)], per_step: usize, steps: usize) -> Vec<usize> {
    let mut by_sender = vec![0; senders.len()];
    for _ in 0..steps {
        for _ in 0..per_step {
            for (index, (sender, mark)) in senders.iter_mut().enumerate() {
                let mut datagram = sender.marked(1000, *mark);
                datagram[HOP_HEADER_LEN + WHOSE] = u8::try_from(index).unwrap();
                if let Some((_, bytes)) = world.send(datagram, sender.address) {
                    by_sender[usize::from(bytes[WHOSE])] += 1;
                }
            }
        }
        world.pass(STEP);
        for (_, bytes) in world.waiting() {
            by_sender[usize::from(bytes[WHOSE])] += 1;
        }
    }
    by_sender
}

fn near(session: &Added) -> Sender {
    Sender::new(&session.near, "198.51.100.1:1000")
}

#[test]
fn a_session_gets_its_rate_and_no_more() {
    let mut world = World::new();
    // 1000 bytes at 8 Mbit/s: one a millisecond.
    let session = world.session(Some(8_000_000));
    let passed = offer(&mut world, &mut [(near(&session), 0)], 2, 10_000)[0];
    assert!((9_950..=10_050).contains(&passed), "{passed}");
    let status = world.status(session.id).unwrap();
    let dropped: u64 = status.to_far.dropped.iter().sum();
    assert_eq!(status.to_far.datagrams + dropped + u64::from(status.to_far.waiting), 20_000);
}

#[test]
fn below_its_rate_nothing_is_dropped() {
    let mut world = World::new();
    let session = world.session(Some(16_000_000));
    let passed = offer(&mut world, &mut [(near(&session), 2)], 1, 5_000)[0];
    assert_eq!(passed, 5_000);
}

#[test]
fn what_waits_keeps_its_order() {
    let mut world = World::new();
    let session = world.session(Some(800_000));
    let mut sender = near(&session);
    let sent: Vec<_> = (0..40).map(|_| sender.datagram(1000)).collect();
    let mut got: Vec<Vec<u8>> = Vec::new();
    for datagram in &sent {
        got.extend(world.send(datagram.clone(), sender.address).map(|(_, bytes)| bytes));
    }
    assert!(got.len() < 20, "the rest waits");
    while world.relay.poll_timeout() < world.start + Duration::from_secs(10) {
        world.now = world.relay.poll_timeout();
        got.extend(world.waiting().into_iter().map(|(_, bytes)| bytes));
    }
    let expected: Vec<_> = sent.iter().map(|datagram| datagram[HOP_HEADER_LEN..].to_vec()).collect();
    assert_eq!(got, expected);
}

#[test]
fn expendable_datagrams_are_dropped_first() {
    let mut world = World::new();
    let session = world.session(Some(8_000_000));
    let mut sender = near(&session);
    // Twice the rate in all: 60 % of it DP0, 60 % DP1, 80 % DP2.
    let mut offered = [0u64; 3];
    for step in 0..30_000u64 {
        let mark = match step % 10 {
            0..3 => 0,
            3..6 => 1,
            _ => 2,
        };
        offered[usize::from(mark)] += 1;
        world.send(sender.marked(1000, mark), sender.address);
        if step % 2 == 1 {
            world.pass(STEP);
            world.waiting();
        }
    }
    let dropped = world.status(session.id).unwrap().to_far.dropped;
    let share = |mark: usize| dropped[mark] as f64 / offered[mark] as f64;
    assert!(share(0) < 0.01, "{dropped:?} of {offered:?}");
    assert!(share(1) < share(2) && share(2) > 0.5, "{dropped:?} of {offered:?}");
}

#[test]
fn a_cap_is_kept_and_lifted() {
    let mut world = World::new();
    let session = world.session(Some(8_000_000));
    world.relay.cap(session.id, SITE, Some(800_000)).unwrap();
    let passed = offer(&mut world, &mut [(near(&session), 0)], 1, 5_000)[0];
    assert!((490..=530).contains(&passed), "{passed}");
    world.relay.cap(session.id, SITE, Some(80_000_000)).unwrap();
    assert_eq!(world.status(session.id).unwrap().rate, Some(8_000_000), "no more than was agreed");
    world.relay.cap(session.id, SITE, None).unwrap();
    assert_eq!(world.status(session.id).unwrap().rate, Some(8_000_000));
}

#[test]
fn sessions_share_the_relays_rate_evenly() {
    let total = Arc::new(Limiter::new(Some(8_000_000)));
    let mut world = World::with(|config| config.total = total);
    let mut senders: Vec<_> = (0..4).map(|_| (near(&world.session(None)), 0)).collect();
    let passed = offer(&mut world, &mut senders, 1, 8_000);
    assert!((7_900..=8_100).contains(&passed.iter().sum::<usize>()), "{passed:?}");
    assert!(passed.iter().all(|passed| (1_800..=2_200).contains(passed)), "{passed:?}");
}

#[test]
fn a_site_shares_its_rate_among_its_sessions_in_each_direction() {
    let mut world = World::new();
    world.account.set_rate(Some(8_000_000));
    let (one, two) = (world.session(None), world.session(None));
    let passed: usize = offer(&mut world, &mut [(near(&one), 0), (near(&two), 0)], 1, 4_000).iter().sum();
    assert!((3_950..=4_050).contains(&passed), "{passed}");
    for _ in 0..200 {
        world.pass(STEP);
        world.waiting();
    }
    let mut back = [(Sender::new(&one.far, "192.0.2.2:5115"), 0)];
    assert!(offer(&mut world, &mut back, 1, 1_000)[0] >= 990, "the other direction has its own");
}

#[test]
fn what_waits_is_bounded_in_all() {
    let mut world = World::with(|config| config.max_waiting = 50);
    let sessions: Vec<_> = (0..4).map(|_| world.session(Some(16_000))).collect();
    for session in &sessions {
        let mut sender = near(session);
        for _ in 0..45 {
            world.send(sender.datagram(1000), sender.address);
        }
    }
    let waiting: u32 = world.relay.sessions(world.now).map(|session| session.to_far.waiting).sum();
    assert_eq!(waiting, 50);
    assert!(world.relay.refusals.queue_full > 0);
    for session in &sessions {
        world.relay.remove(session.id, SITE, world.now).unwrap();
    }
    world.pass(Duration::from_secs(3600));
    assert_eq!(world.waiting(), []);
}
