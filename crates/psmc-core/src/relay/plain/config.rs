//! Which tunnels there are, and where their ends are: both may change while packets pass.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use psmc_wire::ids::KeyBytes;

use super::engine::{Direction, PlainTunnels};
use super::pair::{End, Pair, PlainOuter, PlainPair};
use crate::relay::lane::Lane;
use crate::relay::session::Side;

impl PlainTunnels {
    /// Serves these pairs from now on, no two of which can mean the same packet. A pair that there is already, by its
    /// name and its ends, goes on with all that waits, and with what is counted of it; only its rate may be another. The sites
    /// of new ones have to be [placed](Self::place_site).
    pub fn reconfigure(&mut self, pairs: Vec<PlainPair>, now: Instant) {
        let now = self.clock(now);
        let mut before = std::mem::take(&mut self.pairs);
        self.order.clear();
        for config in pairs {
            let goes_on = before.iter().find(|(_, pair)| pair.is(&config)).map(|(number, _)| *number);
            let number = goes_on.unwrap_or(self.next_pair);
            let pair = match before.remove(&number) {
                Some(mut pair) => {
                    pair.renew(&config);
                    pair
                }
                None => {
                    self.next_pair += 1;
                    Pair::new(config, now)
                }
            };
            self.pairs.insert(number, pair);
            self.order.push(number);
        }
        for lane in before.into_values().flat_map(|pair| pair.lanes) {
            self.forget(lane, now);
        }
        self.find_ends();
    }

    /// A site has registered from an address, the first link to which takes so many bytes; or it is not registered any more.
    /// The ends that are left to it are there from now on. False, and they are nowhere, if a tunnel would lead into
    /// itself: "the router MUST NOT tunnel the datagram" to its own end (RFC 2003, section 5).
    pub fn place_site(&mut self, site: KeyBytes, place: Option<(Ipv4Addr, u16)>) -> bool {
        let mut inside = self.pairs.values().flat_map(|pair| &pair.ends);
        let leads_into_itself = place.is_some_and(|(ip, _)| inside.any(|end| end.is_inside(ip)));
        let place = place.filter(|_| !leads_into_itself);
        for end in self.ends().filter(|end| end.outer == PlainOuter::Site(site)) {
            end.move_to(place);
        }
        self.find_ends();
        !leads_into_itself
    }

    /// Says what the first link to an end takes.
    pub fn set_link_mtu(&mut self, end: Ipv4Addr, mtu: u16) {
        self.ends_at(end).for_each(|end| end.set_link_mtu(mtu));
    }

    pub(super) fn ends_at(&mut self, address: Ipv4Addr) -> impl Iterator<Item = &mut End> {
        self.ends().filter(move |end| end.address == Some(address))
    }

    fn ends(&mut self) -> impl Iterator<Item = &mut End> {
        self.pairs.values_mut().flat_map(|pair| &mut pair.ends)
    }

    /// Finds anew what may come from where.
    fn find_ends(&mut self) {
        let mut from: BTreeMap<Ipv4Addr, Vec<Direction>> = BTreeMap::new();
        for (pair, it) in &self.pairs {
            for side in [Side::Near, Side::Far] {
                if let Some(address) = it.end(side).address {
                    from.entry(address).or_default().push(Direction { pair: *pair, to: side.other() });
                }
            }
        }
        self.from = from;
    }

    /// Drops what waits in a lane.
    fn forget(&mut self, mut lane: Lane, now: u64) {
        while let Some(buffer) = lane.pop(now, &mut self.queues.slab) {
            self.queues.recycle(buffer);
        }
    }
}
