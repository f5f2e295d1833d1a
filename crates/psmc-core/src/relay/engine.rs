//! The engine of one worker of a relay.

mod challenges;
mod forward;

use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_wire::Label;
use psmc_wire::counts::LaneCounts;
use psmc_wire::hop::{HOP_KEY_LEN, Hop, HopKey};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::SessionId;
use rand_pcg::Pcg64Mcg;
use thiserror::Error;

use self::challenges::Challenges;
use super::labels::{Entry, Labels};
use super::queues::Queues;
use super::rio::Lane;
use super::session::{Address, End, Inside, Leg, NANOS_PER_MICRO, Session, Side};
use super::shedding::Shedding;
use super::{LaneStatus, Refusals, SessionStatus};
use crate::limiter::{Limiter, Ticket};
use crate::shed::Held;

/// Sessions that nobody uses are looked for so often in the time after which they are forgotten.
const SWEEPS_PER_IDLE: u32 = 4;

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Sessions at most. The tables take 50 bytes for each, used or not.
    pub max_sessions: u32,
    /// Datagrams that wait at most, of all sessions together.
    pub max_waiting: usize,
    /// A session is forgotten after this time without an authentic datagram or a refresh.
    pub idle: Duration,
    /// Which of how many workers this is.
    pub worker: (u8, u8),
    /// What all workers may send together.
    pub total: Arc<Limiter>,
    /// For the drops of the queues, which need not be unpredictable.
    pub seed: u64,
    /// Where its clock begins.
    pub origin: Instant,
}

/// A session to be made.
#[derive(Debug)]
pub struct SessionSpec {
    /// The right to it.
    pub ticket: Ticket,
    /// What it may carry in each direction, in bits per second.
    pub rate: Option<u64>,
    /// Where its far end is, if that is known.
    pub address: Option<Address>,
    /// Who it is, if that is known.
    pub far_site: Option<KeyBytes>,
    /// How datagrams leave towards it.
    pub far: Leg,
    /// What the near end's datagrams say within their tunnel, if they come in one.
    pub near_inside: Option<Inside>,
}

/// There is no room for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the relay has as many sessions as it may have")]
pub struct AddError;

/// There is no such session, or it is another site's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no such session")]
pub struct NoSession;

/// A session made: its id, and what datagrams of its near and its far end must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The session.
    pub id: SessionId,
    /// For the near end.
    pub near: Hop,
    /// For the far end.
    pub far: Hop,
}

/// What was counted of a session by colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCounts {
    /// The relay's clock, in microseconds since its origin.
    pub clock_us: u64,
    /// Of what comes from the near end.
    pub to_far: LaneCounts,
    /// Of what comes from the far end.
    pub to_near: LaneCounts,
}

/// The engine of one worker of a relay.
///
/// 1. [`handle_datagram`](Self::handle_datagram) says what is to be sent for a datagram at once; what has to wait is
///    copied.
/// 2. When the time of [`poll_timeout`](Self::poll_timeout) has come: [`handle_timeout`](Self::handle_timeout), then
///    [`poll_waiting`](Self::poll_waiting) until `None`; what it gives is sent and given back by
///    [`recycle`](Self::recycle). To be early or to ask too often is harmless.
/// 3. Sessions are made, changed and looked at between those, in any order.
#[derive(Debug)]
pub struct Relay {
    /// What went no further.
    pub refusals: Refusals,
    sessions: Vec<Option<Box<Session>>>,
    free: Vec<u32>,
    labels: Labels,
    queues: Queues,
    challenges: Challenges,
    shedding: Shedding,
    total: Arc<Limiter>,
    rng: Pcg64Mcg,
    idle: u64,
    next_sweep: u64,
    generation: u32,
    origin: Instant,
}

