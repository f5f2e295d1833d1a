//! The server's side: what nodes report, and what each of them may let pass.

mod class;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{ClassId, NodeId, is_rate};
use class::Class;

/// Classes of a server: who polices more than this has tables of another size in mind.
pub const MAX_CLASSES: usize = 1024;

/// Nodes of a class: as many as an operator configures, and a report of each can be had every interval.
pub const MAX_NODES: usize = 1024;

/// How a rate is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Max–min fairly, by what nodes are offered: [`throttles`](crate::split::throttles).
    MaxMin,
    /// As the seed has it, by what arrives after drops: [`k_scaling`](crate::split::k_scaling).
    Seed {
        /// The seed's k; it uses 1.2.
        k: f64,
    },
}

/// How a [`Shedder`] behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How a rate is divided.
    pub method: Method,
    /// What nodes together may let pass beyond what is accepted, as a share of that: who is offered more all at once passes that
    /// much before it is reported. Taken for 0 if it is no number from 0 to 1.
    pub headroom: f64,
    /// How long a rule is good for unless it is issued again.
    pub lifetime: Duration,
    /// How long reports count: a node that has said nothing for so long is offered nothing.
    pub memory: Duration,
    /// How long less than the limit must be offered before rules are relaxed by a step; there are [`STEPS`] of them.
    pub step: Duration,
}

/// Relaxing steps from the throttles that are needed to no rule at all.
pub const STEPS: u32 = 4;

/// What a node has seen of a class in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// When the interval ended, by the server's clock.
    pub until: Duration,
    /// How long it was.
    pub interval: Duration,
    /// What came to the node in it: an amount.
    pub offered: f64,
    /// What the node let pass of that.
    pub passed: f64,
}

/// What a node may let pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Who.
    pub node: NodeId,
    /// Of what.
    pub class: ClassId,
    /// How much, per second.
    pub rate: f64,
    /// Where a node's steps lead to if the rule ends, per second: what the server accepts of it from all nodes together, at least.
    pub limit: f64,
    /// When it ends.
    pub expires: Duration,
}

/// Why something was not taken. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// A number is negative, not finite or beyond every link.
    #[error("not a rate")]
    NotARate,
    /// More has passed than came.
    #[error("more has passed than came")]
    PassedMore,
    /// An interval is empty, or longer than what is remembered.
    #[error("not an interval")]
    NotAnInterval,
    /// It is of the future, or no longer counts.
    #[error("not of this time")]
    NotOfThisTime,
    /// A later one is known: it came twice, or has been overtaken.
    #[error("a later report is known")]
    Overtaken,
    /// The server accepts no such class.
    #[error("no such class")]
    UnknownClass,
    /// There are as many classes or nodes as there may be.
    #[error("too many")]
    TooMany,
}

/// The server's side: divides what is accepted of each class among the nodes that report what they are offered.
///
/// Say what is [accepted](Self::accept), hand over each [`report`](Self::report), and best also what
/// [arrives](Self::arrived) at the server; at every interval send the [`rules`](Self::rules) to their nodes. There are rules for a
/// class only while it is overloaded, and until it has not been for [`STEPS`] times [`Config::step`]: by what nodes are *offered*, for
/// what they let pass never shows that a limit is still needed.
///
/// # Bounds
///
/// - While a class is overloaded the sum of its throttles is at most (1 + headroom) times what is accepted, divided by the share of
///   what nodes pass that arrives (at least [`LEAST_ARRIVING`]). So is what arrives, once all nodes have the same rules.
/// - While rules are on their way, a node that has the new one and one that still has the old one may both pass what only one of
///   them should: for as long as a rule takes to reach the slowest node, at most the sum of both.
/// - Nobody profits from a report that is not true: saying more than is offered yields the level at most, which is
///   what an honest node that is offered much gets, and only as far as it is used.
///
/// Memory is bounded by [`MAX_CLASSES`] and [`MAX_NODES`].
#[derive(Clone, Debug)]
pub struct Shedder {
    config: Config,
    classes: BTreeMap<ClassId, Class>,
    refused: BTreeMap<Refusal, u64>,
}

/// The least share of what nodes pass that is believed to arrive. If less does, more would only fill what is full behind them.
pub const LEAST_ARRIVING: f64 = 0.5;

impl Default for Config {
    /// Max–min fair, a headroom of a tenth, rules of ten seconds; reports count for two, steps take two.
    fn default() -> Self {
        Self {
            method: Method::MaxMin,
            headroom: 0.1,
            lifetime: Duration::from_secs(10),
            memory: Duration::from_secs(2),
            step: Duration::from_secs(2),
        }
    }
}

