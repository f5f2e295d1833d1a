//! From a question to its answer: out of the cache, from another who asks the same, or from an upstream server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tokio::sync::watch;
use tokio::time::timeout;

use super::cache::{Bounds, Cache, Found};
use super::limit::{Load, Place};
use super::question::Question;
use super::reply::Reply;
use super::status::Counters;
use super::upstream::Upstreams;

/// How long a fresh answer is waited for where an expired one is at hand (RFC 8767 §5: 1.8 s).
const STALE_AFTER: Duration = Duration::from_millis(1800);

/// Of the entries and bytes of the cache, the absence of names has one in so many: random names fill no more.
const NEGATIVE_SHARE: usize = 4;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    /// A client at this address, which has its share of what can be under way.
    Client(IpAddr),
    /// The resolver itself, or a client for the address of a service: there are only so many of them.
    Service,
}

/// All that answers questions.
pub(super) struct Lookup {
    upstreams: Upstreams,
    counters: Arc<Counters>,
    state: Mutex<State>,
}

struct State {
    positive: Cache,
    negative: Cache,
    /// Whoever has the sender is on its way to the answer.
    under_way: HashMap<Question, watch::Receiver<Option<Reply>>>,
    load: Load,
}

/// Where an answer comes from.
enum Way {
    Here(Reply),
    Soon { answer: watch::Receiver<Option<Reply>>, stale: Option<Reply> },
}

impl Lookup {
    pub(super) fn new(upstreams: Upstreams, bounds: Bounds, counters: Arc<Counters>) -> Arc<Self> {
        let negative =
            Bounds { entries: bounds.entries / NEGATIVE_SHARE, bytes: bounds.bytes / NEGATIVE_SHARE };
        let positive =
            Bounds { entries: bounds.entries - negative.entries, bytes: bounds.bytes - negative.bytes };
        let state = State {
            positive: Cache::new(positive),
            negative: Cache::new(negative),
            under_way: HashMap::new(),
            load: Load::default(),
        };
        Arc::new(Self { upstreams, counters, state: Mutex::new(state) })
    }

    /// The answer to a question. There always is one, be it that there is none.
    pub(super) async fn answer(self: &Arc<Self>, question: &Question, asker: Asker) -> Reply {
        match self.way(question, asker) {
            Way::Here(reply) => reply,
            Way::Soon { answer, stale: None } => arrived(answer).await,
            Way::Soon { answer, stale: Some(stale) } => match timeout(STALE_AFTER, arrived(answer)).await {
                Ok(reply) if reply.is_final() => reply,
                Ok(_) | Err(_) => {
                    self.counters.stale();
                    stale
                }
            },
        }
    }

    /// The answer of the upstream servers at this moment; `None` if there is none.
    pub(super) async fn ask_now(&self, question: &Question) -> Option<Reply> {
        self.upstreams.ask(question).await.filter(Reply::is_final)
    }

    pub(super) fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// How many answers are kept, about how many bytes they take, and how many questions are under way.
    pub(super) fn size(&self) -> (usize, usize, usize) {
        let state = self.state();
        let ((entries, bytes), (more, more_bytes)) = (state.positive.size(), state.negative.size());
        (entries + more, bytes + more_bytes, state.under_way.len())
    }

    fn way(self: &Arc<Self>, question: &Question, asker: Asker) -> Way {
        let mut state = self.state();
        let stale = match state.find(question, Instant::now()) {
            Some(Found::Fresh(reply)) => {
                self.counters.cache_hits();
                return Way::Here(reply);
            }
            Some(Found::Stale { reply, is_to_be_renewed: false }) => {
                self.counters.stale();
                return Way::Here(reply);
            }
            Some(Found::Stale { reply, is_to_be_renewed: true }) => Some(reply),
            None => None,
        };
        if let Some(answer) = state.under_way.get(question) {
            self.counters.merged();
            return Way::Soon { answer: answer.clone(), stale };
        }
        let place = match asker {
            Asker::Service => None,
            Asker::Client(source) => match state.load.enter(source, question.domain()) {
                Some(place) => Some(place),
                None => {
                    self.counters.limited();
                    return Way::Here(stale.unwrap_or_else(|| Reply::of_code(ResponseCode::ServFail)));
                }
            },
        };
        let (sender, answer) = watch::channel(None);
        state.under_way.insert(question.clone(), answer.clone());
        self.counters.forwarded();
        tokio::spawn(Arc::clone(self).fetch(question.clone(), place, sender));
        Way::Soon { answer, stale }
    }

    /// Goes on even if nobody waits any longer: the next one finds the answer in the cache.
    async fn fetch(
        self: Arc<Self>,
        question: Question,
        place: Option<Place>,
        sender: watch::Sender<Option<Reply>>,
    ) {
        let answer = self.upstreams.ask(&question).await;
        let reply = answer.unwrap_or_else(|| Reply::of_code(ResponseCode::ServFail));
        let mut state = self.state();
        if reply.is_final() {
            state.keep(&question, &reply, Instant::now());
        } else {
            self.counters.failed();
            state.failed(&question, &reply, Instant::now());
        }
        state.under_way.remove(&question);
        if let Some(place) = place {
            state.load.leave(&place);
        }
        drop(state);
        // Those who waited may all have gone.
        let _ = sender.send(Some(reply));
    }

    /// Its parts agree after each statement, so a thread that panicked with it has left nothing half done that matters.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&mut self, question: &Question, now: Instant) -> Option<Found> {
        match self.positive.get(question, now) {
            Some(found) => Some(found),
            None => self.negative.get(question, now),
        }
    }

    /// A name that is there counts no longer as one that is not, and the other way round.
    fn keep(&mut self, question: &Question, reply: &Reply, now: Instant) {
        let (into, out_of) = match reply.is_negative() {
            true => (&mut self.negative, &mut self.positive),
            false => (&mut self.positive, &mut self.negative),
        };
        out_of.forget(question);
        into.insert(question, reply, now);
    }

    fn failed(&mut self, question: &Question, failure: &Reply, now: Instant) {
        if self.positive.has(question) {
            self.positive.failed(question, failure, now);
        } else {
            self.negative.failed(question, failure, now);
        }
    }
}

async fn arrived(mut answer: watch::Receiver<Option<Reply>>) -> Reply {
    match answer.wait_for(Option::is_some).await {
        Ok(reply) => reply.clone(),
        // Whoever was on its way to the answer has gone.
        Err(_) => None,
    }
    .unwrap_or_else(|| Reply::of_code(ResponseCode::ServFail))
}
