//! Services: names whose alternate routes are found, handed to psmcd, and waited for.
//!
//! | module | what it has |
//! |---|---|
//! | `carried` | addresses of services in other answers |
//! | `beliefs` | which routes are believed |
//! | `schedule` | when they are looked for |
//! | `kept` | what of them is on disk |
//! | `keeper` | the task that does all that for a service |
//! | `tracker` | the task that follows how psmcd reaches it |
//! | `turns` | how many of them may call psmcd at a time |

mod beliefs;
mod carried;
mod check;
mod keeper;
mod kept;
mod schedule;
mod tracker;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_signal::Routes;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lookup::Lookup;
use super::question::Question;
use super::reply::Reply;
use super::status::Counters;
use super::tunnels::{FailedRelay, Policy, Tunnel, TunnelState, Tunnels};
pub(super) use carried::{has_hint, names_with_addresses};
use keeper::Keeper;
use psmc_routes::GroupKey;
use psmc_service::clock::unix_seconds;
pub(super) use tracker::Turns;

/// The TTL of an answer that came before the tunnel could be used: the application is to ask again soon.
const TTL_IN_VAIN: u32 = 1;

/// The most that an answer lasts while there are alternate routes: they can end at any moment.
const TTL_WITH_ROUTES: u32 = 10;

/// The TTL of addresses that no name server confirms (RFC 8767 §4).
const STALE_TTL: u32 = 30;

/// Addresses of one family that are remembered.
const MAX_ADDRESSES: usize = 16;

/// Questions that wait to be noticed by the task of their service.
const MAX_CALLS: usize = 64;

/// A service of the configuration.
#[derive(Debug)]
pub struct ServiceConfig {
    /// Its name, absolute and in lower case.
    pub name: Name,
    /// Its key, which signs its routes.
    pub public_key: PublicKey,
    /// The secret of the group of clients that this one is in.
    pub group_key: Option<PrivateKey>,
    /// Which peer of psmcd it is.
    pub tunnel: Tunnel,
    /// Which paths shall carry data; as psmcd's configuration says where it is absent.
    pub policy: Option<Policy>,
    /// Its addresses inside the tunnel, which are answered in the place of those in DNS while the tunnel can be used.
    pub addresses: Vec<IpAddr>,
}

/// What services have in common.
pub(super) struct Shared {
    pub(super) lookup: Arc<Lookup>,
    pub(super) tunnels: Arc<dyn Tunnels>,
    pub(super) turns: Turns,
    pub(super) counters: Arc<Counters>,
    /// Where routes are kept.
    pub(super) directory: PathBuf,
    /// How long an answer may wait for the tunnel.
    pub(super) patience: Duration,
}

/// The routes of a service that count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutesStatus {
    /// Their serial number.
    pub serial: u64,
    /// When they end, in seconds since 1970 (UTC).
    pub expires_s: u64,
    /// Whether they are those of this client's group.
    pub of_group: bool,
    /// The relays, the preferred one first.
    pub relays: Vec<SocketAddr>,
    /// Whether psmcd has them.
    pub handed: bool,
    /// Why it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What there is to know of a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// What it is called by psmcd.
    pub peer: String,
    /// Its routes; absent if none count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<RoutesStatus>,
    /// How psmcd reaches it; absent if psmcd does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<TunnelState>,
}

/// What psmcd says of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It was not asked yet.
    Unknown,
    /// It does not answer.
    Silent,
    /// This.
    Known(TunnelState),
}

/// Somebody asks for the name.
struct Call {
    /// Told as soon as it is known whether there are routes.
    checked: oneshot::Sender<()>,
}

/// A service while the resolver runs.
pub(super) struct Service {
    name: Name,
    tunnel: Tunnel,
    policy: Option<Policy>,
    addresses: Vec<IpAddr>,
    calls: mpsc::Sender<Call>,
    told: mpsc::Sender<Routes>,
    /// The addresses that DNS last had for it: they serve when no name server answers.
    last: watch::Sender<Vec<IpAddr>>,
    routes: watch::Receiver<Option<RoutesStatus>>,
    reach: watch::Receiver<Reach>,
}

/// What an answer for a service's address depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// There are no routes, or nothing that could use them: DNS has the last word.
    Plain,
    /// The service is reached; the routes end at this time.
    Ready(u64),
    /// It is not reached yet.
    Wait,
}

