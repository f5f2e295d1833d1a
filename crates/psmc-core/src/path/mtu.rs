//! How large the datagrams of a path may be, found by probing (DPLPMTUD, RFC 8899).
//!
//! ```text
//!             the path works              every size is confirmed or refuted
//!    base ─────────────────────▶ search ──────────────────────────────────────▶ complete
//!     ▲                            ▲  │                                            │
//!     │        black hole          │  │             600 s, or refused              │
//!     └────────────────────────────┼──┴────────────────────────────────────────────┤
//!                                  └───────────────────────────────────────────────┘
//! ```
//!
//! Data fills what is confirmed and no more, so nothing is lost to the search. The first probe is as large as the
//! interface allows: a path without a narrow place is known after one round trip. A probe is a datagram of its own
//! whose loss says nothing about congestion or silence. A path that swallows datagrams of the base size, too, is used with
//! the least that a network may ask for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_wire::PacketNumber;
use psmc_wire::frame::AckRanges;

/// The packets that every network is taken to carry: IPv6's minimum. Less headers that is the `BASE_PLPMTU` of RFC 8899
/// §5.1.2.
const BASE_PACKET: u16 = 1280;

/// What a path is used with that swallows packets of that size: so much every host takes (RFC 1122 §3.3.2).
const LEAST_PACKET: u16 = 576;

/// What most networks carry that are narrower than their interfaces say: Ethernet's 1500 bytes.
const USUAL_PACKET: u16 = 1500;

/// A size is refuted when so many probes of it were not acknowledged (§5.1.2, `MAX_PROBES`).
const MAX_PROBES: u32 = 3;

/// After this time a search that ended below the interface's size is begun again (§5.1.1, `PMTU_RAISE_TIMER`).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// The search is over when confirmed and refuted size differ by no more: less is not worth six more probes.
const GRAIN: u16 = 8;

/// So many large datagrams, lost in a row while a smaller one arrived, are a black hole.
const BLACK_HOLE: u32 = 4;

/// So many are one for the base size, which nearly every path carries: it is dearer to doubt it in vain, for the smallest datagrams are
/// more than twice as many, and what drops by number then drops twice as much.
const BASE_BLACK_HOLE: u32 = 16;

/// Headers of UDP and IPv4, in bytes.
const HEADERS_V4: u16 = 28;

/// Headers of UDP and IPv6, in bytes.
const HEADERS_V6: u16 = 48;

/// Headers of IP and UDP around a datagram that leaves for this address, in bytes.
pub(crate) fn headers_to(remote: SocketAddr) -> u16 {
    if remote.ip().to_canonical().is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
}

/// How large datagrams may be that a link with this MTU takes.
pub(crate) fn ceiling(link_mtu: u16, headers: u16) -> u16 {
    link_mtu.max(BASE_PACKET) - headers
}

/// A probe that may still be acknowledged.
#[derive(Debug)]
struct Probe {
    number: PacketNumber,
    size: u16,
    sent_at: Instant,
}

/// The datagram size of one path: what is confirmed, and the search for more. Sizes are those of UDP payloads.
#[derive(Debug)]
pub(crate) struct PathMtu {
    /// Headers of IP and UDP around each datagram.
    headers: u16,
    /// The interface's.
    ceiling: u16,
    confirmed: u16,
    /// The smallest that is known to be too large, or one more than the ceiling.
    refuted: u16,
    /// What is probed, or will be.
    candidate: u16,
    tries: u32,
    /// When a probe should leave, or the last one is given up; none when there is nothing to be found.
    due: Option<Instant>,
    /// The last ones, oldest first.
    probes: Vec<Probe>,
    /// Whether the first answer, or refusal, is still to come.
    is_new: bool,
    /// Whether what was given to the path may be too large for it now.
    shrunk: bool,
    holes: Holes,
}

/// What hints at a black hole: a path that has begun to swallow large datagrams.
#[derive(Debug, Default)]
struct Holes {
    /// When the newest large datagram that arrived had been sent.
    large_arrived: Option<Instant>,
    /// When the newest small one that arrived had been sent.
    small_arrived: Option<Instant>,
    /// How many large ones that were sent later are lost, and when the first of them was sent.
    lost: Option<(u32, Instant)>,
    /// The path fell silent when the oldest datagram that was not acknowledged was a large one.
    silent: bool,
}

