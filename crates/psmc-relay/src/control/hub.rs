//! What all control connections of a relay have in common.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;

use psmc_core::relay::{
    AddError, Added, Address, Inside, Leg, Limiter, SessionCounts, SessionSpec, worker_of,
};
use psmc_net::keys::{PublicKey, random_seed};
use psmc_service::clock::unix_seconds;
use psmc_wire::Label;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{
    Abilities, Cap, CapTarget, Counted, Far, Hello, Message, Refusal, RequestId, Reserve, ReserveTunnel,
    Reserved, Revoke, SessionId, SignedGrant, StreamId, VERSION,
};

use super::served::Served;
use super::shedding::Rules;
use super::streams::{Gateways, Limits};
use super::tunnels::ends_of;
use super::{Denied, Member, SiteStream, Whereabouts};
use crate::config::{Config, Networks, Site};
use crate::relay::TUNNELS_WORKER;
use crate::worker::{Handle, Worker, WorkerDied};

/// Where a session leads, if that is known, and how its datagrams leave.
type FarEnd = (Option<Address>, Leg);

/// What all control connections of a relay have in common.
pub(crate) struct Hub {
    pub(crate) name: String,
    pub(crate) data_port: u16,
    pub(crate) gateways: Gateways<SiteStream>,
    /// Shared with the worker that moves what is in tunnels.
    pub(crate) ends: Arc<Whereabouts>,
    key: PublicKey,
    coordinator: Option<PublicKey>,
    destinations: Networks,
    idle_s: u32,
    workers: Vec<Handle>,
    next_worker: AtomicUsize,
    served: Mutex<Served>,
    total: Arc<Limiter>,
    /// From when on limiters count.
    pub(super) origin: Instant,
    /// What sites have dropped of what goes to them.
    pub(super) rules: Rules,
    max_rate: Option<u64>,
}

impl Hub {
    pub(crate) fn new(
        config: &Config,
        workers: Vec<Handle>,
        data_port: u16,
        (total, origin): (Arc<Limiter>, Instant),
    ) -> Self {
        Self {
            name: config.name.to_string(),
            data_port,
            gateways: Gateways::default(),
            ends: Arc::new(ends_of(&config.tunnels)),
            key: config.private_key.public(),
            coordinator: config.coordinator,
            destinations: config.destinations.clone(),
            idle_s: u32::try_from(config.idle.as_secs()).unwrap_or(u32::MAX),
            workers,
            next_worker: AtomicUsize::new(0),
            served: Mutex::new(Served::listed(&config.sites)),
            total,
            origin,
            rules: Rules::new(&config.tunnels),
            max_rate: config.max_rate.map(psmc_toml::Rate::bits_per_second),
        }
    }

    /// Who it is that has proved to own `key` and says hello, if it may.
    pub(crate) fn admit(&self, key: PublicKey, hello: &Hello) -> Result<Arc<Member>, Denied> {
        if hello.version < VERSION {
            let text = format!("this relay speaks version {VERSION}, the site {}", hello.version);
            return Err(Denied::new(Refusal::Version, text));
        }
        let bytes = KeyBytes(*key.as_bytes());
        if Some(key) == self.coordinator {
            return Ok(Arc::new(Member::coordinator(bytes)));
        }
        match &hello.grant {
            Some(grant) => self.admit_granted(bytes, &hello.name, grant),
            None => {
                self.served().get(bytes).filter(|member| member.counts_at(unix_seconds())).ok_or_else(|| {
                    Denied::new(
                        Refusal::Grant,
                        "no grant, and the relay does not know this key: add an [[allow]] for it",
                    )
                })
            }
        }
    }

    fn admit_granted(&self, key: KeyBytes, name: &str, signed: &SignedGrant) -> Result<Arc<Member>, Denied> {
        let denied = |text: &str| Denied::new(Refusal::Grant, text);
        let coordinator = self.coordinator.ok_or_else(|| denied("this relay knows no coordinator"))?;
        let grant = &signed.grant;
        if !coordinator.has_signed(&grant.signed_bytes(), &signed.signature) {
            return Err(denied("the grant is not signed by this relay's coordinator"));
        }
        if grant.site != key || grant.relay.0 != *self.key.as_bytes() {
            return Err(denied("the grant is for another site, or for another relay"));
        }
        let now = unix_seconds();
        if grant.expires_s < now {
            return Err(denied("the grant has expired: ask the coordinator for another"));
        }
        self.served()
            .grant(name, grant, now)
            .ok_or_else(|| denied("the coordinator has taken this grant back: ask it for another"))
    }

    /// Serves the sites that the configuration lists by now. Those that it lists no more lose their connections and their
    /// sessions.
    pub(crate) async fn reload(&self, sites: &[Site]) -> Result<(), WorkerDied> {
        let gone = self.served().replace_listed(sites);
        for member in gone {
            self.expel(&member).await?;
        }
        Ok(())
    }