impl Service {
    /// Starts the tasks of a service.
    pub(super) fn start(config: ServiceConfig, shared: &Arc<Shared>, tasks: &mut JoinSet<()>) -> Self {
        let (calls, called) = mpsc::channel(MAX_CALLS);
        let (told, telling) = mpsc::channel(1);
        let (reach_to, reach) = watch::channel(Reach::Unknown);
        let (routes_to, routes) = watch::channel(None);
        let ServiceConfig { name, public_key, group_key, tunnel, policy, addresses } = config;
        let group = group_key.as_ref().map(GroupKey::new);
        let keeper = Keeper::new(shared.clone(), (name.clone(), public_key, group), (tunnel.clone(), policy));
        let (last, learned) = watch::channel(keeper.addresses());
        tasks.spawn(tracker::track(shared.clone(), (tunnel.clone(), policy), reach_to, routes.clone()));
        tasks.spawn(keeper.run((called, telling), learned, reach.clone(), routes_to));
        Self { name, tunnel, policy, addresses, calls, told, last, routes, reach }
    }

    /// Considers what a coordinator says.
    pub(super) async fn tell(&self, routes: Routes) {
        // At the end of the program nobody listens any more.
        let _ = self.told.send(routes).await;
    }

    /// The relays that psmcd has routes over and through which nothing comes.
    pub(super) async fn failed_relays(&self, shared: &Shared) -> Vec<FailedRelay> {
        if !self.routes.borrow().as_ref().is_some_and(|routes| routes.handed) {
            return Vec::new();
        }
        let (tunnels, tunnel) = (shared.tunnels.clone(), self.tunnel.clone());
        // Whoever follows how the service is reached tells of a psmcd that does not answer.
        shared.turns.call(move || tunnels.failed(&tunnel)).await.and_then(Result::ok).unwrap_or_default()
    }

    /// The answer to a question for its address: as soon as the service is reached, or after `patience`.
    pub(super) async fn answer(
        &self,
        question: &Question,
        plain: impl Future<Output = Reply>,
        shared: &Shared,
    ) -> Reply {
        let waiting = async { timeout(shared.patience, self.ready(&shared.counters)).await };
        let (reply, readiness) = tokio::join!(plain, waiting);
        let reply = self.remember(question, reply, &shared.counters);
        match readiness {
            Ok(None) => reply,
            Ok(Some(expires_s)) => {
                let reply = self.inner(question).unwrap_or(reply);
                reply.capped(ttl_until(expires_s))
            }
            Err(_) => {
                shared.counters.awaited_in_vain();
                if self.addresses.is_empty() || !reply.is_negative() {
                    reply.capped(TTL_IN_VAIN)
                } else {
                    // That there is no address must not be remembered: soon there may be one.
                    Reply::of_code(ResponseCode::ServFail)
                }
            }
        }
    }

    /// An answer to another question that has addresses of the service: what holds for its own holds for them.
    pub(super) async fn adapt(&self, question: &Question, reply: Reply, shared: &Shared) -> Reply {
        match timeout(shared.patience, self.ready(&shared.counters)).await {
            Ok(None) => reply,
            Ok(Some(expires_s)) => {
                let reply = if self.addresses.is_empty() {
                    reply
                } else {
                    carried::with_addresses(&reply, &self.name, question.kind(), &self.addresses)
                };
                reply.capped(ttl_until(expires_s))
            }
            Err(_) => {
                shared.counters.awaited_in_vain();
                reply.capped(TTL_IN_VAIN)
            }
        }
    }

    pub(super) fn status(&self) -> ServiceStatus {
        ServiceStatus {
            name: self.name.to_string(),
            peer: self.tunnel.peer.to_string(),
            routes: self.routes.borrow().clone(),
            tunnel: match *self.reach.borrow() {
                Reach::Known(state) => Some(state),
                Reach::Unknown | Reach::Silent => None,
            },
        }
    }

    /// Returns when the service is reached, with the time when its routes end; or `None` where it has none.
    async fn ready(&self, counters: &Counters) -> Option<u64> {
        let (checked, is_checked) = oneshot::channel();
        let called = self.calls.try_send(Call { checked }).is_ok();
        if called && !self.is_well() {
            // The task is there as long as the resolver.
            let _ = is_checked.await;
        }
        let (mut routes, mut reach) = (self.routes.clone(), self.reach.clone());
        let mut has_waited = false;
        loop {
            let readiness = self.readiness(&routes.borrow_and_update(), *reach.borrow_and_update());
            match readiness {
                Readiness::Plain => return None,
                Readiness::Ready(expires_s) => return Some(expires_s),
                Readiness::Wait => {}
            }
            if !has_waited {
                counters.awaited();
                has_waited = true;
            }
            let changed = tokio::select! {
                changed = routes.changed() => changed,
                changed = reach.changed() => changed,
            };
            if changed.is_err() {
                return None;
            }
        }
    }

