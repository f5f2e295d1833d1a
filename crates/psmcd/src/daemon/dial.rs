//! Opening a control connection over whichever path works first.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use psmc_net::tls::tcp::{TcpError, connect_tcp};
use psmc_net::tls::{Dialer, Secured, TlsError};
use thiserror::Error;
use tokio::task::JoinSet;

/// Attempts start this far apart: long enough that the first path usually wins alone, short enough that a dead
/// one doesn't keep people waiting (RFC 8305 §8 allows 100 ms to 2 s).
const STAGGER: Duration = Duration::from_millis(100);

/// An attempt is given up after this time.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// A way to reach the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) interface: Option<String>,
    pub(super) local: Option<IpAddr>,
    pub(super) remote: SocketAddr,
}

/// Why no connection came about.
#[derive(Debug, Error)]
pub(super) enum DialError {
    /// There is no path with an address that is known.
    #[error("no path to the peer has a usable interface and address yet")]
    NoRoute,
    /// TCP did not connect.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Tries all routes, one after the other started, and returns the first connection; if there is none, the error
/// of the attempt that got furthest.
pub(super) async fn dial(dialer: Dialer, routes: Vec<Route>) -> Result<Secured, DialError> {
    let mut attempts = JoinSet::new();
    for (position, route) in (0..).zip(routes) {
        let dialer = dialer.clone();
        attempts.spawn(async move {
            tokio::time::sleep(STAGGER * position).await;
            attempt(&dialer, route).await
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

async fn attempt(dialer: &Dialer, route: Route) -> Result<Secured, DialError> {
    let interface = route.interface.as_deref();
    let stream = connect_tcp(interface, route.local, route.remote, ATTEMPT_TIMEOUT).await?;
    Ok(dialer.connect(stream).await?)
}

/// How far an attempt got before it failed.
fn progress(error: &DialError) -> u8 {
    match error {
        DialError::NoRoute => 0,
        DialError::Tcp(_) => 1,
        DialError::Tls(_) => 2,
    }
}
