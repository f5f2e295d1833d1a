//! Random lists of operations on two engines and the links between them: whatever was done, once all links
//! work again both sites agree, and nothing that a site promises was ever broken.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use psmc_core::{PathState, SchedulerKind, SocketId};
use psmc_wire::PathId;
use psmc_wire::frame::PathUse;
use world::{HQ, Link, TCP, UDP, VAN, World, address, number, packet, path_config};

/// More would mean that the engine spins; a busy second of these worlds takes a few thousand.
const MAX_ITERATIONS_PER_SECOND: u64 = 50_000;

/// Every path of the worlds is back in use this soon after all that was broken is healed.
const RECOVERY: Duration = Duration::from_secs(5);

/// If a site restarted without a word while UDP was blocked, the peer finds out with its next handshake: it
/// tries one after 30 s at the latest.
const SILENT_RECOVERY: Duration = Duration::from_secs(35);

#[derive(Clone, Debug)]
enum Op {
    Send { from: usize, flow: u16, protocol: u8, len: usize, count: u32 },
    Wait { ms: u64 },
    Pass { link: usize, directions: [bool; 2] },
    Stall { link: usize, ms: u64 },
    Delay { link: usize, ms: u64 },
    Loss { link: usize, one_in: u32 },
    Duplicate { link: usize, one_in: u32 },
    Reorder { link: usize, one_in: u32 },
    Rate { link: usize, mbit: Option<u64> },
    AddPath { link: usize },
    RemovePath { end: usize, path: usize },
    Standby { end: usize, path: usize, standby: bool },
    Weigh { end: usize, path: usize, weight: u16 },
    Limit { end: usize, path: usize, mbit: Option<u64> },
    Rebind { path: usize, link: usize },
    LinkEvent { link: usize, up: bool },
    Nat { link: usize, port: u16 },
    Restart { end: usize, silently: bool },
    DropConnections,
    Control { up: bool },
    Inject { tapped: usize, how: Forgery },
}

/// How a datagram that was seen on a link is changed before it is sent again.
#[derive(Clone, Debug)]
enum Forgery {
    Replay,
    Mark,
    Truncate(usize),
    Flip(usize),
    Garbage(Vec<u8>),
}

fn end() -> impl Strategy<Value = usize> {
    prop_oneof![Just(VAN), Just(HQ)]
}

fn send() -> impl Strategy<Value = Op> {
    let protocol = prop_oneof![Just(TCP), Just(UDP)];
    (end(), 0u16..4, protocol, 28usize..=1400, 1u32..20)
        .prop_map(|(from, flow, protocol, len, count)| Op::Send { from, flow, protocol, len, count })
}

fn forgery() -> impl Strategy<Value = Op> {
    let how = prop_oneof![
        Just(Forgery::Replay),
        Just(Forgery::Mark),
        (0usize..1500).prop_map(Forgery::Truncate),
        (0usize..1500 * 8).prop_map(Forgery::Flip),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Forgery::Garbage),
    ];
    (0usize..64, how).prop_map(|(tapped, how)| Op::Inject { tapped, how })
}

/// What must not cost a packet, nor its place in its flow.
fn harmless() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => send(),
        6 => (1u64..200).prop_map(|ms| Op::Wait { ms }),
        1 => (0usize..5).prop_map(|link| Op::AddPath { link }),
        1 => (end(), 0usize..8).prop_map(|(end, path)| Op::RemovePath { end, path }),
        1 => (end(), 0usize..8, any::<bool>())
            .prop_map(|(end, path, standby)| Op::Standby { end, path, standby }),
        1 => (end(), 0usize..8, 1u16..5).prop_map(|(end, path, weight)| Op::Weigh { end, path, weight }),
        1 => Just(Op::DropConnections),
        1 => any::<bool>().prop_map(|up| Op::Control { up }),
        1 => (0usize..5, 1024u16..60_000).prop_map(|(link, port)| Op::Nat { link, port }),
        1 => forgery(),
    ]
}

