//! What an evil relay does with what it should hand on.

use std::collections::VecDeque;
use std::mem::take;
use std::net::SocketAddr;
use std::time::Duration;

use super::relay::relay_address;

/// Datagrams that an evil relay keeps, to send them once more.
const KEPT: usize = 256;

/// What an evil relay can do with a datagram. It knows the labels and the keys of its hops, and none of the sites'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trick {
    Drop,
    /// Hands it on so much later, behind others.
    DelayMs(u16),
    Duplicate,
    /// Changes a bit of it.
    Flip(u16),
    /// Hands on its beginning.
    Truncate(u16),
    /// Sends it back to where it came from, too.
    Reflect,
    /// Hands it on beside one that it has handed on before.
    Repeat(u16),
    /// Hands it on as if it came from elsewhere.
    Feign,
    /// Hands it on behind one of its own making, with the same header: it answers for the other site.
    Forge,
    /// Hands it on by another link, as if the relay there did.
    Misplace,
}

/// A datagram on its further way.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    pub(super) link: usize,
    /// The end from which it comes.
    pub(super) from: usize,
    pub(super) datagram: Vec<u8>,
    pub(super) address: SocketAddr,
    pub(super) late: Duration,
}

/// An evil relay.
#[derive(Debug)]
pub struct Evil {
    /// What it does, each to one in so many datagrams.
    tricks: Vec<(Trick, u32)>,
    kept: VecDeque<Handed>,
    random: u64,
}

impl Evil {
    pub fn new(tricks: Vec<(Trick, u32)>, seed: u64) -> Self {
        Self { tricks, kept: VecDeque::new(), random: seed | 1 }
    }

    /// What it makes of a datagram. By another link than its own it hands on one at most: who fills other links does so
    /// without a relay as well.
    pub(super) fn handle(&mut self, honest: Handed, links: usize) -> Vec<Handed> {
        let own = honest.link;
        self.kept.push_front(honest.clone());
        self.kept.truncate(KEPT);
        let mut handed = vec![honest];
        for (trick, one_in) in self.tricks.clone() {
            if self.draw().is_multiple_of(u64::from(one_in.max(1))) {
                handed = handed.into_iter().flat_map(|one| self.play(trick, one, links)).collect();
            }
        }
        let mut may_misplace = true;
        handed.retain(|one| one.link == own || take(&mut may_misplace));
        handed
    }

    fn play(&mut self, trick: Trick, mut one: Handed, links: usize) -> Vec<Handed> {
        let copy = one.clone();
        match trick {
            Trick::Drop => return Vec::new(),
            Trick::DelayMs(ms) => one.late += Duration::from_millis(ms.into()),
            Trick::Duplicate => return vec![one, copy],
            Trick::Flip(at) => {
                let bit = usize::from(at) % (8 * one.datagram.len());
                one.datagram[bit / 8] ^= 1 << (bit % 8);
            }
            Trick::Truncate(length) => one.datagram.truncate(length.into()),
            Trick::Reflect => return vec![Handed { from: 1 - copy.from, ..copy }, one],
            Trick::Repeat(age) => return vec![self.kept[usize::from(age) % self.kept.len()].clone(), one],
            Trick::Feign => one.address.set_port(one.address.port() ^ 1),
            Trick::Forge => {
                let mut forged = copy;
                for byte in forged.datagram.iter_mut().skip(12) {
                    *byte = self.draw() as u8;
                }
                return vec![forged, one];
            }
            Trick::Misplace => {
                one.link = (one.link + 1) % links;
                one.address.set_ip(relay_address(one.link).ip());
            }
        }
        vec![one]
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 3
    }
}
