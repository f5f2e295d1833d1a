//! Who waits, and who may go on to which server: the admission machine (`psmc_shares::admission`) with a clock, and those who wait
//! for what it decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use psmc_shares::admission::{
    Admission, Arrival, Config, ConfigError, Handle, LEAST_RETRY, Outcome, Ready, Reason, Refusal, Snapshot,
    Ticket,
};
use psmc_shares::{ClassId, ServerId};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// The gate before the servers. Cheap to call: the machine is behind one lock, which nobody holds while they wait.
pub(crate) struct Gate {
    machine: Mutex<Machine>,
    started: Instant,
    /// The machine wants to be woken earlier than it did.
    earlier: Notify,
}

struct Machine {
    admission: Admission,
    waiting: BTreeMap<Handle, oneshot::Sender<Result<Ticket, Refusal>>>,
    next_tick: Duration,
}

impl Gate {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let admission = Admission::new(config, Duration::ZERO)?;
        let next_tick = admission.next_tick();
        let machine = Machine { admission, waiting: BTreeMap::new(), next_tick };
        Ok(Self { machine: Mutex::new(machine), started: Instant::now(), earlier: Notify::new() })
    }

    /// Waits for a place at a server. Whoever stops waiting leaves the queue.
    ///
    /// # Errors
    /// [`Refusal`] if there will be none in time.
    pub(crate) async fn enter(self: &Arc<Self>, class: ClassId) -> Result<Permit, Refusal> {
        self.arrive(|admission, now| admission.arrive(class, now)).await
    }

    async fn arrive(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Admission, Duration) -> Arrival,
    ) -> Result<Permit, Refusal> {
        let mut waiting = None;
        let arrival = self.step(|machine, now| match ask(&mut machine.admission, now) {
            Arrival::Admitted(ticket) => Ok(Some(ticket)),
            Arrival::Refused(refusal) => Err(refusal),
            Arrival::Queued(handle) => {
                let (tell, told) = oneshot::channel();
                machine.waiting.insert(handle, tell);
                waiting = Some(Waiting { gate: self.clone(), handle, told });
                Ok(None)
            }
        });
        let ticket = match (arrival?, waiting) {
            (Some(ticket), _) => ticket,
            (None, Some(mut waiting)) => (&mut waiting.told).await.unwrap_or_else(|_| Err(gone()))?,
            (None, None) => return Err(gone()),
        };
        Ok(Permit { gate: self.clone(), ticket: Some(ticket) })
    }

    /// Wakes the machine when it wants to be, for ever.
    pub(crate) async fn keep_time(&self) {
        loop {
            let next = self.lock().next_tick;
            tokio::select! {
                () = sleep_until(self.started + next) => self.step(|machine, now| machine.admission.tick(now)),
                () = self.earlier.notified() => {}
            }
        }
    }

    /// A server takes requests, or does not.
    pub(crate) fn set_available(&self, server: ServerId, is_available: bool) {
        self.step(|machine, now| machine.admission.set_available(server, is_available, now));
    }

    /// Goes by another configuration.
    pub(crate) fn reconfigure(&self, config: Config) -> Result<(), ConfigError> {
        self.step(|machine, now| machine.admission.reconfigure(config, now))
    }

    /// How it stands.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let now = self.started.elapsed();
        self.lock().admission.snapshot(now)
    }

    /// One call of the machine, and what follows from it.
    fn step<T>(&self, call: impl FnOnce(&mut Machine, Duration) -> T) -> T {
        let mut machine = self.lock();
        let now = self.started.elapsed();
        let returned = call(&mut machine, now);
        machine.tell(now);
        let next = machine.admission.next_tick();
        let is_earlier = next < machine.next_tick;
        machine.next_tick = next;
        drop(machine);
        if is_earlier {
            self.earlier.notify_one();
        }
        returned
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        // A panic in the machine is a bug that was told; the counters of one request are not worth all others.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine {
    /// Tells those who wait what has become of them.
    fn tell(&mut self, now: Duration) {
        while let Some(ready) = self.admission.poll_ready() {
            let (handle, told) = match ready {
                Ready::Admitted { handle, ticket } => (handle, Ok(ticket)),
                Ready::Expired { handle, refusal } => (handle, Err(refusal)),
            };
            let untold = match self.waiting.remove(&handle) {
                Some(tell) => tell.send(told).err(),
                None => Some(told),
            };
            if let Some(Ok(ticket)) = untold {
                self.admission.finish(ticket, Outcome::Abandoned, now);
            }
        }
    }
}

/// One who waits, and leaves the queue when it is dropped.
struct Waiting {
    gate: Arc<Gate>,
    handle: Handle,
    told: oneshot::Receiver<Result<Ticket, Refusal>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (handle, told) = (self.handle, &mut self.told);
        self.gate.step(|machine, now| {
            if machine.waiting.remove(&handle).is_some() {
                machine.admission.cancel(handle, now);
            } else if let Ok(Ok(ticket)) = told.try_recv() {
                // It was told in the moment in which it went away.
                machine.admission.finish(ticket, Outcome::Abandoned, now);
            }
        });
    }
}

/// A place at a server, given back when it is dropped: as abandoned, unless [`Permit::end`] says otherwise.
pub(crate) struct Permit {
    gate: Arc<Gate>,
    ticket: Option<Ticket>,
}

impl Permit {
    /// The server.
    pub(crate) fn server(&self) -> ServerId {
        self.ticket.as_ref().map_or(ServerId(0), Ticket::server)
    }

    /// How long the request has waited for it.
    pub(crate) fn waited(&self) -> Duration {
        self.ticket.as_ref().map_or(Duration::ZERO, Ticket::waited)
    }

    /// The head of the answer has come.
    pub(crate) fn answered(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            self.gate.step(|machine, now| machine.admission.answered(ticket, now));
        }
    }

    /// The server could not be reached: waits for another place, before all others of the class.
    ///
    /// # Errors
    /// [`Refusal`] if there will be none in time.
    pub(crate) async fn again(mut self) -> Result<Self, Refusal> {
        let gate = self.gate.clone();
        match self.ticket.take() {
            Some(ticket) => gate.arrive(|admission, now| admission.retry(ticket, now)).await,
            None => Err(gone()),
        }
    }

    /// The request has ended.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            self.gate.step(|machine, now| machine.admission.finish(ticket, outcome, now));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(Outcome::Abandoned);
    }
}

/// What is said where the machine has gone while somebody waited for it.
fn gone() -> Refusal {
    Refusal { reason: Reason::NoServer, retry_after: LEAST_RETRY }
}
