//! The literature's adaptive conditioner (seed QoS §4, figure 3): a standard one that protects what a TCP sender fears to lose.
//!
//! As it stands, for comparison. Whoever sets the flags that it heeds has DP0 for as much as he sends; and it sees nothing of QUIC.

use std::time::Instant;

use psmc_wire::ip::tcp::is_after;
use rand_core::Rng;

use super::bias::{RttRule, Times};
use super::lru::Lru;
use super::tsw3cm::Tsw3cm;
use super::{Facts, MAX_SEED_FLOWS, Precedence, Profile, SeedRules, TcpFacts};

/// A window of so many segments or fewer is small: none of them is lost without a timeout, for that takes three duplicate
/// acknowledgements (RFC 5681 §3.2).
const SMALL_WINDOW: u32 = 4;

/// The shortest timeout, seconds: Linux' `TCP_RTO_MIN`.
const MIN_RTO: f64 = 0.2;

/// Marks as figure 3 says.
#[derive(Debug)]
pub(super) struct Seed {
    standard: Tsw3cm,
    rule: RttRule,
    flows: Lru<Flow>,
    /// Of all flows whose times are known.
    sum: Times,
    known: u32,
    /// Bytes that were protected beyond the profile, and are charged to it: so many others exceed instead.
    debt: [u64; 2],
    max_debt: u64,
}

/// The state of a flow.
#[derive(Debug, Default)]
struct Flow {
    /// Behind the last byte that was sent.
    sent: u32,
    acked: Option<u32>,
    /// The largest payload: a segment.
    segment: u32,
    /// What is timed: the byte behind a segment that was sent once, and when.
    timed: Option<(u32, Instant)>,
    /// The smoothed round trip and its deviation (RFC 6298), seconds.
    srtt: Option<(f64, f64)>,
    times: Times,
    factor: f64,
    /// Whether its last packet was DP2.
    is_red: bool,
}

impl Seed {
    pub(super) fn new(profile: Profile, rules: SeedRules) -> Self {
        Self {
            standard: Tsw3cm::new(profile),
            rule: rules.rtt,
            flows: Lru::new(rules.flows.clamp(1, MAX_SEED_FLOWS)),
            sum: Times::default(),
            known: 0,
            debt: [0; 2],
            max_debt: profile.burst.max(1),
        }
    }

    pub(super) fn mark(&mut self, packet: &Facts, rng: &mut impl Rng, now: Instant) -> Precedence {
        let excess = self.standard.measure(packet.len, now);
        let is_critical = packet.is_ce
            || packet.tcp.is_some_and(|tcp| tcp.has(TcpFacts::SYN | TcpFacts::ECE | TcpFacts::CWR));
        if self.flows.get(packet.flow).is_none() {
            let removed = self.flows.insert(packet.flow);
            self.forget(removed);
        }
        let Some(flow) = self.flows.get(packet.flow) else { return Precedence::Dp0 };
        if let Some(tcp) = &packet.tcp {
            flow.on_sent(tcp, now);
        }
        let is_complete = flow.is_complete();
        let protects = is_critical || (is_complete && flow.has_small_window());
        let mut precedence = excess.mark(if is_complete { flow.factor } else { 1.0 }, rng);
        if precedence == Precedence::Dp2 && is_complete && flow.is_red && !protects {
            precedence = Precedence::Dp1;
        }
        flow.is_red = precedence == Precedence::Dp2 && !protects;
        self.charge(precedence, protects, packet.len)
    }

    pub(super) fn on_reply(&mut self, key: u64, tcp: &TcpFacts, now: Instant) {
        let Some(flow) = self.flows.get(key).filter(|_| tcp.has(TcpFacts::ACK)) else { return };
        let before = flow.times;
        if !flow.on_acked(tcp.ack, now) {
            return;
        }
        self.known += u32::from(before == Times::default());
        self.sum.rtt += flow.times.rtt - before.rtt;
        self.sum.rto += flow.times.rto - before.rto;
        let count = f64::from(self.known.max(1));
        let mean = Times { rtt: self.sum.rtt / count, rto: self.sum.rto / count };
        flow.factor = self.rule.factor(flow.times, mean, TYPICAL_EXCESS);
    }

    /// A flow has lost its place.
    fn forget(&mut self, flow: Option<Flow>) {
        let Some(flow) = flow.filter(Flow::is_timed) else { return };
        self.known = self.known.saturating_sub(1);
        self.sum.rtt -= flow.times.rtt;
        self.sum.rto -= flow.times.rto;
    }

