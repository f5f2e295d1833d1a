//! A zone as the server has it: what is answered, who may change or fetch it, and who is told.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use hickory_proto::rr::{Name, Record};
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::transfer::{History, whole};
use crate::store::{Store, StoreError};
use crate::zone::{Refusal, Zone, ZoneSigner};
use psmc_routes::update::TsigKey;

/// How a zone is kept.
#[derive(Debug)]
pub enum Role {
    /// It is ours: from a file, and where there are keys that may change it, in the database.
    Primary {
        /// Keys whose updates are carried out.
        updaters: Vec<Name>,
        /// What signs it.
        signer: Option<ZoneSigner>,
    },
    /// It is another server's.
    Secondary {
        /// Where it is fetched.
        primary: SocketAddr,
        /// What transfers are signed with.
        key: Option<TsigKey>,
    },
}

/// Another server that has the zone from us.
#[derive(Clone, Debug)]
pub struct Secondary {
    /// Where it is told of changes.
    pub address: SocketAddr,
    /// What that is signed with.
    pub key: Option<TsigKey>,
}

/// Who may fetch the whole zone.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Whoever signs with one of these keys.
    pub keys: Vec<Name>,
    /// Whoever has one of these addresses.
    pub addresses: Vec<IpAddr>,
}

impl Access {
    /// Whether a request at `from`, signed with `key`, is let in.
    pub(super) fn admits(&self, from: IpAddr, key: Option<&Name>) -> bool {
        key.is_some_and(|key| self.keys.contains(key)) || self.addresses.contains(&from.to_canonical())
    }
}

/// A zone of the server.
#[derive(Debug)]
pub struct Hosted {
    origin: Name,
    /// How it is kept.
    pub role: Role,
    /// Who may fetch it.
    pub access: Access,
    /// Who is told when it changes.
    pub secondaries: Vec<Secondary>,
    state: RwLock<State>,
    /// One change at a time.
    changing: Mutex<()>,
    /// The zone has changed: others are to be told.
    pub(super) changed: Notify,
    /// The primary says that the zone has changed.
    pub(super) notified: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What updates change: the zone without signatures that we make.
    base: Option<Arc<Zone>>,
    /// What is answered.
    served: Option<Arc<Zone>>,
    history: History,
    /// What has taken its place.
    successor: Option<Arc<Hosted>>,
}

/// A zone that no update changes meanwhile.
#[derive(Debug)]
pub struct Paused<'a> {
    hosted: &'a Hosted,
    _alone: MutexGuard<'a, ()>,
}

impl Paused<'_> {
    /// Another one takes its place, also for the updates that are waiting for this one.
    pub fn retire(self, successor: &Arc<Hosted>) {
        let mut state = self.hosted.state.write().unwrap_or_else(PoisonError::into_inner);
        (state.base, state.successor) = (None, Some(successor.clone()));
    }
}

/// What came of an update.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is on the disk, and served.
    Changed,
    /// There was nothing to do.
    Unchanged,
    /// RFC 2136 forbids it.
    Refused(Refusal),
    /// The database, or signing, failed: nothing has changed.
    Failed(String),
}

impl Hosted {
    /// A zone of which nothing is known yet.
    #[must_use]
    pub fn new(origin: &Name, role: Role, access: Access, secondaries: Vec<Secondary>) -> Self {
        Self {
            origin: origin.to_lowercase(),
            role,
            access,
            secondaries,
            state: RwLock::default(),
            changing: Mutex::new(()),
            changed: Notify::new(),
            notified: Notify::new(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// What is answered; `None` before the first transfer, and after a secondary's zone has expired.
    #[must_use]
    pub fn served(&self) -> Option<Arc<Zone>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).served.clone()
    }

    /// Serves a zone that is at hand: from a file, the database, or a transfer. Yields whether it is a new one.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn serve(&self, base: Zone, now_s: u64) -> Result<bool, String> {
        let before = self.served();
        let served = self.signed(&base, before.as_deref(), now_s)?;
        let is_new = before.as_ref().is_none_or(|before| before.serial() != served.serial());
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match before {
            Some(before) if is_new => state.history.push(before.serial(), before.delta(&served)),
            Some(_) => {}
            None => state.history.clear(),
        }
        (state.base, state.served) = (Some(Arc::new(base)), Some(served));
        drop(state);
        if is_new {
            self.changed.notify_one();
        }
        Ok(is_new)
    }

    /// Goes on from what another one has served: secondaries are sent what changes, and are told in any case.
    pub fn inherit(&self, old: &Self) {
        let old = old.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        (state.base, state.served) = (old.base.clone(), old.served.clone());
        state.history = old.history.clone();
        self.changed.notify_one();
    }

