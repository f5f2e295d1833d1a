//! Clients that wait for something to come true.

use std::time::Instant;

use psmc_core::PeerId;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::health::LOOK_INTERVAL;
use crate::daemon::peers::{Peer, Peers};
use psmc_api::{Call, PeerReport, Response, WaitFor};

/// Clients that may wait at a time: half of those there can be, so that there is room for who asks for something else.
const MAX_WAITERS: usize = psmc_service::socket::MAX_CLIENTS / 2;

/// A client whose answer comes later.
#[derive(Debug)]
struct Waiter {
    call: Call,
    peer: PeerId,
    until: WaitFor,
    deadline: Instant,
}

/// Who waits, and when the paths are looked at for which learned routes stand in.
pub(in crate::daemon) struct RouteWatch {
    waiters: Vec<Waiter>,
    looks: Interval,
}

impl RouteWatch {
    pub(in crate::daemon) fn new() -> Self {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { waiters: Vec::new(), looks }
    }

    /// Whether there is anything to look at.
    pub(in crate::daemon) fn is_on(&self, peers: &Peers) -> bool {
        let now = Instant::now();
        !self.waiters.is_empty() || peers.iter().any(|peer| peer.routes.is_watched(now))
    }

    /// Waits until it is time for a look. May be dropped and called again.
    pub(in crate::daemon) async fn tick(&mut self) {
        self.looks.tick().await;
    }

    /// Schedules a check of the paths that routes stand in for.
    pub(in crate::daemon) fn look_soon(&mut self) {
        self.looks.reset_immediately();
    }

    /// Answers a client as soon as what it waits for has come, or its time is over.
    pub(in crate::daemon) fn wait(&mut self, call: Call, name: &str, until: WaitFor, peers: &mut Peers) {
        let index = match peers.find(name) {
            Ok(index) => index,
            Err(refusal) => return call.respond(refusal),
        };
        if self.waiters.len() >= MAX_WAITERS {
            let text = format!("{MAX_WAITERS} clients are waiting already; end one of them");
            return call.respond(Response::error(text));
        }
        let now = Instant::now();
        let deadline = now + call.request().patience();
        let peer = &mut peers[index];
        peer.routes.watch(now);
        self.waiters.push(Waiter { peer: peer.id, call, until, deadline });
        self.look_soon();
    }

    /// Answers those for whom it is time.
    pub(super) fn answer(&mut self, peers: &Peers, now: Instant) {
        for waiter in std::mem::take(&mut self.waiters) {
            let Some(peer) = peers.get(waiter.peer) else {
                waiter.call.respond(Response::error("the peer has been removed"));
                continue;
            };
            let report = report(peer, waiter.until);
            if report.reached || waiter.deadline <= now {
                waiter.call.respond(Response::Peer(report));
            } else {
                self.waiters.push(waiter);
            }
        }
    }
}

fn report(peer: &Peer, until: WaitFor) -> PeerReport {
    let state = peer.routes.state;
    PeerReport {
        peer: peer.config.name.to_string(),
        reached: match until {
            WaitFor::Usable => state.usable,
            WaitFor::Trouble => !state.direct_well,
        },
        usable: state.usable,
        direct_well: state.direct_well,
        learned_up: state.learned_up,
        serial: peer.routes.serial,
        expires: peer.routes.set.as_ref().map(|set| set.expires_s),
    }
}
