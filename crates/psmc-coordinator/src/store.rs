//! Where state is kept, a SQLite database of this machine or etcd: what is acknowledged is there first.

mod etcd;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use etcd::{Candidate, Etcd, EtcdError, Lead, Member, Outlook};

use crate::mitigation::{Moment, State};

/// Events that are kept of the past: a year with twenty of them a day, and an attack now and then.
pub const MAX_EVENTS: u32 = 10_000;

/// Why state cannot be kept, or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// SQLite complains.
    #[error("cannot use the database: check its path, its permissions and the free disk space")]
    Database(#[from] rusqlite::Error),
    /// Its directory cannot be made.
    #[error("cannot create the database directory: check its path and permissions")]
    Directory(#[source] std::io::Error),
    /// It was made by a newer release.
    #[error("the database has schema version {0}: use the release that created it")]
    Version(i64),
    /// An entry cannot be read.
    #[error(
        "the stored state of {0} is unreadable: restore it from a backup, or move it away to start again"
    )]
    Entry(String, #[source] serde_json::Error),
    /// Nothing is known of what etcd keeps.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// This coordinator does not lead any more: what was to be kept is not, or not for sure.
    #[error("this coordinator is no longer the leader")]
    Deposed,
    /// The thread that waits for the disk has panicked.
    #[error("the database thread is gone: see the log for an earlier panic")]
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

/// Who may have grants that are good, by public keys in Base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Who is given some.
    pub holders: BTreeSet<String>,
    /// How long these are good at most, in seconds.
    pub longest_s: u64,
    /// Whose are not good any more, and until when relays have to know that, in seconds of Unix time; 0 if they are good again.
    pub void: BTreeMap<String, u64>,
}

/// All that outlives the program, but for the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// The mitigations by their services' names.
    pub mitigations: BTreeMap<String, State>,
    /// Clients that misbehave, by name.
    pub blocked: Vec<String>,
    /// Who may have grants.
    pub granted: Granted,
}

/// What changes together: all of it, or nothing. In etcd that holds of a hundred mitigations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Mitigations as they are from now on.
    pub mitigations: Vec<(String, State)>,
    /// The whole list of clients that misbehave, if it has changed.
    pub blocked: Option<Vec<String>>,
    /// All who may have grants, if that has changed.
    pub granted: Option<Granted>,
    /// What has happened.
    pub events: Vec<Event>,
}

impl Batch {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mitigations.is_empty()
            && self.blocked.is_none()
            && self.granted.is_none()
            && self.events.is_empty()
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

/// How long another program may keep the database, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The form of the tables.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE mitigation (service TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE event (
        number INTEGER PRIMARY KEY, time INTEGER NOT NULL, service TEXT NOT NULL, mitigation INTEGER NOT NULL,
        text TEXT NOT NULL
    );
    CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
";

/// The name of the setting that has the clients that misbehave.
const BLOCKED: &str = "blocked";

/// That of those who may have grants.
const GRANTED: &str = "granted";

/// A database. Its calls wait for the disk in threads of their own.
#[derive(Clone, Debug)]
pub struct Sqlite(Arc<Mutex<Connection>>);

impl Sqlite {
    /// Opens the database, and makes it, and its directory, where there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(StoreError::Directory)?;
        }
        Self::prepare(Connection::open(path)?)
    }

    /// A database that is forgotten at the end.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::prepare(Connection::open_in_memory()?)
    }

    fn prepare(connection: Connection) -> Result<Self, StoreError> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // What is acknowledged was committed before, and a commit is on the disk.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => {
                connection.execute_batch(TABLES)?;
                connection.pragma_update(None, "user_version", VERSION)?;
            }
            VERSION => {}
            other => return Err(StoreError::Version(other)),
        }
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Does something in a thread that may wait for the disk.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<'static, T> {
        let connection = self.0.clone();
        let thread = tokio::task::spawn_blocking(move || {
            // A transaction is whole or not there, so a thread that panicked in one has left nothing half done.
            work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        Box::pin(async { thread.await.map_err(|_| StoreError::Lost)? })
    }
}

