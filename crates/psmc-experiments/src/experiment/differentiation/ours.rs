//! Our front, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_shares::ClassId;
use psmc_shares::admission::{Admission, Arrival, Config, Handle, Outcome, Ready, Snapshot, Ticket};
use psmc_sim::farm::{Decision, Front, RequestId};

/// An [`Admission`] that is told by the simulator what it would be told by a proxy.
pub(super) struct Ours {
    admission: Admission,
    waiting: BTreeMap<Handle, RequestId>,
    tickets: BTreeMap<RequestId, Ticket>,
    decided: Option<Decision>,
}

impl Ours {
    pub(super) fn new(config: Config) -> Option<Self> {
        let admission = Admission::new(config, Duration::ZERO).ok()?;
        Some(Self { admission, waiting: BTreeMap::new(), tickets: BTreeMap::new(), decided: None })
    }

    pub(super) fn snapshot(&self, now: Duration) -> Snapshot {
        self.admission.snapshot(now)
    }

    fn serve(&mut self, request: RequestId, ticket: Ticket) -> Decision {
        let server = ticket.server().0;
        self.tickets.insert(request, ticket);
        Decision::Serve(request, server)
    }
}

impl Front for Ours {
    fn arrive(&mut self, request: RequestId, class: usize, now: Duration) {
        match self.admission.arrive(ClassId(class), now) {
            Arrival::Admitted(ticket) => self.decided = Some(self.serve(request, ticket)),
            Arrival::Refused(_) => self.decided = Some(Decision::Refuse(request)),
            Arrival::Queued(handle) => {
                self.waiting.insert(handle, request);
            }
        }
    }

    fn answered(&mut self, request: RequestId, now: Duration) {
        if let Some(ticket) = self.tickets.remove(&request) {
            self.admission.finish(ticket, Outcome::Answered, now);
        }
    }

    fn tick(&mut self, now: Duration) {
        self.admission.tick(now);
    }

    fn next_tick(&self) -> Option<Duration> {
        Some(self.admission.next_tick())
    }

    fn poll(&mut self) -> Option<Decision> {
        if let Some(decision) = self.decided.take() {
            return Some(decision);
        }
        match self.admission.poll_ready()? {
            Ready::Admitted { handle, ticket } => {
                let request = self.waiting.remove(&handle)?;
                Some(self.serve(request, ticket))
            }
            Ready::Expired { handle, .. } => self.waiting.remove(&handle).map(Decision::Refuse),
        }
    }
}
