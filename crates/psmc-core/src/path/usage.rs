//! What the two sites want a path to be used for.

use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::frame::{PathUse, PathUseFrame};

/// A path that both sites know to be closed is forgotten after this time: by then its last datagrams have
/// arrived or never will. Until the peer knows, ours is kept, or the peer's would never end.
const CLOSING_TIME: Duration = Duration::from_secs(3);

/// The shortest interval at which an unconfirmed wish is repeated.
const MIN_REPEAT: Duration = Duration::from_millis(20);

/// The wishes of both sites, each numbered, ours repeated until confirmed.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    ours: PathUse,
    sequence: u16,
    repeat_at: Option<Instant>,
    peers: PathUse,
    peer_sequence: Option<u16>,
    closing_since: Option<Instant>,
}

impl Usage {
    /// Our wish as a peer has to be told that knows nothing of it, and no wish of the peer's.
    pub(crate) fn renewed(&self, now: Instant) -> Self {
        let mut renewed = Self::default();
        renewed.request(self.ours, now);
        renewed
    }

    /// What the path may be used for: the more restricting of both wishes.
    pub(crate) fn effective(&self) -> PathUse {
        self.ours.max(self.peers)
    }

    /// Changes our wish.
    pub(crate) fn request(&mut self, usage: PathUse, now: Instant) {
        if usage == self.ours || self.ours == PathUse::Closed {
            return;
        }
        self.ours = usage;
        self.sequence = self.sequence.wrapping_add(1);
        self.repeat_at = Some(now);
        self.note_closing(now);
    }

    /// The peer asks for a use. Returns whether that changes anything.
    pub(crate) fn on_peer_request(&mut self, frame: PathUseFrame, now: Instant) -> bool {
        let newer = |last: u16| frame.sequence.wrapping_sub(last).cast_signed() > 0;
        if !self.peer_sequence.is_none_or(newer) || self.peers == PathUse::Closed {
            return false;
        }
        self.peer_sequence = Some(frame.sequence);
        let changed = self.peers != frame.usage;
        self.peers = frame.usage;
        self.note_closing(now);
        changed
    }

    /// Our wish, if it should be told (again) now; it will be repeated after two round trips.
    pub(crate) fn take_due(
        &mut self,
        path: PathId,
        round_trip: Duration,
        now: Instant,
    ) -> Option<PathUseFrame> {
        self.repeat_at.filter(|&at| at <= now)?;
        self.repeat_at = Some(now + (2 * round_trip).max(MIN_REPEAT));
        Some(PathUseFrame { path, sequence: self.sequence, usage: self.ours })
    }

    /// The peer has received this wish.
    pub(crate) fn on_confirmed(&mut self, frame: PathUseFrame) {
        if frame.sequence == self.sequence {
            self.repeat_at = None;
        }
    }

    /// When our wish should be told.
    pub(crate) fn repeat_at(&self) -> Option<Instant> {
        self.repeat_at
    }

    /// When a closed path should be forgotten.
    pub(crate) fn forget_at(&self) -> Option<Instant> {
        let known = self.repeat_at.is_none() || self.peers == PathUse::Closed;
        self.closing_since.filter(|_| known).map(|since| since + CLOSING_TIME)
    }

    fn note_closing(&mut self, now: Instant) {
        if self.effective() == PathUse::Closed {
            self.closing_since.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(30);

    #[test]
    fn a_wish_is_repeated_until_confirmed() {
        let now = Instant::now();
        let mut usage = Usage::default();
        assert!(usage.take_due(PathId(1), RTT, now).is_none());
        usage.request(PathUse::Standby, now);
        let first = usage.take_due(PathId(1), RTT, now).expect("due at once");
        assert!(usage.take_due(PathId(1), RTT, now + RTT).is_none());
        assert_eq!(usage.take_due(PathId(1), RTT, now + 2 * RTT), Some(first));
        usage.on_confirmed(first);
        assert_eq!(usage.repeat_at(), None);
    }

    #[test]
    fn a_late_confirmation_of_an_older_wish_confirms_nothing() {
        let now = Instant::now();
        let mut usage = Usage::default();
        usage.request(PathUse::Standby, now);
        let old = usage.take_due(PathId(1), RTT, now).expect("due");
        usage.request(PathUse::Available, now);
        usage.on_confirmed(old);
        assert!(usage.repeat_at().is_some());
    }

    #[test]
    fn the_more_restricting_wish_counts_and_old_ones_do_not() {
        let now = Instant::now();
        let mut usage = Usage::default();
        let wish = |sequence, usage| PathUseFrame { path: PathId(0), sequence, usage };
        assert!(usage.on_peer_request(wish(2, PathUse::Standby), now));
        assert!(!usage.on_peer_request(wish(1, PathUse::Closed), now));
        assert_eq!(usage.effective(), PathUse::Standby);
        assert!(usage.on_peer_request(wish(3, PathUse::Available), now));
        assert_eq!(usage.effective(), PathUse::Available);
    }

    #[test]
    fn closing_is_final() {
        let now = Instant::now();
        let mut usage = Usage::default();
        usage.request(PathUse::Closed, now);
        usage.request(PathUse::Available, now);
        assert_eq!(usage.effective(), PathUse::Closed);
    }

    #[test]
    fn regression_a_closed_path_is_kept_until_the_peer_knows() {
        let now = Instant::now();
        let mut ours = Usage::default();
        ours.request(PathUse::Closed, now);
        assert_eq!(ours.forget_at(), None);
        let wish = ours.take_due(PathId(1), RTT, now).expect("due at once");
        ours.on_confirmed(wish);
        assert_eq!(ours.forget_at(), Some(now + CLOSING_TIME));
        let mut peers = Usage::default();
        assert!(peers.on_peer_request(wish, now));
        assert_eq!(peers.forget_at(), Some(now + CLOSING_TIME));
    }
}
