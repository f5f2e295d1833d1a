//! One link: frames in at one end, out at the other.

use std::io::IoSlice;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use psmc_net::packet::{ETHERNET_HEADER, PacketPort, SEND_BATCH};
use psmc_sim::link::{Arrival, Link, LinkConfig, PacketInfo};

use super::capture::Log;
use super::counters::Board;
use super::ethernet::{can_be_marked, flip_bit, mark_congestion};
use super::pool::{Pool, Stored};
use super::worker::Clock;

/// How many frames are read at an end before others get their turn.
const RECV_BATCH: usize = SEND_BATCH;

/// How many batches are sent by an end before others get their turn. As more goes out than comes in, it is the ring that
/// overflows when there is too much, and nothing is delivered later and later.
const SEND_BATCHES: usize = 2;

/// How many copies of a frame are sent at most: a link duplicates once.
const MAX_COPIES: u8 = 2;

/// How often the kernel is asked what it has lost.
const AUDIT_INTERVAL: Duration = Duration::from_millis(50);

/// An end of a link, in the lab's namespace.
#[derive(Debug)]
pub(super) struct End {
    pub(super) port: PacketPort,
    pub(super) log: Option<Log>,
}

/// Both directions of a link.
///
/// Call [`turn`](Self::turn) when a descriptor of [`descriptors`](Self::descriptors) is readable and at
/// [`next_timeout`](Self::next_timeout), until it says `false`.
#[derive(Debug)]
pub(super) struct Wire {
    ends: [End; 2],
    directions: [Direction; 2],
    pool: Pool,
    /// What is being sent; empty between two turns.
    outbox: Vec<Arrival<Stored>>,
    board: Arc<Board>,
    /// For each direction whether what arrives goes into a router.
    is_joined: [bool; 2],
    /// When to ask the kernel what it has lost, if anything came since it was asked last.
    audit: Option<Instant>,
}

#[derive(Debug)]
struct Direction {
    link: Link<Stored>,
    /// All that entered until then has been read, so that the link may be asked what arrives until then.
    horizon: Instant,
}

impl Wire {
    /// `directions` and where the chance of each comes from; frames have up to `max_frame` bytes.
    pub(super) fn new(
        ends: [End; 2],
        directions: [(LinkConfig, u64); 2],
        max_frame: usize,
        board: Arc<Board>,
    ) -> Self {
        let horizon = Instant::now();
        let make = |(config, seed)| Direction { link: Link::new(config, seed, horizon), horizon };
        Self {
            ends,
            directions: directions.map(make),
            pool: Pool::new(max_frame),
            outbox: Vec::with_capacity(SEND_BATCH),
            board,
            is_joined: [false; 2],
            audit: None,
        }
    }

    /// Moves what has come and what is due; says whether that was anything.
    pub(super) fn turn(&mut self) -> bool {
        let clock = Clock::read();
        let mut moved = false;
        for direction in 0..2 {
            moved |= self.take_in(direction, clock);
            if self.is_joined[direction] {
                continue;
            }
            moved |= (0..SEND_BATCHES).take_while(|_| self.let_out(direction, clock)).count() > 0;
        }
        if moved {
            self.publish();
        }
        self.audit_if_due(clock.now);
        for log in self.ends.iter_mut().filter_map(|end| end.log.as_mut()) {
            log.flush_due(clock.now);
        }
        moved
    }

