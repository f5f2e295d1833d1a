//! Which messages are sent, and after which others.

use std::time::Duration;

use super::NodeId;

/// A step of a script, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId(usize);

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends it.
    pub from: NodeId,
    /// Who receives it.
    pub to: NodeId,
    /// Its length in bytes, the headers of its packets included; more than fits into a packet is sent in several.
    pub bytes: u32,
    /// How long its receiver works on it. A node works on one message at a time, in the order in which they have come.
    pub work: Duration,
}

/// Steps, each of which begins when all that it waits for have ended: messages, and pauses.
#[derive(Clone, Debug, Default)]
pub struct Script {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    /// How many steps it waits for.
    pub(super) waits_for: usize,
    /// Those that wait for it.
    pub(super) then: Vec<StepId>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Message(Message),
    Pause(Duration),
}

impl Script {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A message that is sent when all steps of `after` have ended, at the start if there are none; it ends when its receiver has
    /// worked on it.
    ///
    /// # Panics
    /// If one of `after` is a step of another script.
    pub fn send(&mut self, message: Message, after: &[StepId]) -> StepId {
        self.add(What::Message(message), after)
    }

    /// A time in which nothing is sent.
    ///
    /// # Panics
    /// If one of `after` is a step of another script.
    pub fn pause(&mut self, length: Duration, after: &[StepId]) -> StepId {
        self.add(What::Pause(length), after)
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Message(message) => Some(message),
            What::Pause(_) => None,
        })
    }

    fn add(&mut self, what: What, after: &[StepId]) -> StepId {
        let step = StepId(self.steps.len());
        for earlier in after {
            self.steps[earlier.0].then.push(step);
        }
        self.steps.push(Step { what, waits_for: after.len(), then: Vec::new() });
        step
    }
}

impl StepId {
    /// Its place in what [`play`](super::play()) returns.
    #[must_use]
    pub fn number(self) -> usize {
        self.0
    }
}
