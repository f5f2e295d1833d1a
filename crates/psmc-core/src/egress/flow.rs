//! One flow's queue, and the order in which flows take turns.
//!
//! Which flow has the largest backlog, to within a factor of two, in constant time.

use super::codel::CoDel;
use crate::slab::Fifo;

/// No flow.
const NONE: u16 = u16::MAX;

/// The packets of a flow that wait.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) packets: Fifo,
    /// Bytes that wait.
    pub(super) backlog: u32,
    /// Bytes that it may still send in its turn; negative if its last packet was longer, which its own next turn
    /// pays for.
    pub(super) deficit: i32,
    /// Whether its turn goes on all the same: what is left of a packet that was cut follows.
    pub(super) overdraws: bool,
    pub(super) codel: CoDel,
    /// Whether acknowledgements in it have taken the places of others since it takes turns.
    pub(super) thins: bool,
    /// Whether its last packet came long after the one before, which had gone.
    pub(super) sparse: bool,
    /// Whether it takes turns: it does so until a round after its last packet.
    listed: bool,
    /// The flow behind it in its list.
    next: u16,
}

impl Default for Flow {
    fn default() -> Self {
        let packets = Fifo::default();
        Self {
            packets,
            backlog: 0,
            deficit: 0,
            overdraws: false,
            codel: CoDel::default(),
            thins: false,
            sparse: false,
            listed: false,
            next: NONE,
        }
    }
}

/// The flows that take turns: deficit round robin, in which a flow that was empty goes first once (RFC 8290 §4.2).
#[derive(Debug, Default)]
pub(super) struct Turns {
    new: FlowList,
    old: FlowList,
}

impl Turns {
    /// A flow has a packet.
    pub(super) fn join(&mut self, index: u16, quantum: i32, flows: &mut [Flow]) {
        let flow = &mut flows[usize::from(index)];
        if !flow.listed {
            flow.listed = true;
            flow.thins = false;
            flow.deficit = quantum;
            self.new.push(index, flows);
        }
    }

    /// The flow whose turn it is, with something left of its quantum or of a packet that was cut. It may be empty.
    pub(super) fn current(&mut self, quantum: i32, flows: &mut [Flow]) -> Option<u16> {
        loop {
            let index = self.new.first().or_else(|| self.old.first())?;
            let flow = &mut flows[usize::from(index)];
            if flow.deficit > 0 || flow.overdraws {
                return Some(index);
            }
            flow.deficit += quantum;
            self.end_turn(flows);
        }
    }

    /// The flow whose turn it is has turned out to be empty. If it was new it stays for a round: it would be new
    /// with each of its packets otherwise, and the others would never have a turn.
    pub(super) fn leave(&mut self, flows: &mut [Flow]) {
        if self.new.first().is_some() && self.old.first().is_some() {
            return self.end_turn(flows);
        }
        if let Some(index) = self.take_first(flows) {
            flows[usize::from(index)].listed = false;
        }
    }

    /// The flow whose turn it is goes behind all others.
    fn end_turn(&mut self, flows: &mut [Flow]) {
        if let Some(index) = self.take_first(flows) {
            self.old.push(index, flows);
        }
    }

    fn take_first(&mut self, flows: &[Flow]) -> Option<u16> {
        self.new.pop(flows).or_else(|| self.old.pop(flows))
    }
}

/// Flows linked by index.
#[derive(Debug)]
struct FlowList {
    first: u16,
    last: u16,
}

impl Default for FlowList {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl FlowList {
    fn first(&self) -> Option<u16> {
        (self.first != NONE).then_some(self.first)
    }

    fn push(&mut self, index: u16, flows: &mut [Flow]) {
        flows[usize::from(index)].next = NONE;
        match flows.get_mut(usize::from(self.last)) {
            Some(last) => last.next = index,
            None => self.first = index,
        }
        self.last = index;
    }

    fn pop(&mut self, flows: &[Flow]) -> Option<u16> {
        let index = self.first()?;
        self.first = flows[usize::from(index)].next;
        if self.first == NONE {
            self.last = NONE;
        }
        Some(index)
    }
}

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
