//! Who leads: whoever has made the key, which goes with a lease that only he renews.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::client::{Client, EtcdError};
use super::message::{
    Compare, Done, GRANT, Grant, Granted, KEEP_ALIVE, Lasts, LeaseId, RANGE, REVOKE, Range, RangeAnswer,
    Step, Streamed, TXN, Txn, TxnAnswer,
};
use super::{Etcd, Head, LEADER, Term};

/// How long a leader that says nothing remains the leader, in seconds: long enough for etcd to elect a leader of its own
/// meanwhile, which takes one or two.
const LEASE_S: i64 = 5;

/// How much earlier than its lease ends a leader stops. The lease begins when etcd hears of it, and time is counted
/// here from before that was said; so this is for what is under way, and for clocks that run at different rates.
const MARGIN: Duration = Duration::from_secs(1);

/// How often a lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// How often those who do not lead look whether somebody does.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The pause before a renewal that failed is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// What is kept of the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The coordinator's name.
    pub name: String,
    /// The public key that relays, guards and clients know: all coordinators of one state have the same.
    pub public_key: String,
}

/// Who leads, if anybody does; or why that cannot be found out, or nobody can begin to.
pub type Outlook = Result<Option<String>, String>;

/// This coordinator leads, until that is over.
#[derive(Debug)]
pub struct Lead {
    client: Client,
    lease: LeaseId,
    until: watch::Receiver<Instant>,
    renewal: JoinHandle<()>,
}

/// What came of an attempt to lead.
enum Attempt {
    Won(Lead, i64),
    /// To whom, if he is still there.
    Lost(Option<Candidate>),
}

impl Etcd {
    /// Waits until nobody else leads, and leads. Meanwhile `leader` is told who does, or why that cannot be found out, or nobody
    /// can begin to.
    pub async fn campaign(&self, this: &Candidate, leader: &watch::Sender<Outlook>) -> Lead {
        let client = self.reader.another();
        loop {
            let other = match self.attempt(&client, this).await {
                Ok(Attempt::Won(lead, revision)) => {
                    let term = Term {
                        leader: revision,
                        until: lead.until.clone(),
                        head: Head::default(),
                        head_revision: 0,
                        tried: 0,
                    };
                    *self.term.lock().await = Some(term);
                    return lead;
                }
                Ok(Attempt::Lost(other)) => Ok(other),
                Err(error) => Err(crate::error_chain(&error)),
            };
            if let Some(other) = other
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .filter(|other| other.public_key != this.public_key)
            {
                let (name, key) = (&other.name, &other.public_key);
                tracing::error!(
                    name,
                    key,
                    "the leader has a different private key: give all coordinators the same one"
                );
            }
            let is_news = leader.send_if_modified(|known| {
                let outlook = other.map(|other| other.map(|other| other.name));
                let is_news = *known != outlook;
                *known = outlook;
                is_news
            });
            if is_news {
                match &*leader.borrow() {
                    Ok(leader) => tracing::info!(leader, "on standby"),
                    Err(error) => tracing::warn!(error, "on standby, cannot become leader"),
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn attempt(&self, client: &Client, this: &Candidate) -> Result<Attempt, EtcdError> {
        let key = self.key(LEADER);
        let range = Range { key: key.clone(), ..Range::default() };
        let found: RangeAnswer = client.call(RANGE, &range).await?;
        if let Some(leader) = found.kvs.first() {
            return Ok(Attempt::Lost(Some(candidate(&leader.value))));
        }
        let asked = Instant::now();
        let Granted { lease, lasts } = client.call(GRANT, &Grant { ttl: LEASE_S }).await?;
        let value = serde_json::to_vec(this).unwrap_or_default();
        let txn = Txn {
            compare: vec![Compare::Created { key: key.clone(), revision: 0 }],
            success: vec![Step::Put { key, value, lease: lease.id }],
            failure: vec![Step::Range(range)],
        };
        let answer: TxnAnswer = client.call(TXN, &txn).await?;
        let revision = match answer.found(0) {
            None if answer.succeeded => answer.header.revision,
            // It was done by a member that did not say so.
            Some(leader) if leader.lease == lease.id => leader.create_revision,
            other => {
                revoke(client, lease).await;
                return Ok(Attempt::Lost(other.map(|leader| candidate(&leader.value))));
            }
        };
        Ok(Attempt::Won(Lead::begin(client.another(), lease, end(asked, lasts)), revision))
    }
}

impl Lead {
    fn begin(client: Client, lease: LeaseId, first: Instant) -> Self {
        let (sender, until) = watch::channel(first);
        let renewal = tokio::spawn(renew(client.another(), lease, sender));
        Self { client, lease, until, renewal }
    }

    /// Ready when this coordinator has to have stopped: before its lease ends by the clock of etcd.
    pub async fn is_over(&self) {
        let mut until = self.until.clone();
        loop {
            let end = *until.borrow_and_update();
            if end <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(end) => {}
                renewed = until.changed() => if renewed.is_err() {
                    // Nobody renews it any more.
                    return sleep_until(end).await;
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn lease(&self) -> LeaseId {
        self.lease
    }

    /// Lets others lead at once. Whatever the leader does has to have ended before.
    pub async fn resign(self) {
        self.renewal.abort();
        revoke(&self.client, self.lease).await;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Renews the lease as long as it lasts.
async fn renew(client: Client, lease: LeaseId, until: watch::Sender<Instant>) {
    loop {
        sleep(RENEW_EVERY).await;
        while *until.borrow() > Instant::now() {
            let asked = Instant::now();
            match client.call::<Streamed<Lasts>>(KEEP_ALIVE, &lease).await {
                Ok(Streamed { result }) => {
                    // A lease that is gone lasts for no time.
                    until.send_replace(end(asked, result));
                    break;
                }
                Err(error) => {
                    tracing::warn!(error = crate::error_chain(&error), "lease not renewed; retrying");
                    sleep(PAUSE).await;
                }
            }
        }
        if *until.borrow() <= Instant::now() {
            return;
        }
    }
}

/// When to have stopped by a lease that was asked for at that time.
fn end(asked: Instant, lasts: Lasts) -> Instant {
    let lasts = Duration::from_secs(u64::try_from(lasts.ttl).unwrap_or_default());
    asked + lasts.saturating_sub(MARGIN)
}

/// What cannot be said ends by itself, a little later.
async fn revoke(client: &Client, lease: LeaseId) {
    if let Err(error) = client.call::<Done>(REVOKE, &lease).await {
        tracing::debug!(error = crate::error_chain(&error), "a lease is left to end");
    }
}

/// Who leads; what cannot be read was written by another release.
fn candidate(value: &[u8]) -> Candidate {
    let unknown = || Candidate { name: "another release".to_owned(), public_key: String::new() };
    serde_json::from_slice(value).unwrap_or_else(|_| unknown())
}
