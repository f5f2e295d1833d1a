use std::time::{Duration, Instant};

use proptest::prelude::*;
use psmc_wire::frame::StreamFrame;
use psmc_wire::{BufPool, StreamId};

use super::incoming::{Incoming, Violation};
use super::outgoing::Outgoing;
use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(20);

fn pool() -> BufPool {
    BufPool::new(1500, 16)
}

fn frame(offset: u32, bytes: &[u8], fin: bool) -> StreamFrame<'_> {
    StreamFrame { id: StreamId(0), offset, fin, bytes }
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).expect("below 251")).collect()
}

fn taken(incoming: &Incoming) -> Vec<u8> {
    incoming.chunks().collect::<Vec<_>>().concat()
}

proptest! {
    /// However a text is cut, in whatever order its pieces come, and how often: it is taken in order and once.
    #[test]
    fn pieces_in_any_order_make_the_text(
        len in 1usize..6000,
        cuts in proptest::collection::vec((0usize..6000, 1usize..2000), 0..40),
        steps in proptest::collection::vec(1usize..3000, 0..60),
    ) {
        let (text, mut pool, mut incoming) = (text(len), pool(), Incoming::new(1 << 20));
        let mut pieces: Vec<_> = cuts.into_iter().map(|(from, size)| (from.min(len), size)).collect();
        // All of it, in the end.
        pieces.extend((0..len).step_by(700).rev().map(|from| (from, 700)));
        let (mut read, mut steps) = (Vec::new(), steps.into_iter());
        for (from, size) in pieces {
            let end = (from + size).min(len);
            let frame = frame(u32::try_from(from).expect("short"), &text[from..end], end == len);
            if frame.bytes.is_empty() {
                continue;
            }
            prop_assert!(incoming.insert(&frame, &mut pool).is_ok());
            if let Some(step) = steps.next() {
                let found = taken(&incoming);
                let step = step.min(found.len());
                read.extend_from_slice(&found[..step]);
                incoming.consume(step, &mut pool);
            }
        }
        prop_assert!(!incoming.has_ended() || read.len() == len);
        read.extend(taken(&incoming));
        incoming.consume(len, &mut pool);
        prop_assert!(incoming.has_ended());
        prop_assert_eq!(incoming.held(), 0);
        prop_assert_eq!(read, text);
    }

    /// What is written comes out in order, no more of it than there is room for, and the end once.
    #[test]
    fn what_is_written_leaves_as_far_as_there_is_room(
        writes in proptest::collection::vec(1usize..1400, 1..30),
        most in prop_oneof![Just(0), 1usize..1500],
        limits in proptest::collection::vec(0u32..40_000, 0..20),
    ) {
        let (mut pool, mut outgoing) = (pool(), Outgoing::default());
        let whole = text(writes.iter().sum());
        let mut from = 0;
        for len in writes {
            let mut bytes = pool.take();
            bytes.fill(&whole[from..from + len]);
            from += len;
            outgoing.push(bytes, most, &mut pool);
        }
        outgoing.finish();
        let (mut left, mut room, mut ends) = (Vec::new(), 0, 0);
        for limit in limits.into_iter().chain([1 << 20]) {
            outgoing.raise_limit(limit);
            room = room.max(limit);
            while let Some(chunk) = outgoing.take(&mut pool) {
                prop_assert_eq!(chunk.offset, left.len() as u64);
                left.extend_from_slice(chunk.bytes.packet());
                ends += usize::from(chunk.fin);
                prop_assert!(left.len() as u64 <= u64::from(room));
            }
        }
        prop_assert!(outgoing.has_ended() && outgoing.waiting() == 0);
        prop_assert_eq!((left, ends), (whole, 1));
    }
}

#[test]
fn short_writes_that_wait_share_buffers() {
    let (mut pool, mut outgoing) = (pool(), Outgoing::default());
    for byte in 0..=255 {
        let mut bytes = pool.take();
        bytes.fill(&[byte; 10]);
        outgoing.push(bytes, 1000, &mut pool);
    }
    outgoing.raise_limit(1 << 20);
    let lens: Vec<_> =
        std::iter::from_fn(|| outgoing.take(&mut pool)).map(|chunk| chunk.bytes.len()).collect();
    assert_eq!(lens, [1000, 1000, 560]);
}