impl Shedder {
    /// Without classes.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let headroom = if (0.0..=1.0).contains(&config.headroom) { config.headroom } else { 0.0 };
        Self { config: Config { headroom, ..config }, classes: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// The server accepts so much of a class, per second; what was accepted of it before no longer counts, but reports do.
    ///
    /// # Errors
    /// If it is [no rate](is_rate), or one class too many.
    pub fn accept(&mut self, class: ClassId, rate: f64) -> Result<(), Refusal> {
        let outcome = self.try_accept(class, rate);
        self.counted(outcome)
    }

    /// The server polices a class no longer: there are no rules for it any more, and those that nodes have will end.
    pub fn withdraw(&mut self, class: ClassId) {
        self.classes.remove(&class);
    }

    /// A node reports what it has seen of a class; `now` is when that came.
    ///
    /// # Errors
    /// If it is nonsense, too old, or of one node too many. What is known stays as it was.
    pub fn report(
        &mut self,
        node: NodeId,
        class: ClassId,
        report: Report,
        now: Duration,
    ) -> Result<(), Refusal> {
        let memory = self.config.memory;
        let outcome = check(&report, now, memory).and_then(|()| {
            let class = self.classes.get_mut(&class).ok_or(Refusal::UnknownClass)?;
            class.report(node, &report, now, memory)
        });
        self.counted(outcome)
    }

    /// So much of a class has arrived at the server, whatever it made of it; an amount, in an interval that ends `now`.
    ///
    /// From this the shedder learns what is lost between nodes and server, and what comes by no node. Without it, all that nodes pass
    /// is taken to arrive, and nothing else.
    ///
    /// # Errors
    /// If it is nonsense.
    pub fn arrived(
        &mut self,
        class: ClassId,
        amount: f64,
        interval: Duration,
        now: Duration,
    ) -> Result<(), Refusal> {
        let memory = self.config.memory;
        let report = Report { until: now, interval, offered: amount, passed: amount };
        let outcome = check(&report, now, memory).and_then(|()| {
            let class = self.classes.get_mut(&class).ok_or(Refusal::UnknownClass)?;
            class.arrived(amount / interval.as_secs_f64(), now, memory);
            Ok(())
        });
        self.counted(outcome)
    }

    /// A node has, or had, a rule of ours, as it says itself: of a shedder that has been started anew. Its class counts as overloaded
    /// until what is offered says otherwise, so that a start lets no flood through.
    ///
    /// # Errors
    /// If it is no rate, or of one node too many.
    pub fn adopt(&mut self, node: NodeId, class: ClassId, rate: f64, now: Duration) -> Result<(), Refusal> {
        let memory = self.config.memory;
        let outcome = if is_rate(rate) { Ok(()) } else { Err(Refusal::NotARate) }.and_then(|()| {
            let class = self.classes.get_mut(&class).ok_or(Refusal::UnknownClass)?;
            class.adopt(node, rate, now, memory)
        });
        self.counted(outcome)
    }

    /// The rules that are to be in force from `now` on, by class and node. Call it at every interval of reports; calling it more
    /// often does no harm.
    pub fn rules(&mut self, now: Duration) -> Vec<Rule> {
        let config = self.config;
        let of_class = |(&id, class): (&ClassId, &mut Class)| {
            let limit = class.accepted();
            let rule = move |(node, rate)| Rule {
                node,
                class: id,
                rate,
                limit: limit.max(rate),
                expires: now.saturating_add(config.lifetime),
            };
            class.throttles(&config, now).into_iter().map(rule)
        };
        self.classes.iter_mut().flat_map(of_class).collect()
    }

    /// What is offered of a class by all nodes that have reported lately, per second; `None` if there is no such class.
    #[must_use]
    pub fn offered(&self, class: ClassId, now: Duration) -> Option<f64> {
        Some(self.classes.get(&class)?.offered(now, self.config.memory))
    }

    /// How often what was handed over was refused, by reason.
    #[must_use]
    pub fn refused(&self) -> &BTreeMap<Refusal, u64> {
        &self.refused
    }

    fn try_accept(&mut self, class: ClassId, rate: f64) -> Result<(), Refusal> {
        if !is_rate(rate) {
            return Err(Refusal::NotARate);
        }
        if let Some(known) = self.classes.get_mut(&class) {
            known.accept(rate);
            return Ok(());
        }
        if self.classes.len() >= MAX_CLASSES {
            return Err(Refusal::TooMany);
        }
        self.classes.insert(class, Class::new(rate));
        Ok(())
    }

    fn counted(&mut self, outcome: Result<(), Refusal>) -> Result<(), Refusal> {
        if let Err(refusal) = outcome {
            *self.refused.entry(refusal).or_default() += 1;
        }
        outcome
    }
}

/// Whether a report can be true.
fn check(report: &Report, now: Duration, memory: Duration) -> Result<(), Refusal> {
    let Report { until, interval, offered, passed } = *report;
    if interval.is_zero() || interval > memory {
        return Err(Refusal::NotAnInterval);
    }
    let seconds = interval.as_secs_f64();
    if !is_rate(offered / seconds) || !is_rate(passed / seconds) {
        return Err(Refusal::NotARate);
    }
    if passed > offered {
        return Err(Refusal::PassedMore);
    }
    if until > now || now - until > memory {
        return Err(Refusal::NotOfThisTime);
    }
    Ok(())
}
