//! What must be refused is refused, counted, and changes nothing else.

use std::net::SocketAddr;
use std::time::Duration;

use psmc_core::{ConnectionId, Event, PathState, Refusal, SchedulerKind};
use psmc_wire::control::{About, Capabilities, CloseReason, Hello, Message, PathInfo, Seen, Tier, VERSION};
use psmc_wire::crypto::{Aead, KeySource, PacketKey, Role, TAG_LEN};
use psmc_wire::datagram::{HEADER_LEN, Header, Marks, TIMESTAMP_LEN, nonce};
use psmc_wire::drops::Drops;
use psmc_wire::frame::{
    AckHeader, DataFrame, FrameWriter, PacketRange, PathStats, PathUse, PathUseFrame, RekeyFrame,
};
use psmc_wire::shed::Ask;
use psmc_wire::{Bucket, Checksum, FlowSeq, Incarnation, Label, PacketNumber, PathId};

use crate::world::crypto::TestKeys;
use crate::world::{HQ, Link, TCP, VAN, World, address, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A world with some traffic behind it.
fn busy_world() -> World {
    let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Wrr);
    for number in 0..50 {
        for from in [VAN, HQ] {
            world.send(from, &packet(from, TCP, 1, number, 500));
        }
        world.run_for(ms(2));
    }
    world.run_for(ms(300));
    world
}

/// All that a site's peers and paths are, down to their counters.
fn digest(world: &World) -> String {
    let site = |end: usize| format!("{:?} {:?}", world.status(end), world.ends[end].site.poll_timeout());
    format!("{} {}", site(VAN), site(HQ))
}

/// What a site is but for the statistics of what it has received, which authentic datagrams change.
fn meaning(world: &World, end: usize) -> String {
    let mut status = world.status(end);
    for path in &mut status.paths {
        path.received = PathStats::default();
    }
    status.counters = Default::default();
    let paths: Vec<_> = status
        .paths
        .iter()
        .map(|path| {
            (path.id, path.state, path.usage, path.address, path.weight, &path.name, path.inflight_bytes)
        })
        .collect();
    format!("{paths:?} {:?} {:?} {:?}", status.reorder, status.queued_packets, status.connected_since)
}

fn refusals(world: &World, end: usize) -> Vec<(Refusal, u64)> {
    world.ends[end].site.refusals().iter().collect()
}

/// Does something to an end, and expects it to be refused for that reason, once, and nothing else to be counted.
fn expect_refusal(world: &mut World, end: usize, refusal: Refusal, what: &str, act: impl FnOnce(&mut World)) {
    let before = refusals(world, end);
    act(world);
    for ((kind, before), (_, after)) in before.into_iter().zip(refusals(world, end)) {
        assert_eq!(after - before, u64::from(kind == refusal), "{what}: {kind:?}");
    }
}

/// Somebody who has the van's keys, and writes what the van never would.
struct Insider {
    key: Box<dyn PacketKey>,
    label: Label,
    next: u64,
}

impl Insider {
    fn new(world: &World) -> Self {
        Self::of_connection(world, world.last_connection())
    }

    /// With the keys of any connection, and the label that counts.
    fn of_connection(world: &World, connection: u64) -> Self {
        let key = TestKeys { connection }.packet_key(Aead::Aes256Gcm, Role::Dialer, 0);
        let to_hq = world.tapped.iter().find(|(_, to, _)| *to == HQ).expect("a datagram to headquarters");
        let label = Header::parse(&to_hq.2).expect("a datagram").label;
        Self { key, label, next: 10_000 }
    }

