//! Where packets go that need not wait, and the session's account of those that do.

use std::collections::VecDeque;

use psmc_wire::PacketBuf;

use super::ReorderCounters;

/// What a bucket changes outside itself.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    pub(super) out: &'a mut VecDeque<PacketBuf>,
    pub(super) counters: &'a mut ReorderCounters,
    /// Length of all rings together.
    pub(super) slots: &'a mut usize,
}

impl Sink<'_> {
    /// Delivers a packet that was never held.
    pub(super) fn deliver(&mut self, buf: PacketBuf) {
        self.counters.delivered += 1;
        self.out.push_back(buf);
    }

    /// Accounts for `slots` more in a ring.
    pub(super) fn grow(&mut self, slots: usize) {
        *self.slots += slots;
    }

    /// Accounts for a packet that is put in a slot.
    pub(super) fn hold(&mut self, buf: &PacketBuf) {
        self.counters.held += 1;
        self.counters.held_bytes += buf.capacity();
    }

    /// Delivers what was held in a slot, which leaves its ring.
    pub(super) fn release(&mut self, slot: Option<PacketBuf>) {
        *self.slots -= 1;
        if let Some(buf) = slot {
            self.counters.held -= 1;
            self.counters.held_bytes -= buf.capacity();
            self.deliver(buf);
        }
    }
}
