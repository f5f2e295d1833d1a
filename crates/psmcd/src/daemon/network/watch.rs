//! Which changes of the network matter, and when it is looked at because of them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use psmc_net::netlink::NetworkEvent;

use super::steering::{Numbers, View};

/// After a change others are waited for so long: an uplink comes up with a link, addresses and routes.
const SETTLE: Duration = Duration::from_millis(50);

/// The network is looked at no more often: to ask the kernel for all its routes may take a while.
const LEAST_INTERVAL: Duration = Duration::from_millis(200);

/// When the network is looked at: [`note_change`](Self::note_change) whenever it may be another one, [`begin`](Self::begin) before it
/// is asked for anything.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Watch {
    look_at: Option<Instant>,
    looked_at: Option<Instant>,
}

impl Watch {
    /// When it is to be looked at, if it has changed.
    pub(in crate::daemon) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Schedules a check of it.
    pub(in crate::daemon) fn note_change(&mut self, now: Instant) {
        let earliest = self.looked_at.map_or(now, |at| at + LEAST_INTERVAL);
        self.look_at.get_or_insert((now + SETTLE).max(earliest));
    }

    /// It is looked at now.
    pub(in crate::daemon) fn begin(&mut self, now: Instant) {
        self.look_at = None;
        self.looked_at = Some(now);
    }
}

/// Whether an event is of importance, to a site that leads to `remotes`. A host with the routes of the whole Internet hears of many
/// that are not.
pub(super) fn is_concerned(
    event: &NetworkEvent,
    numbers: Numbers,
    view: &View,
    mut remotes: impl Iterator<Item = IpAddr>,
) -> bool {
    match event {
        NetworkEvent::Link(_) | NetworkEvent::AddressChanged { .. } | NetworkEvent::RoutingChanged => true,
        NetworkEvent::RouteChanged { table, destination } => {
            let mut networks = view.networks.iter().filter(|net| net.prefix_len() > 0);
            // What has a default route is an uplink.
            destination.prefix_len() == 0
                || [numbers.table, numbers.back_table].contains(table)
                || remotes.any(|remote| destination.contains(&remote))
                || networks.any(|net| net.contains(destination))
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