    fn datagram(&mut self, path: u16, write: impl FnOnce(&mut FrameWriter<'_>)) -> Vec<u8> {
        let (path, number) = (PathId(path), PacketNumber(self.next));
        self.next += 1;
        let mut room = [0; 1400];
        let mut writer = FrameWriter::new(&mut room);
        write(&mut writer);
        let len = writer.len();
        let (label, packet_number) = (self.label, number.truncated());
        let header = Header { epoch: 0, marks: Marks::default(), path, label, packet_number };
        let mut datagram = header.encode().to_vec();
        datagram.extend([0; TIMESTAMP_LEN]);
        datagram.extend(&room[..len]);
        let tag = self.key.seal(nonce(path, number), &header.associated_data(), &mut datagram[HEADER_LEN..]);
        datagram.extend(tag);
        datagram
    }
}

fn ping(frames: &mut FrameWriter<'_>) {
    assert!(frames.ping());
}

fn stranger() -> SocketAddr {
    "203.0.113.66:666".parse().expect("an address")
}

/// Gives headquarters a datagram that must be refused, and expects that nothing at all comes of it.
fn expect_no_effect(world: &mut World, to: usize, refusal: Refusal, datagram: &[u8], what: &str) {
    let before = digest(world);
    expect_refusal(world, to, refusal, what, |world| {
        world.inject(0, to, &mut datagram.to_vec(), stranger());
        world.settle();
    });
    assert_eq!(digest(world), before, "{what}");
}

#[test]
fn what_is_not_authentic_changes_nothing() {
    let mut world = busy_world();
    let mut outsider = Insider::of_connection(&world, 77);
    let wrong_key = outsider.datagram(0, ping);
    expect_no_effect(&mut world, HQ, Refusal::Unauthenticated, &wrong_key, "wrong key");
    let unopened = outsider.datagram(100, ping);
    expect_no_effect(&mut world, HQ, Refusal::Unauthenticated, &unopened, "wrong key on a path to be opened");
    let mut insider = Insider::new(&world);
    insider.label = Label(insider.label.0 ^ 1);
    let unknown = insider.datagram(0, ping);
    expect_no_effect(&mut world, HQ, Refusal::UnknownLabel, &unknown, "unknown label");
    for len in 0..200 {
        let garbage: Vec<u8> = (0..len).map(|i| (i * 37 % 251) as u8).collect();
        expect_no_effect(&mut world, HQ, Refusal::Malformed, &garbage, "garbage");
    }
}

#[test]
fn truncated_and_altered_datagrams_change_nothing_and_the_original_is_still_good() {
    let mut world = busy_world();
    let mut insider = Insider::new(&world);
    let original = insider.datagram(0, |frames| assert!(frames.path_challenge([7; 8])));
    for len in 0..original.len() {
        let refusal = if len < HEADER_LEN + TIMESTAMP_LEN + TAG_LEN {
            Refusal::Malformed
        } else {
            Refusal::Unauthenticated
        };
        expect_no_effect(&mut world, HQ, refusal, &original[..len], &format!("cut at {len}"));
    }
    for bit in (0..original.len() * 8).filter(|bit| bit / 8 != 1) {
        let mut altered = original.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let refusal = match bit / 8 {
            0 if bit % 8 >= 4 => Refusal::Malformed,
            // Paths with an odd number are not the van's to open.
            3 if bit % 8 == 0 => Refusal::NoSuchPath,
            4..8 => Refusal::UnknownLabel,
            _ => Refusal::Unauthenticated,
        };
        expect_no_effect(&mut world, HQ, refusal, &altered, &format!("bit {bit}"));
    }
    let mut marked = original.clone();
    marked[1] = 0xff;
    let before = world.status(HQ).paths[0].received.packets;
    let counted = refusals(&world, HQ);
    world.inject(0, HQ, &mut marked, address(0, VAN));
    assert_eq!(world.status(HQ).paths[0].received.packets, before + 1, "relays may set marks");
    assert_eq!(refusals(&world, HQ), counted);
}

/// Whoever is on the way has held the newest datagram back, and sends it on from elsewhere.
#[test]
fn a_datagram_that_is_sent_on_from_elsewhere_moves_nothing() {
    let mut world = busy_world();
    let mut insider = Insider::new(&world);
    let elsewhere: SocketAddr = "10.1.0.99:4000".parse().expect("an address");
    let before = world.status(HQ).paths[0].address;
    let sent = |world: &World| world.status(HQ).paths[0].counters.tx_bytes;
    let (sent_before, held_back) = (sent(&world), insider.datagram(0, ping));
    world.inject(0, HQ, &mut held_back.clone(), elsewhere);
    world.settle();
    let asked = sent(&world) - sent_before;
    assert!((1..=3 * held_back.len() as u64).contains(&asked), "{asked}");
    // The van answers the challenge that was passed on to it, from where it is; somebody guesses.
    world.run_for(Duration::from_secs(2));
    let mut guess = insider.datagram(0, |frames| assert!(frames.path_response([0; 8])));
    world.inject(0, HQ, &mut guess, elsewhere);
    world.run_for(ms(100));
    assert_eq!(world.status(HQ).paths[0].address, before);
    assert_eq!(world.status(HQ).paths[0].state, PathState::Active);
    // It has really moved there.
    world.links[0].nat = Some(elsewhere);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.status(HQ).paths[0].address.remote, elsewhere);
}

