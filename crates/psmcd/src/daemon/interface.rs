//! The tunnel's interface: the TUN device, and the packets on their way from it and to it.

use std::task::{Context, Poll};
use std::time::Instant;

use psmc_core::Site;
use psmc_net::tun::Tun;
use psmc_wire::PacketBuf;

use crate::api::Calls;

/// Reads of the device before what they brought is passed on, at most: large enough to make batches, small enough that
/// nothing waits long.
const MAX_READS: usize = 4;

/// Packets collected for the device before they are written.
const MAX_WRITE: usize = 256;

/// The TUN device of a site.
pub(super) struct Interface {
    tun: Tun,
    incoming: Vec<PacketBuf>,
    /// Reads before what they brought is passed on, and how many have brought something since one that has not.
    reads: usize,
    burst: usize,
    outgoing: Vec<PacketBuf>,
    pub(super) read: Calls,
    pub(super) written: Calls,
    /// Inner packets that the device didn't take.
    pub(super) drops: u64,
}

impl Interface {
    pub(super) fn new(tun: Tun) -> Self {
        let (read, written) = (Calls::default(), Calls::default());
        Self { tun, incoming: Vec::new(), reads: 1, burst: 0, outgoing: Vec::new(), read, written, drops: 0 }
    }

    /// Gives the site what hosts have sent into the tunnel; says whether there was anything.
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>, site: &mut Site) -> bool {
        let before = self.burst;
        let is_empty = self.fill(cx, site);
        let progress = self.burst > before;
        if is_empty {
            // A packet that comes alone shall not wait until it is clear that it does.
            self.reads = self.burst.clamp(1, MAX_READS);
            self.burst = 0;
        } else {
            self.reads = MAX_READS;
        }
        let now = Instant::now();
        for packet in self.incoming.drain(..) {
            site.handle_packet(packet, now);
        }
        progress
    }

    /// Reads what is passed on together; says whether there is nothing left.
    fn fill(&mut self, cx: &mut Context<'_>, site: &mut Site) -> bool {
        for _ in 0..self.reads {
            match self.tun.poll_recv(cx, site.pool(), &mut self.incoming) {
                Poll::Ready(Ok(count)) => {
                    self.burst += 1;
                    self.read.add(1, count);
                }
                Poll::Ready(Err(error)) => {
                    tracing::warn!(%error, "cannot read from the tunnel's interface");
                    return true;
                }
                Poll::Pending => return true,
            }
        }
        false
    }

    /// Gives hosts what the site has for them. If more follows at once, what that may be joined with waits for it.
    pub(super) fn deliver(&mut self, site: &mut Site, more_follow: bool) {
        loop {
            let carried = self.outgoing.len();
            while self.outgoing.len() < MAX_WRITE
                && let Some(packet) = site.poll_packet()
            {
                self.outgoing.push(packet);
            }
            let is_rest = self.outgoing.len() < MAX_WRITE;
            if self.outgoing.len() > carried || !more_follow && carried > 0 {
                let report = self.tun.send(&mut self.outgoing, site.pool(), more_follow || !is_rest);
                self.written.add(report.writes, report.written);
                self.drops += report.dropped as u64;
            }
            if is_rest {
                return;
            }
        }
    }
}
