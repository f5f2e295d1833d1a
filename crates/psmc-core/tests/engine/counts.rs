//! Datagrams counted by colour at both sites and at the relay between them: what a segment has lost is the difference.

use std::time::Duration;

use psmc_core::{Event, Refusal, SchedulerKind};
use psmc_wire::control::Message;
use psmc_wire::counts::{BLOCK_US, Counts};

use crate::world::{HQ, Link, UDP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn counts(world: &mut World, end: usize) -> Counts {
    let (now, end) = (world.now, &mut world.ends[end]);
    end.site.peer(end.peer).expect("the peer exists").counts(now)
}

/// Sends a packet each way every millisecond.
fn exchange(world: &mut World, packets: u32) {
    for i in 0..packets {
        world.send(VAN, &packet(VAN, UDP, 1, i, 400));
        world.send(HQ, &packet(HQ, UDP, 1, i, 400));
        world.run_for(ms(1));
    }
}

/// Runs until this long after a change of the van's colour.
fn run_into_block(world: &mut World, into: u64) {
    let clock = counts(world, VAN).clock_us;
    let to_next = BLOCK_US - clock % BLOCK_US;
    world.run_for(Duration::from_micros(to_next) + ms(into));
}

fn total(by_colour: [u64; 2]) -> u64 {
    by_colour.iter().sum()
}

#[test]
fn both_ends_count_the_same_and_what_the_link_has_lost_is_the_difference() {
    let mut link = Link::new(10).loss_one_in(20);
    (link.duplicate_one_in, link.reorder_one_in) = (30, 30);
    let mut world = World::connected(vec![link], SchedulerKind::Earliest);
    exchange(&mut world, 3000);
    // Long enough for all that is on its way, and shorter than any keepalive.
    world.run_for(ms(200));
    let [van, hq] = [VAN, HQ].map(|end| counts(&mut world, end).paths.remove(0));
    assert_eq!(van.path, hq.path);
    let lost = (total(van.sent) - total(hq.received)) + (total(hq.sent) - total(van.received));
    assert!(lost > 100, "{lost}");
    assert_eq!(lost, world.links[0].dropped);
    assert!(total(van.sent) > 3000 && van.sent.iter().all(|&sent| sent > 1000), "{:?}", van.sent);
}

#[test]
fn the_counts_of_a_colour_rest_while_the_other_one_is_sent() {
    let mut world = World::connected(vec![Link::new(40)], SchedulerKind::Earliest);
    run_into_block(&mut world, 100);
    let mut before = None;
    for _ in 0..20 {
        let van = counts(&mut world, VAN);
        let resting = usize::from((van.clock_us / BLOCK_US).is_multiple_of(2));
        let sent = van.paths[0].sent[resting];
        assert_eq!(counts(&mut world, HQ).paths[0].received[resting], sent, "nothing is lost");
        assert_ne!(before.replace((resting, sent)), Some((resting, sent)), "colours take turns");
        exchange(&mut world, 350);
        assert_eq!(counts(&mut world, VAN).paths[0].sent[resting], sent, "it rests");
        run_into_block(&mut world, 100);
    }
}

#[test]
fn a_relay_counts_as_the_sites_do_and_shows_on_which_side_of_it_is_lost() {
    let mut world = World::new(Vec::new(), SchedulerKind::Earliest);
    world.links = vec![Link::new(20)];
    world.stand_relay(0);
    let path = world.add_relayed_path(0);
    world.lead_path(path, 0);
    // Samples are kept from here on.
    let _ = world.relays.counts(0, world.now);
    world.run_for(ms(1000));
    let lost_before = world.links[0].dropped;
    assert_eq!(lost_before, 0);
    world.links[0].loss_one_in = 20;
    exchange(&mut world, 700);
    let passed = world.relays.counts(0, world.now);
    let arrived = counts(&mut world, HQ).paths.remove(0);
    exchange(&mut world, 1300);
    world.run_for(ms(200));

    let [van, hq] = [VAN, HQ].map(|end| counts(&mut world, end).paths.remove(0));
    let relay = world.relays.counts(0, world.now);
    // The relay stands at the end from which a datagram comes: all loss is behind it.
    assert_eq!((van.sent, hq.sent), (relay.to_far.received, relay.to_near.received));
    assert_eq!(relay.to_far.received, relay.to_far.handed_on);
    let lost = (total(relay.to_far.handed_on) - total(hq.received))
        + (total(relay.to_near.handed_on) - total(van.received));
    assert!(lost > 100, "{lost}");
    assert_eq!(lost, world.links[0].dropped);

    let (passed, arrived) = (passed.to_far.samples, arrived.samples);
    assert!(arrived.len() >= 10, "{arrived:?}");
    for sample in &arrived {
        let Some(at_relay) = passed.iter().find(|passed| passed.number == sample.number) else { continue };
        // Here all have the same clock, if not its beginning; the way from the relay takes 20 ms.
        let behind = sample.received_us.wrapping_sub(sample.sent_us);
        let first = arrived[0].received_us.wrapping_sub(arrived[0].sent_us);
        assert_eq!(behind, first, "all take the same time");
        let first = passed.iter().find(|passed| passed.number == arrived[0].number).expect("it has passed");
        let at_relay = at_relay.at_us.wrapping_sub(first.at_us);
        assert_eq!(at_relay, sample.sent_us.wrapping_sub(arrived[0].sent_us));
    }
}

fn told(world: &World, end: usize) -> Vec<&Counts> {
    let counts = world.ends[end].events.iter().filter_map(|event| {
        let Event::Counts { counts, .. } = event else { return None };
        Some(&**counts)
    });
    counts.collect()
}

fn ask(world: &mut World, end: usize) {
    let end = &mut world.ends[end];
    assert!(end.site.peer(end.peer).expect("the peer exists").ask_for_counts());
}

#[test]
fn a_peer_tells_what_it_has_counted_when_it_is_asked() {
    let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Earliest);
    exchange(&mut world, 300);
    world.run_for(ms(200));
    assert!(told(&world, VAN).is_empty());
    let received = |counts: &Counts| counts.paths.iter().map(|path| path.received).collect::<Vec<_>>();
    let before = received(&counts(&mut world, HQ));
    ask(&mut world, VAN);
    world.run_for(ms(50));
    let after = received(&counts(&mut world, HQ));
    let [answer] = told(&world, VAN)[..] else { panic!("{:?}", told(&world, VAN)) };
    let told_of = received(answer);
    assert_eq!(told_of.len(), 2);
    let all = before.iter().zip(&told_of).zip(&after);
    let mut all = all.flat_map(|((before, told), after)| {
        [0, 1].map(|colour| (before[colour], told[colour], after[colour]))
    });
    assert!(all.all(|(before, told, after)| before <= told && told <= after), "{answer:?}");
    assert!(answer.paths.iter().all(|path| !path.samples.is_empty()), "{answer:?}");
    // Each sample is told once.
    world.run_for(ms(100));
    ask(&mut world, VAN);
    world.run_for(ms(50));
    let [first, second] = told(&world, VAN)[..] else { panic!("{:?}", told(&world, VAN)) };
    for (first, second) in first.paths.iter().zip(&second.paths) {
        assert!(second.samples.iter().all(|sample| !first.samples.contains(sample)), "{second:?}");
    }
}

