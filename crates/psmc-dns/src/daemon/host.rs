//! A zone with what is known of it, at the start and when the configuration is read anew.

use std::sync::Arc;

use hickory_proto::rr::{Name, SerialNumber};
use tokio::task::{JoinSet, spawn_blocking};

use super::DaemonError;
use crate::config::{Content, ZoneConfig};
use crate::server::{Hosted, Role, Server, follow_primary, tell_secondaries};
use crate::store::{Store, StoreError};
use crate::zone::{Delta, Zone};
use psmc_service::clock::unix_seconds;

/// A zone that is served, and what is done for it: others are told, its primary is followed. That ends with the value.
pub(super) struct Running {
    pub(super) hosted: Arc<Hosted>,
    _tasks: JoinSet<()>,
}

impl Running {
    /// Begins what is done for a zone of the server.
    pub(super) fn new(server: &Arc<Server>, hosted: Arc<Hosted>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(tell_secondaries(server.clone(), hosted.clone()));
        tasks.spawn(follow_primary(server.clone(), hosted.clone()));
        Self { hosted, _tasks: tasks }
    }
}

/// The zone that takes the place of `old`, with its history; or the first one. No update comes between: those that are
/// waiting then change the new one.
pub(super) async fn succeed(
    config: ZoneConfig,
    old: Option<Arc<Hosted>>,
    store: &Arc<Store>,
) -> Result<Arc<Hosted>, DaemonError> {
    let Some(old) = old else {
        let store = store.clone();
        return spawn_blocking(move || host(config, None, &store)).await?;
    };
    let pause = old.pause().await;
    let (store, before) = (store.clone(), old.clone());
    let new = spawn_blocking(move || host(config, Some(&before), &store)).await??;
    pause.retire(&new);
    Ok(new)
}

/// A zone with what is known of it: from its file, or, where it changes or is another's, from the database.
pub(super) fn host(
    config: ZoneConfig,
    old: Option<&Hosted>,
    store: &Store,
) -> Result<Arc<Hosted>, DaemonError> {
    let ZoneConfig { origin, content, access, secondaries } = config;
    let (role, zone, is_kept, is_new) = match content {
        Content::File { zone, updaters, signer } => {
            let is_kept = !updaters.is_empty() || signer.is_some();
            let kept = if is_kept { store.load(&origin)? } else { None };
            // Of a zone that others change the file is where it began. Of one that is only signed here, the serial
            // number in the database has risen with the signatures; a file with a higher one is newer.
            let is_newer = |kept: &Zone| SerialNumber::new(kept.serial()) > SerialNumber::new(zone.serial());
            let kept = kept.filter(|kept| !updaters.is_empty() || is_newer(kept));
            if let Some(kept) = &kept {
                tracing::info!(zone = %origin, serial = kept.serial(), "zone loaded from the database");
            }
            let is_new = is_kept && kept.is_none();
            (Role::Primary { updaters, signer }, Some(kept.unwrap_or(zone)), is_kept, is_new)
        }
        Content::Primary { address, key } => {
            // One that is there goes on, also without a zone: it has expired.
            let kept = if old.is_some() { None } else { kept_of_primary(store, &origin)? };
            (Role::Secondary { primary: address, key }, kept, false, false)
        }
    };
    let hosted = Hosted::new(&origin, role, access, secondaries);
    // Signatures of another key are another zone, of which secondaries must hear.
    let is_resigned = is_kept && old.is_some_and(|old| !old.is_signed_as(&hosted));
    if let Some(old) = old.filter(|_| !is_resigned) {
        hosted.inherit(old);
    }
    let Some(zone) = zone else { return Ok(Arc::new(hosted)) };
    let zone = if is_resigned { zone.with_serial(zone.serial().wrapping_add(1)) } else { zone };
    let failed = |reason| DaemonError::Zone { origin: origin.to_string(), reason };
    hosted.serve(zone.clone(), unix_seconds()).map_err(failed)?;
    if is_new || is_resigned {
        store.replace(&zone)?;
    }
    let before = old.and_then(Hosted::served);
    if let (Some(before), Some(after)) = (before, hosted.served())
        && before.serial() == after.serial()
        && before.delta(&after) != Delta::default()
    {
        let serial = after.serial();
        tracing::warn!(zone = %origin, serial, "records changed without a new serial number: secondaries will not transfer them");
    }
    Ok(Arc::new(hosted))
}

/// What the database has of a zone of another server. What cannot be served is fetched anew.
fn kept_of_primary(store: &Store, origin: &Name) -> Result<Option<Zone>, StoreError> {
    match store.load(origin) {
        Err(error @ (StoreError::Record(_) | StoreError::Zone(..))) => {
            let error = crate::error_chain(&error);
            tracing::warn!(zone = %origin, error, "transferring the whole zone again");
            Ok(None)
        }
        other => other,
    }
}
