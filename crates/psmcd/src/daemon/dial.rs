//! Opening a control connection over whichever path works first.

use std::time::Duration;

use psmc_net::tls::{Dialer, Secured, TlsError};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::relays::{BoxedStream, Caller, Goal, LocalEnd, RelayError, reach};
use crate::config::Relay;

/// Attempts start this far apart: long enough that the first path usually wins alone, short enough that a dead
/// one doesn't keep people waiting (RFC 8305 §8 allows 100 ms to 2 s).
const STAGGER: Duration = Duration::from_millis(100);

/// An attempt is given up after this time, and as much again for each relay on the way.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// A way to reach the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) local_end: LocalEnd,
    /// The relays on the way, the nearest first.
    pub(super) relays: Vec<Relay>,
    pub(super) to: Goal,
}

/// Why no connection came about.
#[derive(Debug, Error)]
pub(super) enum DialError {
    /// There is no path with an address that is known.
    #[error("no path to the peer has a usable interface and address yet")]
    NoRoute,
    /// TCP did not connect, or a relay on the way did not serve.
    #[error(transparent)]
    Unreached(#[from] RelayError),
    /// There are other ways by now, along which it is tried anew.
    #[error("the peer's paths have changed meanwhile")]
    Superseded,
    /// The way there took too long.
    #[error("the relays to the peer timed out")]
    TimedOut,
    /// The handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Tries all routes, one after the other started, and returns the first connection; if there is none, the error
/// of the attempt that got furthest.
pub(super) async fn dial(
    caller: Caller,
    dialer: Dialer,
    routes: Vec<Route>,
) -> Result<Secured<BoxedStream>, DialError> {
    let mut attempts = JoinSet::new();
    for (position, route) in (0..).zip(routes) {
        let (caller, dialer) = (caller.clone(), dialer.clone());
        attempts.spawn(async move {
            tokio::time::sleep(STAGGER * position).await;
            attempt(&caller, &dialer, route).await
        });
    }
    let mut worst = DialError::NoRoute;
    while let Some(Ok(outcome)) = attempts.join_next().await {
        match outcome {
            Ok(secured) => return Ok(secured),
            Err(error) if progress(&error) >= progress(&worst) => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

async fn attempt(caller: &Caller, dialer: &Dialer, route: Route) -> Result<Secured<BoxedStream>, DialError> {
    let Route { local_end, relays, to } = &route;
    let patience = ATTEMPT_TIMEOUT * (1 + u32::try_from(relays.len()).unwrap_or(u32::MAX));
    let reached = timeout(patience, reach(caller, local_end, relays, *to));
    let stream = reached.await.map_err(|_| DialError::TimedOut)??;
    Ok(dialer.connect(stream).await?)
}

/// How far an attempt got before it failed.
fn progress(error: &DialError) -> u8 {
    match error {
        DialError::NoRoute | DialError::Superseded => 0,
        DialError::Unreached(_) | DialError::TimedOut => 1,
        DialError::Tls(_) => 2,
    }
}
