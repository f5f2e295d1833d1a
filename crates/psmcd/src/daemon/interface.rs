//! The tunnel's interface: the TUN device, and the packets on their way from it and to it.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use psmc_core::Site;
use psmc_net::poller::Poller;
use psmc_net::tun::Tun;
use psmc_wire::PacketBuf;

use super::forwarding::destination;
use super::splits::Splits;
use psmc_api::Calls;

/// Packets that are read before they are passed on: enough to make batches, few enough that nothing waits long, and
/// that they are in the processor's cache still. Four reads of a bulk transfer bring as many.
const MAX_PACKETS: usize = 160;

/// Reads before what they brought is passed on, each of a small packet if it comes to so many: together they fill datagrams.
const MAX_READS: usize = 32;

/// Packets collected for the device before they are written.
const MAX_WRITE: usize = 256;

/// The TUN device of a site.
pub(super) struct Interface {
    tun: Tun,
    /// Whether there may be something to be read.
    due: bool,
    /// Reads before what they brought is passed on, and how many have brought something since the thread last slept.
    reads: usize,
    burst: usize,
    incoming: Vec<PacketBuf>,
    outgoing: Vec<PacketBuf>,
    pub(super) read: Calls,
    pub(super) written: Calls,
    /// Inner packets that the device didn't take.
    pub(super) drops: u64,
    /// Where one packet went to that hosts were given, of those since this was last taken.
    pub(super) seen: Option<IpAddr>,
}

impl Interface {
    pub(super) fn new(tun: Tun) -> Self {
        let (read, written) = (Calls::default(), Calls::default());
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Self { tun, due: false, reads: 1, burst: 0, incoming, outgoing, read, written, drops: 0, seen: None }
    }

    /// Replaces a device that was deleted.
    pub(super) fn replace(&mut self, tun: Tun) {
        self.tun = tun;
        self.due = false;
    }

    /// Registers the device with the poller under that token.
    pub(super) fn listen(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(self.tun.as_fd(), token)
    }

    /// There is something to be read.
    pub(super) fn set_due(&mut self) {
        self.due = true;
    }

    /// Nothing has come for a moment. What comes next is foreseen to come with as many others as before: a packet that comes
    /// alone shall not wait until it is clear that it does.
    pub(super) fn note_pause(&mut self) {
        self.reads = self.burst.clamp(1, MAX_READS);
        self.burst = 0;
    }

    /// Gives the site what hosts have sent into the tunnel.
    pub(super) fn recv(&mut self, poller: &Poller, site: &mut Site, mut splits: Option<&mut Splits>) {
        if !mem::take(&mut self.due) {
            return;
        }
        self.fill(poller, site);
        self.reads = MAX_READS;
        let now = Instant::now();
        for packet in self.incoming.drain(..) {
            match &mut splits {
                Some(splits) => splits.on_packet(packet, site, now),
                None => site.handle_packet(packet, now),
            }
        }
    }

    /// Reads what is passed on together. If there is more, the poller tells.
    fn fill(&mut self, poller: &Poller, site: &mut Site) {
        for _ in 0..self.reads {
            if self.incoming.len() >= MAX_PACKETS {
                return;
            }
            match self.tun.try_recv(site.pool(), &mut self.incoming) {
                Ok(count) => {
                    self.burst += 1;
                    self.read.add(1, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the tunnel's interface");
                    // It would be told of for ever.
                    let _ = poller.remove(self.tun.as_fd());
                    return;
                }
            }
        }
    }

    /// Gives hosts these packets, behind those that wait.
    pub(super) fn give(&mut self, packets: &mut Vec<PacketBuf>, site: &mut Site) {
        self.outgoing.append(packets);
        let report = self.tun.send(&mut self.outgoing, site.pool(), false);
        self.written.add(report.writes, report.written);
        self.drops += report.dropped as u64;
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
            if self.seen.is_none() {
                self.seen = self.outgoing.first().and_then(|packet| destination(packet.packet()));
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