/// Frames have the low 32 bits of an offset only.
#[test]
fn a_stream_is_longer_than_an_offset_of_a_frame() {
    const CHUNK: usize = 60_000;
    let (mut pool, mut outgoing, mut incoming) =
        (BufPool::new(CHUNK, 4), Outgoing::default(), Incoming::new(1 << 20));
    outgoing.set_first_limit(1 << 20);
    let (mut now, mut at) = (Instant::now(), 0u64);
    while at < 3 << 31 {
        let mut bytes = pool.take();
        bytes.fill(&[0; CHUNK]);
        bytes.packet_mut()[..8].copy_from_slice(&at.to_be_bytes());
        outgoing.push(bytes, 0, &mut pool);
        let chunk = outgoing.take(&mut pool).expect("there is room");
        assert_eq!(chunk.offset, at);
        let low = u32::try_from(at % (1 << 32)).expect("32 bits");
        assert_eq!(incoming.insert(&frame(low, chunk.bytes.packet(), false), &mut pool), Ok(true));
        pool.put(chunk.bytes);
        assert_eq!(incoming.chunks().next().map(|bytes| &bytes[..8]), Some(&at.to_be_bytes()[..]));
        incoming.consume(CHUNK, &mut pool);
        now += ROUND_TRIP;
        if let Some(limit) = incoming.take_limit(ROUND_TRIP, 0, now) {
            outgoing.raise_limit(u32::try_from(limit % (1 << 32)).expect("32 bits"));
        }
        at += CHUNK as u64;
    }
    assert_eq!(incoming.received(), at);
}

#[test]
fn who_exceeds_its_limit_or_moves_the_end_breaks_the_stream() {
    let mut pool = pool();
    let text = text(300);
    let mut fresh = || {
        let mut incoming = Incoming::new(200);
        incoming.insert(&frame(0, &text[..100], false), &mut pool).expect("it may be sent");
        (incoming, self::pool())
    };
    let broken = |(mut incoming, mut pool): (Incoming, BufPool), frames: &[StreamFrame<'_>]| {
        frames.iter().any(|frame| incoming.insert(frame, &mut pool) == Err(Violation))
    };
    assert!(!broken(fresh(), &[frame(100, &text[100..200], true)]));
    assert!(broken(fresh(), &[frame(100, &text[100..201], false)]), "a byte beyond the limit");
    assert!(broken(fresh(), &[frame(50, &text[50..60], true)]), "an end before what has come");
    assert!(broken(fresh(), &[frame(150, &text[150..160], true), frame(160, &text[160..161], false)]));
    assert!(broken(fresh(), &[frame(150, &text[150..160], true), frame(150, &text[150..159], true)]));
    assert!(!broken(fresh(), &[frame(150, &text[150..160], true), frame(150, &text[150..160], true)]));
}

#[test]
fn pieces_with_holes_between_them_are_bounded() {
    let (mut pool, mut incoming) = (pool(), Incoming::new(1 << 20));
    let kept =
        (0..1 << 19).take_while(|at| incoming.insert(&frame(2 * at + 1, b"x", false), &mut pool).is_ok());
    assert!((2048..4096).contains(&kept.count()));
}

#[test]
fn a_window_grows_while_it_is_what_holds_the_sender_back() {
    let (mut pool, mut now) = (pool(), Instant::now());
    let grown = |pause: Duration, now: &mut Instant, pool: &mut BufPool| {
        let (mut incoming, mut at) = (Incoming::new(1000), 0u32);
        for _ in 0..40 {
            let len = incoming.window() / 2 + 1;
            let text = vec![1; usize::try_from(len).expect("short")];
            incoming.insert(&frame(at, &text, false), pool).expect("there is room");
            at += u32::try_from(len).expect("short");
            incoming.consume(text.len(), pool);
            *now += pause;
            incoming.take_limit(ROUND_TRIP, 100_000, *now);
        }
        incoming.window()
    };
    assert_eq!(grown(3 * ROUND_TRIP, &mut now, &mut pool), 1000);
    assert!(grown(ROUND_TRIP, &mut now, &mut pool) > 30_000);
}

#[test]
fn a_window_grows_while_a_gap_holds_back_its_half_but_not_while_nobody_reads() {
    let (mut pool, text) = (pool(), text(2000));
    let mut incoming = Incoming::new(2000);
    incoming.insert(&frame(500, &text[500..1500], false), &mut pool).expect("there is room");
    assert_eq!(incoming.take_limit_at_gap(10_000), Some(4000));
    assert_eq!(incoming.take_limit_at_gap(10_000), None, "more has to come");
    let mut unread = Incoming::new(2000);
    unread.insert(&frame(0, &text[..1500], false), &mut pool).expect("there is room");
    assert_eq!(unread.take_limit_at_gap(10_000), None);
    let mut last = Incoming::new(2000);
    last.insert(&frame(500, &text[500..1800], true), &mut pool).expect("there is room");
    assert_eq!(last.take_limit_at_gap(10_000), None, "nothing follows");
}

#[test]
fn streams_of_the_peer_may_overtake_each_other_and_come_once() {
    let mut streams = Streams::new(true);
    for id in [5, 1, 3, 9] {
        assert!(streams.is_new(StreamId(id)), "{id}");
        streams.see(StreamId(id));
        assert!(!streams.is_new(StreamId(id)), "{id} once more");
    }
    assert!(streams.is_new(StreamId(7)) && !streams.is_new(StreamId(2)), "even ids are this site's");
    streams.see(StreamId(9 + 4 * MAX_OVERTAKEN + 2));
    assert!(!streams.is_new(StreamId(7)), "too long ago");
    assert_eq!(streams.overtaken.len(), MAX_OVERTAKEN as usize);
}
