//! The whole: requests come, wait, have a place at a server, end.

mod class;
mod config;
mod server;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::queue::{Handle as Waits, Queues, Waiting};
use crate::ratios::{Ratios, Seen};
use crate::window::Sample;
use crate::{ClassId, ClassSet, ServerId};
use class::Class;
pub use config::{
    ClassConfig, Config, ConfigError, Discipline, LEAST_RATIO, LimitConfig, MOST_RATIO, ServerConfig,
};
use server::Servers;
pub use snapshot::{ClassSnapshot, Counters, ServerSnapshot, Snapshot};

pub use crate::ratios::{Infeasible, State as RatioState};
pub use crate::window::{Means, Measure};

/// Requests of classes in front of servers: who has a place, who waits, and who is refused.
///
/// # What to call
///
/// 1. [`arrive`](Self::arrive) says what becomes of a request: it has a place at once, it waits, or it is refused.
/// 2. After every call that takes `now`, [`poll_ready`](Self::poll_ready) until it yields `None`, and tell those who wait.
/// 3. Every [`Ticket`] comes back by [`finish`](Self::finish), or by [`retry`](Self::retry): keep it in a guard that sees to it.
/// 4. Call [`tick`](Self::tick) when [`next_tick`](Self::next_tick) is due; to be early or to call it twice is harmless.
/// 5. Whoever hangs up while it waits is [cancelled](Self::cancel).
///
/// # Promises
///
/// - While a request waits that is not kept back, no server that is available and serves its class has room for one. Nothing is kept
///   back unless [`Config::idling`] says so.
/// - No server has more requests at once than its limit at the time when the last of them was let in.
/// - No class has more than its [`ClassConfig::max_waiting`] waiting, but for requests that a server has failed.
/// - A ratio that cannot be held costs nobody anything: it is told in the [`Snapshot`], and who is next is decided as usual.
#[derive(Debug)]
pub struct Admission {
    config: Config,
    classes: Vec<Class>,
    servers: Servers,
    /// Of each class, those that share a server with it.
    neighbours: Vec<ClassSet>,
    queues: Queues,
    ratios: Ratios,
    ready: VecDeque<Ready>,
    period_ends: Duration,
    /// Handles of before the classes were last changed mean nobody any more.
    generation: u64,
}

/// Names a request that waits, or has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    generation: u64,
    waits: Waits,
}

/// A place at a server. It comes back by [`Admission::finish`] or [`Admission::retry`], or the place is lost.
#[derive(Debug)]
#[must_use = "a place that does not come back is lost"]
pub struct Ticket {
    class: ClassId,
    server: ServerId,
    generation: u64,
    arrived: Duration,
    admitted: Duration,
    /// How many requests the server had then, this one included.
    at_once: u32,
    is_answered: bool,
}

/// What becomes of a request that has come.
#[derive(Debug)]
pub enum Arrival {
    /// It has a place at a server.
    Admitted(Ticket),
    /// It waits: [`Admission::poll_ready`] will yield it, unless it is cancelled.
    Queued(Handle),
    /// It is refused.
    Refused(Refusal),
}

/// Somebody who waits no longer.
#[derive(Debug)]
pub enum Ready {
    /// It has a place at a server.
    Admitted {
        /// Who.
        handle: Handle,
        /// Its place.
        ticket: Ticket,
    },
    /// It is refused after all.
    Expired {
        /// Who.
        handle: Handle,
        /// Why.
        refusal: Refusal,
    },
}

/// Why a request is refused, and when another try makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// After this time what waits now will have been served, as far as can be told; from [`LEAST_RETRY`] to [`MOST_RETRY`].
    pub retry_after: Duration,
}

/// Why a request is refused. Its text is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It would wait longer than its class, or a better one, is promised.
    #[error("it would have to wait too long")]
    TooLong,
    /// As many of its class wait as may.
    #[error("too many requests wait")]
    QueueFull,
    /// No server is available.
    #[error("no server is available")]
    NoServer,
    /// There is no such class.
    #[error("there is no such class")]
    UnknownClass,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer: how long it took counts.
    Answered,
    /// The server refused the connection, reset it, gave no answer in time, or said that it is overloaded: that counts against its limit.
    Failed,
    /// The client went away: nothing counts.
    Abandoned,
}

/// Nobody is told to come again sooner: it would be as if it had waited.
pub const LEAST_RETRY: Duration = Duration::from_secs(1);

/// Nobody is told to come again later: who knows what will be then.
pub const MOST_RETRY: Duration = Duration::from_secs(60);