#[test]
fn every_datagram_is_good_once_whatever_happens_later() {
    let mut world = busy_world();
    let tapped: Vec<_> = world.tapped.iter().cloned().collect();
    let (replayed, gone) = (Refusal::Replayed, Refusal::NoSuchPath);
    for (_, to, datagram) in &tapped {
        expect_no_effect(&mut world, *to, replayed, datagram, "at once");
    }
    // The window has moved on by more than it holds of the past.
    for number in 0..34_000 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 1400));
        world.run_for(Duration::from_micros(200));
    }
    world.run_for(ms(300));
    for (_, to, datagram) in &tapped {
        expect_no_effect(&mut world, *to, replayed, datagram, "later");
    }
    let (path, now) = (world.status(VAN).paths[0].id, world.now);
    let van = &mut world.ends[VAN];
    van.path(path).remove(now).expect("the path is open");
    world.run_for(Duration::from_secs(5));
    for (_, to, datagram) in &tapped {
        let of_removed = Header::parse(datagram).expect("a datagram").path == path;
        let refusal = if of_removed { gone } else { replayed };
        expect_no_effect(&mut world, *to, refusal, datagram, "after the path was removed");
    }
    world.run_for(Duration::from_secs(400));
    assert!(world.status(VAN).key_rolls >= 2);
    for (_, to, datagram) in &tapped {
        let of_removed = Header::parse(datagram).expect("a datagram").path == path;
        let refusal = if of_removed { gone } else { replayed };
        expect_no_effect(&mut world, *to, refusal, datagram, "after the key rolled");
    }
    world.restart(VAN);
    world.run_for(Duration::from_secs(2));
    for (_, to, datagram) in &tapped {
        expect_no_effect(&mut world, *to, Refusal::UnknownLabel, datagram, "after a restart");
    }
}

#[test]
fn frames_that_cannot_be_true_are_refused() {
    let mut world = busy_world();
    let mut insider = Insider::new(&world);
    let ack = |path: u16, last: u64| {
        move |frames: &mut FrameWriter<'_>| {
            let header = AckHeader {
                path: PathId(path),
                largest: PacketNumber(last).truncated(),
                delay_us: 0,
                received_at_us: 0,
                ect0: 0,
                congestion_experienced: 0,
            };
            let all = PacketRange { first: PacketNumber(0), last: PacketNumber(last) };
            assert!(frames.ack(&header, [all].into_iter()));
        }
    };
    let closing = |path: u16| {
        move |frames: &mut FrameWriter<'_>| {
            assert!(frames.path_use(PathUseFrame {
                path: PathId(path),
                sequence: 9,
                usage: PathUse::Closed
            }));
        }
    };
    let stats = |frames: &mut FrameWriter<'_>| assert!(frames.path_stats(PathId(1), &PathStats::default()));
    let unknown_frame = |frames: &mut FrameWriter<'_>| assert!(frames.raw(&[0x7f]));
    let cases = [
        ("an acknowledgement of what was never sent", Refusal::Malformed, insider.datagram(0, ack(0, 5_000))),
        ("an acknowledgement for an unknown path", Refusal::NoSuchPath, insider.datagram(0, ack(1, 3))),
        (
            "a wish for a path that is not the van's to open",
            Refusal::NoSuchPath,
            insider.datagram(0, closing(1)),
        ),
        ("statistics of an unknown path", Refusal::NoSuchPath, insider.datagram(0, stats)),
        ("an unknown frame", Refusal::Malformed, insider.datagram(0, unknown_frame)),
        ("a path that is not the van's to open", Refusal::NoSuchPath, insider.datagram(1, ping)),
    ];
    for (what, refusal, datagram) in cases {
        let before = meaning(&world, HQ);
        expect_refusal(&mut world, HQ, refusal, what, |world| {
            world.inject(0, HQ, &mut datagram.clone(), address(0, VAN));
        });
        assert_eq!(meaning(&world, HQ), before, "{what}");
    }
}

