//! Servers that share their processors among requests, and an open loop of requests in front of them, in virtual time.
//!
//! Requests of classes come whether or not others were answered ([`Arrivals`]), and each asks for some work ([`Work`]). What a server has
//! at once shares its processors evenly, none having more than one. A [`Front`] says which server has which request when. What comes,
//! and what it asks for, depends on the seed alone: every front sees the same.

mod server;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::link::Dice;
use server::Server;
use source::Source;
pub use source::{Arrivals, ClassSetup, Work};

/// Servers, and who asks them.
#[derive(Clone, Debug)]
pub struct FarmSetup {
    /// The servers.
    pub servers: Vec<ServerSetup>,
    /// The classes of requests.
    pub classes: Vec<ClassSetup>,
    /// From when on how much of the classes' rates comes; all until the first of these.
    pub steps: Vec<(Duration, f64)>,
}

/// A server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSetup {
    /// Its processors.
    pub processors: f64,
    /// Seconds of work that one of them does in a second.
    pub speed: f64,
}

/// A request, by its number.
pub type RequestId = u64;

/// Who decides which request has which server when.
pub trait Front {
    /// A request has come.
    fn arrive(&mut self, request: RequestId, class: usize, now: Duration);

    /// A server has answered a request.
    fn answered(&mut self, request: RequestId, now: Duration);

    /// Time has passed.
    fn tick(&mut self, now: Duration);

    /// When to call `tick`, besides after everything else.
    fn next_tick(&self) -> Option<Duration>;

    /// What has been decided, one after the other. Asked for after each of the above.
    fn poll(&mut self) -> Option<Decision>;
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// A server, by its place, has it.
    Serve(RequestId, usize),
    /// It is refused.
    Refuse(RequestId),
    /// Each processor of a server is as fast from now on.
    Speed(usize, f64),
}

/// A request that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Over {
    /// Of which class.
    pub class: usize,
    /// When it came.
    pub arrived: Duration,
    /// When a server had it; `None` if it was refused.
    pub started: Option<Duration>,
    /// When it was answered, or refused.
    pub ended: Duration,
}

/// The servers in motion.
pub struct Farm {
    servers: Vec<Server>,
    sources: Vec<Source>,
    steps: Vec<(Duration, f64)>,
    requests: BTreeMap<RequestId, Request>,
    next_request: RequestId,
    now: Duration,
}

struct Request {
    class: usize,
    arrived: Duration,
    /// Seconds of a processor of speed 1.
    work: f64,
    started: Option<Duration>,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Step,
    Answer(usize),
    Arrival(usize),
    Tick,
}

impl Farm {
    /// Before anything has come.
    #[must_use]
    pub fn new(setup: &FarmSetup, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut sources: Vec<Source> = setup
            .classes
            .iter()
            .zip(1..)
            .map(|(class, number)| {
                Source::new(class.clone(), seed.wrapping_mul(1_000_003).wrapping_add(number))
            })
            .collect();
        for source in &mut sources {
            // Not all at the same place of a burst.
            source.begin(dice.uniform());
        }
        let mut steps = setup.steps.clone();
        steps.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let servers = setup.servers.iter().map(|&setup| Server::new(setup)).collect();
        Self { servers, sources, steps, requests: BTreeMap::new(), next_request: 0, now: Duration::ZERO }
    }

    /// Lets time pass until then, and yields what was over by then, in the order in which it ended.
    pub fn run(&mut self, front: &mut dyn Front, until: Duration) -> Vec<Over> {
        let mut over = Vec::new();
        while let Some((at, event)) = self.next(front).filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            self.happen(event, front, &mut over);
            self.decide(front, &mut over);
        }
        self.now = until;
        over
    }

    fn next(&self, front: &dyn Front) -> Option<(Duration, Event)> {
        let step = self.steps.last().map(|(at, _)| (*at, Event::Step));
        let answers = self.servers.iter().enumerate();
        let answers =
            answers.filter_map(|(place, server)| Some((server.next(self.now)?, Event::Answer(place))));
        let arrivals = self.sources.iter().enumerate();
        let arrivals = arrivals.filter_map(|(place, source)| Some((source.next()?, Event::Arrival(place))));
        let tick = front.next_tick().map(|at| (at, Event::Tick));
        answers.chain(arrivals).chain(step).chain(tick).min()
    }

    fn happen(&mut self, event: Event, front: &mut dyn Front, over: &mut Vec<Over>) {
        match event {
            Event::Step => {
                if let Some((_, factor)) = self.steps.pop() {
                    for source in &mut self.sources {
                        source.scale(factor, self.now);
                    }
                }
            }
            Event::Answer(server) => {
                for id in self.servers[server].advance(self.now) {
                    if let Some(Request { class, arrived, started, .. }) = self.requests.remove(&id) {
                        over.push(Over { class, arrived, started, ended: self.now });
                    }
                    front.answered(id, self.now);
                    self.decide(front, over);
                }
            }
            Event::Arrival(class) => {
                if let Some(work) = self.sources[class].arrive(self.now) {
                    let id = self.next_request;
                    self.next_request += 1;
                    self.requests.insert(id, Request { class, arrived: self.now, work, started: None });
                    front.arrive(id, class, self.now);
                }
            }
            Event::Tick => front.tick(self.now),
        }
    }

    fn decide(&mut self, front: &mut dyn Front, over: &mut Vec<Over>) {
        while let Some(decision) = front.poll() {
            match decision {
                Decision::Serve(id, server) => {
                    if let Some(request) = self.requests.get_mut(&id) {
                        request.started = Some(self.now);
                        self.servers[server].start(id, request.work, self.now);
                    }
                }
                Decision::Speed(server, speed) => self.servers[server].set_speed(speed, self.now),
                Decision::Refuse(id) => {
                    if let Some(Request { class, arrived, .. }) = self.requests.remove(&id) {
                        over.push(Over { class, arrived, started: None, ended: self.now });
                    }
                }
            }
        }
    }
}