    /// Lets no update in, and waits for the one that is being carried out.
    pub async fn pause(&self) -> Paused<'_> {
        Paused { hosted: self, _alone: self.changing.lock().await }
    }

    /// Whether another one is signed with the same key, or neither is signed.
    #[must_use]
    pub fn is_signed_as(&self, other: &Self) -> bool {
        let key = |hosted: &Self| match &hosted.role {
            Role::Primary { signer, .. } => signer.as_ref().map(ZoneSigner::public_key),
            Role::Secondary { .. } => None,
        };
        key(self) == key(other)
    }

    /// Stops answering: the zone's primary was away for too long.
    pub(super) fn expire(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = State::default();
    }

    /// Carries out an update: on the disk first, then in answers.
    ///
    /// # Errors
    /// If another one has taken this one's place meanwhile: that one is to carry it out.
    pub(super) async fn update(
        &self,
        store: &Arc<Store>,
        prerequisites: &[Record],
        updates: &[Record],
        now_s: u64,
    ) -> Result<Outcome, Arc<Self>> {
        let _alone = self.changing.lock().await;
        let (base, successor) = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            (state.base.clone(), state.successor.clone())
        };
        if let Some(successor) = successor {
            return Err(successor);
        }
        let Some(base) = base else {
            return Ok(Outcome::Failed("the zone is not loaded".to_owned()));
        };
        let newer = match base.updated(prerequisites, updates) {
            Ok(Some(newer)) => newer,
            Ok(None) => return Ok(Outcome::Unchanged),
            Err(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        Ok(self.commit(store, &base, newer, now_s).await)
    }

    /// Makes signatures anew that are due; the serial number rises with them.
    pub(super) async fn renew(&self, store: &Arc<Store>, now_s: u64) -> Outcome {
        let _alone = self.changing.lock().await;
        let Some(base) = self.state.read().unwrap_or_else(PoisonError::into_inner).base.clone() else {
            return Outcome::Unchanged;
        };
        let (Some(served), Role::Primary { signer: Some(_), .. }) = (self.served(), &self.role) else {
            return Outcome::Unchanged;
        };
        match self.signed(&base, Some(&served), now_s) {
            Ok(signed) if served.delta(&signed).added.is_empty() => Outcome::Unchanged,
            Ok(_) => {
                let newer = base.with_serial(base.serial().wrapping_add(1));
                self.commit(store, &base, newer, now_s).await
            }
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn commit(&self, store: &Arc<Store>, base: &Zone, newer: Zone, now_s: u64) -> Outcome {
        let (store, origin, delta) = (store.clone(), self.origin.clone(), base.delta(&newer));
        let stored = tokio::task::spawn_blocking(move || store.change(&origin, &delta)).await;
        let result: Result<(), String> = match stored {
            Ok(Ok(())) => self.serve(newer, now_s).map(|_| ()),
            Ok(Err(error)) => Err(in_words(&error)),
            Err(panic) => Err(panic.to_string()),
        };
        result.map_or_else(Outcome::Failed, |()| Outcome::Changed)
    }

    fn signed(&self, base: &Zone, previous: Option<&Zone>, now_s: u64) -> Result<Arc<Zone>, String> {
        match &self.role {
            Role::Primary { signer: Some(signer), .. } => {
                signer.sign(base, previous, now_s).map(Arc::new).map_err(|error| error.to_string())
            }
            Role::Primary { signer: None, .. } | Role::Secondary { .. } => Ok(Arc::new(base.clone())),
        }
    }

    /// The records of a transfer: the changes since `from`, or everything.
    pub(super) fn transfer(&self, from: Option<u32>) -> Option<Vec<Record>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let zone = state.served.as_ref()?;
        let changes = from.and_then(|from| state.history.since(from, zone));
        Some(changes.unwrap_or_else(|| whole(zone)))
    }
}

fn in_words(error: &StoreError) -> String {
    crate::error_chain(error)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use hickory_proto::rr::RData;
    use hickory_proto::rr::rdata::{A, NS, SOA};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn zone() -> Zone {
        let (origin, server) = (name("example.com."), name("ns.example.com."));
        let soa = SOA::new(server.clone(), name("admin.example.com."), 1, 3600, 600, 86400, 60);
        let records = [RData::SOA(soa), RData::NS(NS(server))];
        Zone::new(&origin, records.map(|data| Record::from_rdata(origin.clone(), 60, data))).unwrap()
    }

    fn hosted() -> Hosted {
        let role = Role::Primary { updaters: Vec::new(), signer: None };
        Hosted::new(&name("example.com."), role, Access::default(), Vec::new())
    }

    #[tokio::test]
    async fn an_update_that_waits_is_for_the_zone_that_comes() {
        let store = Arc::new(Store::in_memory().unwrap());
        let (old, new) = (hosted(), Arc::new(hosted()));
        store.replace(&zone()).unwrap();
        old.serve(zone(), 0).unwrap();
        let address = RData::A(A::new(192, 0, 2, 1));
        let record = [Record::from_rdata(name("www.example.com."), 60, address)];
        let pause = old.pause().await;
        let mut waiting = pin!(old.update(&store, &[], &record, 0));
        let is_waiting = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await);
        new.inherit(&old);
        pause.retire(&new);
        let successor = waiting.await.unwrap_err();
        assert!(Arc::ptr_eq(&successor, &new));
        assert!(matches!(successor.update(&store, &[], &record, 0).await, Ok(Outcome::Changed)));
        let serials = [&old, &*new].map(|hosted| hosted.served().unwrap().serial());
        assert_eq!(serials, [1, 2]);
    }
}
