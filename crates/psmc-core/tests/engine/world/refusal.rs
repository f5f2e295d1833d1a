//! Hosts that say at once that nobody takes datagrams there, as the kernel does whose program was killed.

use std::net::SocketAddr;
use std::time::Instant;

use super::World;

/// A host says so a few times, and then once in a while: the tests don't wait for that.
const TOLD: u32 = 6;

/// What is quoted of a datagram: an ICMP message of 576 bytes less headers of IPv4, ICMP, IPv4 and UDP.
const QUOTED: usize = 576 - 20 - 8 - 28;

/// What is said of datagrams into links at whose far end nobody listens.
#[derive(Default)]
pub struct Refusals {
    refusing: Vec<(usize, [u32; 2])>,
    on_their_way: Vec<Refusal>,
}

struct Refusal {
    arrives: Instant,
    to: usize,
    remote: SocketAddr,
    quoted: Vec<u8>,
}

impl Refusals {
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.on_their_way.iter().map(|refusal| refusal.arrives).min()
    }

    /// Whether a datagram from one end to a remote address is refused in that link. The relay stands in the middle: when its
    /// sender hears of it, the time of the link has passed.
    pub(super) fn refuse(
        &mut self,
        link: usize,
        (from, remote): (usize, SocketAddr),
        datagram: &[u8],
        arrives: Instant,
    ) -> bool {
        let Some((_, told)) = self.refusing.iter_mut().find(|(refusing, _)| *refusing == link) else {
            return false;
        };
        told[from] += 1;
        if told[from] <= TOLD {
            let quoted = datagram[..datagram.len().min(QUOTED)].to_vec();
            self.on_their_way.push(Refusal { arrives, to: from, remote, quoted });
        }
        true
    }
}

impl World {
    /// Has nobody take what is sent into a link any more, from either end, and its senders told so.
    pub fn refuse(&mut self, link: usize) {
        self.refusals.refusing.push((link, [0; 2]));
    }

    pub(super) fn deliver_refusals(&mut self) {
        let now = self.now;
        let arrived: Vec<_> =
            self.refusals.on_their_way.extract_if(.., |refusal| refusal.arrives <= now).collect();
        for Refusal { to, remote, quoted, .. } in arrived {
            self.ends[to].site.handle_undelivered(remote, &quoted, now);
        }
    }
}
