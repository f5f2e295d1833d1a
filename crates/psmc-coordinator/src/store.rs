//! Where state is kept: what is acknowledged is there first.

mod etcd;
mod sqlite;

use std::collections::BTreeMap;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::mitigation::{Moment, State};

pub use etcd::{Candidate, Etcd, EtcdError, Lead, Member, Outlook};
pub use sqlite::Sqlite;

/// Events that are kept of the past: a year with twenty of them a day, and an attack now and then.
pub const MAX_EVENTS: u32 = 10_000;

/// Why state cannot be kept, or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// SQLite complains.
    #[error("the database cannot be used: check its path, its rights and the room on the disk")]
    Database(#[from] rusqlite::Error),
    /// Its directory cannot be made.
    #[error("cannot make the directory of the database: check its path and its rights")]
    Directory(#[source] std::io::Error),
    /// It was made by a newer release.
    #[error("the database has the form {0}: it takes the release that made it")]
    Version(i64),
    /// An entry cannot be read.
    #[error("what is kept of {0} cannot be read: restore it from a backup, or move it away to begin anew")]
    Entry(String, #[source] serde_json::Error),
    /// Nothing is known of what etcd keeps.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// This coordinator does not lead any more: what was to be kept is not, or not for sure.
    #[error("this coordinator does not lead any more")]
    Deposed,
    /// The thread that waits for the disk has panicked.
    #[error("the database was lost: look at the log for a panic before this")]
    Lost,
}

/// Something that happened, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub time: Moment,
    /// The service that it is about.
    pub service: String,
    /// The mitigation of it.
    pub mitigation: u64,
    /// What.
    pub text: String,
}

/// All that outlives the program, but for the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// The mitigations by their services' names.
    pub mitigations: BTreeMap<String, State>,
    /// Clients that misbehave, by name.
    pub blocked: Vec<String>,
}

/// What changes together: all of it, or nothing. In etcd that holds of a hundred mitigations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Mitigations as they are from now on.
    pub mitigations: Vec<(String, State)>,
    /// The whole list of clients that misbehave, if it has changed.
    pub blocked: Option<Vec<String>>,
    /// What has happened.
    pub events: Vec<Event>,
}

impl Batch {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mitigations.is_empty() && self.blocked.is_none() && self.events.is_empty()
    }
}

/// What will come of a call.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where state is kept.
pub trait Store: Send + Sync {
    /// What is kept.
    fn load(&self) -> Pending<'_, Contents>;

    /// Keeps what has changed. When this is done it is where no power failure reaches.
    ///
    /// After [`StoreError::Deposed`] nothing may be done any more: somebody else goes on.
    fn commit(&self, batch: Batch) -> Pending<'_, ()>;

    /// The last `count` events, the latest first.
    fn events(&self, count: u32) -> Pending<'_, Vec<Event>>;
}
