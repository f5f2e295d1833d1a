//! Routes on name servers: one task for each server of a service, which brings it to what was wanted last.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use psmc_routes::update::{Change, Mode, Patience, Scope, Server, Target, run_all};
use psmc_routes::{AltRecord, GroupKey, GroupTag, Relay, RouteError, RouteSet, Validity};
use psmc_service::clock::Backoff;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::config::{Group, Service};
use crate::engine::Input;

/// How long a server may take for one change before it is tried anew.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after the first failure; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: a server that restarts is back by then.
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// What a name server is to have of a service.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The serial number of the routes.
    pub serial: u64,
    /// How to get there.
    pub changes: Vec<Change>,
}

/// How it went on a server.
#[derive(Clone, Debug)]
pub struct Published {
    /// The service.
    pub service: String,
    /// The server.
    pub server: String,
    /// The serial number of the routes.
    pub serial: u64,
    /// How long it took, or what is wrong.
    pub result: Result<Duration, String>,
}

/// The routes of one group, as a record and as a change.
#[derive(Clone, Debug)]
pub struct GroupRoutes {
    /// The group.
    pub group: String,
    /// The contents of an ALT record, in base64; `None` if there are no routes.
    pub record: Option<String>,
    /// How a name server gets there.
    pub change: Change,
}

/// The routes of a group, signed by the service and sealed where the group has a key.
///
/// # Errors
/// [`RouteError`] if they make no route set.
pub fn group_routes(
    service: &Service,
    group: &Group,
    relays: Vec<Relay>,
    validity: Validity,
) -> Result<GroupRoutes, RouteError> {
    let too_long = |_| RouteError::Service(service.name.to_string());
    let tag = group.key.as_deref().map_or(GroupTag::EVERYONE, GroupKey::tag);
    if relays.is_empty() {
        let change = Change::withdraw(&service.name, Scope::Group(tag)).map_err(too_long)?;
        return Ok(GroupRoutes { group: group.name.clone(), record: None, change });
    }
    let set = RouteSet::new(&service.name, validity, relays)?;
    let signed = set.clone().for_group(tag).sign(&service.key);
    let record = match &group.key {
        Some(key) => AltRecord::Sealed(key.seal(&signed)),
        None => AltRecord::Open(signed),
    };
    let change = Change::publish(set, &service.key, group.key.as_deref(), service.svcb, service.ttl_s);
    let change = change.map_err(too_long)?;
    Ok(GroupRoutes { group: group.name.clone(), record: Some(STANDARD.encode(record.encode())), change })
}

/// The name servers of a service.
#[derive(Debug, Default)]
pub struct Publisher(Vec<watch::Sender<Wanted>>);

impl Publisher {
    /// Begins to keep the servers of a service. What comes of it goes to `news`.
    pub fn start(service: &Service, news: &mpsc::Sender<Input>, tasks: &mut JoinSet<()>) -> Self {
        let Some(key) = &service.tsig_key else { return Self::default() };
        let senders = service.servers.iter().map(|server| {
            let (sender, wanted) = watch::channel(Wanted::default());
            let target = Target {
                zone: service.zone.clone(),
                key: key.clone(),
                servers: vec![server.clone()],
                patience: Patience { attempts: 1, timeout: TIMEOUT },
            };
            tasks.spawn(keep(service.title(), server.clone(), target, wanted, news.clone()));
            sender
        });
        Self(senders.collect())
    }

    /// How many servers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What they are to have from now on.
    pub fn want(&self, wanted: &Wanted) {
        for server in &self.0 {
            server.send_replace(wanted.clone());
        }
    }
}

async fn keep(
    service: String,
    server: Server,
    target: Target,
    mut wanted: watch::Receiver<Wanted>,
    news: mpsc::Sender<Input>,
) {
    let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
    // Ends when the engine does.
    while wanted.changed().await.is_ok() {
        loop {
            let now = wanted.borrow_and_update().clone();
            let result = change_all(&target, &now.changes).await;
            let failed = result.is_err();
            let published = Published {
                service: service.clone(),
                server: server.to_string(),
                serial: now.serial,
                result,
            };
            if news.send(Input::Published(published)).await.is_err() {
                return;
            }
            if !failed {
                pause.reset();
                break;
            }
            tokio::select! {
                () = sleep(pause.wait()) => {}
                changed = wanted.wait_for(|newer| newer.serial != now.serial) => {
                    if changed.is_err() {
                        return;
                    }
                    pause.reset();
                }
            }
        }
    }
}

/// The records of all groups over one connection: with many groups and servers it is the coordinator's own line that is full
/// otherwise.
async fn change_all(target: &Target, changes: &[Change]) -> Result<Duration, String> {
    let started = Instant::now();
    let report = run_all(target, changes, Mode::Change).await;
    let mut errors = report.servers.into_iter().filter_map(|server| server.error);
    errors.next().map_or_else(|| Ok(started.elapsed()), Err)
}