#[test]
fn inner_packets_that_are_none_or_come_from_elsewhere_are_refused() {
    let mut world = busy_world();
    let mut insider = Insider::new(&world);
    let mut foreign = packet(VAN, TCP, 1, 7, 100);
    foreign[12..16].copy_from_slice(&[8, 8, 8, 8]);
    let own = packet(HQ, TCP, 1, 7, 100);
    let whole = packet(VAN, TCP, 1, 7, 100);
    let cases: [(Refusal, &[u8]); 6] = [
        (Refusal::ForeignSource, &foreign),
        (Refusal::ForeignSource, &own),
        (Refusal::BadPacket, &[]),
        (Refusal::BadPacket, &[0; 60]),
        (Refusal::BadPacket, &whole[..99]),
        (Refusal::BadPacket, &[0x60; 39]),
    ];
    for (refusal, inner) in cases {
        let bucket = Bucket::new(1).expect("a bucket");
        let frame = DataFrame {
            bucket,
            seq: FlowSeq(0),
            ordered: true,
            repaired: false,
            checksum: Checksum::Complete,
            part: None,
            packet: inner,
        };
        let mut datagram = insider.datagram(0, |frames| assert!(frames.data(&frame)));
        let (before, delivered) = (meaning(&world, HQ), world.ends[HQ].delivered.len());
        expect_refusal(&mut world, HQ, refusal, "inner packet", |world| {
            world.inject(0, HQ, &mut datagram, address(0, VAN));
        });
        assert_eq!(meaning(&world, HQ), before);
        world.settle();
        assert_eq!(world.ends[HQ].delivered.len(), delivered);
    }
}

#[test]
fn a_peer_opens_a_bounded_number_of_paths() {
    let mut world = busy_world();
    let mut insider = Insider::new(&world);
    for path in 0..1000 {
        let mut datagram = insider.datagram(100 + 2 * path, ping);
        world.inject(0, HQ, &mut datagram, address(0, VAN));
    }
    assert_eq!(world.status(HQ).paths.len(), 2 * psmc_core::MAX_PATHS);
    assert_eq!(
        world.ends[HQ].site.refusals().get(Refusal::NoSuchPath),
        1000 + 2 - 2 * psmc_core::MAX_PATHS as u64
    );
    for from in [VAN, HQ] {
        world.send(from, &packet(from, TCP, 9, 12_345, 500));
    }
    world.run_for(ms(500));
    assert!([VAN, HQ].iter().all(|&end| world.numbers(end).contains(&12_345)));
}

/// A control connection to headquarters that the world knows nothing of.
fn connect(world: &mut World, id: u64) -> ConnectionId {
    let (hq, now, id) = (&mut world.ends[HQ], world.now, ConnectionId(id));
    let keys = Box::new(TestKeys { connection: id.0 });
    hq.site.handle_connected(hq.peer, id, Role::Acceptor, keys, now).expect("the peer exists");
    id
}

fn say(world: &mut World, id: ConnectionId, message: Message) {
    let now = world.now;
    world.ends[HQ].site.handle_message(id, message, now);
}

fn was_hung_up(world: &mut World, id: ConnectionId) -> bool {
    world.settle();
    world.ends[HQ].events.contains(&Event::Hangup(id))
}

fn hello(incarnation: u64, version: u16) -> Message {
    Message::Hello(Hello {
        version,
        incarnation: Incarnation(incarnation),
        label: Label(5),
        aead: Aead::Aes256Gcm,
        mtu: 1400,
        name: "mallory".to_owned(),
        capabilities: Capabilities::default(),
    })
}

fn path_info(path: u16) -> Message {
    let (name, tier) = ("renamed".to_owned(), Tier::default());
    Message::PathInfo(PathInfo { path: PathId(path), weight: 7, max_rate: None, name, tier })
}

#[test]
fn messages_out_of_turn_are_refused_and_the_data_plane_lives_on() {
    let mut world = busy_world();
    let before = meaning(&world, HQ);
    let nobody = ConnectionId(999);
    for message in [hello(1, VERSION), path_info(0), Message::Close(CloseReason::Shutdown)] {
        expect_refusal(&mut world, HQ, Refusal::OutOfTurn, "unknown connection", |world| {
            say(world, nobody, message);
        });
    }
    let early = connect(&mut world, 1001);
    let about = Message::About(About { software: "mallory".to_owned() });
    let seen = Message::Seen(Seen { paths: vec![(PathId(0), address(0, VAN))] });
    let drops = Message::Drops(Drops::default());
    let shed = Message::Shed(Ask { request: 1, serial: 1, lifetime_ms: 1000, rules: Vec::new() });
    for message in [path_info(0), about, seen, drops, shed] {
        expect_refusal(&mut world, HQ, Refusal::OutOfTurn, "before the hello", |world| {
            say(world, early, message)
        });
    }
    let old = connect(&mut world, 1002);
    expect_refusal(&mut world, HQ, Refusal::OutOfTurn, "old version", |world| {
        say(world, old, hello(1, VERSION - 1));
    });
    assert!(was_hung_up(&mut world, old));
    expect_refusal(&mut world, HQ, Refusal::OutOfTurn, "after the hang-up", |world| {
        say(world, old, hello(1, VERSION));
    });
    assert_eq!(meaning(&world, HQ), before);
    world.run_for(Duration::from_secs(6));
    assert!(was_hung_up(&mut world, early), "no hello came");
    assert!(world.path_states(HQ).values().all(|&state| state == PathState::Active));
}

