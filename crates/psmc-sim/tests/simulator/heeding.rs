//! TCP that heeds losses is never held down for not heeding them: what psmcd does at its entrance, beside simulated connections.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use psmc_core::police::{Facts, Kind, Police, PoliceConfig, Verdict, Witness};
use psmc_sim::link::{LinkConfig, QueueLimit, Rate};
use psmc_sim::{Conditioner, CongestionControl, LinkId, TrafficKind};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::world::{Lab, ms, pair, secs, side_by_side};

/// Both ends of a network: where packets enter they may be held back, and where they leave they are counted.
#[derive(Clone)]
struct Ends(Rc<RefCell<(Police, Witness)>>);

struct Entrance(Ends);

struct Exit(Ends);

impl Conditioner for Entrance {
    fn leave(&mut self, packet: &mut [u8], now: Instant) -> bool {
        let (police, _) = &mut *self.0.0.borrow_mut();
        police.offer(&facts(packet), packet.len(), now) != Verdict::Drop
    }
}

impl Conditioner for Exit {
    fn leave(&mut self, _packet: &mut [u8], _now: Instant) -> bool {
        true
    }

    fn come(&mut self, packet: &[u8], _now: Instant) {
        self.0.0.borrow_mut().1.on_delivered(&facts(packet), packet.len());
    }
}

/// IPv4 without options, TCP or UDP.
fn facts(packet: &[u8]) -> Facts {
    let address = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let ports = [port(20), port(22)];
    Facts {
        source: address(12).into(),
        destination: address(16).into(),
        ports: Some(ports),
        class: 0,
        kind: if packet[9] == 6 { Kind::Tcp } else { Kind::Plain },
        flow: ports[0] % 4096,
    }
}

/// A network, and what flows in it.
struct Draw(Pcg64Mcg);

impl Draw {
    /// As many small as large ones.
    fn between(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(f64::from(self.0.next_u32()) / f64::from(u32::MAX))
    }

    /// A direction of 0.5 to 6 Mb/s, 1 to 150 ms, and a queue of 10 ms to half a second, ten packets at least.
    fn link(&mut self) -> LinkConfig {
        let rate = self.between(0.5e6, 6e6);
        let packets = (rate * self.between(0.01, 0.5) / 8.0 / 1500.0).max(10.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "they are small and positive"
        )]
        let (rate, packets) = (rate as u64, packets as usize);
        let delay = Duration::from_secs_f64(self.between(0.001, 0.15));
        LinkConfig {
            rate: Rate::Fixed(rate),
            delay,
            queue: QueueLimit::Packets(packets),
            ..LinkConfig::default()
        }
    }
}

/// Runs a network for this time: in how many rounds of 200 ms something was held down, and the share of packets that was lost.
fn held(mut lab: Lab, ends: &Ends, time: Duration) -> (u32, f64) {
    let mut rounds = 0;
    for _ in 0..time.as_millis() / 200 {
        lab.run_for(ms(200));
        let now = lab.world.now();
        let (police, witness) = &mut *ends.0.borrow_mut();
        while let Some(lost) = lab.world.poll_dropped() {
            witness.on_dropped(&facts(&lost.packet), lost.packet.len());
        }
        if let Some(report) = witness.take(now) {
            police.report(&report, now);
        }
        police.end_round(Some(lab.world.link_config(LinkId(0))[0].delay * 2), now);
        rounds += u32::from(police.aggregates().any(|one| one.limit.is_some()));
    }
    let [there, _] = lab.world.link_counters(LinkId(0));
    let dropped = there.dropped_packets() as f64;
    (rounds, dropped / (dropped + there.carried_packets as f64))
}

/// A world with both ends of its link watched, in which these kinds of traffic flow.
fn watched(
    seed: u64,
    link: &LinkConfig,
    kinds: impl Iterator<Item = (TrafficKind, Duration)>,
) -> (Lab, Ends) {
    let (mut lab, [from, to], links) = pair(seed, &[[link.clone(), link.clone()]]);
    let both = (Police::new(PoliceConfig::default(), seed), Witness::new(seed));
    let ends = Ends(Rc::new(RefCell::new(both)));
    lab.world.set_conditioner(from, links[0], Box::new(Entrance(ends.clone())));
    lab.world.set_conditioner(to, links[0], Box::new(Exit(ends.clone())));
    lab.world.watch_drops(links[0], 0);
    for (kind, start) in kinds {
        lab.traffic(kind, from, to, "10.1.0.2", [start, secs(1000)]);
    }
    (lab, ends)
}

fn tcp(congestion_control: CongestionControl) -> TrafficKind {
    TrafficKind::Tcp { congestion_control, flows: 1, bytes: None, buffer: 1 << 20 }
}

use CongestionControl::{Bbr, Cubic, Reno};

/// One to twelve connections in a network, all of a kind or of all kinds, for half a minute.
#[test]
fn reno_cubic_and_bbr_are_never_held_down() {
    let runs = side_by_side(0..=119, |seed| {
        let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed));
        let link = draw.link();
        let count = seed / 5 % 12 + 1;
        let kinds: Vec<_> = (0..count)
            .map(|number| {
                let kind = match seed % 5 {
                    0 | 1 => Bbr,
                    _ => [Bbr, Cubic, Reno][usize::try_from(number % 3).unwrap_or(0)],
                };
                (tcp(kind), Duration::from_secs_f64(draw.between(0.01, 3.0)))
            })
            .collect();
        let (lab, ends) = watched(seed, &link, kinds.into_iter());
        (held(lab, &ends, secs(30)), link, count)
    });
    for (seed, ((rounds, loss), link, count)) in runs.iter().enumerate() {
        println!(
            "{seed}: {count} flows, {:.1} % lost, {:?} {:?} {:?}",
            loss * 100.0,
            link.rate,
            link.delay,
            link.queue
        );
        assert_eq!(*rounds, 0, "seed {seed}");
    }
    let worst = runs.iter().map(|((_, loss), ..)| *loss).fold(0.0, f64::max);
    assert!(worst > 0.1, "nothing was lost to speak of: {worst}");
}

/// The same police sees what it is there for.
#[test]
fn a_flood_beside_bbr_is_held_down() {
    let link = Draw(Pcg64Mcg::seed_from_u64(1)).link();
    let flood = TrafficKind::Udp { rate: 12_000_000, payload: 1000 };
    let kinds = [(tcp(Bbr), ms(100)), (flood, secs(3))];
    let (lab, ends) = watched(1, &link, kinds.into_iter());
    let (rounds, _) = held(lab, &ends, secs(15));
    assert!(rounds > 25, "{rounds} rounds of 200 ms");
    let (police, _) = &*ends.0.borrow();
    let kinds: Vec<_> =
        police.aggregates().filter(|one| one.limit.is_some()).map(|one| one.aggregate.kind).collect();
    assert_eq!(kinds, [Kind::Plain]);
}
