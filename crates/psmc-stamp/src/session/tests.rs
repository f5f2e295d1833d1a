use proptest::prelude::*;
use stamp_suite::packets::{PacketAuthenticated, PacketUnauthenticated};

use super::*;

const REMOTE: &str = "192.0.2.1:862";
const PATIENCE: Duration = Duration::from_secs(2);
/// How long each way takes, and the reflector itself.
const FORWARD: Duration = Duration::from_millis(20);
const BACKWARD: Duration = Duration::from_millis(10);
const HELD: Duration = Duration::from_millis(5);

/// A measurement in virtual time, and the reflector at its other end, whose clock is off.
struct World {
    session: Session,
    key: Option<Key>,
    now: Reading,
    off: i64,
    answered: u32,
    is_stateless: bool,
}

/// A probe as it has left.
struct Sent {
    bytes: Vec<u8>,
    at: Reading,
}

impl World {
    fn new(key: Option<Key>) -> Self {
        let now = Reading { monotonic: Instant::now(), system: Duration::from_secs(1_800_000_000) };
        let session = Session::new(remote(), key.clone(), 7, PATIENCE);
        Self { session, key, now, off: 0, answered: 0, is_stateless: false }
    }

    fn pass(&mut self, time: Duration) {
        self.now = Reading { monotonic: self.now.monotonic + time, system: self.now.system + time };
    }

    fn send(&mut self) -> Sent {
        self.pass(Duration::from_millis(100));
        Sent { bytes: self.session.probe(self.now).1, at: self.now }
    }

    /// The answer to a probe that the reflector receives.
    fn reflect(&mut self, sent: &Sent) -> Vec<u8> {
        let (came, left) = (sent.at.system + FORWARD, sent.at.system + FORWARD + HELD);
        let [came, left] = [came, left].map(|time| {
            let off = Duration::from_millis(self.off.unsigned_abs());
            timestamp(if self.off < 0 { time - off } else { time + off })
        });
        let error = ErrorEstimate { synchronized: true, z_flag: false, scale: 10, multiplier: 9 }.to_wire();
        let answer = match &self.key {
            None => {
                let packet = PacketUnauthenticated::from_bytes(&sent.bytes).unwrap();
                let number = if self.is_stateless { packet.sequence_number } else { self.answered };
                let packet = ReflectedPacketUnauthenticated {
                    sequence_number: number,
                    timestamp: left,
                    error_estimate: error,
                    ssid: packet.ssid,
                    receive_timestamp: came,
                    sess_sender_seq_number: packet.sequence_number,
                    sess_sender_timestamp: packet.timestamp,
                    sess_sender_err_estimate: packet.error_estimate,
                    mbz2: [0; 2],
                    sess_sender_ttl: 250,
                    mbz3: [0; 3],
                };
                packet.to_bytes().to_vec()
            }
            Some(key) => {
                let packet = PacketAuthenticated::from_bytes(&sent.bytes).unwrap();
                let mut answer = ReflectedPacketAuthenticated::from_bytes(&[0; AUTH_BASE_SIZE]).unwrap();
                answer.sequence_number =
                    if self.is_stateless { packet.sequence_number } else { self.answered };
                (answer.timestamp, answer.receive_timestamp) = (left, came);
                (answer.error_estimate, answer.ssid, answer.sess_sender_ttl) = (error, packet.ssid, 250);
                answer.sess_sender_seq_number = packet.sequence_number;
                answer.sess_sender_timestamp = packet.timestamp;
                answer.hmac = key.hmac().compute(&answer.to_bytes()[..AUTH_HMAC_OFFSET]);
                answer.to_bytes().to_vec()
            }
        };
        self.answered = self.answered.wrapping_add(1);
        answer
    }

    /// Its answer comes back in time.
    fn receive(&mut self, sent: &Sent, answer: &[u8]) -> Option<Answer> {
        let at = sent.at.monotonic + FORWARD + HELD + BACKWARD;
        self.pass(at.saturating_duration_since(self.now.monotonic));
        self.session.answer(answer, remote(), self.now, Some(251))
    }

    fn round(&mut self) -> Option<Answer> {
        let sent = self.send();
        let answer = self.reflect(&sent);
        self.receive(&sent, &answer)
    }

    fn counted(&self) -> Vec<(Oddity, u64)> {
        self.session.oddities().iter().collect()
    }
}

fn remote() -> SocketAddr {
    REMOTE.parse().unwrap()
}

fn key() -> Key {
    Key::new(b"a key that both have").unwrap()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap()
}

fn assert_measured(answer: &Answer, off: Duration) {
    let OneWay::Measured { forward, backward } = answer.one_way else { panic!("{answer:?}") };
    assert!((forward - millis(FORWARD + off)).abs() <= 2, "{answer:?}");
    assert!((backward - millis(BACKWARD) + millis(off)).abs() <= 2, "{answer:?}");
}

