//! A link of the world: rate, delay, drop-tail queue, loss, and ways to break it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_wire::ip::Ecn;

/// Headers of IPv4 and UDP, in bytes.
const OUTER_HEADERS: usize = 28;

/// A datagram that has left its sender.
struct Flying {
    arrives: Instant,
    to: usize,
    datagram: Vec<u8>,
    from: SocketAddr,
    ecn: Ecn,
}

/// What a link makes of datagrams that can be marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnTreatment {
    /// They pass as all others do.
    #[default]
    Passes,
    /// They lose what tells that they can be marked.
    Bleaches,
    /// They are lost.
    Drops,
    /// They arrive marked, whatever the queue.
    MarksAll,
}

/// Both directions of a link; index 0 is from the van.
pub struct Link {
    pub delay: Duration,
    /// The MTU that the van knows its interface to have; `None`: large enough for any inner packet.
    pub interface_mtu: Option<u16>,
    /// The largest IP packet that crosses the link; `None`: any.
    pub mtu: Option<u16>,
    /// Bits per second; `None` is without limit.
    pub rate: Option<u64>,
    /// How long a queue may get before its tail is dropped.
    pub queue: Duration,
    /// Datagrams that pass in a second, up to ten of them at once; what exceeds that is dropped without having waited.
    pub policed: Option<u32>,
    /// One in so many datagrams is lost; zero: none.
    pub loss_one_in: u32,
    /// One in so many datagrams arrives twice; zero: none.
    pub duplicate_one_in: u32,
    /// One in so many datagrams takes half as long again, and a little; zero: none.
    pub reorder_one_in: u32,
    /// Until then whatever is on its way waits, and nothing is lost.
    pub stalled_until: Option<Instant>,
    /// What becomes of datagrams that can be marked.
    pub ecn: EcnTreatment,
    /// How long the queue is beyond which they are marked; `None`: never.
    pub marks_beyond: Option<Duration>,
    /// The longest that a datagram has waited in a queue.
    pub longest_wait: Duration,
    /// Datagrams that were marked.
    pub marked: u64,
    /// Whether what the kernel is to cut into datagrams vanishes.
    pub loses_batches: bool,
    /// How much of that was sent.
    pub batches: u64,
    /// Whether each direction lets anything through.
    pub passes: [bool; 2],
    /// The address that the far end sees instead of the van's own: a NAT that may change its mind.
    pub nat: Option<SocketAddr>,
    pub carried_bytes: [u64; 2],
    pub dropped: u64,
    busy_until: [Option<Instant>; 2],
    /// What has passed the policer would have been evenly spread until then.
    admitted_until: [Option<Instant>; 2],
    flying: [VecDeque<Flying>; 2],
    random: u64,
}