fn harmful() -> impl Strategy<Value = Op> {
    let link = || 0usize..5;
    let mbit = || prop::option::of(1u64..50);
    prop_oneof![
        3 => (link(), any::<[bool; 2]>()).prop_map(|(link, directions)| Op::Pass { link, directions }),
        2 => link().prop_map(|link| Op::Pass { link, directions: [true; 2] }),
        1 => (link(), 1u64..300).prop_map(|(link, ms)| Op::Stall { link, ms }),
        1 => (link(), 1u64..300).prop_map(|(link, ms)| Op::Delay { link, ms }),
        1 => (link(), 0u32..10).prop_map(|(link, one_in)| Op::Loss { link, one_in }),
        1 => (link(), 0u32..10).prop_map(|(link, one_in)| Op::Duplicate { link, one_in }),
        1 => (link(), 0u32..10).prop_map(|(link, one_in)| Op::Reorder { link, one_in }),
        1 => (link(), mbit()).prop_map(|(link, mbit)| Op::Rate { link, mbit }),
        1 => (end(), 0usize..8, mbit()).prop_map(|(end, path, mbit)| Op::Limit { end, path, mbit }),
        1 => (0usize..8, link()).prop_map(|(path, link)| Op::Rebind { path, link }),
        1 => (link(), any::<bool>()).prop_map(|(link, up)| Op::LinkEvent { link, up }),
        1 => (end(), any::<bool>()).prop_map(|(end, silently)| Op::Restart { end, silently }),
    ]
}

fn scheduler() -> impl Strategy<Value = SchedulerKind> {
    use SchedulerKind::{Earliest, Flow, Redundant, Wrr};
    prop_oneof![4 => Just(Earliest), 2 => Just(Wrr), 2 => Just(Flow), 1 => Just(Redundant)]
}

/// A world, what was sent in it, and what must hold.
struct Run {
    world: World,
    next_number: u32,
    /// The flow and the receiver of each packet sent.
    sent: BTreeMap<u32, (usize, u16, u8)>,
    restarts: usize,
    silent: bool,
}

