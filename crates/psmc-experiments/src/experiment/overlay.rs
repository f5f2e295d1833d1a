//! The thesis on proxy-server-based multipath connections, figures 3.8 and 3.9: SCOLD in large networks. The messages of
//! our programs, with their real lengths and in their real order, in virtual time on transit–stub networks. Connections, requests and answers are steps of a script.
//!
//! | module | what it has |
//! |---|---|
//! | `network` | a network by chance, who is where in it, the flood, and which relays serve whom |
//! | `bytes` | how long messages are |
//! | `setup` | figure 3.8: from the alert until clients go around |
//! | `detour` | figure 3.9: what going around costs |

mod bytes;
mod detour;
mod network;
mod setup;

use std::time::Duration;

use psmc_lab::bench::median;
use psmc_sim::overlay::{Message, NodeId, Script, StepId};

use self::bytes::HANDSHAKE;
use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[EXPERIMENTS];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-3.8",
        what: "how long it takes from an alert until the clients go around, by size of the network",
        seed: "PSMC figure 3.8, whose points are not printed: set-up grows slowly; the 9.5 s beside ours are those of the test \
               bed, table 3.1",
        how: "simulated; transit–stub networks (seeds 1 to 15), lines of 10 to 100 Mb/s, between transit routers 100 to 1000, of \
              which others take 40 to 80 %; at random 10 % of the nodes are relays, 5 % attackers, 20 % clients, 4 % their name \
              servers; service, gateways and coordinator in one stub domain, the main gateway out of service. The messages of \
              guard, coordinator, gateway, relays, name servers and clients as they are on the wire, in their order; a group of \
              100 clients has three relays, as the coordinator chooses them. Work: a TLS handshake 1 ms, storing 2 ms, each \
              other message 50 µs. Clients look for routes every 250 ms, and at their paths every 100 ms. Means over the \
              clients of a network, medians over networks",
        criterion: "no faster growth than that of the round trips between clients and service, up to 5,000 nodes",
        runs: 1,
        measure: setup::measure,
    },
    Experiment {
        name: "psmc-fig-3.9",
        what: "what the indirect route costs beside the direct one, by size of the network",
        seed: "PSMC figure 3.9, whose points are not printed: the overhead is nearly constant; 77 and 80 % are those of ping and \
               HTTP of 100 kB in table 3.3, on the test bed",
        how: "simulated; the networks of psmc-fig-3.8. Pings of 84 bytes, and 100 kB over a new TCP connection that begins with \
              10 segments, and sends two more for each that is acknowledged: directly without the flood, and in the tunnel through the nearest of the client's \
              relays during it; a relay works 20 µs on a packet. 100 clients at most, each alone; means over the clients of a \
              network, medians over networks",
        criterion: "no more than the seed's; no size more than 20 percentage points from the median of all",
        runs: 1,
        measure: detour::measure,
    },
];

/// Sizes of the seed's networks, and larger ones.
const SIZES: [u32; 8] = [100, 200, 300, 400, 500, 1000, 2000, 5000];

/// Of the networks of each size.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=15;

/// By how much the values differ, in percent of the middle one.
fn spread(values: &[Option<f64>]) -> Option<f64> {
    let all: Option<Vec<f64>> = values.iter().copied().collect();
    let (least, most) =
        all?.into_iter().fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)));
    Some((most - least) / median(values.iter().copied())? * 100.0)
}

/// What it takes to work on a message.
const MESSAGE: Duration = Duration::from_micros(50);

/// On one that is stored before it is answered.
const STORED: Duration = Duration::from_millis(2);

/// On each flight of a TLS handshake but the last: keys are agreed on, and a signature is made.
const SHAKEN: Duration = Duration::from_millis(1);

/// Headers of IPv4 and TCP with timestamps.
const HEADERS: u32 = 52;

/// Payload of a full packet.
const PAYLOAD: u32 = 1448;

/// What TLS adds to a message.
const RECORD: u32 = 22;

/// Two who talk.
#[derive(Clone, Copy, Debug)]
struct Talk {
    /// Who has begun.
    near: NodeId,
    /// Who answers.
    far: NodeId,
}