#[test]
fn a_second_hello_ends_the_connection_and_nothing_else() {
    let mut world = busy_world();
    let current = ConnectionId(world.last_connection());
    let again = hello(1, VERSION);
    let before = meaning(&world, HQ);
    expect_refusal(&mut world, HQ, Refusal::OutOfTurn, "second hello", |world| say(world, current, again));
    assert_eq!(meaning(&world, HQ), before);
    assert!(was_hung_up(&mut world, current));
    for number in 100..200 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 500));
        world.run_for(ms(10));
    }
    world.run_for(ms(500));
    assert!((100..200).all(|number| world.numbers(HQ).contains(&number)));
    assert_eq!(world.connections(), 1, "and there is a new one");
}

#[test]
fn news_about_paths_that_are_not_the_peers_is_refused() {
    let mut world = busy_world();
    let current = ConnectionId(world.last_connection());
    for path in [1, 65_535] {
        let before = meaning(&world, HQ);
        expect_refusal(&mut world, HQ, Refusal::NoSuchPath, "foreign path", |world| {
            say(world, current, path_info(path));
        });
        assert_eq!(meaning(&world, HQ), before);
    }
    for path in 0..200 {
        say(&mut world, current, path_info(1000 + 2 * path));
    }
    assert_eq!(
        world.ends[HQ].site.refusals().get(Refusal::NoSuchPath),
        2 + 200 - psmc_core::MAX_PATHS as u64
    );
}

#[test]
fn connections_without_a_hello_are_bounded() {
    let mut world = busy_world();
    let ids: Vec<_> = (0..100).map(|n| connect(&mut world, 2000 + n)).collect();
    let hung_up = ids.iter().filter(|&&id| was_hung_up(&mut world, id)).count();
    assert_eq!(hung_up, 96);
    let current = ConnectionId(world.last_connection());
    assert!(!was_hung_up(&mut world, current), "the one in use is not among them");
    world.run_for(Duration::from_secs(6));
    assert!(ids.iter().all(|&id| was_hung_up(&mut world, id)));
    assert_eq!(world.connections(), 1);
}

#[test]
fn a_peer_can_neither_begin_exchanges_at_will_nor_with_useless_keys() {
    let mut world = busy_world();
    world.run_for(Duration::from_secs(2));
    let mut insider = Insider::new(&world);
    let regarding = insider.label;
    let mut ask = |world: &mut World, regarding, label, public: u8| {
        let mut frame = RekeyFrame { regarding, label: Label(label), public_key: [0; 32] };
        frame.public_key[7] = public;
        let datagram = insider.datagram(0, |frames| assert!(frames.rekey(&frame) && frames.rekeyed(&frame)));
        world.inject(0, HQ, &mut datagram.clone(), address(0, VAN));
        world.settle();
    };
    let before = world.status(HQ).key_generations;
    ask(&mut world, Label(regarding.0 ^ 1), 5, 9);
    expect_refusal(&mut world, HQ, Refusal::Malformed, "no secret follows", |world| {
        ask(world, regarding, 6, 0)
    });
    // The first one is answered, and all the others are not: nothing would come of more than one.
    let answers = |world: &World| world.links[0].carried_bytes[HQ];
    let (count, quiet) = (200, answers(&world));
    for label in 0..count {
        ask(&mut world, regarding, 100 + label, 9);
    }
    let told = answers(&world) - quiet;
    assert!(told < 20_000, "{told} bytes for {count} exchanges");
    assert_eq!(world.status(HQ).key_generations, before, "nobody has used it");
    for number in 500..600 {
        world.send(HQ, &packet(HQ, TCP, 1, number, 500));
        world.run_for(ms(10));
    }
    world.run_for(ms(500));
    assert!((500..600).all(|number| world.numbers(VAN).contains(&number)), "the keys in use stay in use");
}
