//! Zones of other servers: fetched, kept, and fetched again when they have changed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType, SerialNumber};
use thiserror::Error;
use tokio::io;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::Server;
use super::hosted::{Hosted, Role};
use super::listen::{read_message, write_message};
use crate::store::StoreError;
use crate::update::{TsigKey, unix_now};
use crate::zone::{Zone, ZoneError};

/// How long a primary may take for each message.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest zone in records: whoever sends more is not a primary of ours.
const MAX_RECORDS: usize = 10_000_000;

/// How soon a zone that was never fetched is asked for again.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// The least time between two fetches that nobody asked for, whatever the SOA says.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// Why a zone was not fetched.
#[derive(Debug, Error)]
enum FetchError {
    #[error("no connection to the primary: does it run, and take TCP?")]
    Io(#[from] io::Error),
    #[error("the primary says nothing for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("the primary answers with what is no transfer")]
    Malformed,
    #[error("the primary's answer is not signed with the key of the zone")]
    Unsigned,
    #[error("the primary refuses with {0}: does it let this server transfer the zone?")]
    Refused(ResponseCode),
    #[error("what the primary sends is no zone")]
    Zone(#[from] ZoneError),
    #[error("the zone cannot be served: {0}")]
    Unservable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("keeping the zone failed")]
    Task(#[from] tokio::task::JoinError),
}

/// Follows the primary of a zone: at once, at each notification, and as often as its SOA says. Ends never.
pub async fn follow_primary(server: Arc<Server>, hosted: Arc<Hosted>) {
    let Role::Secondary { primary, key } = &hosted.role else { return };
    let mut confirmed = Instant::now();
    loop {
        let wait = match refresh(&server, &hosted, *primary, key.as_ref()).await {
            Ok(()) => {
                confirmed = Instant::now();
                hosted.served().map_or(FIRST_RETRY, |zone| seconds(zone.soa().refresh))
            }
            Err(error) => {
                let error = crate::error_chain(&error);
                tracing::warn!(zone = %hosted.origin(), %primary, error, "the zone is not fetched");
                hosted.served().map_or(FIRST_RETRY, |zone| seconds(zone.soa().retry))
            }
        };
        if let Some(zone) = hosted.served()
            && confirmed.elapsed() > seconds(zone.soa().expire)
        {
            tracing::error!(zone = %hosted.origin(), %primary, "the zone has expired: its primary is away for too long");
            hosted.expire();
        }
        tokio::select! {
            () = sleep(wait.max(MIN_WAIT)) => {}
            () = hosted.notified.notified() => {}
        }
    }
}

/// The times of a SOA record; what makes no sense is a moment.
fn seconds(value: i32) -> Duration {
    Duration::from_secs(u64::try_from(value).unwrap_or(0))
}

/// Fetches the zone if the primary has a newer one.
async fn refresh(
    server: &Server,
    hosted: &Hosted,
    primary: SocketAddr,
    key: Option<&TsigKey>,
) -> Result<(), FetchError> {
    let socket = if primary.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(server.source_for(primary))?;
    let connected = timeout(PATIENCE, socket.connect(primary)).await;
    let mut stream = connected.map_err(|_| FetchError::Silent)??;
    let origin = hosted.origin();
    let soa = fetch(&mut stream, origin, RecordType::SOA, key).await?;
    let newest = soa.iter().find_map(serial).ok_or(FetchError::Malformed)?;
    let current = hosted.served().map(|zone| zone.serial());
    if current.is_some_and(|current| SerialNumber::new(newest) <= SerialNumber::new(current)) {
        return Ok(());
    }
    let mut records = fetch(&mut stream, origin, RecordType::AXFR, key).await?;
    // The SOA record is the first and the last.
    records.pop();
    let zone = Zone::new(origin, records)?;
    let (store, kept) = (server.store().clone(), zone.clone());
    tokio::task::spawn_blocking(move || store.replace(&kept)).await??;
    hosted.serve(zone, unix_now()).map_err(FetchError::Unservable)?;
    tracing::info!(zone = %origin, serial = newest, "fetched");
    Ok(())
}

/// Asks for records, and collects the answer: a transfer ends with the SOA record that it began with.
async fn fetch(
    stream: &mut TcpStream,
    origin: &Name,
    kind: RecordType,
    key: Option<&TsigKey>,
) -> Result<Vec<Record>, FetchError> {
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Query;
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(origin.clone(), kind));
    let mut verifier = match key {
        Some(key) => message.finalize(&key.signer(), unix_now()).map_err(|_| FetchError::Malformed)?,
        None => None,
    };
    write_message(stream, &message.to_vec().map_err(|_| FetchError::Malformed)?).await?;
    let mut records: Vec<Record> = Vec::new();
    loop {
        let bytes = timeout(PATIENCE, read_message(stream)).await.map_err(|_| FetchError::Silent)??;
        let response = Message::from_vec(&bytes).map_err(|_| FetchError::Malformed)?;
        if response.id != message.id {
            return Err(FetchError::Malformed);
        }
        if response.response_code != ResponseCode::NoError {
            return Err(FetchError::Refused(response.response_code));
        }
        if let Some(verifier) = &mut verifier
            && verifier.verify(&bytes).is_err()
        {
            return Err(FetchError::Unsigned);
        }
        let had = records.len();
        records.extend(response.answers);
        if kind == RecordType::SOA {
            return Ok(records);
        }
        let first = records.first().and_then(serial).ok_or(FetchError::Malformed)?;
        if records.len() > 1 && records.last().and_then(serial) == Some(first) {
            return Ok(records);
        }
        if records.len() == had || records.len() > MAX_RECORDS {
            return Err(FetchError::Malformed);
        }
    }
}

fn serial(record: &Record) -> Option<u32> {
    let RData::SOA(soa) = &record.data else { return None };
    Some(soa.serial)
}
