//! Many first-in-first-out queues in one piece of memory.

/// No slot.
const NONE: u32 = u32::MAX;

/// A queue whose packets are in a [`Slab`].
#[derive(Debug)]
pub(crate) struct Fifo {
    first: u32,
    last: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Fifo {
    /// Whether it has no packet.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// The packets of all queues, linked by index. It grows to the largest number of packets that ever waited, and
/// from then on nothing is allocated.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The first of the free slots.
    free: u32,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    packet: Option<T>,
    /// The next slot of the same queue, or the next free one.
    next: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Appends a packet to a queue.
    pub(crate) fn push(&mut self, queue: &mut Fifo, packet: T) {
        let index = self.insert(packet);
        match self.slots.get_mut(queue.last as usize) {
            Some(last) => last.next = index,
            None => queue.first = index,
        }
        queue.last = index;
        self.len += 1;
    }

    /// Takes the first packet of a queue.
    pub(crate) fn pop(&mut self, queue: &mut Fifo) -> Option<T> {
        let index = queue.first;
        let slot = self.slots.get_mut(index as usize)?;
        queue.first = std::mem::replace(&mut slot.next, self.free);
        if queue.first == NONE {
            queue.last = NONE;
        }
        self.free = index;
        self.len -= 1;
        slot.packet.take()
    }

    /// The first packet of a queue.
    pub(crate) fn first(&self, queue: &Fifo) -> Option<&T> {
        self.slots.get(queue.first as usize)?.packet.as_ref()
    }

    /// The last packet of a queue.
    pub(crate) fn last_mut(&mut self, queue: &Fifo) -> Option<&mut T> {
        self.slots.get_mut(queue.last as usize)?.packet.as_mut()
    }

    /// Packets in all queues.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn insert(&mut self, packet: T) -> u32 {
        let index = self.free;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            self.free = std::mem::replace(&mut slot.next, NONE);
            slot.packet = Some(packet);
            return index;
        }
        let index = u32::try_from(self.slots.len()).unwrap_or(NONE);
        self.slots.push(Slot { packet: Some(packet), next: NONE });
        index
    }
}
