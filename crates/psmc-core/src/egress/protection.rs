//! Queue protection: a flow that builds a queue in a class which is for those that do not is put among the others.
//!
//! In the spirit of RFC 9957: what is charged to a flow is what it sends while it has a queue, not what it sends; and what it
//! is charged is forgotten at the rate at which such a flow may send (RFC 9956). A flow that is put out stays out until it has had no
//! queue for a while, so that its packets do not overtake each other from class to class.

use std::time::{Duration, Instant};

use crate::clock::TokenBucket;

/// A flow that sends no more than this, bits per second, is never put out: "about 1 Mb/s" (RFC 9956 §4.1).
const RATE: f64 = 1e6;

/// Bytes that a flow may send beyond that while it has a queue: a burst of a video frame, or an outage of a path, is no habit.
const BURST: f64 = 16_384.0;

/// A flow has a queue with more than so many bytes waiting: more than two packets of full size.
const STANDING: u32 = 3000;

/// How long a flow stays out after it last was too much.
const HOLD: Duration = Duration::from_secs(1);

/// What is known of the flows of a protected class, by their queues.
#[derive(Debug, Default)]
pub(super) struct Protection {
    /// Made with the first flow that has a queue: 32 KiB.
    flows: Vec<Charge>,
}

#[derive(Debug, Default)]
struct Charge {
    sent: TokenBucket,
    out_until: Option<Instant>,
}

impl Protection {
    /// Whether a packet of so many bytes is put among the others: one of the flow with this queue, one of `queues`, of which so many bytes wait.
    pub(super) fn puts_out(&mut self, queue: u16, queues: u16, waiting: u32, len: u32, now: Instant) -> bool {
        let stands = waiting > STANDING;
        if self.flows.is_empty() {
            if !stands {
                return false;
            }
            self.flows.resize_with(usize::from(queues), Charge::default);
        }
        let Some(flow) = self.flows.get_mut(usize::from(queue)) else { return false };
        if stands {
            let time_of = |bytes: f64| Duration::from_secs_f64(bytes * 8.0 / RATE);
            if !flow.sent.admits(time_of(len.into()), time_of(BURST), now) {
                flow.out_until = Some(now + HOLD);
            }
        }
        // Whoever waits among the others still must not be overtaken by what comes later.
        flow.out_until.is_some_and(|until| now < until || waiting > 0)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "packets of ten seconds")]

    use super::*;

    /// How many of the packets of a flow are put out that sends at this rate and has so many bytes waiting, in ten seconds.
    fn share_out(rate: f64, waiting: u32) -> f64 {
        let (mut protection, start, len) = (Protection::default(), Instant::now(), 1200);
        let packets = (rate * 10.0 / 8.0 / f64::from(len)) as u32;
        let at = |number: u32| start + Duration::from_secs_f64(f64::from(number) / f64::from(packets) * 10.0);
        let out = (0..packets).filter(|&number| protection.puts_out(5, 8, waiting, len, at(number)));
        out.count() as f64 / f64::from(packets)
    }

    #[test]
    fn only_flows_that_are_fast_and_have_a_queue_are_put_out() {
        assert_eq!(share_out(50e6, 0), 0.0, "there is room for them");
        assert_eq!(share_out(50e6, STANDING), 0.0);
        assert_eq!(share_out(0.9e6, 1_000_000), 0.0, "not their fault");
        assert!(share_out(2e6, 10_000) > 0.95);
        assert!(share_out(50e6, 10_000) > 0.99);
    }

    #[test]
    fn a_flow_comes_back_when_it_has_no_queue_any_more() {
        let (mut protection, start) = (Protection::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert!((0..100).any(|ms| protection.puts_out(5, 8, 10_000, 1200, at(ms))));
        assert!(!protection.puts_out(6, 8, 0, 1200, at(100)), "others are not concerned");
        assert!(protection.puts_out(5, 8, 0, 1200, at(900)));
        assert!(protection.puts_out(5, 8, 1200, 1200, at(1500)), "its last packet waits still");
        assert!(!protection.puts_out(5, 8, 0, 1200, at(1500)));
    }
}