impl Relay {
    /// A relay without sessions.
    #[must_use]
    pub fn new(config: &RelayConfig) -> Self {
        let idle = u64::try_from(config.idle.as_nanos()).unwrap_or(u64::MAX);
        Self {
            refusals: Refusals::default(),
            sessions: Vec::new(),
            free: (0..config.max_sessions).rev().collect(),
            labels: Labels::new(2 * config.max_sessions as usize, config.worker),
            queues: Queues::new(config.max_waiting),
            challenges: Challenges::default(),
            shedding: Shedding::default(),
            total: config.total.clone(),
            rng: Pcg64Mcg::new(u128::from(config.seed)),
            idle,
            next_sweep: idle / u64::from(SWEEPS_PER_IDLE),
            generation: 0,
            origin: config.origin,
        }
    }

    /// Makes a session. `random` gives 32 unpredictable bytes at each call, for its keys, labels and id.
    ///
    /// # Errors
    /// [`AddError`] if there is no room for it.
    pub fn add(
        &mut self,
        spec: SessionSpec,
        mut random: impl FnMut() -> [u8; 32],
        now: Instant,
    ) -> Result<Added, AddError> {
        let index = self.free.pop().ok_or(AddError)?;
        let [near, far] = [Side::Near, Side::Far].map(|from| {
            let label = self.labels.insert(Entry { session: index, from }, || number(random()));
            Hop { label, key: key(random()) }
        });
        let secret = key(random());
        let id = SessionId(u64::from(number(random())) << 32 | u64::from(near.label.0));
        let now = self.clock(now);
        self.generation = self.generation.wrapping_add(1);
        let session = Session {
            id,
            generation: self.generation,
            ticket: spec.ticket,
            far_site: spec.far_site,
            reserved_rate: spec.rate,
            used_at: now,
            ends: [
                End::new(near.clone(), Leg::Site, None).inside(spec.near_inside),
                End::new(far.clone(), spec.far, spec.address),
            ],
            lanes: [Lane::new(spec.rate, now), Lane::new(spec.rate, now)],
            secret,
            challenges: 0,
            passages: None,
        };
        if self.sessions.len() <= index as usize {
            self.sessions.resize_with(index as usize + 1, || None);
        }
        self.sessions[index as usize] = Some(Box::new(session));
        Ok(Added { id, near, far })
    }

