//! A change, on many servers at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::rr::{Name, RData, RecordType};
use psmc_service::clock::Backoff;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::change::nsupdate_text;
use super::exchange::Connection;
use super::{Change, Server, TsigKey, UpdateError};
use crate::error_chain;
use crate::{ALT, svcb_name};

/// Servers that are spoken to at the same time: each takes a descriptor, and a process has 1024 of them as a rule.
const MAX_AT_ONCE: usize = 256;

/// Changes in one message: a record of 1.5 kB goes and another one comes for each, and some for SVCB, in 64 kB.
const MAX_TOGETHER: usize = 16;

/// How long the direct way is given before the next one is tried beside it: longer than a round trip around the world.
const NEXT_WAY_AFTER: Duration = Duration::from_millis(300);

/// The pause after the first failure; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: a server that restarts is back by then.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Where a change goes to.
#[derive(Clone, Debug)]
pub struct Target {
    /// The zone that has the service's name.
    pub zone: Name,
    /// What the servers know us by.
    pub key: TsigKey,
    /// Its primaries: each is changed by itself.
    pub servers: Vec<Server>,
    /// How often and how long they are tried.
    pub patience: Patience,
}

/// How much trouble is put up with.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries for each server, 1 or more.
    pub attempts: u32,
    /// How long each may take.
    pub timeout: Duration,
}

/// Whether servers are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    Change,
    /// They are only asked what would be changed.
    DryRun,
}

/// How a change went.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The servers, in the order in which they were named.
    pub servers: Vec<ServerReport>,
}

/// How it went on one server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    /// The server, by its first address.
    pub server: String,
    /// Whether it has the change, or would take it.
    pub ok: bool,
    /// The address by which it was reached.
    pub address: Option<SocketAddr>,
    /// Tries.
    pub attempts: u32,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// What was wrong with the last try.
    pub error: Option<String>,
    /// What was sent, or would be, as `nsupdate` would read it.
    pub update: Option<String>,
}

impl Report {
    /// Whether all servers have the change.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.servers.iter().all(|server| server.ok)
    }
}

/// Carries out a change on all servers at once. Each has it whole or not at all.
pub async fn run(target: &Target, change: &Change, mode: Mode) -> Report {
    run_all(target, std::slice::from_ref(change), mode).await
}

/// Carries out several changes on all servers at once, over one connection to each: those of one service together, best
/// named one after the other.
pub async fn run_all(target: &Target, changes: &[Change], mode: Mode) -> Report {
    let shared = Arc::new((target.clone(), changes.to_vec()));
    let room = Arc::new(Semaphore::new(MAX_AT_ONCE));
    let mut tasks = JoinSet::new();
    for (place, server) in target.servers.iter().cloned().enumerate() {
        let (shared, room) = (shared.clone(), room.clone());
        tasks.spawn(async move {
            let _permit = room.acquire().await;
            let (target, changes) = &*shared;
            (place, change_server(target, &server, changes, mode).await)
        });
    }
    let mut servers: Vec<_> = tasks.join_all().await;
    servers.sort_by_key(|(place, _)| *place);
    Report { servers: servers.into_iter().map(|(_, server)| server).collect() }
}

