//! Whether a path works.
//!
//! ```text
//!             answer                 silence             no answer
//!  probing ──────────▶ active ──────────────▶ suspect ────────────▶ dead
//!     ▲                  ▲    ◀──────────────    │                   │
//!     │                  │   answer or           │                   │
//!     │                  │   acknowledgement     │                   │
//!     │                  └───────────────────────┴───── answer ──────┘
//!     └ opened, or moved to another address       link down: dead from any state
//! ```
//!
//! That the network says it has not delivered a datagram counts as silence, but not again and again.
//!
//! In every state but active, probes go out with growing intervals; a path that answers one is active. One that is taken
//! for active on somebody's word is probed like one that is probing, and is that again if it does not answer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Silence shorter than this says nothing: acknowledgements may be 5 ms late, and timers and schedulers of
/// busy machines some more. Design §7.
const MIN_SILENCE: Duration = Duration::from_millis(40);

/// Silence is suspicious after this many smoothed round trips.
const SILENCE_ROUND_TRIPS: u32 = 2;

/// The first interval between probes of a path whose round trip is unknown.
const FIRST_PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// The shortest interval between probes of a suspect path.
const MIN_PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// The longest interval between probes of a dead path. A path that comes back shall be in use again within a
/// second, so half of that; a probe is 40 bytes long.
const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How often the network is believed that it has not delivered a datagram: anybody who sees one can say so, and each time
/// costs the path a round trip. Whoever is in a place to see datagrams could as well drop them.
const HINT_INTERVAL: Duration = Duration::from_secs(1);

/// A suspect path is dead after this many unanswered probes.
const PROBES_UNTIL_DEAD: u32 = 3;

/// A path that is taken for active on somebody's word has answered before this many probes are out, 300 ms after the first,
/// or the word was wrong.
const PROBES_ON_TRUST: u32 = 3;

/// How many of the last probes may still be answered: at half a second each, paths with round trips of up to
/// four seconds can prove that they work.
const MAX_OUTSTANDING: usize = 8;

/// How much a path can be relied on. The order of the variants is the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathState {
    /// It answers.
    Active,
    /// It answered until a moment ago.
    Suspect,
    /// It has not answered yet.
    Probing,
    /// It doesn't answer.
    Dead,
}

impl PathState {
    /// The name for people and machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspect => "suspect",
            Self::Probing => "probing",
            Self::Dead => "dead",
        }
    }
}

/// The liveness of one path, judged by what comes back.
#[derive(Debug)]
pub(crate) struct Liveness {
    state: PathState,
    link_up: bool,
    next_probe: Option<Instant>,
    interval: Duration,
    unanswered: u32,
    /// Whether the path is active on somebody's word, and has not answered yet.
    on_trust: bool,
    /// The last probes that were not answered, oldest first.
    outstanding: VecDeque<([u8; 8], Instant)>,
    /// When the network was last believed that it has not delivered a datagram.
    hinted_at: Option<Instant>,
}