    /// Forgets a session of `site`.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn remove(&mut self, id: SessionId, site: KeyBytes, now: Instant) -> Result<(), NoSession> {
        let index = self.find(id, site)?;
        self.forget(index, self.clock(now));
        Ok(())
    }

    /// Forgets all sessions of `site`.
    pub fn remove_site(&mut self, site: KeyBytes, now: Instant) {
        let now = self.clock(now);
        self.forget_those(now, |session| session.ticket.account().key() == site);
    }

    /// Keeps a session of `site` for another idle time.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn refresh(&mut self, id: SessionId, site: KeyBytes, now: Instant) -> Result<(), NoSession> {
        let now = self.clock(now);
        self.session_of(id, site)?.used_at = now;
        Ok(())
    }

    /// Caps the rate of a session of `site` below what was agreed when it was made; `None` goes back to that.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn cap(&mut self, id: SessionId, site: KeyBytes, rate: Option<u64>) -> Result<(), NoSession> {
        let session = self.session_of(id, site)?;
        let rate = [rate, session.reserved_rate].into_iter().flatten().min();
        for lane in &session.lanes {
            lane.limiter.set_rate(rate);
        }
        Ok(())
    }

    /// Sets the hop header of what goes to the near end of a session of `site`, for the relay that stands there.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn chain(&mut self, id: SessionId, site: KeyBytes, hop: Hop) -> Result<(), NoSession> {
        self.session_of(id, site)?.ends[Side::Near.index()].set_leg(Leg::Relay(hop));
        Ok(())
    }

    /// What was counted by colour of a session of `site`. Each delay sample is told once, and none is kept before this is first
    /// called.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn count(&mut self, id: SessionId, site: KeyBytes, now: Instant) -> Result<SessionCounts, NoSession> {
        let clock_us = self.clock(now) / NANOS_PER_MICRO;
        let session = self.session_of(id, site)?;
        let [to_far, to_near] = [Side::Far, Side::Near].map(|to| session.counts(to));
        Ok(SessionCounts { clock_us, to_far, to_near })
    }

    /// Drops for a site, from now on, what these rules say of what goes to it: nothing if there are none. They end by themselves.
    pub fn set_rules(&mut self, site: KeyBytes, rules: Option<Arc<Held>>) {
        self.shedding.set(site, rules);
    }

    /// Whether this is the hop of an end of a session here: who knows its key speaks for that end.
    #[must_use]
    pub fn has_hop(&self, hop: &Hop) -> bool {
        let Some(entry) = self.labels.find(hop.label) else { return false };
        let session = self.sessions.get(entry.session as usize).and_then(Option::as_deref);
        session.is_some_and(|session| session.ends[entry.from.index()].hop == *hop)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        let of_queues = self.queues.next_due().unwrap_or(u64::MAX);
        let due = if self.challenges.is_empty() { of_queues.min(self.next_sweep) } else { 0 };
        self.origin + Duration::from_nanos(due)
    }

    /// Forgets sessions that nobody uses.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock(now);
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.idle / u64::from(SWEEPS_PER_IDLE);
        self.shedding.forget(now);
        let idle = self.idle;
        self.forget_those(now, |session| now.saturating_sub(session.used_at) >= idle);
    }

    /// All sessions.
    pub fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionStatus> + '_ {
        let now = self.clock(now);
        self.sessions.iter().flatten().map(move |session| session_status(session, now))
    }

    fn forget_those(&mut self, now: u64, which: impl Fn(&Session) -> bool) {
        for index in 0..self.sessions.len() {
            if self.sessions[index].as_deref().is_some_and(&which) {
                self.forget(u32::try_from(index).unwrap_or(u32::MAX), now);
            }
        }
    }

    fn forget(&mut self, index: u32, now: u64) {
        let Some(mut session) = self.sessions.get_mut(index as usize).and_then(Option::take) else { return };
        for lane in &mut session.lanes {
            while let Some(buffer) = lane.pop(now, &mut self.queues.slab) {
                self.queues.recycle(buffer);
            }
        }
        for end in &session.ends {
            self.labels.remove(end.hop.label);
        }
        self.free.push(index);
    }

    fn session_of(&mut self, id: SessionId, site: KeyBytes) -> Result<&mut Session, NoSession> {
        let index = self.find(id, site)?;
        self.sessions[index as usize].as_deref_mut().ok_or(NoSession)
    }

    /// The lower half of an id is the label of the near end, so that no further table is needed.
    #[expect(clippy::cast_possible_truncation, reason = "truncation is its purpose")]
    fn find(&self, id: SessionId, site: KeyBytes) -> Result<u32, NoSession> {
        let entry = self.labels.find(Label(id.0 as u32)).ok_or(NoSession)?;
        let session = self.sessions.get(entry.session as usize).and_then(Option::as_deref);
        let is_it = |session: &Session| session.id == id && session.ticket.account().key() == site;
        if session.is_some_and(is_it) { Ok(entry.session) } else { Err(NoSession) }
    }

    /// In nanoseconds since the origin.
    fn clock(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

fn session_status(session: &Session, now: u64) -> SessionStatus {
    let [to_near, to_far] = [Side::Near, Side::Far].map(|to| {
        let lane = &session.lanes[to.index()];
        LaneStatus {
            address: session.ends[to.index()].address,
            datagrams: lane.datagrams,
            bytes: lane.bytes,
            waiting: lane.len().into(),
            dropped: lane.dropped,
        }
    });
    SessionStatus {
        id: session.id,
        site: session.ticket.account().key(),
        rate: session.lanes[0].limiter.rate(),
        idle_s: now.saturating_sub(session.used_at) / 1_000_000_000,
        to_far,
        to_near,
    }
}

/// A number of four of the bytes.
fn number(bytes: [u8; 32]) -> u32 {
    let [a, b, c, d, ..] = bytes;
    u32::from_be_bytes([a, b, c, d])
}

/// A key of half of the bytes.
fn key(bytes: [u8; 32]) -> HopKey {
    let mut key = HopKey([0; HOP_KEY_LEN]);
    key.0.copy_from_slice(&bytes[..HOP_KEY_LEN]);
    key
}