impl Link {
    pub fn new(delay_ms: u64) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            interface_mtu: None,
            mtu: None,
            rate: None,
            queue: Duration::from_millis(100),
            policed: None,
            loss_one_in: 0,
            duplicate_one_in: 0,
            reorder_one_in: 0,
            stalled_until: None,
            ecn: EcnTreatment::default(),
            marks_beyond: None,
            longest_wait: Duration::ZERO,
            marked: 0,
            loses_batches: false,
            batches: 0,
            passes: [true; 2],
            nat: None,
            carried_bytes: [0; 2],
            dropped: 0,
            busy_until: [None; 2],
            admitted_until: [None; 2],
            flying: [VecDeque::new(), VecDeque::new()],
            random: 0x9e37_79b9_7f4a_7c15 ^ delay_ms,
        }
    }

    pub fn mbit(mut self, mbit: u64) -> Self {
        self.rate = Some(mbit * 1_000_000);
        self
    }

    pub fn loss_one_in(mut self, n: u32) -> Self {
        self.loss_one_in = n;
        self
    }

    pub fn ecn(mut self, treatment: EcnTreatment) -> Self {
        self.ecn = treatment;
        self
    }

    pub fn marks_beyond(mut self, waited: Duration) -> Self {
        self.marks_beyond = Some(waited);
        self
    }

    pub fn mtu(mut self, interface: u16, link: u16) -> Self {
        (self.interface_mtu, self.mtu) = (Some(interface), Some(link));
        self
    }

    pub fn is_open(&self) -> bool {
        self.passes == [true; 2]
    }

    pub fn cut(&mut self) {
        self.passes = [false; 2];
    }

    pub fn restore(&mut self) {
        self.passes = [true; 2];
    }

    /// Ends all that was done to the link but its delay and rate.
    pub fn heal(&mut self) {
        self.restore();
        (self.loss_one_in, self.duplicate_one_in, self.reorder_one_in) = (0, 0, 0);
        self.stalled_until = None;
    }

    /// A datagram sets out from an end. It is on its way for longer by `late`.
    pub fn send(
        &mut self,
        from: usize,
        datagram: &[u8],
        address: SocketAddr,
        ecn: Ecn,
        late: Duration,
        now: Instant,
    ) {
        let too_big = self.mtu.is_some_and(|mtu| datagram.len() + OUTER_HEADERS > mtu.into());
        let vanishes = ecn != Ecn::NotEct && self.ecn == EcnTreatment::Drops;
        let excess = !self.admits(from, now);
        if too_big || vanishes || excess || !self.passes[from] || self.draws(self.loss_one_in) {
            self.dropped += 1;
            return;
        }
        let start = self.busy_until[from].map_or(now, |at| at.max(now));
        if start > now + self.queue {
            self.dropped += 1;
            return;
        }
        let ecn = self.treat(ecn, start - now);
        self.longest_wait = self.longest_wait.max(start - now);
        let bits = (datagram.len() + OUTER_HEADERS) as u64 * 8;
        let time = self.rate.map_or(0, |rate| bits * 1_000_000_000 / rate);
        let end = start + Duration::from_nanos(time);
        self.busy_until[from] = Some(end);
        self.carried_bytes[from] += datagram.len() as u64;
        let seen = if from == 0 { self.nat.unwrap_or(address) } else { address };
        let detour = self.draws(self.reorder_one_in).then(|| self.delay / 2 + Duration::from_millis(1));
        let arrives = end + late + self.delay + detour.unwrap_or_default();
        for _ in 0..1 + u32::from(self.draws(self.duplicate_one_in)) {
            let datagram = datagram.to_vec();
            self.put(from, Flying { arrives, to: 1 - from, datagram, from: seen, ecn });
        }
    }

    fn admits(&mut self, from: usize, now: Instant) -> bool {
        let Some(each) = self.policed.map(|rate| Duration::from_secs(1) / rate) else { return true };
        let until = self.admitted_until[from].map_or(now, |until| until.max(now));
        let is_admitted = until <= now + each * 10;
        if is_admitted {
            self.admitted_until[from] = Some(until + each);
        }
        is_admitted
    }

    /// The codepoint behind the link of a datagram that has waited so long.
    fn treat(&mut self, ecn: Ecn, waited: Duration) -> Ecn {
        let is_long = self.marks_beyond.is_some_and(|limit| waited > limit);
        match self.ecn {
            _ if ecn == Ecn::NotEct => Ecn::NotEct,
            EcnTreatment::Bleaches => Ecn::NotEct,
            EcnTreatment::Passes if !is_long => ecn,
            EcnTreatment::Passes | EcnTreatment::Drops | EcnTreatment::MarksAll => {
                self.marked += 1;
                Ecn::Ce
            }
        }
    }

    fn put(&mut self, from: usize, flying: Flying) {
        let queue = &mut self.flying[from];
        let at = queue.partition_point(|other| other.arrives <= flying.arrives);
        queue.insert(at, flying);
    }

    fn draws(&mut self, one_in: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        one_in > 0 && self.random.is_multiple_of(one_in.into())
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        let first =
            self.flying.iter().filter_map(|queue| queue.front().map(|flying| flying.arrives)).min()?;
        Some(self.stalled_until.map_or(first, |until| first.max(until)))
    }

    pub fn take_arrived(&mut self, now: Instant) -> Option<(usize, Vec<u8>, SocketAddr, Ecn)> {
        if self.stalled_until.is_some_and(|until| now < until) {
            return None;
        }
        for from in [0, 1] {
            while let Some(flying) = self.flying[from].pop_front_if(|flying| flying.arrives <= now) {
                if self.passes[from] {
                    return Some((flying.to, flying.datagram, flying.from, flying.ecn));
                }
            }
        }
        None
    }
}
