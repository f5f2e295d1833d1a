//! Names of endpoints, resolved beside the loop: a resolver that does not answer stops nothing but what needs its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::PeerId;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::DaemonError;
use super::control::Control;
use super::lookup::lookup;
use super::paths::OpenError;
use super::tasks::{TaskEnd, Tasks};
use crate::config::{Endpoint, Host};
use psmc_api::{Call, Response};

/// Names that are looked up at a time. Each takes sockets, a few for each uplink, and some seconds if nobody answers.
const MAX_QUESTIONS: usize = 32;

/// An answer is used for so long: all paths of a peer are opened with the same, and a name that moves is followed soon.
const FRESH: Duration = Duration::from_secs(10);

/// After the first question without an answer the next one waits for so long: a little less than the time after which paths are
/// tried again. Then twice as long each time, [`DOUBLINGS`] times at most: who has repaired a name should see that soon.
const FAILED: Duration = Duration::from_millis(900);
const DOUBLINGS: u32 = 2;

/// An answer that takes longer is none: it is asked for again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// What nobody has wanted to know for so long is forgotten.
const KEPT: Duration = Duration::from_secs(3600);

/// A client waits no longer for a resolver. `psmc` itself would wait a little longer.
const CALL_PATIENCE: Duration = Duration::from_secs(5);

/// The names that were asked for.
pub(super) struct Names {
    known: BTreeMap<Endpoint, Known>,
    /// Those that are asked for, and the peers whose paths wait for that.
    asked: BTreeMap<Endpoint, BTreeSet<PeerId>>,
    /// Clients whose requests wait for that.
    calls: Vec<WaitingCall>,
    places: Arc<Semaphore>,
}

/// What the resolver said when it last answered, if it ever did.
#[derive(Debug, Default)]
struct Known {
    addresses: Vec<SocketAddr>,
    /// How often it has not answered since.
    failures: u32,
    /// When it is to be asked again, should somebody want to know.
    ask_at: Option<Instant>,
}

impl Known {
    fn learn(&mut self, addresses: &[SocketAddr], now: Instant) {
        if addresses.is_empty() {
            self.ask_at = Some(now + FAILED * (1 << self.failures.min(DOUBLINGS)));
            self.failures += 1;
        } else {
            *self = Self { addresses: addresses.to_vec(), failures: 0, ask_at: Some(now + FRESH) };
        }
    }
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

    /// What is known of a name; `None` if it has to be asked for. No address means that there is none. As long as nobody answers
    /// the last answer counts.
    fn find(&self, endpoint: &Endpoint, now: Instant) -> Option<&[SocketAddr]> {
        let known = self.known.get(endpoint).filter(|known| known.ask_at.is_some_and(|at| now < at));
        known.map(|known| known.addresses.as_slice())
    }

    /// The network is another one: who has not answered may do so now.
    pub(super) fn ask_soon(&mut self) {
        for known in self.known.values_mut().filter(|known| known.failures > 0) {
            (known.failures, known.ask_at) = (0, None);
        }
    }

    /// The first address of an endpoint, for a path to this peer: one to which a route leads, if there is any.
    ///
    /// # Errors
    /// As of [`addresses_of`](Self::addresses_of).
    pub(super) fn address_of(
        &mut self,
        endpoint: &Endpoint,
        peer: PeerId,
        tasks: &mut Tasks,
    ) -> Result<SocketAddr, OpenError> {
        self.addresses_of(endpoint, peer, tasks).map(|addresses| addresses[0])
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
        tasks: &mut Tasks,
    ) -> Result<Vec<SocketAddr>, OpenError> {
        if let Some(address) = endpoint.socket_addr() {
            return Ok(vec![address]);
        }
        match self.find(endpoint, Instant::now()) {
            Some([]) => Err(OpenError::Unresolved(endpoint.clone())),
            Some(addresses) => Ok(addresses.to_vec()),
            None => {
                self.ask(endpoint, tasks);
                self.asked.entry(endpoint.clone()).or_default().insert(peer);
                Err(OpenError::Resolving(endpoint.clone()))
            }
        }
    }

    /// Has a request answered when the name is known that it needs.
    pub(super) fn answer_when_resolved(&mut self, call: Call, endpoint: Endpoint) {
        self.calls.push(WaitingCall { call, endpoint, until: Instant::now() + CALL_PATIENCE });
    }

    /// Answers requests that have waited for too long.
    pub(super) fn end_waiting_calls(&mut self) {
        let now = Instant::now();
        for waiting in self.calls.extract_if(.., |waiting| waiting.until <= now) {
            waiting.call.respond(Response::error(OpenError::Resolving(waiting.endpoint)));
        }
    }

    /// Asks for the addresses of a name, whatever is known of it, unless that is under way.
    pub(super) fn ask(&mut self, endpoint: &Endpoint, tasks: &mut Tasks) {
        if self.asked.contains_key(endpoint) {
            return;
        }
        self.asked.insert(endpoint.clone(), BTreeSet::new());
        let (places, endpoint) = (self.places.clone(), endpoint.clone());
        tasks.spawn(async move {
            let addresses = look_up(places, endpoint.clone()).await;
            TaskEnd::Resolved(endpoint, addresses)
        });
    }

    /// The resolver has answered, or given up. Returns the peers and the requests that have waited for that.
    fn on_resolved(
        &mut self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        now: Instant,
    ) -> (BTreeSet<PeerId>, Vec<Call>) {
        let peers = self.asked.remove(endpoint).unwrap_or_default();
        let calls = self.calls.extract_if(.., |waiting| waiting.endpoint == *endpoint);
        let calls = calls.map(|waiting| waiting.call).collect();
        self.known.retain(|_, known| known.ask_at.is_none_or(|at| now < at + KEPT));
        self.known.entry(endpoint.clone()).or_default().learn(addresses, now);
        (peers, calls)
    }
}

impl Control {
    /// The resolver has answered, or given up.
    pub(super) async fn on_resolved(
        &mut self,
        endpoint: Endpoint,
        addresses: Vec<SocketAddr>,
    ) -> Result<(), DaemonError> {
        let (waiting, calls) = self.names.on_resolved(&endpoint, &addresses, Instant::now());
        self.tell_silent_paths(&endpoint, &addresses).await?;
        for peer in waiting {
            if let Some(index) = self.peers.index_of(peer) {
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
    timeout(ANSWER_TIMEOUT, lookup(name.as_str(), endpoint.port.get())).await.unwrap_or_default()
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
        for (name, addresses) in [("hq", &[address][..]), ("nowhere", &[])] {
            names.known.entry(endpoint(name)).or_default().learn(addresses, start);
        }
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
        names.ask_soon();
        assert_eq!(names.find(&endpoint("nowhere"), start), None, "the network has changed");
        assert!(names.find(&endpoint("hq"), start).is_some());
    }

    #[test]
    fn a_name_is_asked_for_as_long_as_it_has_no_answer_and_the_last_one_counts_meanwhile() {
        let (mut now, mut known) = (Instant::now(), Known::default());
        let address = SocketAddr::from(([192, 0, 2, 1], 5115));
        known.learn(&[address], now);
        let mut waits = Vec::new();
        for _ in 0..5 {
            known.learn(&[], now);
            assert_eq!(known.addresses, [address]);
            let ask_at = known.ask_at.unwrap();
            waits.push((ask_at - now).as_millis());
            now = ask_at;
        }
        assert_eq!(waits, [900, 1800, 3600, 3600, 3600]);
        known.learn(&[address], now);
        assert_eq!(known.ask_at, Some(now + FRESH));
    }
}
