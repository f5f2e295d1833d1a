//! Where the peer seems to have moved, until it has answered there (RFC 9000 §9).
//!
//! Whoever is on the way can send an authentic datagram on from another address. So a new address is first asked, with a challenge
//! that cannot be guessed, and meanwhile the path stays where it is. A newer datagram from there makes the question void.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::batch::PathAddress;

/// So many times the bytes that have come from an address may go there before it has answered (RFC 9000 §8.1).
const AMPLIFICATION: u64 = 3;

/// The shortest and the longest interval between two challenges, as for a path that is probed.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// How many of the last challenges may still be answered, as on a path.
const MAX_OUTSTANDING: usize = 8;

/// An address from which the newest datagram of a path has come, and which is not the path's.
#[derive(Debug)]
struct Candidate {
    address: PathAddress,
    received: u64,
    sent: u64,
    ask_at: Instant,
    interval: Duration,
    /// The last challenges, oldest first.
    asked: VecDeque<([u8; 8], Instant)>,
}

/// What is known of the peer's next address.
#[derive(Debug, Default)]
pub(crate) struct Roaming {
    candidate: Option<Candidate>,
}

impl Roaming {
    /// The newest datagram, of `bytes`, has come from an address that is not the path's.
    pub(crate) fn note(&mut self, address: PathAddress, bytes: usize, now: Instant) {
        let known = self.candidate.take().filter(|known| known.address.leads_to(address));
        let candidate = self.candidate.insert(known.unwrap_or_else(|| Candidate {
            address,
            received: 0,
            sent: 0,
            ask_at: now,
            interval: INTERVAL.0,
            asked: VecDeque::new(),
        }));
        candidate.address.local_ip = address.local_ip;
        candidate.received += bytes as u64;
    }

    /// The newest datagram has come from the path's own address.
    pub(crate) fn forget(&mut self) {
        self.candidate = None;
    }

    /// When a datagram of `bytes` should ask at the new address, if it may.
    pub(crate) fn ask_at(&self, bytes: usize) -> Option<Instant> {
        let may_ask = |at: &&Candidate| at.sent + bytes as u64 <= AMPLIFICATION * at.received;
        self.candidate.as_ref().filter(may_ask).map(|candidate| candidate.ask_at)
    }

    /// A datagram of `bytes` leaves with this challenge. Returns where it goes.
    pub(crate) fn on_asked(&mut self, token: [u8; 8], bytes: usize, now: Instant) -> Option<PathAddress> {
        let candidate = self.candidate.as_mut()?;
        if candidate.asked.len() >= MAX_OUTSTANDING {
            candidate.asked.pop_front();
        }
        candidate.asked.push_back((token, now));
        candidate.sent += bytes as u64;
        candidate.ask_at = now + candidate.interval;
        candidate.interval = (2 * candidate.interval).min(INTERVAL.1);
        Some(candidate.address)
    }

    /// An answer has come from `from`. If it is that of the new address, returns it, and the round trip.
    pub(crate) fn on_answer(
        &mut self,
        token: [u8; 8],
        from: PathAddress,
        now: Instant,
    ) -> Option<(PathAddress, Duration)> {
        let answered = self.candidate.take_if(|candidate| {
            candidate.address.leads_to(from) && candidate.asked.iter().any(|(asked, _)| *asked == token)
        })?;
        let (_, asked_at) = answered.asked.iter().find(|(asked, _)| *asked == token)?;
        Some((answered.address, now.saturating_duration_since(*asked_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::SocketId;

    const BYTES: usize = 50;

    fn at(port: u16) -> PathAddress {
        let remote = ([203, 0, 113, 1], port).into();
        PathAddress { socket: SocketId(0), local_ip: None, remote }
    }

    #[test]
    fn an_answer_counts_from_where_it_was_asked_only() {
        let now = Instant::now();
        let mut roaming = Roaming::default();
        roaming.note(at(1), BYTES, now);
        assert_eq!(roaming.on_asked([7; 8], BYTES, now), Some(at(1)));
        assert_eq!(roaming.on_answer([8; 8], at(1), now), None, "guessed");
        assert_eq!(roaming.on_answer([7; 8], at(2), now), None, "from elsewhere");
        let later = now + Duration::from_millis(30);
        assert_eq!(roaming.on_answer([7; 8], at(1), later), Some((at(1), Duration::from_millis(30))));
        assert_eq!(roaming.on_answer([7; 8], at(1), later), None, "answered");
    }

    #[test]
    fn another_address_makes_the_question_void() {
        let now = Instant::now();
        let mut roaming = Roaming::default();
        roaming.note(at(1), BYTES, now);
        roaming.on_asked([7; 8], BYTES, now);
        roaming.note(at(2), BYTES, now);
        assert_eq!(roaming.on_answer([7; 8], at(1), now), None);
        roaming.on_asked([9; 8], BYTES, now);
        roaming.forget();
        assert_eq!((roaming.on_answer([9; 8], at(2), now), roaming.ask_at(BYTES)), (None, None));
    }

    #[test]
    fn no_more_than_three_times_what_came_goes_there() {
        let mut now = Instant::now();
        let mut roaming = Roaming::default();
        roaming.note(at(1), BYTES, now);
        let mut sent = 0;
        while let Some(ask_at) = roaming.ask_at(BYTES) {
            now = now.max(ask_at);
            roaming.on_asked([sent; 8], BYTES, now);
            sent += 1;
            assert!(sent <= 3);
        }
        assert_eq!(sent, 3);
        roaming.note(at(1), BYTES, now);
        assert!(roaming.ask_at(BYTES).is_some_and(|at| at > now), "more may leave, but not at once");
    }
}