    fn readiness(&self, routes: &Option<RoutesStatus>, reach: Reach) -> Readiness {
        let inner = !self.addresses.is_empty();
        match (routes, reach) {
            // Its own addresses are those inside the tunnel, whichever way that leads.
            (None, Reach::Known(state)) if inner && state.usable && state.direct_well => {
                Readiness::Ready(u64::MAX)
            }
            (None, _) | (_, Reach::Silent) => Readiness::Plain,
            (Some(routes), _) if routes.problem.is_some() => Readiness::Plain,
            (Some(routes), _) if !routes.handed => Readiness::Wait,
            (Some(routes), Reach::Known(state))
                if state.learned_up || (state.direct_well && self.policy != Some(Policy::PreferIndirect)) =>
            {
                if state.usable {
                    Readiness::Ready(routes.expires_s)
                } else {
                    Readiness::Wait
                }
            }
            (Some(_), Reach::Known(_) | Reach::Unknown) => Readiness::Wait,
        }
    }

    /// Whether there is no need to look for routes before the answer.
    fn is_well(&self) -> bool {
        let direct = matches!(*self.reach.borrow(), Reach::Known(state) if state.usable && state.direct_well);
        direct && self.policy != Some(Policy::PreferIndirect)
    }

    /// Keeps the addresses of an answer; where there is none because no name server answers, gives the last ones.
    fn remember(&self, question: &Question, reply: Reply, counters: &Counters) -> Reply {
        if reply.is_final() {
            let found = reply.addresses();
            if !found.is_empty() {
                self.last.send_if_modified(|last| learn(last, found));
            }
            return reply;
        }
        let last = records(question, &self.last.borrow(), STALE_TTL);
        if last.is_negative() {
            return reply;
        }
        counters.stale();
        last
    }

    /// The addresses inside the tunnel, where it has such.
    fn inner(&self, question: &Question) -> Option<Reply> {
        (!self.addresses.is_empty()).then(|| records(question, &self.addresses, TTL_WITH_ROUTES))
    }
}

/// The TTL of an answer that holds as long as routes that end at this time.
fn ttl_until(expires_s: u64) -> u32 {
    let left = u32::try_from(expires_s.saturating_sub(unix_seconds())).unwrap_or(u32::MAX);
    left.clamp(TTL_IN_VAIN, TTL_WITH_ROUTES)
}

/// Puts addresses of one family in the place of those before, and says whether they are others. Servers give them in any
/// order.
fn learn(last: &mut Vec<IpAddr>, mut found: Vec<IpAddr>) -> bool {
    let is_v4 = found.first().is_some_and(IpAddr::is_ipv4);
    found.truncate(MAX_ADDRESSES);
    found.extend(last.iter().filter(|ip| ip.is_ipv4() != is_v4));
    found.sort_unstable();
    let is_new = *last != found;
    *last = found;
    is_new
}

/// Those of the addresses that are asked for.
fn records(question: &Question, addresses: &[IpAddr], ttl: u32) -> Reply {
    let data = addresses.iter().filter_map(|address| match (question.kind(), address) {
        (RecordType::A, IpAddr::V4(ip)) => Some(RData::A((*ip).into())),
        (RecordType::AAAA, IpAddr::V6(ip)) => Some(RData::AAAA((*ip).into())),
        _ => None,
    });
    let record = |data| Record::from_rdata(question.name().clone(), ttl, data);
    Reply::of_records(data.map(record).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_learned_by_family_and_their_order_is_no_news() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut last = Vec::new();
        assert!(learn(&mut last, vec![ip("192.0.2.2"), ip("192.0.2.1")]));
        assert!(!learn(&mut last, vec![ip("192.0.2.1"), ip("192.0.2.2")]));
        assert!(learn(&mut last, vec![ip("2001:db8::1")]));
        assert!(learn(&mut last, vec![ip("192.0.2.3")]));
        assert_eq!(last, [ip("192.0.2.3"), ip("2001:db8::1")]);
    }
}
