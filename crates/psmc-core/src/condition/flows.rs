//! What is known of each flow: sixteen bytes, in a table of a fixed size.

/// Places of the table. A flow that sends once in ten seconds keeps its place beside 13,000 new ones a second.
const FLOWS: usize = 1 << 17;

/// Places in which a flow may be: one line of a processor's cache.
const WAYS: usize = 4;

/// Bits of a tick: 1024 of them are an epoch, a little more than a second.
const EPOCH_BITS: u32 = 10;

/// Ticks of the window over which a flow's rate is taken: about the second of RFC 2859's authors.
const WINDOW: f32 = (1 << EPOCH_BITS) as f32;

/// Ticks in a second: they are 1024 µs.
const TICKS_PER_SECOND: f32 = 1e6 / 1024.0;

/// A moment, in units of 1024 µs from an arbitrary origin; it wraps after seven weeks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tick(u32);

impl Tick {
    /// So many microseconds after the origin.
    #[expect(clippy::cast_possible_truncation, reason = "ticks wrap")]
    pub(super) fn of_micros(micros: u128) -> Self {
        Self((micros >> 10) as u32)
    }

    /// The epoch in which it is.
    #[expect(clippy::cast_possible_truncation, reason = "epochs wrap")]
    pub(super) fn epoch(self) -> u16 {
        (self.0 >> EPOCH_BITS) as u16
    }

    fn since(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

/// A flow that has sent something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    tag: u32,
    seen: Tick,
    /// Bytes in the last window.
    recent: f32,
    /// How many flows its busier end had when it was last counted; at least one.
    pub(super) load: u16,
    pub(super) turns: Turns,
}

/// What of a flow's shares is left over from its packets so far, in parts of 256.
///
/// A share of one third takes each third packet, and never three of nine in a row: TCP bears losses apart better than bursts of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    first: u8,
    second: u8,
}

impl Turns {
    /// Whether the next packet is in the `share` of those that go first.
    pub(super) fn is_first(&mut self, share: f32) -> bool {
        take_turn(&mut self.first, share)
    }

    /// Whether the next packet that is not among the first is in the `share` of those that go second.
    pub(super) fn is_second(&mut self, share: f32) -> bool {
        take_turn(&mut self.second, share)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the product is 0 to 256")]
fn take_turn(rest: &mut u8, share: f32) -> bool {
    let (sum, takes) = match (share.clamp(0.0, 1.0) * 256.0) as u16 {
        256 => (*rest, true),
        step => rest.overflowing_add(step as u8),
    };
    *rest = sum;
    takes
}

impl Flow {
    /// A packet of so many bytes passes. Returns the flow's rate, bytes per second.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn on_packet(&mut self, bytes: f32, since: u32) -> f32 {
        self.recent = (self.recent + bytes) * (WINDOW / (WINDOW + since as f32));
        self.recent * (TICKS_PER_SECOND / WINDOW)
    }
}

/// The flows that have sent something of late.
#[derive(Debug)]
pub(super) struct Flows {
    sets: Vec<[Flow; WAYS]>,
}

/// A flow, and how it was found.
pub(super) struct Found<'a> {
    pub(super) flow: &'a mut Flow,
    /// Ticks since its last packet.
    pub(super) since: u32,
    /// Whether it was not known.
    pub(super) is_new: bool,
    /// Whether this is its first packet in this epoch.
    pub(super) is_due: bool,
}

impl Flows {
    pub(super) fn new() -> Self {
        Self { sets: vec![[Flow::default(); WAYS]; FLOWS / WAYS] }
    }

    /// The flow of this hash, which sends now. If it is not known, the one of its set that has been silent longest makes room.
    #[expect(clippy::cast_possible_truncation, reason = "both halves of a hash")]
    pub(super) fn touch(&mut self, hash: u64, now: Tick) -> Found<'_> {
        // No flow's tag is that of an empty place.
        let tag = (hash >> 32) as u32 | 1;
        let at = hash as usize & (self.sets.len() - 1);
        let set = &mut self.sets[at];
        let known = set.iter().position(|flow| flow.tag == tag);
        let is_new = known.is_none();
        let place = known.unwrap_or_else(|| silent_longest(set, now));
        let flow = &mut set[place];
        if is_new {
            *flow = Flow { tag, seen: now, load: 1, ..Flow::default() };
        }
        let since = now.since(flow.seen);
        let is_due = is_new || now.epoch() != flow.seen.epoch();
        flow.seen = now;
        Found { flow, since, is_new, is_due }
    }
}

fn silent_longest(set: &[Flow; WAYS], now: Tick) -> usize {
    let age = |flow: &Flow| if flow.tag == 0 { u32::MAX } else { now.since(flow.seen) };
    let ages = set.iter().map(age).enumerate();
    ages.max_by_key(|&(_, age)| age).map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(ms: u128) -> Tick {
        Tick::of_micros(ms * 1000)
    }

    #[test]
    fn a_share_takes_evenly_spaced_turns() {
        for (share, of) in [(0.5, 2), (0.25, 4), (0.125, 8), (1.0, 1)] {
            let mut turns = Turns::default();
            let taken: Vec<_> = (0..240).filter(|_| turns.is_first(share)).collect();
            assert_eq!(taken.len(), 240 / of, "{share}");
            assert!(taken.windows(2).all(|pair| pair[1] - pair[0] == of), "{share}: {taken:?}");
        }
        let mut turns = Turns::default();
        assert!((0..1000).all(|_| !turns.is_first(0.0) && !turns.is_first(f32::NAN)));
    }

    #[test]
    fn the_rate_of_a_flow_is_what_it_sends() {
        let mut flows = Flows::new();
        let mut rate = 0.0;
        for number in 0..10_000 {
            let found = flows.touch(77, tick(number));
            rate = found.flow.on_packet(100.0, found.since);
        }
        assert!((rate / 100_000.0 - 1.0).abs() < 0.03, "{rate}");
    }

    #[test]
    fn flows_that_go_on_keep_their_places_beside_many_new_ones() {
        let mut flows = Flows::new();
        let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number << 40);
        let mut lost = 0;
        for ms in 0_u64..30_000 {
            for number in 0..10 {
                flows.touch(spread(1_000_000 + ms * 10 + number), tick(ms.into()));
            }
            // A hundred flows, each twice a second.
            if ms % 5 == 0 {
                lost += u32::from(flows.touch(spread(ms / 5 % 100), tick(ms.into())).is_new);
            }
        }
        assert_eq!(lost, 100, "each is new once");
    }
}