    /// Protected packets are charged to the profile, "to ensure that UDP traffic is not adversely affected" (seed QoS §7.2): as many bytes
    /// of others exceed it instead.
    fn charge(&mut self, precedence: Precedence, protects: bool, len: usize) -> Precedence {
        let len = len as u64;
        let [yellow, red] = &mut self.debt;
        match (precedence, protects) {
            (Precedence::Dp0, true) => Precedence::Dp0,
            (Precedence::Dp1, true) => {
                *yellow = (*yellow + len).min(self.max_debt);
                Precedence::Dp0
            }
            (Precedence::Dp2, true) => {
                *red = (*red + len).min(self.max_debt);
                Precedence::Dp0
            }
            (Precedence::Dp0, false) if *red >= len => {
                *red -= len;
                Precedence::Dp2
            }
            (Precedence::Dp0, false) if *yellow >= len => {
                *yellow -= len;
                Precedence::Dp1
            }
            (Precedence::Dp0 | Precedence::Dp1 | Precedence::Dp2, false) => precedence,
        }
    }
}

/// The share that exceeds at which flows are made even: half of what is sent is beyond the profile at the peak rate.
const TYPICAL_EXCESS: f64 = 0.5;

impl Flow {
    /// Whether there is "a complete state entry": its round trip is known, and what of it is on the way.
    fn is_complete(&self) -> bool {
        self.acked.is_some() && self.is_timed()
    }

    fn is_timed(&self) -> bool {
        self.times != Times::default()
    }

    fn has_small_window(&self) -> bool {
        let on_the_way = self.acked.map_or(0, |acked| self.sent.wrapping_sub(acked));
        on_the_way <= SMALL_WINDOW * self.segment.max(1)
    }

    fn on_sent(&mut self, tcp: &TcpFacts, now: Instant) {
        let ends = tcp.seq.wrapping_add(tcp.payload.max(u32::from(tcp.has(TcpFacts::SYN))));
        self.segment = self.segment.max(tcp.payload);
        let is_first = self.acked.is_none() && self.sent == 0;
        if is_first || is_after(ends, self.sent) {
            self.sent = ends;
            self.timed.get_or_insert((ends, now));
        } else if tcp.payload > 0 {
            // Sent again: nobody could say which of the two is acknowledged (RFC 6298 §3).
            self.timed = None;
        }
    }

    /// Returns whether the times are other ones.
    fn on_acked(&mut self, ack: u32, now: Instant) -> bool {
        if self.acked.is_none_or(|acked| is_after(ack, acked)) {
            self.acked = Some(ack);
        }
        let Some((_, sent_at)) = self.timed.take_if(|(ends, _)| !is_after(*ends, ack)) else { return false };
        let sample = now.saturating_duration_since(sent_at).as_secs_f64().max(MIN_RTT);
        let (srtt, var) = match self.srtt {
            None => (sample, sample / 2.0),
            Some((srtt, var)) => (srtt + (sample - srtt) / 8.0, var + ((sample - srtt).abs() - var) / 4.0),
        };
        self.srtt = Some((srtt, var));
        self.times = Times { rtt: srtt, rto: (srtt + 4.0 * var).max(MIN_RTO) };
        true
    }
}

/// Seconds; what seems shorter was not measured.
const MIN_RTT: f64 = 1e-5;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn segment(seq: u32, payload: u32) -> TcpFacts {
        TcpFacts { flags: TcpFacts::ACK, seq, payload, ..TcpFacts::default() }
    }

    #[test]
    fn a_flow_is_complete_once_a_segment_was_timed_and_never_by_one_sent_again() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut flow = Flow::default();
        flow.on_sent(&segment(1000, 500), at(0));
        flow.on_sent(&segment(1000, 500), at(300));
        assert!(!flow.on_acked(1500, at(320)), "which of the two was it?");
        assert!(!flow.is_complete());
        flow.on_sent(&segment(1500, 500), at(400));
        assert!(flow.on_acked(2000, at(480)));
        assert!(flow.is_complete());
        assert!((flow.times.rtt - 0.08).abs() < 1e-9, "{:?}", flow.times);
    }

    #[test]
    fn a_window_is_small_up_to_four_segments_also_where_numbers_wrap() {
        let now = Instant::now();
        let mut flow = Flow::default();
        let first = u32::MAX - 1200;
        for number in 0..4 {
            flow.on_sent(&segment(first.wrapping_add(number * 500), 500), now);
        }
        let _ = flow.on_acked(first, now);
        assert!(flow.has_small_window());
        flow.on_sent(&segment(first.wrapping_add(2000), 500), now);
        assert!(!flow.has_small_window());
        let _ = flow.on_acked(first.wrapping_add(1500), now);
        assert!(flow.has_small_window());
    }

    #[test]
    fn what_is_protected_is_charged_to_others() {
        let mut seed = Seed::new(Profile { rate: 1_000_000, burst: 3000 }, SeedRules::default());
        assert_eq!(seed.charge(Precedence::Dp2, true, 1000), Precedence::Dp0);
        assert_eq!(seed.charge(Precedence::Dp0, false, 1000), Precedence::Dp2);
        assert_eq!(seed.charge(Precedence::Dp0, false, 1000), Precedence::Dp0);
        for _ in 0..100 {
            let _ = seed.charge(Precedence::Dp1, true, 1000);
        }
        let charged = (0..100).filter(|_| seed.charge(Precedence::Dp0, false, 1000) == Precedence::Dp1);
        assert_eq!(charged.count(), 3, "no more than a burst");
    }
}
