//! Controlled delay (CoDel, RFC 8289): when a flow is to be told that it keeps a queue.

use std::time::{Duration, Instant};

/// The delay that a standing queue may cause at least (RFC 8289 §4.3).
const TARGET: Duration = Duration::from_millis(5);

/// A queue that lasts longer stands; and the time that senders get to answer to a drop (RFC 8289 §4.2).
const INTERVAL: Duration = Duration::from_millis(100);

/// Beyond that the target is half of a round trip. CUBIC goes down to 0.7 of its window after a drop (RFC 9438
/// §4.6): with a queue of 0.43 of what the paths hold it never leaves them idle. The RFC's target is a tenth of
/// that, since there one flow's queue delays all others; here every flow has a queue of its own, and only itself
/// to delay.
const ROUND_TRIPS_PER_TARGET: u32 = 2;

/// And so often the time for which the far end holds packets back. Meanwhile nothing is acknowledged, and the paths live of
/// the queue; then all is at once, and what answers to it is a queue of the same length.
const HOLDS_PER_TARGET: u32 = 2;

/// Memory for twice the target, which is what the paths hold where nothing is held back: a queue that is longer than the target for
/// a while is CoDel's to judge.
const TARGETS_PER_ROOM: u32 = 2;

/// Bytes of four full-size packets. TCP takes three acknowledgements beyond a loss for the loss (RFC 5681
/// §3.2): a drop among fewer packets costs a time-out, which is worse than this queue.
///
/// No more than that: bursts of segmentation offload need no allowance. CoDel looks at the shortest queue in
/// an interval, so a burst of 64 KiB that leaves within an interval (at 5 Mbit/s and above) never counts, and
/// senders that are slower than that make smaller bursts.
const MIN_BACKLOG: u32 = 4 * 1500;

/// A queue to which nothing has come for this part of an interval drains by itself: whoever filled it has ended, or waits
/// already, and a drop would only cost a transfer that ends another round trip.
const UNFED: u32 = 4;

/// A sequence of drops that begins within so many intervals goes on at the pace of the one before, because that
/// is likely what the same load needs. The bound is the RFC's (§5.4).
const MEMORY_INTERVALS: u32 = 16;

/// A rate that has grown by more than this part of itself is not known yet: BBR takes a quarter for the sign that
/// a path holds more.
const GROWTH: u64 = 4;

/// The least time that a flow has the paths to itself in its turn: packets of a flow that leave together are joined
/// again into one at the far end, and acknowledged by one acknowledgement.
const TURN: Duration = Duration::from_micros(250);

/// Memory that a queue may have in any case. What waits in less memory than the processor's caches have is read and
/// written at a third of the cost of what does not; at 1 Gbit/s it lasts for 8 ms.
const MIN_MEMORY: usize = 1 << 20;

/// For as long as the paths take to carry it a queue may be in any case. Whoever doubles its window until something is lost
/// fills all there is, and what it sends again waits at the end: over slow paths [`MIN_MEMORY`] is a second, in which a
/// flow delivers nothing.
const MIN_QUEUE: Duration = Duration::from_millis(200);

/// Bytes that may wait in any case: 64 full-size packets, which is little for a router.
const MIN_BYTES: u64 = 64 * 1500;

/// Where acknowledgements of TCP wait and stand for several, one of them leaves for so many full-size packets of another flow: with its
/// headers, and those of the datagram that it needs, it takes a twentieth of what they take.
const PACKETS_PER_ACKNOWLEDGEMENT: i32 = 2;

/// The most bytes of a turn: twice what segmentation offload hands over at once, so that what is received at once is
/// mostly of one flow.
const MAX_TURN: i32 = 128 << 10;

