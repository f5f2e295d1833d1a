//! Answers to peers that find out what a NAT makes of their sockets: at most as many, and as long, as their questions and messages.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use psmc_wire::control::{Probe, ProbeStep};
use psmc_wire::ip::Ecn;
use psmc_wire::probe::{PROBE_LEN, PROBE_TOKEN_LEN, ProbeTokens};

use crate::batch::{Batch, PathAddress, Transmit};
use crate::ids::PeerId;

/// Probes of a peer that are open at the same time: a dozen sockets on each of a few uplinks. A further one ends the oldest.
const MAX_OF_PEER: usize = 64;

/// Answers to one probe: two exchanges, the word after the silence, a last exchange and a last word, each three times.
const MAX_ANSWERS: u8 = 16;

/// A probe that nobody ends is forgotten after this time, lest a token that was seen on the way be of use for ever: longer than any
/// NAT's memory that is worth knowing.
const LIFE: Duration = Duration::from_secs(15 * 60);

/// Answers that wait to be sent: those of all probes of a few peers. What comes while there are so many is not answered.
const MAX_WAITING: usize = 256;

type Token = [u8; PROBE_TOKEN_LEN];

/// The probes of all peers.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// By the token of their questions: strangers' questions cost no more than a look-up.
    open: BTreeMap<Token, Open>,
    /// The tokens of each peer's probes, the oldest first.
    of_peers: BTreeMap<PeerId, VecDeque<Token>>,
    answers: VecDeque<(PathAddress, [u8; PROBE_LEN])>,
}

/// A probe whose questions are answered.
#[derive(Debug)]
struct Open {
    peer: PeerId,
    tokens: ProbeTokens,
    /// Where the newest question came from, and arrived.
    asker: Option<PathAddress>,
    answers_left: u8,
    until: Instant,
}

impl Open {
    /// The next answer, if there is anybody to answer, and any is left.
    fn answer(&mut self, now: Instant) -> Option<(PathAddress, [u8; PROBE_LEN])> {
        let to = self.asker.filter(|_| now < self.until)?;
        self.answers_left = self.answers_left.checked_sub(1)?;
        Some((to, self.tokens.write_answer(to.remote)))
    }
}

impl Probes {
    /// A peer opens a probe, wants one more answer, or ends it.
    pub(crate) fn on_message(&mut self, peer: PeerId, probe: Probe, now: Instant) {
        let Probe { step, tokens } = probe;
        match step {
            ProbeStep::Open => self.open(peer, tokens, now),
            ProbeStep::Answer => self.answer(peer, &tokens.question, now),
            ProbeStep::End => self.end(peer, &tokens.question),
        }
    }

    /// A question has come from there; says whether it is one of a peer's.
    pub(crate) fn on_question(&mut self, token: &Token, asker: PathAddress, now: Instant) -> bool {
        let Some(open) = self.open.get_mut(token).filter(|open| now < open.until) else { return false };
        open.asker = Some(asker);
        let answer = open.answer(now);
        self.send(answer);
        true
    }

