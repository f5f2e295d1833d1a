//! Zones of other servers: fetched, kept, and fetched again when they have changed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{Name, RData, Record, RecordType, SerialNumber};
use thiserror::Error;
use tokio::io;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Server;
use super::hosted::{Hosted, Role};
use crate::store::StoreError;
use crate::zone::{Zone, ZoneError};
use psmc_routes::update::TsigKey;
use psmc_routes::wire::{read_message, read_stream, write_stream};
use psmc_service::clock::unix_seconds;

/// How long a primary may take for each message.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest zone in records: whoever sends more is not a primary of ours.
const MAX_RECORDS: usize = 10_000_000;

/// How soon a zone that was never fetched is asked for again.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// The least time between two fetches that nobody asked for, whatever the SOA says: whoever wants a change to spread soon
/// sends notifications.
const MIN_WAIT: Duration = Duration::from_secs(60);

/// The least time between two fetches, however many notifications come.
const NOTIFIED_WAIT: Duration = Duration::from_millis(100);

/// Why a zone was not fetched.
#[derive(Debug, Error)]
enum FetchError {
    #[error("cannot connect to the primary: is it running, and reachable by TCP?")]
    Io(#[from] io::Error),
    #[error("no response from the primary for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("the primary's response is not a zone transfer")]
    Malformed,
    #[error("the primary's answer is not signed with the key of the zone")]
    Unsigned,
    #[error("the primary refuses with {0}: does it let this server transfer the zone?")]
    Refused(ResponseCode),
    #[error(
        "the primary has the serial number {theirs}, which comes before {ours} that is here (RFC 1982): give it a higher one; \
         otherwise the zone is transferred again when it has expired here"
    )]
    WentBack { theirs: u32, ours: u32 },
    #[error("the primary sent an invalid zone")]
    Zone(#[from] ZoneError),
    #[error("the zone cannot be served: {0}")]
    Unservable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot store the zone")]
    Task(#[from] tokio::task::JoinError),
}

/// Follows the primary of a zone: at once, at each notification, and as often as its SOA says. Ends never.
pub async fn follow_primary(server: Arc<Server>, hosted: Arc<Hosted>) {
    let Role::Secondary { primary, key } = &hosted.role else { return };
    let room = server.room_at(*primary);
    let mut confirmed = Instant::now();
    loop {
        let result = {
            // It is never closed.
            let _permit = room.acquire().await;
            refresh(&server, &hosted, *primary, key.as_ref()).await
        };
        let begun = Instant::now();
        if result.is_ok() {
            confirmed = begun;
        }
        let mut wait = FIRST_RETRY;
        if let Some(times) = hosted.served().map(|zone| Times::of(zone.soa())) {
            let left = times.expire.saturating_sub(confirmed.elapsed());
            wait = if result.is_ok() { times.refresh } else { times.retry.min(left) };
            if left.is_zero() {
                tracing::error!(zone = %hosted.origin(), %primary, "zone expired: no contact with the primary");
                hosted.expire();
                wait = NOTIFIED_WAIT;
            }
        }
        if let Err(error) = result {
            let error = crate::error_chain(&error);
            tracing::warn!(zone = %hosted.origin(), %primary, error, "zone transfer failed");
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = hosted.notified.notified() => sleep_until(begun + NOTIFIED_WAIT).await,
        }
    }
}

/// The times of a SOA record (RFC 1035 §3.3.13): numbers of 32 bits without a sign, which the library reads with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    refresh: Duration,
    retry: Duration,
    expire: Duration,
}