/// What a queue drains into.
///
/// CoDel is made for links whose rate is what it is. Ours are paths that find their rate by sending: while it
/// grows, or after paths have come or gone, a queue says little about those who fill it, and a drop would tell
/// them to slow down where they should not. So a queue is judged once an interval has passed without growth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// The round trip of the slowest path in use, as it is as a rule.
    pub(crate) round_trip: Duration,
    /// For how long the far end may hold packets back until an earlier one has come.
    pub(crate) hold: Duration,
    /// Bytes per second of all paths in use.
    pub(crate) rate: u64,
}

impl Service {
    /// Bytes that all paths carry in that time.
    fn carries_in(&self, time: Duration) -> u64 {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.rate.saturating_mul(time_us) / 1_000_000
    }

    /// How long a queue may stand.
    pub(crate) fn target(&self) -> Duration {
        self.unbounded_target().max(TARGET)
    }

    /// The same, however short that is.
    fn unbounded_target(&self) -> Duration {
        self.round_trip / ROUND_TRIPS_PER_TARGET + self.hold * HOLDS_PER_TARGET
    }

    /// How long all paths need for so many bytes.
    fn time_of(&self, bytes: u32) -> Duration {
        Duration::from_micros(u64::from(bytes) * 1_000_000 / self.rate.max(1))
    }
}

/// What a queue may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Of buffers, in bytes.
    pub(super) memory: usize,
    /// Of packets.
    pub(super) bytes: u64,
}

impl Room {
    const ANY: Self = Self { memory: usize::MAX, bytes: u64::MAX };
}

/// What all flows of a queue have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    target: Duration,
    interval: Duration,
    min_backlog: u32,
    /// For how long nothing comes to a queue that is still being fed.
    unfed: Duration,
    /// Bytes of the largest packet.
    mtu: i32,
    /// Bytes of a flow's turn; a packet of the largest size at least, so that a turn always lets one go.
    turn: i32,
    /// Once the rate is known.
    room: Room,
    /// Bytes per second that left the queue when it was judged first, or when they had last grown.
    rate: Option<u64>,
    /// Until then no queue counts as a standing one.
    judge_from: Option<Instant>,
}

impl Params {
    /// For packets of up to `mtu` bytes.
    pub(super) fn new(mtu: u16) -> Self {
        // "Never drop if there is only an MTU's worth left" (§5.5), which must hold for a large MTU too.
        Self {
            target: TARGET,
            interval: INTERVAL,
            min_backlog: MIN_BACKLOG.max(mtu.into()),
            unfed: INTERVAL / UNFED,
            mtu: i32::from(mtu.max(1)),
            turn: i32::from(mtu.max(1)),
            room: Room::ANY,
            rate: None,
            judge_from: None,
        }
    }

    /// Takes over what is known of the paths.
    pub(super) fn set_service(&mut self, service: &Service, now: Instant) {
        // Flows have at least this round trip. The interval must not be shorter, and most round trips are
        // shorter than 100 ms (RFC 8289 §4.2).
        self.interval = (service.round_trip + service.hold).max(INTERVAL);
        self.target = service.target();
        // Where packets are far apart those who send hear of each of them as rarely.
        self.unfed = service.time_of(self.min_backlog).max(self.interval / UNFED);
        self.turn = i32::try_from(service.carries_in(TURN))
            .unwrap_or(MAX_TURN)
            .clamp(self.mtu, MAX_TURN.max(self.mtu));
        let longest = service.unbounded_target() * TARGETS_PER_ROOM;
        self.room = Room {
            memory: usize::try_from(service.carries_in(longest)).unwrap_or(usize::MAX).max(MIN_MEMORY),
            bytes: service.carries_in(longest.max(MIN_QUEUE)).max(MIN_BYTES),
        };
        let known = *self.rate.get_or_insert(service.rate);
        if service.rate > known + known / GROWTH {
            self.rate = Some(service.rate);
            self.judge_from = Some(now + self.interval);
        }
    }

    /// Bytes that a flow may send in its turn.
    pub(super) fn turn(&self) -> i32 {
        self.turn
    }