#[test]
fn the_delays_are_those_of_the_ways_whatever_the_clock_of_the_reflector() {
    for key in [None, Some(key())] {
        for off in [0, 1, 3_600_000] {
            let mut world = World::new(key.clone());
            world.off = off;
            let answer = world.round().unwrap();
            assert!(answer.round_trip.abs_diff(FORWARD + BACKWARD) <= Duration::from_nanos(2), "{answer:?}");
            assert_measured(&answer, Duration::from_millis(off.unsigned_abs()));
            assert_eq!((answer.hops_there, answer.hops_back, answer.sequence), (Some(250), Some(251), 0));
            assert!(answer.clocks[1].is_synchronised && !answer.is_reordered);
            assert_eq!(world.counted(), []);
        }
    }
}

#[test]
fn a_reflector_whose_clock_is_set_makes_the_delays_each_way_unknown_and_no_other() {
    let mut world = World::new(None);
    for round in 0..10 {
        if round == 5 {
            world.off += 3_600_000;
        }
        let answer = world.round().unwrap();
        assert!(answer.round_trip.abs_diff(FORWARD + BACKWARD) <= Duration::from_nanos(2), "{answer:?}");
        assert_eq!(answer.one_way == OneWay::ClockSet, round == 5, "{answer:?}");
    }
    assert_eq!(world.session.clock_sets(), 1);
}

#[test]
fn a_clock_that_is_set_here_makes_the_delays_each_way_unknown_and_no_other() {
    // While a probe is away, and between two probes.
    for is_away in [true, false] {
        let mut world = World::new(None);
        world.round().unwrap();
        let mut sent = world.send();
        let hour = Duration::from_secs(3600);
        if !is_away {
            world.now.system -= hour;
            sent = world.send();
            sent.at.system += hour;
        }
        let answer = world.reflect(&sent);
        if is_away {
            world.now.system -= hour;
        }
        let answer = world.receive(&sent, &answer).unwrap();
        assert!(answer.round_trip.abs_diff(FORWARD + BACKWARD) <= Duration::from_nanos(2), "{answer:?}");
        assert_eq!(answer.one_way, OneWay::ClockSet, "{is_away}");
        assert_eq!(world.session.clock_sets(), 1);
    }
}

#[test]
fn a_path_that_becomes_slower_is_no_clock_that_was_set() {
    let mut world = World::new(None);
    for slower in [0, 1, 100, 1000, 0, 1000] {
        let sent = world.send();
        let answer = world.reflect(&sent);
        world.pass(Duration::from_millis(slower));
        let answer = world.receive(&sent, &answer).unwrap();
        assert!(matches!(answer.one_way, OneWay::Measured { .. }), "{answer:?}");
    }
}

#[test]
fn what_is_not_believed_is_counted_by_its_name() {
    let mut world = World::new(Some(key()));
    let sent = world.send();
    let answer = world.reflect(&sent);
    assert_eq!(world.receive(&sent, &answer[..AUTH_BASE_SIZE - 1]), None);
    let mut forged = answer.clone();
    forged[40] ^= 1;
    assert_eq!(world.receive(&sent, &forged), None);
    let elsewhere = "192.0.2.2:862".parse().unwrap();
    assert_eq!(world.session.answer(&answer, elsewhere, world.now, None), None);
    assert!(world.receive(&sent, &answer).is_some());
    assert_eq!(world.receive(&sent, &answer), None);
    let (late, early) = (world.send(), world.send());
    let [late_answer, early_answer] = [&late, &early].map(|sent| world.reflect(sent));
    assert!(world.receive(&early, &early_answer).is_some());
    assert!(world.receive(&late, &late_answer).unwrap().is_reordered);
    let lost = world.send();
    let too_late = world.reflect(&lost);
    world.pass(PATIENCE);
    assert_eq!(world.session.give_up(world.now.monotonic), Some(3));
    assert_eq!(world.receive(&lost, &too_late), None);
    let ones = [Oddity::Truncated, Oddity::WrongHmac, Oddity::OtherAddress, Oddity::Doubled, Oddity::Late];
    let mut expected = ones.map(|oddity| (oddity, 1)).to_vec();
    expected.push((Oddity::Reordered, 1));
    assert_eq!(world.counted(), expected);
    let losses = world.session.losses();
    assert_eq!((losses.sent, losses.answered, losses.lost()), (4, 3, 1));
}

#[test]
fn an_answer_to_something_else_is_not_believed() {
    let mut world = World::new(None);
    let sent = world.send();
    let answer = world.reflect(&sent);
    // Number, timestamp and session of the probe.
    for at in [27, 28, 35, 15] {
        let mut other = answer.clone();
        other[at] ^= 1;
        assert_eq!(world.receive(&sent, &other), None, "{at}");
    }
    assert_eq!(world.counted(), [(Oddity::Unasked, 4)]);
    // A reflector that does not know of sessions (RFC 8762).
    let mut older = answer;
    older[14..16].fill(0);
    assert!(world.receive(&sent, &older).is_some());
}

