//! The way to a STAMP reflector and back.

use std::time::Duration;

use psmc_stamp::{Answer, Losses, Oddity, OneWay, Outcome, Sender};
use psmc_tomography::Unknown;
use psmc_tomography::counted::{self, Count};

use super::way::{Finding, Part, Question, Way};

/// The places of those who see a probe: this site, the reflector, this site again.
const REFLECTOR: usize = 1;

/// What became of a probe, and how it stands since.
#[derive(Debug)]
pub(super) struct Tally {
    /// Of one that was answered.
    pub(super) round_trip: Option<Duration>,
    /// Why one was not sent.
    pub(super) error: Option<String>,
    sequence: u32,
    one_way: Option<(i64, i64)>,
    /// Whether both clocks are synchronised, and to within how many seconds.
    clocks: Option<(bool, f64)>,
    losses: Losses,
    /// Answers that were not as those of a reflector that does its work.
    odd: u64,
    clock_sets: u64,
}

/// What is known of the way.
#[derive(Debug)]
pub(super) struct Probes {
    way: Way,
    /// From one probe to the next, in microseconds.
    interval_us: i64,
    last: Option<Tally>,
    /// What was known when the last block was closed.
    closed: (Losses, u64),
    least: Option<Duration>,
}

impl Tally {
    /// After an outcome.
    pub(super) fn of(outcome: &Outcome, sender: &Sender) -> Self {
        let answer = match outcome {
            Outcome::Answered(answer) => Some(answer),
            Outcome::Lost(_) | Outcome::NotSent(_) => None,
        };
        let error = match outcome {
            Outcome::NotSent(error) => Some(error.to_string()),
            Outcome::Answered(_) | Outcome::Lost(_) => None,
        };
        let odd = [
            Oddity::Unasked,
            Oddity::Doubled,
            Oddity::Late,
            Oddity::Implausible,
            Oddity::MalformedExtensions,
        ];
        Self {
            round_trip: answer.map(|answer| answer.round_trip),
            error,
            sequence: answer.map_or(0, |answer| answer.sequence),
            one_way: answer.and_then(one_way),
            clocks: answer.map(|answer| {
                (answer.is_synchronised(), answer.clocks.iter().map(|clock| clock.seconds).sum())
            }),
            losses: sender.losses(),
            odd: odd.into_iter().map(|oddity| sender.oddities().of(oddity)).sum(),
            clock_sets: sender.clock_sets(),
        }
    }
}

fn one_way(answer: &Answer) -> Option<(i64, i64)> {
    match answer.one_way {
        OneWay::Measured { forward, backward } => Some((forward / 1000, backward / 1000)),
        OneWay::ClockSet | OneWay::Implausible => None,
    }
}

impl Probes {
    /// From a site to a reflector, of which so many blocks are judged together.
    pub(super) fn new(blocks: usize, interval: Duration, site: &str, reflector: &str) -> Self {
        // A block is closed each time the target is judged, twice as often as blocks of datagrams end.
        let way = Way::between(2 * blocks, &[site, reflector, site]);
        let interval_us = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
        Self { way, interval_us, last: None, closed: (Losses::default(), 0), least: None }
    }

    /// What became of a probe.
    pub(super) fn note(&mut self, tally: Tally) {
        if let Some(round_trip) = tally.round_trip {
            self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        }
        if let Some((forward, backward)) = tally.one_way {
            // As if all were sent when they should have been: for delays only differences count.
            let packet = u64::from(tally.sequence);
            let sent = i64::from(tally.sequence).saturating_mul(self.interval_us);
            self.way.observe(0, packet, sent);
            self.way.observe(REFLECTOR, packet, sent.saturating_add(forward));
            self.way.observe(2, packet, sent.saturating_add(forward).saturating_add(backward));
        }
        let clocks = tally.clocks.or(self.last.as_ref().and_then(|last| last.clocks));
        self.last = Some(Tally { clocks, ..tally });
    }

    /// What was lost since the last block is one. It waits until what is known of each way fits together.
    pub(super) fn close_block(&mut self) {
        let Some(Tally { losses, odd, .. }) = &self.last else { return };
        let (before, odd_before) = self.closed;
        let since = |now: u64, before: u64| now.checked_sub(before);
        let Some(sent) = since(losses.sent, before.sent).filter(|sent| *sent > 0) else { return };
        let Some(answered) = since(losses.answered, before.answered) else { return };
        let forward = losses.forward.zip(Some(before.forward.unwrap_or_default()));
        let segments = match forward {
            _ if *odd > odd_before => vec![Err(Unknown::SelfContradiction(REFLECTOR)); 2],
            None => vec![Err(Unknown::Silent(REFLECTOR)); 2],
            Some((now, before)) => {
                let came = since(now, before).and_then(|lost| sent.checked_sub(lost));
                let Some(came) = came.filter(|came| answered <= *came) else { return };
                let count = |sent, arrived| Count::new(sent, arrived).ok_or(Unknown::NotANumber);
                vec![count(sent, came), count(came, answered)]
            }
        };
        self.closed = (*losses, *odd);
        self.way.record(counted::Losses { segments, nodes: Vec::new() });
    }

    /// Who is at fault.
    pub(super) fn find(&self, question: Question, finding: &mut Finding) {
        self.way.find(None, question, finding);
    }

    /// All parts of the way, as the probes of so much time show them.
    pub(super) fn parts(&self, within: Duration) -> Vec<Part> {
        self.way.parts(within)
    }

    /// The least round trip that was measured.
    pub(super) fn least_round_trip(&self) -> Option<Duration> {
        self.least
    }

    /// Why the last probe could not be sent.
    pub(super) fn error(&self) -> Option<&str> {
        self.last.as_ref()?.error.as_deref()
    }

    /// How good the clocks are.
    pub(super) fn clocks(&self) -> String {
        let Some(last) = &self.last else { return "unknown: nothing was answered yet".to_owned() };
        let set = match last.clock_sets {
            0 => String::new(),
            times => format!("; a clock was set {times} times"),
        };
        match last.clocks {
            Some((true, seconds)) => format!("synchronised, to within {:.2} ms{set}", seconds * 1e3),
            Some((false, _)) => format!("not synchronised: delay is the round trip{set}"),
            None => "unknown: nothing was answered yet".to_owned(),
        }
    }
}
