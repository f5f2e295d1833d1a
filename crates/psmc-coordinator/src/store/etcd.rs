//! State in etcd, which several coordinators share: one of them leads, and writes.
//!
//! ```text
//! PREFIX/leader             who leads; goes with its lease
//! PREFIX/head               the number of the last write, and of the last event
//! PREFIX/mitigations/NAME   where the mitigation of a service stands
//! PREFIX/blocked            clients that misbehave
//! PREFIX/granted            who may have grants
//! PREFIX/events/NUMBER      what has happened, several events in one entry
//! ```
//!
//! Every write is a transaction that holds only if the leader is who it was when its term began, and the head is as that
//! term left it. A leader that was replaced therefore changes nothing, and a write whose answer was lost is neither done
//! twice nor taken for lost.

mod client;
mod election;
mod message;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::rustls::ClientConfig;

use self::client::Client;
use self::message::{Compare, KeyValue, Range, RangeAnswer, Step, Txn, TxnAnswer, behind};
use super::{Batch, Contents, Event, Granted, MAX_EVENTS, Pending, Store, StoreError};
use crate::mitigation::State;

pub use client::{EtcdError, Member};
pub use election::{Candidate, Lead, Outlook};

/// Mitigations that one transaction changes: etcd takes 128 steps (`--max-txn-ops`), and there are others.
const MAX_AT_ONCE: usize = 100;

/// The pause before a write is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// State in etcd.
#[derive(Debug)]
pub struct Etcd {
    prefix: String,
    writer: Client,
    /// For those who want to know what has happened, so that the writer waits for none of them.
    reader: Client,
    term: Mutex<Option<Term>>,
}

/// The time in which this coordinator leads.
#[derive(Debug)]
struct Term {
    /// At which revision it became the leader.
    leader: i64,
    /// When it has to have stopped.
    until: watch::Receiver<Instant>,
    head: Head,
    /// At which revision the head was written.
    head_revision: i64,
    /// The number of the last write that was tried; one that was refused may have been done before, without an answer.
    tried: u64,
}

/// The last write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// Whose it was: at which revision he became the leader.
    leader: i64,
    /// Which of his it was.
    write: u64,
    /// The number of the last event.
    event: u64,
}

