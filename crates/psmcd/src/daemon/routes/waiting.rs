//! Clients that wait for something to come true.

use std::time::Instant;

use psmc_core::PeerId;

use crate::daemon::control::Control;
use psmc_api::{Call, PeerReport, Response, WaitFor};

/// Clients that may wait at a time: half of those there can be, so that there is room for who asks for something else.
const MAX_WAITERS: usize = psmc_service::socket::MAX_CLIENTS / 2;

/// A client whose answer comes later.
#[derive(Debug)]
pub(in crate::daemon) struct Waiter {
    call: Call,
    peer: PeerId,
    until: WaitFor,
    deadline: Instant,
}

impl Control {
    /// Answers a client as soon as what it waits for has come, or its time is over.
    pub(in crate::daemon) fn wait(&mut self, call: Call, name: &str, until: WaitFor) {
        let index = match self.find_peer(name) {
            Ok(index) => index,
            Err(refusal) => return call.respond(refusal),
        };
        if self.waiters.len() >= MAX_WAITERS {
            let text = format!("{MAX_WAITERS} clients are waiting already; end one of them");
            return call.respond(Response::error(text));
        }
        let now = Instant::now();
        let deadline = now + call.request().patience();
        let peer = &mut self.peers[index];
        peer.routes.watch(now);
        self.waiters.push(Waiter { peer: peer.id, call, until, deadline });
        self.look_soon();
    }

    /// Answers those for whom it is time.
    pub(super) fn answer_waiters(&mut self, now: Instant) {
        for waiter in std::mem::take(&mut self.waiters) {
            let Some(index) = self.peer_index(waiter.peer) else {
                waiter.call.respond(Response::error("the peer has been removed"));
                continue;
            };
            let report = self.report(index, waiter.until);
            if report.reached || waiter.deadline <= now {
                waiter.call.respond(Response::Peer(report));
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    fn report(&self, peer: usize, until: WaitFor) -> PeerReport {
        let peer = &self.peers[peer];
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
}