impl Admission {
    /// With all servers available and nothing known of them.
    ///
    /// # Errors
    /// If the configuration promises what cannot be.
    pub fn new(config: Config, now: Duration) -> Result<Self, ConfigError> {
        config.check()?;
        let classes = vec![Class::default(); config.classes.len()];
        let (servers, queues, ratios) = (Servers::new(&config.servers), config.queues(), config.ratios());
        let (period_ends, neighbours) = (now + config.period, config.neighbours());
        Ok(Self {
            config,
            classes,
            servers,
            neighbours,
            queues,
            ratios,
            ready: VecDeque::new(),
            period_ends,
            generation: 0,
        })
    }

    /// A request has come.
    pub fn arrive(&mut self, class: ClassId, now: Duration) -> Arrival {
        let Some(stats) = self.classes.get_mut(class.0) else {
            return Arrival::Refused(Refusal { reason: Reason::UnknownClass, retry_after: LEAST_RETRY });
        };
        stats.arrived();
        if let Some(refusal) = self.refusal(class, now) {
            self.classes[class.0].counters.refused += 1;
            return Arrival::Refused(refusal);
        }
        if let Some(ticket) = self.admit_at_once(class, now) {
            return Arrival::Admitted(ticket);
        }
        let waits = self.queues.push(class, Waiting { arrived: now, avoid: None });
        self.queued(waits, now)
    }

    /// What queues would come to where nobody waits, and where they keep nobody back and no account of who was served.
    fn admit_at_once(&mut self, class: ClassId, now: Duration) -> Option<Ticket> {
        if !self.queues.is_empty() || self.config.idling || self.config.discipline == Discipline::Fair {
            return None;
        }
        let (server, at_once) = self.servers.take(class, None)?;
        self.classes[class.0].admitted(false, now);
        Some(self.ticket(class, server, now, now, at_once))
    }

    /// The head of the answer has come: the response time ends here, so that neither long answers nor slow readers count; the
    /// place is kept. Without this it ends with [`finish`](Self::finish).
    pub fn answered(&mut self, ticket: &mut Ticket, now: Duration) {
        if std::mem::replace(&mut ticket.is_answered, true) {
            return;
        }
        let sample = Sample {
            waiting: ticket.admitted.saturating_sub(ticket.arrived),
            service: now.saturating_sub(ticket.admitted),
        };
        self.servers.answered(ticket.server, sample.service, ticket.at_once);
        if ticket.generation == self.generation
            && let Some(class) = self.classes.get_mut(ticket.class.0)
        {
            class.answered(sample);
            self.queues.answered(ticket.class, sample);
        }
        self.dispatch(now);
    }

    /// A request is over, and its place is free.
    pub fn finish(&mut self, mut ticket: Ticket, outcome: Outcome, now: Duration) {
        if outcome == Outcome::Answered {
            self.answered(&mut ticket, now);
        }
        self.leave(&ticket, outcome);
        self.dispatch(now);
    }

    /// The server has failed the request before anything of it could have been done: it is the first of its class again, and
    /// goes to another server if one has room.
    pub fn retry(&mut self, ticket: Ticket, now: Duration) -> Arrival {
        self.leave(&ticket, Outcome::Failed);
        let waiting = Waiting { arrived: ticket.arrived, avoid: Some(ticket.server) };
        let is_known = ticket.generation == self.generation && self.servers.served().has(ticket.class);
        let waits = is_known.then(|| self.queues.push_first(ticket.class, waiting)).flatten();
        let arrival = self.queued(waits, now);
        self.dispatch(now);
        arrival
    }

    /// Whoever waits has hung up. `false` if it waits no longer: it has been yielded, or will be, by
    /// [`poll_ready`](Self::poll_ready), and if it has a ticket, that must be finished.
    pub fn cancel(&mut self, handle: Handle, now: Duration) -> bool {
        if handle.generation != self.generation || self.queues.cancel(handle.waits).is_none() {
            return false;
        }
        if let Some(class) = self.classes.get_mut(handle.waits.class().0) {
            class.counters.cancelled += 1;
        }
        self.dispatch(now);
        true
    }

