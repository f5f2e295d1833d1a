//! Follows how psmcd reaches a service; and how many calls to psmcd are under way at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Reach, RoutesStatus, Shared};
use crate::tunnels::{Policy, Tunnel, TunnelError, TunnelState, Until};

/// How long psmcd is asked to wait. It is also what the program may take to end, for the call cannot be broken off.
const PATIENCE: Duration = Duration::from_secs(2);

/// The shortest time between two questions to psmcd: what is waited for may be so already.
const PACE: Duration = Duration::from_millis(250);

/// The same while a path is being set up, and answers wait for it.
const QUICK: Duration = Duration::from_millis(15);

/// For so long after new routes were handed over.
const SETTING_UP: Duration = Duration::from_secs(2);

/// The time between two attempts while psmcd does not answer.
const SILENT: Duration = Duration::from_millis(500);

/// Asks psmcd, and tells what it says, until nobody listens.
pub(super) async fn track(
    shared: Arc<Shared>,
    (tunnel, policy): (Tunnel, Option<Policy>),
    reach: watch::Sender<Reach>,
    mut routes: watch::Receiver<Option<RoutesStatus>>,
) {
    let (mut state, mut handed_at) = (None, None::<Instant>);
    loop {
        let asked_at = Instant::now();
        if routes.has_changed().unwrap_or(false) && routes.borrow_and_update().is_some() {
            handed_at = Some(asked_at);
        }
        let is_setting_up = handed_at.is_some_and(|at| asked_at < at + SETTING_UP);
        let (until, patience) = question(state, is_setting_up, policy);
        let Some(said) = ask(&shared, &tunnel, until, patience).await else { return };
        state = match said {
            Ok(state) => Some(state),
            Err(error) => {
                tracing::debug!(peer = %tunnel.peer, %error, "psmcd does not say how the service is reached");
                None
            }
        };
        let now = state.map_or(Reach::Silent, Reach::Known);
        reach.send_if_modified(|before| std::mem::replace(before, now) != now);
        if reach.is_closed() {
            return;
        }
        match (state, is_setting_up) {
            (None, _) => sleep(SILENT).await,
            (Some(_), true) => sleep_until(asked_at + QUICK).await,
            (Some(_), false) => {
                tokio::select! {
                    () = sleep_until(asked_at + PACE) => {}
                    Ok(()) = routes.changed() => handed_at = Some(Instant::now()),
                }
            }
        }
    }
}

/// Asks psmcd to wait if it has room for that, and otherwise polls it. `None` when the program ends.
async fn ask(
    shared: &Shared,
    tunnel: &Tunnel,
    until: Until,
    patience: Duration,
) -> Option<Result<TunnelState, TunnelError>> {
    let (tunnels, tunnel) = (shared.tunnels.clone(), tunnel.clone());
    let place = if patience > Duration::ZERO { shared.turns.wait() } else { None };
    match place {
        Some(_place) => spawn_blocking(move || tunnels.wait(&tunnel, until, patience)).await.ok(),
        None => shared.turns.call(move || tunnels.wait(&tunnel, until, Duration::ZERO)).await,
    }
}

/// What to ask, and how long psmcd shall wait: for the change that matters, if there is one to wait for.
fn question(state: Option<TunnelState>, is_setting_up: bool, policy: Option<Policy>) -> (Until, Duration) {
    match state {
        None => (Until::Usable, Duration::ZERO),
        // What matters is whether the alternate routes are up, for which psmcd does not wait.
        Some(state) if state.direct_well && (is_setting_up || policy == Some(Policy::PreferIndirect)) => {
            (Until::Trouble, Duration::ZERO)
        }
        Some(state) if state.direct_well => (Until::Trouble, PATIENCE),
        Some(state) if state.usable => (Until::Usable, Duration::ZERO),
        Some(_) if is_setting_up => (Until::Usable, QUICK),
        Some(_) => (Until::Usable, PACE),
    }
}

/// Calls for which psmcd waits: half of what it has room for, so that others can have it wait as well.
const MAX_WAITS: usize = 4;

/// Calls that are answered at once.
const MAX_CALLS: usize = 2;

/// The turns of all services: psmcd serves 16 clients at once, of whom 8 may let it wait.
#[derive(Debug)]
pub(crate) struct Turns {
    waits: Semaphore,
    calls: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self { waits: Semaphore::new(MAX_WAITS), calls: Semaphore::new(MAX_CALLS) }
    }
}

impl Turns {
    /// A place for a call for which psmcd waits, if there is one.
    pub(super) fn wait(&self) -> Option<SemaphorePermit<'_>> {
        self.waits.try_acquire().ok()
    }

    /// Calls psmcd as soon as it is this one's turn; `None` when the program ends.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = self.calls.acquire().await.ok()?;
        spawn_blocking(call).await.ok()
    }
}