impl Store for Sqlite {
    fn load(&self) -> Pending<'_, Contents> {
        self.work(|connection| {
            let mut select = connection.prepare("SELECT service, state FROM mitigation")?;
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let rows: Vec<(String, String)> = rows.collect::<Result<_, _>>()?;
            let mitigation = |(service, text): (String, String)| {
                decode::<State>(&service, &text).map(|state| (service.clone(), state))
            };
            Ok(Contents {
                mitigations: rows.into_iter().map(mitigation).collect::<Result<_, _>>()?,
                blocked: setting(connection, BLOCKED)?,
                granted: setting(connection, GRANTED)?,
            })
        })
    }

    fn commit(&self, batch: Batch) -> Pending<'_, ()> {
        self.work(move |connection| {
            let transaction = connection.transaction()?;
            for (service, state) in &batch.mitigations {
                transaction.execute(
                    "INSERT OR REPLACE INTO mitigation (service, state) VALUES (?1, ?2)",
                    params![service, encode(service, state)?],
                )?;
            }
            let blocked = batch.blocked.map(|blocked| encode(BLOCKED, &blocked)).transpose()?;
            let granted = batch.granted.map(|granted| encode(GRANTED, &granted)).transpose()?;
            for (name, value) in [(BLOCKED, blocked), (GRANTED, granted)] {
                let Some(value) = value else { continue };
                transaction.execute(
                    "INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)",
                    params![name, value],
                )?;
            }
            for Event { time, service, mitigation, text } in &batch.events {
                transaction.execute(
                    "INSERT INTO event (time, service, mitigation, text) VALUES (?1, ?2, ?3, ?4)",
                    params![signed(time.0), service, signed(*mitigation), text],
                )?;
            }
            if !batch.events.is_empty() {
                transaction.execute(
                    "DELETE FROM event WHERE number <= (SELECT max(number) FROM event) - ?1",
                    [MAX_EVENTS],
                )?;
            }
            Ok(transaction.commit()?)
        })
    }

    fn events(&self, count: u32) -> Pending<'_, Vec<Event>> {
        self.work(move |connection| {
            let mut select = connection
                .prepare("SELECT time, service, mitigation, text FROM event ORDER BY number DESC LIMIT ?1")?;
            let rows = select.query_map([count], |row| {
                Ok(Event {
                    time: Moment(unsigned(row.get(0)?)),
                    service: row.get(1)?,
                    mitigation: unsigned(row.get(2)?),
                    text: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

/// A setting, or what it is where none was made.
fn setting<T: DeserializeOwned + Default>(connection: &Connection, name: &str) -> Result<T, StoreError> {
    let select = "SELECT value FROM setting WHERE name = ?1";
    let text: Option<String> = connection.query_row(select, [name], |row| row.get(0)).optional()?;
    text.map_or_else(|| Ok(T::default()), |text| decode(name, &text))
}

fn encode(name: &str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Entry(name.to_owned(), error))
}

fn decode<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Entry(name.to_owned(), error))
}

/// SQLite's whole numbers have a sign; times and identifiers are far below 2^63.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event { time: Moment(number), service: "www".to_owned(), mitigation: 7, text: format!("{number}") }
    }

    #[tokio::test]
    async fn what_was_committed_is_there_after_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.db");
        let state = State { id: 5, serial: 9, ..State::default() };
        let granted = Granted { longest_s: 600, void: [("key".to_owned(), 9)].into(), ..Granted::default() };
        let batch = Batch {
            mitigations: vec![("www".to_owned(), State::default()), ("www".to_owned(), state.clone())],
            blocked: Some(vec!["van".to_owned()]),
            granted: Some(granted.clone()),
            events: vec![event(1), event(2)],
        };
        let store = Sqlite::open(&path).unwrap();
        store.commit(batch).await.unwrap();
        // Another one reads while the first has it open: nothing waits for it to be closed.
        let store = Sqlite::open(&path).unwrap();
        let contents = store.load().await.unwrap();
        assert_eq!(contents.mitigations.get("www"), Some(&state));
        assert_eq!(contents.blocked, ["van"]);
        assert_eq!(contents.granted, granted);
        assert_eq!(store.events(1).await.unwrap(), [event(2)]);
    }

    #[tokio::test]
    async fn the_past_is_bounded() {
        let store = Sqlite::in_memory().unwrap();
        let events = (0..u64::from(MAX_EVENTS) + 5).map(event).collect();
        store.commit(Batch { events, ..Batch::default() }).await.unwrap();
        let kept = store.events(u32::MAX).await.unwrap();
        assert_eq!(kept.len(), MAX_EVENTS as usize);
        assert_eq!(kept.last(), Some(&event(5)));
    }

    #[tokio::test]
    async fn a_newer_form_and_a_broken_entry_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        drop(Sqlite::open(&path).unwrap());
        let raw = Connection::open(&path).unwrap();
        raw.execute("INSERT INTO mitigation VALUES ('www', '{}}')", []).unwrap();
        let error = Sqlite::open(&path).unwrap().load().await.unwrap_err();
        assert!(matches!(&error, StoreError::Entry(service, _) if service == "www"), "{error}");
        raw.pragma_update(None, "user_version", 2).unwrap();
        assert!(matches!(Sqlite::open(&path), Err(StoreError::Version(2))));
    }
}
