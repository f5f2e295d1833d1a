//! Random scenarios: whatever the links are like and whatever happens to them, once they work again traffic flows, in
//! order where order is promised, and nothing has grown beyond its bounds.
//!
//! `just scenarios` runs ten thousand.

use std::time::Duration;

use proptest::prelude::*;
use psmc_core::{AdaptiveBuffer, CongestionConfig, PeerStatus, ReorderPolicy, RepairKind, SchedulerKind};
use psmc_sim::link::{Jitter, LinkConfig, Loss, Probability, QueueLimit, Rate};
use psmc_sim::{CongestionControl, PeerSetup, SiteId, TrafficId, TrafficKind};

use crate::world::{Lab, ms, pair, secs};

/// Events happen until then.
const TROUBLE: Duration = Duration::from_secs(6);

/// A transfer that goes on is done this long after the last trouble: TCP may be waiting for as long as the trouble
/// lasted, and then some, until it tries again (RFC 6298 §5.5), and the slowest path takes 200 kB in 16 s. A link that loses
/// every second packet until some twenty have passed has TCP try again after 1, 2, … 60 s meanwhile (§2.4): one transfer took 65.
const RECOVERY: Duration = Duration::from_secs(300);

/// Bytes of the transfer.
const TRANSFER: u64 = 200_000;

/// Bits per second of a stream that every tunnel can carry once all links are healed.
const STREAM: u64 = 50_000;

/// What may wait to be sent: see `psmc-core`'s egress queue, and as much again on paths.
const MOST_QUEUED: usize = 2 * 4096;

/// What may wait for order: the limits of `psmc-core`'s reordering.
const MOST_HELD_BYTES: usize = 64 << 20;

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    links: Vec<[LinkConfig; 2]>,
    tunnel: Tunnel,
    events: Vec<(u64, Event)>,
}

#[derive(Clone, Debug)]
struct Tunnel {
    scheduler: SchedulerKind,
    reorder: ReorderPolicy,
    repair: RepairKind,
    congestion: CongestionConfig,
    bad_path_rule: bool,
}

/// What happens. Links are meant modulo their number.
#[derive(Clone, Debug)]
enum Event {
    Up(usize, bool),
    Change(usize, Box<[LinkConfig; 2]>),
    BlackHole(usize, usize),
    Restart(usize),
}

fn chance(most: f64) -> impl Strategy<Value = Probability> {
    prop_oneof![
        3 => Just(Probability::ZERO),
        1 => (0.0..most).prop_map(|chance| Probability::new(chance).expect("a chance")),
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        2 => Just(Loss::None),
        1 => chance(0.1).prop_map(Loss::Random),
        1 => (0.001..0.02, 0.05..0.5).prop_map(|(to_bad, to_good)| {
            let [to_bad, to_good] = [to_bad, to_good].map(|share| Probability::new(share).expect("a chance"));
            let (loss_good, loss_bad) = (Probability::ZERO, Probability::new(0.5).expect("a chance"));
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad }
        }),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        2 => Just(Jitter::None),
        1 => (1u64..20).prop_map(|spread| Jitter::Normal(ms(spread))),
        1 => (1u64..30).prop_map(|spread| Jitter::Uniform(ms(spread))),
    ]
}

fn direction() -> impl Strategy<Value = LinkConfig> {
    // From 0.1 to 100 Mb/s, each power of ten as likely as the others.
    let rate =
        (100u64..1000, 0u32..3).prop_map(|(digits, power)| Rate::Fixed(digits * 1000 * 10u64.pow(power)));
    let delay = prop_oneof![0u64..30, 0u64..300].prop_map(ms);
    let order = (any::<bool>(), chance(0.05), chance(0.02), chance(0.01));
    (rate, delay, jitter(), loss(), order, 8usize..500).prop_map(
        |(rate, delay, jitter, loss, (reordering, reorder, duplicate, corrupt), queue)| LinkConfig {
            rate,
            delay,
            jitter,
            reordering,
            reorder,
            loss,
            duplicate,
            corrupt,
            queue: QueueLimit::Packets(queue),
            ..LinkConfig::default()
        },
    )
}

fn link() -> impl Strategy<Value = [LinkConfig; 2]> {
    [direction(), direction()]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (any::<usize>(), any::<bool>()).prop_map(|(link, up)| Event::Up(link, up)),
        2 => (any::<usize>(), link()).prop_map(|(which, link)| Event::Change(which, Box::new(link))),
        2 => (any::<usize>(), 0..2usize).prop_map(|(link, direction)| Event::BlackHole(link, direction)),
        1 => (0..2usize).prop_map(Event::Restart),
    ]
}