impl Run {
    fn new(delays: &[u64], scheduler: SchedulerKind) -> Self {
        let links = delays.iter().map(|&delay| Link::new(delay)).collect();
        let world = World::connected(links, scheduler);
        Self { world, next_number: 0, sent: BTreeMap::new(), restarts: 0, silent: false }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Send { from, flow, protocol, len, count } => self.send(from, flow, protocol, len, count),
            Op::Wait { ms } => self.wait(Duration::from_millis(ms)),
            Op::Restart { end, silently } => self.restart(end, silently),
            Op::DropConnections => self.world.drop_connections(),
            Op::Control { up } => self.world.control_up = up,
            Op::Inject { tapped, ref how } => self.inject(tapped, how),
            Op::Pass { link, .. }
            | Op::Stall { link, .. }
            | Op::Delay { link, .. }
            | Op::Loss { link, .. }
            | Op::Duplicate { link, .. }
            | Op::Reorder { link, .. }
            | Op::Rate { link, .. }
            | Op::LinkEvent { link, .. }
            | Op::Nat { link, .. } => self.change_link(link % self.world.links.len(), op),
            Op::AddPath { .. }
            | Op::RemovePath { .. }
            | Op::Standby { .. }
            | Op::Weigh { .. }
            | Op::Limit { .. }
            | Op::Rebind { .. } => self.change_path(op),
        }
    }

    fn send(&mut self, from: usize, flow: u16, protocol: u8, len: usize, count: u32) {
        // An inner flow has one protocol: those that want order have even numbers.
        let flow = flow * 2 + u16::from(protocol == UDP);
        for _ in 0..count {
            self.world.send(from, &packet(from, protocol, flow, self.next_number, len));
            self.sent.insert(self.next_number, (1 - from, flow, protocol));
            self.next_number += 1;
        }
    }

    fn wait(&mut self, time: Duration) {
        let before = self.world.iterations;
        self.world.run_for(time);
        let allowed = 1000 + (time.as_secs_f64() * MAX_ITERATIONS_PER_SECOND as f64) as u64;
        assert!(self.world.iterations - before < allowed, "{} in {time:?}", self.world.iterations - before);
    }

    fn restart(&mut self, end: usize, silently: bool) {
        self.restarts += 1;
        self.silent |= silently;
        if silently { self.world.restart_silently(end) } else { self.world.restart(end) }
    }

    fn change_link(&mut self, index: usize, op: &Op) {
        let now = self.world.now;
        let link = &mut self.world.links[index];
        match *op {
            Op::Pass { directions, .. } => link.passes = directions,
            Op::Stall { ms, .. } => link.stalled_until = Some(now + Duration::from_millis(ms)),
            Op::Delay { ms, .. } => link.delay = Duration::from_millis(ms),
            Op::Loss { one_in, .. } => link.loss_one_in = one_in,
            Op::Duplicate { one_in, .. } => link.duplicate_one_in = one_in,
            Op::Reorder { one_in, .. } => link.reorder_one_in = one_in,
            Op::Rate { mbit, .. } => link.rate = mbit.map(|mbit| mbit * 1_000_000),
            Op::Nat { port, .. } => {
                let mut address = address(index, VAN);
                address.set_port(port);
                link.nat = Some(address);
            }
            Op::LinkEvent { up, .. } => self.world.ends[VAN].site.handle_link(SocketId(index as u32), up, now),
            _ => unreachable!("no operation on a link"),
        }
    }

    /// The open paths of an end.
    fn paths(&self, end: usize) -> Vec<PathId> {
        let open = |path: &psmc_core::PathStatus| path.usage != PathUse::Closed;
        self.world.status(end).paths.iter().filter(|path| open(path)).map(|path| path.id).collect()
    }

    fn pick_path(&self, end: usize, path: usize) -> Option<PathId> {
        let paths = self.paths(end);
        paths.get(path % paths.len().max(1)).copied()
    }

    fn change_path(&mut self, op: &Op) {
        let now = self.world.now;
        match *op {
            Op::AddPath { link } => {
                let link = link % self.world.links.len();
                // Refused if the link has a path already.
                let _ = self.world.add_path(path_config(link));
            }
            Op::RemovePath { end, path } => self.remove_path(end, path),
            Op::Standby { end, path, standby } => {
                if let Some(id) = self.pick_path(end, path) {
                    let end = &mut self.world.ends[end];
                    end.site.set_standby(end.peer, id, standby, now).expect("an open path");
                }
            }
            Op::Weigh { end, path, weight } => self.reconfigure(end, path, Some(weight), None),
            Op::Limit { end, path, mbit } => {
                self.reconfigure(end, path, None, Some(mbit.map(|mbit| mbit * 1_000_000)));
            }
            Op::Rebind { path, link } => {
                if let Some(id) = self.pick_path(VAN, path) {
                    let config = path_config(link % self.world.links.len());
                    let address = psmc_core::PathAddress {
                        socket: config.socket,
                        local_ip: None,
                        remote: config.remote,
                    };
                    let van = &mut self.world.ends[VAN];
                    van.site.rebind_path(van.peer, id, address, now).expect("an open path");
                }
            }
            _ => unreachable!("no operation on a path"),
        }
    }

    /// Removes a path unless it is the last one that both ends may use and that works for both.
    fn remove_path(&mut self, end: usize, path: usize) {
        let Some(id) = self.pick_path(end, path) else { return };
        let works = |end: usize| {
            let paths = self.world.status(end).paths;
            let works = |path: &&psmc_core::PathStatus| {
                path.state == PathState::Active && path.usage != PathUse::Closed && path.id != id
            };
            paths.iter().filter(works).map(|path| path.id).collect::<std::collections::BTreeSet<_>>()
        };
        if works(VAN).intersection(&works(HQ)).next().is_some() {
            let now = self.world.now;
            let end = &mut self.world.ends[end];
            end.site.remove_path(end.peer, id, now).expect("an open path");
        }
    }

    fn reconfigure(&mut self, end: usize, path: usize, weight: Option<u16>, max_rate: Option<Option<u64>>) {
        if let Some(id) = self.pick_path(end, path) {
            let end = &mut self.world.ends[end];
            end.site.reconfigure_path(end.peer, id, weight, max_rate).expect("an open path");
        }
    }

    /// Sends an end something that must be refused, and looks whether it is.
    fn inject(&mut self, tapped: usize, how: &Forgery) {
        let count = self.world.tapped.len();
        let Some((link, to, mut datagram)) = self.world.tapped.get(tapped % count.max(1)).cloned() else { return };
        match how {
            Forgery::Replay => {}
            Forgery::Mark => datagram[1] ^= 0x07,
            Forgery::Truncate(len) => datagram.truncate(len % datagram.len()),
            Forgery::Flip(bit) => {
                let bit = bit % (datagram.len() * 8);
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            Forgery::Garbage(bytes) => datagram.clone_from(bytes),
        }
        let refusals = |world: &World| world.ends[to].site.refusals().iter().map(|(_, count)| count).sum::<u64>();
        let before = refusals(&self.world);
        self.world.inject(link, to, &mut datagram, "10.9.9.9:9".parse().expect("an address"));
        assert_eq!(refusals(&self.world), before + 1, "{how:?} on link {link} to {to}");
    }

    /// Ends all that was broken, and waits until everything works again.
    fn heal(&mut self) {
        self.world.control_up = true;
        for link in 0..self.world.links.len() {
            self.world.links[link].heal();
            let now = self.world.now;
            self.world.ends[VAN].site.handle_link(SocketId(link as u32), true, now);
        }
        self.wait(if self.silent { SILENT_RECOVERY } else { RECOVERY });
        for link in 0..self.world.links.len() {
            // Refused if the link still has its path.
            let _ = self.world.add_path(path_config(link));
        }
        self.wait(RECOVERY);
        for end in [VAN, HQ] {
            let paths = self.world.status(end).paths;
            let states: Vec<_> = paths.iter().map(|path| (path.id, path.state)).collect();
            assert_eq!(paths.len(), self.world.links.len(), "end {end}: {states:?}");
            assert!(states.iter().all(|(_, state)| *state == PathState::Active), "end {end}: {states:?}");
        }
    }

    /// A fresh packet in each direction gets through.
    fn check_fresh_packets(&mut self) {
        for from in [VAN, HQ] {
            let number = self.next_number;
            self.send(from, 100, TCP, 100, 1);
            self.wait(Duration::from_secs(1));
            assert!(self.world.numbers(1 - from).contains(&number), "from {from}");
        }
    }

    /// How often each packet was delivered; each at its destination.
    fn deliveries(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for end in [VAN, HQ] {
            for number in self.world.numbers(end) {
                assert_eq!(self.sent[&number].0, end, "delivered where it was not sent");
                *counts.entry(number).or_default() += 1;
            }
        }
        counts
    }

    fn check_bounds(&mut self) {
        for end in [VAN, HQ] {
            let status = self.world.status(end);
            assert_eq!((status.queued_packets, status.reorder.held), (0, 0), "end {end}");
            let inflight: u64 = status.paths.iter().map(|path| path.inflight_bytes).sum();
            assert!(inflight < 20_000, "end {end}: {inflight} bytes in flight while idle");
        }
    }

    fn check_flows_are_in_order(&self) {
        for flow in (0..8).step_by(2) {
            for end in [VAN, HQ] {
                let numbers = self.world.flow_numbers(end, flow);
                assert!(numbers.is_sorted(), "flow {flow} at {end}: {numbers:?}");
            }
        }
    }
}