impl PathMtu {
    /// The base size on a path whose interface takes datagrams of `ceiling` bytes, with these `headers` around them.
    pub(crate) fn new(ceiling: u16, headers: u16, now: Instant) -> Self {
        let base = BASE_PACKET - headers;
        let ceiling = ceiling.max(base);
        Self {
            headers,
            ceiling,
            confirmed: base,
            refuted: ceiling + 1,
            candidate: ceiling,
            tries: 0,
            due: (ceiling > base).then_some(now),
            probes: Vec::new(),
            is_new: true,
            shrunk: false,
            holes: Holes::default(),
        }
    }

    /// How large datagrams with data may be.
    pub(crate) fn size(&self) -> usize {
        self.confirmed.into()
    }

    /// How large datagrams with data will be, as far as anybody can tell: as the interface has it, until the first
    /// probe has had its time.
    pub(crate) fn expected(&self) -> usize {
        let size = if self.is_new && self.tries <= 1 { self.ceiling } else { self.confirmed };
        size.into()
    }

    /// The largest IP packet on the path, in bytes, reckoned with its headers.
    pub(crate) fn packet_size(&self) -> u16 {
        self.confirmed + self.headers
    }

    /// What the interface would carry, if the path was found to carry less.
    pub(crate) fn narrower_than(&self) -> Option<u16> {
        let is_found = self.candidate <= self.confirmed && self.confirmed < self.ceiling;
        is_found.then_some(self.ceiling + self.headers)
    }

    /// The path may be another one, with headers of other lengths: the search begins anew, from the base.
    pub(crate) fn restart(&mut self, ceiling: u16, headers: u16, now: Instant) {
        // What was given to it may be too large for it even if datagrams had the base size before.
        *self = Self { shrunk: true, ..Self::new(ceiling, headers, now) };
    }

    /// When [`next_probe`](Self::next_probe) is due, on a path that works.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The size of the probe that should leave now, if one should.
    pub(crate) fn next_probe(&mut self, now: Instant) -> Option<u16> {
        self.due.filter(|&due| due <= now)?;
        if self.tries >= MAX_PROBES {
            self.refuted = self.candidate;
            self.go_on(now);
        } else if self.candidate <= self.confirmed {
            // The search is over, and begins again.
            self.refuted = self.ceiling + 1;
            self.go_on(now);
        }
        self.due.filter(|&due| due <= now).map(|_| self.candidate)
    }

    /// A probe of the size that was asked for has been sent; an acknowledgement would be here after `patience`.
    pub(crate) fn on_probe_sent(&mut self, number: PacketNumber, patience: Duration, now: Instant) {
        if self.probes.len() >= MAX_PROBES as usize {
            self.probes.remove(0);
        }
        self.probes.push(Probe { number, size: self.candidate, sent_at: now });
        self.tries += 1;
        self.due = Some(now + patience);
    }

    /// These numbers of the path are acknowledged. If the newest of them is a probe, returns its size, and when it was sent.
    pub(crate) fn on_ack(&mut self, ranges: &AckRanges<'_>, now: Instant) -> Option<(u16, Instant)> {
        if self.probes.is_empty() {
            return None;
        }
        let arrived = |probe: &Probe| {
            ranges.clone().any(|range| range.first <= probe.number && probe.number <= range.last)
        };
        let newest = ranges.clone().map(|range| range.last).max();
        let timed = self.probes.iter().find(|probe| Some(probe.number) == newest);
        let timed = timed.map(|probe| (probe.size, probe.sent_at));
        let largest = self.probes.extract_if(.., |probe| arrived(probe)).map(|probe| probe.size).max();
        if let Some(size) = largest.filter(|&size| size > self.confirmed && size < self.refuted) {
            self.confirmed = size;
            self.holes = Holes::default();
            self.go_on(now);
        }
        timed
    }