    /// Takes grants of a site back. If it is served because of them its connections, streams and sessions end.
    pub(crate) async fn revoke(&self, member: &Member, wanted: Revoke) -> Result<(), Denied> {
        if !member.is_coordinator {
            return Err(Denied::new(Refusal::NotAllowed, "only the coordinator may take grants back"));
        }
        let gone = self.served().revoke(wanted.site, wanted.until_s, unix_seconds())?;
        if let Some(gone) = gone {
            tracing::info!(site = %gone.name, "the coordinator has taken the grant back");
            self.expel(&gone).await?;
        }
        Ok(())
    }

    /// Ends connections, streams and sessions of a site that is served no more.
    async fn expel(&self, member: &Member) -> Result<(), WorkerDied> {
        // What it asks for from here on is refused by the workers themselves.
        member.revoke();
        let key = member.account.key();
        self.of_each_worker(move |worker| worker.relay.remove_site(key, Instant::now())).await?;
        self.forget_rules(key).await
    }

    /// Makes the session that a site asks for.
    pub(crate) async fn reserve(&self, member: &Member, wanted: Reserve) -> Result<Reserved, Denied> {
        Self::check_grant(member)?;
        let far = self.far_end(&wanted.far)?;
        let first = self.next_worker.fetch_add(1, Ordering::Relaxed);
        for number in first..first.saturating_add(self.workers.len()) {
            let worker = &self.workers[number % self.workers.len()];
            if let Some(reserved) = self.reserve_at(worker, member, &wanted, (far.clone(), None)).await? {
                return Ok(reserved);
            }
        }
        Err(Denied::full())
    }

    /// Makes the session that a site asks for, which sends and receives in IP-in-IP.
    pub(crate) async fn reserve_tunnel(
        &self,
        member: &Member,
        wanted: ReserveTunnel,
    ) -> Result<Reserved, Denied> {
        let ReserveTunnel { session, inside: own } = wanted;
        Self::check_grant(member)?;
        let far = self.far_end(&session.far)?;
        let Some(SocketAddr::V4(peer)) = far.0.map(|address| address.remote) else {
            let text = "within IP-in-IP a session leads to an IPv4 address";
            return Err(Denied::new(Refusal::NotAllowed, text));
        };
        let worker = self.tunnels_worker();
        if !worker.call(|worker| worker.has_tunnels()).await? {
            let text = "this relay takes no IP-in-IP: it needs the right CAP_NET_RAW, and no `ipip = false`";
            return Err(Denied::new(Refusal::NotAllowed, text));
        }
        let inside = Inside { own, peer };
        let reserved = self.reserve_at(worker, member, &session, (far, Some(inside))).await?;
        reserved.ok_or_else(Denied::full)
    }

    /// Makes a session that belongs to a worker; `None` if that has as many as it may.
    async fn reserve_at(
        &self,
        worker: &Handle,
        member: &Member,
        wanted: &Reserve,
        ((address, far), near_inside): (FarEnd, Option<Inside>),
    ) -> Result<Option<Reserved>, Denied> {
        let ticket = member.account.take_session().ok_or_else(|| {
            let text = format!("this site has {} sessions, as many as it may", member.account.max_sessions());
            Denied::new(Refusal::Limit, text)
        })?;
        let rate = [wanted.rate, member.session_rate].into_iter().flatten().min();
        let far_site = match wanted.far {
            Far::Gateway(key) => Some(key),
            Far::Address(_) | Far::Relay(..) => None,
        };
        let spec = SessionSpec { ticket, rate, address, far_site, far, near_inside };
        let revoked = member.watch_revoked();
        let added = worker.call(move |worker| {
            // Before its sessions are removed, or not at all.
            let is_served = !*revoked.borrow();
            is_served.then(|| worker.relay.add(spec, random_seed, Instant::now()))
        });
        let added = added.await?.ok_or_else(Denied::no_longer)?;
        let Added { id, near, far } = match added {
            Ok(added) => added,
            Err(AddError) => return Ok(None),
        };
        tracing::debug!(site = %member.name, session = id.0, "session reserved");
        let request = wanted.request;
        Ok(Some(Reserved { request, session: id, near, far, rate, idle_s: self.idle_s }))
    }

    fn far_end(&self, far: &Far) -> Result<FarEnd, Denied> {
        let at = |remote: &SocketAddr| Some(Address::of(*remote));
        match far {
            Far::Address(remote) => self.check_destination(remote.ip()).map(|()| (at(remote), Leg::Site)),
            Far::Relay(remote, hop) => {
                self.check_destination(remote.ip()).map(|()| (at(remote), Leg::Relay(hop.clone())))
            }
            Far::Gateway(key) if self.gateways.has(*key) => Ok((None, Leg::Site)),
            Far::Gateway(_) => Err(Denied::no_gateway()),
        }
    }

    /// Whether a site may still make sessions and streams.
    pub(crate) fn check_grant(member: &Member) -> Result<(), Denied> {
        if member.counts_at(unix_seconds()) {
            return Ok(());
        }
        Err(Denied::new(Refusal::Grant, "the grant has expired: say hello again, with another"))
    }

