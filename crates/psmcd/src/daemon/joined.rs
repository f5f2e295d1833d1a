//! Whether datagrams that the kernel or a device has joined on arrival (generic receive offload) are whole.
//!
//! Where a driver joins them wrongly all of them are garbage, and those that come alone are not. The socket then takes them one by
//! one, and tries again later. Garbage from strangers says nothing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// So many joined datagrams of a peer in a row were garbage: no accident, and soon reached by a flow.
const GARBLED: u32 = 32;

/// They came over such a time, and one that came alone was whole meanwhile: when keys change all that was on its way is garbage for
/// a round trip.
const SPAN: Duration = Duration::from_millis(500);

/// How long datagrams are taken one by one before it is tried again.
const REST: Duration = Duration::from_secs(60);

/// What a socket has seen of joined datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Joined {
    /// From where the last datagram came that was whole.
    whole_from: Option<SocketAddr>,
    garbled: u32,
    since: Option<Instant>,
    whole_alone: bool,
    rests_until: Option<Instant>,
}

/// What to do about joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Stop,
    TryAgain,
}

impl Joined {
    /// A datagram has come from there, joined with others or alone.
    pub(super) fn note(&mut self, from: SocketAddr, was_joined: bool, is_garbled: bool) {
        if !is_garbled {
            self.whole_from = Some(from);
            if was_joined {
                (self.garbled, self.since, self.whole_alone) = (0, None, false);
            } else {
                self.whole_alone = self.garbled > 0;
            }
        } else if was_joined && self.whole_from == Some(from) {
            self.garbled += 1;
        }
    }

    /// Whether something is to be done. To be asked after every call that has received something.
    pub(super) fn advice(&mut self, now: Instant) -> Option<Advice> {
        if self.rests_until.take_if(|until| *until <= now).is_some() {
            return Some(Advice::TryAgain);
        }
        if self.garbled == 0 {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let is_sure = self.garbled >= GARBLED && self.whole_alone && since + SPAN <= now;
        if !is_sure || self.rests_until.is_some() {
            return None;
        }
        (self.garbled, self.since, self.whole_alone) = (0, None, false);
        self.rests_until = Some(now + REST);
        Some(Advice::Stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "192.0.2.1:1";
    const STRANGER: &str = "192.0.2.9:9";

    struct Run(Joined, Instant);

    impl Run {
        fn new() -> Self {
            Self(Joined::default(), Instant::now())
        }

        fn comes(&mut self, count: usize, from: &str, was_joined: bool, is_garbled: bool) {
            let from = from.parse().expect("an address");
            (0..count).for_each(|_| self.0.note(from, was_joined, is_garbled));
        }

        fn at(&mut self, ms: u64) -> Option<Advice> {
            self.0.advice(self.1 + Duration::from_millis(ms))
        }
    }

    #[test]
    fn joining_that_garbles_is_stopped_and_tried_again() {
        let mut run = Run::new();
        run.comes(1, PEER, false, false);
        run.comes(40, PEER, true, true);
        assert_eq!(run.at(0), None, "it may be of keys that have changed");
        run.comes(1, PEER, false, false);
        assert_eq!((run.at(499), run.at(500)), (None, Some(Advice::Stop)));
        run.comes(1, PEER, false, false);
        assert_eq!((run.at(60_499), run.at(60_500), run.at(60_501)), (None, Some(Advice::TryAgain), None));
    }

    #[test]
    fn strangers_and_changed_keys_stop_nothing() {
        let mut run = Run::new();
        run.comes(1, PEER, false, false);
        run.comes(1000, STRANGER, true, true);
        run.comes(1, PEER, false, false);
        assert_eq!((run.at(0), run.at(1000)), (None, None));
        run.comes(40, PEER, true, true);
        assert_eq!(run.at(1000), None);
        run.comes(1, PEER, true, false);
        assert_eq!(run.at(2000), None, "they are whole again");
        run.comes(1000, PEER, false, true);
        assert_eq!((run.at(3000), run.at(4000)), (None, None), "what comes alone was not joined wrongly");
    }
}
