//! Zones that change, in a SQLite database: what was acknowledged survives whatever happens next.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_proto::rr::{Name, Record};
use hickory_proto::serialize::binary::BinEncodable;
use rusqlite::{Connection, Transaction, params};
use thiserror::Error;

use crate::zone::{Delta, Zone, ZoneError};
use psmc_routes::wire::read_record;

/// How long another program may keep the database, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The form of the tables.
const VERSION: i64 = 1;

/// Why the database cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// SQLite complains.
    #[error("cannot use the zone database: check its path, its permissions and the free disk space")]
    Database(#[from] rusqlite::Error),
    /// It was made by a newer release.
    #[error("the zone database has schema version {0}: use the release that created it")]
    Version(i64),
    /// A record in it cannot be read.
    #[error("the database has a record of {0} that cannot be read: restore it from a backup")]
    Record(String),
    /// The records in it are no zone.
    #[error("the stored zone {0} is invalid: restore it from a backup")]
    Zone(String, #[source] ZoneError),
}

/// The database. Its calls wait for the disk.
#[derive(Debug)]
pub struct Store(Mutex<Connection>);

impl Store {
    /// Opens the database, and makes it where there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
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
        // An answer is sent after the commit, and a commit is on the disk.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => {
                connection.execute_batch(
                    "CREATE TABLE record (zone TEXT NOT NULL, wire BLOB NOT NULL, PRIMARY KEY (zone, wire)) WITHOUT ROWID;",
                )?;
                connection.pragma_update(None, "user_version", VERSION)?;
            }
            VERSION => {}
            other => return Err(StoreError::Version(other)),
        }
        Ok(Self(Mutex::new(connection)))
    }

    /// A zone, if the database has it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn load(&self, origin: &Name) -> Result<Option<Zone>, StoreError> {
        let wires = self.wires(origin)?;
        if wires.is_empty() {
            return Ok(None);
        }
        let record = |wire: &Vec<u8>| read_record(wire).map_err(|_| StoreError::Record(origin.to_string()));
        let records = wires.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        // Records are removed by their bytes, and earlier releases compressed names in the data of some.
        let is_older_form =
            records.iter().zip(&wires).any(|(record, bytes)| wire(record).as_ref() != Some(bytes));
        let zone = Zone::new(origin, records).map_err(|error| StoreError::Zone(origin.to_string(), error))?;
        if is_older_form {
            self.replace(&zone)?;
        }
        Ok(Some(zone))
    }

    /// Keeps a zone in the place of what there was of it: all of it, or nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn replace(&self, zone: &Zone) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        transaction.execute("DELETE FROM record WHERE zone = ?1", [key(zone.origin())])?;
        insert(&transaction, zone.origin(), zone.records())?;
        Ok(transaction.commit()?)
    }

    /// Changes a zone: all of it, or nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn change(&self, origin: &Name, delta: &Delta) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        for record in &delta.removed {
            let wire = wire(record).ok_or_else(|| StoreError::Record(origin.to_string()))?;
            transaction
                .execute("DELETE FROM record WHERE zone = ?1 AND wire = ?2", params![key(origin), wire])?;
        }
        insert(&transaction, origin, delta.added.iter())?;
        Ok(transaction.commit()?)
    }

    fn wires(&self, origin: &Name) -> Result<Vec<Vec<u8>>, StoreError> {
        let connection = self.connection();
        let mut select = connection.prepare("SELECT wire FROM record WHERE zone = ?1")?;
        Ok(select.query_map([key(origin)], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// A transaction is whole or not there, so a thread that panicked in one has left nothing half done.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert<'a>(
    transaction: &Transaction<'_>,
    origin: &Name,
    records: impl Iterator<Item = &'a Record>,
) -> Result<(), StoreError> {
    let mut insert = transaction.prepare("INSERT OR REPLACE INTO record (zone, wire) VALUES (?1, ?2)")?;
    for record in records {
        let wire = wire(record).ok_or_else(|| StoreError::Record(origin.to_string()))?;
        insert.execute(params![key(origin), wire])?;
    }
    Ok(())
}

fn wire(record: &Record) -> Option<Vec<u8>> {
    record.to_bytes().ok()
}

fn key(origin: &Name) -> String {
    origin.to_lowercase().to_ascii()
}