    /// When there will be something to do, if no frame comes before.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let links = self.directions.iter().filter_map(|direction| direction.link.poll_timeout());
        let logs = self.ends.iter().filter_map(|end| end.log.as_ref()?.deadline());
        links.chain(logs).chain(self.audit).min()
    }

    /// Has what arrives by a direction go into a router, which asks for it.
    pub(super) fn join(&mut self, direction: usize) {
        self.is_joined[direction] = true;
    }

    /// Until when everything that enters a direction has been read.
    pub(super) fn horizon(&self, direction: usize) -> Instant {
        self.directions[direction].horizon
    }

    /// The next frame that has arrived by a joined direction. Whoever has it sends it by [`send_on`](Self::send_on), or gives it
    /// back.
    pub(super) fn poll_arrival(&mut self, direction: usize) -> Option<Arrival<Stored>> {
        let Direction { link, horizon } = &mut self.directions[direction];
        let arrival = link.poll_packet(*horizon);
        if let Some(arrival) = &arrival {
            touch(self.pool.frame_mut(arrival.packet), arrival);
        }
        self.clear_dropped(direction);
        arrival
    }

    /// The bytes of a frame.
    pub(super) fn frame(&self, stored: Stored) -> &[u8] {
        self.pool.frame(stored)
    }

    /// A copy of a frame, if there is room.
    pub(super) fn copy(&mut self, stored: Stored) -> Option<Stored> {
        self.pool.copy(stored)
    }

    /// Has the memory of a frame back.
    pub(super) fn give_back(&mut self, stored: Stored) {
        self.pool.give_back(stored);
    }

    /// Sends a frame to the host at the end of a direction when [`flush`](Self::flush) is called, or before. It should leave at
    /// `at`.
    pub(super) fn send_on(
        &mut self,
        direction: usize,
        packet: Stored,
        marked: bool,
        at: Instant,
        clock: Clock,
    ) {
        let arrival = Arrival { packet, at, copies: 1, congestion_experienced: marked, corrupt_bit: None };
        touch(self.pool.frame_mut(packet), &arrival);
        self.outbox.push(arrival);
        if self.outbox.len() == SEND_BATCH {
            self.flush(direction, clock);
        }
    }

    /// Sends what is left of those.
    pub(super) fn flush(&mut self, direction: usize, clock: Clock) {
        if !self.outbox.is_empty() {
            self.send_outbox(direction);
            self.settle_outbox(direction, clock);
        }
    }

    /// Makes a direction be like `config` for what has entered after `at`, which is in the past.
    pub(super) fn change(&mut self, direction: usize, config: LinkConfig, at: Instant) {
        // Reading either gets to the frames that came after, or empties the ring.
        while self.directions[direction].horizon < at {
            self.take_in(direction, Clock::read());
        }
        let Direction { link, horizon } = &mut self.directions[direction];
        link.reconfigure(config, *horizon);
        self.clear_dropped(direction);
        self.publish();
    }

    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        self.ends.each_ref().map(|end| end.port.as_fd())
    }

    /// Clears the errors that the descriptors report: an interface went down, or is gone. Nothing passes until it is
    /// up again, which takes no help.
    pub(super) fn clear_errors(&self) {
        for end in &self.ends {
            // An error of asking would be about a descriptor that is none.
            let _ = end.port.take_error();
        }
    }

    pub(super) fn set_preferred(&self, preferred: bool) {
        self.board.preferred.store(preferred, Ordering::Relaxed);
    }

    /// Reads a batch of frames at one end of a direction; says whether there were any.
    fn take_in(&mut self, direction: usize, clock: Clock) -> bool {
        let taken = (0..RECV_BATCH).take_while(|_| self.take_one(direction, clock)).count();
        if taken > 0 {
            self.audit.get_or_insert(clock.now + AUDIT_INTERVAL);
        }
        if taken < RECV_BATCH {
            let horizon = &mut self.directions[direction].horizon;
            *horizon = clock.now.max(*horizon);
        }
        taken > 0
    }

    /// Reads a frame, if there is one.
    fn take_one(&mut self, direction: usize, clock: Clock) -> bool {
        let (end, board) = (&mut self.ends[direction], &self.board.directions[direction]);
        let Some(frame) = end.port.recv() else { return false };
        let Direction { link, horizon } = &mut self.directions[direction];
        let received_at = frame.received_at();
        *horizon = clock.instant_of(received_at).max(*horizon);
        let Some(stored) = self.pool.store(&frame) else {
            board.unbuffered.add(1);
            return true;
        };
        let bytes = self.pool.frame(stored);
        log(&mut end.log, received_at, bytes, *horizon, board);
        link.handle_packet(stored, info_of(bytes), *horizon);
        true
    }

    /// Sends a batch of the frames of a direction that are due; says whether there were any, or any that were dropped.
    fn let_out(&mut self, direction: usize, clock: Clock) -> bool {
        let Direction { link, horizon } = &mut self.directions[direction];
        while self.outbox.len() < SEND_BATCH
            && let Some(arrival) = link.poll_packet(*horizon)
        {
            touch(self.pool.frame_mut(arrival.packet), &arrival);
            self.outbox.push(arrival);
        }
        let dropped = self.clear_dropped(direction);
        if self.outbox.is_empty() {
            return dropped;
        }
        self.send_outbox(direction);
        self.settle_outbox(direction, clock);
        true
    }

    /// Takes back the memory of what the link has dropped; says whether it has dropped anything.
    fn clear_dropped(&mut self, direction: usize) -> bool {
        let link = &mut self.directions[direction].link;
        let dropped = iter::from_fn(|| link.poll_dropped());
        dropped.inspect(|(stored, _)| self.pool.give_back(*stored)).count() > 0
    }

    fn send_outbox(&self, direction: usize) {
        let mut frames = [IoSlice::new(&[]); SEND_BATCH * MAX_COPIES as usize];
        let mut count = 0;
        for arrival in &self.outbox {
            for _ in 0..arrival.copies.min(MAX_COPIES) {
                frames[count] = IoSlice::new(self.pool.frame(arrival.packet));
                count += 1;
            }
        }
        let sent = self.ends[1 - direction].port.send(&frames[..count]);
        self.board.directions[direction].refused.add((count - sent) as u64);
    }

    /// Keeps account of what was sent, and has its memory back.
    fn settle_outbox(&mut self, direction: usize, clock: Clock) {
        let (end, board) = (&mut self.ends[1 - direction], &self.board.directions[direction]);
        let now = Instant::now();
        for arrival in self.outbox.drain(..) {
            board.sent_late(now.saturating_duration_since(arrival.at));
            let bytes = self.pool.frame(arrival.packet);
            for _ in 0..arrival.copies.min(MAX_COPIES) {
                log(&mut end.log, clock.wall_at(now), bytes, now, board);
            }
            self.pool.give_back(arrival.packet);
        }
    }

    fn publish(&self) {
        for (direction, board) in self.directions.iter().zip(&self.board.directions) {
            board.publish(direction.link.counters());
        }
    }

    fn audit_if_due(&mut self, now: Instant) {
        if self.audit.take_if(|due| *due <= now).is_none() {
            return;
        }
        for (end, board) in self.ends.iter().zip(&self.board.directions) {
            board.overrun.add(end.port.lost().unwrap_or(0).into());
        }
    }
}

/// Does to the bytes what the link has decided.
fn touch(frame: &mut [u8], arrival: &Arrival<Stored>) {
    if arrival.congestion_experienced {
        mark_congestion(frame);
    }
    if let Some(bit) = arrival.corrupt_bit {
        flip_bit(frame, bit);
    }
}

pub(super) fn info_of(frame: &[u8]) -> PacketInfo {
    let len = frame.len().saturating_sub(ETHERNET_HEADER);
    PacketInfo { ecn_capable: can_be_marked(frame), ..PacketInfo::new(len) }
}

fn log(
    log: &mut Option<Log>,
    at: SystemTime,
    frame: &[u8],
    now: Instant,
    board: &super::counters::Direction,
) {
    let logged = log.as_mut().is_none_or(|log| log.record(at, frame, now));
    if !logged {
        board.unlogged.add(1);
    }
}
