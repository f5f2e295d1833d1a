//! Explicit congestion notification of an end of a connection (RFC 3168, section 6.1).

use psmc_wire::ip::Ecn;

use super::segment::{Flags, Segment};
use crate::packet::set_ecn_of;

/// What an end of a connection has to do with marks.
///
/// The first segments settle whether both ends know of them. Then [`mark_outgoing`](Self::mark_outgoing) each segment
/// that smoltcp makes, [`mark_repair`](Self::mark_repair) each one that is sent again, and show
/// [`on_segment`](Self::on_segment) each one that arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification {
    /// Whether this end wants marks.
    wanted: bool,
    /// Whether both do.
    agreed: bool,
    /// A marked packet has come, and the peer has not said that it knows.
    echoes: bool,
    /// The window was reduced, and the peer does not know.
    reduced: bool,
}

impl Notification {
    /// Before the first segment.
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, agreed: false, echoes: false, reduced: false }
    }

    /// A segment has arrived, in a packet with this codepoint. Says whether it reports marks.
    pub(super) fn on_segment(&mut self, segment: &Segment, codepoint: Ecn) -> bool {
        if segment.is_syn {
            // A SYN asks by both flags, the answer to it agrees by one (§6.1.1).
            self.agreed =
                self.wanted && segment.flags.echo && (segment.flags.reduced != segment.ack.is_some());
            return false;
        }
        if !self.agreed {
            return false;
        }
        self.echoes &= !segment.flags.reduced;
        self.echoes |= codepoint == Ecn::Ce;
        segment.flags.echo && segment.ack.is_some()
    }

    /// The sender has reduced its window, for whatever reason (§6.1.2).
    pub(super) fn on_reduced(&mut self) {
        self.reduced = self.agreed;
    }

    /// Flags and codepoint of a segment that is sent for the first time.
    pub(super) fn mark_outgoing(&mut self, segment: &Segment, packet: &mut [u8]) {
        if segment.is_syn {
            let asks = segment.ack.is_none();
            let echo = if asks { self.wanted } else { self.agreed };
            return Flags { echo, reduced: echo && asks }.write(packet);
        }
        if !self.agreed {
            return;
        }
        let has_data = segment.len > 0;
        let reduced = has_data && std::mem::take(&mut self.reduced);
        Flags { echo: self.echoes, reduced }.write(packet);
        if has_data {
            set_ecn_of(packet, Ecn::Ect0);
        }
    }

    /// Flags of one that is sent again: it must not be marked (§6.1.5).
    pub(super) fn mark_repair(&self, packet: &mut [u8]) {
        if self.agreed {
            Flags { echo: self.echoes, reduced: false }.write(packet);
        }
    }
}