/// The ALT records that a server of `target` has of `service`, and whether it has SVCB ones; the first to answer counts.
///
/// # Errors
/// [`UpdateError`] of the last server, if none answers.
pub async fn published(target: &Target, service: &Name) -> Result<(Vec<RData>, bool), UpdateError> {
    let svcb_name = &svcb_name(service).map_err(|_| UpdateError::NotInZone)?;
    let ask = move |address| async move {
        let mut connection = Connection::open(address, &target.key).await?;
        let alt = connection.query(service, ALT).await?;
        let svcb = connection.query(svcb_name, RecordType::SVCB).await?;
        Ok((alt, !svcb.is_empty()))
    };
    let mut last = UpdateError::NotServed;
    for server in &target.servers {
        match over_ways(server, target.patience.timeout, ask).await {
            Ok((_, found)) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn change_server(target: &Target, server: &Server, changes: &[Change], mode: Mode) -> ServerReport {
    let started = Instant::now();
    let mut report = ServerReport {
        server: server.to_string(),
        ok: false,
        address: None,
        attempts: 0,
        elapsed_ms: 0,
        error: None,
        update: None,
    };
    let mut pauses = Backoff::new(FIRST_PAUSE, MAX_PAUSE);
    loop {
        report.attempts += 1;
        let attempt = |address| attempt(target, address, changes, mode);
        match over_ways(server, target.patience.timeout, attempt).await {
            Ok((address, update)) => {
                (report.ok, report.address, report.error) = (true, Some(address), None);
                report.update = Some(update);
                break;
            }
            Err(error) => {
                report.error = Some(error_chain(&error));
                if !error.is_temporary() || report.attempts >= target.patience.attempts {
                    break;
                }
            }
        }
        sleep(pauses.wait()).await;
    }
    report.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    report
}

/// Reads what is there, changes it, and looks whether it is served. Doing it twice does no harm.
async fn attempt(
    target: &Target,
    address: SocketAddr,
    changes: &[Change],
    mode: Mode,
) -> Result<String, UpdateError> {
    let mut connection = Connection::open(address, &target.key).await?;
    let mut text = String::new();
    for together in changes.chunk_by(|one, other| one.service() == other.service()) {
        text += &change_service(&mut connection, &target.zone, together, mode).await?;
    }
    Ok(text)
}

/// The same for changes to the routes of one service.
async fn change_service(
    connection: &mut Connection<'_>,
    zone: &Name,
    changes: &[Change],
    mode: Mode,
) -> Result<String, UpdateError> {
    let Some(service) = changes.first().map(Change::service) else { return Ok(String::new()) };
    let current = connection.query(service, ALT).await?;
    let mut text = String::new();
    for part in changes.chunks(MAX_TOGETHER) {
        let records: Vec<_> = part.iter().flat_map(|change| change.records(&current)).collect();
        text += &nsupdate_text(&records);
        if mode == Mode::Change {
            connection.update(zone, records).await?;
        }
    }
    if mode == Mode::Change {
        let current = connection.query(service, ALT).await?;
        if !changes.iter().all(|change| change.is_done(&current)) {
            return Err(UpdateError::NotServed);
        }
    }
    Ok(text)
}

/// Does `what` over the server's first way; where that takes long or fails, over the next one beside it. The first to
/// succeed counts; if none does, the trouble of the direct way is told.
async fn over_ways<T, F: Future<Output = Result<T, UpdateError>>>(
    server: &Server,
    limit: Duration,
    what: impl Fn(SocketAddr) -> F,
) -> Result<(SocketAddr, T), UpdateError> {
    let bounded = |address| {
        let work = what(address);
        async move {
            match timeout(limit, work).await {
                Ok(result) => result.map(|value| (address, value)),
                Err(_) => Err(UpdateError::Timeout(limit.as_millis())),
            }
        }
    };
    let (first, others) = server.addresses().split_first().expect("a server has an address");
    let direct = bounded(*first);
    let indirect = async {
        let mut last = None;
        for address in others {
            match bounded(*address).await {
                Ok(found) => return Some(Ok(found)),
                Err(error) => last = Some(Err(error)),
            }
        }
        last
    };
    tokio::pin!(direct);
    let direct_error = match timeout(NEXT_WAY_AFTER, &mut direct).await {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(error)) => Some(error),
        Err(_) => None,
    };
    if let Some(error) = direct_error {
        return indirect.await.and_then(Result::ok).ok_or(error);
    }
    tokio::pin!(indirect);
    tokio::select! {
        result = &mut direct => match result {
            Ok(found) => Ok(found),
            Err(error) => indirect.await.and_then(Result::ok).ok_or(error),
        },
        result = &mut indirect => match result {
            Some(Ok(found)) => Ok(found),
            Some(Err(_)) | None => direct.await,
        },
    }
}
