//! What is counted by colour, and when datagrams with the delay mark came.

use psmc_wire::counts::MAX_SAMPLES;
use psmc_wire::hop::HOP_HEADER_LEN;

use super::*;

/// A datagram of 1000 bytes with these marks, and this packet number.
fn datagram(sender: &mut Sender, colour: bool, delay: bool, number: u32) -> Vec<u8> {
    let mut datagram = vec![0; 1000];
    datagram[HOP_HEADER_LEN] = 0x50;
    datagram[HOP_HEADER_LEN + 8..HOP_HEADER_LEN + 12].copy_from_slice(&number.to_be_bytes());
    let marks = Marks { colour, delay, ..Marks::default() };
    write_hop_header(&mut datagram, &sender.hop, sender.next, marks);
    sender.next = sender.next.next();
    datagram
}

#[test]
fn what_comes_and_what_goes_on_is_counted_by_colour_and_direction() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut far = Sender::new(&session.far, "192.0.2.2:5115");
    for number in 0..7 {
        let sent = datagram(&mut near, number % 3 == 0, false, number);
        let (_, bare) = world.send(sent.clone(), near.address).unwrap();
        assert_eq!(bare[1] >> 3 & 1, u8::from(number % 3 == 0), "the colour goes on");
        assert_eq!(world.send(sent, near.address), None, "a replay");
    }
    let mut forged = datagram(&mut near, true, true, 7);
    forged[HOP_HEADER_LEN + 3] ^= 1;
    assert_eq!(world.send(forged, near.address), None);
    world.send(datagram(&mut far, true, false, 0), far.address).unwrap();
    let counts = world.relay.count(session.id, SITE, world.now).unwrap();
    assert_eq!((counts.to_far.received, counts.to_far.handed_on), ([4, 3], [4, 3]));
    assert_eq!((counts.to_near.received, counts.to_near.handed_on), ([0, 1], [0, 1]));
}

#[test]
fn what_its_queue_drops_is_received_and_not_handed_on() {
    let mut world = World::new();
    // One datagram in 10 ms, and ten times as many come.
    let session = world.session(Some(800_000));
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut handed_on = [0; 2];
    let colour_of = |bare: &[u8]| usize::from(bare[1] >> 3 & 1);
    for number in 0..5000 {
        let sent = datagram(&mut near, number % 1000 >= 500, false, number);
        if let Some((_, bare)) = world.send(sent, near.address) {
            handed_on[colour_of(&bare)] += 1;
        }
        world.pass(Duration::from_millis(1));
        for (_, bare) in world.waiting() {
            handed_on[colour_of(&bare)] += 1;
        }
    }
    let counts = world.relay.count(session.id, SITE, world.now).unwrap();
    assert_eq!(counts.to_far.received, [2500, 2500]);
    assert_eq!(counts.to_far.handed_on, handed_on, "by the colour that they came with");
    assert!(handed_on.iter().all(|&count| count > 100), "{handed_on:?}");
    let lane = world.status(session.id).unwrap().to_far;
    let dropped: u64 = lane.dropped.iter().sum();
    assert_eq!(handed_on.iter().sum::<u64>() + dropped + u64::from(lane.waiting), 5000);
}

#[test]
fn delay_samples_are_kept_once_somebody_has_asked_and_told_once() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    world.send(datagram(&mut near, false, true, 1), near.address).unwrap();
    let samples = |world: &mut World| world.relay.count(session.id, SITE, world.now).unwrap().to_far.samples;
    assert_eq!(samples(&mut world), [], "nobody had asked");
    world.pass(Duration::from_millis(250));
    world.send(datagram(&mut near, false, true, 2), near.address).unwrap();
    world.send(datagram(&mut near, false, false, 3), near.address).unwrap();
    let told: Vec<_> = samples(&mut world).iter().map(|sample| (sample.number, sample.at_us)).collect();
    assert_eq!(told, [(2, 250_000)]);
    assert_eq!(samples(&mut world), []);
    for number in 0..100 {
        world.send(datagram(&mut near, false, true, number), near.address).unwrap();
    }
    let told = samples(&mut world);
    assert_eq!((told.len(), told[0].number, told[MAX_SAMPLES - 1].number), (MAX_SAMPLES, 84, 99));
}

#[test]
fn nobody_is_told_of_a_session_of_another_site() {
    let mut world = World::new();
    let session = world.session(None);
    assert_eq!(world.relay.count(session.id, KeyBytes([2; 32]), world.now), Err(NoSession));
}
