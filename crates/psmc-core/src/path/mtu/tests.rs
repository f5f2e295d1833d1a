use proptest::prelude::*;
use psmc_wire::frame::{AckHeader, Frame, FrameWriter, Frames, PacketRange};
use psmc_wire::ids::PathId;

use super::*;

/// Headers of UDP and IPv6.
const HEADERS: u16 = 48;

const BASE: u16 = BASE_PACKET - HEADERS;

const RTT: Duration = Duration::from_millis(100);

/// A path that carries datagrams of up to `carries` bytes, and the search for that.
struct Rig {
    mtu: PathMtu,
    carries: u16,
    now: Instant,
    next: u64,
    probes: Vec<u16>,
}

impl Rig {
    fn new(ceiling: u16, carries: u16) -> Self {
        let now = Instant::now();
        Self { mtu: PathMtu::new(ceiling, HEADERS, now), carries, now, next: 0, probes: Vec::new() }
    }

    /// Sends the probe that is due and acknowledges it if the path carries it.
    fn step(&mut self) {
        let Some(size) = self.mtu.next_probe(self.now) else { return };
        let number = PacketNumber(self.next);
        self.next += 1;
        self.probes.push(size);
        self.mtu.on_probe_sent(number, 2 * RTT, self.now);
        if size <= self.carries {
            self.now += RTT;
            self.acknowledge(number);
        }
    }

    fn acknowledge(&mut self, number: PacketNumber) {
        let header = AckHeader {
            path: PathId(0),
            largest: number.truncated(),
            delay_us: 0,
            received_at_us: 0,
            ect0: 0,
            congestion_experienced: 0,
        };
        let mut room = [0; 100];
        let range = PacketRange { first: number, last: number };
        assert!(FrameWriter::new(&mut room).ack(&header, std::iter::once(range)));
        let Some(Ok(Frame::Ack(ack))) = Frames::new(&room).next() else { panic!("no acknowledgement") };
        let _ = self.mtu.on_ack(&ack.ranges(PacketNumber(self.next)), self.now);
    }

    /// Runs until nothing is due within the next minute.
    fn search(&mut self) {
        for _ in 0..200 {
            let Some(due) = self.mtu.due().filter(|&due| due < self.now + Duration::from_secs(60)) else {
                return;
            };
            self.now = self.now.max(due);
            self.step();
        }
        panic!("the search does not end: {:?}", self.probes);
    }

    fn size(&self) -> u16 {
        u16::try_from(self.mtu.size()).expect("a size")
    }
}

#[test]
fn the_interface_is_believed_until_the_first_probe_has_had_its_time() {
    for (carries, end) in [(1452, 1452), (1300, BASE)] {
        let mut rig = Rig::new(1452, carries);
        assert_eq!((rig.mtu.expected(), rig.size()), (1452, BASE));
        rig.step();
        assert_eq!(rig.mtu.expected(), 1452);
        rig.now += 2 * RTT;
        rig.step();
        assert_eq!(rig.mtu.expected(), usize::from(end));
    }
    let mut rig = Rig::new(1452, 1300);
    rig.search();
    let found = rig.size();
    assert_eq!(rig.mtu.expected(), usize::from(found));
    // What is tried again later has been refuted once.
    rig.now += RAISE_AFTER;
    rig.step();
    assert_eq!((rig.mtu.expected(), *rig.probes.last().expect("a probe")), (usize::from(found), 1452));
}

#[test]
fn a_path_as_wide_as_its_interface_is_known_after_one_probe() {
    let mut rig = Rig::new(1452, 1452);
    assert_eq!(rig.size(), BASE);
    rig.search();
    assert_eq!((rig.size(), &rig.probes[..], rig.mtu.due()), (1452, &[1452][..], None));
}

#[test]
fn a_narrow_interface_needs_no_probe() {
    let rig = Rig::new(500, 500);
    assert_eq!((rig.size(), rig.mtu.due()), (BASE, None));
}

#[test]
fn behind_jumbo_frames_the_size_of_ethernet_is_tried_first() {
    let mut rig = Rig::new(8952, 1452);
    rig.search();
    assert_eq!((&rig.probes[..4], rig.size()), (&[8952, 8952, 8952, 1452][..], 1452));
}

#[test]
fn after_ten_minutes_more_is_tried_again() {
    let mut rig = Rig::new(1452, 1300);
    rig.search();
    assert!(rig.size() <= 1300 && rig.size() + GRAIN > 1300, "{}", rig.size());
    assert_eq!(rig.mtu.due(), Some(rig.now + RAISE_AFTER));
    rig.carries = 1452;
    rig.now += RAISE_AFTER;
    rig.step();
    assert_eq!(rig.size(), 1452);
}

