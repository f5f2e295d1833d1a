//! Who decides: a coordinator alone, or one of several at a time.

use std::sync::Arc;
use std::time::Instant;

use psmc_net::tls::Counters;
use psmc_signal::Message;
use tokio::sync::{mpsc, watch};

use crate::config::{Config, StoreAddress};
use crate::engine::{Input, OrderError, not_leading};
use crate::status::Status;
use crate::store::{Candidate, Etcd, Lead, Sqlite, Store, StoreError};
use crate::suricata::Eve;

/// Whether this coordinator decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Leads,
    /// It waits until nobody else does.
    StandsBy {
        /// Who does, if that is known.
        leader: Option<String>,
        /// What keeps this coordinator from leading, if that is not another one.
        trouble: Option<String>,
    },
}

impl Standing {
    /// Why gateways and clients are to go elsewhere.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Leads => None,
            Self::StandsBy { leader, trouble } => Some(not_leading(leader.as_deref(), trouble.as_deref())),
        }
    }
}

/// Where state is kept, and what it takes to be the one who changes it.
#[derive(Debug)]
pub enum Seat {
    /// Nobody else has this state.
    Alone(Arc<Sqlite>),
    /// Others have it too.
    Shared(Arc<Etcd>, Candidate),
}

/// A time in which this coordinator decides. The work it does ends before it is dropped.
#[derive(Debug)]
pub struct Term(Option<Lead>);

impl Seat {
    /// The seat that the configuration says.
    ///
    /// # Errors
    /// [`StoreError`], if a database cannot be used. etcd may come later.
    pub fn open(config: &Config) -> Result<Self, StoreError> {
        Ok(match &config.store {
            StoreAddress::Sqlite(path) => Self::Alone(Arc::new(Sqlite::open(path)?)),
            StoreAddress::Etcd { members, prefix } => {
                let candidate = Candidate {
                    name: config.name.to_string(),
                    public_key: config.private_key.public().to_string(),
                };
                Self::Shared(Arc::new(Etcd::new(members, prefix, config.etcd_tls.clone())), candidate)
            }
        })
    }

    /// Where state is kept.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Alone(store) => store.clone(),
            Self::Shared(store, _) => store.clone(),
        }
    }

    /// Waits until this coordinator decides; `standing` says so then, and meanwhile who does.
    pub async fn take(&self, standing: &watch::Sender<Standing>) -> Term {
        let lead = match self {
            Self::Alone(_) => None,
            Self::Shared(store, candidate) => {
                let (tell, mut told) = watch::channel(Ok(None));
                let pass_on = async {
                    loop {
                        let (leader, trouble) = match told.borrow_and_update().clone() {
                            Ok(leader) => (leader, None),
                            Err(trouble) => (None, Some(trouble)),
                        };
                        standing.send_replace(Standing::StandsBy { leader, trouble });
                        if told.changed().await.is_err() {
                            return std::future::pending().await;
                        }
                    }
                };
                tokio::select! {
                    lead = store.campaign(candidate, &tell) => Some(lead),
                    () = pass_on => None,
                }
            }
        };
        standing.send_replace(Standing::Leads);
        Term(lead)
    }
}

impl Term {
    /// Ready when this coordinator has to have stopped: never, if it is alone.
    pub async fn is_over(&self) {
        match &self.0 {
            Some(lead) => lead.is_over().await,
            None => std::future::pending().await,
        }
    }

    /// Lets others lead at once.
    pub async fn resign(self) {
        if let Some(lead) = self.0 {
            lead.resign().await;
        }
    }
}

/// Answers in the place of an engine, for as long as another coordinator decides.
pub struct Standby<'a> {
    /// Its own name.
    pub name: String,
    /// Since when it runs.
    pub started: Instant,
    /// How handshakes ended.
    pub handshakes: &'a Counters,
    /// How it goes with Suricata's events.
    pub eve: &'a Eve,
    /// Who decides.
    pub standing: watch::Receiver<Standing>,
}

impl Standby<'_> {
    /// Answers until nobody is left who could say anything.
    pub async fn run(&self, inputs: &mut mpsc::Receiver<Input>) {
        while let Some(input) = inputs.recv().await {
            self.answer(input);
        }
    }

    fn answer(&self, input: Input) {
        let (leader, trouble) = match &*self.standing.borrow() {
            Standing::StandsBy { leader, trouble } => (leader.clone(), trouble.clone()),
            Standing::Leads => (None, None),
        };
        let why = not_leading(leader.as_deref(), trouble.as_deref());
        // Sending fails only for those who do not wait any more.
        match input {
            Input::Order { done, .. } => drop(done.send(Err(OrderError::NotLeading(why)))),
            Input::Status(asker) => {
                let up = self.started.elapsed();
                let status =
                    Status::of_standby(self.name.clone(), leader, up, self.handshakes, self.eve.status());
                drop(asker.send(Status { not_kept: trouble, ..status }));
            }
            // It was let in at the end of a term.
            Input::Joined(joined) => {
                drop(joined.outgoing.try_send(Message::Refused { reason: why }));
            }
            // The rest of a term, or what the next one begins with anyway.
            Input::Said { .. }
            | Input::Left(_)
            | Input::Relay(_)
            | Input::Published(_)
            | Input::Configured(_) => {}
        }
    }
}
