//! Random lists of operations on two engines and the links between them: whatever was done, once all links
//! work again both sites agree, and nothing that a site promises was ever broken.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use psmc_core::{
    KeyLimits, PathAddress, PathConfig, PathState, PathStatus, PathTuning, RepairKind, SchedulerKind,
};
use psmc_wire::PathId;
use psmc_wire::frame::PathUse;

use crate::world::crypto::forbid_nonces_twice;
use crate::world::{HQ, Link, Setup, TCP, UDP, VAN, World, address, packet, path_config};

/// More would mean that the engine spins; a busy second of these worlds takes a few thousand.
const MAX_ITERATIONS_PER_SECOND: u128 = 50_000;

/// Every path of the worlds is back in use this soon after all that was broken is healed.
const RECOVERY: Duration = Duration::from_secs(5);

/// If a site restarted without a word while UDP was blocked, the peer finds out with its next handshake: it
/// tries one after 30 s at the latest.
const SILENT_RECOVERY: Duration = Duration::from_secs(35);

#[derive(Clone, Debug)]
enum Op {
    Send { from: usize, flow: u16, protocol: u8, len: usize, count: u32 },
    Wait { ms: u64 },
    Link { link: usize, change: LinkChange },
    AddPath { link: usize },
    Path { end: usize, path: usize, change: PathChange },
    Rebind { path: usize, link: usize },
    Restart { end: usize, silently: bool },
    DropConnections,
    Control { up: bool },
    Inject { tapped: usize, how: Forgery },
}

/// What happens to a link.
#[derive(Clone, Copy, Debug)]
enum LinkChange {
    Pass([bool; 2]),
    StallMs(u64),
    DelayMs(u64),
    LossOneIn(u32),
    DuplicateOneIn(u32),
    ReorderOneIn(u32),
    Mbit(Option<u64>),
    /// The interface under it goes down or comes up.
    Event(bool),
    NatPort(u16),
}

/// What happens to a path.
#[derive(Clone, Copy, Debug)]
enum PathChange {
    Remove,
    Standby(bool),
    Weigh(u16),
    LimitMbit(Option<u64>),
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

fn change_link(change: impl Strategy<Value = LinkChange>) -> impl Strategy<Value = Op> {
    (0usize..5, change).prop_map(|(link, change)| Op::Link { link, change })
}

fn change_path(change: impl Strategy<Value = PathChange>) -> impl Strategy<Value = Op> {
    (end(), 0usize..8, change).prop_map(|(end, path, change)| Op::Path { end, path, change })
}

/// What must not cost a packet, nor its place in its flow.
fn harmless() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => send(),
        6 => (1u64..200).prop_map(|ms| Op::Wait { ms }),
        1 => (0usize..5).prop_map(|link| Op::AddPath { link }),
        1 => change_path(Just(PathChange::Remove)),
        1 => change_path(any::<bool>().prop_map(PathChange::Standby)),
        1 => change_path((1u16..5).prop_map(PathChange::Weigh)),
        1 => Just(Op::DropConnections),
        1 => any::<bool>().prop_map(|up| Op::Control { up }),
        1 => change_link((1024u16..60_000).prop_map(LinkChange::NatPort)),
        1 => forgery(),
    ]
}

