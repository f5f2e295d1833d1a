//! Clients that have the round trips of paths measured.

use std::time::{Duration, Instant};

use psmc_api::{Call, PathPing, Response};
use psmc_core::PeerId;
use psmc_service::socket::MAX_CLIENTS;
use psmc_wire::PathId;

use super::DaemonError;
use super::control::Control;
use super::status::path_state;

/// Clients that may wait at a time: half of those there can be, so that there is room for who asks for something else.
const MAX_WAITING: usize = MAX_CLIENTS / 2;

/// A client that waits until all paths have answered.
#[derive(Debug)]
struct Ping {
    call: Call,
    peer: PeerId,
    number: u64,
    paths: Vec<PathPing>,
    until: Instant,
}

impl Ping {
    fn is_complete(&self) -> bool {
        self.paths.iter().all(|path| path.rtt_ms.is_some() || !path.sent)
    }

    fn answer(self) {
        self.call.respond(Response::Ping(self.paths));
    }
}

/// Who waits for round trips.
#[derive(Debug, Default)]
pub(super) struct Pings {
    waiting: Vec<Ping>,
    /// That of the last measurement.
    number: u64,
}

impl Pings {
    /// When somebody will have waited for long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|ping| ping.until).min()
    }

    /// Answers those who have waited for long enough.
    pub(super) fn end_overdue(&mut self) {
        let now = Instant::now();
        self.waiting.extract_if(.., |ping| ping.until <= now).for_each(Ping::answer);
    }

    /// A path has answered.
    pub(super) fn on_measured(&mut self, (peer, path): (PeerId, PathId), number: u64, round_trip: Duration) {
        let Some(at) = self.waiting.iter().position(|ping| ping.number == number && ping.peer == peer) else {
            return;
        };
        let ping = &mut self.waiting[at];
        if let Some(path) = ping.paths.iter_mut().find(|other| other.id == u32::from(path.0)) {
            path.rtt_ms = Some(round_trip.as_secs_f64() * 1e3);
        }
        if ping.is_complete() {
            self.waiting.swap_remove(at).answer();
        }
    }
}

impl Control {
    /// Measures each path to a peer once, and answers when all have answered or the time is over.
    pub(super) async fn ping(&mut self, call: Call, peer: &str) -> Result<(), DaemonError> {
        let peer = match self.peers.find(peer) {
            Ok(index) => self.peers[index].id,
            Err(refusal) => {
                call.respond(refusal);
                return Ok(());
            }
        };
        if self.pings.waiting.len() >= MAX_WAITING {
            call.respond(Response::error(format!(
                "{MAX_WAITING} clients are pinging already; end one of them"
            )));
            return Ok(());
        }
        self.pings.number += 1;
        let number = self.pings.number;
        let until = Instant::now() + call.request().patience();
        let measured = self.plane.call(move |plane| {
            let status = plane.site.status(peer)?;
            let mut measure = |id| plane.path(peer, id).is_some_and(|mut path| path.measure(number));
            let paths = status.paths.iter().map(|path| PathPing {
                path: path.name.clone(),
                id: u32::from(path.id.0),
                state: path_state(path),
                sent: status.key.is_some() && measure(path.id),
                rtt_ms: None,
            });
            Some(paths.collect())
        });
        // A peer that has just been removed has no paths.
        let paths: Vec<_> = measured.await?.unwrap_or_default();
        let ping = Ping { call, peer, number, paths, until };
        if ping.is_complete() {
            ping.answer()
        } else {
            self.pings.waiting.push(ping)
        }
        Ok(())
    }
}
