//! Which flow has the largest backlog, to within a factor of two, in constant time.

/// No flow.
const NONE: u16 = u16::MAX;

/// Orders of magnitude of a backlog: the bits of its bytes, 0 for none.
const ORDERS: usize = u32::BITS as usize + 1;

/// Flows in rings, one for each power of two of their backlogs.
///
/// RFC 8290 §4.1 searches all flows for the fattest one, and drops a batch from it to make up for the search. A
/// flow changes its ring only when its backlog has doubled or halved, so that this costs hardly anything, and
/// no packet is dropped before it has to be.
#[derive(Debug)]
pub(super) struct Fattest {
    rings: [u16; ORDERS],
    /// One bit for each ring that is not empty.
    occupied: u64,
    places: Vec<Place>,
}

/// The place of a flow in a ring.
#[derive(Clone, Copy, Debug)]
struct Place {
    order: u8,
    previous: u16,
    next: u16,
}

impl Default for Fattest {
    fn default() -> Self {
        Self { rings: [NONE; ORDERS], occupied: 0, places: Vec::new() }
    }
}

impl Fattest {
    /// Makes room for flows of these numbers.
    pub(super) fn grow(&mut self, flows: usize) {
        self.places.resize(flows.max(self.places.len()), Place { order: 0, previous: NONE, next: NONE });
    }

    /// Notes the backlog of a flow.
    pub(super) fn set(&mut self, flow: u16, backlog: u32) {
        let order = order_of(backlog);
        let old = self.places[usize::from(flow)].order;
        if order == old {
            return;
        }
        if old != 0 {
            self.remove(flow, old);
        }
        self.places[usize::from(flow)].order = order;
        if order != 0 {
            self.insert(flow, order);
        }
    }

    /// A flow with a backlog of the largest order; another one with each call, where there are several.
    pub(super) fn take_turn(&mut self) -> Option<u16> {
        let order = u64::BITS.checked_sub(self.occupied.leading_zeros() + 1)? as usize;
        let flow = self.rings[order];
        self.rings[order] = self.places[usize::from(flow)].next;
        Some(flow)
    }

    fn insert(&mut self, flow: u16, order: u8) {
        let ring = &mut self.rings[usize::from(order)];
        let (previous, next) = match *ring {
            NONE => {
                *ring = flow;
                self.occupied |= 1 << order;
                (flow, flow)
            }
            first => (self.places[usize::from(first)].previous, first),
        };
        self.places[usize::from(flow)] = Place { order, previous, next };
        self.places[usize::from(previous)].next = flow;
        self.places[usize::from(next)].previous = flow;
    }

    fn remove(&mut self, flow: u16, order: u8) {
        let Place { previous, next, .. } = self.places[usize::from(flow)];
        self.places[usize::from(previous)].next = next;
        self.places[usize::from(next)].previous = previous;
        let ring = &mut self.rings[usize::from(order)];
        if next == flow {
            *ring = NONE;
            self.occupied &= !(1 << order);
        } else if *ring == flow {
            *ring = next;
        }
    }
}

/// How many bits a backlog has.
fn order_of(backlog: u32) -> u8 {
    // At most 32.
    u8::try_from(u32::BITS - backlog.leading_zeros()).unwrap_or(u8::MAX)
}