fn harmful() -> impl Strategy<Value = Op> {
    let mbit = || prop::option::of(1u64..50);
    let link = prop_oneof![
        3 => any::<[bool; 2]>().prop_map(LinkChange::Pass),
        2 => Just(LinkChange::Pass([true; 2])),
        1 => (1u64..300).prop_map(LinkChange::StallMs),
        1 => (1u64..300).prop_map(LinkChange::DelayMs),
        1 => (0u32..10).prop_map(LinkChange::LossOneIn),
        1 => (0u32..10).prop_map(LinkChange::DuplicateOneIn),
        1 => (0u32..10).prop_map(LinkChange::ReorderOneIn),
        1 => mbit().prop_map(LinkChange::Mbit),
        1 => any::<bool>().prop_map(LinkChange::Event),
    ];
    prop_oneof![
        12 => change_link(link),
        1 => change_path(mbit().prop_map(PathChange::LimitMbit)),
        1 => (0usize..8, 0usize..5).prop_map(|(path, link)| Op::Rebind { path, link }),
        1 => (end(), any::<bool>()).prop_map(|(end, silently)| Op::Restart { end, silently }),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let scheduler = prop_oneof![2 => Just(SchedulerKind::Earliest), 5 => prop::sample::select(SchedulerKind::ALL.to_vec())];
    let repair = prop::sample::select(RepairKind::ALL.to_vec());
    (scheduler, repair, any::<[bool; 3]>()).prop_map(|(scheduler, repair, [both, bad_path_rule, hurried])| {
        // Keys are exchanged within the session many times in a run, or hardly ever.
        let exchange_after = Duration::from_millis(if hurried { 1200 } else { 900_000 });
        let key_limits = KeyLimits { exchange_after, ..KeyLimits::default() };
        Setup { can_dial: [true, both], bad_path_rule, repair, key_limits, ..scheduler.into() }
    })
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
    fn new(delays: &[u64], setup: impl Into<Setup>) -> Self {
        forbid_nonces_twice();
        let links = delays.iter().map(|&delay| Link::new(delay)).collect();
        let world = World::connected(links, setup);
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
            Op::Link { link, change } => self.change_link(link % self.world.links.len(), change),
            // Refused if the link has a path already.
            Op::AddPath { link } => {
                let _ = self.world.add_path(path_config(link % self.world.links.len()));
            }
            Op::Path { end, path, change } => self.change_path(end, path, change),
            Op::Rebind { path, link } => self.rebind(path, link % self.world.links.len()),
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
        let done = u128::from(self.world.iterations - before);
        let allowed = 1000 + time.as_millis() * MAX_ITERATIONS_PER_SECOND / 1000;
        assert!(done < allowed, "{done} in {time:?}");
    }

    fn restart(&mut self, end: usize, silently: bool) {
        self.restarts += 1;
        self.silent |= silently;
        if silently { self.world.restart_silently(end) } else { self.world.restart(end) }
    }

    fn change_link(&mut self, index: usize, change: LinkChange) {
        let now = self.world.now;
        let link = &mut self.world.links[index];
        match change {
            LinkChange::Pass(directions) => link.passes = directions,
            LinkChange::StallMs(ms) => link.stalled_until = Some(now + Duration::from_millis(ms)),
            LinkChange::DelayMs(ms) => link.delay = Duration::from_millis(ms),
            LinkChange::LossOneIn(one_in) => link.loss_one_in = one_in,
            LinkChange::DuplicateOneIn(one_in) => link.duplicate_one_in = one_in,
            LinkChange::ReorderOneIn(one_in) => link.reorder_one_in = one_in,
            LinkChange::Mbit(mbit) => link.rate = mbit.map(|mbit| mbit * 1_000_000),
            LinkChange::Event(up) => {
                self.world.ends[VAN].site.handle_link(path_config(index).socket, up, now)
            }
            LinkChange::NatPort(port) => {
                let mut address = address(index, VAN);
                address.set_port(port);
                link.nat = Some(address);
            }
        }
    }

    /// The open paths of an end.
    fn paths(&self, end: usize) -> Vec<PathId> {
        let paths = self.world.status(end).paths.into_iter();
        paths.filter(|path| path.usage != PathUse::Closed).map(|path| path.id).collect()
    }

    fn pick_path(&self, end: usize, path: usize) -> Option<PathId> {
        let paths = self.paths(end);
        paths.get(path % paths.len().max(1)).copied()
    }

    fn change_path(&mut self, end: usize, path: usize, change: PathChange) {
        let Some(id) = self.pick_path(end, path) else {
            return;
        };
        let (works, now) = (self.works_without(id), self.world.now);
        let mut path = self.world.ends[end].path(id);
        match change {
            PathChange::Remove if works => path.remove(now).expect("the path is open"),
            PathChange::Remove => {}
            PathChange::Standby(standby) => path.set_standby(standby, now).expect("the path is open"),
            PathChange::Weigh(weight) => {
                path.reconfigure(PathTuning { weight: Some(weight), ..PathTuning::default() })
            }
            PathChange::LimitMbit(mbit) => {
                let max_rate = Some(mbit.map(|mbit| mbit * 1_000_000));
                path.reconfigure(PathTuning { max_rate, ..PathTuning::default() });
            }
        }
    }

    fn rebind(&mut self, path: usize, link: usize) {
        let Some(id) = self.pick_path(VAN, path) else {
            return;
        };
        let PathConfig { socket, remote, .. } = path_config(link);
        let (address, now) = (PathAddress { socket, local_ip: None, remote }, self.world.now);
        let van = &mut self.world.ends[VAN];
        van.path(id).rebind(address, now);
    }

    /// Whether some other path works for both ends, and both may use it.
    fn works_without(&self, id: PathId) -> bool {
        let works = |end: usize| -> BTreeSet<PathId> {
            let paths = self.world.status(end).paths.into_iter();
            let works = |path: &PathStatus| path.state == PathState::Active && path.usage != PathUse::Closed;
            paths.filter(|path| path.id != id && works(path)).map(|path| path.id).collect()
        };
        !works(VAN).is_disjoint(&works(HQ))
    }

    /// Sends an end something that must be refused, and looks whether it is.
    fn inject(&mut self, tapped: usize, how: &Forgery) {
        let count = self.world.tapped.len();
        let Some((link, to, mut datagram)) = self.world.tapped.get(tapped % count.max(1)).cloned() else {
            return;
        };
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
        let before = self.world.refused(to);
        self.world.inject(link, to, &mut datagram, "10.9.9.9:9".parse().expect("an address"));
        assert_eq!(self.world.refused(to), before + 1, "{how:?} on link {link} to {to}");
    }

    /// Ends all that was broken, and waits until everything works again.
    fn heal(&mut self) {
        self.world.control_up = true;
        for link in 0..self.world.links.len() {
            self.world.links[link].heal();
            let now = self.world.now;
            self.world.ends[VAN].site.handle_link(path_config(link).socket, true, now);
        }
        self.wait(if self.silent { SILENT_RECOVERY } else { RECOVERY });
        for link in 0..self.world.links.len() {
            // Refused if the link still has its path.
            let _ = self.world.add_path(path_config(link));
        }
        self.wait(RECOVERY);
        if !self.all_paths_work() {
            // One whose delay has grown while it was idle may be suspected once, when it is probed next.
            self.wait(Duration::from_secs(1));
        }
        assert!(
            self.all_paths_work(),
            "{:?} and {:?}",
            self.world.path_states(VAN),
            self.world.path_states(HQ)
        );
    }

    /// Whether both ends have a path for every link, and all of them work.
    fn all_paths_work(&self) -> bool {
        [VAN, HQ].into_iter().all(|end| {
            let paths = self.world.status(end).paths;
            let active = paths.iter().filter(|path| path.state == PathState::Active);
            (paths.len(), active.count()) == (self.world.links.len(), self.world.links.len())
        })
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

    /// Packets that queues had no room for: more was sent at once than the paths are known to carry in time.
    fn found_no_room(&self) -> u64 {
        let of_end = |end| {
            let classes = self.world.status(end).classes.into_iter();
            classes.map(|class| class.counters.dropped_full).sum::<u64>()
        };
        of_end(VAN) + of_end(HQ)
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

fn check_that_all_heals(delays: &[u64], setup: impl Into<Setup>, ops: &[Op]) {
    let mut run = Run::new(delays, setup);
    for op in ops {
        run.apply(op);
    }
    run.heal();
    run.check_fresh_packets();
    run.check_bounds();
    let most = run.deliveries().into_values().max().unwrap_or(0);
    assert!(most <= 1 + run.restarts, "a packet was delivered {most} times");
}

fn check_that_nothing_is_lost(delays: &[u64], setup: impl Into<Setup>, ops: &[Op]) {
    let mut run = Run::new(delays, setup);
    for op in ops {
        run.apply(op);
    }
    run.heal();
    run.check_fresh_packets();
    run.check_bounds();
    let counts = run.deliveries();
    let missing: Vec<_> = run.sent.keys().filter(|number| !counts.contains_key(number)).collect();
    assert_eq!(missing.len() as u64, run.found_no_room(), "{missing:?}");
    assert!(counts.values().all(|&times| times == 1), "{counts:?}");
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
        setup in setup(),
        ops in prop::collection::vec(prop_oneof![harmless(), harmful()], 1..60),
    ) {
        check_that_all_heals(&delays, setup, &ops);
    }

    #[test]
    fn what_is_harmless_costs_no_packet_and_no_order(
        delays in prop::collection::vec(1u64..60, 1..6),
        setup in setup(),
        ops in prop::collection::vec(harmless(), 1..60),
    ) {
        check_that_nothing_is_lost(&delays, setup, &ops);
    }
}

fn send_from_van(len: usize, count: u32) -> Op {
    Op::Send { from: VAN, flow: 0, protocol: TCP, len, count }
}

fn restart(end: usize) -> Op {
    Op::Restart { end, silently: false }
}

fn cut(link: usize) -> Op {
    Op::Link { link, change: LinkChange::Pass([false; 2]) }
}

fn restore(link: usize) -> Op {
    Op::Link { link, change: LinkChange::Pass([true; 2]) }
}

fn delay(link: usize, ms: u64) -> Op {
    Op::Link { link, change: LinkChange::DelayMs(ms) }
}

fn remove(path: usize) -> Op {
    Op::Path { end: VAN, path, change: PathChange::Remove }
}

#[test]
fn regression_a_round_trip_beyond_half_a_second_is_an_answer() {
    check_that_all_heals(&[1], SchedulerKind::Earliest, &[delay(0, 251)]);
}

#[test]
fn regression_a_wish_that_nobody_can_carry_does_not_spin() {
    let ops = [
        Op::Link { link: 0, change: LinkChange::StallMs(76) },
        Op::Wait { ms: 70 },
        Op::Path { end: VAN, path: 0, change: PathChange::Standby(true) },
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
    let ops = [remove(0), Op::Wait { ms: 1 }, Op::AddPath { link: 2 }, remove(1)];
    check_that_nothing_is_lost(&[20, 1], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_a_path_closed_while_the_peer_is_away_is_closed_there_too() {
    let away = [cut(0), cut(1), Op::Control { up: false }];
    let close = [remove(0), Op::Wait { ms: 5_000 }];
    let ops: Vec<_> = away.into_iter().chain(close).chain([restore(1), restore(0)]).collect();
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
    let ops = [remove(2), Op::AddPath { link: 3 }, restart(HQ)];
    check_that_all_heals(&[1, 1, 1, 84], SchedulerKind::Earliest, &ops);
}

#[test]
fn regression_a_flow_that_moves_to_a_new_path_does_not_overtake_itself() {
    let ops = [
        send_from_van(28, 1),
        send_from_van(370, 18),
        send_from_van(896, 12),
        send_from_van(608, 18),
        remove(5),
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
        Op::Path { end: HQ, path: 0, change: PathChange::Weigh(4) },
        back(28, 1),
    ];
    check_that_nothing_is_lost(&[1, 1, 1, 1, 51], SchedulerKind::Flow, &ops);
}

#[test]
fn regression_handshakes_of_both_ends_do_not_void_the_key_that_the_peer_still_uses() {
    let setup = Setup { can_dial: [true; 2], ..SchedulerKind::Flow.into() };
    let ops = [
        Op::DropConnections,
        Op::Wait { ms: 86 },
        remove(2),
        Op::Wait { ms: 84 },
        Op::DropConnections,
        Op::Wait { ms: 167 },
        Op::DropConnections,
        Op::Wait { ms: 141 },
        Op::Control { up: false },
        Op::Wait { ms: 168 },
        Op::AddPath { link: 2 },
        Op::Wait { ms: 281 },
        Op::Send { from: HQ, flow: 2, protocol: TCP, len: 1171, count: 19 },
    ];
    check_that_nothing_is_lost(&[29, 29, 57, 29], setup, &ops);
}

#[test]
fn regression_copies_of_short_packets_do_not_overtake_those_of_long_ones() {
    let setup =
        Setup { can_dial: [true, false], repair: RepairKind::Duplicate, ..SchedulerKind::Flow.into() };
    let ops = [
        Op::Send { from: HQ, flow: 2, protocol: TCP, len: 1115, count: 15 },
        Op::Send { from: HQ, flow: 2, protocol: TCP, len: 28, count: 1 },
        Op::Send { from: HQ, flow: 0, protocol: UDP, len: 877, count: 17 },
        Op::Send { from: HQ, flow: 1, protocol: TCP, len: 1060, count: 14 },
    ];
    check_that_nothing_is_lost(&[10, 4], setup, &ops);
}

#[test]
fn regression_a_packet_repaired_by_another_path_does_not_overtake_its_flow() {
    let setup = Setup { can_dial: [true, false], repair: RepairKind::Fec, ..SchedulerKind::Flow.into() };
    let ops = [
        send_from_van(28, 11),
        Op::Send { from: VAN, flow: 2, protocol: UDP, len: 28, count: 12 },
        send_from_van(28, 7),
        Op::Wait { ms: 100 },
        Op::Send { from: VAN, flow: 1, protocol: TCP, len: 1255, count: 19 },
        Op::Send { from: HQ, flow: 0, protocol: TCP, len: 28, count: 1 },
        Op::Wait { ms: 1 },
    ];
    check_that_nothing_is_lost(&[7, 34], setup, &ops);
}

#[test]
fn regression_what_finds_no_room_in_a_queue_is_counted() {
    let setup = Setup { can_dial: [true, false], ..SchedulerKind::Earliest.into() };
    let burst = [(955, 19), (1136, 17), (577, 19), (666, 11), (712, 15), (211, 3), (1094, 16), (715, 16)];
    let burst = burst.map(|(len, count)| send_from_van(len, count));
    let ops: Vec<_> = [send_from_van(28, 1), Op::Wait { ms: 25 }].into_iter().chain(burst).collect();
    check_that_nothing_is_lost(&[10], setup, &ops);
}
