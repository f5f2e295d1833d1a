//! Byte streams between the sites: connections that these end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use psmc_core::{Event, SchedulerKind, StreamError, StreamEvent};
use psmc_wire::StreamId;
use psmc_wire::frame::{StreamOpening, StreamOutcome};

use crate::world::{HQ, Link, Setup, UDP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn splitting() -> Setup {
    Setup { split: true, ..SchedulerKind::Earliest.into() }
}

fn opening(from: usize, port: u16) -> StreamOpening {
    let address = |end: usize, port| ([10, 77, 0, [2, 1][end]], port).into();
    StreamOpening { client: address(from, port), server: address(1 - from, 80), dscp: 0 }
}

/// The byte at an offset of the direction from an end of a stream.
fn byte(from: usize, id: StreamId, offset: u64) -> u8 {
    let mixed = (offset ^ offset >> 8 ^ offset >> 16).wrapping_mul(0x9e37_79b9);
    mixed.to_le_bytes()[0] ^ id.0.to_le_bytes()[0] ^ [0, 0x5a][from]
}

/// One end of a stream, as whoever drives a site knows it.
#[derive(Debug, Default)]
struct Half {
    answered: Option<StreamOutcome>,
    /// Bytes that are to be written, have been, and have come.
    wanted: u64,
    written: u64,
    read: u64,
    /// Whether the end follows what is to be written, and was written.
    finish: bool,
    finished: bool,
    /// Whether what comes is left where it is.
    lazy: bool,
    /// Whether the end of the other direction was taken, and whether the stream was reset.
    ended: bool,
    /// Whether there was no such stream any more when the driver heard of it.
    is_gone: bool,
    reset: bool,
}

/// A world and all of its streams.
struct Streams {
    world: World,
    halves: [BTreeMap<StreamId, Half>; 2],
    seen: [usize; 2],
    /// What is answered to who opens a stream.
    answer: StreamOutcome,
}

impl Streams {
    fn new(world: World) -> Self {
        let seen = [world.ends[VAN].events.len(), world.ends[HQ].events.len()];
        Self { world, halves: [BTreeMap::new(), BTreeMap::new()], seen, answer: StreamOutcome::Open }
    }

    fn open(&mut self, from: usize, port: u16) -> Result<StreamId, StreamError> {
        let (peer, now) = (self.world.ends[from].peer, self.world.now);
        let mut handle = self.world.ends[from].site.peer(peer).expect("the peer exists");
        let id = handle.open_stream(opening(from, port), now)?;
        self.halves[from].insert(id, Half::default());
        Ok(id)
    }

    fn with<T>(
        &mut self,
        end: usize,
        id: StreamId,
        use_it: impl FnOnce(psmc_core::StreamHandle<'_>) -> T,
    ) -> Option<T> {
        let peer = self.world.ends[end].peer;
        let handle = self.world.ends[end].site.peer(peer).expect("the peer exists").stream(id).ok()?;
        Some(use_it(handle))
    }

    fn half(&mut self, end: usize, id: StreamId) -> &mut Half {
        self.halves[end].get_mut(&id).expect("a stream")
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.drive();
            self.world.run_for(ms(1));
        }
        self.drive();
    }

    /// Runs until `is_done`; says how long that took.
    fn run_until(&mut self, most: Duration, is_done: impl Fn(&Self) -> bool) -> Duration {
        let start = self.world.now;
        while !is_done(self) {
            assert!(self.world.now - start < most, "not within {most:?}: {:?}", self.halves);
            self.run_for(ms(1));
        }
        self.world.now - start
    }

    fn drive(&mut self) {
        for end in [VAN, HQ] {
            for event in
                self.world.ends[end].events.split_off(self.seen[end].min(self.world.ends[end].events.len()))
            {
                if let Event::Stream { stream, event, .. } = event {
                    self.on_event(end, stream, event);
                }
            }
            self.seen[end] = self.world.ends[end].events.len();
            assert!(self.halves[end].values().all(|half| half.reset || !half.is_gone), "it was opened");
            for id in self.halves[end].keys().copied().collect::<Vec<_>>() {
                self.write(end, id);
                self.read(end, id);
            }
        }
        self.world.settle();
    }

    fn on_event(&mut self, end: usize, id: StreamId, event: StreamEvent) {
        match event {
            StreamEvent::Opened(asked) => {
                assert_eq!(asked.server.port(), 80);
                let before = self.halves[end].insert(id, Half::default());
                assert!(before.is_none_or(|before| before.reset), "{id:?} is opened twice");
                let (answer, now) = (self.answer, self.world.now);
                self.half(end, id).answered = Some(answer);
                // One that was reset before anybody could answer is gone, as another event says.
                let is_gone = self.with(end, id, |stream| stream.answer(answer, now)).is_none();
                self.half(end, id).is_gone = is_gone;
            }
            StreamEvent::Answered(outcome) => self.half(end, id).answered = Some(outcome),
            StreamEvent::Readable | StreamEvent::Writable => {}
            StreamEvent::Reset => self.half(end, id).reset = true,
        }
    }

    fn write(&mut self, end: usize, id: StreamId) {
        let now = self.world.now;
        let half = &self.halves[end][&id];
        let (mut written, wanted, finish) = (half.written, half.wanted, half.finish && !half.finished);
        if half.answered != Some(StreamOutcome::Open) {
            return;
        }
        let finished = self.with(end, id, |mut stream| {
            while written < wanted && stream.room() > 0 {
                let len = (wanted - written).min(stream.chunk() as u64);
                let bytes: Vec<_> = (written..written + len).map(|at| byte(end, id, at)).collect();
                let mut buf = stream.pool().take();
                buf.fill(&bytes);
                stream.write(buf, now);
                written += len;
            }
            let finishes = finish && written == wanted;
            if finishes {
                stream.finish(now);
            }
            finishes
        });
        let half = self.half(end, id);
        half.written = written;
        half.finished |= finished.unwrap_or_default();
    }

    fn read(&mut self, end: usize, id: StreamId) {
        let now = self.world.now;
        let half = &self.halves[end][&id];
        if half.lazy {
            return;
        }
        let from = half.read;
        let result = self.with(end, id, |mut stream| {
            let bytes = stream.chunks().collect::<Vec<_>>().concat();
            for (at, &found) in (from..).zip(&bytes) {
                assert_eq!(found, byte(1 - end, id, at), "offset {at} of {id:?}");
            }
            let read = bytes.len();
            stream.consume(read / 2, now);
            stream.consume(read - read / 2, now);
            (read as u64, stream.take_end())
        });
        let half = self.half(end, id);
        if let Some((read, ended)) = result {
            half.read += read;
            half.ended |= ended;
        }
    }

    /// Sends `bytes` from an end, and the end of them.
    fn send(&mut self, end: usize, id: StreamId, bytes: u64) {
        let half = self.half(end, id);
        half.wanted += bytes;
        half.finish = true;
    }

    fn open_streams(&self, end: usize) -> usize {
        self.world.status(end).open_streams
    }
}

/// Both sites, connected, with paths of 50 Mb/s: one as it should be, and one that is far, loses and reorders.
fn uneven() -> World {
    let mut far = Link::new(40).mbit(50).loss_one_in(50);
    far.reorder_one_in = 20;
    World::connected(vec![Link::new(10).mbit(50), far], splitting())
}

#[test]
fn a_stream_gets_all_of_both_paths_though_one_loses_and_reorders() {
    let mut streams = Streams::new(uneven());
    let id = streams.open(VAN, 5000).expect("both sites split");
    streams.send(VAN, id, 40_000_000);
    let took =
        streams.run_until(ms(20_000), |streams| streams.halves[HQ].get(&id).is_some_and(|half| half.ended));
    assert_eq!(streams.half(HQ, id).read, 40_000_000);
    let mut world = uneven();
    let end = world.now + took;
    let mut number = 0;
    while world.now < end {
        // As much as 200 Mb/s.
        for _ in 0..18 {
            world.send(VAN, &packet(VAN, UDP, 1, number, 1400));
            number += 1;
        }
        world.run_for(ms(1));
    }
    let flood: usize = world.ends[HQ].delivered.iter().map(|(_, packet)| packet.len() - 28).sum();
    let mbit = |bytes: usize| (bytes * 8) as f64 / took.as_secs_f64() / 1e6;
    println!("{:.1} Mb/s, a flood {:.1} of 100", mbit(40_000_000), mbit(flood));
    assert!(40_000_000 >= flood / 100 * 97, "{:.1} Mb/s, a flood {:.1}", mbit(40_000_000), mbit(flood));
}

#[test]
fn each_direction_ends_by_itself_and_then_nothing_is_left() {
    let mut streams = Streams::new(World::connected(vec![Link::new(10).mbit(50)], splitting()));
    let id = streams.open(VAN, 5000).expect("both sites split");
    streams.send(VAN, id, 10);
    streams.run_until(ms(1000), |streams| streams.halves[HQ].get(&id).is_some_and(|half| half.ended));
    assert_eq!(streams.open_streams(HQ), 1, "the other direction goes on");
    streams.send(HQ, id, 3_000_000);
    streams.run_until(ms(3000), |streams| streams.halves[VAN][&id].ended);
    assert_eq!(streams.half(VAN, id).read, 3_000_000);
    streams.run_for(ms(100));
    assert_eq!([VAN, HQ].map(|end| streams.open_streams(end)), [0, 0]);
    let counters = streams.world.status(HQ).streams.expect("they are carried");
    assert_eq!(
        (counters.accepted, counters.rx_bytes, counters.tx_bytes, counters.reset),
        (1, 10, 3_000_000, 0)
    );
}

#[test]
fn both_sites_open_streams_and_each_answer_comes_back() {
    let mut streams = Streams::new(World::connected(vec![Link::new(10)], splitting()));
    streams.answer = StreamOutcome::Refused;
    let ids = [VAN, HQ].map(|end| streams.open(end, 5000).expect("both sites split"));
    streams.run_for(ms(50));
    for (end, id) in ids.into_iter().enumerate() {
        assert_eq!(streams.half(end, id).answered, Some(StreamOutcome::Refused));
        assert_eq!(streams.open_streams(end), 0);
    }
}

#[test]
fn without_the_agreement_of_both_there_are_no_streams() {
    let mut streams = Streams::new(World::connected(vec![Link::new(10)], SchedulerKind::Earliest));
    assert_eq!(streams.open(VAN, 5000), Err(StreamError::Unsupported));
    assert_eq!(streams.world.status(VAN).streams, None);
}

#[test]
fn nobody_opens_a_connection_from_an_address_of_others() {
    let mut streams = Streams::new(World::connected(vec![Link::new(10)], splitting()));
    let (peer, now) = (streams.world.ends[VAN].peer, streams.world.now);
    let stranger = StreamOpening { client: ([192, 0, 2, 1], 7).into(), ..opening(VAN, 7) };
    let mut handle = streams.world.ends[VAN].site.peer(peer).expect("the peer exists");
    let id = handle.open_stream(stranger, now).expect("this site does not ask whose it is");
    streams.halves[VAN].insert(id, Half::default());
    streams.run_for(ms(50));
    assert_eq!(streams.half(VAN, id).answered, Some(StreamOutcome::Prohibited));
    assert!(streams.halves[HQ].is_empty(), "nobody was asked to connect");
}

#[test]
fn what_is_not_taken_holds_its_sender_back_and_no_other() {
    let mut streams = Streams::new(World::connected(vec![Link::new(5).mbit(100)], splitting()));
    let ids = [5000, 5001].map(|port| streams.open(VAN, port).expect("both sites split"));
    streams.run_for(ms(30));
    streams.half(HQ, ids[0]).lazy = true;
    ids.iter().for_each(|&id| streams.send(VAN, id, 20_000_000));
    streams.run_until(ms(5000), |streams| streams.halves[HQ][&ids[1]].ended);
    let status = |streams: &mut Streams, end: usize| {
        let peer = streams.world.ends[end].peer;
        let all = streams.world.ends[end].site.peer(peer).expect("the peer exists").streams();
        all.into_iter().find(|stream| stream.id == ids[0]).expect("it waits")
    };
    let (near, far) = (status(&mut streams, VAN), status(&mut streams, HQ));
    assert!(far.held > 0 && far.held <= far.window, "{far:?}");
    assert!(near.waiting < 700_000, "{near:?}");
    assert_eq!(near.sent, far.held, "all that may be sent has come");
    streams.half(HQ, ids[0]).lazy = false;
    streams.run_until(ms(5000), |streams| streams.halves[HQ][&ids[0]].ended);
    assert_eq!(streams.half(HQ, ids[0]).read, 20_000_000);
}

#[test]
fn a_peer_that_has_lost_its_state_resets_its_streams_and_new_ones_have_no_old_bytes() {
    let mut streams = Streams::new(World::connected(vec![Link::new(20).mbit(20)], splitting()));
    let id = streams.open(VAN, 5000).expect("both sites split");
    streams.send(VAN, id, 50_000_000);
    streams.run_for(ms(500));
    assert!(streams.half(HQ, id).read > 0);
    streams.world.restart(HQ);
    (streams.halves[HQ], streams.seen[HQ]) = (BTreeMap::new(), 0);
    streams.run_until(ms(5000), |streams| streams.halves[VAN][&id].reset);
    streams.run_for(ms(1000));
    let again = streams.open(VAN, 5001).expect("both sites split");
    streams.send(VAN, again, 1_000_000);
    streams.run_until(ms(3000), |streams| streams.halves[HQ].get(&again).is_some_and(|half| half.ended));
    assert_eq!(streams.half(HQ, again).read, 1_000_000);
}

#[test]
fn a_stream_outlives_its_paths_one_after_the_other() {
    let mut streams = Streams::new(uneven());
    let id = streams.open(VAN, 5000).expect("both sites split");
    streams.send(VAN, id, 20_000_000);
    for cut in (0..30).map(|turn| turn % 2) {
        streams.world.links[cut].passes = [false; 2];
        streams.run_for(ms(60));
        streams.world.links[cut].passes = [true; 2];
        streams.run_for(ms(60));
    }
    streams.run_until(ms(20_000), |streams| streams.halves[HQ][&id].ended);
    assert_eq!(streams.half(HQ, id).read, 20_000_000);
}

/// How long packets of another flow take at the 99th percentile, one each 10 ms, beside what `fill` sends each millisecond.
fn wait_beside(streams: &mut Streams, mut fill: impl FnMut(&mut World)) -> Duration {
    let mut sent = VecDeque::new();
    for turn in 0..5000 {
        fill(&mut streams.world);
        if turn >= 3000 && turn % 10 == 0 {
            streams.world.send(VAN, &packet(VAN, UDP, 9, turn, 100));
            sent.push_back(streams.world.now);
        }
        streams.run_for(ms(1));
    }
    streams.run_for(ms(50));
    let delivered =
        streams.world.ends[HQ].delivered.iter().filter(|(_, packet)| packet[20..22] == 9u16.to_be_bytes());
    let mut waits: Vec<_> = delivered.zip(&sent).map(|((at, _), sent)| *at - *sent).collect();
    assert_eq!(waits.len(), 200, "none is lost");
    waits.sort();
    waits[197]
}

#[test]
fn packets_wait_no_longer_for_a_stream_than_for_a_flow_of_packets() {
    let world = || Streams::new(World::connected(vec![Link::new(10).mbit(20)], splitting()));
    let mut number = 0;
    let beside_packets = wait_beside(&mut world(), |world| {
        for _ in 0..3 {
            world.send(VAN, &packet(VAN, UDP, 1, number, 1400));
            number += 1;
        }
    });
    let mut streams = world();
    let id = streams.open(VAN, 5000).expect("both sites split");
    streams.half(VAN, id).wanted = u64::MAX;
    let beside_a_stream = wait_beside(&mut streams, |_| {});
    println!("{beside_a_stream:?} beside a stream, {beside_packets:?} beside packets");
    assert!(beside_a_stream <= beside_packets.mul_f64(1.2), "{beside_a_stream:?}, and {beside_packets:?}");
}

#[derive(Clone, Debug)]
enum Operation {
    Open(usize),
    Send(usize, usize, u64),
    Finish(usize, usize),
    Reset(usize, usize),
    Lazy(usize, usize, bool),
    Cut(usize, bool),
    Restart(usize),
    Run(u64),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let (end, stream) = (0..2usize, 0..6usize);
    let operation = prop_oneof![
        3 => end.clone().prop_map(Operation::Open),
        6 => (end.clone(), stream.clone(), 1..3_000_000u64).prop_map(|(end, at, n)| Operation::Send(end, at, n)),
        2 => (end.clone(), stream.clone()).prop_map(|(end, at)| Operation::Finish(end, at)),
        1 => (end.clone(), stream.clone()).prop_map(|(end, at)| Operation::Reset(end, at)),
        1 => (end.clone(), stream, any::<bool>()).prop_map(|(end, at, lazy)| Operation::Lazy(end, at, lazy)),
        2 => (0..2usize, any::<bool>()).prop_map(|(link, passes)| Operation::Cut(link, passes)),
        1 => end.prop_map(Operation::Restart),
        8 => (1..400u64).prop_map(Operation::Run),
    ];
    proptest::collection::vec(operation, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is done: bytes come in order, once, and as they were sent (which `read` asserts); and what was sent to who takes it
    /// has come in the end, unless it was reset.
    #[test]
    fn no_operations_make_a_stream_lose_or_mix_up_a_byte(operations in operations()) {
        let mut streams = Streams::new(uneven());
        for operation in operations {
            let nth = |streams: &Streams, end: usize, at: usize| {
                let known = &streams.halves[end];
                known.iter().filter(|(_, half)| !half.reset).map(|(id, _)| *id).nth(at)
            };
            match operation {
                Operation::Open(end) => drop(streams.open(end, 5000)),
                Operation::Send(end, at, bytes) => {
                    if let Some(id) = nth(&streams, end, at).filter(|id| !streams.halves[end][id].finish) {
                        streams.half(end, id).wanted += bytes;
                    }
                }
                Operation::Finish(end, at) => {
                    if let Some(id) = nth(&streams, end, at) {
                        streams.half(end, id).finish = true;
                    }
                }
                Operation::Reset(end, at) => {
                    if let Some(id) = nth(&streams, end, at) {
                        let now = streams.world.now;
                        streams.with(end, id, |stream| stream.reset(now));
                        streams.half(end, id).reset = true;
                    }
                }
                Operation::Lazy(end, at, lazy) => {
                    if let Some(id) = nth(&streams, end, at) {
                        streams.half(end, id).lazy = lazy;
                    }
                }
                Operation::Cut(link, passes) => streams.world.links[link].passes = [passes; 2],
                Operation::Restart(end) => {
                    streams.world.restart(end);
                    (streams.halves[end], streams.seen[end]) = (BTreeMap::new(), 0);
                }
                Operation::Run(time) => streams.run_for(ms(time)),
            }
        }
        for link in 0..2 {
            streams.world.links[link].passes = [true; 2];
        }
        streams.halves.iter_mut().flat_map(BTreeMap::values_mut).for_each(|half| half.lazy = false);
        streams.run_for(ms(20_000));
        for end in [VAN, HQ] {
            for (id, half) in &streams.halves[end] {
                let other = streams.halves[1 - end].get(id);
                let stands = half.answered == Some(StreamOutcome::Open) && !half.reset;
                if let Some(other) = other.filter(|other| stands && !other.reset) {
                    prop_assert_eq!(half.written, half.wanted, "{:?} of {}: {:?}", id, end, half);
                    prop_assert_eq!(other.read, half.wanted, "{:?} of {}: {:?} {:?}", id, end, half, other);
                    prop_assert_eq!(other.ended, half.finish, "{:?} of {}: {:?} {:?}", id, end, half, other);
                }
            }
        }
    }
}
