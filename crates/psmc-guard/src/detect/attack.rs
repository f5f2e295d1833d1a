//! Attacks on one service.

use std::time::Duration;

use psmc_signal::AlertKind;

use super::{Limit, Policy, Sample, Signal, Trigger, Usual};

/// Watches all signals of one service.
///
/// Call [`handle_sample`](Self::handle_sample) for each sample, and [`handle_loss`](Self::handle_loss) whenever loss is
/// known anew.
#[derive(Clone, Debug)]
pub struct ServiceDetector {
    policy: Policy,
    signals: [State; Signal::ALL.len()],
    loss: Option<f64>,
    attack: Option<Attack>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    usual: Usual,
    trigger: Trigger,
}

/// An attack that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// The kind of attack.
    pub kind: AlertKind,
    /// For how long it has been known.
    pub age: Duration,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An attack has begun.
    Begun(AlertKind),
    /// It is over.
    Over,
}

impl ServiceDetector {
    /// Begins with what was learned before.
    #[must_use]
    pub fn new(policy: Policy, learned: impl Fn(Signal) -> Option<Usual>) -> Self {
        let state = |signal| State { usual: learned(signal).unwrap_or_default(), ..State::default() };
        Self { policy, signals: Signal::ALL.map(state), loss: None, attack: None }
    }

    /// Takes the share of packets that direct paths have lost lately; `None` if too few were sent to tell.
    pub fn handle_loss(&mut self, loss: Option<f64>) {
        self.loss = loss;
    }

    /// Takes what arrived in the last `elapsed`. What is unusual on purpose, such as what is left while visitors take another
    /// way, must not be learned.
    pub fn handle_sample(&mut self, sample: &Sample, elapsed: Duration, may_learn: bool) -> Option<Change> {
        let mut sample = *sample;
        if let Some(loss) = self.credible_loss(&sample) {
            sample.set(Signal::Loss, loss);
        }
        let may_learn = may_learn && self.attack.is_none();
        for signal in Signal::ALL {
            if let Some(value) = sample.get(signal) {
                self.handle_value(signal, value, elapsed, may_learn);
            }
        }
        self.change(elapsed)
    }

    /// What is going on.
    #[must_use]
    pub fn attack(&self) -> Option<&Attack> {
        self.attack.as_ref()
    }

    /// What was measured, averaged over a second.
    #[must_use]
    pub fn measured(&self) -> Sample {
        let smooth = |signal: Signal| (signal, self.state(signal).trigger.smooth());
        let counted = Signal::ALL.into_iter().filter(|signal| *signal != Signal::Loss).map(smooth);
        let loss = self.loss.map(|loss| (Signal::Loss, loss));
        counted.chain(loss).collect()
    }

    /// What is usual, where that is known.
    #[must_use]
    pub fn usual(&self) -> Sample {
        let known = |signal: &Signal| *signal != Signal::Loss && self.is_known(*signal);
        let level = |signal: Signal| (signal, self.state(signal).usual.level);
        Signal::ALL.into_iter().filter(known).map(level).collect()
    }

    /// From where on it is an attack, where that is known.
    #[must_use]
    pub fn limits(&self) -> Sample {
        Signal::ALL.into_iter().filter_map(|signal| Some((signal, self.limit(signal)?.alarm))).collect()
    }

    /// What was learned about a signal, to be kept.
    #[must_use]
    pub fn learned(&self, signal: Signal) -> Usual {
        self.state(signal).usual
    }

    fn handle_value(&mut self, signal: Signal, value: f64, elapsed: Duration, may_learn: bool) {
        let (limit, calm) = (self.limit(signal), self.policy.calm);
        let is_first_time = !self.is_known(signal);
        let state = &mut self.signals[signal as usize];
        // Before anything is known, everything is calm: averages are kept all the same.
        let limit = limit.unwrap_or(Limit { alarm: f64::INFINITY, calm: f64::INFINITY });
        state.trigger.handle_value(value, limit, elapsed, calm);
        if may_learn && state.trigger.is_quiet() {
            state.usual.learn(value, elapsed, is_first_time);
        }
    }

    fn change(&mut self, elapsed: Duration) -> Option<Change> {
        let raised = Signal::ALL.map(|signal| self.state(signal).trigger.is_raised());
        let is_attacked = raised.contains(&true);
        match &mut self.attack {
            Some(attack) if is_attacked => attack.age += elapsed,
            Some(_) => {
                self.attack = None;
                return Some(Change::Over);
            }
            None if is_attacked => {
                let kind = self.kind(raised);
                self.attack = Some(Attack { kind, age: Duration::ZERO });
                return Some(Change::Begun(kind));
            }
            None => {}
        }
        None
    }

    /// A flood of SYNs is also one of packets, and a flood from forged sources is also one of new sources.
    fn kind(&self, raised: [bool; Signal::ALL.len()]) -> AlertKind {
        let value = |signal| self.state(signal).trigger.smooth();
        if raised[Signal::Syns as usize] && value(Signal::Syns) > value(Signal::Packets) / 2.0 {
            return AlertKind::Syn;
        }
        let first = Signal::ALL.into_iter().find(|signal| raised[*signal as usize]);
        first.map_or(AlertKind::Other, Signal::kind)
    }

    /// Loss is an attack's only if as much arrives as usual: a visitor that vanishes loses everything as well.
    fn credible_loss(&self, sample: &Sample) -> Option<f64> {
        let packets = sample.get(Signal::Packets).unwrap_or_default();
        let is_busy = packets > 0.0 && packets >= self.state(Signal::Packets).usual.level;
        self.loss.map(|loss| if is_busy || self.attack.is_some() { loss } else { 0.0 })
    }

    fn limit(&self, signal: Signal) -> Option<Limit> {
        if let Some(fixed) = self.policy.fixed.get(signal) {
            return Some(Limit::fixed(fixed));
        }
        let high = match signal {
            // Whether loss is bad is nothing to be learned: a direct way that always loses that much is of no use.
            Signal::Loss => 0.0,
            Signal::Packets | Signal::Bits | Signal::Syns | Signal::NewSources => {
                self.state(signal).usual.high
            }
        };
        self.is_known(signal).then(|| Limit::learned(signal.floor().max(self.policy.factor * high)))
    }

    fn is_known(&self, signal: Signal) -> bool {
        signal == Signal::Loss || self.state(signal).usual.is_known(self.policy.learning)
    }

    fn state(&self, signal: Signal) -> &State {
        &self.signals[signal as usize]
    }
}
