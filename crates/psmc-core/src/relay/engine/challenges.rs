//! Whether a side is where it seems to have moved: it is asked there (RFC 9000 §9), and has to answer from there.

use std::collections::VecDeque;
use std::ops::Range;

use psmc_wire::PacketBuf;
use psmc_wire::datagram::Header;
use psmc_wire::hop::{HOP_CHALLENGE_LEN, HopChallenge, HopResponse, INNER};
use siphasher::sip::SipHasher24;

use super::Relay;
use crate::relay::session::{Address, Side};

/// Challenges that wait to be sent, at most; a side that has moved meanwhile is asked with a later datagram.
const MAX_WAITING: usize = 64;

/// Challenges, and what goes with them, that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Challenges {
    waiting: VecDeque<(Address, PacketBuf, Range<usize>)>,
}

impl Challenges {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<(Address, PacketBuf, Range<usize>)> {
        self.waiting.pop_front()
    }
}

impl Relay {
    /// Asks a side whether it is where it seems to have moved, before a datagram goes to where it was. That goes to both if it may: it can
    /// be what the side waits for there, and whom it is not for cannot use it. It says by which path and label the side knows what
    /// comes to it.
    pub(super) fn challenge(&mut self, index: u32, to: Side, datagram: &[u8], now: u64) {
        let Some(session) = self.sessions[index as usize].as_deref_mut() else { return };
        let end = &mut session.ends[to.index()];
        let (Some(elsewhere), Ok(header)) = (&mut end.elsewhere, Header::parse(&datagram[INNER])) else {
            return;
        };
        if self.challenges.waiting.len() >= MAX_WAITING {
            return;
        }
        let token = elsewhere.ask(
            || {
                session.challenges += 1;
                let token =
                    SipHasher24::new_with_key(&session.secret.0).hash(&session.challenges.to_be_bytes());
                token.to_be_bytes()
            },
            now,
        );
        let address = elsewhere.address;
        let challenge = HopChallenge { path: header.path, label: header.label, token };
        if let Some(buffer) = self.queues.copy(&challenge.encode(&end.hop)) {
            self.challenges.waiting.push_back((address, buffer, 0..HOP_CHALLENGE_LEN));
        }
        let companion = elsewhere.takes(datagram.len()).then(|| self.queues.copy(datagram)).flatten();
        if let Some(mut buffer) = companion {
            let all = buffer.len();
            let sent = end.dress(buffer.packet_mut()).len();
            self.challenges.waiting.push_back((address, buffer, all - sent..all));
        }
    }

    /// Moves a side that has answered from where it was asked.
    pub(super) fn handle_response(&mut self, datagram: &[u8], from: Address) {
        let Ok(response) = HopResponse::parse(datagram) else {
            self.refusals.malformed += 1;
            return;
        };
        let entry = self.labels.find(response.label);
        let Some((entry, session)) = entry.and_then(|entry| {
            self.sessions.get_mut(entry.session as usize)?.as_deref_mut().map(|session| (entry, session))
        }) else {
            self.refusals.unknown_label += 1;
            return;
        };
        let end = &mut session.ends[entry.from.index()];
        if !HopResponse::is_authentic(datagram, &end.hop.key) {
            self.refusals.forged += 1;
        } else if !end.on_response(response.token, from) {
            self.refusals.replayed += 1;
        }
    }
}
