//! What sites have dropped of what goes to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ipnet::{IpNet, Ipv4Net};
use psmc_core::shed::{Bounds, Register, ShedCounts};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::Refusal;
use psmc_wire::shed::{Answer, Ask, Outcome, What};
use tokio::sync::Mutex;

use super::hub::Hub;
use super::{Denied, Member};
use crate::config::Tunnel;
use crate::status::{Shed, ShedRule, Shedding};
use crate::worker::WorkerDied;

/// Sites of which a serial number is remembered though they have no rules: those that are served and have asked at all. Beyond that the
/// others are forgotten.
const MAX_REMEMBERED: usize = 4096;

/// The rules of all sites, and for which inner addresses each may have some.
#[derive(Debug, Default)]
pub(super) struct Rules {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sites: BTreeMap<KeyBytes, Register>,
    inside: BTreeMap<KeyBytes, Vec<Ipv4Net>>,
    counts: ShedCounts,
}

impl Rules {
    pub(super) fn new(tunnels: &[Tunnel]) -> Self {
        Self { state: Mutex::new(State { inside: inside(tunnels), ..State::default() }) }
    }
}

/// Which inner addresses are behind the ends of which site.
fn inside(tunnels: &[Tunnel]) -> BTreeMap<KeyBytes, Vec<Ipv4Net>> {
    let mut inside = BTreeMap::<_, Vec<_>>::new();
    for end in tunnels.iter().flat_map(|tunnel| &tunnel.ends) {
        if let Some(owner) = end.owner {
            inside.entry(KeyBytes(*owner.as_bytes())).or_default().extend(&end.inside);
        }
    }
    inside
}

impl Hub {
    /// Takes what a site wants dropped of what goes to it, or tells what it has.
    pub(crate) async fn shed(&self, member: &Member, ask: &Ask) -> Result<Answer, Denied> {
        if member.is_coordinator {
            return Err(Denied::new(Refusal::NotAllowed, "nothing leads to the coordinator"));
        }
        Self::check_grant(member)?;
        let site = member.account.key();
        let mut own_hops = Vec::new();
        for rule in &ask.rules {
            if let What::Label(hop, _) = &rule.what {
                let wanted = hop.clone();
                let found = self.of_each_worker(move |worker| worker.relay.has_hop(&wanted)).await?;
                own_hops.extend(found.contains(&true).then_some(hop));
            }
        }
        let mut state = self.rules.state.lock().await;
        let State { sites, inside, counts } = &mut *state;
        let networks = inside.get(&site).map(Vec::as_slice).unwrap_or_default();
        let is_own = |what: &What| match what {
            What::Packets(packets) => {
                networks.iter().any(|net| IpNet::from(*net).contains(&packets.destination))
            }
            What::Datagrams(_) => true,
            What::Label(hop, _) => own_hops.contains(&hop),
        };
        let now = self.clock();
        if sites.len() >= MAX_REMEMBERED && !sites.contains_key(&site) {
            sites.retain(|_, register| !register.lasts(now).is_zero());
        }
        let register = sites.entry(site).or_default();
        let answer = register.handle(ask, Bounds::default(), is_own, counts, now);
        if answer.outcome == Outcome::Taken {
            let held = Arc::new(register.held());
            // While the state is locked, so that what is said last is what holds.
            self.of_each_worker(move |worker| worker.set_rules(site, Some(held.clone()))).await?;
        }
        Ok(answer)
    }

    /// A site is served no more: nothing is dropped for it.
    pub(super) async fn forget_rules(&self, site: KeyBytes) -> Result<(), WorkerDied> {
        let mut state = self.rules.state.lock().await;
        state.sites.remove(&site);
        self.of_each_worker(move |worker| worker.set_rules(site, None)).await.map(drop)
    }

    /// Goes by other tunnels.
    pub(super) async fn reload_owners(&self, tunnels: &[Tunnel]) {
        self.rules.state.lock().await.inside = inside(tunnels);
    }

    /// What is dropped for whom, for people; `name_of` says what a site is called.
    pub(crate) async fn shedding(&self, name_of: impl Fn(&KeyBytes) -> String) -> Shedding {
        let state = self.rules.state.lock().await;
        let now = self.clock();
        let rules = |site: &KeyBytes, register: &Register| {
            let lasts_s = register.lasts(now).as_secs_f64();
            let rules: Vec<_> = register.told(now).map(|told| ShedRule::new(&told)).collect();
            Shed { site: name_of(site), lasts_s, rules }
        };
        let sites = state.sites.iter().map(|(site, register)| rules(site, register));
        Shedding { counts: state.counts.into(), sites: sites.filter(|shed| !shed.rules.is_empty()).collect() }
    }

    /// In nanoseconds since the origin of its workers.
    fn clock(&self) -> u64 {
        u64::try_from(Instant::now().saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}