    /// A peer is gone.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        for token in self.of_peers.remove(&peer).into_iter().flatten() {
            self.open.remove(&token);
        }
    }

    /// Fills the batch with the next answer.
    pub(crate) fn poll(&mut self, batch: &mut Batch) -> Option<Transmit> {
        let (to, answer) = self.answers.pop_front()?;
        batch.clear();
        batch.takes(Ecn::NotEct);
        batch.reserve(PROBE_LEN)?.copy_from_slice(&answer);
        batch.commit(PROBE_LEN);
        Some(Transmit {
            socket: to.socket,
            remote: to.remote,
            local_ip: to.local_ip,
            ecn: batch.ecn(),
            segment_size: PROBE_LEN,
            segments: 1,
            apart: false,
        })
    }

    /// Whose token it is already keeps it, and its answers are counted on.
    fn open(&mut self, peer: PeerId, tokens: ProbeTokens, now: Instant) {
        if self.open.contains_key(&tokens.question) {
            return;
        }
        let of_peer = self.of_peers.entry(peer).or_default();
        if of_peer.len() >= MAX_OF_PEER
            && let Some(oldest) = of_peer.pop_front()
        {
            self.open.remove(&oldest);
        }
        of_peer.push_back(tokens.question);
        let open = Open { peer, tokens, asker: None, answers_left: MAX_ANSWERS, until: now + LIFE };
        self.open.insert(tokens.question, open);
    }

    fn answer(&mut self, peer: PeerId, token: &Token, now: Instant) {
        let of_peer = self.open.get_mut(token).filter(|open| open.peer == peer);
        let answer = of_peer.and_then(|open| open.answer(now));
        self.send(answer);
    }

    fn end(&mut self, peer: PeerId, token: &Token) {
        if self.open.get(token).is_some_and(|open| open.peer == peer) {
            self.open.remove(token);
            if let Some(of_peer) = self.of_peers.get_mut(&peer) {
                of_peer.retain(|other| other != token);
            }
        }
    }

    fn send(&mut self, answer: Option<(PathAddress, [u8; PROBE_LEN])>) {
        if self.answers.len() < MAX_WAITING {
            self.answers.extend(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use psmc_wire::probe::question_token;

    use super::*;
    use crate::batch::SocketId;

    const PEER: PeerId = PeerId(1);

    fn tokens(number: u8) -> ProbeTokens {
        ProbeTokens { question: [number; 16], answer: [number ^ 0xff; 16] }
    }

    fn asker(port: u16) -> PathAddress {
        PathAddress { socket: SocketId(7), local_ip: None, remote: SocketAddr::from(([192, 0, 2, 7], port)) }
    }

    /// Probes at some time.
    struct At(Probes, Instant);

    impl At {
        fn new() -> Self {
            Self(Probes::default(), Instant::now())
        }

        fn says(&mut self, peer: PeerId, step: ProbeStep, tokens: ProbeTokens) {
            self.0.on_message(peer, Probe { step, tokens }, self.1);
        }

        fn asks(&mut self, tokens: ProbeTokens, port: u16) -> bool {
            let question = tokens.write_question();
            let token = question_token(&question).expect("a question");
            self.0.on_question(token, asker(port), self.1)
        }

        /// The ports to which answers go, which say so themselves.
        fn answers(&mut self, tokens: ProbeTokens) -> Vec<u16> {
            let mut batch = Batch::new(1);
            std::iter::from_fn(|| {
                let Transmit { remote, socket, .. } = self.0.poll(&mut batch)?;
                assert_eq!(socket, asker(1).socket, "it leaves where the question arrived");
                assert_eq!(tokens.read_answer(batch.contents()), Ok(remote));
                Some(remote.port())
            })
            .collect()
        }
    }

    #[test]
    fn questions_are_answered_where_they_come_from_and_once_more_on_demand() {
        let (mut probes, one) = (At::new(), tokens(1));
        assert!(!probes.asks(one, 1), "nobody has announced it");
        probes.says(PEER, ProbeStep::Open, one);
        probes.says(PEER, ProbeStep::Answer, one);
        assert_eq!(probes.answers(one), [], "there is nobody to answer");
        assert!(probes.asks(one, 1) && probes.asks(one, 2));
        probes.says(PEER, ProbeStep::Answer, one);
        assert_eq!(probes.answers(one), [1, 2, 2]);
        probes.says(PEER, ProbeStep::End, one);
        assert!(!probes.asks(one, 1));
        assert_eq!(probes.answers(one), []);
    }

    #[test]
    fn another_peer_neither_uses_nor_ends_nor_takes_over_a_probe() {
        let (mut probes, one) = (At::new(), tokens(1));
        probes.says(PEER, ProbeStep::Open, one);
        assert!(probes.asks(one, 1));
        assert_eq!(probes.answers(one), [1]);
        for step in [ProbeStep::Open, ProbeStep::Answer, ProbeStep::End] {
            probes.says(PeerId(2), step, one);
        }
        assert_eq!(probes.answers(one), []);
        probes.0.forget(PeerId(2));
        assert!(probes.asks(one, 1));
        probes.0.forget(PEER);
        assert!(!probes.asks(one, 1));
    }

    #[test]
    fn a_probe_has_so_many_answers_however_often_it_is_opened() {
        let (mut probes, one) = (At::new(), tokens(1));
        for _ in 0..100 {
            probes.says(PEER, ProbeStep::Open, one);
            assert!(probes.asks(one, 1));
            probes.says(PEER, ProbeStep::Answer, one);
        }
        assert_eq!(probes.answers(one).len(), usize::from(MAX_ANSWERS));
    }

    #[test]
    fn a_peer_has_so_many_probes_and_so_many_answers_wait() {
        let mut probes = At::new();
        for number in 0..=64 {
            probes.says(PEER, ProbeStep::Open, tokens(number));
        }
        assert!(!probes.asks(tokens(0), 1), "the oldest has made room");
        assert_eq!(probes.0.open.len(), MAX_OF_PEER);
        for number in (1..=64).cycle().take(64 * usize::from(MAX_ANSWERS)) {
            assert!(probes.asks(tokens(number), 1));
        }
        assert_eq!(probes.0.answers.len(), MAX_WAITING);
    }

    #[test]
    fn a_probe_that_nobody_ends_is_forgotten() {
        let (mut probes, one) = (At::new(), tokens(1));
        probes.says(PEER, ProbeStep::Open, one);
        probes.1 += LIFE - Duration::from_secs(1);
        assert!(probes.asks(one, 1));
        assert_eq!(probes.answers(one), [1]);
        probes.1 += Duration::from_secs(1);
        probes.says(PEER, ProbeStep::Answer, one);
        assert!(!probes.asks(one, 1));
        assert_eq!(probes.answers(one), []);
    }
}