    /// The kernel has refused a datagram of this size.
    pub(crate) fn on_refused(&mut self, size: usize, now: Instant) {
        let Some(size) = u16::try_from(size).ok().filter(|&size| size > self.base() && size < self.refuted)
        else {
            return;
        };
        self.refuted = size;
        self.probes.retain(|probe| probe.size < size);
        if self.confirmed >= size {
            self.fall_back();
        }
        self.go_on(now);
    }

    /// A datagram of the path, sent at `sent_at`, has arrived.
    pub(crate) fn on_arrived(&mut self, bytes: u16, sent_at: Instant) {
        if bytes > self.safe() {
            self.holes.large_arrived = self.holes.large_arrived.max(Some(sent_at));
            self.holes.silent = false;
            let lost = &mut self.holes.lost;
            lost.take_if(|(_, first)| sent_at >= *first);
        } else {
            self.holes.small_arrived = self.holes.small_arrived.max(Some(sent_at));
        }
    }

    /// A datagram of the path, sent at `sent_at`, is lost.
    pub(crate) fn on_lost(&mut self, bytes: u16, sent_at: Instant) {
        if bytes > self.safe() && Some(sent_at) > self.holes.large_arrived {
            let (count, _) = self.holes.lost.get_or_insert((0, sent_at));
            *count += 1;
        }
    }

    /// Draws the conclusion from what has arrived and what is lost.
    pub(crate) fn judge(&mut self, now: Instant) {
        let small = self.holes.small_arrived;
        let enough = if self.confirmed > self.base() { BLACK_HOLE } else { BASE_BLACK_HOLE };
        if self.holes.lost.is_some_and(|(count, first)| count >= enough && small >= Some(first)) {
            self.on_black_hole(now);
        }
    }

    /// The path has fallen silent; the oldest datagram that is not acknowledged has this many bytes.
    pub(crate) fn on_silence(&mut self, oldest: Option<u16>) {
        let safe = self.safe();
        self.holes.silent |= oldest.is_some_and(|bytes| bytes > safe);
    }

    /// The path answers again, and the answer was a small datagram.
    pub(crate) fn on_revived(&mut self, now: Instant) {
        if std::mem::take(&mut self.holes.silent) {
            self.on_black_hole(now);
        }
    }

    /// Whether the size has become smaller since that was last [taken note of](Self::take_shrunk).
    pub(crate) fn has_shrunk(&self) -> bool {
        self.shrunk
    }

    /// Whether the size has become smaller since the last time.
    pub(crate) fn take_shrunk(&mut self) -> bool {
        std::mem::take(&mut self.shrunk)
    }

    fn base(&self) -> u16 {
        BASE_PACKET - self.headers
    }

    /// What a black hole lets through: the base size, unless that is no more than what is swallowed.
    fn safe(&self) -> u16 {
        if self.confirmed > self.base() { self.base() } else { LEAST_PACKET - self.headers }
    }

    /// The size that was confirmed is not any more; it is the first to be probed. If it was a false alarm, that
    /// has cost a round trip of smaller datagrams.
    fn on_black_hole(&mut self, now: Instant) {
        self.holes = Holes::default();
        if self.confirmed > self.safe() {
            (self.candidate, self.tries, self.due) = (self.confirmed, 0, Some(now));
            self.fall_back();
        }
    }

    fn fall_back(&mut self) {
        // An acknowledgement of what was sent before would confirm what is doubted.
        self.probes.clear();
        self.is_new = false;
        self.confirmed = self.safe();
        self.shrunk = true;
    }

    /// Goes on with the next size, or ends the search.
    fn go_on(&mut self, now: Instant) {
        self.is_new = false;
        self.tries = 0;
        let (low, high, usual) = (self.confirmed, self.refuted, USUAL_PACKET - self.headers);
        self.candidate = if high > self.ceiling {
            self.ceiling
        } else if high - low <= GRAIN {
            low
        } else if low < usual && usual < high {
            usual
        } else {
            low + (high - low) / 2
        };
        self.due =
            if self.candidate > low { Some(now) } else { (low < self.ceiling).then_some(now + RAISE_AFTER) };
    }
}

#[cfg(test)]
mod tests;