fn check_that_all_heals(delays: &[u64], scheduler: SchedulerKind, ops: &[Op]) {
    let mut run = Run::new(delays, scheduler);
    for op in ops {
        run.apply(op);
    }
    run.heal();
    run.check_fresh_packets();
    run.check_bounds();
    let most = run.deliveries().into_values().max().unwrap_or(0);
    assert!(most <= 1 + run.restarts, "a packet was delivered {most} times");
}

fn check_that_nothing_is_lost(delays: &[u64], scheduler: SchedulerKind, ops: &[Op]) {
    let mut run = Run::new(delays, scheduler);
    for op in ops {
        run.apply(op);
    }
    run.heal();
    run.check_fresh_packets();
    run.check_bounds();
    let counts = run.deliveries();
    for number in run.sent.keys() {
        assert_eq!(counts.get(number), Some(&1), "packet {number}");
    }
    run.check_flows_are_in_order();
}

/// A shrunk failure is pasted in below as a test of its own; no file of seeds is kept.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, max_shrink_iters: 5_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_sites_find_together_again(
        delays in prop::collection::vec(1u64..100, 1..6),
        scheduler in scheduler(),
        ops in prop::collection::vec(prop_oneof![harmless(), harmful()], 1..60),
    ) {
        check_that_all_heals(&delays, scheduler, &ops);
    }

    #[test]
    fn what_is_harmless_costs_no_packet_and_no_order(
        delays in prop::collection::vec(1u64..60, 1..6),
        scheduler in scheduler(),
        ops in prop::collection::vec(harmless(), 1..60),
    ) {
        check_that_nothing_is_lost(&delays, scheduler, &ops);
    }
}