impl Times {
    /// What it says; but no zone is asked for all the time, nor expires before it could have been fetched again.
    fn of(soa: &SOA) -> Self {
        let seconds = |value: i32| Duration::from_secs(value.cast_unsigned().into());
        let (refresh, retry) = (seconds(soa.refresh).max(MIN_WAIT), seconds(soa.retry).max(MIN_WAIT));
        Self { refresh, retry, expire: seconds(soa.expire).max(refresh + retry) }
    }
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
    if current == Some(newest) {
        return Ok(());
    }
    check_serial(current, newest)?;
    let mut records = fetch(&mut stream, origin, RecordType::AXFR, key).await?;
    // The SOA record is the first and the last.
    records.pop();
    let zone = Zone::new(origin, records)?;
    // Several servers may be behind the address, or the zone has changed meanwhile.
    check_serial(current, zone.serial())?;
    let (store, kept, serial) = (server.store().clone(), zone.clone(), zone.serial());
    tokio::task::spawn_blocking(move || store.replace(&kept)).await??;
    hosted.serve(zone, unix_seconds()).map_err(FetchError::Unservable)?;
    tracing::info!(zone = %origin, serial, "fetched");
    Ok(())
}

/// A zone that went back is not believed as long as there is another one.
fn check_serial(ours: Option<u32>, theirs: u32) -> Result<(), FetchError> {
    match ours {
        Some(ours) if SerialNumber::new(theirs) < SerialNumber::new(ours) => {
            Err(FetchError::WentBack { theirs, ours })
        }
        Some(_) | None => Ok(()),
    }
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
    let mut conversation = match key {
        Some(key) => Some(key.sign(&mut message).ok_or(FetchError::Malformed)?),
        None => None,
    };
    write_stream(stream, &message.to_vec().map_err(|_| FetchError::Malformed)?).await?;
    let mut records: Vec<Record> = Vec::new();
    loop {
        let bytes = timeout(PATIENCE, read_stream(stream)).await.map_err(|_| FetchError::Silent)??;
        let incoming = read_message(&bytes).map_err(|_| FetchError::Malformed)?;
        if let Some(conversation) = &mut conversation
            && !conversation.accept(&incoming, &bytes, unix_seconds())
        {
            return Err(refusal(&incoming.message).unwrap_or(FetchError::Unsigned));
        }
        let response = incoming.message;
        if response.id != message.id {
            return Err(FetchError::Malformed);
        }
        if let Some(refused) = refusal(&response) {
            return Err(refused);
        }
        let had = records.len();
        records.extend(response.answers);
        let first = records.first().and_then(serial).ok_or(FetchError::Malformed)?;
        let is_whole = records.len() > 1 && records.last().and_then(serial) == Some(first);
        if kind == RecordType::SOA || is_whole {
            let is_signed = conversation.is_none_or(|conversation| conversation.is_complete());
            return if is_signed { Ok(records) } else { Err(FetchError::Unsigned) };
        }
        if records.len() == had || records.len() > MAX_RECORDS {
            return Err(FetchError::Malformed);
        }
    }
}

/// What a response that is no success says.
fn refusal(response: &Message) -> Option<FetchError> {
    let code = response.response_code;
    (code != ResponseCode::NoError).then_some(FetchError::Refused(code))
}

fn serial(record: &Record) -> Option<u32> {
    let RData::SOA(soa) = &record.data else { return None };
    Some(soa.serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_no_sign_and_a_floor() {
        let times = |refresh, retry, expire: u32| {
            let name = Name::root();
            let soa = SOA::new(name.clone(), name, 1, refresh, retry, expire.cast_signed(), 60);
            let Times { refresh, retry, expire } = Times::of(&soa);
            [refresh, retry, expire].map(|time| time.as_secs())
        };
        assert_eq!(times(3600, 600, 86400), [3600, 600, 86400]);
        assert_eq!(times(3600, 600, 0), [3600, 600, 4200], "it is served at all");
        assert_eq!(times(0, 0, 86400), [60, 60, 86400], "the primary has some rest");
        let big = 3_000_000_000_u32;
        assert_eq!(times(big.cast_signed(), 600, u32::MAX), [big.into(), 600, u32::MAX.into()]);
    }

    #[test]
    fn a_serial_number_that_goes_back_is_told_from_one_that_goes_around() {
        let is_refused = |ours, theirs| check_serial(Some(ours), theirs).is_err();
        assert!(is_refused(2, 1) && is_refused(1, u32::MAX) && is_refused(2_026_010_101, 7));
        assert!(!is_refused(1, 2) && !is_refused(u32::MAX, 1) && check_serial(None, 1).is_ok());
    }
}