#[test]
fn times_that_cannot_be_leave_the_round_trip() {
    let mut world = World::new(None);
    // It says that it has sent the answer before the question came, or an hour later.
    for off in [-1i64, 3600] {
        let sent = world.send();
        let mut answer = world.reflect(&sent);
        let left =
            (sent.at.system + FORWARD).saturating_sub(Duration::ZERO).as_secs().saturating_add_signed(off);
        answer[4..12].copy_from_slice(&timestamp(Duration::from_secs(left)).to_be_bytes());
        let answer = world.receive(&sent, &answer).unwrap();
        assert_eq!((answer.round_trip, answer.one_way), (FORWARD + HELD + BACKWARD, OneWay::Implausible));
    }
    assert_eq!(world.counted(), [(Oddity::Implausible, 2)]);
}

#[test]
fn extensions_that_cannot_be_read_are_counted_and_not_believed() {
    let mut world = World::new(None);
    let sent = world.send();
    let mut answer = world.reflect(&sent);
    // Direct Measurement, of a length that it does not have.
    answer.extend([0, 5, 0, 99, 1, 2, 3, 4]);
    let answer = world.receive(&sent, &answer).unwrap();
    assert_eq!(answer.counters, None);
    assert_eq!(world.counted(), [(Oddity::MalformedExtensions, 1)]);
}

/// Plays probes, each of which is lost on its way there, on its way back, or not.
fn lose(world: &mut World, fates: &[u8]) -> (u64, u64) {
    let mut lost = (0, 0);
    for fate in fates {
        let sent = world.send();
        if *fate == 1 {
            lost.0 += 1;
            continue;
        }
        let answer = world.reflect(&sent);
        if *fate == 2 {
            lost.1 += 1;
            continue;
        }
        assert!(world.receive(&sent, &answer).is_some());
    }
    world.pass(PATIENCE);
    while world.session.give_up(world.now.monotonic).is_some() {}
    lost
}

proptest! {
    #[test]
    fn losses_are_told_apart_by_a_stateful_reflector(mut fates in proptest::collection::vec(0u8..3, 1..60)) {
        // One that is known to be stateful, and an answer at the end.
        fates.insert(0, 1);
        fates.push(0);
        let mut world = World::new(None);
        let lost = lose(&mut world, &fates);
        let losses = world.session.losses();
        prop_assert_eq!((losses.forward, losses.backward, losses.unknown()), (Some(lost.0), Some(lost.1), 0));
    }

    #[test]
    fn losses_are_not_told_apart_by_a_stateless_one(mut fates in proptest::collection::vec(0u8..3, 1..60)) {
        fates.push(1);
        let mut world = World::new(None);
        world.is_stateless = true;
        let lost = lose(&mut world, &fates);
        let losses = world.session.losses();
        prop_assert_eq!((losses.forward, losses.backward, losses.unknown()), (None, None, lost.0 + lost.1));
    }

    #[test]
    fn no_answer_makes_it_panic_or_is_believed(bytes in proptest::collection::vec(any::<u8>(), 0..200), has_key: bool) {
        let mut world = World::new(has_key.then(key));
        let sent = world.send();
        prop_assert_eq!(world.receive(&sent, &bytes), None);
    }

    #[test]
    fn no_extension_makes_it_panic(tail in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut world = World::new(None);
        let sent = world.send();
        let mut answer = world.reflect(&sent);
        answer.extend(tail);
        prop_assert!(world.receive(&sent, &answer).is_some());
    }
}

#[test]
fn what_it_takes_to_make_a_probe_is_no_delay() {
    let mut world = World::new(None);
    let mut sent = world.send();
    world.pass(Duration::from_millis(3));
    sent.at = world.now;
    world.session.leaves(world.now);
    let answer = world.reflect(&sent);
    let answer = world.receive(&sent, &answer).unwrap();
    assert!(answer.round_trip.abs_diff(FORWARD + BACKWARD) <= Duration::from_nanos(2), "{answer:?}");
    assert_measured(&answer, Duration::ZERO);
    // Of one that waits no more nothing changes.
    let times = |world: &World| world.session.probes.values().map(|probe| probe.at).collect::<Vec<_>>();
    let before = times(&world);
    world.session.leaves(world.now);
    assert_eq!(times(&world), before);
}

#[test]
fn a_probe_that_was_not_sent_leaves_no_gap() {
    let mut world = World::new(None);
    world.session.not_sent();
    world.round().unwrap();
    let sent = world.send();
    world.session.not_sent();
    assert_eq!(world.session.deadline(), None);
    let answer = world.round().unwrap();
    assert_eq!((answer.sequence, sent.bytes.len()), (1, 60));
    assert_eq!(world.session.losses().lost(), 0);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut world = World::new(None);
    for _ in 0..MAX_REMEMBERED + 10 {
        world.session.probe(world.now);
    }
    assert_eq!(world.session.probes.len(), MAX_REMEMBERED);
    assert_eq!(world.session.losses().lost(), 10);
}

#[test]
fn numbers_on_the_wire_begin_anew() {
    let mut world = World::new(None);
    world.session.next = u64::from(u32::MAX);
    world.answered = u32::MAX;
    for expected in [u32::MAX, 0, 1] {
        assert_eq!(world.round().unwrap().sequence, expected);
    }
}
