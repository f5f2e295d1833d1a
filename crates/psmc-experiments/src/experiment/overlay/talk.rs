//! Connections, requests and answers as steps of a script.

use std::time::Duration;

use psmc_sim::overlay::{Message, NodeId, Script, StepId};

use super::bytes::HANDSHAKE;

/// What it takes to work on a message.
pub(super) const MESSAGE: Duration = Duration::from_micros(50);

/// On one that is stored before it is answered.
pub(super) const STORED: Duration = Duration::from_millis(2);

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
pub(super) struct Talk {
    /// Who has begun.
    pub(super) near: NodeId,
    /// Who answers.
    pub(super) far: NodeId,
}

impl Talk {
    /// Opens a TCP connection; ends when the one who has begun knows that it is open.
    pub(super) fn open(self, script: &mut Script, after: &[StepId]) -> StepId {
        let sent = self.there(script, HEADERS + 8, MESSAGE, after);
        self.back(script, HEADERS + 8, MESSAGE, &[sent])
    }

    /// A TCP connection and a TLS handshake, with the last flight of which a request goes; ends with the answer to that.
    pub(super) fn open_tls(self, script: &mut Script, bytes: [u32; 2], after: &[StepId]) -> StepId {
        let open = self.open(script, after);
        let [first, answer, last] = HANDSHAKE;
        let greeted = self.there(script, packets(first), SHAKEN, &[open]);
        let answered = self.back(script, packets(answer), SHAKEN, &[greeted]);
        let asked = self.there(script, packets(last + RECORD + bytes[0]), SHAKEN, &[answered]);
        self.back(script, packets(RECORD + bytes[1]), MESSAGE, &[asked])
    }

    /// A request on a TCP connection, and its answer.
    pub(super) fn ask(
        self,
        script: &mut Script,
        bytes: [u32; 2],
        work: Duration,
        after: &[StepId],
    ) -> StepId {
        let asked = self.there(script, packets(bytes[0]), work, after);
        self.back(script, packets(bytes[1]), MESSAGE, &[asked])
    }

    /// The same on one with TLS.
    pub(super) fn ask_tls(self, script: &mut Script, bytes: [u32; 2], after: &[StepId]) -> StepId {
        self.ask(script, bytes.map(|bytes| bytes + RECORD), MESSAGE, after)
    }

    /// A message on a connection with TLS, to which nobody answers.
    pub(super) fn tell_tls(
        self,
        script: &mut Script,
        bytes: u32,
        work: Duration,
        after: &[StepId],
    ) -> StepId {
        self.there(script, packets(bytes + RECORD), work, after)
    }

    /// Bytes with their headers.
    pub(super) fn there(self, script: &mut Script, bytes: u32, work: Duration, after: &[StepId]) -> StepId {
        script.send(Message { from: self.near, to: self.far, bytes, work }, after)
    }

    /// The same the other way.
    pub(super) fn back(self, script: &mut Script, bytes: u32, work: Duration, after: &[StepId]) -> StepId {
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
