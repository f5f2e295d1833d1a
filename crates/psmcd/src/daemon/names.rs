//! Names of endpoints, resolved beside the loop: a resolver that does not answer stops nothing but what needs its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::PeerId;
use tokio::sync::Semaphore;

use super::DaemonError;
use super::connections::TaskEnd;
use super::control::Control;
use super::lookup::lookup;
use super::paths::OpenError;
use crate::api::{Call, Response};
use crate::config::{Endpoint, Host};

/// Names that are looked up at a time. Each takes sockets, a few for each uplink, and some seconds if nobody answers.
const MAX_QUESTIONS: usize = 32;

/// An answer is used for so long: all paths of a peer are opened with the same, and a name that moves is followed soon.
const FRESH: Duration = Duration::from_secs(10);

/// That there is no answer is believed for so long: a little less than the time after which paths are tried again.
const FAILED: Duration = Duration::from_millis(900);

/// A client waits no longer for a resolver. `psmc` itself would wait a little longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names that were asked for.
pub(super) struct Names {
    known: BTreeMap<Endpoint, Known>,
    /// Those that are asked for, and the peers whose paths wait for that.
    asked: BTreeMap<Endpoint, BTreeSet<PeerId>>,
    /// Clients whose requests wait for that.
    calls: Vec<WaitingCall>,
    places: Arc<Semaphore>,
}

/// What the resolver said, and when.
struct Known {
    addresses: Vec<SocketAddr>,
    at: Instant,
}

struct WaitingCall {
    call: Call,
    endpoint: Endpoint,
    until: Instant,
}

impl Default for Names {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(MAX_QUESTIONS));
        Self { known: BTreeMap::new(), asked: BTreeMap::new(), calls: Vec::new(), places }
    }
}

impl Names {
    /// All addresses that are known.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &SocketAddr> {
        self.known.values().flat_map(|known| &known.addresses)
    }

    /// What is known of a name; `None` if it has to be asked for. No address means that there is none.
    fn find(&mut self, endpoint: &Endpoint, now: Instant) -> Option<&[SocketAddr]> {
        let is_fresh =
            |known: &mut Known| now < known.at + if known.addresses.is_empty() { FAILED } else { FRESH };
        self.known.retain(|_, known| is_fresh(known));
        self.known.get(endpoint).map(|known| known.addresses.as_slice())
    }

    fn take_calls(&mut self, which: impl Fn(&WaitingCall) -> bool) -> Vec<Call> {
        self.calls.extract_if(.., |waiting| which(waiting)).map(|waiting| waiting.call).collect()
    }
}

impl Control {
    /// The first address of an endpoint, for a path to this peer: one to which a route leads, if there is any.
    ///
    /// # Errors
    /// As of [`addresses_of`](Self::addresses_of).
    pub(super) fn address_of(&mut self, endpoint: &Endpoint, peer: PeerId) -> Result<SocketAddr, OpenError> {
        self.addresses_of(endpoint, peer).map(|addresses| addresses[0])
    }

    /// The addresses of an endpoint, of which there is one at least. If they are not known yet, the peer's paths are opened again when
    /// they are.
    ///
    /// # Errors
    /// [`OpenError::Unresolved`], or [`OpenError::Resolving`] if they are not known yet.
    pub(super) fn addresses_of(
        &mut self,
        endpoint: &Endpoint,
        peer: PeerId,
    ) -> Result<Vec<SocketAddr>, OpenError> {
        if let Some(address) = endpoint.socket_addr() {
            return Ok(vec![address]);
        }
        match self.names.find(endpoint, Instant::now()) {
            Some([]) => Err(OpenError::Unresolved(endpoint.clone())),
            Some(addresses) => Ok(addresses.to_vec()),
            None => {
                self.ask_for(endpoint, peer);
                Err(OpenError::Resolving(endpoint.clone()))
            }
        }
    }

    /// Has a request answered when the name is known that it needs.
    pub(super) fn answer_when_resolved(&mut self, call: Call, endpoint: Endpoint) {
        self.names.calls.push(WaitingCall { call, endpoint, until: Instant::now() + PATIENCE });
    }

    /// Answers requests that have waited for too long.
    pub(super) fn end_waiting_calls(&mut self) {
        let now = Instant::now();
        let resolving = |waiting: &WaitingCall| OpenError::Resolving(waiting.endpoint.clone());
        for waiting in self.names.calls.extract_if(.., |waiting| waiting.until <= now) {
            let error = resolving(&waiting);
            waiting.call.respond(Response::error(error));
        }
    }

    fn ask_for(&mut self, endpoint: &Endpoint, peer: PeerId) {
        let waiting = self.names.asked.entry(endpoint.clone()).or_default();
        let is_asked = !waiting.is_empty();
        waiting.insert(peer);
        if is_asked {
            return;
        }
        let (places, endpoint) = (self.names.places.clone(), endpoint.clone());
        self.tasks.spawn(async move {
            let addresses = look_up(places, endpoint.clone()).await;
            TaskEnd::Resolved(endpoint, addresses)
        });
    }

    /// The resolver has answered, or given up.
    pub(super) async fn on_resolved(
        &mut self,
        endpoint: Endpoint,
        addresses: Vec<SocketAddr>,
    ) -> Result<(), DaemonError> {
        let waiting = self.names.asked.remove(&endpoint).unwrap_or_default();
        let calls = self.names.take_calls(|waiting| waiting.endpoint == endpoint);
        self.names.known.insert(endpoint, Known { addresses, at: Instant::now() });
        for peer in waiting {
            if let Some(index) = self.peer_index(peer) {
                self.open_configured_paths(index).await;
            }
        }
        for call in calls {
            Box::pin(self.on_call(call)).await?;
        }
        Ok(())
    }
}

/// The addresses of an endpoint; none if there are none. No more than [`MAX_QUESTIONS`] are asked for at a time.
async fn look_up(places: Arc<Semaphore>, endpoint: Endpoint) -> Vec<SocketAddr> {
    let Host::Dns(name) = endpoint.host else { return Vec::new() };
    let Ok(_place) = places.acquire_owned().await else { return Vec::new() };
    lookup(name.as_str(), endpoint.port.get()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_believed_for_a_while_and_failures_for_less() {
        let start = Instant::now();
        let endpoint = |name: &str| format!("{name}:5115").parse::<Endpoint>().unwrap();
        let mut names = Names::default();
        let address = SocketAddr::from(([192, 0, 2, 1], 5115));
        names.known.insert(endpoint("hq"), Known { addresses: vec![address], at: start });
        names.known.insert(endpoint("nowhere"), Known { addresses: Vec::new(), at: start });
        for (name, after, expected) in [
            ("hq", Duration::ZERO, Some(&[address][..])),
            ("nowhere", Duration::ZERO, Some(&[][..])),
            ("unknown", Duration::ZERO, None),
            ("nowhere", FAILED, None),
            ("hq", FAILED, Some(&[address][..])),
            ("hq", FRESH, None),
        ] {
            assert_eq!(names.find(&endpoint(name), start + after), expected, "{name} after {after:?}");
        }
    }
}