    /// The next one that waits no longer.
    pub fn poll_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        if now >= self.period_ends {
            self.end_period(now);
        }
        self.dispatch(now);
    }

    /// When to call [`tick`](Self::tick) next.
    #[must_use]
    pub fn next_tick(&self) -> Duration {
        let next = if self.queues.is_empty() { None } else { self.queues.next_free(self.servers.room()) };
        let expiry = if self.queues.is_empty() { None } else { self.next_expiry() };
        [next, expiry].into_iter().flatten().min().map_or(self.period_ends, |next| next.min(self.period_ends))
    }

    /// A server is available, or no longer: it gets nothing new then, and what it has goes on.
    pub fn set_available(&mut self, server: ServerId, is_available: bool, now: Duration) {
        self.servers.set_available(server, is_available);
        let served = self.servers.served();
        for class in (0..self.classes.len()).map(ClassId).filter(|class| !served.has(*class)) {
            self.expire(class, now + Duration::from_nanos(1), Reason::NoServer, now);
        }
        self.dispatch(now);
    }

    /// Takes another configuration. What is known of servers stays, by their places; if there are as many classes as before, so do
    /// those who wait, otherwise they expire.
    ///
    /// # Errors
    /// If the configuration promises what cannot be. Nothing has changed then.
    pub fn reconfigure(&mut self, config: Config, now: Duration) -> Result<(), ConfigError> {
        config.check()?;
        self.servers.reconfigure(&config.servers);
        self.neighbours = config.neighbours();
        let mut queues = config.queues();
        if config.classes.len() == self.classes.len() {
            queues.take_over(&mut self.queues);
        } else {
            for class in 0..self.classes.len() {
                self.expire(ClassId(class), now + Duration::from_nanos(1), Reason::UnknownClass, now);
            }
            self.classes = vec![Class::default(); config.classes.len()];
            self.generation += 1;
        }
        self.queues = queues;
        self.ratios = config.ratios();
        self.period_ends = now + config.period;
        self.config = config;
        self.dispatch(now);
        Ok(())
    }

    /// What is known of classes and servers.
    #[must_use]
    pub fn snapshot(&self, now: Duration) -> Snapshot {
        let class = |(place, class): (usize, &Class)| {
            let waiting = self.queues.len(ClassId(place));
            class.snapshot(waiting, class.expected_wait(waiting, now))
        };
        Snapshot {
            classes: self.classes.iter().enumerate().map(class).collect(),
            servers: self.servers.snapshot(),
            ratios: self.ratios.states().collect(),
            firsts: self.config.firsts(),
        }
    }

    /// Gives what waits to servers that have room, and refuses what has waited in vain.
    fn dispatch(&mut self, now: Duration) {
        if self.queues.is_empty() {
            return;
        }
        for class in (0..self.classes.len()).map(ClassId) {
            if let Some(patience) = self.patience(class)
                && let Some(came_before) = now.checked_sub(patience)
            {
                self.expire(class, came_before, Reason::TooLong, now);
            }
        }
        while !self.queues.is_empty()
            && let Some((waits, waiting)) = self.queues.pop(self.servers.room(), now)
            && let class = waits.class()
            && let Some((server, at_once)) = self.servers.take(class, waiting.avoid)
        {
            let others_wait = self.queues.len(class) > 0;
            self.classes[class.0].admitted(others_wait, now);
            let ticket = self.ticket(class, server, waiting.arrived, now, at_once);
            let handle = Handle { generation: self.generation, waits };
            self.ready.push_back(Ready::Admitted { handle, ticket });
        }
    }

    fn ticket(
        &self,
        class: ClassId,
        server: ServerId,
        arrived: Duration,
        admitted: Duration,
        at_once: u32,
    ) -> Ticket {
        Ticket { class, server, generation: self.generation, arrived, admitted, at_once, is_answered: false }
    }

    /// What becomes of one that has just been queued.
    fn queued(&mut self, waits: Option<Waits>, now: Duration) -> Arrival {
        let Some(waits) = waits else {
            return Arrival::Refused(Refusal { reason: Reason::NoServer, retry_after: LEAST_RETRY });
        };
        let mine = Handle { generation: self.generation, waits };
        self.dispatch(now);
        let is_mine = |ready: &Ready| matches!(ready, Ready::Admitted { handle, .. } if *handle == mine);
        match self.ready.pop_back_if(|ready| is_mine(ready)) {
            Some(Ready::Admitted { ticket, .. }) => Arrival::Admitted(ticket),
            Some(Ready::Expired { refusal, .. }) => Arrival::Refused(refusal),
            None => Arrival::Queued(mine),
        }
    }

    /// The place is free again.
    fn leave(&mut self, ticket: &Ticket, outcome: Outcome) {
        self.servers.leave(ticket.server);
        if outcome == Outcome::Failed {
            self.servers.failed(ticket.server);
        }
        if ticket.generation == self.generation
            && let Some(class) = self.classes.get_mut(ticket.class.0)
        {
            class.left(outcome);
        }
    }

    fn end_period(&mut self, now: Duration) {
        let measure = self.config.measure;
        // Ratios need two classes: one that has enough answers waits for another one, so that both are of the same time.
        let enough: Vec<bool> = self.classes.iter_mut().map(Class::end_period).collect();
        let is_ratio = enough.iter().filter(|enough| **enough).count() > 1;
        let mut seen = vec![Seen::default(); self.classes.len()];
        for (place, (class, enough)) in self.classes.iter_mut().zip(enough).enumerate() {
            if (enough && is_ratio) || class.is_old() {
                let mean = class.take().map(|means| means.of(measure));
                seen[place] = Seen { mean, ..self.queues.take_contests(ClassId(place)) };
            }
        }
        self.ratios.update(&seen);
        self.queues.correct(self.ratios.corrections());
        let loads: Vec<f64> = self.classes.iter().map(Class::load).collect();
        self.queues.weigh(self.ratios.weights(&loads));
        for class in (0..self.classes.len()).map(ClassId) {
            self.queues.hurry(class, self.left(class).map(|left| left / 2));
        }
        // A clock that has jumped, or a caller that has slept, does not make up for periods that are gone.
        self.period_ends = now + self.config.period;
    }

    /// Why a request that comes now must be refused.
    fn refusal(&self, class: ClassId, now: Duration) -> Option<Refusal> {
        let (config, stats) = (self.config.classes.get(class.0)?, self.classes.get(class.0)?);
        if !self.servers.served().has(class) {
            return Some(Refusal { reason: Reason::NoServer, retry_after: LEAST_RETRY });
        }
        let waiting = self.queues.len(class);
        if waiting == 0 && self.servers.room().has(class) {
            return None;
        }
        let wait = stats.expected_wait(waiting + 1, now);
        let reason = if waiting >= config.max_waiting {
            Reason::QueueFull
        } else if self.allowed_wait(class).is_some_and(|allowed| wait > allowed) {
            Reason::TooLong
        } else {
            return None;
        };
        Some(Refusal { reason, retry_after: wait.clamp(LEAST_RETRY, MOST_RETRY) })
    }

    /// What a class's objective leaves for waiting: nothing, where servers take as long for some requests.
    fn left(&self, class: ClassId) -> Option<Duration> {
        let objective = self.config.classes.get(class.0)?.objective?;
        Some(objective.saturating_sub(self.classes.get(class.0)?.tail()))
    }

    /// The same, as far as others are refused for it.
    fn budget(&self, class: ClassId) -> Option<Duration> {
        let objective = self.config.classes.get(class.0)?.objective?;
        self.left(class).map(|left| left.max(objective / LEAST_BUDGET))
    }

    /// How long a request of a class that sheds is expected to wait at most: half of what its own objective leaves, for times vary; and what
    /// a better class's objective means for this one while their ratio is held.
    fn allowed_wait(&self, class: ClassId) -> Option<Duration> {
        let config = self.config.classes.get(class.0)?;
        if !config.shed {
            return None;
        }
        let own = self.budget(class).map(|budget| budget / 2);
        let service = self.queues.service(class).unwrap_or_default();
        let others =
            (0..self.config.classes.len()).filter(|&better| self.neighbours[class.0].has(ClassId(better)));
        let by_better = others.filter_map(|better| {
            let ratio = config.ratio / self.config.classes[better].ratio;
            let budget = self.budget(ClassId(better)).filter(|_| ratio > 1.0)?;
            let of_better = budget / 2 + self.queues.service(ClassId(better)).unwrap_or_default();
            Some(of_better.mul_f64(ratio).saturating_sub(service))
        });
        by_better.chain(own).min()
    }

    /// How long a request of a class that sheds waits before it is refused after all.
    fn patience(&self, class: ClassId) -> Option<Duration> {
        self.allowed_wait(class).map(|allowed| allowed * PATIENCE)
    }

    fn next_expiry(&self) -> Option<Duration> {
        let of =
            |class| Some(self.queues.first_arrival(class)? + self.patience(class)? + Duration::from_nanos(1));
        (0..self.classes.len()).map(ClassId).filter_map(of).min()
    }

    fn expire(&mut self, class: ClassId, came_before: Duration, reason: Reason, now: Duration) {
        while let Some((waits, _)) = self.queues.pop_older(class, came_before) {
            self.classes[class.0].counters.expired += 1;
            let wait = self.classes[class.0].expected_wait(self.queues.len(class), now);
            let refusal = Refusal { reason, retry_after: wait.clamp(LEAST_RETRY, MOST_RETRY) };
            let handle = Handle { generation: self.generation, waits };
            self.ready.push_back(Ready::Expired { handle, refusal });
        }
    }
}

impl Ticket {
    /// Where to send the request.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.server
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> ClassId {
        self.class
    }

    /// How long it waited.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.admitted.saturating_sub(self.arrived)
    }
}

/// Of an objective at least this part is left for waiting, if servers take as long for some requests: else all would be refused.
const LEAST_BUDGET: u32 = 8;

/// What is expected to wait for so long, and waits this multiple of it, has waited in vain: what was expected has not come true.
const PATIENCE: u32 = 4;
