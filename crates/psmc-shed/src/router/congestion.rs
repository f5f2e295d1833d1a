//! Whether a line is congested: what its queue says, and for how long limits are needed after that. Without clock and I/O but
//! for [`read_queues`].

use std::process::Command;
use std::time::{Duration, Instant};

use psmc_toml::InterfaceName;
use serde::Deserialize;
use thiserror::Error;

/// How long limits stay after the last sign of congestion: as long as TCP needs to fill a line anew, several times.
const CALM: Duration = Duration::from_secs(10);

/// The part of what the lines carried while they were congested below which all that is offered has room again.
const ROOM: f64 = 0.9;

/// Why a queue cannot be looked at.
#[derive(Debug, Error)]
pub enum QueueError {
    /// The program is not there.
    #[error("cannot run `tc`: install iproute2")]
    NoTool(#[source] std::io::Error),
    /// It does not know the interface.
    #[error("`tc` does not tell of the queue of {interface}: {message}")]
    Refused {
        /// The interface.
        interface: String,
        /// What it says.
        message: String,
    },
    /// What it says is not what it should be.
    #[error("unexpected output of `tc -j`")]
    Malformed(#[from] serde_json::Error),
}

/// What queues have done since they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Bytes that were sent.
    pub sent: u64,
    /// Packets that were dropped.
    pub drops: u64,
}

/// What the queues of these interfaces say, together.
///
/// # Errors
/// [`QueueError`].
pub fn read_queues(interfaces: &[InterfaceName]) -> Result<Queues, QueueError> {
    let mut all = Queues::default();
    for interface in interfaces {
        let mut tc = Command::new("tc");
        tc.args(["-s", "-j", "qdisc", "show", "dev", &interface.to_string()]);
        let output = tc.output().map_err(QueueError::NoTool)?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(QueueError::Refused { interface: interface.to_string(), message });
        }
        let queues: Vec<Qdisc> = serde_json::from_slice(&output.stdout)?;
        // Those below the root are counted in it.
        for root in queues.iter().filter(|queue| queue.root) {
            all.sent += root.bytes;
            all.drops += root.drops;
        }
    }
    Ok(all)
}

#[derive(Deserialize)]
struct Qdisc {
    #[serde(default)]
    root: bool,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    drops: u64,
}

/// Decides from when to when limits are enforced.
///
/// They are as soon as a queue drops. Then the queues are short because of the limits, so that a short queue says nothing: limits
/// stay until for `CALM` nothing was dropped by queues, and what was sent and what limits have dropped would have been less
/// than `ROOM` of what the lines have carried.
#[derive(Debug, Default)]
pub struct Congestion {
    last: Option<(Queues, u64, Instant)>,
    /// The highest rate in bytes per second at which a queue was seen to drop.
    capacity: f64,
    /// When limits were last needed, while they are enforced.
    needed: Option<Instant>,
}

impl Congestion {
    /// Takes what the queues say, and how many bytes limits have dropped since the start.
    pub fn handle_sample(&mut self, queues: Queues, shed: u64, now: Instant) {
        let Some((before, shed_before, then)) = self.last.replace((queues, shed, now)) else { return };
        let seconds = now.saturating_duration_since(then).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "rates are not told to sixteen digits")]
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        let sent = rate(queues.sent, before.sent);
        if queues.drops > before.drops {
            self.capacity = self.capacity.max(sent);
            self.needed = Some(now);
        }
        let Some(needed) = self.needed else { return };
        if sent + rate(shed, shed_before) >= ROOM * self.capacity {
            self.needed = Some(now);
        } else if now.saturating_duration_since(needed) >= CALM {
            // The line may be another one next time.
            (self.needed, self.capacity) = (None, 0.0);
        }
    }

    /// Whether limits are enforced.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.needed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use psmc_testbed::netns::{Namespace, Queue, link_pair};

    use super::*;

    /// A line of 1000 bytes per second, looked at once a second.
    struct Line {
        congestion: Congestion,
        queues: Queues,
        shed: u64,
        now: Instant,
    }

    impl Line {
        fn new() -> Self {
            let mut line = Self {
                congestion: Congestion::default(),
                queues: Queues::default(),
                shed: 0,
                now: Instant::now(),
            };
            line.second(0, 0, 0);
            line
        }

        fn second(&mut self, sent: u64, drops: u64, shed: u64) -> bool {
            self.now += Duration::from_secs(1);
            self.queues.sent += sent;
            self.queues.drops += drops;
            self.shed += shed;
            self.congestion.handle_sample(self.queues, self.shed, self.now);
            self.congestion.is_enforced()
        }
    }

    #[test]
    fn a_full_line_that_drops_nothing_is_not_congested() {
        let mut line = Line::new();
        assert!((0..20).all(|_| !line.second(1000, 0, 0)));
    }

    #[test]
    fn limits_stay_while_what_they_drop_would_fill_the_line() {
        let mut line = Line::new();
        assert!(line.second(1000, 3, 0));
        assert!((0..60).all(|_| line.second(500, 0, 2000)), "the flood goes on");
        assert!((0..9).all(|_| line.second(500, 0, 0)), "it has just ended");
        assert!(!line.second(500, 0, 0));
        assert!(!line.second(500, 0, 0));
        assert!(line.second(400, 1, 0), "congestion of a line that is narrower now");
    }

    #[test]
    fn queues_that_are_made_anew_count_from_zero() {
        let mut line = Line::new();
        line.second(1000, 5, 0);
        line.queues = Queues::default();
        assert!((0..9).all(|_| line.second(0, 0, 0)));
        assert!(!line.second(0, 0, 0));
    }

    #[test]
    fn tc_tells_of_real_queues() {
        let [a, b] = [(); 2].map(|()| Namespace::new().expect("this test needs root"));
        link_pair(&a, "eth0", &b, "eth0").unwrap();
        a.add_address("eth0", "10.1.0.1/24".parse().unwrap()).unwrap();
        b.add_address("eth0", "10.1.0.2/24".parse().unwrap()).unwrap();
        a.shape("eth0", 100_000, 3000, Queue::Bytes(6000)).unwrap();
        let interfaces = ["eth0".parse().unwrap()];
        a.run(|| {
            let before = read_queues(&interfaces).unwrap();
            let socket = std::net::UdpSocket::bind("10.1.0.1:0").unwrap();
            for _ in 0..100 {
                // The kernel may say that the queue is full.
                let _ = socket.send_to(&[7; 1000], "10.1.0.2:9");
            }
            let after = read_queues(&interfaces).unwrap();
            assert!(after.drops > before.drops && after.sent > before.sent, "{before:?} {after:?}");
            let missing = read_queues(&["none0".parse().unwrap()]).unwrap_err();
            assert!(matches!(missing, QueueError::Refused { .. }), "{missing}");
        });
    }
}