impl Etcd {
    /// State under `prefix` in the cluster that has these members, of which there is one at least. Nothing is called yet.
    #[must_use]
    pub fn new(members: &[Member], prefix: &str, tls: Option<Arc<ClientConfig>>) -> Self {
        let writer = Client::new(members.into(), tls);
        let reader = writer.another();
        Self { prefix: prefix.to_owned(), writer, reader, term: Mutex::default() }
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.prefix).into_bytes()
    }

    fn mitigation_key(&self, service: &str) -> Vec<u8> {
        self.key(&format!("mitigations/{service}"))
    }

    /// Keys are in the order of their bytes.
    fn event_key(&self, number: u64) -> Vec<u8> {
        self.key(&format!("events/{number:020}"))
    }

    async fn read(&self, term: &mut Term) -> Result<Contents, StoreError> {
        let prefix = format!("{}/mitigations/", self.prefix);
        let all = Range { key: prefix.clone().into_bytes(), range_end: behind(&prefix), ..Range::default() };
        let mitigations: RangeAnswer = self.ask(term, message::RANGE, &all).await?;
        let one = |name: &str| Step::Range(Range { key: self.key(name), ..Range::default() });
        let others = Txn {
            compare: Vec::new(),
            success: vec![one(HEAD), one(BLOCKED), one(GRANTED)],
            failure: Vec::new(),
        };
        let others: TxnAnswer = self.ask(term, message::TXN, &others).await?;
        if let Some(head) = others.found(0) {
            (term.head, term.head_revision) = (decode(HEAD, head)?, head.mod_revision);
        }
        let mitigation = |entry: &KeyValue| {
            let service = String::from_utf8_lossy(&entry.key[prefix.len()..]).into_owned();
            decode::<State>(&service, entry).map(|state| (service, state))
        };
        Ok(Contents {
            mitigations: mitigations.kvs.iter().map(mitigation).collect::<Result<_, _>>()?,
            blocked: others.found(1).map_or_else(|| Ok(Vec::new()), |entry| decode(BLOCKED, entry))?,
            granted: others
                .found(2)
                .map_or_else(|| Ok(Granted::default()), |entry| decode(GRANTED, entry))?,
        })
    }

    /// Writes a part of a batch.
    async fn write(&self, term: &mut Term, steps: &[Step], events: &[Event]) -> Result<(), StoreError> {
        while !self.try_to_write(term, steps.to_vec(), events).await? {}
        Ok(())
    }

    /// Writes it, unless an earlier write turns out to have been done, which makes this term's head another one.
    async fn try_to_write(
        &self,
        term: &mut Term,
        mut steps: Vec<Step>,
        events: &[Event],
    ) -> Result<bool, StoreError> {
        term.tried = term.tried.max(term.head.write) + 1;
        let mut head = Head { leader: term.leader, write: term.tried, ..term.head };
        if !events.is_empty() {
            steps.push(Step::put(self.event_key(head.event + 1), encode("events", &events)?));
            head.event += u64::try_from(events.len()).unwrap_or_default();
            let oldest = head.event.saturating_sub(u64::from(MAX_EVENTS)) + 1;
            steps.push(Step::Delete { key: self.event_key(0), range_end: self.event_key(oldest) });
        }
        steps.push(Step::put(self.key(HEAD), encode(HEAD, &head)?));
        let one = |name: &str| Step::Range(Range { key: self.key(name), ..Range::default() });
        let txn = Txn {
            compare: vec![
                Compare::Created { key: self.key(LEADER), revision: term.leader },
                Compare::Changed { key: self.key(HEAD), revision: term.head_revision },
            ],
            success: steps,
            failure: vec![one(HEAD), one(LEADER)],
        };
        let answer: TxnAnswer = self.ask(term, message::TXN, &txn).await?;
        if answer.succeeded {
            term.head_revision = answer.header.revision;
        } else {
            // What was asked before may have been done, and only the answer lost.
            let found = answer.found(0).ok_or(StoreError::Deposed)?;
            let still_leads = answer.found(1).is_some_and(|leader| leader.create_revision == term.leader);
            let written = decode::<Head>(HEAD, found)?;
            let is_earlier =
                written.leader == term.leader && (term.head.write + 1..head.write).contains(&written.write);
            if !still_leads || (written != head && !is_earlier) {
                return Err(StoreError::Deposed);
            }
            term.head_revision = found.mod_revision;
            if is_earlier {
                term.head = written;
                return Ok(false);
            }
        }
        term.head = head;
        Ok(true)
    }

    /// Asks until there is an answer, or the term is over, or etcd says that it takes somebody to do something first.
    async fn ask<A: DeserializeOwned>(
        &self,
        term: &Term,
        path: &'static str,
        request: &impl Serialize,
    ) -> Result<A, StoreError> {
        let mut is_told = false;
        loop {
            let until = *term.until.borrow();
            if until <= Instant::now() {
                return Err(StoreError::Deposed);
            }
            match timeout_at(until, self.writer.call(path, request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if error.is_final() => return Err(error.into()),
                Ok(Err(error)) if !is_told => {
                    is_told = true;
                    tracing::warn!(error = crate::error_chain(&error), "retrying etcd");
                }
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }
}

impl Store for Etcd {
    fn load(&self) -> Pending<'_, Contents> {
        Box::pin(async {
            let mut term = self.term.lock().await;
            self.read(term.as_mut().ok_or(StoreError::Deposed)?).await
        })
    }

    fn commit(&self, batch: Batch) -> Pending<'_, ()> {
        Box::pin(async move {
            let mut term = self.term.lock().await;
            let term = term.as_mut().ok_or(StoreError::Deposed)?;
            let mut parts = batch.mitigations.chunks(MAX_AT_ONCE);
            let mut steps = self.mitigations(parts.next().unwrap_or_default())?;
            if let Some(blocked) = &batch.blocked {
                steps.push(Step::put(self.key(BLOCKED), encode(BLOCKED, blocked)?));
            }
            if let Some(granted) = &batch.granted {
                steps.push(Step::put(self.key(GRANTED), encode(GRANTED, granted)?));
            }
            self.write(term, &steps, &batch.events).await?;
            for part in parts {
                self.write(term, &self.mitigations(part)?, &[]).await?;
            }
            // Whoever acts on it later than that may not be the only one.
            if *term.until.borrow() <= Instant::now() { Err(StoreError::Deposed) } else { Ok(()) }
        })
    }

    fn events(&self, count: u32) -> Pending<'_, Vec<Event>> {
        Box::pin(async move {
            let prefix = format!("{}/events/", self.prefix);
            let range = Range {
                key: prefix.clone().into_bytes(),
                range_end: behind(&prefix),
                limit: count.max(1).into(),
                sort_order: Some("DESCEND"),
            };
            let found: RangeAnswer = self.reader.call(message::RANGE, &range).await?;
            let mut events = Vec::new();
            for entry in &found.kvs {
                let together: Vec<Event> = decode("events", entry)?;
                events.extend(together.into_iter().rev());
            }
            events.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            Ok(events)
        })
    }
}

impl Etcd {
    fn mitigations(&self, mitigations: &[(String, State)]) -> Result<Vec<Step>, StoreError> {
        let put = |(service, state): &(String, State)| {
            Ok(Step::put(self.mitigation_key(service), encode(service, state)?))
        };
        mitigations.iter().map(put).collect()
    }
}

const LEADER: &str = "leader";
const HEAD: &str = "head";
const BLOCKED: &str = "blocked";
const GRANTED: &str = "granted";

fn encode(name: &str, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError::Entry(name.to_owned(), error))
}

fn decode<T: DeserializeOwned>(name: &str, entry: &KeyValue) -> Result<T, StoreError> {
    serde_json::from_slice(&entry.value).map_err(|error| StoreError::Entry(name.to_owned(), error))
}