#[test]
fn questions_that_come_too_often_and_answers_that_nobody_wants_are_ignored() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    for _ in 0..50 {
        ask(&mut world, VAN);
        world.run_for(ms(10));
    }
    // Whoever asks again does not want the answer to the question before.
    let refused = world.ends[VAN].site.refusals().get(Refusal::OutOfTurn);
    let answered = told(&world, VAN).len() as u64 + refused;
    assert!((5..=6).contains(&answered), "{answered} in half a second");
    let (before, now) = (world.ends[HQ].site.refusals().get(Refusal::OutOfTurn), world.now);
    let connection = psmc_core::ConnectionId(world.last_connection());
    world.ends[HQ].site.handle_message(connection, Message::Counts(Counts::default()), now);
    world.run_for(ms(100));
    assert!(told(&world, HQ).is_empty());
    assert_eq!(world.ends[HQ].site.refusals().get(Refusal::OutOfTurn), before + 1);
}

/// What is sent in ten seconds on an idle path of which a datagram in each interval is wanted, or none.
fn sent_when_filled(interval: Option<u64>, link: Link) -> (u64, u64) {
    let mut world = World::connected(vec![link], SchedulerKind::Earliest);
    world.run_for(ms(1000));
    let before = [VAN, HQ].map(|end| total(counts(&mut world, end).paths[0].sent));
    if let Some(interval) = interval {
        let until = world.now + ms(10_000);
        let end = &mut world.ends[VAN];
        let path = end.site.status(end.peer).expect("a peer").paths[0].id;
        let peer = end.site.peer(end.peer).expect("a peer");
        peer.path(path).expect("a path").fill_gaps(ms(interval), until);
    }
    world.run_for(ms(12_000));
    let after = [VAN, HQ].map(|end| total(counts(&mut world, end).paths[0].sent));
    (after[0] - before[0], after[1] - before[1])
}

#[test]
fn an_idle_path_is_filled_in_both_directions_for_as_long_as_is_wanted() {
    let (idle, _) = sent_when_filled(None, Link::new(10));
    assert!(idle < 50, "{idle}");
    let (sent, answered) = sent_when_filled(Some(100), Link::new(10));
    assert!((100..=100 + idle + 5).contains(&sent), "{sent} and {idle} without");
    assert!(answered >= 100, "{answered}");
}

#[test]
fn traffic_takes_the_place_of_what_fills_a_path() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    exchange(&mut world, 500);
    let until = world.now + ms(10_000);
    let end = &mut world.ends[VAN];
    let path = end.site.status(end.peer).expect("a peer").paths[0].id;
    end.site.peer(end.peer).unwrap().path(path).unwrap().fill_gaps(ms(5), until);
    let before = total(counts(&mut world, VAN).paths[0].sent);
    exchange(&mut world, 1000);
    let sent = total(counts(&mut world, VAN).paths[0].sent) - before;
    // A packet in each millisecond, and acknowledgements of as many that came; none of what would come in each fifth one.
    assert!(sent < 1700, "{sent}");
}
