//! Settings that change while a site runs. No packet is lost by any of them.

use std::collections::BTreeSet;

use ipnet::IpNet;
use psmc_wire::shed::{Answer, Rule};

use super::{PeerError, Site};
use crate::classify::{ClassConfig, Classes};
use crate::ids::PeerId;
use crate::mss::ClampMss;
use crate::police::{AggregateStatus, Candidate, PoliceConfig};
use crate::session::{Session, ShedError};

impl Site {
    /// Gives peers other prefixes, with these priorities, all of them at the same time: one that moves from a peer to another is never
    /// nobody's.
    ///
    /// # Errors
    /// [`PeerError`] if there is no such peer, or a prefix belongs to one of the same priority that is not among `changes`; nothing is
    /// changed then.
    pub fn set_allowed_ips(&mut self, changes: &[(PeerId, Vec<IpNet>, u8)]) -> Result<(), PeerError> {
        let changed: BTreeSet<_> = changes.iter().map(|(peer, ..)| *peer).collect();
        for (peer, prefixes, priority) in changes {
            if !self.peers.contains_key(peer) {
                return Err(PeerError::Unknown);
            }
            let owner = |prefix: &&IpNet| self.shared.routes.claimant(**prefix, *priority);
            let is_taken = |prefix: &&IpNet| owner(prefix).is_some_and(|owner| !changed.contains(&owner));
            if let Some(&prefix) = prefixes.iter().find(is_taken) {
                return Err(PeerError::PrefixTaken(prefix));
            }
        }
        for (peer, prefixes, priority) in changes {
            let Some(session) = self.peers.get_mut(peer) else { continue };
            let before = std::mem::replace(&mut session.config.allowed_ips, prefixes.clone());
            before.into_iter().for_each(|prefix| self.shared.routes.release(prefix, *peer));
            session.config.gateway.priority = *priority;
        }
        for (peer, prefixes, priority) in changes {
            for &prefix in prefixes {
                // Nobody else claims it, but for two of `changes` that want the same one: the first has it.
                let _ = self.shared.routes.claim(prefix, *priority, *peer);
            }
        }
        Ok(())
    }

    /// Sorts packets into these classes from now on. Those that wait go before all that come.
    pub fn set_classes(&mut self, classes: Vec<ClassConfig>) {
        self.shared.classes = Classes::new(classes);
        if let Some(flows) = &mut self.shared.flows {
            flows.set_classes(&self.shared.classes);
        }
        self.shared.conditioners.set_classes(self.shared.classes.list());
        for (&peer, session) in &mut self.peers {
            session.set_classes(&mut self.shared);
            self.busy.insert(peer);
        }
    }

    /// Does this with the MSS of inner TCP connections that are opened from now on.
    pub fn set_clamp_mss(&mut self, clamp_mss: ClampMss) {
        self.shared.clamp_mss = clamp_mss;
    }

    /// Holds flows down from now on that heed no loss, or nobody with `None`. What is known of them is forgotten.
    pub fn set_police(&mut self, police: Option<PoliceConfig>) {
        self.shared.police = police;
        for session in self.peers.values_mut() {
            session.set_police(&self.shared);
        }
    }

    /// These are suspected from now on of what is dropped on the way to a peer, and no others. [`set_police`](Self::set_police) forgets
    /// them.
    pub fn suspect(&mut self, peer: PeerId, candidates: &[Candidate]) {
        if let Some(session) = self.peers.get_mut(&peer) {
            session.suspect(candidates);
        }
    }

    /// Asks a peer to drop what these rules say of what goes to this site, until they are asked for again, or so many milliseconds have
    /// passed. `serial` is larger than in any call before, over restarts too.
    ///
    /// # Errors
    /// [`ShedError`].
    pub fn shed(
        &mut self,
        peer: PeerId,
        rules: Vec<Rule>,
        serial: u64,
        lifetime_ms: u32,
    ) -> Result<(), ShedError> {
        let session = self.peers.get_mut(&peer).ok_or(ShedError::Unknown)?;
        session.shed(rules, serial, lifetime_ms, &mut self.shared)
    }

    /// What a peer has answered to the newest such question.
    #[must_use]
    pub fn shedding(&self, peer: PeerId) -> Option<&Answer> {
        self.peers.get(&peer)?.shedding_answer()
    }

    /// The flows to a peer that lose much, the closest first: none while all is well, or nobody is held down.
    #[must_use]
    pub fn aggregates(&self, peer: PeerId) -> Vec<AggregateStatus> {
        self.peers.get(&peer).map(Session::aggregates).unwrap_or_default()
    }

    /// What the class of this number is called.
    #[must_use]
    pub fn class_name(&self, class: u8) -> Option<&str> {
        self.shared.classes.list().get(usize::from(class)).map(|class| class.name.as_str())
    }
}