impl Liveness {
    /// A path that was never heard of: it is probed at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: PathState::Probing,
            link_up: true,
            next_probe: Some(now),
            interval: FIRST_PROBE_INTERVAL,
            unanswered: 0,
            on_trust: false,
            outstanding: VecDeque::new(),
            hinted_at: None,
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// When the next probe should leave; never while the link is down or the path works.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        self.next_probe
    }

    /// Whether the path is active, and has not shown itself that it works.
    pub(crate) fn is_on_trust(&self) -> bool {
        self.on_trust
    }

    /// Somebody who knows says that the path works. That counts for one that was not asked in vain: for a moment, in which
    /// it has to answer.
    pub(crate) fn trust(&mut self) {
        if self.state == PathState::Probing && self.unanswered < PROBES_ON_TRUST {
            self.state = PathState::Active;
            self.on_trust = true;
        }
    }

    /// Whether the network interface under the path is up.
    pub(crate) fn link_is_up(&self) -> bool {
        self.link_up
    }

    /// A probe with this token has been sent.
    pub(crate) fn on_probe_sent(&mut self, token: [u8; 8], now: Instant) {
        if self.outstanding.len() >= MAX_OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back((token, now));
        self.unanswered += 1;
        if self.state == PathState::Suspect && self.unanswered > PROBES_UNTIL_DEAD {
            self.state = PathState::Dead;
        }
        if self.unanswered >= PROBES_ON_TRUST {
            self.distrust();
        }
        self.next_probe = Some(now + self.interval);
        self.interval = (self.interval * 2).min(MAX_PROBE_INTERVAL);
    }

    /// An answer arrived. Returns the round trip, if it answers one of the last probes: then the path works.
    pub(crate) fn on_answer(&mut self, token: [u8; 8], now: Instant) -> Option<Duration> {
        let at = self.outstanding.iter().position(|(sent, _)| *sent == token)?;
        let (_, sent_at) = self.outstanding.drain(..=at).next_back()?;
        self.on_alive();
        Some(now.saturating_duration_since(sent_at))
    }

    /// The peer has newly acknowledged a datagram of this path. That revives a suspect, but doesn't validate a
    /// path that is still probing: only an answer on the path itself does.
    pub(crate) fn on_acknowledged(&mut self) {
        if self.state == PathState::Suspect {
            self.on_alive();
        }
    }

    /// The peer has shown that the path works, in whatever way.
    pub(crate) fn on_alive(&mut self) {
        if self.link_up {
            self.state = PathState::Active;
            self.on_trust = false;
            self.next_probe = None;
            self.unanswered = 0;
        }
    }

    /// When the path becomes suspect if nothing comes back: `since` is when the wait began.
    pub(crate) fn silence_deadline(&self, since: Instant, smoothed_rtt: Duration) -> Option<Instant> {
        (self.state == PathState::Active)
            .then(|| since + (smoothed_rtt * SILENCE_ROUND_TRIPS).max(MIN_SILENCE))
    }

    /// Nothing came back in time.
    pub(crate) fn on_silence(&mut self, smoothed_rtt: Duration, now: Instant) {
        self.distrust();
        if self.state == PathState::Active {
            self.state = PathState::Suspect;
            self.probe_from(now, smoothed_rtt.clamp(MIN_PROBE_INTERVAL, MAX_PROBE_INTERVAL));
        }
    }

    /// The network says that it has not delivered a datagram of the path. Says whether that makes it suspect.
    pub(crate) fn on_undelivered(&mut self, smoothed_rtt: Duration, now: Instant) -> bool {
        let is_new = self.hinted_at.is_none_or(|at| at + HINT_INTERVAL <= now);
        let is_believed = is_new && self.state == PathState::Active;
        if is_believed {
            self.hinted_at = Some(now);
            self.on_silence(smoothed_rtt, now);
        }
        is_believed
    }

    /// The address under the path has changed, or all that was known of it is void: it must answer anew.
    pub(crate) fn revalidate(&mut self, now: Instant) {
        if self.link_up {
            self.on_trust = false;
            self.state = PathState::Probing;
            self.probe_from(now, FIRST_PROBE_INTERVAL);
        }
    }

    /// Keeps the state, but wants an answer from the path soon: its peer's address has changed.
    pub(crate) fn probe_now(&mut self, now: Instant) {
        if self.link_up {
            self.probe_from(now, FIRST_PROBE_INTERVAL);
        }
    }

    /// The network interface under the path went down or came up.
    pub(crate) fn on_link(&mut self, up: bool, now: Instant) {
        let changed = up != self.link_up;
        self.link_up = up;
        match (up, changed) {
            (false, _) => {
                self.state = PathState::Dead;
                self.on_trust = false;
                self.next_probe = None;
                self.outstanding.clear();
            }
            (true, true) => self.probe_from(now, MIN_PROBE_INTERVAL),
            (true, false) => {}
        }
    }

    /// The path did not answer in time to show that the word was true.
    fn distrust(&mut self) {
        if std::mem::take(&mut self.on_trust) {
            self.state = PathState::Probing;
        }
    }

    fn probe_from(&mut self, now: Instant, interval: Duration) {
        self.next_probe = Some(now);
        self.interval = interval;
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(30);

    fn active(now: Instant) -> Liveness {
        let mut liveness = Liveness::new(now);
        liveness.on_probe_sent([1; 8], now);
        assert_eq!(liveness.on_answer([1; 8], now + RTT), Some(RTT));
        assert_eq!(liveness.state(), PathState::Active);
        liveness
    }

    fn suspect(now: Instant) -> Liveness {
        let mut liveness = active(now);
        liveness.on_silence(RTT, now);
        liveness
    }

    fn dead(now: Instant) -> Liveness {
        let mut liveness = suspect(now);
        for _ in 0..=PROBES_UNTIL_DEAD {
            liveness.on_probe_sent([2; 8], now);
        }
        liveness
    }

    fn down(now: Instant) -> Liveness {
        let mut liveness = active(now);
        liveness.on_link(false, now);
        liveness
    }

    fn trusted(now: Instant) -> Liveness {
        let mut liveness = Liveness::new(now);
        liveness.trust();
        assert_eq!(liveness.state(), PathState::Active);
        liveness
    }

    type Event = fn(&mut Liveness, Instant);
    type Make = fn(Instant) -> Liveness;

    /// Every event in every state.
    #[test]
    fn the_transition_table() {
        use PathState::{Active, Dead, Probing, Suspect};
        let states: [(Make, &str); 6] = [
            (Liveness::new, "probing"),
            (trusted, "trusted"),
            (active, "active"),
            (suspect, "suspect"),
            (dead, "dead"),
            (down, "link down"),
        ];
        let events: [(&str, Event, [PathState; 6]); 10] = [
            (
                "answer",
                |l, now| {
                    l.on_probe_sent([9; 8], now);
                    l.on_answer([9; 8], now);
                },
                [Active, Active, Active, Active, Active, Dead],
            ),
            (
                "wrong answer",
                |l, now| assert_eq!(l.on_answer([8; 8], now), None),
                [Probing, Active, Active, Suspect, Dead, Dead],
            ),
            ("acknowledgement", |l, _| l.on_acknowledged(), [Probing, Active, Active, Active, Dead, Dead]),
            ("silence", |l, now| l.on_silence(RTT, now), [Probing, Probing, Suspect, Suspect, Dead, Dead]),
            (
                "undelivered",
                |l, now| {
                    l.on_undelivered(RTT, now);
                },
                [Probing, Probing, Suspect, Suspect, Dead, Dead],
            ),
            ("move", |l, now| l.revalidate(now), [Probing, Probing, Probing, Probing, Probing, Dead]),
            ("peer moves", |l, now| l.probe_now(now), [Probing, Active, Active, Suspect, Dead, Dead]),
            ("link down", |l, now| l.on_link(false, now), [Dead, Dead, Dead, Dead, Dead, Dead]),
            ("link up", |l, now| l.on_link(true, now), [Probing, Active, Active, Suspect, Dead, Dead]),
            ("trust", |l, _| l.trust(), [Active, Active, Active, Suspect, Dead, Dead]),
        ];
        let now = Instant::now();
        for (event_name, event, expected) in events {
            for ((make, state_name), expected) in states.iter().zip(expected) {
                let mut liveness = make(now);
                event(&mut liveness, now);
                assert_eq!(liveness.state(), expected, "{event_name} while {state_name}");
            }
        }
    }

    #[test]
    fn a_path_is_probed_unless_it_works_or_its_link_is_down() {
        let now = Instant::now();
        assert!(Liveness::new(now).next_probe().is_some());
        assert!(active(now).next_probe().is_none());
        assert!(suspect(now).next_probe().is_some());
        assert!(dead(now).next_probe().is_some());
        assert!(down(now).next_probe().is_none());
        let mut up_again = down(now);
        up_again.on_link(true, now);
        assert_eq!(up_again.next_probe(), Some(now));
    }

    #[test]
    fn a_word_counts_until_the_path_should_have_answered() {
        let now = Instant::now();
        let mut liveness = trusted(now);
        let mut at = now;
        while liveness.state() == PathState::Active {
            at = liveness.next_probe().expect("it has to answer");
            liveness.on_probe_sent([3; 8], at);
        }
        assert_eq!((liveness.state(), at - now), (PathState::Probing, 3 * FIRST_PROBE_INTERVAL));
        liveness.trust();
        assert_eq!(liveness.state(), PathState::Probing, "it was asked in vain");
        assert!(liveness.on_answer([3; 8], at + RTT).is_some());
        assert_eq!((liveness.state(), liveness.is_on_trust()), (PathState::Active, false));
    }

    #[test]
    fn the_interval_grows_but_stays_below_half_a_second() {
        let mut now = Instant::now();
        let mut liveness = suspect(now);
        let mut last = Duration::ZERO;
        for _ in 0..12 {
            liveness.on_probe_sent([0; 8], now);
            let interval = liveness.next_probe().expect("still probing") - now;
            assert!(interval >= last && interval <= MAX_PROBE_INTERVAL);
            last = interval;
            now += interval;
        }
        assert_eq!(last, MAX_PROBE_INTERVAL);
    }

    #[test]
    fn regression_a_round_trip_longer_than_the_interval_of_probes_is_an_answer_too() {
        let now = Instant::now();
        let mut liveness = Liveness::new(now);
        let at = |n: u8| now + MAX_PROBE_INTERVAL * u32::from(n);
        for n in 0..4 {
            liveness.on_probe_sent([n; 8], at(n));
        }
        assert_eq!(liveness.on_answer([1; 8], at(4)), Some(3 * MAX_PROBE_INTERVAL));
        assert_eq!(liveness.state(), PathState::Active);
        assert_eq!(liveness.on_answer([0; 8], at(4)), None, "older than one that was answered");
    }

    #[test]
    fn the_network_is_believed_once_a_second() {
        let now = Instant::now();
        let mut liveness = active(now);
        assert!(liveness.on_undelivered(RTT, now));
        assert_eq!(liveness.next_probe(), Some(now));
        liveness.on_probe_sent([3; 8], now);
        assert!(liveness.on_answer([3; 8], now + RTT).is_some());
        assert!(!liveness.on_undelivered(RTT, now + RTT), "who says it again and again is not believed");
        assert_eq!(liveness.state(), PathState::Active);
        assert!(liveness.on_undelivered(RTT, now + HINT_INTERVAL));
        assert_eq!(liveness.state(), PathState::Suspect);
    }

    #[test]
    fn silence_is_two_round_trips_or_forty_milliseconds() {
        let now = Instant::now();
        let liveness = active(now);
        let after = |rtt| liveness.silence_deadline(now, rtt).map(|at| at - now);
        assert_eq!(after(Duration::from_millis(5)), Some(Duration::from_millis(40)));
        assert_eq!(after(Duration::from_millis(100)), Some(Duration::from_millis(200)));
        assert_eq!(suspect(now).silence_deadline(now, RTT), None);
    }
}
