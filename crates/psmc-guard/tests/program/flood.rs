//! Floods, and what follows.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use psmc_guard::status::{Attack, Status};
use psmc_net::packet::PacketPort;
use psmc_signal::{AlertKind, Client, Message, Mitigation, RelayOffer, Stage};
use psmc_testbed::netns::Namespace;
use psmc_testbed::stalls::{StallWatch, Stalls};

use crate::parts::{Coordinator, Gateway};
use crate::world::{LINE, NAME, SERVICE, World, coordinator_section, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

/// Samples from the first one with a flood in it to the alarm: five above the limit, and a first one that has only a
/// little of the flood.
const SAMPLES: u32 = 6;

/// Something that sends until it is dropped.
struct Sending {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Sending {
    /// Calls `send` once for each interval, as often as that takes to keep up.
    fn start(interval: Duration, mut send: impl FnMut() -> u64 + Send + 'static) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = thread::spawn(move || {
            let begin = Instant::now();
            let mut due = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(due.saturating_sub(begin.elapsed()));
                due += interval;
                count.fetch_add(send(), Ordering::Relaxed);
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    /// UDP of 1000 bytes to the service at a rate in bits per second.
    fn udp(world: &World, bits_per_second: u64) -> Self {
        let socket: UdpSocket = world.outside.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        let target = world.target();
        let batch = (bits_per_second / 8_000_000).max(1);
        let interval = Duration::from_nanos(batch * 8_000_000_000_000 / bits_per_second);
        // What does not fit into the socket's buffer is as lost as what does not fit into the line's queue.
        Self::start(interval, move || {
            (0..batch).filter(|_| socket.send_to(&[0; 1000], target).is_ok()).count() as u64
        })
    }

    fn wait_for_the_first(&self) {
        wait_for("the first packet", || (self.sent.load(Ordering::Relaxed) > 0).then_some(()));
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // If it has panicked, it has ended, too.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Waits for the attack that comes after `before`, and returns it with the number of samples in between.
fn attack_after(world: &World, before: &Status) -> (Attack, u64) {
    let (attack, samples) = wait_for("the attack", || {
        let status = world.status().engine;
        Some((status.services[0].attack.clone()?, status.counts.samples))
    });
    // Its age is that of so many samples, or fewer if they were late.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    let since = (attack.age_s * 10.0) as u64;
    let needed = samples.saturating_sub(since + before.engine.counts.samples);
    (attack, needed)
}

/// Asserts that an attack was found in as few samples as can be. Those in which the flood stands still have none of it.
fn assert_soon(samples: u64, stalls: Stalls) {
    let samples = f64::from(u32::try_from(samples).unwrap());
    assert!(stalls.left_of(samples) <= f64::from(SAMPLES), "{samples}, {stalls:?}");
}

pub(crate) fn relay() -> RelayOffer {
    RelayOffer {
        name: "fra1".to_owned(),
        address: "198.51.100.7:5115".parse().unwrap(),
        public_key: "the relay's key".to_owned(),
        grant: Some("a grant".to_owned()),
    }
}

pub(crate) fn mitigation(stage: Stage, relays: Vec<RelayOffer>) -> Message {
    let service = NAME.to_owned();
    Message::Mitigation(Mitigation { id: 1, service, stage, relays, expires: u64::MAX, is_last: true })
}

fn clients(revision: u64, names: &[&str]) -> Message {
    let client = |name: &&str| Client {
        name: (*name).to_owned(),
        public_key: format!("key of {name}"),
        allowed_ips: vec!["10.77.0.2/32".to_owned()],
    };
    let clients = names.iter().map(client).collect();
    Message::Clients { service: NAME.to_owned(), revision, clients, is_last: true }
}

#[test]
fn a_flood_is_found_said_answered_and_its_end_as_well() {
    steadily(Measured::Time, || {
        let mut world = World::new(Some(LINE));
        let coordinator = Coordinator::start(&world.gateway, world.key.public());
        let gateway = Gateway::start(&world.file("psmcd.sock"));
        world.start_guard(
            &format!("gateway = '{}'", world.file("psmcd.sock").display()),
            &coordinator_section(coordinator.address, coordinator.key),
        );
        let visitors = Sending::udp(&world, LINE / 20);
        world.wait_until_learned();
        // The guard has told psmcd that there is nothing to register at, whatever an earlier guard has left.
        wait_for("a psmcd in order", || (gateway.told().register_sets == 1).then_some(()));
        assert!(world.status().engine.services[0].attack.is_none());

        let watch = StallWatch::start().unwrap();
        let flood = Sending::udp(&world, LINE * 10);
        flood.wait_for_the_first();
        let (begun, before) = (Instant::now(), world.status());
        let alert = coordinator.hear("the alert", |message| {
            let Message::Alert(alert) = message else { return None };
            Some(alert)
        });
        println!("a flood of {} times the line: alert after {} ms", 10, begun.elapsed().as_millis());
        let (attack, samples) = attack_after(&world, &before);
        println!("{samples} samples after the first that may have seen it; {:?}", attack.kind);
        let stalls = watch.finish();
        assert_soon(samples, stalls);
        assert_eq!((&*alert.service, alert.kind), (NAME, AlertKind::Rate));
        assert_eq!(alert.target, Some(format!("{SERVICE}/32")));
        assert!(alert.measured.bits > alert.usual.bits, "{alert:?}");
        wait_for("the coordinator's note", || {
            world.status().engine.services[0].attack.as_ref()?.noted.then_some(())
        });

        let asked = Instant::now();
        coordinator.say(clients(1, &["ann", "bob"]));
        coordinator.say(mitigation(Stage::Requested, vec![relay()]));
        let ready = coordinator.hear("readiness", |message| {
            let Message::Ready { id, relays, .. } = message else { return None };
            Some((id, relays))
        });
        println!("ready {} ms after the request", asked.elapsed().as_millis());
        assert_eq!(ready, (1, vec![relay().public_key]));
        let told = gateway.told();
        assert_eq!(
            (told.relays.len(), told.relays[0].address, &*told.grants),
            (1, relay().address, &["a grant".to_owned()][..])
        );
        wait_for("clients", || (gateway.told().peers == ["ann", "bob"]).then_some(()));
        let direct = coordinator.hear("a report", |message| {
            let Message::Report { direct, .. } = message else { return None };
            Some(direct)
        });
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let line = LINE as f64;
        assert!(direct.bits.unwrap() > stalls.left_of(line / 4.0), "{stalls:?}: {direct:?}");

        drop(flood);
        coordinator.hear("the end", |message| {
            let Message::Clear { id, .. } = message else { return None };
            (id == alert.id).then_some(())
        });
        coordinator.say(clients(2, &["bob"]));
        coordinator.say(mitigation(Stage::Withdrawn, Vec::new()));
        wait_for("the end of it all", || {
            let told = gateway.told();
            (told.relays.is_empty() && told.peers == ["bob"]).then_some(())
        });
        drop(visitors);
        world.stop_guard();
    });
}

/// What was asked for outlives the guard, and what was learned, too.
#[test]
fn a_guard_that_is_back_goes_on() {
    let mut world = World::new(Some(LINE));
    let gateway = Gateway::start(&world.file("psmcd.sock"));
    let of_guard = format!("gateway = '{}'", world.file("psmcd.sock").display());
    let coordinator = Coordinator::start(&world.gateway, world.key.public());
    world.start_guard(&of_guard, &coordinator_section(coordinator.address, coordinator.key));
    world.wait_until_learned();
    coordinator.say(mitigation(Stage::Active, vec![relay()]));
    coordinator.hear("readiness", |message| matches!(message, Message::Ready { .. }).then_some(()));
    world.stop_guard();
    assert_eq!(gateway.told().relays.len(), 1);
    drop(coordinator);
    world.start_guard(&of_guard, "");
    wait_for("the registration", || {
        world.status().engine.mitigations.first()?.relays.first()?.registered.then_some(())
    });
    // At no time was psmcd told to give it up.
    assert_eq!((gateway.told().relays.len(), gateway.told().register_sets), (1, 3));
    assert!(world.status().engine.services[0].limits.packets.is_some(), "what was learned is known at once");
}

/// The line is full before any learned limit is reached, as what psmcd loses tells.
#[test]
fn losses_of_direct_paths_tell_of_a_flood_where_nothing_else_does() {
    let mut world = World::new(Some(LINE));
    let coordinator = Coordinator::start(&world.gateway, world.key.public());
    let gateway = Gateway::start(&world.file("psmcd.sock"));
    world.start_guard(
        &format!("gateway = '{}'", world.file("psmcd.sock").display()),
        &coordinator_section(coordinator.address, coordinator.key),
    );
    let visitors = Sending::udp(&world, LINE / 20);
    world.wait_until_learned();
    wait_for("what psmcd sends", || world.status().engine.services[0].measured.loss);
    assert_eq!(world.status().engine.services[0].attack, None);
    gateway.lose(true);
    // A little more than usual arrives, far below the limit.
    let more = Sending::udp(&world, LINE / 20);
    let alert = coordinator.hear("the alert", |message| {
        let Message::Alert(alert) = message else { return None };
        Some(alert)
    });
    assert_eq!(alert.kind, AlertKind::Loss);
    assert!(alert.measured.loss.unwrap() > 0.4, "{alert:?}");
    gateway.lose(false);
    coordinator.hear("the end", |message| {
        let Message::Clear { id, .. } = message else { return None };
        (id == alert.id).then_some(())
    });
    drop((visitors, more));
}

/// Hundreds of thousands of SYNs from sources that nobody has, at the speed of the machine.
#[test]
fn a_flood_of_syns_costs_little_and_is_named() {
    steadily(Measured::Time, || {
        let mut world = World::new(None);
        world.start_guard("", "");
        world.wait_until_learned();
        let cpu_before = cpu_ms(world.guard_pid());
        let mut frames = SynFlood::new(&world.outside, &world.gateway);
        let stalls = StallWatch::start().unwrap();
        let flood = Sending::start(Duration::from_micros(100), move || frames.send());
        flood.wait_for_the_first();
        let (begun, before) = (Instant::now(), world.status());
        let (attack, samples) = attack_after(&world, &before);
        println!("SYNs: {samples} samples, {} ms", begun.elapsed().as_millis());
        assert_eq!(attack.kind, AlertKind::Syn);
        assert_soon(samples, stalls.finish());
        wait_for("three seconds", || (begun.elapsed() > Duration::from_secs(3)).then_some(()));
        let measured = world.status().engine.services[0].measured.clone();
        drop(flood);
        let watch = world.status().watch;
        let cpu = cpu_ms(world.guard_pid()) - cpu_before;
        println!(
            "{:.0} SYNs/s of {:.0} new sources/s; {} looked at, {} estimated; the guard took {cpu} ms of processor in {} ms",
            measured.syns.unwrap(),
            measured.new_sources.unwrap(),
            watch.packets,
            watch.packets_estimated,
            begun.elapsed().as_millis()
        );
        // Almost every packet has a source of its own; some are taken for known.
        let (packets, sources) = (measured.packets.unwrap(), measured.new_sources.unwrap());
        assert!(sources > packets * 0.8 && sources <= packets, "{measured:?}");
    });
}

/// Down and up, and replaced by another of the same name.
#[test]
fn an_interface_that_is_back_is_watched_again() {
    let mut world = World::new(None);
    world.start_guard("", "");
    let blind = |is_blind: bool| {
        wait_for("the interface", || (world.status().watch.blind.is_empty() != is_blind).then_some(()));
    };
    let is_watched = || {
        let before = world.status().watch.packets;
        let _visitors = Sending::udp(&world, LINE);
        wait_for("packets", || (world.status().watch.packets > before + 100).then_some(()));
    };
    is_watched();
    world.gateway.set_link("line", false).unwrap();
    blind(true);
    world.gateway.set_link("line", true).unwrap();
    blind(false);
    is_watched();
    world.replace_line();
    blind(false);
    is_watched();
}

struct SynFlood {
    port: PacketPort,
    frames: Vec<Vec<u8>>,
    number: u32,
}

impl SynFlood {
    fn new(from: &Namespace, to: &Namespace) -> Self {
        let mut frame = to.hardware_address("line").unwrap();
        frame.extend(from.hardware_address("out").unwrap());
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 0, 0, 0, 0]);
        frame.extend(SERVICE.octets());
        frame.extend([0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0]);
        let port = from.run(|| PacketPort::open("out", 100).unwrap());
        Self { port, frames: vec![frame; 32], number: 0 }
    }

    fn send(&mut self) -> u64 {
        for frame in &mut self.frames {
            self.number = self.number.wrapping_add(2_654_435_761);
            frame[26..30].copy_from_slice(&self.number.to_be_bytes());
        }
        let frames: Vec<_> = self.frames.iter().map(|frame| IoSlice::new(frame)).collect();
        self.port.send(&frames) as u64
    }
}

/// What a process has used of processors, as proc(5) counts it.
fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    // A hundred ticks are a second.
    (ticks(11) + ticks(12)) * 10
}