fn tunnel() -> impl Strategy<Value = Tunnel> {
    let reorder = prop_oneof![
        2 => Just(ReorderPolicy::Deadline),
        1 => Just(ReorderPolicy::Adaptive(AdaptiveBuffer::default())),
        1 => Just(ReorderPolicy::Off),
    ];
    let congestion = prop_oneof![3 => Just(CongestionConfig::Model), 1 => Just(CongestionConfig::Cubic)];
    let repair = prop::sample::select(RepairKind::ALL.to_vec());
    let scheduler = prop::sample::select(SchedulerKind::ALL.to_vec());
    (scheduler, reorder, repair, congestion, any::<bool>()).prop_map(
        |(scheduler, reorder, repair, congestion, bad_path_rule)| Tunnel {
            scheduler,
            reorder,
            repair,
            congestion,
            bad_path_rule,
        },
    )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let events = prop::collection::vec((500u64..6000, event()), 0..12);
    (any::<u64>(), prop::collection::vec(link(), 1..=8), tunnel(), events).prop_map(
        |(seed, links, tunnel, mut events)| {
            events.sort_by_key(|(at, _)| *at);
            Scenario { seed, links, tunnel, events }
        },
    )
}

/// A scenario that runs.
struct Run {
    lab: Lab,
    links: Vec<psmc_sim::LinkId>,
    sites: [SiteId; 2],
    transfer: TrafficId,
    stream: TrafficId,
    restarted: bool,
}

impl Run {
    fn new(scenario: &Scenario) -> Self {
        let (mut lab, hosts, links) = pair(scenario.seed, &scenario.links);
        let tunnel = &scenario.tunnel;
        let sites = lab.tunnel_of(hosts, &links, 0, |peer: &mut PeerSetup| {
            peer.config.scheduler = tunnel.scheduler;
            peer.config.reorder = tunnel.reorder;
            peer.config.repair = tunnel.repair;
            peer.config.bad_path_rule = tunnel.bad_path_rule;
            peer.config.ordered_udp = true;
            for path in &mut peer.paths {
                path.config.congestion = tunnel.congestion;
            }
        });
        let transfer = TrafficKind::Tcp {
            congestion_control: CongestionControl::Cubic,
            flows: 1,
            bytes: Some(TRANSFER),
            buffer: 1 << 20,
        };
        let stream = TrafficKind::Udp { rate: STREAM, payload: 200 };
        let span = [ms(500), TROUBLE + RECOVERY];
        let transfer = lab.traffic(transfer, hosts[0], hosts[1], "10.77.0.2", span);
        let stream = lab.traffic(stream, hosts[0], hosts[1], "10.77.0.2", [ms(500), TROUBLE]);
        Self { lab, links, sites, transfer, stream, restarted: false }
    }

    fn apply(&mut self, event: &Event) {
        let of = |link: &usize| self.links[link % self.links.len()];
        let world = &mut self.lab.world;
        match event {
            Event::Up(link, up) => world.set_link_up(of(link), *up),
            Event::Change(link, directions) => world.change_link(of(link), directions.as_ref().clone()),
            Event::BlackHole(link, direction) => {
                let mut directions = world.link_config(of(link)).map(Clone::clone);
                directions[*direction].black_hole = true;
                world.change_link(of(link), directions);
            }
            Event::Restart(end) => {
                self.restarted = true;
                world.start_site(self.sites[*end]).expect("it has started before");
            }
        }
    }

    /// All links are what they were in the beginning.
    fn heal(&mut self, scenario: &Scenario) {
        for (&link, directions) in self.links.iter().zip(&scenario.links) {
            self.lab.world.change_link(link, directions.clone());
            self.lab.world.set_link_up(link, true);
        }
    }

    fn statuses(&self) -> impl Iterator<Item = PeerStatus> + '_ {
        self.sites.iter().filter_map(|&site| self.lab.world.site_status(site, 0))
    }

    fn check_bounds(&self) {
        for status in self.statuses() {
            assert!(
                status.queued_packets <= MOST_QUEUED,
                "{} packets wait to be sent",
                status.queued_packets
            );
            let held = status.reorder.held_bytes;
            assert!(held <= MOST_HELD_BYTES, "{held} bytes wait for order");
        }
    }

    /// What arrived out of order is what the receiver knows to be late.
    fn check_order(&self, reorder: ReorderPolicy) {
        let seen = self.lab.tally(self.stream).late;
        let known = self.lab.world.site_status(self.sites[1], 0).expect("it runs").reorder.late;
        let promised = reorder != ReorderPolicy::Off && !self.restarted;
        assert!(!promised || seen <= known, "{seen} datagrams were overtaken, the receiver knows of {known}");
    }
}

fn check(scenario: &Scenario) {
    let mut run = Run::new(scenario);
    let mut now = 0;
    for (at, event) in &scenario.events {
        run.lab.run_for(ms(at - now));
        now = *at;
        run.check_bounds();
        run.apply(event);
    }
    run.lab.run_for(TROUBLE - ms(now));
    run.heal(scenario);
    let mut waited = Duration::ZERO;
    while waited < RECOVERY && !run.lab.tally(run.transfer).done {
        run.lab.run_for(secs(1));
        run.check_bounds();
        waited += secs(1);
    }
    let transfer = run.lab.tally(run.transfer);
    assert!(transfer.done, "{} bytes of {TRANSFER} have arrived, {} broken", transfer.bytes, transfer.broken);
    assert_eq!((transfer.bytes, transfer.broken), (TRANSFER, 0));
    run.check_order(scenario.tunnel.reorder);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_traffic_flows_again(scenario in scenario()) {
        check(&scenario);
    }
}