#[test]
fn a_black_hole_is_one_when_small_datagrams_arrive_and_large_ones_do_not() {
    let lose = |rig: &mut Rig, at: Instant| {
        for _ in 0..BLACK_HOLE {
            rig.mtu.on_lost(1452, at);
        }
        rig.mtu.judge(rig.now);
    };
    for (small, large, falls) in [(true, false, true), (false, false, false), (true, true, false)] {
        let mut rig = Rig::new(1452, 1452);
        rig.search();
        let at = rig.now;
        lose(&mut rig, at);
        assert_eq!(rig.size(), 1452, "nothing has arrived");
        rig.now += RTT;
        if small {
            rig.mtu.on_arrived(200, at + RTT);
        }
        if large {
            rig.mtu.on_arrived(1452, at + RTT);
        }
        rig.mtu.judge(rig.now);
        assert_eq!((rig.size() == BASE, rig.mtu.take_shrunk()), (falls, falls), "{small} {large}");
        rig.search();
        assert_eq!(rig.size(), 1452, "a false alarm costs a round trip");
    }
}

#[test]
fn a_path_that_answers_small_datagrams_only_has_become_narrow() {
    let mut rig = Rig::new(1452, 1452);
    rig.search();
    rig.carries = 1272;
    rig.mtu.on_silence(Some(200));
    rig.mtu.on_revived(rig.now);
    assert_eq!(rig.size(), 1452, "what was not acknowledged is small");
    rig.mtu.on_silence(Some(1452));
    rig.mtu.on_revived(rig.now);
    assert_eq!((rig.size(), rig.mtu.take_shrunk()), (BASE, true));
    rig.search();
    assert!(rig.size() <= 1272 && rig.size() + GRAIN > 1272, "{}", rig.size());
    assert!(!rig.mtu.take_shrunk());
}

/// No network should, and some do.
#[test]
fn a_path_that_swallows_the_base_size_is_used_with_less() {
    let mut rig = Rig::new(1452, 1452);
    rig.search();
    rig.carries = 900;
    rig.mtu.on_silence(Some(1452));
    rig.mtu.on_revived(rig.now);
    assert_eq!(rig.size(), BASE, "that is all that is known");
    rig.mtu.on_silence(Some(BASE));
    rig.mtu.on_revived(rig.now);
    assert_eq!(rig.size(), LEAST_PACKET - HEADERS);
    rig.search();
    assert!((900 - GRAIN..=900).contains(&rig.size()), "{}", rig.size());
    assert_eq!(rig.mtu.narrower_than(), Some(1500));
    rig.mtu.on_silence(Some(LEAST_PACKET - HEADERS));
    rig.mtu.on_revived(rig.now);
    assert!(
        rig.size() > LEAST_PACKET - HEADERS,
        "what was swallowed is no larger than what every host takes"
    );
}

#[test]
fn what_the_kernel_refuses_is_not_used_any_more() {
    let mut rig = Rig::new(1452, 1452);
    rig.search();
    rig.mtu.on_refused(1452, rig.now);
    assert_eq!(rig.size(), BASE);
    rig.carries = 1400;
    for _ in 0..20 {
        let Some(size) = rig.mtu.next_probe(rig.now) else { break };
        if size > rig.carries {
            rig.mtu.on_refused(size.into(), rig.now);
        } else {
            rig.step();
        }
    }
    assert!(rig.size() <= 1400 && rig.size() + GRAIN > 1400, "{}", rig.size());
    rig.mtu.on_refused(BASE.into(), rig.now);
    assert!(rig.size() > BASE, "less than the base is nothing that could be heeded");
}

#[test]
fn a_probe_that_is_acknowledged_late_counts() {
    let mut rig = Rig::new(1452, 0);
    rig.step();
    rig.now += 2 * RTT;
    rig.step();
    rig.acknowledge(PacketNumber(0));
    assert_eq!(rig.size(), 1452);
}

/// An interface, and what its path carries.
fn sizes() -> impl Strategy<Value = (u16, u16)> {
    (BASE..10_000).prop_flat_map(|ceiling| (Just(ceiling), BASE..=ceiling))
}

proptest! {
    #[test]
    fn the_search_finds_what_the_path_carries((ceiling, carries) in sizes()) {
        let mut rig = Rig::new(ceiling, carries);
        rig.search();
        prop_assert!(rig.size() <= carries && rig.size() + GRAIN >= carries, "{} of {}", rig.size(), carries);
        prop_assert!(rig.probes.len() <= 60, "{}", rig.probes.len());
    }
}