    /// What a stream of a site may carry.
    pub(crate) fn stream_limits<'a>(&'a self, member: &'a Member) -> Limits<'a> {
        Limits::new(member.session_rate, &member.account, &self.total, self.origin)
    }

    /// Whether sessions and streams may lead there.
    pub(crate) fn check_destination(&self, ip: IpAddr) -> Result<(), Denied> {
        if self.destinations.contains(ip) {
            return Ok(());
        }
        Err(Denied::new(
            Refusal::NotAllowed,
            format!("this relay does not lead to {ip}: see its `destinations`"),
        ))
    }

    /// Does what a site wants of one of its sessions.
    pub(crate) async fn with_session<T: Send + 'static>(
        &self,
        id: SessionId,
        work: impl FnOnce(&mut Worker) -> Result<T, psmc_core::relay::NoSession> + Send + 'static,
    ) -> Result<T, Denied> {
        let workers = u8::try_from(self.workers.len()).unwrap_or(u8::MAX);
        // The lower half of an id is a label, which says whose the session is.
        #[expect(clippy::cast_possible_truncation, reason = "truncation is its purpose")]
        let worker = &self.workers[usize::from(worker_of(Label(id.0 as u32), workers))];
        worker.call(work).await?.map_err(|error| Denied::new(Refusal::UnknownSession, error.to_string()))
    }

    /// What has been counted of a session of a site.
    pub(crate) async fn count(
        &self,
        member: &Member,
        request: RequestId,
        session: SessionId,
    ) -> Result<Counted, Denied> {
        let site = member.account.key();
        let count = move |worker: &mut Worker| worker.relay.count(session, site, Instant::now());
        let SessionCounts { clock_us, to_far, to_near } = self.with_session(session, count).await?;
        Ok(Counted { request, session, clock_us, to_far, to_near })
    }

    /// Caps a rate.
    pub(crate) async fn cap(&self, member: &Member, cap: Cap) -> Result<(), Denied> {
        let site = member.account.key();
        match cap.target {
            CapTarget::Session(id) => {
                self.with_session(id, move |worker| worker.relay.cap(id, site, cap.rate)).await
            }
            CapTarget::Site(_) | CapTarget::Relay if !member.is_coordinator => {
                Err(Denied::new(Refusal::NotAllowed, "only the coordinator may cap a site or a relay"))
            }
            CapTarget::Site(key) => {
                let capped = self.served().get(key);
                let capped =
                    capped.ok_or_else(|| Denied::new(Refusal::NotAllowed, "the relay knows no such site"))?;
                capped.cap(cap.rate);
                Ok(())
            }
            CapTarget::Relay => {
                self.total.set_rate([cap.rate, self.max_rate].into_iter().flatten().min());
                Ok(())
            }
        }
    }

    /// Asks each worker for something.
    pub(crate) async fn of_each_worker<T: Send + 'static>(
        &self,
        ask: impl Fn(&mut Worker) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, WorkerDied> {
        let mut answers = Vec::new();
        for worker in &self.workers {
            answers.push(worker.call(ask.clone()).await?);
        }
        Ok(answers)
    }

    /// Waits until a worker has ended by itself.
    pub(crate) async fn worker_died(&self) -> WorkerDied {
        let mut ended: Vec<_> = self.workers.iter().map(|worker| Box::pin(worker.ended())).collect();
        poll_fn(|cx| match ended.iter_mut().any(|ended| ended.as_mut().poll(cx).is_ready()) {
            true => Poll::Ready(WorkerDied),
            false => Poll::Pending,
        })
        .await
    }

    /// The worker that moves what comes in IP-in-IP.
    pub(super) fn tunnels_worker(&self) -> &Handle {
        &self.workers[usize::from(TUNNELS_WORKER)]
    }

    /// Whether whoever has a grant is served.
    pub(crate) fn takes_grants(&self) -> bool {
        self.coordinator.is_some()
    }

    /// Everybody who is served.
    pub(crate) fn all_members(&self) -> Vec<Arc<Member>> {
        self.served().all()
    }

    /// What all workers may send together, in bits per second.
    pub(crate) fn total_rate(&self) -> Option<u64> {
        self.total.rate()
    }

    /// The gateway with that key, if it is served.
    pub(crate) fn gateway(&self, key: KeyBytes) -> Option<Arc<Member>> {
        self.served().get(key)
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        // Members are inserted and removed in one step each, so that a poisoned lock holds whole maps too.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new name for a stream.
pub(crate) fn new_stream_id() -> StreamId {
    let [a, b, c, d, e, f, g, h, ..] = random_seed();
    StreamId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// What a relay says when it serves a site.
pub(crate) fn welcome(hub: &Hub, member: &Member) -> Message {
    Message::Welcome(psmc_wire::relay::Welcome {
        version: VERSION,
        data_port: hub.data_port,
        sessions: u16::try_from(member.account.max_sessions()).unwrap_or(u16::MAX),
        max_rate: member.rate(),
        name: hub.name.clone(),
        abilities: Abilities { counts: true, revokes: true, sheds: true },
    })
}
