//! The MTU of the tunnel's interface, where the configuration leaves it to the paths.
//!
//! It is what the paths carry in one piece, so that a large packet is one datagram, and no two. It grows at once, and
//! shrinks late: what has become too large travels in parts meanwhile, while hosts that have found out what fits would have
//! to find out again, at the price of what they sent.

use std::time::{Duration, Instant};

use psmc_net::netlink::Netlink;

use super::DaemonError;
use super::network::TunnelInterface;
use super::plane::PlaneHandle;
use crate::config::{FITTED_LEAST_MTU, FITTED_MOST_MTU};

/// The paths have had less room for so long when the MTU follows.
const SHRINK_AFTER: Duration = Duration::from_secs(60);

/// The paths of all peers are asked no more often: thousands of them may come up at once.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// The MTU of an interface, and what the paths say of it.
#[derive(Debug)]
pub(super) struct Fitting {
    mtu: u16,
    too_large_since: Option<Instant>,
    /// When there was a path that told it.
    told_at: Option<Instant>,
}

impl Fitting {
    /// As the interface is made.
    pub(super) fn new() -> Self {
        Self { mtu: FITTED_LEAST_MTU, too_large_since: None, told_at: None }
    }

    /// What the interface was fitted to.
    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Whether the paths may be asked again.
    fn may_ask(&self, now: Instant) -> bool {
        self.told_at.is_none_or(|at| at + LEAST_INTERVAL <= now)
    }

    /// The paths have room for packets of `room` bytes. Returns the MTU if it is to change.
    fn fit(&mut self, room: usize, now: Instant) -> Option<u16> {
        self.told_at = Some(now);
        let room = u16::try_from(room).unwrap_or(u16::MAX);
        let room = room.clamp(FITTED_LEAST_MTU, FITTED_MOST_MTU);
        if room < self.mtu {
            let since = *self.too_large_since.get_or_insert(now);
            if now.saturating_duration_since(since) < SHRINK_AFTER {
                return None;
            }
        }
        self.too_large_since = None;
        let changes = room != self.mtu;
        self.mtu = room;
        changes.then_some(room)
    }
}

impl TunnelInterface {
    /// Fits the interface to the paths as they are now, unless that was just done: then the next look at them does.
    pub(super) async fn fit(&mut self, plane: &PlaneHandle, netlink: &Netlink) -> Result<(), DaemonError> {
        let now = Instant::now();
        let Some(fitting) = &mut self.fitting else {
            return Ok(());
        };
        if !fitting.may_ask(now) {
            return Ok(());
        }
        // Without paths there is nothing to fit it to.
        let Some(room) = plane.call(|plane| plane.site.least_room()).await? else {
            return Ok(());
        };
        let Some(mtu) = fitting.fit(room, now) else {
            return Ok(());
        };
        match netlink.set_mtu(self.index, mtu.into()).await {
            Ok(()) => tracing::info!(interface = self.name, mtu, "interface MTU set to what the paths carry"),
            // Somebody has taken the interface away, or set it up in another way: packets go on as they did.
            Err(error) => tracing::warn!(%error, "cannot set the tunnel interface's MTU"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_paths_that_come_up_at_once_are_asked_once() {
        let start = Instant::now();
        let mut fitting = Fitting::new();
        let mut at = |millis| {
            let now = start + Duration::from_millis(millis);
            let may = fitting.may_ask(now);
            if may {
                fitting.fit(1433, now);
            }
            may
        };
        assert_eq!(
            [at(0), at(1), at(99), at(100), at(101), at(1000)],
            [true, false, false, true, false, true]
        );
    }

    #[test]
    fn the_first_path_is_asked_as_soon_as_it_is_up() {
        let start = Instant::now();
        let mut fitting = Fitting::new();
        assert!(fitting.may_ask(start), "there is none");
        let up = start + Duration::from_millis(1);
        assert!(fitting.may_ask(up));
        assert_eq!(fitting.fit(1433, up), Some(1433));
    }

    #[test]
    fn grows_at_once_and_shrinks_late() {
        let start = Instant::now();
        let mut fitting = Fitting::new();
        let mut at = |seconds, room| fitting.fit(room, start + Duration::from_secs(seconds));
        assert_eq!(at(0, 1433), Some(1433));
        assert_eq!(at(1, 1433), None);
        assert_eq!((at(2, 1413), at(61, 1413), at(62, 1413)), (None, None, Some(1413)));
        assert_eq!(
            (at(63, 1405), at(64, 1413), at(124, 1405)),
            (None, None, None),
            "it begins to count anew"
        );
        assert_eq!((at(130, 9000), at(131, 9000)), (Some(1500), None), "hosts are used to 1500");
        assert_eq!(
            (at(132, 1213), at(200, 1213), at(300, 1213)),
            (None, Some(1400), None),
            "parts serve the rest"
        );
    }
}