    /// Bytes that an acknowledgement of TCP counts for in the turn of its flow if it stands for several.
    pub(super) fn acknowledgement(&self) -> i32 {
        self.mtu * PACKETS_PER_ACKNOWLEDGEMENT
    }

    /// What the queue may have at `now`: anything, as long as the rate grows.
    pub(super) fn room(&self, now: Instant) -> Room {
        if self.is_judged(now) { self.room } else { Room::ANY }
    }

    /// Whether a queue that stands says anything.
    fn is_judged(&self, now: Instant) -> bool {
        self.judge_from.is_none_or(|from| now >= from)
    }

    /// Whatever rate was known counts no more, and any other is growth.
    pub(super) fn on_paths_changed(&mut self) {
        self.rate = Some(0);
    }

    /// No queue stands.
    pub(super) fn on_idle(&mut self) {
        self.rate = None;
    }
}

/// The state of one flow.
#[derive(Debug, Default)]
pub(super) struct CoDel {
    /// When the queue will have been too long for an interval, if it is too long.
    first_above: Option<Instant>,
    /// When to drop next, or when the last sequence would have gone on.
    drop_next: Option<Instant>,
    dropping: bool,
    /// What came before was sent before the first drop of the present sequence could be heard of.
    heard_from: Option<Instant>,
    /// When the last packet came.
    fed_at: Option<Instant>,
    /// Drops of the present sequence, and those that the one before has bequeathed.
    count: u32,
    last_count: u32,
}

impl CoDel {
    /// Whether nothing has come to the flow for so long.
    pub(super) fn has_paused(&self, pause: Duration, now: Instant) -> bool {
        self.fed_at.is_none_or(|at| now >= at + pause)
    }

    /// A packet has come to the flow.
    pub(super) fn on_packet(&mut self, queued_at: Instant) {
        self.fed_at = Some(queued_at);
    }

    /// Whether the packet at the head, which has waited since `queued_at` with `behind` bytes after it, is to be
    /// dropped or marked. If it is dropped, the next one is to be judged in turn; if it is marked, it goes.
    pub(super) fn judge(&mut self, queued_at: Instant, behind: u32, params: &Params, now: Instant) -> bool {
        if !self.stands(queued_at, behind, params, now) {
            self.dropping = false;
            return false;
        }
        if self.fed_at.is_none_or(|at| now >= at + params.unfed) {
            return false;
        }
        // A window may be larger than what the paths hold by far: until those who send have heard of the first drop and what
        // they had sent is gone, the queue says nothing new, and they answer once to all drops of a window.
        if self.dropping && self.heard_from.is_some_and(|from| queued_at < from) {
            self.drop_next = Some(now);
            return false;
        }
        match self.drop_next.filter(|_| self.dropping) {
            Some(at) if now < at => return false,
            Some(at) => {
                self.count = self.count.saturating_add(1);
                self.drop_next = Some(self.control_law(at, params));
            }
            None => self.begin(params, now),
        }
        true
    }

    /// There is nothing left in the flow.
    pub(super) fn on_empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    /// Whether the queue has been too long for an interval.
    fn stands(&mut self, queued_at: Instant, behind: u32, params: &Params, now: Instant) -> bool {
        let sojourn = now.saturating_duration_since(queued_at);
        if sojourn < params.target || behind <= params.min_backlog || !params.is_judged(now) {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + params.interval)
    }

    /// A sequence of drops begins.
    fn begin(&mut self, params: &Params, now: Instant) {
        let delta = self.count - self.last_count;
        let memory = params.interval * MEMORY_INTERVALS;
        let recent = self.drop_next.is_some_and(|at| now.saturating_duration_since(at) < memory);
        self.dropping = true;
        self.heard_from = Some(now + params.interval);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(self.control_law(now, params));
    }

    /// When to drop next, so that the number of drops grows with the square of the time.
    fn control_law(&self, from: Instant, params: &Params) -> Instant {
        from + params.interval.div_f64(f64::from(self.count).sqrt())
    }
}