impl Talk {
    /// Opens a TCP connection; ends when the one who has begun knows that it is open.
    fn open(self, script: &mut Script, after: &[StepId]) -> StepId {
        let sent = self.there(script, HEADERS + 8, MESSAGE, after);
        self.back(script, HEADERS + 8, MESSAGE, &[sent])
    }

    /// A TCP connection and a TLS handshake, with the last flight of which a request goes; ends with the answer to that.
    fn open_tls(self, script: &mut Script, bytes: [u32; 2], after: &[StepId]) -> StepId {
        let open = self.open(script, after);
        let [first, answer, last] = HANDSHAKE;
        let greeted = self.there(script, packets(first), SHAKEN, &[open]);
        let answered = self.back(script, packets(answer), SHAKEN, &[greeted]);
        let asked = self.there(script, packets(last + RECORD + bytes[0]), SHAKEN, &[answered]);
        self.back(script, packets(RECORD + bytes[1]), MESSAGE, &[asked])
    }

    /// A request on a TCP connection, and its answer.
    fn ask(self, script: &mut Script, bytes: [u32; 2], work: Duration, after: &[StepId]) -> StepId {
        let asked = self.there(script, packets(bytes[0]), work, after);
        self.back(script, packets(bytes[1]), MESSAGE, &[asked])
    }

    /// The same on one with TLS.
    fn ask_tls(self, script: &mut Script, bytes: [u32; 2], after: &[StepId]) -> StepId {
        self.ask(script, bytes.map(|bytes| bytes + RECORD), MESSAGE, after)
    }

    /// A message on a connection with TLS, to which nobody answers.
    fn tell_tls(self, script: &mut Script, bytes: u32, work: Duration, after: &[StepId]) -> StepId {
        self.there(script, packets(bytes + RECORD), work, after)
    }

    /// Bytes with their headers.
    fn there(self, script: &mut Script, bytes: u32, work: Duration, after: &[StepId]) -> StepId {
        script.send(Message { from: self.near, to: self.far, bytes, work }, after)
    }

    /// The same the other way.
    fn back(self, script: &mut Script, bytes: u32, work: Duration, after: &[StepId]) -> StepId {
        script.send(Message { from: self.far, to: self.near, bytes, work }, after)
    }
}

/// Bytes with headers for each packet that they take.
fn packets(bytes: u32) -> u32 {
    bytes + HEADERS * bytes.div_ceil(PAYLOAD).max(1)
}

#[cfg(test)]
mod tests {
    use psmc_sim::overlay::{Line, Lines, play};

    use super::*;

    #[test]
    fn the_spread_is_that_of_the_farthest() {
        assert_eq!(spread(&[Some(4.0), Some(3.0), Some(5.0)]), Some(50.0));
        assert_eq!(spread(&[Some(4.0), None]), None);
    }

    const MS: Duration = Duration::from_millis(1);

    /// How long something takes of 20 ms of round trip, over a line so fast that lengths do not count.
    fn takes(what: impl FnOnce(Talk, &mut Script) -> StepId) -> Duration {
        let (near, far) = (NodeId(0), NodeId(1));
        let mut lines = Lines::new(2);
        lines.lay(near, far, Line { bits_per_second: 1e15, delay: 10 * MS, load: 0.0 });
        let mut script = Script::new();
        let last = what(Talk { near, far }, &mut script);
        play(&lines, &script, 1)[last.number()].unwrap()
    }

    #[test]
    fn a_connection_takes_the_round_trips_that_it_should() {
        let near = |time: Duration, expected: Duration| time.abs_diff(expected) < MS / 1000;
        assert!(near(takes(|talk, script| talk.open(script, &[])), 20 * MS + 2 * MESSAGE));
        // TCP, the handshake, and the first request; both shake hands, and the server verifies.
        let tls = takes(|talk, script| talk.open_tls(script, [10, 10], &[]));
        assert!(near(tls, 60 * MS + 3 * SHAKEN + 3 * MESSAGE), "{tls:?}");
        assert!(near(takes(|talk, script| talk.ask(script, [10, 10], STORED, &[])), 22 * MS + MESSAGE));
    }

    #[test]
    fn each_packet_has_headers() {
        assert_eq!([0, 1448, 1449].map(packets), [52, 1500, 1553]);
    }
}