fn send_from_van(len: usize, count: u32) -> Op {
    Op::Send { from: VAN, flow: 0, protocol: TCP, len, count }
}

fn restart(end: usize) -> Op {
    Op::Restart { end, silently: false }
}

fn cut(link: usize) -> Op {
    Op::Pass { link, directions: [false; 2] }
}

#[test]
fn regression_a_round_trip_beyond_half_a_second_is_an_answer() {
    check_that_all_heals(&[1], SchedulerKind::Earliest, &[Op::Delay { link: 0, ms: 251 }]);
}

#[test]
fn regression_a_wish_that_nobody_can_carry_does_not_spin() {
    let ops = [
        Op::Stall { link: 0, ms: 76 },
        Op::Wait { ms: 70 },
        Op::Standby { end: VAN, path: 0, standby: true },
    ];
    check_that_all_heals(&[1], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_packets_that_no_path_takes_do_not_spin() {
    let ops = [cut(0), Op::Wait { ms: 5_000 }, send_from_van(100, 3), Op::Wait { ms: 2_000 }];
    check_that_all_heals(&[1], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_a_path_closed_before_the_peer_heard_of_it_stays_closed() {
    let ops = [
        Op::RemovePath { end: VAN, path: 0 },
        Op::Wait { ms: 1 },
        Op::AddPath { link: 2 },
        Op::RemovePath { end: VAN, path: 1 },
    ];
    check_that_nothing_is_lost(&[20, 1], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_a_path_closed_while_the_peer_is_away_is_closed_there_too() {
    let away = [cut(0), cut(1), Op::Control { up: false }];
    let close = [Op::RemovePath { end: VAN, path: 0 }, Op::Wait { ms: 5_000 }];
    let back = [1, 0].map(|link| Op::Pass { link, directions: [true; 2] });
    let ops: Vec<_> = away.into_iter().chain(close).chain(back).collect();
    check_that_all_heals(&[10, 10], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_a_datagram_from_the_old_network_does_not_move_a_rebound_path() {
    let ops = [
        Op::Send { from: HQ, flow: 0, protocol: TCP, len: 28, count: 1 },
        Op::Rebind { path: 3, link: 1 },
        send_from_van(28, 1),
    ];
    check_that_all_heals(&[1, 1, 1], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_copies_on_several_paths_are_one_packet_for_a_restarted_peer() {
    let ops = [
        send_from_van(28, 3),
        Op::Send { from: HQ, flow: 0, protocol: TCP, len: 28, count: 1 },
        cut(0),
        send_from_van(28, 1),
        restart(VAN),
    ];
    check_that_all_heals(&[85, 90, 1], SchedulerKind::Redundant, &ops);
}

#[test]
fn regression_a_path_being_closed_does_not_come_back_with_a_restarted_peer() {
    let ops = [Op::RemovePath { end: VAN, path: 2 }, Op::AddPath { link: 3 }, restart(HQ)];
    check_that_all_heals(&[1, 1, 1, 84], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_a_flow_that_moves_to_a_new_path_does_not_overtake_itself() {
    let ops = [
        send_from_van(28, 1),
        send_from_van(370, 18),
        send_from_van(896, 12),
        send_from_van(608, 18),
        Op::RemovePath { end: VAN, path: 5 },
        Op::AddPath { link: 1 },
        Op::Wait { ms: 2 },
        send_from_van(28, 1),
    ];
    check_that_nothing_is_lost(&[35, 1], SchedulerKind::Flow, &ops);
}

#[test]
fn regression_a_flow_that_moves_to_a_heavier_path_does_not_overtake_itself() {
    let back = |len, count| Op::Send { from: HQ, flow: 0, protocol: TCP, len, count };
    let ops = [
        send_from_van(28, 1),
        back(160, 11),
        back(1115, 3),
        back(875, 11),
        Op::Wait { ms: 1 },
        Op::Weigh { end: HQ, path: 0, weight: 4 },
        back(28, 1),
    ];
    check_that_nothing_is_lost(&[1, 1, 1, 1, 51], SchedulerKind::Flow, &ops);
}
